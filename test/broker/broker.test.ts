/** The broker in memory: what a client is answered, API by API. */
import { afterEach, describe, expect, it } from 'vitest';
import { readFetchResponse, writeFetchRequest } from '../../src/protocol/generated/Fetch.ts';
import { readMetadataResponse, writeMetadataRequest } from '../../src/protocol/generated/Metadata.ts';
import { readProduceResponse, writeProduceRequest } from '../../src/protocol/generated/Produce.ts';
import { RecordBatch, readBatches } from '../../src/protocol/records/reader.ts';
import { BatchBuilder, type BatchOptions } from '../../src/protocol/records/writer.ts';
import type { FakePeer } from './fake-transport.ts';
import { responseBody, TestBroker } from './test-broker.ts';

const PRODUCE = 0;
const FETCH = 1;
const METADATA = 3;

let broker: TestBroker;
afterEach(() => broker.close());

const NOW = 1_700_000_000_000;

function batch(values: readonly string[], options: BatchOptions = {}): Uint8Array {
  const builder = new BatchBuilder(options);
  for (const value of values) builder.append({ timestamp: NOW, value });
  return builder.build();
}

function produceFrame(topic: string, records: Uint8Array | null, acks = -1, index = 0): Uint8Array {
  return broker.frame(PRODUCE, 9, (writer) =>
    writeProduceRequest(writer, 9, {
      acks,
      timeoutMs: 1000,
      topicData: [{ name: topic, partitionData: [{ index, records }] }],
    }),
  );
}

function produce(peer: FakePeer, topic: string, records: Uint8Array | null, acks = -1) {
  return broker.ask(
    peer,
    PRODUCE,
    9,
    (writer) =>
      writeProduceRequest(writer, 9, {
        acks,
        timeoutMs: 1000,
        topicData: [{ name: topic, partitionData: [{ index: 0, records }] }],
      }),
    readProduceResponse,
  );
}

interface FetchOptions {
  offset?: number;
  minBytes?: number;
  maxWaitMs?: number;
  maxBytes?: number;
  partitionMaxBytes?: number;
  isolationLevel?: number;
  currentLeaderEpoch?: number;
  sessionId?: number;
  sessionEpoch?: number;
  replicaId?: number;
}

function fetchFrame(topic: string, options: FetchOptions = {}): Uint8Array {
  return broker.frame(FETCH, 12, (writer) =>
    writeFetchRequest(writer, 12, {
      replicaId: options.replicaId ?? -1,
      maxWaitMs: options.maxWaitMs ?? 0,
      minBytes: options.minBytes ?? 1,
      maxBytes: options.maxBytes ?? 1 << 20,
      isolationLevel: options.isolationLevel ?? 0,
      sessionId: options.sessionId ?? 0,
      sessionEpoch: options.sessionEpoch ?? -1,
      topics: [
        {
          topic,
          partitions: [
            {
              partition: 0,
              currentLeaderEpoch: options.currentLeaderEpoch ?? -1,
              fetchOffset: options.offset ?? 0,
              partitionMaxBytes: options.partitionMaxBytes ?? 1 << 20,
            },
          ],
        },
      ],
      forgottenTopicsData: [],
    }),
  );
}

async function fetch(peer: FakePeer, topic: string, options: FetchOptions = {}) {
  const before = peer.received.length;
  broker.transport.tick([peer, fetchFrame(topic, options)]);
  await broker.answers(peer, before + 1);
  return fetchAnswer(peer.received[before]!);
}

function fetchAnswer(frame: Buffer) {
  const answer = readFetchResponse(responseBody(frame, FETCH, 12), 12);
  return { ...answer, partition: answer.responses[0]?.partitions[0] };
}

function valuesOf(records: Uint8Array | null | undefined): string[] {
  const values: string[] = [];
  for (const found of readBatches(records ?? new Uint8Array())) {
    if (found instanceof RecordBatch)
      for (const record of found.records()) values.push(Buffer.from(record.value ?? []).toString());
  }
  return values;
}

function createTopic(peer: FakePeer, topic: string) {
  return broker.ask(
    peer,
    METADATA,
    12,
    (writer) => writeMetadataRequest(writer, 12, { topics: [{ name: topic }] }),
    readMetadataResponse,
  );
}

describe('produce and fetch', () => {
  it('makes a topic with its leader in the first Metadata answer, then takes and gives records', async () => {
    broker = await TestBroker.start();
    const peer = broker.transport.connect();
    const metadata = await createTopic(peer, 'greetings');
    expect(metadata.topics[0]).toMatchObject({
      errorCode: 0,
      name: 'greetings',
      partitions: [{ errorCode: 0, leaderId: 1, leaderEpoch: 0, replicaNodes: [1], isrNodes: [1] }],
    });
    expect(metadata.brokers).toEqual([{ nodeId: 1, host: '10.0.0.9', port: 9092, rack: null }]);
    const produced = await produce(peer, 'greetings', batch(['a', 'b']));
    expect(produced.responses[0]!.partitionResponses[0]).toMatchObject({
      errorCode: 0,
      baseOffset: 0,
      logStartOffset: 0,
    });
    const { partition } = await fetch(peer, 'greetings');
    expect(partition).toMatchObject({
      errorCode: 0,
      highWatermark: 2,
      lastStableOffset: 2,
      logStartOffset: 0,
    });
    expect(valuesOf(partition?.records)).toEqual(['a', 'b']);
  });

  it('makes a missing topic for a first Produce', async () => {
    broker = await TestBroker.start();
    const peer = broker.transport.connect();
    const produced = await produce(peer, 'first', batch(['x']));
    expect(produced.responses[0]!.partitionResponses[0]).toMatchObject({ errorCode: 0, baseOffset: 0 });
  });

  it('overlaps Produce with Produce and answers in order, all in one tick', async () => {
    broker = await TestBroker.start();
    const peer = broker.transport.connect();
    await createTopic(peer, 't');
    const before = peer.received.length;
    const frames = ['a', 'b', 'c'].map((value) => [peer, produceFrame('t', batch([value]))] as const);
    broker.transport.tick(...frames);
    expect(peer.received.length).toBe(before + 3);
    const ids = peer.received.slice(before).map((frame) => frame.readInt32BE(0));
    expect(ids).toEqual([...ids].sort((a, b) => a - b));
    expect(valuesOf((await fetch(peer, 't')).partition?.records)).toEqual(['a', 'b', 'c']);
  });
});

import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import {
  encodeFetchResponse,
  type FetchPartitionResult,
  FetchRequestReader,
  type FetchTopicResult,
} from '../../src/protocol/fetch.ts';
import {
  type FetchRequest,
  type FetchResponse,
  type FetchResponsePartitionData,
  readFetchRequest,
  readFetchResponse,
  writeFetchResponse,
} from '../../src/protocol/generated/Fetch.ts';
import {
  type ProduceRequest,
  type ProduceResponse,
  readProduceRequest,
  readProduceResponse,
  writeProduceResponse as writeGenerated,
} from '../../src/protocol/generated/Produce.ts';
import type { FileRange, Part, RangeSource } from '../../src/protocol/part.ts';
import { ProduceRequestReader, writeProduceResponse } from '../../src/protocol/produce.ts';
import { Reader } from '../../src/protocol/reader.ts';
import { Writer } from '../../src/protocol/writer.ts';
import type { ApiVector } from '../support/golden/codecs.ts';
import { readLines } from '../support/golden/vectors.ts';

const file = fileURLToPath(new URL('fixtures/golden/apis.jsonl.gz', import.meta.url));
const vectors = readLines(file).map((line) => JSON.parse(line) as ApiVector);
const of = (api: string, type: string) =>
  vectors.filter((v) => v.api === api && v.type === type).map((v) => [v.version, v.hex] as const);

/** The message without what the hand-written codecs drop: tagged fields that no schema knows. */
function known<T>(value: T): T {
  if (Array.isArray(value)) return value.map(known) as T;
  if (typeof value !== 'object' || value === null || value instanceof Uint8Array) return value;
  const entries = Object.entries(value).filter(([name]) => name !== 'unknownTaggedFields');
  return Object.fromEntries(entries.map(([name, inner]) => [name, known(inner)])) as T;
}

function groups(names: string[], count: number, ends: number[]): [string, number, number][] {
  return Array.from({ length: count }, (_, t) => [names[t]!, t === 0 ? 0 : ends[t - 1]!, ends[t]!]);
}

describe('Produce request', () => {
  // One reader for all: what an earlier request left behind must not show.
  const request = new ProduceRequestReader();
  it.each(of('Produce', 'request'))('v%i %s', (version, hex) => {
    const bytes = Buffer.concat([Buffer.alloc(7, 0xee), Buffer.from(hex, 'hex')]);
    const expected: ProduceRequest = known(readProduceRequest(new Reader(bytes, 7), version));
    const r = new Reader(bytes, 7);
    request.read(r, version);
    expect(r.remaining).toBe(0);
    const got: ProduceRequest = {
      transactionalId: request.transactionalId,
      acks: request.acks,
      timeoutMs: request.timeoutMs,
      topicData: groups(request.topics, request.topicCount, request.partitionEnds).map(
        ([topic, from, to]) => ({
          name: version >= 13 ? '' : topic,
          topicId: version >= 13 ? topic : 'AAAAAAAAAAAAAAAAAAAAAA',
          partitionData: Array.from({ length: to - from }, (_, i) => {
            const start = request.recordsStart[from + i]!;
            const end = request.recordsEnd[from + i]!;
            return {
              index: request.partitions[from + i]!,
              records: start < 0 ? null : Uint8Array.from(bytes.subarray(start, end)),
            };
          }),
        }),
      ),
    };
    expect(got).toEqual(expected);
    expect(request.partitionCount).toBe(expected.topicData.reduce((n, t) => n + t.partitionData.length, 0));
  });
});

describe('Produce response', () => {
  it.each(of('Produce', 'response'))('v%i %s', (version, hex) => {
    const message: ProduceResponse = known(readProduceResponse(new Reader(Buffer.from(hex, 'hex')), version));
    const expected = new Writer();
    writeGenerated(expected, version, message);
    const w = new Writer(16);
    writeProduceResponse(
      w,
      version,
      message.responses.map((topic) => ({
        topic: version >= 13 ? topic.topicId : topic.name,
        partitions: topic.partitionResponses.map((partition) => ({
          ...partition,
          recordErrors: partition.recordErrors.map((error) => ({
            batchIndex: error.batchIndex,
            message: error.batchIndexErrorMessage,
          })),
        })),
      })),
      message.throttleTimeMs,
      message.nodeEndpoints,
    );
    expect(w.bytes().toString('hex')).toBe(expected.bytes().toString('hex'));
  });
});

describe('Fetch request', () => {
  const request = new FetchRequestReader();
  it.each(of('Fetch', 'request'))('v%i %s', (version, hex) => {
    const bytes = Buffer.from(hex, 'hex');
    const expected: FetchRequest = known(readFetchRequest(new Reader(bytes), version));
    const r = new Reader(bytes);
    request.read(r, version);
    expect(r.remaining).toBe(0);
    const name = (topic: string) => ({
      topic: version >= 13 ? '' : topic,
      topicId: version >= 13 ? topic : 'AAAAAAAAAAAAAAAAAAAAAA',
    });
    const { topics, topicCount, partitionEnds } = request;
    // In a tag since version 15.
    const replica = { replicaId: request.replicaId, replicaEpoch: request.replicaEpoch };
    expect({
      clusterId: request.clusterId,
      replicaId: version < 15 ? request.replicaId : -1,
      replicaState: version < 15 ? { replicaId: -1, replicaEpoch: -1 } : replica,
      maxWaitMs: request.maxWaitMs,
      minBytes: request.minBytes,
      maxBytes: request.maxBytes,
      isolationLevel: request.isolationLevel,
      sessionId: request.sessionId,
      sessionEpoch: request.sessionEpoch,
      rackId: request.rackId,
      topics: groups(topics, topicCount, partitionEnds).map(([topic, from, to]) => ({
        ...name(topic),
        partitions: Array.from({ length: to - from }, (_, i) => ({
          partition: request.partitions[from + i],
          currentLeaderEpoch: request.currentLeaderEpochs[from + i],
          fetchOffset: request.fetchOffsets[from + i],
          lastFetchedEpoch: request.lastFetchedEpochs[from + i],
          logStartOffset: request.logStartOffsets[from + i],
          partitionMaxBytes: request.partitionMaxBytes[from + i],
        })),
      })),
      forgottenTopicsData: groups(
        request.forgottenTopics,
        request.forgottenTopicCount,
        request.forgottenPartitionEnds,
      ).map(([topic, from, to]) => ({
        ...name(topic),
        partitions: request.forgottenPartitions.slice(from, to),
      })),
    }).toEqual({
      ...expected,
      topics: expected.topics.map((topic) => ({
        ...topic,
        partitions: topic.partitions.map(({ replicaDirectoryId: _, highWatermark: __, ...rest }) => rest),
      })),
    });
  });
});

const noSource: RangeSource = {
  hold: () => {
    throw new Error('no file');
  },
};

/** Turns records into ranges of a file, and back. */
class FakeFile {
  readonly #segments: Uint8Array[] = [];

  put(bytes: Uint8Array): FileRange {
    this.#segments.push(Buffer.concat([Buffer.from('before'), bytes, Buffer.from('after')]));
    return { source: noSource, segment: this.#segments.length - 1, position: 6, length: bytes.length };
  }

  join(parts: readonly Part[]): Buffer {
    return Buffer.concat(
      parts.map((part) =>
        part instanceof Uint8Array
          ? part
          : this.#segments[part.segment]!.subarray(part.position, part.position + part.length),
      ),
    );
  }
}

describe('Fetch response', () => {
  const encode = (version: number, message: FetchResponse, put: (records: Uint8Array) => Part) => {
    const partition = (p: FetchResponsePartitionData): FetchPartitionResult => ({
      ...p,
      records: p.records === null ? null : p.records.length === 0 ? p.records : put(p.records),
    });
    const responses: FetchTopicResult[] = message.responses.map((topic) => ({
      topic: version >= 13 ? topic.topicId : topic.topic,
      partitions: topic.partitions.map(partition),
    }));
    const w = new Writer(16);
    w.int32(0x01020304);
    return encodeFetchResponse(w, version, { ...message, responses }, 0);
  };

  it.each(of('Fetch', 'response'))('v%i %s', (version, hex) => {
    const message: FetchResponse = known(readFetchResponse(new Reader(Buffer.from(hex, 'hex')), version));
    const w = new Writer();
    writeFetchResponse(w, version, message);
    const expected = `01020304${w.bytes().toString('hex')}`;
    const store = new FakeFile();
    const inFiles = encode(version, message, (records) => store.put(records));
    expect(store.join(inFiles).toString('hex')).toBe(expected);
    const withRecords = message.responses
      .flatMap((t) => t.partitions)
      .filter((p) => (p.records?.length ?? 0) > 0);
    expect(inFiles.filter((part) => !(part instanceof Uint8Array)).length).toBe(withRecords.length);
    const inMemory = encode(version, message, (records) => records);
    expect(new FakeFile().join(inMemory).toString('hex')).toBe(expected);
  });
});

/** A client of a TestBroker: requests as functions, answers as objects. */
import {
  readCreateTopicsResponse,
  writeCreateTopicsRequest,
} from '../../src/protocol/generated/CreateTopics.ts';
import {
  readDeleteTopicsResponse,
  writeDeleteTopicsRequest,
} from '../../src/protocol/generated/DeleteTopics.ts';
import { readFetchResponse, writeFetchRequest } from '../../src/protocol/generated/Fetch.ts';
import {
  readInitProducerIdResponse,
  writeInitProducerIdRequest,
} from '../../src/protocol/generated/InitProducerId.ts';
import {
  readListOffsetsResponse,
  writeListOffsetsRequest,
} from '../../src/protocol/generated/ListOffsets.ts';
import {
  type MetadataRequestInput,
  readMetadataResponse,
  writeMetadataRequest,
} from '../../src/protocol/generated/Metadata.ts';
import { readProduceResponse, writeProduceRequest } from '../../src/protocol/generated/Produce.ts';
import { RecordBatch, readBatches } from '../../src/protocol/records/reader.ts';
import { BatchBuilder, type BatchOptions } from '../../src/protocol/records/writer.ts';
import type { FakePeer } from './fake-transport.ts';
import { responseBody, type TestBroker } from './test-broker.ts';

export const NOW = 1_700_000_000_000;

/** A batch of these values, one millisecond apart. */
export function batch(values: readonly string[], options: BatchOptions = {}, timestamp = NOW): Uint8Array {
  const builder = new BatchBuilder(options);
  values.forEach((value, index) => {
    builder.append({ timestamp: timestamp + index, value });
  });
  return builder.build();
}

/** The values in a fetched set of batches. */
export function valuesOf(records: Uint8Array | null | undefined): string[] {
  const values: string[] = [];
  for (const found of readBatches(records ?? new Uint8Array())) {
    if (!(found instanceof RecordBatch)) continue;
    for (const record of found.records()) values.push(Buffer.from(record.value ?? []).toString());
  }
  return values;
}

export interface ProduceOptions {
  readonly acks?: number;
  readonly index?: number;
  readonly version?: number;
  readonly transactionalId?: string | null;
  readonly topicId?: string;
}

export interface FetchOptions {
  readonly offset?: number;
  readonly minBytes?: number;
  readonly maxWaitMs?: number;
  readonly maxBytes?: number;
  readonly partitionMaxBytes?: number;
  readonly isolationLevel?: number;
  readonly currentLeaderEpoch?: number;
  readonly lastFetchedEpoch?: number;
  readonly sessionId?: number;
  readonly sessionEpoch?: number;
  readonly replicaId?: number;
  readonly version?: number;
  readonly topicId?: string;
  readonly partitions?: readonly number[];
}

export class TestClient {
  readonly #broker: TestBroker;
  readonly peer: FakePeer;

  constructor(broker: TestBroker, peer = broker.transport.connect()) {
    this.#broker = broker;
    this.peer = peer;
  }

  produceFrame(topic: string, records: Uint8Array | null, options: ProduceOptions = {}): Uint8Array {
    const version = options.version ?? 9;
    return this.#broker.frame(0, version, (writer) =>
      writeProduceRequest(writer, version, {
        transactionalId: options.transactionalId ?? null,
        acks: options.acks ?? -1,
        timeoutMs: 1000,
        topicData: [
          {
            name: topic,
            ...(options.topicId === undefined ? {} : { topicId: options.topicId }),
            partitionData: [{ index: options.index ?? 0, records }],
          },
        ],
      }),
    );
  }

  /** Produces one batch and gives the partition's answer. */
  async produce(topic: string, records: Uint8Array | null, options: ProduceOptions = {}) {
    const version = options.version ?? 9;
    const before = this.peer.received.length;
    this.#broker.transport.tick([this.peer, this.produceFrame(topic, records, options)]);
    await this.#broker.answers(this.peer, before + 1);
    const answer = readProduceResponse(responseBody(this.peer.received[before]!, 0, version), version);
    return answer.responses[0]!.partitionResponses[0]!;
  }

  fetchFrame(topic: string, options: FetchOptions = {}): Uint8Array {
    const version = options.version ?? 12;
    return this.#broker.frame(1, version, (writer) =>
      writeFetchRequest(writer, version, {
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
            ...(options.topicId === undefined ? {} : { topicId: options.topicId }),
            partitions: (options.partitions ?? [0]).map((partition) => ({
              partition,
              currentLeaderEpoch: options.currentLeaderEpoch ?? -1,
              fetchOffset: options.offset ?? 0,
              lastFetchedEpoch: options.lastFetchedEpoch ?? -1,
              partitionMaxBytes: options.partitionMaxBytes ?? 1 << 20,
            })),
          },
        ],
        forgottenTopicsData: [],
      }),
    );
  }

  fetchAnswer(frame: Uint8Array, version = 12) {
    const answer = readFetchResponse(responseBody(frame, 1, version), version);
    const partitions = answer.responses[0]?.partitions ?? [];
    return { ...answer, partitions, partition: partitions[0]!, values: valuesOf(partitions[0]?.records) };
  }

  async fetch(topic: string, options: FetchOptions = {}) {
    const before = this.peer.received.length;
    this.#broker.transport.tick([this.peer, this.fetchFrame(topic, options)]);
    await this.#broker.answers(this.peer, before + 1);
    return this.fetchAnswer(this.peer.received[before]!, options.version);
  }

  metadata(request: MetadataRequestInput, version = 12) {
    return this.#broker.ask(
      this.peer,
      3,
      version,
      (writer) => writeMetadataRequest(writer, version, request),
      readMetadataResponse,
    );
  }

  async createTopic(
    name: string,
    numPartitions = 1,
    configs: Record<string, string> = {},
    options: { validateOnly?: boolean; replicationFactor?: number; version?: number } = {},
  ) {
    const version = options.version ?? 7;
    const { topics } = await this.#broker.ask(
      this.peer,
      19,
      version,
      (writer) =>
        writeCreateTopicsRequest(writer, version, {
          topics: [
            {
              name,
              numPartitions,
              replicationFactor: options.replicationFactor ?? 1,
              assignments: [],
              configs: Object.entries(configs).map(([key, value]) => ({ name: key, value })),
            },
          ],
          timeoutMs: 1000,
          validateOnly: options.validateOnly ?? false,
        }),
      readCreateTopicsResponse,
    );
    return topics[0]!;
  }

  async deleteTopics(names: readonly string[]) {
    const { responses } = await this.#broker.ask(
      this.peer,
      20,
      5,
      (writer) => writeDeleteTopicsRequest(writer, 5, { topicNames: [...names], timeoutMs: 1000 }),
      readDeleteTopicsResponse,
    );
    return responses;
  }

  async deleteTopicsById(topics: readonly { name?: string | null; topicId?: string }[]) {
    const { responses } = await this.#broker.ask(
      this.peer,
      20,
      6,
      (writer) =>
        writeDeleteTopicsRequest(writer, 6, {
          topics: topics.map(({ name, topicId }) => ({
            name: name ?? null,
            topicId: topicId ?? 'AAAAAAAAAAAAAAAAAAAAAA',
          })),
          timeoutMs: 1000,
        }),
      readDeleteTopicsResponse,
    );
    return responses;
  }

  async listOffsets(
    topic: string,
    timestamp: number,
    options: {
      version?: number;
      isolationLevel?: number;
      currentLeaderEpoch?: number;
      partitions?: number[];
    } = {},
  ) {
    const version = options.version ?? 11;
    const { topics } = await this.#broker.ask(
      this.peer,
      2,
      version,
      (writer) =>
        writeListOffsetsRequest(writer, version, {
          replicaId: -1,
          isolationLevel: options.isolationLevel ?? 0,
          topics: [
            {
              name: topic,
              partitions: (options.partitions ?? [0]).map((partitionIndex) => ({
                partitionIndex,
                currentLeaderEpoch: options.currentLeaderEpoch ?? -1,
                timestamp,
              })),
            },
          ],
        }),
      readListOffsetsResponse,
    );
    return topics[0]!.partitions;
  }

  initProducerId(transactionalId: string | null = null, producerId = -1, producerEpoch = -1) {
    return this.#broker.ask(
      this.peer,
      22,
      5,
      (writer) =>
        writeInitProducerIdRequest(writer, 5, {
          transactionalId,
          transactionTimeoutMs: 1000,
          producerId,
          producerEpoch,
        }),
      readInitProducerIdResponse,
    );
  }
}

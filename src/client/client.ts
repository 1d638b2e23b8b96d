/**
 * A small client of any Kafka broker: for the command line and for tests. It asks for metadata, follows leaders, and shows
 * what it gets; it does not retry, batch or balance.
 */

import { errorName } from '../protocol/errors.ts';
import { ApiKey } from '../protocol/generated/api-keys.ts';
import type { CreateTopicsResponseCreatableTopicResult } from '../protocol/generated/CreateTopics.ts';
import type { FetchResponsePartitionData } from '../protocol/generated/Fetch.ts';
import type { ListOffsetsResponseListOffsetsPartitionResponse } from '../protocol/generated/ListOffsets.ts';
import type { MetadataResponse, MetadataResponseTopic } from '../protocol/generated/Metadata.ts';
import type { ProduceResponsePartitionProduceResponse } from '../protocol/generated/Produce.ts';
import type { RecordView } from '../protocol/records/batch.ts';
import { BatchBuilder, type BatchOptions, type NewRecord } from '../protocol/records/writer.ts';
import { BroadsheetError } from '../runtime/errors.ts';
import { APIS } from './apis.ts';
import { Connection } from './connection.ts';
import { decodeFetched } from './fetched.ts';

/** An error code in a response. */
export class BrokerRefusal extends BroadsheetError {
  /** Kafka's code and its name. */
  readonly kafkaCode: number;
  readonly kafkaError: string;

  constructor(kafkaCode: number, what: string, text: string | null = null) {
    const kafkaError = errorName(kafkaCode);
    super('BROKER_REFUSED', `${what}: ${kafkaError}${text === null ? '' : `: ${text}`}`);
    this.kafkaCode = kafkaCode;
    this.kafkaError = kafkaError;
  }
}

export interface ClientOptions {
  readonly clientId?: string;
  /** For each connection and response, ms. */
  readonly timeoutMs?: number;
  /** Use at most this version of an API, by its key. */
  readonly maxVersions?: Readonly<Record<number, number>>;
}

export interface ProduceOptions extends BatchOptions {
  /** -1 (all, the default), 0 or 1. */
  readonly acks?: number;
  readonly transactionalId?: string;
}

export interface FetchOptions {
  readonly maxWaitMs?: number;
  readonly minBytes?: number;
  readonly maxBytes?: number;
  readonly committedOnly?: boolean;
}

export interface Fetched {
  /** Data records from the offset on, without those of control batches. */
  readonly records: RecordView[];
  /** Where to fetch next. */
  readonly nextOffset: number;
  readonly partition: FetchResponsePartitionData;
}

export interface NewTopic {
  readonly name: string;
  /** Default: the broker's. */
  readonly partitions?: number;
  readonly configs?: Readonly<Record<string, string>>;
}

/** Special timestamps of listOffsets(). */
export const LATEST = -1;
export const EARLIEST = -2;
export const MAX_TIMESTAMP = -3;

const ALL_REPLICAS = -1;
const CONSUMER = -1;
const BROKER_DEFAULT = -1;
const REQUEST_TIMEOUT_MS = 30_000;
const FETCH_BYTES = 16 * 1024 * 1024;
const FIRST_PRODUCE_BY_ID = 13;
const FIRST_FETCH_BY_ID = 13;
/** From here on topics are named one by one, with name or id; below by a list of names. */
const FIRST_DELETE_BY_STATE = 6;
const NO_TOPIC_ID = 'AAAAAAAAAAAAAAAAAAAAAA';

export class Client {
  readonly #options: ClientOptions;
  readonly #bootstrap: Connection;
  readonly #connections = new Map<string, Promise<Connection>>();
  readonly #topics = new Map<string, MetadataResponseTopic>();
  #brokers: MetadataResponse['brokers'] = [];

  private constructor(bootstrap: Connection, options: ClientOptions) {
    this.#bootstrap = bootstrap;
    this.#options = options;
  }

  /** Connects to `host:port` and asks for its versions. Throws IO, TIMEOUT. */
  static async connect(bootstrap: string, options: ClientOptions = {}): Promise<Client> {
    const colon = bootstrap.lastIndexOf(':');
    const port = Number(bootstrap.slice(colon + 1));
    const host = bootstrap.slice(0, colon).replace(/^\[|\]$/g, '');
    if (colon < 1 || !Number.isInteger(port)) {
      throw new BroadsheetError('INVALID_ARGUMENT', `not host:port: ${bootstrap}`);
    }
    return new Client(await open(host, port, options), options);
  }

  /** The connection that was made first: for requests that have no helper here. */
  get connection(): Connection {
    return this.#bootstrap;
  }

  /** All topics, or those named; error codes of topics are left in. */
  async metadata(topics: readonly string[] | null = null, autoCreate = false): Promise<MetadataResponse> {
    const response = await this.#bootstrap.request(
      APIS.metadata,
      {
        topics: topics === null ? null : topics.map((name) => ({ name })),
        allowAutoTopicCreation: autoCreate,
      },
      { version: this.#version(this.#bootstrap, ApiKey.Metadata) },
    );
    this.#brokers = response.brokers;
    for (const topic of response.topics) {
      if (topic.name !== null && topic.errorCode === 0) this.#topics.set(topic.name, topic);
    }
    return response;
  }

  /** Throws BROKER_REFUSED for the first topic that was not created. */
  async createTopics(topics: readonly NewTopic[]): Promise<CreateTopicsResponseCreatableTopicResult[]> {
    const response = await this.#bootstrap.request(APIS.createTopics, {
      topics: topics.map(({ name, partitions = BROKER_DEFAULT, configs = {} }) => ({
        name,
        numPartitions: partitions,
        replicationFactor: BROKER_DEFAULT,
        assignments: [],
        configs: Object.entries(configs).map(([key, value]) => ({ name: key, value })),
      })),
      timeoutMs: REQUEST_TIMEOUT_MS,
    });
    for (const { name, errorCode, errorMessage } of response.topics) {
      if (errorCode !== 0) throw new BrokerRefusal(errorCode, `topic ${name} was not created`, errorMessage);
    }
    return response.topics;
  }

  /** Throws BROKER_REFUSED for the first topic that was not deleted. */
  async deleteTopics(names: readonly string[]): Promise<void> {
    const version = this.#version(this.#bootstrap, ApiKey.DeleteTopics);
    const byState = version >= FIRST_DELETE_BY_STATE;
    const response = await this.#bootstrap.request(
      APIS.deleteTopics,
      {
        topics: byState ? names.map((name) => ({ name, topicId: NO_TOPIC_ID })) : [],
        topicNames: byState ? [] : names,
        timeoutMs: REQUEST_TIMEOUT_MS,
      },
      { version },
    );
    for (const { name, errorCode, errorMessage } of response.responses) {
      if (errorCode !== 0) throw new BrokerRefusal(errorCode, `topic ${name} was not deleted`, errorMessage);
    }
    for (const name of names) this.#topics.delete(name);
  }

  /** Sends the records as one batch. Throws BROKER_REFUSED; with acks 0 the answer is undefined. */
  async produce(
    topic: string,
    partition: number,
    records: readonly NewRecord[],
    options: ProduceOptions = {},
  ): Promise<ProduceResponsePartitionProduceResponse | undefined> {
    const builder = new BatchBuilder(options);
    for (const record of records) builder.append(record);
    const answer = await this.produceBytes(topic, partition, builder.build(), options);
    if (answer !== undefined && answer.errorCode !== 0) {
      const texts = answer.recordErrors.map(
        (error) => error.batchIndexErrorMessage ?? `record ${error.batchIndex}`,
      );
      const text = [answer.errorMessage, ...texts].filter((each) => each !== null).join('; ');
      throw new BrokerRefusal(answer.errorCode, `${topic}-${partition}`, text === '' ? null : text);
    }
    return answer;
  }

  /** Sends bytes as the records of one partition, whatever they are; the answer as it came, undefined with acks 0. */
  async produceBytes(
    topic: string,
    partition: number,
    bytes: Uint8Array | null,
    options: Pick<ProduceOptions, 'acks' | 'transactionalId'> = {},
  ): Promise<ProduceResponsePartitionProduceResponse | undefined> {
    const connection = await this.#leader(topic, partition, true);
    const version = this.#version(connection, ApiKey.Produce);
    const acks = options.acks ?? ALL_REPLICAS;
    const body = {
      transactionalId: options.transactionalId ?? null,
      acks,
      timeoutMs: REQUEST_TIMEOUT_MS,
      topicData: [
        {
          ...this.#named(topic, version >= FIRST_PRODUCE_BY_ID),
          partitionData: [{ index: partition, records: bytes }],
        },
      ],
    };
    if (acks === 0) {
      connection.send(APIS.produce, body, { version });
      return undefined;
    }
    const response = await connection.request(APIS.produce, body, { version });
    return only(response.responses[0]?.partitionResponses);
  }

  /** One fetch from an offset on. Throws BROKER_REFUSED, and what a broken batch throws. */
  async fetch(
    topic: string,
    partition: number,
    offset: number,
    options: FetchOptions = {},
  ): Promise<Fetched> {
    const connection = await this.#leader(topic, partition, false);
    const version = this.#version(connection, ApiKey.Fetch);
    const { name, topicId } = this.#named(topic, version >= FIRST_FETCH_BY_ID);
    const maxBytes = options.maxBytes ?? FETCH_BYTES;
    const committedOnly = options.committedOnly ?? false;
    const response = await connection.request(
      APIS.fetch,
      {
        maxWaitMs: options.maxWaitMs ?? 500,
        minBytes: options.minBytes ?? 1,
        maxBytes,
        isolationLevel: committedOnly ? 1 : 0,
        topics: [
          {
            topic: name,
            topicId,
            partitions: [{ partition, fetchOffset: offset, partitionMaxBytes: maxBytes }],
          },
        ],
      },
      { version },
    );
    if (response.errorCode !== 0)
      throw new BrokerRefusal(response.errorCode, `fetch of ${topic}-${partition}`);
    const fetched = only(response.responses[0]?.partitions);
    if (fetched.errorCode !== 0) throw new BrokerRefusal(fetched.errorCode, `fetch of ${topic}-${partition}`);
    return { ...decodeFetched(fetched, offset, committedOnly), partition: fetched };
  }

  /** All data records from an offset up to `end` (default: the end of the log, or with committedOnly the last stable
   * offset, as they are when it begins). */
  async *records(
    topic: string,
    partition: number,
    from: number,
    options: FetchOptions & { readonly end?: number } = {},
  ): AsyncGenerator<RecordView> {
    const end =
      options.end ?? (await this.listOffset(topic, partition, LATEST, options.committedOnly)).offset;
    for (let offset = from; offset < end; ) {
      const { records, nextOffset } = await this.fetch(topic, partition, offset, options);
      for (const record of records) {
        if (record.offset < end) yield record;
      }
      if (nextOffset === offset)
        throw new BroadsheetError('IO', `${topic}-${partition} gives nothing at ${offset}`);
      offset = nextOffset;
    }
  }

  /** The first offset with a timestamp at or after `timestamp`, or by EARLIEST, LATEST, MAX_TIMESTAMP. Throws
   * BROKER_REFUSED. */
  async listOffset(
    topic: string,
    partition: number,
    timestamp: number,
    committedOnly = false,
  ): Promise<ListOffsetsResponseListOffsetsPartitionResponse> {
    const connection = await this.#leader(topic, partition, false);
    const response = await connection.request(
      APIS.listOffsets,
      {
        replicaId: CONSUMER,
        isolationLevel: committedOnly ? 1 : 0,
        topics: [{ name: topic, partitions: [{ partitionIndex: partition, timestamp }] }],
      },
      { version: this.#version(connection, ApiKey.ListOffsets) },
    );
    const answer = only(response.topics[0]?.partitions);
    if (answer.errorCode !== 0) throw new BrokerRefusal(answer.errorCode, `offsets of ${topic}-${partition}`);
    return answer;
  }

  /** A producer id and epoch for idempotent produce. Throws BROKER_REFUSED. */
  async initProducerId(): Promise<{ readonly producerId: number; readonly producerEpoch: number }> {
    const response = await this.#bootstrap.request(APIS.initProducerId, {
      transactionalId: null,
      transactionTimeoutMs: REQUEST_TIMEOUT_MS,
    });
    if (response.errorCode !== 0) throw new BrokerRefusal(response.errorCode, 'no producer id');
    return response;
  }

  /** Closes all connections. */
  async close(): Promise<void> {
    this.#bootstrap.close();
    for (const opening of this.#connections.values()) (await opening.catch(() => undefined))?.close();
    this.#connections.clear();
  }

  #version(connection: Connection, key: number): number {
    return Math.min(connection.versionOf(key), this.#options.maxVersions?.[key] ?? Number.POSITIVE_INFINITY);
  }

  /** How a request names the topic, by id or by name. The topic's metadata must be known. */
  #named(topic: string, byId: boolean): { name?: string; topicId?: string } {
    return byId ? { topicId: this.#topics.get(topic)!.topicId } : { name: topic };
  }

  async #leader(topic: string, partition: number, autoCreate: boolean): Promise<Connection> {
    if (!this.#topics.has(topic)) {
      const { topics } = await this.metadata([topic], autoCreate);
      const errorCode = topics[0]?.errorCode ?? 0;
      if (errorCode !== 0) throw new BrokerRefusal(errorCode, `topic ${topic}`);
    }
    const leader = this.#topics
      .get(topic)
      ?.partitions.find(({ partitionIndex }) => partitionIndex === partition);
    const broker = this.#brokers.find(({ nodeId }) => nodeId === leader?.leaderId);
    if (broker === undefined) throw new BroadsheetError('NOT_FOUND', `${topic}-${partition} has no leader`);
    const address = `${broker.host}:${broker.port}`;
    let opening = this.#connections.get(address);
    if (opening === undefined || (await opening.catch(() => undefined))?.closed !== false) {
      opening = open(broker.host, broker.port, this.#options);
      this.#connections.set(address, opening);
    }
    return opening;
  }
}

async function open(host: string, port: number, options: ClientOptions): Promise<Connection> {
  const connection = await Connection.connect({
    host,
    port,
    clientId: options.clientId,
    timeoutMs: options.timeoutMs,
  });
  try {
    await connection.negotiate();
  } catch (error) {
    connection.close();
    throw error;
  }
  return connection;
}

/** A request for one partition has one answer. */
function only<Each>(answers: readonly Each[] | undefined): Each {
  const answer = answers?.[0];
  if (answer === undefined)
    throw new BroadsheetError('MALFORMED', 'the response lacks the partition asked for');
  return answer;
}

/**
 * A small client of any Kafka broker: for the command line and for tests. It asks for metadata, follows leaders, and shows
 * what it gets; it does not retry, batch or balance: producer.ts, fetcher.ts and group-member.ts do.
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
import { type Address, addressText, parseAddresses } from './address.ts';
import { APIS, type Api } from './apis.ts';
import { Connection } from './connection.ts';
import { decodeFetched } from './fetched.ts';

/** An error code in a response. */
export class BrokerRefusal extends BroadsheetError {
  /** Kafka's code and its name. */
  readonly kafkaCode: number;
  readonly kafkaError: string;

  constructor(kafkaCode: number, what: string, text: string | null = null) {
    const kafkaError = errorName(kafkaCode);
    super('BROKER_REFUSED', `${what}: ${kafkaError}${text === null || text === '' ? '' : `: ${text}`}`);
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
  readonly replicationFactor?: number;
  readonly configs?: Readonly<Record<string, string>>;
}

export interface CallOptions {
  /** Default: whichever broker is connected. */
  readonly to?: Connection;
  readonly timeoutMs?: number;
  /** Use at most this version. */
  readonly maxVersion?: number;
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
/** Below, a broker that makes topics on the way makes every topic that is asked for. */
const FIRST_METADATA_TO_CREATE = 4;
const FIRST_PRODUCE_BY_ID = 13;
export const FIRST_FETCH_BY_ID = 13;
/** From here on topics are named one by one, with name or id; below by a list of names. */
const FIRST_DELETE_BY_STATE = 6;
const NO_TOPIC_ID = 'AAAAAAAAAAAAAAAAAAAAAA';

export class Client {
  readonly #options: ClientOptions;
  readonly #addresses: readonly Address[];
  #bootstrap: Connection;
  readonly #connections = new Map<string, Promise<Connection>>();
  readonly #topics = new Map<string, MetadataResponseTopic>();
  #brokers: MetadataResponse['brokers'] = [];
  #closed = false;

  private constructor(bootstrap: Connection, addresses: readonly Address[], options: ClientOptions) {
    this.#bootstrap = bootstrap;
    this.#addresses = addresses;
    this.#options = options;
  }

  /** Connects to the first of `host:port,...` that answers, and asks for its versions. Throws INVALID_ARGUMENT, IO,
   * TIMEOUT, MALFORMED. */
  static async connect(bootstrap: string, options: ClientOptions = {}): Promise<Client> {
    const addresses = parseAddresses(bootstrap);
    return new Client(await openFirst(addresses, options), addresses, options);
  }

  /** The connection that was made first: for requests that have no helper here. */
  get connection(): Connection {
    return this.#bootstrap;
  }

  /** Sends a request to a broker, in the newest version of both sides that the options allow. The body may depend on it.
   * Throws as Connection.request does. */
  async request<Request, Response>(
    call: Api<Request, Response>,
    body: Request | ((version: number) => Request),
    options: CallOptions = {},
  ): Promise<Response> {
    const connection = options.to ?? (await this.anyBroker());
    const version = Math.min(
      this.versionFor(connection, call.key),
      options.maxVersion ?? Number.POSITIVE_INFINITY,
    );
    const built = typeof body === 'function' ? (body as (version: number) => Request)(version) : body;
    return connection.request(call, built, { version, timeoutMs: options.timeoutMs });
  }

  /** The version that requests of this client to this broker have. Throws UNSUPPORTED. */
  versionFor(connection: Connection, key: number): number {
    return Math.min(connection.versionOf(key), this.#options.maxVersions?.[key] ?? Number.POSITIVE_INFINITY);
  }

  /** All topics, or those named; error codes of topics are left in. */
  async metadata(topics: readonly string[] | null = null, autoCreate = false): Promise<MetadataResponse> {
    const response = await this.request(APIS.metadata, (version) => ({
      // Version 0 has no null: an empty list asks for all.
      topics: topics === null ? (version === 0 ? [] : null) : topics.map((name) => ({ name })),
      ...(version < FIRST_METADATA_TO_CREATE ? {} : { allowAutoTopicCreation: autoCreate }),
    }));
    this.#brokers = response.brokers;
    for (const topic of response.topics) {
      if (topic.name !== null && topic.errorCode === 0) this.#topics.set(topic.name, topic);
    }
    return response;
  }

  /** What is known of a topic, asked for if nothing is. Throws BROKER_REFUSED. */
  async topic(name: string, autoCreate = false): Promise<MetadataResponseTopic> {
    const known = this.#topics.get(name);
    if (known !== undefined) return known;
    const { topics } = await this.metadata([name], autoCreate);
    const errorCode = topics[0]?.errorCode ?? 0;
    if (errorCode !== 0) throw new BrokerRefusal(errorCode, `topic ${name}`);
    const topic = this.#topics.get(name);
    if (topic === undefined) throw new BroadsheetError('MALFORMED', `the response lacks topic ${name}`);
    return topic;
  }

  /** Has the topic's metadata asked for anew when it is needed next: after an error that says they are stale. */
  forget(topic: string): void {
    this.#topics.delete(topic);
  }

  /** Throws BROKER_REFUSED for the first topic that was not created. */
  async createTopics(
    topics: readonly NewTopic[],
    validateOnly = false,
  ): Promise<CreateTopicsResponseCreatableTopicResult[]> {
    const response = await this.request(
      APIS.createTopics,
      {
        topics: topics.map(({ name, partitions = BROKER_DEFAULT, replicationFactor, configs = {} }) => ({
          name,
          numPartitions: partitions,
          replicationFactor: replicationFactor ?? BROKER_DEFAULT,
          assignments: [],
          configs: Object.entries(configs).map(([key, value]) => ({ name: key, value })),
        })),
        timeoutMs: REQUEST_TIMEOUT_MS,
        validateOnly,
      },
      { to: await this.controller() },
    );
    for (const { name, errorCode, errorMessage } of response.topics) {
      if (errorCode !== 0) throw new BrokerRefusal(errorCode, `topic ${name} was not created`, errorMessage);
    }
    return response.topics;
  }

  /** Throws BROKER_REFUSED for the first topic that was not deleted. */
  async deleteTopics(names: readonly string[]): Promise<void> {
    const response = await this.request(
      APIS.deleteTopics,
      (version) => {
        const byState = version >= FIRST_DELETE_BY_STATE;
        return {
          topics: byState ? names.map((name) => ({ name, topicId: NO_TOPIC_ID })) : [],
          topicNames: byState ? [] : names,
          timeoutMs: REQUEST_TIMEOUT_MS,
        };
      },
      { to: await this.controller() },
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
      throw new BrokerRefusal(answer.errorCode, `${topic}-${partition}`, produceErrorText(answer));
    }
    return answer;
  }

  /** Sends bytes as the records of one partition, whatever they are; the answer as it came. With acks 0 there is none:
   * undefined once the operating system has the request. */
  async produceBytes(
    topic: string,
    partition: number,
    bytes: Uint8Array | null,
    options: Pick<ProduceOptions, 'acks' | 'transactionalId'> = {},
  ): Promise<ProduceResponsePartitionProduceResponse | undefined> {
    const connection = await this.leader(topic, partition, true);
    const version = this.#versionNaming(connection, ApiKey.Produce, topic, FIRST_PRODUCE_BY_ID);
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
      await connection.send(APIS.produce, body, { version });
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
    const connection = await this.leader(topic, partition);
    const version = this.#versionNaming(connection, ApiKey.Fetch, topic, FIRST_FETCH_BY_ID);
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
    const response = await this.request(
      APIS.listOffsets,
      {
        replicaId: CONSUMER,
        isolationLevel: committedOnly ? 1 : 0,
        topics: [{ name: topic, partitions: [{ partitionIndex: partition, timestamp }] }],
      },
      { to: await this.leader(topic, partition) },
    );
    const answer = only(response.topics[0]?.partitions);
    if (answer.errorCode !== 0) throw new BrokerRefusal(answer.errorCode, `offsets of ${topic}-${partition}`);
    return answer;
  }

  /** A producer id and epoch for idempotent produce. Throws BROKER_REFUSED. */
  async initProducerId(): Promise<{ readonly producerId: number; readonly producerEpoch: number }> {
    const response = await this.request(APIS.initProducerId, {
      transactionalId: null,
      transactionTimeoutMs: REQUEST_TIMEOUT_MS,
    });
    if (response.errorCode !== 0) throw new BrokerRefusal(response.errorCode, 'no producer id');
    return response;
  }

  /** The first broker, or any other that is connected; connects anew where none is. Throws as connect() does. */
  async anyBroker(): Promise<Connection> {
    if (!this.#bootstrap.closed) return this.#bootstrap;
    if (this.#closed) throw new BroadsheetError('CLOSED', 'the client is closed');
    this.#bootstrap = await openFirst(this.#addresses, this.#options);
    return this.#bootstrap;
  }

  /** The broker with an id, by the last metadata. Throws NOT_FOUND, IO, TIMEOUT. */
  async broker(nodeId: number): Promise<Connection> {
    const broker = this.#brokers.find((each) => each.nodeId === nodeId);
    if (broker === undefined) throw new BroadsheetError('NOT_FOUND', `there is no broker ${nodeId}`);
    return this.connectionTo(broker);
  }

  /** A connection to a broker at an address, the one that is open if one is. Throws IO, TIMEOUT. */
  async connectionTo(address: Address): Promise<Connection> {
    if (this.#closed) throw new BroadsheetError('CLOSED', 'the client is closed');
    const key = addressText(address);
    let opening = this.#connections.get(key);
    if (opening === undefined || (await opening.catch(() => undefined))?.closed !== false) {
      opening = open(address, this.#options);
      this.#connections.set(key, opening);
    }
    return opening;
  }

  /** The broker that takes changes of topics. With KRaft any does; below that only the controller. */
  async controller(): Promise<Connection> {
    const { controllerId } = await this.metadata([]);
    return controllerId < 0 ? this.anyBroker() : this.broker(controllerId);
  }

  /** The leader of a partition. Throws BROKER_REFUSED, NOT_FOUND. */
  async leader(topic: string, partition: number, autoCreate = false): Promise<Connection> {
    return this.broker(await this.leaderId(topic, partition, autoCreate));
  }

  /** Its id. */
  async leaderId(topic: string, partition: number, autoCreate = false): Promise<number> {
    const { partitions } = await this.topic(topic, autoCreate);
    const found = partitions.find(({ partitionIndex }) => partitionIndex === partition);
    if (found === undefined || found.leaderId < 0) {
      this.forget(topic);
      throw new BroadsheetError(
        'NOT_FOUND',
        found === undefined
          ? `topic ${topic} has no partition ${partition}`
          : `${topic}-${partition} has no leader`,
      );
    }
    return found.leaderId;
  }

  /** Closes all connections. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#bootstrap.close();
    for (const opening of this.#connections.values()) (await opening.catch(() => undefined))?.close();
    this.#connections.clear();
  }

  /** As versionFor(), and by name where the topic's id was not told. */
  #versionNaming(connection: Connection, key: number, topic: string, firstById: number): number {
    const version = this.versionFor(connection, key);
    return hasId(this.#topics.get(topic)) ? version : Math.min(version, firstById - 1);
  }

  /** How a request names the topic, by id or by name. The topic's metadata must be known. */
  #named(topic: string, byId: boolean): { name?: string; topicId?: string } {
    return byId ? { topicId: this.#topics.get(topic)!.topicId } : { name: topic };
  }
}

/** Whether the broker told the topic's id: in Metadata from version 10 on. */
export function hasId(topic: MetadataResponseTopic | undefined): boolean {
  return topic !== undefined && topic.topicId !== NO_TOPIC_ID;
}

/** All that a Produce response says of what was wrong, or null. */
export function produceErrorText(answer: ProduceResponsePartitionProduceResponse): string | null {
  const texts = answer.recordErrors.map(
    (error) => error.batchIndexErrorMessage ?? `record ${error.batchIndex}`,
  );
  const text = [answer.errorMessage, ...texts].filter((each) => each !== null).join('; ');
  return text === '' ? null : text;
}

async function openFirst(addresses: readonly Address[], options: ClientOptions): Promise<Connection> {
  let first: unknown;
  for (const address of addresses) {
    try {
      return await open(address, options);
    } catch (error) {
      first ??= error;
    }
  }
  throw first;
}

async function open({ host, port }: Address, options: ClientOptions): Promise<Connection> {
  const { clientId, timeoutMs } = options;
  const connection = await Connection.connect({ host, port, clientId, timeoutMs });
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

/** Transactions request by request against one broker, written down so that two brokers can be compared: each request is a
 * line, with names for producer ids and topic ids and without times. */
import { APIS, api } from '../../src/client/apis.ts';
import { EARLIEST } from '../../src/client/client.ts';
import type { Connection } from '../../src/client/connection.ts';
import { errorName, KafkaError } from '../../src/protocol/errors.ts';
import type { AddPartitionsToTxnResponse } from '../../src/protocol/generated/AddPartitionsToTxn.ts';
import { ApiKey } from '../../src/protocol/generated/api-keys.ts';
import * as alterConfigs from '../../src/protocol/generated/IncrementalAlterConfigs.ts';
import type { ListTransactionsRequest } from '../../src/protocol/generated/ListTransactions.ts';
import { RecordBatch, readBatches } from '../../src/protocol/records/reader.ts';
import { BatchBuilder } from '../../src/protocol/records/writer.ts';
import { CALLS } from './transaction-calls.ts';

const ALTER_CONFIGS = api(
  ApiKey.IncrementalAlterConfigs,
  alterConfigs.writeIncrementalAlterConfigsRequest,
  alterConfigs.readIncrementalAlterConfigsResponse,
);

export interface Producer {
  readonly id: number;
  readonly epoch: number;
}

/** How often a request is sent again that comes too early. */
const TRIES = 200;
const PAUSE_MS = 50;
const TOO_EARLY: ReadonlySet<number> = new Set([
  KafkaError.CONCURRENT_TRANSACTIONS,
  KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
  KafkaError.COORDINATOR_NOT_AVAILABLE,
  KafkaError.NOT_COORDINATOR,
]);

const pause = () => new Promise((resolve) => setTimeout(resolve, PAUSE_MS));

export class TransactionScript {
  readonly lines: string[] = [];
  readonly #connection: Pick<Connection, 'request'>;
  readonly #names = new Map<number, string>();
  readonly #topicIds = new Map<string, string>();

  constructor(connection: Pick<Connection, 'request'>) {
    this.#connection = connection;
  }

  /** A heading. */
  title(text: string): void {
    this.lines.push(`# ${text}`);
  }

  #say(call: string, answer: string): void {
    this.lines.push(`${call} -> ${answer}`);
  }

  #name(id: number): string {
    if (id < 0) return String(id);
    let name = this.#names.get(id);
    if (name === undefined) {
      name = `P${this.#names.size}`;
      this.#names.set(id, name);
    }
    return name;
  }

  #of({ id, epoch }: Producer): string {
    return `${this.#name(id)}/${epoch}`;
  }

  /** Asks again while a transaction is still ending, or a coordinator still loads. */
  async #patient<T>(ask: () => Promise<T>, code: (answer: T) => number): Promise<T> {
    for (let left = TRIES; ; left--) {
      const answer = await ask();
      if (left === 0 || !TOO_EARLY.has(code(answer))) return answer;
      await pause();
    }
  }

  async topic(name: string, partitions = 1, configs: Readonly<Record<string, string>> = {}): Promise<void> {
    const given = Object.entries(configs).map(([key, value]) => ({ name: key, value }));
    const body = {
      topics: [{ name, numPartitions: partitions, replicationFactor: 1, assignments: [], configs: given }],
      timeoutMs: 10_000,
      validateOnly: false,
    };
    await this.#connection.request(APIS.createTopics, body, { version: 7 });
    for (let left = TRIES; left > 0; left--) {
      const asked = { topics: [{ name }], allowAutoTopicCreation: false };
      const { topics } = await this.#connection.request(APIS.metadata, asked, { version: 12 });
      const [found] = topics;
      if (found?.errorCode === 0 && found.partitions.every(({ errorCode }) => errorCode === 0)) {
        this.#topicIds.set(name, found.topicId);
        return;
      }
      await pause();
    }
    throw new Error(`${name} is not there`);
  }

  /** Sees that the coordinator of a transactional id (1) or a group (0) is ready. */
  async coordinator(key: string, keyType: number): Promise<void> {
    for (let left = TRIES; left > 0; left--) {
      const body = { keyType, coordinatorKeys: [key] };
      const { coordinators } = await this.#connection.request(APIS.findCoordinator, body, { version: 4 });
      if (coordinators[0]?.errorCode === 0) return;
      await pause();
    }
    throw new Error(`no coordinator for ${key}`);
  }

  async init(
    transactionalId: string | null,
    options: { version?: number; expected?: Producer; timeoutMs?: number; impatient?: boolean } = {},
  ): Promise<Producer> {
    const { version = 5, expected, timeoutMs = 60_000, impatient = false } = options;
    const body = {
      transactionalId,
      transactionTimeoutMs: timeoutMs,
      ...(expected === undefined ? {} : { producerId: expected.id, producerEpoch: expected.epoch }),
    };
    const ask = () => this.#connection.request(CALLS.init, body, { version });
    const answer = impatient ? await ask() : await this.#patient(ask, ({ errorCode }) => errorCode);
    const producer = { id: answer.producerId, epoch: answer.producerEpoch };
    const given = expected === undefined ? '' : ` with ${this.#of(expected)}`;
    this.#say(
      `init ${transactionalId}${given} v${version} ${timeoutMs} ms`,
      `${errorName(answer.errorCode)} ${this.#of(producer)}`,
    );
    return producer;
  }

  async add(
    transactionalId: string,
    producer: Producer,
    places: readonly (readonly [topic: string, index: number])[],
    options: { version?: number; verifyOnly?: boolean; impatient?: boolean } = {},
  ): Promise<void> {
    const { version = 3, verifyOnly = false, impatient = false } = options;
    const topics = places.map(([name, index]) => ({ name, partitions: [index] }));
    const body =
      version < 4
        ? {
            v3AndBelowTransactionalId: transactionalId,
            v3AndBelowProducerId: producer.id,
            v3AndBelowProducerEpoch: producer.epoch,
            v3AndBelowTopics: topics,
          }
        : {
            transactions: [
              { transactionalId, producerId: producer.id, producerEpoch: producer.epoch, verifyOnly, topics },
            ],
          };
    const codes = (answer: AddPartitionsToTxnResponse) =>
      (version < 4
        ? answer.resultsByTopicV3AndBelow
        : (answer.resultsByTransaction[0]?.topicResults ?? [])
      ).map(
        ({ name, resultsByPartition }) =>
          [
            `${name}-${resultsByPartition[0]!.partitionIndex}`,
            resultsByPartition[0]!.partitionErrorCode,
          ] as const,
      );
    const ask = () => this.#connection.request(CALLS.add, body, { version });
    const answer = impatient ? await ask() : await this.#patient(ask, (each) => codes(each)[0]?.[1] ?? 0);
    const said = codes(answer)
      .map(([place, code]) => `${place} ${errorName(code)}`)
      .sort()
      .join(', ');
    const what = verifyOnly ? 'verify' : 'add';
    this.#say(
      `${what} ${transactionalId} ${this.#of(producer)} ${places.join(' ')} v${version}`,
      answer.errorCode === 0 ? said : errorName(answer.errorCode),
    );
  }

  async produce(
    transactionalId: string | null,
    producer: Producer,
    [topic, index]: readonly [topic: string, index: number],
    sequence: number,
    values: readonly string[],
    options: { version?: number; transactional?: boolean; impatient?: boolean; ageMs?: number } = {},
  ): Promise<void> {
    const { version = 12, transactional = true, impatient = false, ageMs = 0 } = options;
    const builder = new BatchBuilder({
      producerId: producer.id,
      producerEpoch: producer.epoch,
      baseSequence: sequence,
      transactional,
    });
    for (const value of values)
      builder.append({ timestamp: Date.now() - ageMs, key: null, value: Buffer.from(value) });
    const body = {
      transactionalId,
      acks: -1,
      timeoutMs: 10_000,
      topicData: [{ name: topic, partitionData: [{ index, records: builder.build() }] }],
    };
    const ask = async () => {
      const { responses } = await this.#connection.request(CALLS.produce, body, { version });
      return responses[0]!.partitionResponses[0]!;
    };
    const answer = impatient ? await ask() : await this.#patient(ask, ({ errorCode }) => errorCode);
    const plain = transactional ? '' : ' plain';
    this.#say(
      `produce${plain} ${transactionalId} ${this.#of(producer)} ${topic}-${index} seq ${sequence} [${values}] v${version}`,
      `${errorName(answer.errorCode)} at ${answer.baseOffset}`,
    );
  }

  async addOffsets(transactionalId: string, producer: Producer, groupId: string, version = 3): Promise<void> {
    const body = { transactionalId, producerId: producer.id, producerEpoch: producer.epoch, groupId };
    const ask = () => this.#connection.request(CALLS.addOffsets, body, { version });
    const { errorCode } = await this.#patient(ask, (answer) => answer.errorCode);
    this.#say(
      `add offsets ${transactionalId} ${this.#of(producer)} ${groupId} v${version}`,
      errorName(errorCode),
    );
  }

  async commitOffsets(
    transactionalId: string,
    producer: Producer,
    groupId: string,
    topic: string,
    offset: number,
    options: { version?: number; memberId?: string; generation?: number; index?: number } = {},
  ): Promise<void> {
    const { version = 5, memberId = '', generation = -1, index = 0 } = options;
    const id = this.#topicIds.get(topic);
    const body = {
      transactionalId,
      groupId,
      producerId: producer.id,
      producerEpoch: producer.epoch,
      ...(version >= 3 ? { generationIdOrMemberEpoch: generation, memberId } : {}),
      topics: [
        {
          ...(version >= 6 ? { topicId: id ?? 'AAAAAAAAAAAAAAAAAAAAAQ' } : { name: topic }),
          partitions: [{ partitionIndex: index, committedOffset: offset, committedMetadata: 'm' }],
        },
      ],
    };
    const ask = async () => {
      const { topics } = await this.#connection.request(CALLS.commitOffsets, body, { version });
      return topics[0]!.partitions[0]!;
    };
    const { errorCode } = await this.#patient(ask, (answer) => answer.errorCode);
    const member = memberId === '' && generation < 0 ? '' : ` as ${memberId}/${generation}`;
    this.#say(
      `commit offset ${transactionalId} ${this.#of(producer)} ${groupId}${member} ${topic}-${index}=${offset} v${version}`,
      errorName(errorCode),
    );
  }

  /** What a group has committed; asked until it is `until`, where that is given. */
  async offset(groupId: string, topic: string, requireStable: boolean, until?: number): Promise<void> {
    const body = {
      groups: [
        { groupId, memberId: null, memberEpoch: -1, topics: [{ name: topic, partitionIndexes: [0] }] },
      ],
      requireStable,
    };
    for (let left = TRIES; ; left--) {
      const { groups } = await this.#connection.request(CALLS.offsets, body, { version: 9 });
      const found = groups[0]!.topics[0]?.partitions[0];
      if (until === undefined || left === 0 || found?.committedOffset === until) {
        const answer =
          found === undefined
            ? errorName(groups[0]!.errorCode)
            : `${errorName(found.errorCode)} ${found.committedOffset} '${found.metadata}'`;
        this.#say(`offset ${groupId} ${topic}${requireStable ? ' stable' : ''}`, answer);
        return;
      }
      await pause();
    }
  }

  async end(
    transactionalId: string,
    producer: Producer,
    commit: boolean,
    options: { version?: number; impatient?: boolean } = {},
  ): Promise<Producer> {
    const { version = 5, impatient = false } = options;
    const body = {
      transactionalId,
      producerId: producer.id,
      producerEpoch: producer.epoch,
      committed: commit,
    };
    const ask = () => this.#connection.request(CALLS.end, body, { version });
    const answer = impatient ? await ask() : await this.#patient(ask, ({ errorCode }) => errorCode);
    const next = { id: answer.producerId, epoch: answer.producerEpoch };
    this.#say(
      `${commit ? 'commit' : 'abort'} ${transactionalId} ${this.#of(producer)} v${version}`,
      version >= 5 ? `${errorName(answer.errorCode)} ${this.#of(next)}` : errorName(answer.errorCode),
    );
    return answer.errorCode === 0 && version >= 5 ? next : producer;
  }

  async markers(
    producer: Producer,
    [topic, index]: readonly [topic: string, index: number],
    commit: boolean,
    options: { version?: number; coordinatorEpoch?: number; transactionVersion?: number } = {},
  ): Promise<void> {
    const { version = 1, coordinatorEpoch = 0, transactionVersion = 0 } = options;
    const body = {
      markers: [
        {
          producerId: producer.id,
          producerEpoch: producer.epoch,
          transactionResult: commit,
          topics: [{ name: topic, partitionIndexes: [index] }],
          coordinatorEpoch,
          ...(version >= 2 ? { transactionVersion } : {}),
        },
      ],
    };
    const answer = await this.#connection.request(CALLS.markers, body, { version });
    const code = answer.markers[0]!.topics[0]!.partitions[0]!.errorCode;
    const what = commit ? 'commit' : 'abort';
    this.#say(
      `${what} marker ${this.#of(producer)} ${topic}-${index} v${version} coordinator ${coordinatorEpoch} tv ${transactionVersion}`,
      errorName(code),
    );
  }

  /** Asks until the state is `until`, where that is given: a transaction may still be ending. */
  async describe(transactionalId: string, until?: string): Promise<void> {
    for (let left = TRIES; ; left--) {
      const body = { transactionalIds: [transactionalId] };
      const { transactionStates } = await this.#connection.request(CALLS.describe, body, { version: 0 });
      const found = transactionStates[0]!;
      if (until === undefined || left === 0 || found.transactionState === until) {
        const topics = found.topics.map(({ topic, partitions }) => `${topic}-${partitions}`).sort();
        const start = found.transactionStartTimeMs > 1e12 ? 'a time' : found.transactionStartTimeMs;
        const producer = { id: found.producerId, epoch: found.producerEpoch };
        this.#say(
          `describe ${transactionalId}`,
          `${errorName(found.errorCode)} ${found.transactionState} ${this.#of(producer)} ` +
            `${found.transactionTimeoutMs} ms, since ${start} [${topics}]`,
        );
        return;
      }
      await pause();
    }
  }

  async list(body: Partial<ListTransactionsRequest>, version = 2): Promise<void> {
    const asked = { stateFilters: [], producerIdFilters: [], ...body };
    const answer = await this.#connection.request(CALLS.list, asked, { version });
    const found = answer.transactionStates
      .map((each) => `${each.transactionalId} ${this.#name(each.producerId)} ${each.transactionState}`)
      .sort();
    const named = { ...body, producerIdFilters: body.producerIdFilters?.map((id) => this.#name(id)) };
    this.#say(
      `list ${JSON.stringify(named)} v${version}`,
      `${errorName(answer.errorCode)} [${found.join(', ')}] unknown [${[...answer.unknownStateFilters].sort()}]`,
    );
  }

  async producers(topic: string, index: number): Promise<void> {
    const body = { topics: [{ name: topic, partitionIndexes: [index] }] };
    const { topics } = await this.#connection.request(CALLS.producers, body, { version: 0 });
    const found = topics[0]!.partitions[0]!;
    const producers = found.activeProducers.map(
      (each) =>
        `${this.#name(each.producerId)}/${each.producerEpoch} seq ${each.lastSequence} ` +
        `coordinator ${each.coordinatorEpoch} open ${each.currentTxnStartOffset}`,
    );
    this.#say(
      `producers ${topic}-${index}`,
      `${errorName(found.errorCode)} [${producers.sort().join('; ')}]`,
    );
  }

  async configure(topic: string, name: string, value: string): Promise<void> {
    const configs = [{ name, configOperation: 0, value }];
    const body = { resources: [{ resourceType: 2, resourceName: topic, configs }], validateOnly: false };
    const { responses } = await this.#connection.request(ALTER_CONFIGS, body, { version: 1 });
    this.#say(`configure ${topic} ${name}=${value}`, errorName(responses[0]!.errorCode));
  }

  /** Where a partition begins, once that is past `after`. */
  async begins(topic: string, index: number, after: number): Promise<number> {
    for (let left = TRIES; ; left--) {
      const partitions = [{ partitionIndex: index, timestamp: EARLIEST, currentLeaderEpoch: -1 }];
      const body = { replicaId: -1, isolationLevel: 0, topics: [{ name: topic, partitions }] };
      const { topics } = await this.#connection.request(APIS.listOffsets, body, { version: 5 });
      const { offset } = topics[0]!.partitions[0]!;
      if (offset > after || left === 0) {
        this.#say(`begins ${topic}-${index}`, String(offset));
        return offset;
      }
      await pause();
    }
  }

  /** What lies in a partition, for readers of what is committed or of all; asked until the last stable offset is `until`. */
  async read(topic: string, index: number, committed: boolean, until?: number, from = 0): Promise<void> {
    for (let left = TRIES; ; left--) {
      const body = {
        replicaId: -1,
        maxWaitMs: 0,
        minBytes: 0,
        maxBytes: 1 << 20,
        isolationLevel: committed ? 1 : 0,
        topics: [
          { topic, partitions: [{ partition: index, fetchOffset: from, partitionMaxBytes: 1 << 20 }] },
        ],
      };
      const { responses } = await this.#connection.request(APIS.fetch, body, { version: 11 });
      const found = responses[0]!.partitions[0]!;
      if (until !== undefined && found.lastStableOffset !== until && left > 0) {
        await pause();
        continue;
      }
      const batches: string[] = [];
      for (const batch of readBatches(found.records ?? new Uint8Array())) {
        if (!(batch instanceof RecordBatch)) continue;
        const who = `${this.#name(batch.producerId)}/${batch.producerEpoch}`;
        for (const { offset, key, value } of batch.records()) {
          const content = batch.isControl
            ? (key![3] === 1 ? 'COMMIT ' : 'ABORT ') + Buffer.from(value!).toString('hex')
            : Buffer.from(value ?? []).toString();
          batches.push(`${offset} ${who}${batch.isTransactional ? ' txn' : ''} ${content}`);
        }
      }
      const aborted = found.abortedTransactions?.map(
        (each) => `${this.#name(each.producerId)} from ${each.firstOffset}`,
      );
      this.#say(
        `read ${topic}-${index}${committed ? ' committed' : ''}`,
        `${errorName(found.errorCode)} stable ${found.lastStableOffset} high ${found.highWatermark} ` +
          `aborted ${aborted?.join(', ') ?? 'null'} | ${batches.join(' | ')}`,
      );
      return;
    }
  }
}

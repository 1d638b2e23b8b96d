/** One transactional id under load: a transaction after the other, with records in several partitions and the offset of a group,
 * committed or aborted. What became of each is known but for the one whose end was not answered. */
import type { Api } from '../../src/client/apis.ts';
import { Client } from '../../src/client/client.ts';
import { errorName, KafkaError } from '../../src/protocol/errors.ts';
import { BatchBuilder } from '../../src/protocol/records/writer.ts';
import type { Random } from '../support/random.ts';
import { CALLS } from '../support/transaction-calls.ts';
import { isLost } from './producer.ts';

export const TOPIC = 'tx';
export const PARTITIONS = 3;
/** Longer than a broker lives here, and shorter than a test may wait. */
const TIMEOUT_MS = 3000;
const PAUSE_MS = 10;

const pause = () => new Promise<void>((resolve) => setTimeout(resolve, PAUSE_MS));

export interface Transaction {
  readonly number: number;
  /** By partition, in order: what was acknowledged. */
  readonly values: string[][];
  /** Whether the transaction's number was committed as its group's offset. */
  offset: boolean;
  /** ending: the commit was asked for and not answered. */
  outcome: 'open' | 'ending' | 'committed' | 'aborted';
}

/** The answer that fences a client whose transaction was open for too long. */
class TooLate extends Error {}

export class Transactor {
  readonly id: string;
  readonly group: string;
  readonly #modern: boolean;
  readonly #random: Random;
  readonly transactions: Transaction[] = [];
  readonly faults: string[] = [];
  /** What the group is to read: the number of the last committed transaction with an offset; -1 if there is none. */
  committedOffset = -1;
  #producer = { producerId: -1, producerEpoch: -1 };
  #sequences = new Map<number, number>();
  #began = 0;

  /** `modern`: the protocol of transaction.version 2. */
  constructor(id: string, modern: boolean, random: Random) {
    this.id = id;
    this.group = `group-of-${id}`;
    this.#modern = modern;
    this.#random = random;
  }

  count(outcome: Transaction['outcome']): number {
    return this.transactions.filter((each) => each.outcome === outcome).length;
  }

  /** Gives the id to this client, whatever it was doing: what was open is aborted. */
  async take(client: Client): Promise<void> {
    const body = { transactionalId: this.id, transactionTimeoutMs: TIMEOUT_MS };
    for (;;) {
      const answer = await client.connection.request(CALLS.init, body, { version: 5 });
      if (answer.errorCode === KafkaError.CONCURRENT_TRANSACTIONS) await pause();
      else {
        // What was open for too long is no reason to be refused here.
        if (answer.errorCode !== KafkaError.NONE) throw new Error(`init: ${errorName(answer.errorCode)}`);
        this.#producer = answer;
        this.#sequences = new Map();
        return;
      }
    }
  }

  /** Waits until the id's last transaction has ended without its client: by what was prepared, or by its timeout. */
  async rest(client: Client): Promise<void> {
    const body = { transactionalIds: [this.id] };
    for (;;) {
      const { transactionStates } = await client.connection.request(CALLS.describe, body, { version: 0 });
      const { errorCode, transactionState } = transactionStates[0]!;
      if (errorCode === KafkaError.TRANSACTIONAL_ID_NOT_FOUND) return;
      this.#expect(errorCode, 'describe');
      if (/^(Empty|Complete)/.test(transactionState)) return;
      await pause();
    }
  }

  /** Transactions until `done` or until the broker is gone. */
  async run(address: string, done: () => boolean): Promise<void> {
    let client: Client | undefined;
    try {
      client = await Client.connect(address);
      await this.take(client);
      while (!done()) {
        try {
          await this.#transact(client);
        } catch (error) {
          if (!(error instanceof TooLate)) throw error;
          await this.take(client);
        }
      }
    } catch (error) {
      if (!isLost(error)) this.faults.push(`${this.id}: ${(error as Error).message}`);
    } finally {
      await client?.close();
    }
  }

  async #transact(client: Client): Promise<void> {
    const transaction: Transaction = {
      number: this.transactions.length,
      values: Array.from({ length: PARTITIONS }, () => []),
      offset: false,
      outcome: 'open',
    };
    this.transactions.push(transaction);
    this.#began = Date.now();
    const partitions = Array.from({ length: 1 + this.#random.int(4) }, () => this.#random.int(PARTITIONS));
    if (!this.#modern) await this.#add(client, [...new Set(partitions)]);
    for (const partition of partitions) await this.#produce(client, transaction, partition);
    if (this.#random.int(2) === 0) await this.#commitOffset(client, transaction);
    await this.#end(client, transaction, this.#random.int(3) > 0);
  }

  async #add(client: Client, partitions: readonly number[]): Promise<void> {
    const body = {
      v3AndBelowTransactionalId: this.id,
      v3AndBelowProducerId: this.#producer.producerId,
      v3AndBelowProducerEpoch: this.#producer.producerEpoch,
      v3AndBelowTopics: [{ name: TOPIC, partitions: [...partitions] }],
    };
    const { resultsByTopicV3AndBelow } = await this.#ask(client, CALLS.add, 3, body);
    for (const { partitionErrorCode } of resultsByTopicV3AndBelow[0]!.resultsByPartition)
      this.#expect(partitionErrorCode, 'add');
  }

  async #produce(client: Client, transaction: Transaction, index: number): Promise<void> {
    const baseSequence = this.#sequences.get(index) ?? 0;
    const builder = new BatchBuilder({ ...this.#producer, baseSequence, transactional: true });
    const from = transaction.values.reduce((sum, values) => sum + values.length, 0);
    const values = Array.from(
      { length: 1 + this.#random.int(5) },
      (_, i) => `${this.id}:${transaction.number}:${from + i}`,
    );
    for (const value of values)
      builder.append({ timestamp: Date.now(), key: null, value: Buffer.from(value) });
    const body = {
      transactionalId: this.id,
      acks: -1,
      timeoutMs: 1000,
      topicData: [{ name: TOPIC, partitionData: [{ index, records: builder.build() }] }],
    };
    const { responses } = await this.#ask(client, CALLS.produce, this.#modern ? 12 : 11, body);
    this.#expect(responses[0]!.partitionResponses[0]!.errorCode, 'produce');
    this.#sequences.set(index, baseSequence + values.length);
    transaction.values[index]!.push(...values);
  }

  async #commitOffset(client: Client, transaction: Transaction): Promise<void> {
    const who = { transactionalId: this.id, ...this.#producer, groupId: this.group };
    if (!this.#modern)
      this.#expect((await this.#ask(client, CALLS.addOffsets, 3, who)).errorCode, 'add offsets');
    const offset = { partitionIndex: 0, committedOffset: transaction.number, committedMetadata: '' };
    const body = { ...who, topics: [{ name: TOPIC, partitions: [offset] }] };
    const { topics } = await this.#ask(client, CALLS.commitOffsets, this.#modern ? 5 : 3, body);
    this.#expect(topics[0]!.partitions[0]!.errorCode, 'commit an offset');
    transaction.offset = true;
  }

  async #end(client: Client, transaction: Transaction, committed: boolean): Promise<void> {
    const body = { transactionalId: this.id, ...this.#producer, committed };
    if (committed) transaction.outcome = 'ending';
    for (;;) {
      const answer = await this.#ask(client, CALLS.end, this.#modern ? 5 : 4, body);
      if (answer.errorCode === KafkaError.CONCURRENT_TRANSACTIONS) {
        await pause();
        continue;
      }
      this.#expect(answer.errorCode, 'end');
      transaction.outcome = committed ? 'committed' : 'aborted';
      if (committed && transaction.offset) this.committedOffset = transaction.number;
      // Some ends are asked for twice, as if the answer had been lost.
      const again =
        this.#random.int(8) === 0 && (await this.#ask(client, CALLS.end, this.#modern ? 5 : 4, body));
      if (again !== false) this.#expect(again.errorCode, 'end again');
      if (this.#modern) {
        this.#producer = answer;
        this.#sequences = new Map();
      }
      return;
    }
  }

  #ask<Req, Res>(client: Client, call: Api<Req, Res>, version: number, body: Req): Promise<Res> {
    return client.connection.request(call, body, { version });
  }

  #expect(code: number, what: string): void {
    if (code === KafkaError.NONE) return;
    if (Date.now() - this.#began >= TIMEOUT_MS) throw new TooLate();
    throw new Error(`${what}: ${errorName(code)}`);
  }

  /** What the group has committed; undefined while a transaction with an offset of it is open. */
  async offset(client: Client): Promise<number | undefined> {
    const asked = { topics: [{ name: TOPIC, partitionIndexes: [0] }], memberId: null, memberEpoch: -1 };
    const body = { groups: [{ ...asked, groupId: this.group }], requireStable: true };
    const { groups } = await this.#ask(client, CALLS.offsets, 9, body);
    const { errorCode, committedOffset } = groups[0]!.topics[0]!.partitions[0]!;
    if (errorCode === KafkaError.UNSTABLE_OFFSET_COMMIT) return undefined;
    if (errorCode !== KafkaError.NONE) throw new Error(`${this.group}: ${errorName(errorCode)}`);
    return committedOffset;
  }
}

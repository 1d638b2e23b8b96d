/**
 * Transactional producers, and readers of what is committed, against a whole broker in memory that is killed between any two
 * writes. Every outcome that a producer heard is kept, and what readers saw is judged by it.
 */
import { type Api, api } from '../../src/client/apis.ts';
import type { Log } from '../../src/log/log.ts';
import { KafkaError } from '../../src/protocol/errors.ts';
import * as addOffsets from '../../src/protocol/generated/AddOffsetsToTxn.ts';
import * as addPartitions from '../../src/protocol/generated/AddPartitionsToTxn.ts';
import * as endTxn from '../../src/protocol/generated/EndTxn.ts';
import * as fetch from '../../src/protocol/generated/Fetch.ts';
import * as init from '../../src/protocol/generated/InitProducerId.ts';
import * as offsetFetch from '../../src/protocol/generated/OffsetFetch.ts';
import * as produce from '../../src/protocol/generated/Produce.ts';
import * as txnOffsetCommit from '../../src/protocol/generated/TxnOffsetCommit.ts';
import { RecordBatch, readBatches } from '../../src/protocol/records/reader.ts';
import { BatchBuilder } from '../../src/protocol/records/writer.ts';
import type { BroadsheetError } from '../../src/runtime/errors.ts';
import type { FakePeer } from '../broker/fake-transport.ts';
import { responseBody, TestBroker } from '../broker/test-broker.ts';
import { TestClient } from '../broker/test-client.ts';
import { MemoryEngine } from '../support/memory-log.ts';
import type { Random } from '../support/random.ts';

const CALLS = {
  init: api(22, init.writeInitProducerIdRequest, init.readInitProducerIdResponse),
  add: api(24, addPartitions.writeAddPartitionsToTxnRequest, addPartitions.readAddPartitionsToTxnResponse),
  addOffsets: api(25, addOffsets.writeAddOffsetsToTxnRequest, addOffsets.readAddOffsetsToTxnResponse),
  end: api(26, endTxn.writeEndTxnRequest, endTxn.readEndTxnResponse),
  commitOffset: api(
    28,
    txnOffsetCommit.writeTxnOffsetCommitRequest,
    txnOffsetCommit.readTxnOffsetCommitResponse,
  ),
  produce: api(0, produce.writeProduceRequest, produce.readProduceResponse),
  fetch: api(1, fetch.writeFetchRequest, fetch.readFetchResponse),
  offsets: api(9, offsetFetch.writeOffsetFetchRequest, offsetFetch.readOffsetFetchResponse),
};

const TOPIC = 'data';
export const PARTITIONS = 3;
const TIMEOUT_MS = 20_000;
/** Turns of the loop in which an answer comes, if one comes at all. */
const TURNS = 3000;
const CONFIG = {
  'offsets.topic.num.partitions': '2',
  'transaction.state.log.num.partitions': '2',
  'num.partitions': '1',
  // There are no files to clean, and a broker that is killed would leave its thread behind.
  'log.cleaner.enable': 'false',
};

/** An engine whose process is killed before one of its writes: nothing is written and nobody hears of anything any more. */
class MortalEngine extends MemoryEngine {
  /** Writes until death. */
  left = Number.POSITIVE_INFINITY;

  get dead(): boolean {
    return this.left <= 0;
  }

  override commit(done: (log: Log, error: BroadsheetError | undefined) => void): void {
    for (const log of this.logs) {
      if (!log.hasStaged) continue;
      this.left--;
      if (this.dead) return;
      log.commitStaged(0);
      done(log, undefined);
    }
  }
}

/** The broker is gone: there is no answer. */
class Killed extends Error {}

interface Sent {
  readonly partition: number;
  readonly values: readonly string[];
}

interface Transaction {
  readonly number: number;
  readonly sent: Sent[];
  /** What its group is to read once it is committed, or -1. */
  offset: number;
  outcome: 'open' | 'committed' | 'aborted';
}

interface Step {
  readonly call: Api<never, unknown>;
  readonly version: number;
  readonly body: unknown;
  /** Undefined: it is not over, the step is sent again. */
  readonly hear: (answer: unknown) => boolean;
}

/** One transactional id and who uses it. */
class ModelProducer {
  readonly id: string;
  readonly group: string;
  readonly #history: History;
  readonly #modern: boolean;
  #producerId = -1;
  #epoch = -1;
  #ready = false;
  #sequences = new Map<number, number>();
  #added = new Set<number>();
  #addedGroup = false;
  #current: Transaction | undefined;
  /** What the group reads now. */
  committedOffset = -1;
  step: Step | undefined;

  constructor(history: History, index: number) {
    this.#history = history;
    this.id = `tx-${index}`;
    this.group = `group-${index}`;
    this.#modern = index % 2 === 0;
  }

  get transaction(): Transaction | undefined {
    return this.#current;
  }

  #make<Req, Res>(call: Api<Req, Res>, version: number, body: Req, hear: (answer: Res) => boolean): void {
    this.step = {
      call: call as Api<never, unknown>,
      version,
      body,
      hear: hear as (answer: unknown) => boolean,
    };
  }

  /** The client gives up what it has: a new instance takes its place. */
  replace(): void {
    this.#ready = false;
    this.step = undefined;
  }

  /** Decides on the next request, if none is to be sent again. */
  plan(random: Random): void {
    if (this.step !== undefined) return;
    if (!this.#ready) {
      this.#begin();
      return;
    }
    const choice = random.int(10);
    if (this.#current !== undefined && choice < 3) this.#end(random.int(3) > 0);
    else if (this.#current !== undefined && choice === 3) this.#commitOffset();
    else if (random.int(40) === 0) this.replace();
    else this.#produce(random.int(PARTITIONS), 1 + random.int(3));
  }

  #begin(): void {
    const body = { transactionalId: this.id, transactionTimeoutMs: TIMEOUT_MS };
    this.#make(CALLS.init, 5, body, ({ errorCode, producerId, producerEpoch }) => {
      if (errorCode === KafkaError.CONCURRENT_TRANSACTIONS) return false;
      this.#expect(errorCode, []);
      this.#abandon();
      this.#producerId = producerId;
      this.#epoch = producerEpoch;
      this.#sequences = new Map();
      this.#ready = true;
      return true;
    });
  }

  #abandon(): void {
    if (this.#current?.outcome === 'open') this.#current.outcome = 'aborted';
    this.#current = undefined;
    this.#added = new Set();
    this.#addedGroup = false;
  }

  /** Anything else than success or what fencing looks like is a fault. */
  #expect(code: number, fenced: readonly number[]): boolean {
    if (code === KafkaError.NONE) return true;
    if (!fenced.includes(code)) throw new Error(`${this.id}: an unexpected error ${code}`);
    this.replace();
    return false;
  }

  #produce(partition: number, count: number): void {
    this.#current ??= this.#history.begin();
    const transaction = this.#current;
    if (!this.#modern && !this.#added.has(partition)) {
      const body = {
        v3AndBelowTransactionalId: this.id,
        v3AndBelowProducerId: this.#producerId,
        v3AndBelowProducerEpoch: this.#epoch,
        v3AndBelowTopics: [{ name: TOPIC, partitions: [partition] }],
      };
      this.#make(CALLS.add, 3, body, ({ resultsByTopicV3AndBelow }) => {
        const code = resultsByTopicV3AndBelow[0]!.resultsByPartition[0]!.partitionErrorCode;
        if (this.#expect(code, [KafkaError.PRODUCER_FENCED])) this.#added.add(partition);
        return true;
      });
      return;
    }
    const sequence = this.#sequences.get(partition) ?? 0;
    const from = transaction.sent.reduce((sum, sent) => sum + sent.values.length, 0);
    const values = Array.from({ length: count }, (_, i) => `${transaction.number}:${from + i}`);
    const builder = new BatchBuilder({
      producerId: this.#producerId,
      producerEpoch: this.#epoch,
      baseSequence: sequence,
      transactional: true,
    });
    for (const value of values)
      builder.append({ timestamp: this.#history.now, key: null, value: Buffer.from(value) });
    const body = {
      transactionalId: this.id,
      acks: -1,
      timeoutMs: 1000,
      topicData: [{ name: TOPIC, partitionData: [{ index: partition, records: builder.build() }] }],
    };
    this.#make(CALLS.produce, this.#modern ? 12 : 11, body, ({ responses }) => {
      const code = responses[0]!.partitionResponses[0]!.errorCode;
      const { INVALID_PRODUCER_EPOCH, INVALID_TXN_STATE, TRANSACTION_ABORTABLE } = KafkaError;
      if (!this.#expect(code, [INVALID_PRODUCER_EPOCH, INVALID_TXN_STATE, TRANSACTION_ABORTABLE]))
        return true;
      this.#sequences.set(partition, sequence + count);
      transaction.sent.push({ partition, values });
      return true;
    });
  }

  #commitOffset(): void {
    const transaction = this.#current!;
    if (!this.#modern && !this.#addedGroup) {
      const body = {
        transactionalId: this.id,
        producerId: this.#producerId,
        producerEpoch: this.#epoch,
        groupId: this.group,
      };
      this.#make(CALLS.addOffsets, 3, body, ({ errorCode }) => {
        if (this.#expect(errorCode, [KafkaError.PRODUCER_FENCED])) this.#addedGroup = true;
        return true;
      });
      return;
    }
    const body = {
      transactionalId: this.id,
      groupId: this.group,
      producerId: this.#producerId,
      producerEpoch: this.#epoch,
      topics: [
        {
          name: TOPIC,
          partitions: [{ partitionIndex: 0, committedOffset: transaction.number, committedMetadata: '' }],
        },
      ],
    };
    this.#make(CALLS.commitOffset, this.#modern ? 5 : 3, body, ({ topics }) => {
      const { errorCode } = topics[0]!.partitions[0]!;
      const { INVALID_PRODUCER_EPOCH, INVALID_TXN_STATE } = KafkaError;
      if (this.#expect(errorCode, [INVALID_PRODUCER_EPOCH, INVALID_TXN_STATE]))
        transaction.offset = transaction.number;
      return true;
    });
  }

  #end(commit: boolean): void {
    const transaction = this.#current!;
    const version = this.#modern ? 5 : 4;
    const body = {
      transactionalId: this.id,
      producerId: this.#producerId,
      producerEpoch: this.#epoch,
      committed: commit,
    };
    this.#make(CALLS.end, version, body, ({ errorCode, producerId, producerEpoch }) => {
      if (errorCode === KafkaError.CONCURRENT_TRANSACTIONS) return false;
      // Nothing was added: there is no transaction to end, or it was aborted for its age.
      if (!this.#expect(errorCode, [KafkaError.PRODUCER_FENCED, KafkaError.INVALID_TXN_STATE])) return true;
      transaction.outcome = commit ? 'committed' : 'aborted';
      if (commit && transaction.offset >= 0) this.committedOffset = transaction.offset;
      if (this.#modern) {
        this.#producerId = producerId;
        this.#epoch = producerEpoch;
        this.#sequences = new Map();
      }
      this.#abandon();
      return true;
    });
  }
}

/** What a reader of what is committed has seen of one partition. */
interface Reader {
  position: number;
  lastStableOffset: number;
  readonly values: string[];
}

export class History {
  readonly #random: Random;
  readonly #engine = new MortalEngine();
  readonly #producers: ModelProducer[];
  readonly #readers: Reader[] = Array.from({ length: PARTITIONS }, () => ({
    position: 0,
    lastStableOffset: 0,
    values: [],
  }));
  readonly transactions: Transaction[] = [];
  kills = 0;
  #broker!: TestBroker;
  #peers: FakePeer[] = [];
  #elapsed = 0;

  constructor(random: Random, producers: number) {
    this.#random = random;
    this.#producers = Array.from({ length: producers }, (_, index) => new ModelProducer(this, index));
  }

  get now(): number {
    return this.#broker.clock.now();
  }

  begin(): Transaction {
    const transaction: Transaction = {
      number: this.transactions.length,
      sent: [],
      offset: -1,
      outcome: 'open',
    };
    this.transactions.push(transaction);
    return transaction;
  }

  async start(): Promise<void> {
    await this.#open();
    const client = new TestClient(this.#broker);
    const { errorCode } = await client.createTopic(TOPIC, PARTITIONS, { 'internal.segment.bytes': '2000' });
    if (errorCode !== KafkaError.NONE) throw new Error(`the topic could not be made: ${errorCode}`);
  }

  async #open(): Promise<void> {
    this.#engine.left = Number.POSITIVE_INFINITY;
    this.#broker = await TestBroker.start(CONFIG, this.#engine);
    this.#broker.clock.advance(this.#elapsed);
    this.#peers = this.#producers.map(() => this.#broker.transport.connect());
  }

  async #restart(): Promise<void> {
    this.kills++;
    this.#engine.left = 0;
    this.#elapsed = this.#broker.clock.monotonic();
    await this.#engine.close();
    this.#engine.files.forgetLocks();
    await this.#open();
  }

  async #ask<Res>(
    peer: FakePeer,
    before: number,
    key: number,
    version: number,
    read: Api<never, Res>['read'],
  ): Promise<Res> {
    for (let turn = 0; turn < TURNS || !this.#engine.dead; turn++) {
      const frame = peer.received[before];
      if (frame !== undefined) return read(responseBody(frame, key, version), version);
      if (turn > 100 * TURNS)
        throw new Error(`no answer: ${JSON.stringify(this.#broker.logger.of('error'))}`);
      await new Promise((resolve) => setImmediate(resolve));
    }
    throw new Killed();
  }

  /** Some producers go on, in one tick, and each hears its answer, or the broker dies. */
  async turn(): Promise<void> {
    const random = this.#random;
    if (random.int(25) === 0) this.#engine.left = 1 + random.int(6);
    if (random.int(30) === 0) this.#broker.clock.advance(random.int(TIMEOUT_MS));
    this.#broker.clock.advance(random.int(50));
    const active = this.#producers.filter(() => random.int(2) === 0);
    const frames: (readonly [FakePeer, Uint8Array])[] = [];
    const asked: { producer: ModelProducer; step: Step; peer: FakePeer; before: number }[] = [];
    for (const producer of active) {
      producer.plan(random);
      const { step } = producer;
      if (step === undefined) continue;
      const peer = this.#peers[this.#producers.indexOf(producer)]!;
      const { call, version, body } = step;
      frames.push([
        peer,
        this.#broker.frame(call.key, version, (w) => call.write(w, version, body as never)),
      ]);
      asked.push({ producer, step, peer, before: peer.received.length });
    }
    try {
      if (frames.length > 0) this.#broker.transport.tick(...frames);
      for (const { producer, step, peer, before } of asked) {
        const answer = await this.#ask(peer, before, step.call.key, step.version, step.call.read);
        if (producer.step === step && step.hear(answer) && producer.step === step) producer.step = undefined;
      }
      if (random.int(3) === 0) await this.#read(random.int(PARTITIONS));
      if (random.int(10) === 0) await this.#checkOffset(random.pick(this.#producers));
    } catch (error) {
      if (!(error instanceof Killed)) throw error;
    }
    if (this.#engine.dead) await this.#restart();
  }

  /** Sends a producer's request until it is answered for good. */
  async #finishStep(producer: ModelProducer): Promise<void> {
    const peer = this.#peers[this.#producers.indexOf(producer)]!;
    for (;;) {
      const { step } = producer;
      if (step === undefined) return;
      const { call, version, body } = step;
      const before = peer.received.length;
      this.#broker.transport.tick([
        peer,
        this.#broker.frame(call.key, version, (w) => call.write(w, version, body as never)),
      ]);
      if (step.hear(await this.#ask(peer, before, call.key, version, call.read))) producer.step = undefined;
    }
  }

  async #call<Req, Res>(call: Api<Req, Res>, version: number, body: Req): Promise<Res> {
    const peer = this.#broker.transport.connect();
    this.#broker.transport.tick([
      peer,
      this.#broker.frame(call.key, version, (w) => call.write(w, version, body)),
    ]);
    return this.#ask(peer, 0, call.key, version, call.read);
  }

  /** One poll of a reader, as a client reads it: without the records of aborted transactions. */
  async #read(partition: number): Promise<void> {
    const reader = this.#readers[partition]!;
    const { responses } = await this.#call(CALLS.fetch, 11, {
      replicaId: -1,
      maxWaitMs: 0,
      minBytes: 0,
      maxBytes: 1 << 20,
      isolationLevel: 1,
      topics: [
        { topic: TOPIC, partitions: [{ partition, fetchOffset: reader.position, partitionMaxBytes: 700 }] },
      ],
    });
    const found = responses[0]!.partitions[0]!;
    if (found.errorCode !== KafkaError.NONE) throw new Error(`reading failed: ${found.errorCode}`);
    if (found.lastStableOffset < reader.lastStableOffset)
      throw new Error(
        `the last stable offset went from ${reader.lastStableOffset} to ${found.lastStableOffset}`,
      );
    reader.lastStableOffset = found.lastStableOffset;
    const starting = [...(found.abortedTransactions ?? [])].sort((a, b) => a.firstOffset - b.firstOffset);
    const aborted = new Set<number>();
    for (const batch of readBatches(found.records ?? new Uint8Array())) {
      if (!(batch instanceof RecordBatch)) throw new Error('an old format');
      while (starting.length > 0 && starting[0]!.firstOffset <= batch.lastOffset)
        aborted.add(starting.shift()!.producerId);
      for (const { offset, key, value } of batch.records()) {
        if (offset < reader.position) continue;
        if (offset >= found.lastStableOffset) throw new Error(`offset ${offset} is not stable`);
        if (batch.isControl) {
          if (key![3] === 0) aborted.delete(batch.producerId);
        } else if (!aborted.has(batch.producerId)) reader.values.push(Buffer.from(value!).toString());
      }
      reader.position = Math.max(reader.position, batch.lastOffset + 1);
    }
  }

  /** What a group reads where it requires stable offsets. */
  async #checkOffset(producer: ModelProducer): Promise<void> {
    // What is not answered may have been done.
    if (producer.step !== undefined) return;
    const { groups } = await this.#call(CALLS.offsets, 9, {
      groups: [
        {
          groupId: producer.group,
          memberId: null,
          memberEpoch: -1,
          topics: [{ name: TOPIC, partitionIndexes: [0] }],
        },
      ],
      requireStable: true,
    });
    const found = groups[0]!.topics[0]!.partitions[0]!;
    const open = producer.transaction !== undefined && producer.transaction.offset >= 0;
    if (found.errorCode === KafkaError.UNSTABLE_OFFSET_COMMIT && open) return;
    if (found.errorCode !== KafkaError.NONE || found.committedOffset !== producer.committedOffset)
      throw new Error(
        `${producer.group} reads ${found.committedOffset} (${found.errorCode}), not ${producer.committedOffset}`,
      );
  }

  /** Lets all transactions end, reads what there is, and gives what is wrong with it. */
  async verdict(): Promise<string[]> {
    await this.#restart();
    for (const producer of this.#producers) {
      // What was not answered may have been done: it is asked once more.
      await this.#finishStep(producer);
      producer.replace();
      producer.plan(this.#random);
      await this.#finishStep(producer);
      await this.#checkOffset(producer);
    }
    for (let partition = 0; partition < PARTITIONS; partition++) {
      for (let before = -1; this.#readers[partition]!.position > before; ) {
        before = this.#readers[partition]!.position;
        await this.#read(partition);
      }
    }
    await this.#engine.close();
    return this.#readers.flatMap(({ values }, partition) => this.#judge(partition, values));
  }

  #judge(partition: number, values: readonly string[]): string[] {
    const faults: string[] = [];
    const seen = new Map<number, string[]>();
    for (const value of values) {
      const number = Number(value.split(':')[0]);
      const of = seen.get(number);
      if (of === undefined) seen.set(number, [value]);
      else of.push(value);
    }
    for (const transaction of this.transactions) {
      const { number, outcome, sent } = transaction;
      const found = seen.get(number) ?? [];
      const wanted =
        outcome === 'committed'
          ? sent.filter((each) => each.partition === partition).flatMap((each) => each.values)
          : [];
      if (found.join() !== wanted.join())
        faults.push(
          `partition ${partition}: transaction ${number}, ${outcome}, shows [${found}] and not [${wanted}]`,
        );
    }
    return faults;
  }
}

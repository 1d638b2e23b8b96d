/** What the transaction coordinator needs, in memory: a log that is written when told to, and partitions that take markers. */
import type { AppendDone, KeyedRecord, TopicVisitor } from '../../src/log/coordinator-topic.ts';
import type { TransactionMarker } from '../../src/log/producer-state.ts';
import { KafkaError } from '../../src/protocol/errors.ts';
import { VirtualClock } from '../../src/runtime/clock.ts';
import {
  type MarkerTarget,
  type ProducerAnswer,
  TransactionCoordinator,
  type TransactionLog,
} from '../../src/transaction/transaction-coordinator.ts';
import { TestLogger } from '../broker/test-broker.ts';

export class FakeLog implements TransactionLog {
  readonly records: KeyedRecord[] = [];
  available = true;
  #staged: { readonly records: readonly KeyedRecord[]; readonly done: AppendDone }[] = [];

  prepare(): undefined {
    return undefined;
  }

  isAvailable(): boolean {
    return this.available;
  }

  leaderEpoch(): number {
    return 3;
  }

  append(_: string, records: readonly KeyedRecord[], done: AppendDone): void {
    this.#staged.push({ records, done });
  }

  get waiting(): number {
    return this.#staged.length;
  }

  /** Ends the appends that wait, as a tick does. */
  write(code: number = KafkaError.NONE): void {
    for (const { records, done } of this.#staged.splice(0)) {
      if (code === KafkaError.NONE) this.records.push(...records);
      done(code);
    }
  }

  async load(visitor: TopicVisitor): Promise<void> {
    for (const { key, value } of this.records) visitor.record(key!, value);
  }
}

export class FakePartitions implements MarkerTarget {
  /** `topic-index COMMIT id/epoch`, as they were written. */
  readonly written: string[] = [];
  /** What partitions answer instead of taking a marker. */
  readonly refusals = new Map<string, number>();
  /** How often a marker was to be written. */
  asked = 0;
  #staged: (() => void)[] = [];

  writeMarker(topic: string, index: number, marker: TransactionMarker, done: (code: number) => void): void {
    this.asked++;
    this.#staged.push(() => {
      const refusal = this.refusals.get(topic) ?? KafkaError.NONE;
      const { producerId, producerEpoch, commit } = marker;
      if (refusal === KafkaError.NONE)
        this.written.push(`${topic}-${index} ${commit ? 'COMMIT' : 'ABORT'} ${producerId}/${producerEpoch}`);
      done(refusal);
    });
  }

  get waiting(): number {
    return this.#staged.length;
  }

  write(): void {
    for (const write of this.#staged.splice(0)) write();
  }
}

export const SETTINGS = {
  maxTimeoutMs: 900_000,
  expirationMs: 1_000_000,
  expirationCheckMs: 10_000,
  timeoutCheckMs: undefined,
  transactionVersion: 2,
};

export class World {
  readonly clock: VirtualClock;
  readonly log: FakeLog;
  readonly partitions: FakePartitions;
  readonly coordinator: TransactionCoordinator;
  readonly logger = new TestLogger();
  #nextId = 1000;

  constructor(log = new FakeLog(), clock = new VirtualClock(), partitions = new FakePartitions()) {
    this.log = log;
    this.clock = clock;
    this.partitions = partitions;
    this.coordinator = new TransactionCoordinator({
      log,
      markers: partitions,
      settings: SETTINGS,
      producerIds: { next: async () => this.#nextId++ },
      clock,
      logger: this.logger,
    });
  }

  /** The same log, and what reached the partitions, after a SIGKILL: what waits is lost. */
  async restart(records = this.log.records.length): Promise<World> {
    const log = new FakeLog();
    log.records.push(...this.log.records.slice(0, records));
    const partitions = new FakePartitions();
    partitions.written.push(...this.partitions.written);
    const next = new World(log, this.clock, partitions);
    this.coordinator.close();
    next.#nextId = this.#nextId + 1000;
    await next.coordinator.load();
    return next;
  }

  /** Lets everything that waits be written, and what follows from it. */
  settle(): void {
    while (this.log.waiting > 0 || this.partitions.waiting > 0) {
      this.log.write();
      this.partitions.write();
    }
  }

  async init(
    id: string,
    options: { timeoutMs?: number; expected?: ProducerAnswer } = {},
  ): Promise<ProducerAnswer> {
    const { timeoutMs = 60_000, expected } = options;
    const answer = this.coordinator.initProducerId(id, { timeoutMs, expected });
    let known: ProducerAnswer | undefined;
    void answer.then((found) => {
      known = found;
    });
    while (known === undefined) {
      await Promise.resolve();
      if (this.log.waiting > 0) this.log.write();
    }
    return known;
  }

  /** Begins without ending what is written. */
  add(id: string, producer: ProducerAnswer, topic = 't', version = 2): number[] {
    const codes: number[] = [];
    this.coordinator.addPartitions(id, producer, [[topic, 0]], version, (code) => codes.push(code));
    return codes;
  }

  end(id: string, producer: ProducerAnswer, commit: boolean, clientVersion = 2): ProducerAnswer[] {
    const answers: ProducerAnswer[] = [];
    this.coordinator.endTransaction(id, { ...producer, commit, clientVersion }, (answer) =>
      answers.push(answer),
    );
    return answers;
  }
}

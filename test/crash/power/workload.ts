/**
 * What a broker does while its file work is written down: records of several kinds of topics, deletions, retention, compaction,
 * topics that come and go, commits of a group, clean stops. Several things are under way at once, in an order that the seed gives.
 */
import { APIS, api } from '../../../src/client/apis.ts';
import type { LogEngine } from '../../../src/log/log.ts';
import { errorName } from '../../../src/protocol/errors.ts';
import { ApiKey } from '../../../src/protocol/generated/api-keys.ts';
import {
  readOffsetCommitResponse,
  writeOffsetCommitRequest,
} from '../../../src/protocol/generated/OffsetCommit.ts';
import { BatchBuilder } from '../../../src/protocol/records/writer.ts';
import { VirtualClock } from '../../../src/runtime/clock.ts';
import { BroadsheetError } from '../../../src/runtime/errors.ts';
import { deleteRecords } from '../../support/admin-calls.ts';
import type { Random } from '../../support/random.ts';
import { DiskBroker } from './disk-broker.ts';
import type { FileJournal } from './file-journal.ts';
import { BEGINNING, Ledger, Steps } from './ledger.ts';
import { Transactions, TX_PARTITIONS, TX_TOPIC } from './transactions.ts';

/** How much is promised: with `synced` an acknowledged record is on disk, whatever its topic. */
export type Mode = 'synced' | 'mixed';

interface Kind {
  readonly name: string;
  readonly partitions: number;
  readonly configs: Readonly<Record<string, string>>;
}

const KINDS: readonly Kind[] = [
  {
    name: 'synced',
    partitions: 2,
    configs: { 'flush.messages': '1', 'internal.segment.bytes': '9000', 'index.interval.bytes': '600' },
  },
  { name: 'plain', partitions: 2, configs: { 'internal.segment.bytes': '12000' } },
  {
    name: 'short',
    partitions: 1,
    configs: {
      ...{ 'flush.messages': '1', 'retention.bytes': '12000', 'internal.segment.bytes': '7000' },
      'file.delete.delay.ms': '700',
    },
  },
  {
    name: 'compacted',
    partitions: 1,
    configs: {
      ...{ 'flush.messages': '1', 'cleanup.policy': 'compact', 'internal.segment.bytes': '7000' },
      ...{ 'min.cleanable.dirty.ratio': '0.01', 'delete.retention.ms': '500', 'file.delete.delay.ms': '300' },
    },
  },
];
const PASSING = ['passing-0', 'passing-1'];
const CODECS = ['none', 'none', 'lz4', 'gzip'] as const;
const KEYS = 6;
/** Asked for at once. */
const AT_ONCE = 4;
/** How often a partition is asked whether it takes anything. */
const PROBES = 20;

const OFFSET_COMMIT = api(ApiKey.OffsetCommit, writeOffsetCommitRequest, readOffsetCommitResponse);

export const GROUP = 'group';

export function brokerConfig(mode: Mode): Record<string, string> {
  return {
    ...(mode === 'synced' ? { 'log.flush.interval.messages': '1' } : {}),
    'offsets.topic.num.partitions': '2',
    'transaction.state.log.num.partitions': '2',
    'auto.create.topics.enable': 'false',
    'log.flush.offset.checkpoint.interval.ms': '900',
    'log.flush.start.offset.checkpoint.interval.ms': '1100',
    'log.retention.check.interval.ms': '1300',
    'log.initial.task.delay.ms': '500',
    'log.cleaner.backoff.ms': '1000',
    'log.cleaner.dedupe.buffer.size': '1048576',
    'metadata.log.max.record.bytes.between.snapshots': '1500',
  };
}

/** One topic, and what is known of it by position in the journal. */
export class TopicState {
  readonly name: string;
  readonly kind: Kind;
  /** 'creating' and 'deleting': asked for, not answered. */
  readonly states: {
    position: number;
    state: 'creating' | 'there' | 'deleting' | 'gone';
    ledgers: readonly Ledger[];
  }[] = [];
  busy = false;
  /** A request to make or delete it failed: it may be there or not. */
  lost = false;

  constructor(kind: Kind) {
    this.name = kind.name;
    this.kind = kind;
    this.states.push({ position: 0, state: 'gone', ledgers: [] });
  }

  get now() {
    return this.states[this.states.length - 1]!;
  }

  at(position: number) {
    return this.states.findLast((state) => state.position <= position)!;
  }

  /** Whether acknowledged means on disk. */
  isSynced(mode: Mode): boolean {
    return mode === 'synced' || this.kind.configs['flush.messages'] === '1';
  }
}

export interface WorkloadOptions {
  readonly dataDir: string;
  readonly journal: FileJournal;
  readonly random: Random;
  readonly make: () => LogEngine;
  /** Calls about files will fail: requests may be refused, and the broker may fail to start or to stop. Default: nothing may fail. */
  readonly bearsErrors?: boolean;
}

/** A request was answered with an error. */
class Refused extends Error {}

export class Workload {
  readonly mode: Mode;
  readonly bearsErrors: boolean;
  /** What was refused, or failed. */
  readonly refusals: string[] = [];
  readonly topics: TopicState[] = [
    ...KINDS.map((kind) => new TopicState(kind)),
    ...PASSING.map(
      (name) =>
        new TopicState({
          name,
          partitions: 1,
          configs: { 'flush.messages': '1', 'file.delete.delay.ms': '400' },
        }),
    ),
  ];
  /** Offset committed by the group. */
  readonly committed = { asked: new Steps(), acked: new Steps() };
  /** Highest producer id that was given out. */
  readonly producerIds = new Steps();
  readonly #options: WorkloadOptions;
  readonly clock = new VirtualClock(BEGINNING);
  #broker!: DiskBroker;
  #producer = { producerId: -1, producerEpoch: -1 };
  #committing = false;
  #transactional = Number.POSITIVE_INFINITY;
  readonly transactions = new Transactions();
  readonly done = { records: 0, deletions: 0, stops: 0 };

  constructor(mode: Mode, options: WorkloadOptions) {
    this.mode = mode;
    this.bearsErrors = options.bearsErrors ?? false;
    this.#options = options;
  }

  /** Where what was acknowledged may be lost, a transaction may be found in pieces. */
  get hasTransactions(): boolean {
    return this.mode === 'synced' && !this.bearsErrors;
  }

  /** Whether the topic of the transactions was there at that moment. */
  wereTransactionsAt(position: number): boolean {
    return position >= this.#transactional;
  }

  get producer() {
    return this.#producer;
  }

  get #position(): number {
    return this.#options.journal.position;
  }

  async #start(): Promise<void> {
    const { dataDir, journal, make } = this.#options;
    const { clock, mode } = this;
    this.#broker = await DiskBroker.start({
      dataDir,
      journal,
      clock,
      engine: make(),
      config: brokerConfig(mode),
    });
  }

  async run(steps: number): Promise<void> {
    const { journal, random } = this.#options;
    if (!(await this.#begin())) return;
    const running = new Set<Promise<unknown>>();
    let failure: unknown;
    for (let step = 0; step < steps && failure === undefined; step++) {
      const work = this.#bearing(this.#act())
        .catch((error) => {
          failure ??= error;
        })
        .finally(() => running.delete(work));
      running.add(work);
      if (running.size >= AT_ONCE) await journal.until(Promise.race(running));
      for (let turns = random.int(6); turns > 0; turns--) {
        await new Promise((resolve) => setImmediate(resolve));
        journal.stepOne();
      }
      if (random.int(Math.ceil(steps / 3)) === 0) {
        await journal.until(Promise.all(running));
        await this.#bearing(this.#stop());
        if (!(await this.#bearing(this.#start()))) return;
      }
    }
    await journal.until(Promise.all(running));
    if (failure !== undefined) throw failure;
    if (this.bearsErrors) await journal.until(this.#probe());
    await this.#bearing(this.#stop());
  }

  async #begin(): Promise<boolean> {
    const { journal } = this.#options;
    if (!(await this.#bearing(this.#start()))) return false;
    if (await this.#bearing(journal.until(this.#prepare()))) return true;
    await this.#bearing(this.#stop());
    return false;
  }

  /** Whether it went well. Rejects with what may not happen. */
  async #bearing(work: Promise<unknown>): Promise<boolean> {
    try {
      await work;
      return true;
    } catch (error) {
      const refused = error instanceof Refused || error instanceof BroadsheetError;
      if (!this.bearsErrors || !refused) throw error;
      this.refusals.push(error.message);
      return false;
    }
  }

  /** Partitions that take nothing any more. */
  readonly dead: string[] = [];

  async #probe(): Promise<void> {
    for (let seconds = 0; seconds < 15; seconds++) await this.#second();
    for (const topic of this.topics) {
      if (topic.lost || topic.now.state !== 'there') continue;
      for (const index of topic.now.ledgers.keys()) {
        if (!(await this.#takes({ topic, index }))) this.dead.push(`${topic.name}-${index}`);
      }
    }
  }

  /** A directory without space takes nothing until a thread has looked at it again, which may come late. */
  async #takes(target: { topic: TopicState; index: number }): Promise<boolean> {
    for (let left = PROBES; left > 0; left--) {
      if (await this.#bearing(this.#send([target]))) return true;
      await this.#second();
      await new Promise((resolve) => setTimeout(resolve, 2));
    }
    return false;
  }

  async #second(): Promise<void> {
    this.clock.advance(1000);
    for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve));
  }

  async #stop(): Promise<void> {
    await this.#broker.close();
    this.done.stops++;
    for (const { now } of this.topics) {
      for (const ledger of now.ledgers) ledger.durable.note(this.#position, ledger.end);
    }
  }

  async #prepare(): Promise<void> {
    const init = { transactionalId: null, transactionTimeoutMs: 1000, producerId: -1, producerEpoch: -1 };
    const { body, position } = await this.#broker.ask(APIS.initProducerId, 5, init);
    this.#expect(body.errorCode, 'InitProducerId');
    this.#producer = body;
    this.producerIds.note(position, body.producerId);
    for (const topic of this.topics.slice(0, KINDS.length)) await this.#create(topic);
    if (this.hasTransactions) {
      const topic = { name: TX_TOPIC, numPartitions: TX_PARTITIONS, replicationFactor: 1, assignments: [] };
      const made = await this.#broker.ask(APIS.createTopics, 7, {
        topics: [{ ...topic, configs: [{ name: 'internal.segment.bytes', value: '2000' }] }],
        ...{ timeoutMs: 1000, validateOnly: false },
      });
      this.#expect(made.body.topics[0]!.errorCode, 'CreateTopics');
      this.#transactional = made.position;
    }
    const find = await this.#broker.ask(APIS.findCoordinator, 4, { keyType: 0, coordinatorKeys: [GROUP] });
    this.#expect(find.body.coordinators![0]!.errorCode, 'FindCoordinator');
  }

  #expect(code: number, what: string): void {
    if (code !== 0)
      throw new Refused(`${what}: ${errorName(code)}; ${this.bearsErrors ? '' : this.#broker.log}`);
  }

  async #act(): Promise<void> {
    const { random } = this.#options;
    const kind = random.int(100);
    if (kind < 55) await this.#produce();
    else if (kind < 75) this.clock.advance(random.int(700));
    else if (kind < 81) await this.#deleteRecords();
    else if (kind < 89) await this.#comeAndGo();
    else if (kind < 93) await this.#commit();
    else if (kind < 98) await this.#transact();
    else {
      const init = { transactionalId: null, transactionTimeoutMs: 1000, producerId: -1, producerEpoch: -1 };
      const { body, position } = await this.#broker.ask(APIS.initProducerId, 5, init);
      this.#expect(body.errorCode, 'InitProducerId');
      this.producerIds.note(position, body.producerId);
    }
  }

  async #produce(): Promise<void> {
    const { random } = this.#options;
    const there = this.topics.filter(({ now, lost }) => now.state === 'there' && !lost);
    await this.#send(
      Array.from({ length: 1 + random.int(4) }, () => {
        const topic = random.pick(there);
        return { topic, index: random.int(topic.now.ledgers.length) };
      }),
    );
  }

  async #send(targets: readonly { readonly topic: TopicState; readonly index: number }[]): Promise<void> {
    const { random } = this.#options;
    const bodies: Parameters<typeof APIS.produce.write>[2][] = [];
    const batches: { topic: TopicState; ledger: Ledger; first: number; count: number }[] = [];
    for (const { topic, index } of targets) {
      const ledger = topic.now.ledgers[index]!;
      const first = ledger.end;
      const bytes = this.makeBatch(ledger, random);
      bodies.push({
        transactionalId: null,
        acks: random.int(4) === 0 ? 1 : -1,
        timeoutMs: 1000,
        topicData: [{ name: topic.name, partitionData: [{ index, records: bytes }] }],
      });
      batches.push({ topic, ledger, first, count: ledger.end - first });
      ledger.asked.note(this.#position, ledger.end);
      ledger.waiting++;
    }
    const answers = this.#broker.send(APIS.produce, 9, bodies).map(async (answer, i) => {
      const { body, position } = await answer;
      const { topic, ledger, first, count } = batches[i]!;
      ledger.waiting--;
      const { errorCode, baseOffset } = body.responses[0]!.partitionResponses[0]!;
      this.#expect(errorCode, `Produce to ${topic.name}`);
      if (!this.bearsErrors && baseOffset !== first)
        throw new Error(`${ledger.name}: ${first} was acknowledged as ${baseOffset}`);
      ledger.answered(baseOffset, first, count, position);
      this.done.records += count;
    });
    for (const answer of await Promise.allSettled(answers))
      if (answer.status === 'rejected') throw answer.reason;
  }

  /** The ledger's next batch. */
  makeBatch(ledger: Ledger, random: Random): Uint8Array {
    const count = 1 + random.int(5);
    // A gap in the sequence of one would have all that follows refused.
    const idempotent = random.int(2) === 0 && !this.bearsErrors;
    const first = ledger.end;
    const sequence = idempotent ? ledger.nextSequence : -1;
    const builder = new BatchBuilder({
      compression: random.pick(CODECS),
      ...(idempotent && { ...this.#producer, baseSequence: sequence }),
    });
    for (let i = 0; i < count; i++) {
      const key = ledger.compacted ? `key-${random.int(KEYS)}` : undefined;
      builder.append(ledger.next(key, ledger.compacted && !this.bearsErrors && random.int(8) === 0));
    }
    if (idempotent) ledger.nextSequence += count;
    const bytes = builder.build();
    // What is sent is patched.
    ledger.batches.push({ first, count, sequence, bytes: Uint8Array.from(bytes) });
    return bytes;
  }

  async #deleteRecords(): Promise<void> {
    const { random } = this.#options;
    const topic = this.topics[random.int(2)]!;
    if (topic.lost || topic.now.state !== 'there') return;
    const index = random.int(topic.now.ledgers.length);
    const ledger = topic.now.ledgers[index]!;
    const offset = Math.floor(ledger.acked.at(this.#position) * random.unit());
    ledger.startAsked.note(this.#position, offset);
    const { body, position } = await this.#broker.ask(deleteRecords, 2, {
      topics: [{ name: topic.name, partitions: [{ partitionIndex: index, offset }] }],
      timeoutMs: 1000,
    });
    const { errorCode, lowWatermark } = body.topics[0]!.partitions[0]!;
    this.#expect(errorCode, 'DeleteRecords');
    ledger.start.note(position, lowWatermark);
    this.done.deletions++;
  }

  async #transact(): Promise<void> {
    if (this.hasTransactions) await this.transactions.act(this.#broker, this.#options.random);
  }

  async #comeAndGo(): Promise<void> {
    const topic = this.#options.random.pick(this.topics.slice(KINDS.length));
    if (topic.busy || topic.lost) return;
    topic.busy = true;
    try {
      if (topic.now.state === 'gone') await this.#create(topic);
      else await this.#delete(topic);
    } catch (error) {
      topic.lost = true;
      throw error;
    } finally {
      topic.busy = false;
    }
  }

  async #create(topic: TopicState): Promise<void> {
    const { name, partitions, configs } = topic.kind;
    const life = topic.states.length;
    const compacted = configs['cleanup.policy'] === 'compact';
    const ledgers = Array.from(
      { length: partitions },
      (_, i) => new Ledger(`${name}/${i}/${life}`, compacted),
    );
    topic.states.push({ position: this.#position, state: 'creating', ledgers });
    const { body, position } = await this.#broker.ask(APIS.createTopics, 7, {
      topics: [
        {
          ...{ name, numPartitions: partitions, replicationFactor: 1, assignments: [] },
          configs: Object.entries(configs).map(([key, value]) => ({ name: key, value })),
        },
      ],
      timeoutMs: 1000,
      validateOnly: false,
    });
    this.#expect(body.topics[0]!.errorCode, 'CreateTopics');
    topic.states.push({ position, state: 'there', ledgers });
  }

  async #delete(topic: TopicState): Promise<void> {
    const { ledgers } = topic.now;
    // What is on its way to it would be refused.
    if (ledgers.some(({ waiting }) => waiting > 0)) return;
    topic.states.push({ position: this.#position, state: 'deleting', ledgers });
    const body = { topicNames: [topic.name], timeoutMs: 1000 };
    const answer = await this.#broker.ask(APIS.deleteTopics, 5, body);
    this.#expect(answer.body.responses[0]!.errorCode, 'DeleteTopics');
    topic.states.push({ position: answer.position, state: 'gone', ledgers: [] });
  }

  async #commit(): Promise<void> {
    if (this.#committing) return;
    this.#committing = true;
    const committedOffset = this.committed.asked.at(this.#position) + 1;
    this.committed.asked.note(this.#position, committedOffset);
    const answer = this.#broker.ask(OFFSET_COMMIT, 8, {
      groupId: GROUP,
      topics: [
        { name: 'synced', partitions: [{ partitionIndex: 0, committedOffset, committedMetadata: null }] },
      ],
    });
    const { body, position } = await answer;
    this.#committing = false;
    this.#expect(body.topics[0]!.partitions[0]!.errorCode, 'OffsetCommit');
    this.committed.acked.note(position, committedOffset);
  }
}

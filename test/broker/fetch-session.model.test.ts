/**
 * Fetch sessions against full fetches of the same: whatever happens to topics and to what a client asks, an answer of a session
 * is what a full fetch says at that moment, less what the client was told before, and it waits as long.
 */
import { describe, expect, it } from 'vitest';
import {
  readCreatePartitionsResponse,
  writeCreatePartitionsRequest,
} from '../../src/protocol/generated/CreatePartitions.ts';
import {
  readDeleteRecordsResponse,
  writeDeleteRecordsRequest,
} from '../../src/protocol/generated/DeleteRecords.ts';
import { Random } from '../support/random.ts';
import { scaled } from '../support/scale.ts';
import { seedOf } from '../support/seed.ts';
import { type AskedPartition, SessionClient, type SessionPoll } from './session-client.ts';
import { TestBroker } from './test-broker.ts';
import { batch, TestClient } from './test-client.ts';

const TOPICS = ['a', 'b', 'c', 'd'];
const PARTITIONS = 3;
const MAX_WAIT_MS = 1000;
const UNKNOWN_ID = 'gggggggggggggggggggggg';

type Partition = Awaited<ReturnType<SessionClient['poll']>>['partitions'][number];

/** What a client asks of a partition and was told of it. */
interface Known {
  readonly asked: AskedPartition & { readonly index: number; readonly offset: number };
  readonly told: string;
}

const NOTHING = 'nothing';

function offsetsOf({ highWatermark, lastStableOffset, logStartOffset, errorCode }: Partition): string {
  return errorCode === 0 ? `${highWatermark} ${lastStableOffset} ${logStartOffset}` : NOTHING;
}

function isNews(partition: Partition, told: string): boolean {
  const { errorCode, values } = partition;
  return errorCode !== 0 || values.length > 0 || offsetsOf(partition) !== told;
}

function show({ topic, topicId, partitionIndex, errorCode, values, ...rest }: Partition): string {
  const offsets = `${rest.logStartOffset} ${rest.lastStableOffset} ${rest.highWatermark}`;
  return `${topic || topicId}-${partitionIndex} ${errorCode} ${offsets} [${values}]`;
}

class Model {
  readonly #random: Random;
  readonly #broker: TestBroker;
  readonly #admin: TestClient;
  readonly #session: SessionClient;
  readonly #full: SessionClient;
  readonly #version: number;
  /** Topics that are there, with their ids and partitions. */
  readonly #topics = new Map<string, { id: string; partitions: number; ends: number[] }>();
  /** Ids of topics that were there. */
  readonly #gone: string[] = [UNKNOWN_ID];
  /** What the session has, in its order. */
  #known: Known[] = [];
  #values = 0;
  #isolationLevel = 0;
  answers = 0;
  parked = 0;
  told = 0;

  constructor(random: Random, broker: TestBroker, byId: boolean) {
    this.#random = random;
    this.#broker = broker;
    this.#admin = new TestClient(broker);
    this.#session = new SessionClient(broker);
    this.#full = new SessionClient(broker);
    this.#version = byId ? 13 + random.int(6) : 7 + random.int(6);
  }

  // --- what happens to topics ---

  async happen(): Promise<void> {
    const choice = this.#random.int(100);
    if (choice < 60) await this.#produce();
    else if (choice < 75) await this.#create();
    else if (choice < 80) await this.#delete();
    else if (choice < 90) await this.#deleteRecords();
    else await this.#addPartitions();
  }

  #anyTopic(): string | undefined {
    return this.#topics.size === 0 ? undefined : this.#random.pick([...this.#topics.keys()]);
  }

  async #produce(): Promise<void> {
    const topic = this.#anyTopic();
    if (topic === undefined) return;
    const { partitions, ends } = this.#topics.get(topic)!;
    const index = this.#random.int(partitions);
    const values = Array.from({ length: 1 + this.#random.int(2) }, () => `${this.#values++}`);
    await this.#admin.produce(topic, batch(values), { index });
    ends[index]! += values.length;
  }

  async #create(): Promise<void> {
    const topic = this.#random.pick(TOPICS);
    if (this.#topics.has(topic)) return;
    const partitions = 1 + this.#random.int(PARTITIONS);
    const { topicId: id } = await this.#admin.createTopic(topic, partitions);
    this.#topics.set(topic, { id, partitions, ends: new Array(PARTITIONS).fill(0) });
  }

  async #delete(): Promise<void> {
    const topic = this.#anyTopic();
    if (topic === undefined) return;
    await this.#admin.deleteTopics([topic]);
    this.#gone.push(this.#topics.get(topic)!.id);
    this.#topics.delete(topic);
  }

  async #deleteRecords(): Promise<void> {
    const topic = this.#anyTopic();
    if (topic === undefined) return;
    const partitionIndex = this.#random.int(this.#topics.get(topic)!.partitions);
    const partitions = [{ partitionIndex, offset: this.#random.int(4) === 0 ? -1 : this.#random.int(5) }];
    await this.#broker.ask(
      this.#admin.peer,
      21,
      2,
      (writer) =>
        writeDeleteRecordsRequest(writer, 2, { topics: [{ name: topic, partitions }], timeoutMs: 1000 }),
      readDeleteRecordsResponse,
    );
  }

  async #addPartitions(): Promise<void> {
    const name = this.#anyTopic();
    const topic = this.#topics.get(name ?? '');
    if (name === undefined || topic === undefined || topic.partitions === PARTITIONS) return;
    topic.partitions++;
    const topics = [{ name, count: topic.partitions, assignments: null }];
    const { results } = await this.#broker.ask(
      this.#admin.peer,
      37,
      3,
      (writer) => writeCreatePartitionsRequest(writer, 3, { topics, timeoutMs: 1000, validateOnly: false }),
      readCreatePartitionsResponse,
    );
    expect(results[0]!.errorCode).toBe(0);
  }

  // --- what the client asks ---

  #anyPartition(): Known['asked'] {
    const name = this.#random.int(12) === 0 ? undefined : this.#anyTopic();
    const topic = this.#topics.get(name ?? '');
    const index = this.#random.int(this.#random.int(12) === 0 ? PARTITIONS : (topic?.partitions ?? 1));
    const end = topic?.ends[index] ?? 0;
    const offset = this.#random.int(12) === 0 ? end + 1 : this.#random.int(2) === 0 ? end : 0;
    const currentLeaderEpoch = this.#random.int(10) === 0 ? 0 : -1;
    const maxBytes = this.#random.int(5) === 0 ? 100 : 1 << 20;
    const rest = { index, offset, currentLeaderEpoch, maxBytes };
    if (this.#version < 13) return { topic: name ?? this.#random.pick(TOPICS), ...rest };
    return { topic: '', topicId: topic?.id ?? this.#random.pick(this.#gone), ...rest };
  }

  #find({ topic, topicId, index }: AskedPartition): number {
    return this.#known.findIndex(
      ({ asked }) => asked.topic === topic && asked.topicId === topicId && asked.index === index,
    );
  }

  /** Changes what is asked; gives the changes as a request says them. */
  #change(): Pick<SessionPoll, 'asked' | 'forgotten'> {
    const asked: AskedPartition[] = [];
    const ask = (partition: Known['asked']) => {
      const at = this.#find(partition);
      if (at < 0) this.#known.push({ asked: partition, told: NOTHING });
      else this.#known[at] = { asked: partition, told: this.#known[at]!.told };
      asked.push(partition);
    };
    // A client goes on behind what it got, mostly.
    for (const { asked: partition } of [...this.#known]) {
      const offset = this.#next.get(partition);
      if (offset !== undefined && this.#random.int(5) > 0) ask({ ...partition, offset });
    }
    this.#next.clear();
    while (this.#random.int(4) === 0) ask(this.#anyPartition());
    const forgotten: AskedPartition[] = [];
    const forget = (partition: AskedPartition) => {
      forgotten.push(partition);
      const at = this.#find(partition);
      if (at >= 0) this.#known.splice(at, 1);
    };
    // And gives up what fails, mostly.
    for (const partition of this.#failed.splice(0)) if (this.#random.int(4) > 0) forget(partition);
    while (this.#random.int(6) === 0) {
      const there = this.#known.length > 0 && this.#random.int(4) > 0;
      forget(there ? this.#random.pick(this.#known).asked : this.#anyPartition());
    }
    if (this.#random.int(20) === 0) this.#isolationLevel ^= 1;
    return { asked, forgotten };
  }

  readonly #next = new Map<AskedPartition, number>();
  readonly #failed: AskedPartition[] = [];

  async poll(): Promise<void> {
    if (this.#session.epoch > 0 && this.#random.int(20) === 0) await this.#mistake();
    const opens = this.#session.epoch === 0 || this.#random.int(40) === 0;
    const change = this.#change();
    if (this.#known.length === 0) {
      const { sessionId } = await this.#session.poll({ ...this.#common(), ...change, epoch: -1 });
      expect(sessionId).toBe(0);
      this.#session.epoch = 0;
      return;
    }
    const waits = this.#random.int(3) === 0;
    const limits = {
      maxBytes: this.#random.int(3) === 0 ? 60 + this.#random.int(400) : 1 << 20,
      minBytes: waits ? 1 + this.#random.int(400) : 1,
      maxWaitMs: waits ? MAX_WAIT_MS : 0,
    };
    if (opens) this.#known = this.#known.map(({ asked }) => ({ asked, told: NOTHING }));
    const asked = this.#known.map((known) => known.asked);
    const session = this.#session.frame({
      ...this.#common(),
      ...limits,
      ...(opens ? { epoch: 0, asked } : change),
    });
    const full = this.#full.frame({ ...this.#common(), ...limits, sessionId: 0, epoch: -1, asked });
    const [ours, theirs] = [this.#session.peer.received.length, this.#full.peer.received.length];
    const answered = () => {
      const both = [this.#session.peer.received.length > ours, this.#full.peer.received.length > theirs];
      expect(both[0]).toBe(both[1]);
      return both[0]!;
    };
    this.#broker.transport.tick([this.#session.peer, session], [this.#full.peer, full]);
    if (!answered()) {
      expect(waits).toBe(true);
      this.parked++;
      for (let events = this.#random.int(4); events > 0 && !answered(); events--) await this.happen();
      if (!answered()) this.#broker.clock.advance(MAX_WAIT_MS);
      expect(answered()).toBe(true);
    }
    this.#compare(ours, theirs, opens);
  }

  #common() {
    return { version: this.#version, isolationLevel: this.#isolationLevel };
  }

  #compare(ours: number, theirs: number, opened: boolean): void {
    const answer = this.#session.answer(ours, this.#version);
    const full = this.#full.answer(theirs, this.#version);
    expect([answer.errorCode, answer.sessionId === 0]).toEqual([0, false]);
    expect(full.partitions.length).toBe(this.#known.length);
    const news = full.partitions.filter((each, i) => opened || isNews(each, this.#known[i]!.told));
    expect(answer.partitions.map(show)).toEqual(news.map(show));
    this.answers++;
    this.told += news.length;
    const behind: Known[] = [];
    const stay: Known[] = [];
    full.partitions.forEach((each, i) => {
      const { asked, told } = this.#known[i]!;
      const known = { asked, told: isNews(each, told) ? offsetsOf(each) : told };
      (each.values.length > 0 ? behind : stay).push(known);
      if (each.errorCode !== 0) this.#failed.push(asked);
      if (each.values.length > 0) this.#next.set(asked, this.#offsetBehind(asked.offset, each));
    });
    this.#known = [...stay, ...behind];
  }

  /** Mostly all of it, sometimes less. */
  #offsetBehind(offset: number, { values }: Partition): number {
    return offset + (this.#random.int(4) === 0 ? this.#random.int(values.length) : values.length);
  }

  /** A request that is refused changes nothing. */
  async #mistake(): Promise<void> {
    const { epoch } = this.#session;
    const asked = [this.#anyPartition()];
    const wrong = await this.#session.poll({ ...this.#common(), asked, epoch: epoch + 1 });
    expect(wrong.errorCode).toBe(71);
    const version = this.#version < 13 ? 13 : 12;
    const other = await this.#session.poll({ version, epoch });
    expect(other.errorCode).toBe(106);
    expect(this.#session.epoch).toBe(epoch);
  }
}

describe('fetch sessions and full fetches', () => {
  const seed = seedOf('fetch sessions', 4);
  for (const byId of [false, true]) {
    it(`say the same, topics ${byId ? 'by id' : 'by name'}`, async () => {
      const random = new Random(seed + (byId ? 1 : 0));
      const counts = { answers: 0, parked: 0, told: 0 };
      for (let life = 0; life < scaled(8, 60); life++) {
        const broker = await TestBroker.start();
        const model = new Model(random, broker, byId);
        for (let step = 0; step < scaled(60, 300); step++) {
          for (let events = random.int(3); events > 0; events--) await model.happen();
          await model.poll();
        }
        expect(broker.logger.of('error')).toEqual([]);
        await broker.close();
        for (const key of ['answers', 'parked', 'told'] as const) counts[key] += model[key];
      }
      expect(counts.parked).toBeGreaterThan(counts.answers / 20);
      expect(counts.told).toBeGreaterThan(counts.answers / 2);
    }, 1_800_000);
  }
});

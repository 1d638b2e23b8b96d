/**
 * Random produces, retries, failed writes, deletions, clean stops and kills over a few partitions, against a plain list of
 * what was acknowledged. Whatever happens: each append is answered once; acknowledged batches keep their offsets; a retry
 * of a producer's last acknowledged batch is a duplicate with the same offset, also after a restart; offsets are dense.
 */
import { describe, expect, it } from 'vitest';
import { LogCommitter } from '../../src/log/committer.ts';
import { LogManager, type PartitionDescription } from '../../src/log/log-manager.ts';
import type { AppendListener } from '../../src/log/partition.ts';
import { KafkaError } from '../../src/protocol/errors.ts';
import { VirtualClock } from '../../src/runtime/clock.ts';
import { BroadsheetError } from '../../src/runtime/errors.ts';
import { silentLogger } from '../../src/runtime/logging.ts';
import { rawBatch } from '../support/batches.ts';
import { batchInfoOf, MemoryEngine, type MemoryLog } from '../support/memory-log.ts';
import { LOG_SETTINGS, topicConfigForTests } from '../support/topic-config.ts';

const PRODUCERS = [100, 101, 102];
const TOPICS = ['a', 'b'];

/** mulberry32. */
function random(seed: number): () => number {
  return () => {
    seed = (seed + 0x6d2b79f5) | 0;
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

interface Sent {
  readonly topic: string;
  readonly generation: number;
  readonly producerId: number;
  readonly sequence: number;
  readonly count: number;
  answer: 'none' | 'failed' | number;
}

class Model implements AppendListener {
  readonly engine = new MemoryEngine();
  readonly clock = new VirtualClock();
  readonly sent: Sent[] = [];
  readonly generations = new Map<string, number>();
  readonly counts = { ok: 0, dup: 0, failed: 0, rejected: 0, restarts: 0 };
  manager!: LogManager;
  epoch = 0;

  readonly #flushMessages: number;
  readonly #pick: (n: number) => number;

  constructor(seed: number, flushMessages: number) {
    const next = random(seed);
    this.#pick = (n) => Math.floor(next() * n);
    this.#flushMessages = flushMessages;
  }

  onAppended(token: number, baseOffset: number): void {
    const sent = this.sent[token]!;
    expect(sent.answer).toBe('none');
    sent.answer = baseOffset;
  }

  onAppendFailed(token: number, _error: BroadsheetError): void {
    const sent = this.sent[token]!;
    expect(sent.answer).toBe('none');
    sent.answer = 'failed';
    this.counts.failed++;
  }

  #description(topic: string): PartitionDescription | undefined {
    const generation = this.generations.get(topic);
    if (generation === undefined) return undefined;
    return {
      topicId: `${topic}${String(generation).padStart(21, '0')}`,
      leaderEpoch: this.epoch,
      config: topicConfigForTests({ segmentBytes: 400, flushMessages: this.#flushMessages }),
    };
  }

  async start(): Promise<void> {
    this.epoch++;
    await this.engine.files.mkdir('/d');
    this.manager = await LogManager.open(
      {
        dataDir: '/d',
        engine: this.engine,
        committer: new LogCommitter(this.engine),
        clock: this.clock,
        logger: silentLogger,
        settings: { ...LOG_SETTINGS, producerExpirationMs: 2 ** 50 },
      },
      (topic) => this.#description(topic),
    );
    for (const topic of TOPICS) {
      if (this.generations.has(topic)) expect(this.manager.partition(topic, 0)).toBeDefined();
    }
  }

  /** Acknowledged batches of a producer on the present partition, in order. */
  #acknowledged(topic: string, producerId: number): Sent[] {
    const generation = this.generations.get(topic);
    return this.sent.filter(
      (sent) =>
        sent.topic === topic &&
        sent.generation === generation &&
        sent.producerId === producerId &&
        typeof sent.answer === 'number',
    );
  }

  #produce(topic: string, producerId: number, sequence: number, count: number): void {
    const partition = this.manager.partition(topic, 0)!;
    const bytes = rawBatch({
      producerId,
      producerEpoch: producerId < 0 ? -1 : 0,
      baseSequence: producerId < 0 ? -1 : sequence,
      recordCount: count,
      maxTimestamp: this.clock.now(),
    });
    const generation = this.generations.get(topic)!;
    const token = this.sent.push({ topic, generation, producerId, sequence, count, answer: 'none' }) - 1;
    const before = partition.logEndOffset;
    const info = batchInfoOf(bytes, 0);
    const rejection = partition.append(bytes, 0, bytes.length, info, this.clock.now(), this, token);
    if (rejection !== undefined) {
      expect(rejection.code).toBe(KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER);
      this.sent[token]!.answer = 'failed';
      this.counts.rejected++;
    } else if (partition.logEndOffset === before) this.counts.dup++;
    else this.counts.ok++;
  }

  async step(): Promise<void> {
    const pick = this.#pick;
    const topic = TOPICS[pick(TOPICS.length)]!;
    if (!this.generations.has(topic)) {
      this.generations.set(topic, this.sent.length);
      await this.manager.create(topic, 0, this.#description(topic)!);
    }
    const partition = this.manager.partition(topic, 0)!;
    const producerId = PRODUCERS[pick(PRODUCERS.length)]!;
    const kind = pick(100);
    if (kind < 40) {
      const entry = partition.producers.get(producerId);
      const last = entry?.batches[entry.batches.length - 1]?.lastSequence ?? -1;
      this.#produce(topic, producerId, last + 1, 1 + pick(3));
    } else if (kind < 50) {
      this.#produce(topic, -1, 0, 1 + pick(3));
    } else if (kind < 60) {
      const last = this.#acknowledged(topic, producerId).at(-1);
      if (last !== undefined) this.#produce(topic, producerId, last.sequence, last.count);
    } else if (kind < 63) {
      const last = this.#acknowledged(topic, producerId).at(-1);
      if (last !== undefined) this.#produce(topic, producerId, last.sequence + last.count + 1000, 1);
    } else if (kind < 85) {
      this.manager.commitTick();
    } else if (kind < 90) {
      this.engine.failNextCommit.set(`/d/${topic}-0`, new BroadsheetError('NO_SPACE', 'full'));
      this.manager.commitTick();
      this.engine.failNextCommit.clear();
    } else if (kind < 94) {
      (partition.log as MemoryLog).holdFlushes = true;
    } else if (kind < 97) {
      (partition.log as MemoryLog).releaseFlushes();
      await settled();
    } else if (kind < 98) {
      this.#releaseAll();
      await this.manager.deleteTopic(topic);
      this.manager.commitTick();
      this.generations.delete(topic);
    } else {
      await this.#restart(pick(2) === 0);
    }
  }

  #releaseAll(): void {
    for (const log of this.engine.logs) log.releaseFlushes();
  }

  async #restart(clean: boolean): Promise<void> {
    this.counts.restarts++;
    if (clean) {
      this.#releaseAll();
      await this.manager.close(1);
      for (const sent of this.sent) expect(sent.answer).not.toBe('none');
    } else {
      await this.engine.close();
      // Nobody is told of what was on its way.
      for (const sent of this.sent) if (sent.answer === 'none') sent.answer = 'failed';
    }
    await this.start();
    await this.check();
  }

  async check(): Promise<void> {
    for (const [topic, generation] of this.generations) {
      const partition = this.manager.partition(topic, 0)!;
      const stored = await partition.log.scanBatches(0, partition.log.writtenOffset, false);
      let next = 0;
      for (const batch of stored) {
        expect(batch.baseOffset).toBe(next);
        next = batch.lastOffset + 1;
      }
      expect(next).toBe(partition.log.writtenOffset);
      const byOffset = new Map(stored.map((batch) => [batch.baseOffset, batch]));
      for (const sent of this.sent) {
        if (sent.topic !== topic || sent.generation !== generation || typeof sent.answer !== 'number')
          continue;
        expect(byOffset.get(sent.answer)).toMatchObject({
          producerId: sent.producerId,
          recordCount: sent.count,
          ...(sent.producerId >= 0 ? { baseSequence: sent.sequence } : {}),
        });
      }
      // Each sequence of a producer is stored once.
      const seen = new Set<string>();
      for (const { producerId, baseSequence } of stored) {
        if (producerId < 0) continue;
        expect(seen.has(`${producerId} ${baseSequence}`)).toBe(false);
        seen.add(`${producerId} ${baseSequence}`);
      }
      const last = stored.filter((batch) => batch.producerId === PRODUCERS[0]).at(-1);
      if (last !== undefined) {
        expect(partition.producers.judge(last)).toMatchObject({
          kind: 'duplicate',
          batch: { lastOffset: last.lastOffset },
        });
      }
      expect(partition.highWatermark).toBe(partition.logEndOffset);
      expect(partition.leaderEpoch).toBe(this.epoch);
    }
  }
}

const settled = () => new Promise((resolve) => setImmediate(resolve));

describe.each([
  ['acknowledged when written', Number.MAX_SAFE_INTEGER],
  ['acknowledged when flushed', 1],
])('partitions, %s', (_, flushMessages) => {
  it.each([11, 12, 13])('agree with a list (seed %i)', async (seed) => {
    const model = new Model(seed, flushMessages);
    await model.start();
    for (let i = 0; i < 1500; i++) await model.step();
    for (const count of Object.values(model.counts)) expect(count).toBeGreaterThan(5);
  });
});

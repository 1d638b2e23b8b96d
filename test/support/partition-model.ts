/**
 * A partition beside a plain list of what was written to it. Random appends (all codecs, transactions), retention, compaction,
 * deleted records, crashes, torn and failed writes, and reopening, under a clock that only the model moves; what is left is
 * read back by fetches of both isolation levels and looked up by time, and must be what the list says.
 */
import { readFileSync, rmSync, truncateSync } from 'node:fs';
import { constants } from 'node:os';
import { join } from 'node:path';
import { expect } from 'vitest';
import { type FetchResult, type FetchTarget, readTargets } from '../../src/broker/fetch-read.ts';
import type { TopicConfig } from '../../src/config/topic-config.ts';
import { validateProduced } from '../../src/log/batch-validation.ts';
import { type CleanJob, cleanSegments } from '../../src/log/cleaner-pass.ts';
import type { SegmentCleaner } from '../../src/log/cleaner-thread.ts';
import { LogCommitter } from '../../src/log/committer.ts';
import type { LogEngine } from '../../src/log/log.ts';
import { LogManager } from '../../src/log/log-manager.ts';
import type { IsolationLevel, Partition } from '../../src/log/partition.ts';
import { findByTime, findMaxTimestamp, type TimedOffset } from '../../src/log/time-search.ts';
import type { AbortedTransaction } from '../../src/log/txn-index.ts';
import type { CompressionName } from '../../src/protocol/compression.ts';
import { type RecordBatch, readBatches } from '../../src/protocol/records/reader.ts';
import { BatchBuilder } from '../../src/protocol/records/writer.ts';
import { VirtualClock } from '../../src/runtime/clock.ts';
import { silentLogger } from '../../src/runtime/logging.ts';
import { copyAtOneMoment } from './copy-at-one-moment.ts';
import type { EngineUnderTest } from './engines.ts';
import { bytesOf, committedOf, dataOf, type ModelRecord } from './fetched-records.ts';
import { scratch } from './logs.ts';
import type { Random } from './random.ts';
import { NO_CLEANER } from './topic-config.ts';

const TOPIC = 'm';
const CODECS: CompressionName[] = ['none', 'none', 'gzip', 'snappy', 'lz4', 'zstd'];
const PRODUCERS = [1, 2, 3];
/** Overwritten all the time, and hardly ever. */
const KEYS = [10, 400];
const FOREVER = 2 ** 50;

/** Parts that a canary may spoil. */
export interface Parts {
  readonly clean: (job: CleanJob) => ReturnType<typeof cleanSegments>;
  readonly findByTime: typeof findByTime;
  readonly findMaxTimestamp: typeof findMaxTimestamp;
}

const SOUND: Parts = { clean: (job) => cleanSegments(job, () => {}), findByTime, findMaxTimestamp };

/** One batch. */
interface Entry {
  readonly base: number;
  readonly last: number;
  /** -1: none. */
  readonly producerId: number;
  /** Of its first record; -1: none. */
  readonly baseSequence: number;
  readonly transactional: boolean;
  readonly marker: 'ABORT' | 'COMMIT' | undefined;
  records: ModelRecord[];
  /** Until when its tombstones stay, once a compaction has met them. */
  horizon: number | undefined;
}

export class PartitionModel {
  readonly counts = { compactions: 0, deletions: 0, crashes: 0, cuts: 0, reopens: 0, transactions: 0 };
  readonly #under: EngineUnderTest;
  readonly #random: Random;
  readonly #config: TopicConfig;
  readonly #parts: Parts;
  readonly #clock = new VirtualClock();
  #dir = scratch(true);
  #engine!: LogEngine;
  #manager!: LogManager;
  #partition!: Partition;
  #entries: Entry[] = [];
  /** The next one of each producer. */
  readonly #sequences = new Map<number, number>();
  #start = 0;
  #openedAt = 0;
  /** No power cut takes what a flush of an earlier start made durable, whether the present one knows of it or not. */
  #durable = 0;
  #beginsAnew = false;
  #cleanedTo = 0;
  #leaderEpoch = 0;
  /** A crash within the next compaction: where the directory goes. */
  #crashInto: string | undefined;

  constructor(under: EngineUnderTest, random: Random, config: TopicConfig, parts: Partial<Parts> = {}) {
    this.#under = under;
    this.#random = random;
    this.#config = config;
    this.#parts = { ...SOUND, ...parts };
  }

  async begin(): Promise<void> {
    await this.#open();
    await this.check();
  }

  async step(): Promise<void> {
    const kind = this.#random.int(100);
    if (kind < 56) this.#append();
    else if (kind < 62) this.#endTransaction();
    else if (kind < 70) this.#clock.advance(this.#random.int(4 * this.#config.segmentMs));
    else if (kind < 76) await this.#retain();
    else if (kind < 84) await this.#compact();
    else if (kind < 87) await this.#deleteRecords();
    else if (kind < 89) await this.#manager.checkpointRecoveryPoints();
    else if (kind < 92) await this.#reopen();
    else if (kind < 95) await this.#crash(0);
    else if (kind < 97) await this.#tear();
    else if (kind < 98) await this.#failFlush();
    else await this.check();
  }

  async end(): Promise<void> {
    await this.check();
    await this.#close();
  }

  // --- opening ---

  async #open(): Promise<void> {
    this.#engine = this.#under.make();
    const cleaner: SegmentCleaner = {
      clean: async (job) => {
        const result = await this.#parts.clean(job);
        if (this.#crashInto !== undefined) copyAtOneMoment(this.#dir, this.#crashInto);
        // The next pass finds what this one replaced.
        this.#crashInto = undefined;
        return result;
      },
      close: async () => {},
    };
    const description = {
      topicId: 'OeXl6uY5Tm2ppr3C3B0cZQ',
      leaderEpoch: this.#leaderEpoch++,
      config: this.#config,
    };
    this.#manager = await LogManager.open(
      {
        dataDir: this.#dir,
        engine: this.#engine,
        committer: new LogCommitter(this.#engine),
        clock: this.#clock,
        logger: silentLogger,
        cleaner,
        settings: {
          recoveryPointCheckpointMs: FOREVER,
          dirtyBytes: 1 << 28,
          maxBytes: -1,
          logStartCheckpointMs: FOREVER,
          highWatermarkCheckpointMs: FOREVER,
          producerExpirationMs: FOREVER,
          producerExpirationCheckMs: FOREVER,
          retentionCheckMs: FOREVER,
          retentionDelayMs: FOREVER,
          cleaner: NO_CLEANER,
        },
      },
      () => description,
    );
    expect(this.#manager.failure(TOPIC, 0)).toBeUndefined();
    this.#partition =
      this.#manager.partition(TOPIC, 0) ?? (await this.#manager.create(TOPIC, 0, description));
    this.#openedAt = this.#partition.logEndOffset;
    if (this.#beginsAnew) this.#recallProducers();
  }

  async #close(): Promise<void> {
    await this.#manager.close(1);
    await this.#engine.close();
  }

  async #reopen(): Promise<void> {
    await this.#close();
    await this.#open();
    this.counts.reopens++;
    await this.check();
  }

  /** What was written is there; `torn` bytes at the end are not. */
  async #crash(torn: number): Promise<void> {
    const dir = scratch(true);
    copyAtOneMoment(this.#dir, dir);
    if (torn > 0) {
      const path = join(dir, `${TOPIC}-0`, this.#activeFile());
      truncateSync(path, readFileSync(path).length - torn);
    }
    await this.#moveTo(dir);
  }

  async #moveTo(dir: string): Promise<void> {
    this.#durable = this.#flushed;
    await this.#close();
    rmSync(this.#dir, { recursive: true });
    this.#dir = dir;
    await this.#open();
    this.counts.crashes++;
    await this.check();
  }

  get #flushed(): number {
    return Math.max(this.#durable, this.#partition.log.flushedOffset);
  }

  #activeFile(): string {
    return `${String(this.#partition.log.activeSegmentBaseOffset).padStart(20, '0')}.log`;
  }

  /** A power cut that takes the end of what no flush has made durable, perhaps in the middle of a batch. */
  async #tear(): Promise<void> {
    const { log } = this.#partition;
    const batches = [...readBatches(readFileSync(join(log.dir, this.#activeFile())))] as RecordBatch[];
    const loose = batches.filter(({ baseOffset }) => baseOffset >= this.#flushed);
    if (loose.length === 0) return;
    const first = this.#random.int(loose.length);
    this.#cut(loose[first]!.baseOffset);
    const lost = loose.slice(first).reduce((sum, each) => sum + each.sizeInBytes, 0);
    await this.#crash(lost - this.#random.int(loose[first]!.sizeInBytes));
  }

  /** The disk refuses a flush: the partition goes offline, and the next start cuts it where it was synced. */
  async #failFlush(): Promise<void> {
    const { log } = this.#partition;
    this.#under.setFault('fdatasync', 0, 1, constants.errno.EIO, 0);
    await log.flush().catch(() => {});
    this.#under.clearFaults();
    if (this.#partition.offline === undefined) return;
    this.#cut(Math.max(log.flushedOffset, this.#openedAt));
    await this.#reopen();
  }

  #cut(end: number): void {
    const lastLeft = this.#entries.findLast(({ last }) => last < end)?.last ?? -1;
    const [first] = this.#partition.log.segmentBaseOffsets();
    // What is left lies below the log's start: the log begins anew there.
    this.#beginsAnew = Math.max(lastLeft + 1, first!) < this.#start;
    const from = this.#beginsAnew ? this.#start : end;
    for (const { base, producerId, baseSequence } of this.#entries.toReversed())
      if (base >= from && baseSequence >= 0) this.#sequences.set(producerId, baseSequence);
    this.#entries = this.#entries.filter(({ last }) => last < from);
    this.#durable = Math.min(this.#durable, end);
    this.counts.cuts++;
  }

  /** A log that begins anew knows its producers by a snapshot as of its start or, as Apache Kafka's, not at all. */
  #recallProducers(): void {
    this.#beginsAnew = false;
    for (const [producerId, sequence] of this.#sequences) {
      const known = this.#partition.producers.get(producerId);
      if (known !== undefined) expect((known.batches.at(-1)?.lastSequence ?? -1) + 1).toBe(sequence);
      else {
        this.#sequences.delete(producerId);
        this.#entries = this.#entries.filter((entry) => entry.producerId !== producerId);
      }
    }
  }

  // --- what the list says ---

  get #end(): number {
    return this.#partition.logEndOffset;
  }

  /** First offsets of transactions that were open at an offset by producer, and what is of aborted ones. */
  #producers(upTo = Number.POSITIVE_INFINITY): { open: Map<number, number>; aborted: Set<Entry> } {
    const open = new Map<number, number>();
    const aborted = new Set<Entry>();
    const running = new Map<number, Entry[]>();
    for (const entry of this.#entries) {
      const { producerId, transactional, marker, base } = entry;
      if (base >= upTo) break;
      if (producerId < 0) continue;
      if (marker !== undefined) {
        if (marker === 'ABORT') for (const each of running.get(producerId) ?? []) aborted.add(each);
        running.delete(producerId);
        open.delete(producerId);
        continue;
      }
      if (!transactional) continue;
      running.set(producerId, [...(running.get(producerId) ?? []), entry]);
      if (!open.has(producerId)) open.set(producerId, base);
    }
    return { open, aborted };
  }

  #visible(upTo: number, without = new Set<Entry>()): ModelRecord[] {
    return this.#entries
      .filter((entry) => !without.has(entry))
      .flatMap(({ records }) => records)
      .filter(({ offset }) => offset >= this.#start && offset < upTo);
  }

  // --- what is done to it ---

  #append(): void {
    const random = this.#random;
    const now = this.#clock.now();
    const isCompacted = this.#config.cleanupPolicy.includes('compact');
    const count = 1 + random.int(3);
    for (let i = 0; i < count; i++) {
      const { open } = this.#producers();
      const producerId = random.int(2) === 0 ? random.pick(PRODUCERS) : -1;
      const transactional = producerId >= 0 && (open.has(producerId) || random.int(2) === 0);
      const baseSequence = producerId < 0 ? -1 : (this.#sequences.get(producerId) ?? 0);
      const compression = random.pick(CODECS);
      const fields = producerId < 0 ? {} : { producerId, producerEpoch: 0, baseSequence };
      const builder = new BatchBuilder({ compression, transactional, ...fields });
      const base = this.#partition.logEndOffset;
      const records: ModelRecord[] = [];
      for (let n = random.int(5); n >= 0; n--) {
        const offset = base + records.length;
        const key = !isCompacted && random.int(3) === 0 ? null : `k${random.int(random.pick(KEYS))}`;
        const value = random.int(5) === 0 ? null : `${offset}-${'x'.repeat(random.int(120))}`;
        const created =
          random.int(12) === 0 ? now - random.int(20_000) + random.int(20_000) : now - random.int(50);
        const timestamp = this.#config.messageTimestampType === 'LogAppendTime' ? now : created;
        builder.append({ timestamp: created, key, value });
        records.push({ offset, timestamp, key, value });
      }
      const bytes = builder.build();
      const { inspector } = this.#engine;
      const batch = validateProduced(bytes, 0, bytes.length, this.#config, now, inspector, transactional);
      const stored = batch.recoded ?? bytes;
      const rejection = this.#partition.append(stored, 0, stored.length, batch, now, LISTENER, 0);
      expect(rejection, `producer ${producerId}, sequence ${baseSequence}`).toBeUndefined();
      const last = base + records.length - 1;
      expect(this.#partition.logEndOffset).toBe(last + 1);
      const marker = undefined;
      const horizon = undefined;
      this.#entries.push({ base, last, producerId, baseSequence, transactional, marker, records, horizon });
      if (producerId >= 0) this.#sequences.set(producerId, baseSequence + records.length);
    }
    this.#manager.commitTick();
    this.#clock.advance(random.int(40));
  }

  #endTransaction(): void {
    const producerId = [...this.#producers().open.keys()][0];
    if (producerId === undefined) return;
    const commit = this.#random.int(2) === 0;
    const fields = { producerId, producerEpoch: 0, coordinatorEpoch: 0, transactionVersion: 0, commit };
    const base = this.#end;
    expect(this.#partition.appendMarker(fields, this.#clock.now(), LISTENER, 0)).toBeUndefined();
    this.#manager.commitTick();
    const marker = commit ? 'COMMIT' : 'ABORT';
    this.#entries.push({
      ...{ base, last: base, producerId, baseSequence: -1, transactional: true, marker, records: [] },
      horizon: undefined,
    });
    this.counts.transactions++;
  }

  async #deleteRecords(): Promise<void> {
    const start = this.#start + this.#random.int(Math.min(40, this.#end - this.#start) + 1);
    this.#partition.setLogStartOffset(start);
    await this.#manager.checkpointLogStarts();
    this.#start = start;
    await this.check();
  }

  /** Where the log starts by the rules of retention, from the headers that lie there. */
  async #retained(): Promise<number> {
    const { log } = this.#partition;
    const { cleanupPolicy, retentionMs, retentionBytes } = this.#config;
    if (!cleanupPolicy.includes('delete')) return this.#start;
    const bases = log.segmentBaseOffsets();
    const end = this.#end;
    const now = this.#clock.now();
    const segments = [];
    for (const [i, base] of bases.entries()) {
      const upTo = bases[i + 1] ?? end;
      const batches = (await log.scanBatches(base, upTo, false)).filter((each) => each.baseOffset >= base);
      const size = batches.reduce((sum, each) => sum + each.sizeInBytes, 0);
      const times = batches.filter((each) => each.recordCount > 0).map((each) => each.maxTimestamp);
      const largest = Math.max(-1, ...times);
      segments.push({
        end: upTo,
        size,
        expired: retentionMs >= 0 && largest >= 0 && now - largest > retentionMs,
      });
    }
    let start = bases[0]!;
    while (segments.length > 1 && segments[0]!.end <= this.#start) start = segments.shift()!.end;
    let left = segments.reduce((sum, { size }) => sum + size, 0);
    while (retentionBytes >= 0 && segments.length > 0 && left - segments[0]!.size >= retentionBytes) {
      left -= segments[0]!.size;
      start = segments.shift()!.end;
    }
    while (segments[0]?.expired) start = segments.shift()!.end;
    return Math.max(start, this.#start);
  }

  async #retain(): Promise<void> {
    const start = await this.#retained();
    await this.#manager.retain();
    if (start > this.#start) this.counts.deletions++;
    this.#start = start;
    const first = this.#partition.log.segmentBaseOffsets()[0]!;
    this.#forget(first);
    await this.check();
  }

  /** Batches that are gone. */
  #forget(below: number): void {
    // A power cut may take the marker of what was open at the flushed offset: it began where it began.
    const { open } = this.#producers(Math.max(below, this.#flushed));
    this.#entries = this.#entries.filter(
      ({ base, last, producerId }) => last >= below || base >= (open.get(producerId) ?? below),
    );
  }

  async #compact(): Promise<void> {
    if (!this.#config.cleanupPolicy.includes('compact')) return;
    const { log, lastStableOffset } = this.#partition;
    const bases = [...log.segmentBaseOffsets(), this.#end];
    const end = Math.max(...bases.filter((base, i) => i > 0 && base <= lastStableOffset), bases[0]!);
    const first = Math.max(this.#cleanedTo, this.#start);
    const crashes = this.#random.int(6) === 0 && end > first;
    if (crashes) {
      const dir = scratch(true);
      this.#crashInto = dir;
      await this.#manager.compact(this.#partition);
      expect(this.#crashInto, 'nothing was compacted').toBeUndefined();
      return this.#moveTo(dir);
    }
    await this.#manager.compact(this.#partition);
    this.counts.compactions++;
    if (end > first) {
      this.#compactBetween(first, end);
      this.#cleanedTo = end;
    }
    await this.check();
  }

  #compactBetween(first: number, end: number): void {
    const { aborted } = this.#producers();
    const cleaned = this.#entries.filter(({ last }) => last < end);
    for (const entry of cleaned) if (aborted.has(entry)) entry.records = [];
    const dirty = cleaned.flatMap(({ records }) => records).filter(({ offset }) => offset >= first);
    const latest = new Map(dirty.map(({ key, offset }) => [key, offset]));
    const now = this.#clock.now();
    for (const entry of cleaned) {
      const { horizon } = entry;
      entry.records = entry.records.filter(
        ({ key, value, offset }) =>
          offset >= (latest.get(key) ?? 0) && !(value === null && horizon !== undefined && now >= horizon),
      );
      if (entry.records.some(({ value }) => value === null))
        entry.horizon ??= now + this.#config.deleteRetentionMs;
    }
  }

  // --- reading back ---

  /** All batches that a reader is given from `from` on, and the aborted transactions beside them. */
  async #fetch(
    from: number,
    isolation: IsolationLevel,
  ): Promise<{ batches: RecordBatch[]; aborted: AbortedTransaction[] }> {
    const batches: RecordBatch[] = [];
    const aborted: AbortedTransaction[] = [];
    for (let at = from; ; ) {
      const { records, abortedTransactions: told } = await this.#fetchOne(at, isolation);
      if (records.length === 0) return { batches, aborted };
      let got = 0;
      for (const batch of readBatches(bytesOf(records)) as Iterable<RecordBatch>) {
        expect(batch.checksOut()).toBe(true);
        expect(batch.lastOffset).toBeGreaterThanOrEqual(at);
        batches.push(batch);
        at = batch.lastOffset + 1;
        got++;
      }
      expect(got).toBeGreaterThan(0);
      aborted.push(...(told ?? []));
    }
  }

  async #fetchOne(fetchOffset: number, isolation: IsolationLevel): Promise<FetchResult> {
    const partition = this.#partition;
    const maxBytes = 1 + this.#random.int(4000);
    const target: FetchTarget = {
      ...{ topic: TOPIC, index: 0, partition, missingCode: 3, fetchOffset, maxBytes },
      ...{ currentLeaderEpoch: -1, lastFetchedEpoch: -1 },
    };
    for (;;) {
      const { results, cold, broken } = readTargets([target], { maxBytes, isolation }, new Map());
      expect(broken).toEqual([]);
      const [result] = results;
      expect(result).toMatchObject({ errorCode: 0, highWatermark: this.#end, logStartOffset: this.#start });
      if (cold.length === 0) return result!;
      for (const { offset, maxBytes: bytes } of cold) await partition.log.warm(offset, bytes);
    }
  }

  async check(): Promise<void> {
    const { open, aborted } = this.#producers();
    // What readers can't see any more does not come back.
    const end = Math.max((this.#entries.at(-1)?.last ?? -1) + 1, this.#start);
    expect(this.#partition.logEndOffset).toBe(end);
    expect(this.#partition.highWatermark).toBe(end);
    expect(this.#partition.logStartOffset).toBe(this.#start);
    // Where a start did not find how a transaction began, since retention took it, it begins with what is left of it.
    const begun = this.#entries.filter(
      ({ producerId, base, last }) => last >= this.#start && base >= (open.get(producerId) ?? end),
    );
    const stable = this.#partition.lastStableOffset;
    expect(stable).toBeGreaterThanOrEqual(Math.max(Math.min(end, ...open.values()), this.#start));
    expect(stable).toBeLessThanOrEqual(
      Math.min(end, ...begun.map(({ base }) => Math.max(base, this.#start))),
    );
    const mayBeFirst = [end, ...open.values(), ...begun.map(({ base }) => base)];
    expect(mayBeFirst.map((offset) => Math.max(offset, this.#start))).toContain(stable);

    const { batches } = await this.#fetch(this.#start, 'read_uncommitted');
    expect(dataOf(batches, this.#start)).toEqual(this.#visible(end));
    const committed = await this.#fetch(this.#start, 'read_committed');
    expect(committedOf(committed.batches, committed.aborted, this.#start)).toEqual(
      this.#visible(stable, aborted),
    );
    const from = this.#start + this.#random.int(end - this.#start + 1);
    const rest = await this.#fetch(from, 'read_uncommitted');
    expect(dataOf(rest.batches, from)).toEqual(this.#visible(end).filter(({ offset }) => offset >= from));
    const all = batches.flatMap((batch) => [...batch.records()]);
    await this.#checkTimes(all.filter(({ offset }) => offset >= this.#start).map(timed), [end, stable]);
  }

  async #checkTimes(all: readonly TimedOffset[], bounds: readonly number[]): Promise<void> {
    const { log } = this.#partition;
    for (const upTo of bounds) {
      const held = all.filter(({ offset }) => offset < upTo);
      const targets = [0, this.#clock.now() + 30_000];
      for (let i = 0; i < 3 && held.length > 0; i++) {
        const { timestamp } = this.#random.pick(held);
        targets.push(timestamp, timestamp + 1);
      }
      for (const target of targets) {
        const found = await this.#parts.findByTime(log, target, this.#start, upTo);
        expect(found, `${target} below ${upTo}`).toEqual(held.find((each) => each.timestamp >= target));
      }
      let largest: TimedOffset | undefined;
      for (const each of held)
        if (largest === undefined || each.timestamp > largest.timestamp) largest = each;
      expect(await this.#parts.findMaxTimestamp(log, this.#start, upTo)).toEqual(largest);
    }
  }
}

const LISTENER = {
  onAppended() {},
  onAppendFailed() {},
};

function timed({ offset, timestamp }: TimedOffset): TimedOffset {
  return { offset, timestamp };
}

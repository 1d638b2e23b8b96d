/**
 * Compaction: looks every log.cleaner.backoff.ms for the log that needs it most, has a thread (cleaner-worker.ts, made for the
 * first one) write what is left of its closed segments, and takes that into the log. What is clean is remembered in
 * `cleaner-offset-checkpoint`, as Apache Kafka does. A log that can't be cleaned is left alone until the next start;
 * one that found no space, until the next look.
 */
import type { Clock, Timer } from '../runtime/clock.ts';
import { BroadsheetError } from '../runtime/errors.ts';
import type { Logger } from '../runtime/logging.ts';
import { CLEANER_FILE, OffsetCheckpoint } from './checkpoints.ts';
import type { LastRecord } from './cleaner-filter.ts';
import type { CleanJob, CleanResult } from './cleaner-pass.ts';
import { type Cleanable, findCleanable } from './cleaner-rules.ts';
import type { SegmentCleaner } from './cleaner-thread.ts';
import type { Compaction } from './compaction.ts';
import type { Files, LogEngine, SegmentFacts } from './log.ts';
import type { LogRetention } from './log-retention.ts';
import type { Partition } from './partition.ts';
import type { SegmentHold } from './segment-hold.ts';

export interface CleanerSettings {
  readonly enabled: boolean;
  readonly backoffMs: number;
  readonly mapBytes: number;
  readonly mapLoadFactor: number;
  readonly bytesPerSecond: number;
}

export interface CleanerHost {
  readonly hold: SegmentHold;
  partitions(): Partition[];
  roll(partition: Partition): Promise<void>;
  /** Resolves when what was flushed before the call is below the recovery points on disk. */
  checkpointFlushed(): Promise<void>;
  removeSnapshots(partition: Partition): Promise<void>;
  inBackground(what: string, work: Promise<void>): void;
}

export interface CleanerParts {
  readonly host: CleanerHost;
  readonly retention: LogRetention;
  readonly cleaner: SegmentCleaner;
  readonly engine: LogEngine['name'];
  readonly files: Files;
  readonly dataDir: string;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly settings: CleanerSettings;
}

export class LogCleaner {
  readonly #parts: CleanerParts;
  /** Where each partition's dirty part begins. */
  readonly #cleanedTo = new WeakMap<Partition, number>();
  readonly #uncleanable = new WeakSet<Partition>();
  /** One job at a time. */
  #last: Promise<unknown> = Promise.resolve();
  #timer: Timer | undefined;
  #closed = false;

  constructor(parts: CleanerParts) {
    this.#parts = parts;
  }

  /** Begins, when the partitions are open. `checkpoint`: how far they were cleaned, of CLEANER_FILE. */
  open(checkpoint: OffsetCheckpoint): void {
    // Of the partitions that there are now: a later one of the same name has nothing to do with it.
    for (const partition of this.#parts.host.partitions()) {
      const offset = checkpoint.get(partition.topic, partition.index);
      if (offset !== undefined) this.#cleanedTo.set(partition, offset);
    }
    if (this.#parts.settings.enabled) this.#arm();
  }

  #arm(): void {
    if (this.#closed) return;
    const { clock, host, settings } = this.#parts;
    this.#timer = clock.setTimer(settings.backoffMs, () => {
      host.inBackground(
        'compact logs',
        this.run().finally(() => this.#arm()),
      );
    });
  }

  /** Cleans, the dirtiest first, until no log needs it. */
  async run(): Promise<void> {
    const full = new Set<Partition>();
    while (!this.#closed) {
      let dirtiest: { partition: Partition; cleanable: Cleanable } | undefined;
      for (const partition of this.#parts.host.partitions()) {
        if (full.has(partition) || !this.#mayClean(partition)) continue;
        const found = await this.#inspect(partition);
        if (found === undefined || !found.isDue) continue;
        if (dirtiest === undefined || found.dirtyRatio > dirtiest.cleanable.dirtyRatio)
          dirtiest = { partition, cleanable: found };
      }
      if (dirtiest === undefined) return;
      const { partition } = dirtiest;
      const hadSpace = await this.#guarded(partition, async () => {
        const found = await this.#inspect(partition);
        if (found?.isDue) await this.#clean(partition, found);
      });
      if (!hadSpace) full.add(partition);
    }
  }

  /** Compacts all that a partition holds now, its active segment too, however little of it is dirty; open transactions and what is
   * behind them stay. Rejects with CORRUPT, NO_SPACE, IO ...; INVALID_ARGUMENT where cleanup.policy has no compact. */
  async compactNow(partition: Partition): Promise<Compaction> {
    const { topic, index, config } = partition;
    if (!config.cleanupPolicy.includes('compact'))
      throw new BroadsheetError(
        'INVALID_ARGUMENT',
        `${topic} is not compacted: cleanup.policy has no compact`,
      );
    const done = { topic, partition: index, bytesBefore: 0, bytesAfter: 0 };
    await this.#parts.retention.alone(partition, async () => {
      await this.#parts.host.roll(partition);
      for (let isFirst = true; ; isFirst = false) {
        const found = await this.#inspect(partition, { minCleanableDirtyRatio: 0, minCompactionLagMs: 0 });
        if (found === undefined) return;
        const result = await this.#clean(partition, found);
        if (isFirst) done.bytesBefore = result.bytesBefore;
        done.bytesAfter = result.bytesAfter;
      }
    });
    return done;
  }

  #mayClean(partition: Partition): boolean {
    return (
      partition.config.cleanupPolicy.includes('compact') &&
      !this.#uncleanable.has(partition) &&
      !partition.deleted &&
      partition.offline === undefined
    );
  }

  /** False when there was no space to write what is left of the log, which stays as it was. */
  async #guarded(partition: Partition, work: () => Promise<void>): Promise<boolean> {
    try {
      await this.#parts.retention.alone(partition, work);
    } catch (error) {
      const { topic, index } = partition;
      const fields = { topic, partition: index, reason: (error as Error).message };
      const isFull = error instanceof BroadsheetError && error.code === 'NO_SPACE';
      if (isFull && !this.#uncleanable.has(partition)) {
        this.#parts.logger.warn(fields, 'no space to compact; it is tried again at the next look');
        return false;
      }
      this.#uncleanable.add(partition);
      if (partition.deleted || this.#closed) return true;
      this.#parts.logger.error(
        fields,
        'compaction failed; the partition is not compacted until the next start',
      );
    }
    return true;
  }

  async #inspect(
    partition: Partition,
    overrides: Partial<Partition['config']> = {},
  ): Promise<Cleanable | undefined> {
    const { log, config } = partition;
    // Most often nothing was closed.
    if (log.segmentBaseOffsets().length < 2) return undefined;
    return this.#judge(partition, await log.segmentFacts(), { ...config, ...overrides });
  }

  #judge(
    partition: Partition,
    segments: readonly SegmentFacts[],
    config: Partition['config'],
  ): Cleanable | undefined {
    const { logStartOffset, lastStableOffset } = partition;
    const cleanedTo = this.#cleanedTo.get(partition);
    return findCleanable(
      { segments, logStartOffset, lastStableOffset, cleanedTo },
      config,
      this.#parts.clock.now(),
    );
  }

  async #clean(partition: Partition, cleanable: Cleanable): Promise<CleanResult> {
    const { files, retention, host, logger } = this.#parts;
    const { log, topic, index, aborted } = partition;
    const job = await this.#job(partition, cleanable);
    const end = job.segments[job.segments.length - 1]!.endOffset;
    // Above the recovery point a start takes what compaction leaves out for lost, should the topic not be compacted any more.
    if (log.flushedOffset < end) await log.flush();
    await aborted.save(files, log);
    const result = await this.#ask(job);
    await host.checkpointFlushed();
    for (const { old, cleaned, abortedChecksum: checksum, goneMarkers } of result.groups) {
      const made = checksum === undefined ? undefined : { baseOffset: cleaned, checksum };
      await host.hold.change(async () => {
        const names = await aborted.alone(async () => {
          const replaced = await log.replaceSegments(old, [cleaned]).catch((error: Error) => {
            // Files may be half renamed: the next start puts them in order.
            this.#uncleanable.add(partition);
            throw error;
          });
          aborted.forgetFiles(old, made);
          aborted.forgetMarkers(goneMarkers);
          return replaced;
        });
        retention.removeLater(partition, names);
        // A backup takes the checksums together with the files that they are of.
        await aborted.save(files, log).catch((error: Error) => {
          const fields = { topic, partition: index, reason: error.message };
          if (!partition.deleted) logger.warn(fields, 'checksums are written with the next recovery point');
        });
      });
    }
    this.#cleanedTo.set(partition, result.endOffset);
    await files.writeAtomic(`${this.#parts.dataDir}/${CLEANER_FILE}`, this.#checkpointText());
    await host.removeSnapshots(partition);
    const { bytesBefore, bytesAfter, endOffset } = result;
    logger.info({ topic, partition: index, bytesBefore, bytesAfter, endOffset }, 'compacted');
    return result;
  }

  async #job(partition: Partition, cleanable: Cleanable): Promise<CleanJob> {
    const { clock, settings } = this.#parts;
    const { log, config } = partition;
    const facts = await log.segmentFacts();
    const segments = facts.slice(0, cleanable.count).map(({ baseOffset, sizeInBytes, lastModified }, i) => ({
      baseOffset,
      sizeInBytes,
      lastModified,
      endOffset: facts[i + 1]!.baseOffset,
    }));
    const lastRecords: LastRecord[] = [];
    for (const { producerId, epoch, batches } of partition.producers.entries())
      lastRecords.push({ producerId, epoch, lastOffset: batches[batches.length - 1]?.lastOffset ?? -1 });
    return {
      engine: this.#parts.engine,
      dir: log.dir,
      segments,
      firstDirtyOffset: cleanable.firstDirtyOffset,
      segmentBytes: config.segmentBytes,
      indexBytes: config.segmentIndexBytes,
      indexIntervalBytes: config.indexIntervalBytes,
      now: clock.now(),
      deleteRetentionMs: config.deleteRetentionMs,
      mapBytes: settings.mapBytes,
      mapLoadFactor: settings.mapLoadFactor,
      aborted: partition.abortedTransactions(0, segments[segments.length - 1]!.endOffset),
      lastRecords,
      highWatermark: partition.highWatermark,
      bytesPerSecond: settings.bytesPerSecond,
    };
  }

  #checkpointText(): string {
    const checkpoint = new OffsetCheckpoint();
    for (const partition of this.#parts.host.partitions()) {
      const offset = this.#cleanedTo.get(partition);
      if (offset !== undefined) checkpoint.set(partition.topic, partition.index, offset);
    }
    return checkpoint.text();
  }

  #ask(job: CleanJob): Promise<CleanResult> {
    const mine = this.#last
      .catch(() => {})
      .then(() => {
        if (this.#closed) throw new BroadsheetError('CLOSED', 'the log manager is closed');
        return this.#parts.cleaner.clean(job);
      });
    this.#last = mine;
    return mine;
  }

  /** Gives up what runs: what it wrote so far is undone by the next start, or the next cleaning. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#timer?.cancel();
    await this.#parts.cleaner.close();
    await this.#last.catch(() => {});
  }
}

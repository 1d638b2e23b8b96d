/**
 * Carries out what retention.ts decides, one partition after the other: rolls, moves the log start, makes it durable, takes
 * the segments out of the log, and removes their files after file.delete.delay.ms. Readers of a segment go on. The same for
 * log.disk.max.bytes, which all logs together are kept to.
 */
import type { Clock, Timer } from '../runtime/clock.ts';
import type { Logger } from '../runtime/logging.ts';
import type { Files, SegmentFacts } from './log.ts';
import type { Partition } from './partition.ts';
import { planCap, planRetention } from './retention.ts';
import type { SegmentHold } from './segment-hold.ts';

export interface RetentionHost {
  readonly hold: SegmentHold;
  partitions(): readonly Partition[];
  /** Closes the active segment. */
  roll(partition: Partition): Promise<void>;
  /** Resolves when the log start offsets of all partitions are on disk. */
  checkpointLogStarts(): Promise<void>;
  /** Resolves when a snapshot of the producers at or past an offset is on disk, and the log up to it. */
  ensureSnapshot(partition: Partition, offset: number): Promise<void>;
  /** Producer snapshots below the first segment. */
  removeSnapshots(partition: Partition): Promise<void>;
  inBackground(what: string, work: Promise<void>): void;
}

export class LogRetention {
  readonly #host: RetentionHost;
  readonly #files: Files;
  readonly #clock: Clock;
  readonly #logger: Logger;
  /** Files that wait for their removal. */
  readonly #waiting = new Map<Timer, () => Promise<void>>();
  /** What changes segments of a partition; one thing at a time. */
  readonly #busy = new Map<Partition, Promise<void>>();
  /** Of the segments of all logs; negative: no limit. */
  readonly #maxBytes: number;
  /** Appended since they were last measured. */
  #grown = 0;
  #limiting = false;

  constructor(host: RetentionHost, files: Files, clock: Clock, logger: Logger, maxBytes: number) {
    this.#maxBytes = maxBytes;
    this.#host = host;
    this.#files = files;
    this.#clock = clock;
    this.#logger = logger;
  }

  /** Runs `work` when nothing else changes which segments the partition has. */
  alone(partition: Partition, work: () => Promise<void>): Promise<void> {
    const before = this.#busy.get(partition) ?? Promise.resolve();
    const mine = before
      .catch(() => {})
      .then(work)
      .finally(() => {
        if (this.#busy.get(partition) === mine) this.#busy.delete(partition);
      });
    this.#busy.set(partition, mine);
    return mine;
  }

  /** Looks at every partition; one that fails is logged, and looked at again the next time. */
  async run(): Promise<void> {
    for (const partition of this.#host.partitions())
      await this.#try(partition, () => this.#retain(partition));
    await this.limit();
  }

  async #try(partition: Partition, work: () => Promise<void>): Promise<void> {
    try {
      await this.alone(partition, work);
    } catch (error) {
      if (partition.deleted) return;
      this.#logger.error(
        { topic: partition.topic, partition: partition.index, reason: (error as Error).message },
        'old segments of a partition could not be deleted',
      );
    }
  }

  /** So much is appended: with a limit for all logs, it is time to look at each hundredth of it, and not before a mebibyte. */
  grew(bytes: number): void {
    if (this.#maxBytes < 0) return;
    this.#grown += bytes;
    if (this.#limiting || !this.#hasGrown()) return;
    this.#host.inBackground('keep the logs to log.disk.max.bytes', this.limit());
  }

  #hasGrown(): boolean {
    return this.#grown >= Math.max(this.#maxBytes / 100, 1 << 20);
  }

  /** Deletes the oldest closed segments of all logs that are not compacted until all logs together have log.disk.max.bytes. */
  async limit(): Promise<void> {
    if (this.#maxBytes < 0 || this.#limiting) return;
    this.#limiting = true;
    try {
      do {
        this.#grown = 0;
        const partitions = this.#host.partitions();
        const excess = partitions.reduce((sum, { log }) => sum + log.sizeInBytes, 0) - this.#maxBytes;
        if (excess > 0) await this.#lose(partitions, excess);
        // What came meanwhile may be the last for long.
      } while (this.#hasGrown());
    } finally {
      this.#limiting = false;
    }
  }

  async #lose(partitions: readonly Partition[], excess: number): Promise<void> {
    const mayLose: Partition[] = [];
    const states: { segments: readonly SegmentFacts[]; highWatermark: number }[] = [];
    for (const partition of partitions) {
      const { log, config, deleted, offline } = partition;
      if (deleted || offline !== undefined || config.cleanupPolicy.includes('compact')) continue;
      if (log.segmentBaseOffsets().length < 2) continue;
      const segments = await log.segmentFacts();
      mayLose.push(partition);
      states.push({ segments, highWatermark: partition.highWatermark });
    }
    const plan = planCap(states, excess);
    for (const [i, partition] of mayLose.entries()) {
      if (plan[i]! > 0) await this.#try(partition, () => this.#deleteBelow(partition, plan[i]!));
    }
  }

  async #retain(partition: Partition): Promise<void> {
    const { log, config } = partition;
    if (partition.deleted || partition.offline !== undefined) return;
    const segments = await log.segmentFacts();
    const { logStartOffset, highWatermark } = partition;
    const logEndOffset = log.writtenOffset;
    // Something came meanwhile: the facts are of another log.
    const active = segments[segments.length - 1]!;
    const { segmentMs } = partition;
    const state = { segments, logStartOffset, logEndOffset, highWatermark, segmentMs };
    const plan = planRetention(state, config, this.#clock.now());
    const isSame = log.activeSegmentBaseOffset === active.baseOffset && log.logEndOffset === logEndOffset;
    if (plan.roll && isSame) await this.#host.roll(partition);
    await this.#deleteBelow(partition, plan.deleteBelow);
  }

  /** Lets go of the closed segments that end at or below an offset. */
  async #deleteBelow(partition: Partition, offset: number): Promise<void> {
    const { log, aborted } = partition;
    const bases = log.segmentBaseOffsets();
    // Without the active one.
    const gone = bases.filter((_, i) => i + 1 < bases.length && bases[i + 1]! <= offset);
    if (gone.length === 0 || partition.deleted || partition.offline !== undefined) return;
    const startsAt = bases[gone.length]!;
    // What producers wrote below it is told by a snapshot alone, then.
    await this.#host.ensureSnapshot(partition, startsAt);
    if (partition.deleted || partition.offline !== undefined) return;
    partition.setLogStartOffset(startsAt);
    // A log start that readers have seen never moves back: it is on disk before anything goes.
    await this.#host.checkpointLogStarts();
    if (partition.deleted) return;
    const names = await this.#host.hold.change(() =>
      aborted.alone(async () => {
        const removed = await log.replaceSegments(gone, []);
        aborted.forgetFiles(gone);
        return removed;
      }),
    );
    const { topic, index } = partition;
    this.#logger.info({ topic, partition: index, segments: gone.length, startsAt }, 'deleted old segments');
    this.removeLater(partition, names);
    await this.#host.removeSnapshots(partition);
  }

  /** Removes files of a partition's folder after file.delete.delay.ms. */
  removeLater(partition: Partition, names: readonly string[]): void {
    const { log, config } = partition;
    const remove = async () => {
      // The whole folder goes.
      if (partition.deleted) return;
      for (const name of names) await this.#files.remove(`${log.dir}/${name}`);
    };
    const timer = this.#clock.setTimer(config.fileDeleteDelayMs, () => {
      this.#waiting.delete(timer);
      this.#host.inBackground('remove the files of deleted segments', remove());
    });
    this.#waiting.set(timer, remove);
  }

  /** Removes at once what waits to be removed. */
  async close(): Promise<void> {
    const waiting = [...this.#waiting];
    this.#waiting.clear();
    for (const [timer, remove] of waiting) {
      timer.cancel();
      await remove();
    }
  }
}

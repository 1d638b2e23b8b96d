/** Writes the offset checkpoints at a data directory's root: one at a time, and only when they changed. */
import {
  type CheckedOffset,
  HIGH_WATERMARK_FILE,
  LOG_START_FILE,
  OffsetCheckpoint,
  RECOVERY_POINT_FILE,
} from './checkpoints.ts';
import type { Files } from './log.ts';
import { copyLogStarts, type LogStart } from './log-starts.ts';
import type { Partition } from './partition.ts';
import { partitionFolder } from './partition-names.ts';

export type RootCheckpoint = typeof RECOVERY_POINT_FILE | typeof LOG_START_FILE | typeof HIGH_WATERMARK_FILE;

export const ROOT_CHECKPOINTS: readonly RootCheckpoint[] = [
  RECOVERY_POINT_FILE,
  LOG_START_FILE,
  HIGH_WATERMARK_FILE,
];

/** What the files had of a partition that does not open: it may open at the next start. */
export interface UnopenedPartition {
  readonly topic: string;
  readonly topicId: string;
  readonly index: number;
  readonly recoveryPoint: CheckedOffset;
  readonly logStart: LogStart;
}

interface KnownPartitions {
  partitions(): Iterable<Partition>;
  unopened(): Iterable<UnopenedPartition>;
}

export class RootCheckpoints {
  readonly #files: Files;
  readonly #dataDir: string;
  readonly #known: KnownPartitions;
  /** Text of each file as it was last written. */
  readonly #written = new Map<RootCheckpoint, string>();
  /** How often partitions left, and how many of those times the recovery points on disk have heard of. */
  #departures = 0;
  #forgotten = 0;
  #last: Promise<void> = Promise.resolve();
  /** Writes that have not begun: they will hold what is so then, and serve all who ask until then. */
  readonly #queued = new Map<RootCheckpoint, Promise<void>>();

  constructor(files: Files, dataDir: string, known: KnownPartitions) {
    this.#files = files;
    this.#dataDir = dataDir;
    this.#known = known;
  }

  /** To be called when the partitions are open; `points` are the recovery points on disk. */
  begin(points: OffsetCheckpoint): void {
    const here = [...this.#known.partitions(), ...this.#known.unopened()];
    const names = new Set(here.map(({ topic, index }) => partitionFolder(topic, index)));
    if ([...points.entries()].some((each) => !names.has(partitionFolder(each.topic, each.partition))))
      this.partitionsLeft();
  }

  /** Partitions are not there any more. */
  partitionsLeft(): void {
    this.#departures++;
  }

  /** Resolves when the recovery points on disk name no partition that left: one would be taken for that of a later partition with its
   * name. Rejects with IO, NO_SPACE ... */
  async forgetLeft(): Promise<void> {
    if (this.#forgotten < this.#departures) await this.write(RECOVERY_POINT_FILE);
  }

  /** Resolves when what the file says is not older than the call. Rejects with IO, NO_SPACE ... */
  write(file: RootCheckpoint): Promise<void> {
    const queued = this.#queued.get(file);
    if (queued !== undefined) return queued;
    const written = this.#last.then(async () => {
      this.#queued.delete(file);
      const text = this.#text(file);
      const departures = this.#departures;
      if (this.#written.get(file) !== text) await this.#write(file, text);
      if (file === RECOVERY_POINT_FILE) this.#forgotten = departures;
    });
    this.#queued.set(file, written);
    this.#last = written.catch(() => {});
    return written;
  }

  async #write(file: RootCheckpoint, text: string): Promise<void> {
    // Where it fails, either text may be there.
    this.#written.delete(file);
    if (file === LOG_START_FILE) {
      const isComplete = [...this.#known.unopened()].every(({ logStart }) => logStart.exact);
      await copyLogStarts(this.#files, this.#dataDir, this.#starts(), isComplete);
    }
    await this.#files.writeAtomic(`${this.#dataDir}/${file}`, text);
    this.#written.set(file, text);
  }

  #text(file: RootCheckpoint): string {
    const checkpoint = new OffsetCheckpoint();
    if (file === LOG_START_FILE) {
      for (const { topic, topicId, index, offset, isRaised } of this.#starts())
        if (isRaised) checkpoint.set(topic, index, offset, topicId);
      return checkpoint.text();
    }
    for (const partition of this.#known.partitions()) {
      const { topic, topicId, index, recoveryPoint, highWatermark } = partition;
      if (file === RECOVERY_POINT_FILE) checkpoint.set(topic, index, recoveryPoint, topicId);
      else checkpoint.set(topic, index, highWatermark);
    }
    if (file === RECOVERY_POINT_FILE) {
      for (const { topic, topicId, index, recoveryPoint } of this.#known.unopened())
        if (recoveryPoint.checked) checkpoint.set(topic, index, recoveryPoint.offset, topicId);
    }
    return checkpoint.text();
  }

  /** Of logs that start above 0, as far as that is known; and whether above their first segment, which Kafka has to be told. */
  *#starts(): Generator<{
    topic: string;
    topicId: string;
    index: number;
    offset: number;
    isRaised: boolean;
  }> {
    for (const { topic, topicId, index, log } of this.#known.partitions()) {
      const offset = log.logStartOffset;
      const isRaised = offset > (log.segmentBaseOffsets()[0] ?? 0);
      if (offset > 0) yield { topic, topicId, index, offset, isRaised };
    }
    // Without an id the metadata does not know it.
    for (const { topic, topicId, index, logStart } of this.#known.unopened()) {
      const { offset } = logStart;
      if (topicId !== '' && offset > 0) yield { topic, topicId, index, offset, isRaised: true };
    }
  }
}

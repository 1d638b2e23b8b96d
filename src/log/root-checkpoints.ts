/** Writes the offset checkpoints at a data directory's root: one at a time, and only when they changed. */
import { HIGH_WATERMARK_FILE, LOG_START_FILE, OffsetCheckpoint, RECOVERY_POINT_FILE } from './checkpoints.ts';
import type { Files } from './log.ts';
import { copyLogStarts } from './log-starts.ts';
import type { Partition } from './partition.ts';

export type RootCheckpoint = typeof RECOVERY_POINT_FILE | typeof LOG_START_FILE | typeof HIGH_WATERMARK_FILE;

export const ROOT_CHECKPOINTS: readonly RootCheckpoint[] = [
  RECOVERY_POINT_FILE,
  LOG_START_FILE,
  HIGH_WATERMARK_FILE,
];

export class RootCheckpoints {
  readonly #files: Files;
  readonly #dataDir: string;
  readonly #partitions: () => Iterable<Partition>;
  /** Text of each file as it was last written. */
  readonly #written = new Map<RootCheckpoint, string>();
  #last: Promise<void> = Promise.resolve();
  /** Writes that have not begun: they will hold what is so then, and serve all who ask until then. */
  readonly #queued = new Map<RootCheckpoint, Promise<void>>();

  constructor(files: Files, dataDir: string, partitions: () => Iterable<Partition>) {
    this.#files = files;
    this.#dataDir = dataDir;
    this.#partitions = partitions;
  }

  /** Resolves when what the file says is not older than the call. Rejects with IO, NO_SPACE ... */
  write(file: RootCheckpoint): Promise<void> {
    const queued = this.#queued.get(file);
    if (queued !== undefined) return queued;
    const written = this.#last.then(async () => {
      this.#queued.delete(file);
      const text = this.#text(file);
      if (this.#written.get(file) === text) return;
      if (file === LOG_START_FILE) await copyLogStarts(this.#files, this.#dataDir, this.#raisedStarts());
      await this.#files.writeAtomic(`${this.#dataDir}/${file}`, text);
      this.#written.set(file, text);
    });
    this.#queued.set(file, written);
    this.#last = written.catch(() => {});
    return written;
  }

  #text(file: RootCheckpoint): string {
    const checkpoint = new OffsetCheckpoint();
    if (file === LOG_START_FILE) {
      for (const { topic, index, offset } of this.#raisedStarts()) checkpoint.set(topic, index, offset);
      return checkpoint.text();
    }
    for (const partition of this.#partitions()) {
      const { topic, index, recoveryPoint, highWatermark } = partition;
      checkpoint.set(topic, index, file === RECOVERY_POINT_FILE ? recoveryPoint : highWatermark);
    }
    return checkpoint.text();
  }

  /** Of logs that start above their first segment. */
  *#raisedStarts(): Generator<{ topic: string; topicId: string; index: number; offset: number }> {
    for (const { topic, topicId, index, log } of this.#partitions()) {
      const offset = log.logStartOffset;
      if (offset > (log.segmentBaseOffsets()[0] ?? 0)) yield { topic, topicId, index, offset };
    }
  }
}

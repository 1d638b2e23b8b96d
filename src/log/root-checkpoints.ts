/** Writes the offset checkpoints at a data directory's root: one at a time, and only when they changed. */
import { HIGH_WATERMARK_FILE, LOG_START_FILE, OffsetCheckpoint, RECOVERY_POINT_FILE } from './checkpoints.ts';
import type { Files } from './log.ts';
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
      await this.#files.writeAtomic(`${this.#dataDir}/${file}`, text);
      this.#written.set(file, text);
    });
    this.#queued.set(file, written);
    this.#last = written.catch(() => {});
    return written;
  }

  #text(file: RootCheckpoint): string {
    const checkpoint = new OffsetCheckpoint();
    for (const partition of this.#partitions()) {
      const { topic, index, log } = partition;
      if (file === RECOVERY_POINT_FILE) checkpoint.set(topic, index, partition.recoveryPoint);
      else if (file === HIGH_WATERMARK_FILE) checkpoint.set(topic, index, partition.highWatermark);
      else if (log.logStartOffset > (log.segmentBaseOffsets()[0] ?? 0))
        checkpoint.set(topic, index, log.logStartOffset);
    }
    return checkpoint.text();
  }
}

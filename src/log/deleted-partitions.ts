/** Partitions of deleted topics: their folders are renamed to `-delete` at once, and removed after file.delete.delay.ms. */
import { randomUUID } from 'node:crypto';
import type { Clock, Timer } from '../runtime/clock.ts';
import type { Partition } from './partition.ts';
import { suffixedFolder } from './partition-names.ts';

export class DeletedPartitions {
  readonly #dataDir: string;
  readonly #clock: Clock;
  readonly #remove: (partition: Partition) => void;
  /** Undefined while its folder is being renamed. */
  readonly #waiting = new Map<Partition, Timer | undefined>();
  #closed = false;

  /** `remove` begins to close a partition and to remove its files. */
  constructor(dataDir: string, clock: Clock, remove: (partition: Partition) => void) {
    this.#dataDir = dataDir;
    this.#clock = clock;
    this.#remove = remove;
  }

  /** Takes partitions in. When it resolves their names are free; rejects with the first error, every one was tried. */
  async add(partitions: readonly Partition[]): Promise<void> {
    for (const partition of partitions) this.#waiting.set(partition, undefined);
    const results = await Promise.allSettled(partitions.map((partition) => this.#rename(partition)));
    for (const result of results) if (result.status === 'rejected') throw result.reason;
  }

  async #rename(partition: Partition): Promise<void> {
    const { topic, index, log, config } = partition;
    await log.rename(`${this.#dataDir}/${suffixedFolder(topic, index, randomUUID(), 'delete')}`);
    if (this.#closed) return;
    const timer = this.#clock.setTimer(config.fileDeleteDelayMs, () => {
      this.#waiting.delete(partition);
      this.#remove(partition);
    });
    this.#waiting.set(partition, timer);
  }

  /** Nothing is removed from now on. Gives those whose logs are still open; the next start removes their folders. */
  close(): Partition[] {
    this.#closed = true;
    for (const timer of this.#waiting.values()) timer?.cancel();
    return [...this.#waiting.keys()];
  }
}

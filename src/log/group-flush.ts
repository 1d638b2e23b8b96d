/** Group commit: one flush of many logs runs at a time; whatever asks meanwhile is in the next one. */
import type { LogEngine } from './log.ts';
import type { Partition } from './partition.ts';

export class GroupFlush {
  readonly #engine: LogEngine;
  readonly #onFlushed: (partitions: readonly Partition[]) => void;
  readonly #waiting = new Set<Partition>();
  #running = false;

  /** `onFlushed` is called after each flush, also a failed one: logs that failed are offline. */
  constructor(engine: LogEngine, onFlushed: (partitions: readonly Partition[]) => void) {
    this.#engine = engine;
    this.#onFlushed = onFlushed;
  }

  add(partition: Partition): void {
    this.#waiting.add(partition);
  }

  /** Begins a flush of all that wait, unless one runs. Resolves when nothing waits any more; undefined if there is nothing
   * to do. Rejects when a flush failed and yet no log went offline, and none was deleted. */
  start(): Promise<void> | undefined {
    if (this.#running || this.#waiting.size === 0) return undefined;
    this.#running = true;
    return this.#run();
  }

  async #run(): Promise<void> {
    // Not running any more in the same turn in which nothing was found to wait: nobody is left behind.
    try {
      while (this.#waiting.size > 0) await this.#flushWaiting();
    } finally {
      this.#running = false;
    }
  }

  async #flushWaiting(): Promise<void> {
    const partitions = [...this.#waiting];
    this.#waiting.clear();
    let failure: unknown;
    try {
      // A log may have gone offline by a flush that it began itself: its partition has to hear of that all the same.
      const sound = partitions.filter((partition) => partition.offline === undefined);
      await this.#engine.flushAll(sound.map((partition) => partition.log));
    } catch (error) {
      failure = error;
    }
    this.#onFlushed(partitions);
    // A partition that was deleted meanwhile is closed; those that are not flushed for that ask again.
    const isExplained = partitions.some(({ offline, deleted }) => offline !== undefined || deleted);
    if (failure !== undefined && !isExplained) throw failure;
  }
}

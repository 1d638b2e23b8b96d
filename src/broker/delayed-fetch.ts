/**
 * Fetches that wait for data. Each watches its partitions and counts the bytes that it still lacks, so that an append
 * costs as much as the partition has watchers, and a tick in which nothing was appended costs nothing.
 */
import type { Partition, PartitionWatcher } from '../log/partition.ts';
import type { Clock, Timer } from '../runtime/clock.ts';

/** Why a wait ended: enough was appended, the time is up, a partition is gone or offline, or another request came. */
export type WakeReason = 'data' | 'timeout' | 'changed' | 'hurried';

/** What a waiting fetch needs of a partition. */
export type WatchedPartition = Pick<Partition, 'watch' | 'unwatch'>;

export class DelayedFetch implements PartitionWatcher {
  /** Bytes that must still become visible before it is worth reading again. */
  #missingBytes: number;
  readonly #partitions: Iterable<WatchedPartition>;
  readonly #owner: DelayedFetches;
  readonly #complete: (reason: WakeReason) => void;
  #timer: Timer | undefined;
  #ended = false;
  #ready = false;

  constructor(
    owner: DelayedFetches,
    partitions: Iterable<WatchedPartition>,
    missingBytes: number,
    complete: (reason: WakeReason) => void,
  ) {
    this.#owner = owner;
    this.#partitions = partitions;
    this.#missingBytes = missingBytes;
    this.#complete = complete;
    for (const partition of partitions) partition.watch(this);
  }

  arm(clock: Clock, maxWaitMs: number): void {
    this.#timer = clock.setTimer(maxWaitMs, () => this.wake('timeout'));
  }

  /** Told by a partition; only counts. */
  onVisible(_: unknown, bytes: number): void {
    this.#missingBytes -= bytes;
    if (this.#missingBytes <= 0) this.#becomeReady('data');
  }

  onChanged(): void {
    this.#becomeReady('changed');
  }

  #becomeReady(reason: WakeReason): void {
    if (this.#ended || this.#ready) return;
    this.#ready = true;
    this.#owner.ready(this, reason);
  }

  /** Ends the wait and calls back, once. */
  wake(reason: WakeReason): void {
    if (this.#ended) return;
    this.cancel();
    this.#complete(reason);
  }

  /** Ends the wait without calling back. */
  cancel(): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#timer?.cancel();
    for (const partition of this.#partitions) partition.unwatch(this);
    this.#owner.forget(this);
  }
}

export class DelayedFetches {
  readonly #clock: Clock;
  readonly #requestTickEnd: () => void;
  readonly #waiting = new Set<DelayedFetch>();
  #ready: { fetch: DelayedFetch; reason: WakeReason }[] = [];

  /** `requestTickEnd`: a fetch is ready; see that wakeReady() is called soon. */
  constructor(clock: Clock, requestTickEnd: () => void) {
    this.#clock = clock;
    this.#requestTickEnd = requestTickEnd;
  }

  /** How many wait now. */
  get waiting(): number {
    return this.#waiting.size;
  }

  /** Waits until missingBytes were appended to the partitions together, one of them is gone or changed otherwise, or
   * maxWaitMs passed. */
  watch(
    partitions: Iterable<WatchedPartition>,
    missingBytes: number,
    maxWaitMs: number,
    complete: (reason: WakeReason) => void,
  ): DelayedFetch {
    const fetch = new DelayedFetch(this, partitions, missingBytes, complete);
    this.#waiting.add(fetch);
    fetch.arm(this.#clock, maxWaitMs);
    return fetch;
  }

  ready(fetch: DelayedFetch, reason: WakeReason): void {
    this.#ready.push({ fetch, reason });
    this.#requestTickEnd();
  }

  forget(fetch: DelayedFetch): void {
    this.#waiting.delete(fetch);
  }

  /** Wakes those that are ready; true if there was one. */
  wakeReady(): boolean {
    if (this.#ready.length === 0) return false;
    const ready = this.#ready;
    this.#ready = [];
    for (const { fetch, reason } of ready) fetch.wake(reason);
    return true;
  }

  /** Lets go of all that wait, without calling back. */
  close(): void {
    for (const fetch of [...this.#waiting]) fetch.cancel();
    this.#ready = [];
  }
}

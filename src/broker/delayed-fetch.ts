/**
 * Fetches that wait for data. Each watches its partitions, or its session, and counts the bytes that it still lacks, so that an append
 * costs as much as the partition has watchers, and a tick in which nothing was appended costs nothing.
 */
import type { Clock, Timer } from '../runtime/clock.ts';

/** Why a wait ended: enough was appended, the time is up, a partition is gone or offline, or another request came. */
export type WakeReason = 'data' | 'timeout' | 'changed' | 'hurried';

/** Told what a waiting fetch waits for. */
export interface FetchWatcher {
  /** Of a partition, `bytes` more can be read. */
  onVisible(partition: unknown, bytes: number): void;
  /** Something else is new. */
  onChanged(partition?: unknown): void;
}

/** What a fetch can watch: a partition, or a fetch session. */
export interface Watched {
  watch(fetch: FetchWatcher): void;
  unwatch(fetch: FetchWatcher): void;
}

export class DelayedFetch implements FetchWatcher {
  /** Bytes that must still become visible before it is worth reading again. */
  #missingBytes: number;
  readonly #watched: Iterable<Watched>;
  readonly #owner: DelayedFetches;
  readonly #complete: (reason: WakeReason) => void;
  #timer: Timer | undefined;
  #ended = false;
  #ready = false;

  constructor(
    owner: DelayedFetches,
    watched: Iterable<Watched>,
    missingBytes: number,
    complete: (reason: WakeReason) => void,
  ) {
    this.#owner = owner;
    this.#watched = watched;
    this.#missingBytes = missingBytes;
    this.#complete = complete;
    for (const each of watched) each.watch(this);
  }

  arm(clock: Clock, maxWaitMs: number): void {
    this.#timer = clock.setTimer(maxWaitMs, () => this.wake('timeout'));
  }

  /** Only counts. */
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
    for (const each of this.#watched) each.unwatch(this);
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
    watched: Iterable<Watched>,
    missingBytes: number,
    maxWaitMs: number,
    complete: (reason: WakeReason) => void,
  ): DelayedFetch {
    const fetch = new DelayedFetch(this, watched, missingBytes, complete);
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

/**
 * Fetches that wait for data. Each waits on its partitions and counts the bytes that it still lacks, so that an append
 * costs as much as it has watchers, and a tick in which nothing was appended costs nothing.
 */
import type { Clock, Timer } from '../runtime/clock.ts';

/** Why a wait ended. */
export type WakeReason = 'data' | 'timeout' | 'changed' | 'hurried';

export class DelayedFetch<Key> {
  readonly keys: readonly Key[];
  /** Bytes that must still be appended before it is worth reading again. */
  missingBytes: number;
  timer: Timer | undefined;
  readonly #complete: (reason: WakeReason) => void;
  #owner: DelayedFetches<Key> | undefined;

  constructor(
    owner: DelayedFetches<Key>,
    keys: readonly Key[],
    missingBytes: number,
    complete: (reason: WakeReason) => void,
  ) {
    this.#owner = owner;
    this.keys = keys;
    this.missingBytes = missingBytes;
    this.#complete = complete;
  }

  /** Ends the wait and calls back, once. */
  wake(reason: WakeReason): void {
    if (this.cancel()) this.#complete(reason);
  }

  /** Ends the wait without calling back; false if it had ended before. */
  cancel(): boolean {
    const owner = this.#owner;
    if (owner === undefined) return false;
    this.#owner = undefined;
    this.timer?.cancel();
    owner.forget(this);
    return true;
  }
}

/** Waiting fetches by what they watch: a partition, or any other object that stands for one. */
export class DelayedFetches<Key> {
  readonly #watchers = new Map<Key, Set<DelayedFetch<Key>>>();
  readonly #clock: Clock;
  /** Reached their bytes since the last wakeReady(). */
  #ready: DelayedFetch<Key>[] = [];

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Fetches that wait now. */
  get waiting(): number {
    const all = new Set<DelayedFetch<Key>>();
    for (const set of this.#watchers.values()) for (const fetch of set) all.add(fetch);
    return all.size;
  }

  /** Waits until missingBytes were appended to the keys together, one of them changed, or maxWaitMs passed. */
  watch(
    keys: readonly Key[],
    missingBytes: number,
    maxWaitMs: number,
    complete: (reason: WakeReason) => void,
  ): DelayedFetch<Key> {
    const fetch = new DelayedFetch(this, keys, missingBytes, complete);
    for (const key of keys) {
      let set = this.#watchers.get(key);
      if (set === undefined) {
        set = new Set();
        this.#watchers.set(key, set);
      }
      set.add(fetch);
    }
    fetch.timer = this.#clock.setTimer(maxWaitMs, () => fetch.wake('timeout'));
    return fetch;
  }

  forget(fetch: DelayedFetch<Key>): void {
    for (const key of fetch.keys) {
      const set = this.#watchers.get(key);
      if (set?.delete(fetch) && set.size === 0) this.#watchers.delete(key);
    }
  }

  /** Readers of key may see `bytes` more. Their fetches wake with the next wakeReady(). */
  appended(key: Key, bytes: number): void {
    const set = this.#watchers.get(key);
    if (set === undefined) return;
    for (const fetch of set) {
      const before = fetch.missingBytes;
      fetch.missingBytes -= bytes;
      if (before > 0 && fetch.missingBytes <= 0) this.#ready.push(fetch);
    }
  }

  /** Wakes those that reached their bytes; true if there was one. */
  wakeReady(): boolean {
    if (this.#ready.length === 0) return false;
    const ready = this.#ready;
    this.#ready = [];
    for (const fetch of ready) fetch.wake('data');
    return true;
  }

  /** Something else about key changed (deleted, offline, its start moved): its fetches look again at once. */
  changed(key: Key): void {
    const set = this.#watchers.get(key);
    if (set !== undefined) for (const fetch of [...set]) fetch.wake('changed');
  }

  /** Lets go of all that wait, without calling back. */
  close(): void {
    for (const set of [...this.#watchers.values()]) for (const fetch of [...set]) fetch.cancel();
    this.#ready = [];
  }
}

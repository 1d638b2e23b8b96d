/**
 * One fetch session (KIP-227): the broker remembers which partitions a client reads and what it was told of each, so that
 * a request names only what it changes, and an answer holds only what is new.
 *
 * A session is its own watch list. A partition of it is dirty while reading it may give something to say, and a poll reads
 * the dirty ones only. One that is not dirty is watched, and its next append makes it dirty; unless a fetch waits, that ends
 * the watch, so that a session that nobody polls any more costs an append nothing. Whatever makes a partition's answer another
 * one has to tell its watchers.
 */
import type { IsolationLevel, Partition, PartitionWatcher } from '../log/partition.ts';
import { KafkaError } from '../protocol/errors.ts';
import type { FetchWatcher, Watched } from './delayed-fetch.ts';
import type { FetchResult, FetchTarget } from './fetch-read.ts';

/** Session epoch of a full fetch that opens a session. */
export const INITIAL_EPOCH = 0;
/** Session epoch of a full fetch that opens none. */
export const FINAL_EPOCH = -1;
const LARGEST_EPOCH = 2 ** 31 - 1;

/** As in answers that are errors. */
const NOTHING_TOLD = -1;

/** The epoch of a session's next request. */
export function nextEpoch(epoch: number): number {
  return epoch === LARGEST_EPOCH ? 1 : epoch + 1;
}

/** What a topic adds to the weight of its session, besides its partitions. */
export function nameWeight(topic: string): number {
  return Math.floor(topic.length / 128);
}

/** What a client asks of one partition. */
export interface PartitionRequest {
  /** Name, or id where the session goes by ids. */
  readonly topic: string;
  readonly index: number;
  readonly fetchOffset: number;
  readonly maxBytes: number;
  readonly currentLeaderEpoch: number;
  readonly lastFetchedEpoch: number;
}

/** Finds a partition, or says what to answer where it is missing. */
export type ResolvePartition = (
  topic: string,
  index: number,
) => { readonly partition: Partition | undefined; readonly missingCode: number };

export class SessionPartition implements FetchTarget, PartitionWatcher {
  readonly topic: string;
  readonly index: number;
  partition: Partition | undefined;
  missingCode: number = KafkaError.NONE;
  fetchOffset = 0;
  maxBytes = 0;
  currentLeaderEpoch = -1;
  lastFetchedEpoch = -1;
  /** Place in the order in which the session is read. */
  place: number;
  dirty = false;
  /** Is in the session. */
  kept = true;
  readonly #session: FetchSession;
  #watching = false;
  #highWatermark = NOTHING_TOLD;
  #lastStableOffset = NOTHING_TOLD;
  #logStartOffset = NOTHING_TOLD;

  constructor(session: FetchSession, request: PartitionRequest, place: number) {
    this.#session = session;
    this.topic = request.topic;
    this.index = request.index;
    this.place = place;
    this.ask(request);
  }

  ask(request: PartitionRequest): void {
    this.fetchOffset = request.fetchOffset;
    this.maxBytes = request.maxBytes;
    this.currentLeaderEpoch = request.currentLeaderEpoch;
    this.lastFetchedEpoch = request.lastFetchedEpoch;
  }

  /** Looks for the partition again where there is none, or it was deleted. */
  resolve(resolve: ResolvePartition): void {
    if (this.partition !== undefined && !this.partition.deleted) return;
    this.unwatch();
    ({ partition: this.partition, missingCode: this.missingCode } = resolve(this.topic, this.index));
  }

  /** Whether the result has something that the client was not told. */
  isNews(result: FetchResult): boolean {
    return (
      result.records.length > 0 ||
      result.errorCode !== KafkaError.NONE ||
      result.divergingEpoch !== undefined ||
      result.highWatermark !== this.#highWatermark ||
      result.lastStableOffset !== this.#lastStableOffset ||
      result.logStartOffset !== this.#logStartOffset
    );
  }

  /** After an error that is nothing, so that whatever comes after it is news. */
  told(result: FetchResult): void {
    this.#highWatermark = result.highWatermark;
    this.#lastStableOffset = result.lastStableOffset;
    this.#logStartOffset = result.logStartOffset;
  }

  watch(): void {
    if (this.#watching || this.partition === undefined) return;
    this.#watching = true;
    this.partition.watch(this);
  }

  unwatch(): void {
    if (!this.#watching) return;
    this.#watching = false;
    this.partition!.unwatch(this);
  }

  onVisible(partition: Partition, bytes: number): void {
    this.#session.onVisible(this, partition, bytes);
  }

  onChanged(partition: Partition): void {
    this.#session.onChanged(this, partition);
  }
}

/** What a request of a session changes, and how it reads. */
export interface SessionUpdate {
  readonly asked: Iterable<PartitionRequest>;
  readonly forgotten: Iterable<readonly [topic: string, index: number]>;
  readonly isolation: IsolationLevel;
}

export class FetchSession implements Watched {
  readonly id: number;
  /** Whether its requests name topics by id: all of one session do it the same way. */
  readonly byId: boolean;
  /** Opened by a replica. */
  readonly privileged: boolean;
  /** The epoch that its next request must have. */
  epoch = nextEpoch(INITIAL_EPOCH);
  readonly #resolve: ResolvePartition;
  readonly #topics = new Map<string, Map<number, SessionPartition>>();
  #size = 0;
  #weight = 0;
  #nextPlace = 0;
  /** Those that are dirty, and perhaps some that left since. */
  #dirty: SessionPartition[] = [];
  #isolation: IsolationLevel = 'read_uncommitted';
  /** Fetches that wait: one, or more where a client polls on while it waits. */
  readonly #waiting = new Set<FetchWatcher>();
  #closed = false;

  constructor(id: number, byId: boolean, privileged: boolean, resolve: ResolvePartition) {
    this.id = id;
    this.byId = byId;
    this.privileged = privileged;
    this.#resolve = resolve;
  }

  /** How many partitions it has. */
  get size(): number {
    return this.#size;
  }

  /** What it takes of the memory for sessions, in partitions: a topic with a long name counts for more. */
  get weight(): number {
    return this.#size + this.#weight;
  }

  /** How many of them the next poll reads. */
  get dirtyCount(): number {
    return this.#dirty.reduce((count, { kept }) => count + (kept ? 1 : 0), 0);
  }

  find(topic: string, index: number): SessionPartition | undefined {
    return this.#topics.get(topic)?.get(index);
  }

  update({ asked, forgotten, isolation }: SessionUpdate): void {
    for (const request of asked) this.#ask(request);
    for (const [topic, index] of forgotten) this.#forget(topic, index);
    if (isolation !== this.#isolation) {
      this.#isolation = isolation;
      for (const partitions of this.#topics.values()) {
        for (const partition of partitions.values()) this.#mark(partition);
      }
    }
    // Who polls again has given up the poll that waits.
    this.#hurry();
  }

  #ask(request: PartitionRequest): void {
    let partitions = this.#topics.get(request.topic);
    if (partitions === undefined) {
      partitions = new Map();
      this.#topics.set(request.topic, partitions);
      this.#weight += nameWeight(request.topic);
    }
    let partition = partitions.get(request.index);
    if (partition === undefined) {
      partition = new SessionPartition(this, request, this.#nextPlace++);
      partition.resolve(this.#resolve);
      partitions.set(request.index, partition);
      this.#size++;
    } else partition.ask(request);
    this.#mark(partition);
  }

  #forget(topic: string, index: number): void {
    const partitions = this.#topics.get(topic);
    const partition = partitions?.get(index);
    if (partitions === undefined || partition === undefined) return;
    partition.kept = false;
    partition.unwatch();
    partitions.delete(index);
    if (partitions.size === 0) {
      this.#topics.delete(topic);
      this.#weight -= nameWeight(topic);
    }
    this.#size--;
  }

  #mark(partition: SessionPartition): void {
    if (partition.dirty) return;
    partition.dirty = true;
    this.#dirty.push(partition);
  }

  /** What may have something to say, in the order of reading. */
  targets(): readonly SessionPartition[] {
    const targets = this.#dirty.filter(({ kept }) => kept).sort((a, b) => a.place - b.place);
    for (const partition of targets) partition.resolve(this.#resolve);
    this.#dirty = [...targets];
    return targets;
  }

  /** Lets those rest that were read and have nothing to say: the results of targets(), one for each, as they are now. */
  rest(targets: readonly SessionPartition[], results: readonly FetchResult[]): void {
    targets.forEach((partition, i) => {
      if (!partition.isNews(results[i]!)) this.#settle(partition, results[i]!);
    });
    this.#dirty = this.#dirty.filter(({ dirty }) => dirty);
  }

  /**
   * Notes that the client is told these results and gives those that are news to it. Partitions with records go to the end
   * of the order, so that those that did not fit come first the next time.
   */
  tell(targets: readonly SessionPartition[], results: readonly FetchResult[]): SessionNews[] {
    const news: SessionNews[] = [];
    targets.forEach((partition, i) => {
      const result = results[i]!;
      if (partition.isNews(result)) {
        news.push({ topic: partition.topic, result });
        partition.told(result);
        if (result.records.length > 0) partition.place = this.#nextPlace++;
      }
      this.#settle(partition, result);
    });
    this.#dirty = this.#dirty.filter(({ dirty }) => dirty);
    return news;
  }

  /** Watches a partition instead of reading it again, if it was read to its end. */
  #settle(partition: SessionPartition, result: FetchResult): void {
    if (!partition.dirty || !partition.kept || this.#closed) return;
    const { records, errorCode, divergingEpoch, highWatermark, lastStableOffset } = result;
    if (records.length > 0 || errorCode !== KafkaError.NONE || divergingEpoch !== undefined) return;
    const end = this.#isolation === 'read_committed' ? lastStableOffset : highWatermark;
    if (partition.fetchOffset < end) return;
    partition.dirty = false;
    partition.watch();
  }

  // --- what partitions say ---

  onVisible(which: SessionPartition, partition: Partition, bytes: number): void {
    this.#mark(which);
    if (this.#waiting.size === 0) which.unwatch();
    for (const fetch of this.#waiting) fetch.onVisible(partition, bytes);
  }

  onChanged(which: SessionPartition, partition: Partition): void {
    this.#mark(which);
    if (this.#waiting.size === 0) which.unwatch();
    for (const fetch of this.#waiting) fetch.onChanged(partition);
  }

  // --- who waits ---

  /** A fetch waits for whatever happens to the session's partitions. */
  watch(fetch: FetchWatcher): void {
    this.#waiting.add(fetch);
    if (this.#closed) this.#hurry();
    else for (const partition of this.#dirty) if (partition.kept) partition.watch();
  }

  unwatch(fetch: FetchWatcher): void {
    this.#waiting.delete(fetch);
  }

  #hurry(): void {
    for (const fetch of this.#waiting) fetch.onChanged();
  }

  /** Lets go of all partitions; a fetch that waits is answered with what there is. */
  close(): void {
    this.#closed = true;
    for (const partitions of this.#topics.values()) {
      for (const partition of partitions.values()) partition.unwatch();
    }
    this.#hurry();
  }
}

export interface SessionNews {
  readonly topic: string;
  readonly result: FetchResult;
}

/**
 * All fetch sessions of a broker, by id (KIP-227). They outlive connections, and are bounded: in number, and in partitions
 * together. A new one takes the place of the one that was idle longest, if that is more than two minutes ago; else of the least
 * valuable of those that are older than two minutes, if the new one is worth more: replicas' before consumers', large ones
 * before small ones. Otherwise it is not kept, and its client goes on without a session.
 */
import { randomInt } from 'node:crypto';
import {
  FetchSession,
  nameWeight,
  type PartitionRequest,
  type ResolvePartition,
  type SessionUpdate,
} from './fetch-session.ts';

/** No session. */
export const NO_SESSION = 0;
/** How long a session is safe from others, and how long it may be idle, ms; as in Kafka. */
const EVICTION_MS = 120_000;
/** Partitions of all sessions together, a quarter of a KiB each. */
const MAX_PARTITIONS = 250_000;
const LARGEST_ID = 2 ** 31 - 1;

interface Entry {
  readonly session: FetchSession;
  readonly createdAt: number;
  lastUsed: number;
  /** Its size when it was last used: what it is judged by. */
  size: number;
  /** Partitions that it counts for. */
  weight: number;
  /** Old enough, when it was last used, to make place for a replica's, and for anybody's. */
  yieldsToReplicas: boolean;
  yieldsToAll: boolean;
}

export interface FetchSessionCacheOptions {
  /** How many sessions there may be now. */
  readonly slots: () => number;
  /** Milliseconds. */
  readonly monotonic: () => number;
  readonly maxPartitions?: number;
  /** Gives ids, 1 to 2^31 - 1; tests hand in their own. */
  readonly randomId?: () => number;
}

export class FetchSessionCache {
  readonly #options: FetchSessionCacheOptions;
  readonly #maxPartitions: number;
  /** The one that was idle longest first. */
  readonly #entries = new Map<number, Entry>();
  #partitions = 0;

  constructor(options: FetchSessionCacheOptions) {
    this.#options = options;
    this.#maxPartitions = options.maxPartitions ?? MAX_PARTITIONS;
  }

  get size(): number {
    return this.#entries.size;
  }

  /** Partitions of all sessions; a topic of a very long name counts for more. */
  get partitions(): number {
    return this.#partitions;
  }

  get(id: number): FetchSession | undefined {
    return this.#entries.get(id)?.session;
  }

  /** Closes a session, if there is one. */
  remove(id: number): void {
    const entry = this.#entries.get(id);
    if (entry === undefined) return;
    this.#entries.delete(id);
    this.#partitions -= entry.weight;
    entry.session.close();
  }

  /** Opens a session with these partitions; undefined if there is no place for it. */
  create(
    byId: boolean,
    privileged: boolean,
    resolve: ResolvePartition,
    first: SessionUpdate,
  ): FetchSession | undefined {
    const asked = [...first.asked];
    const now = this.#options.monotonic();
    if (!this.#makePlace(privileged, asked.length, weightOf(asked), now)) return undefined;
    const session = new FetchSession(this.#newId(), byId, privileged, resolve);
    session.update({ ...first, asked });
    this.#entries.set(session.id, {
      session,
      createdAt: now,
      lastUsed: now,
      size: 0,
      weight: 0,
      yieldsToReplicas: false,
      yieldsToAll: false,
    });
    this.#touch(session);
    return session;
  }

  /**
   * Changes a session. One without partitions is closed, and so is one with more of them than there is place for, which is
   * not changed before.
   */
  update(session: FetchSession, update: SessionUpdate): 'open' | 'empty' | 'too-large' {
    const asked = [...update.asked];
    const added = asked.filter(({ topic, index }) => session.find(topic, index) === undefined);
    if (this.#partitions + weightOf(added) > this.#maxPartitions) {
      this.remove(session.id);
      return 'too-large';
    }
    session.update({ ...update, asked });
    if (session.size === 0) {
      this.remove(session.id);
      return 'empty';
    }
    this.#touch(session);
    return 'open';
  }

  #touch(session: FetchSession): void {
    const entry = this.#entries.get(session.id)!;
    const now = this.#options.monotonic();
    this.#partitions += session.weight - entry.weight;
    entry.weight = session.weight;
    entry.size = session.size;
    entry.lastUsed = now;
    entry.yieldsToAll = now - entry.createdAt > EVICTION_MS;
    entry.yieldsToReplicas = !session.privileged || entry.yieldsToAll;
    this.#entries.delete(session.id);
    this.#entries.set(session.id, entry);
  }

  #makePlace(privileged: boolean, size: number, weight: number, now: number): boolean {
    const slots = this.#options.slots();
    if (slots <= 0 || weight > this.#maxPartitions) return false;
    while (this.#entries.size >= slots || this.#partitions + weight > this.#maxPartitions) {
      const victim = this.#victim(privileged, size, now);
      if (victim === undefined) return false;
      this.remove(victim.session.id);
    }
    return true;
  }

  #victim(privileged: boolean, size: number, now: number): Entry | undefined {
    const oldest: Entry | undefined = this.#entries.values().next().value;
    if (oldest === undefined) return undefined;
    if (now - oldest.lastUsed > EVICTION_MS) return oldest;
    let least: Entry | undefined;
    for (const entry of this.#entries.values()) {
      if (!(privileged ? entry.yieldsToReplicas : entry.yieldsToAll)) continue;
      if (least === undefined || worth(entry) < worth(least)) least = entry;
    }
    return least !== undefined && worth(least) < worth({ session: { privileged }, size }) ? least : undefined;
  }

  /** Random, so that no client of an earlier broker guesses the session of another. */
  #newId(): number {
    const { randomId = () => randomInt(1, LARGEST_ID) } = this.#options;
    for (;;) {
      const id = randomId();
      if (!this.#entries.has(id)) return id;
    }
  }
}

/** Orders sessions by what they save: a replica's over any consumer's, then by size. */
function worth({ session, size }: { session: { readonly privileged: boolean }; size: number }): number {
  return session.privileged ? size + LARGEST_ID : size;
}

/** At most what these take when they are added. */
function weightOf(asked: readonly PartitionRequest[]): number {
  let weight = 0;
  for (const { topic } of asked) weight += 1 + nameWeight(topic);
  return weight;
}

/**
 * Offsets that are committed in transactions which have not ended: not visible, and a reason for readers who require stable
 * offsets to come again. What is written to the log later and counts, in another transaction or in none, wins over them, whichever
 * ends last, as in Apache Kafka.
 */
import type { CommittedOffset } from './group-records.ts';

export interface PendingOffset {
  readonly topic: string;
  readonly partition: number;
  readonly committed: CommittedOffset;
}

interface Entry {
  readonly topic: string;
  readonly partition: number;
  /** Its place among all, in the order of the log. */
  readonly order: number;
  /** Undefined: something else was committed later. */
  committed: CommittedOffset | undefined;
}

export class PendingOffsets {
  /** Group, then producer id, then topic and partition. */
  readonly #groups = new Map<string, Map<number, Map<string, Entry>>>();
  #added = 0;

  get size(): number {
    return this.#groups.size;
  }

  /** Whether a group has any. */
  has(groupId: string): boolean {
    return this.#groups.has(groupId);
  }

  /** Whether a transaction is open that has committed an offset of this partition. */
  covers(groupId: string, topic: string, partition: number): boolean {
    for (const entries of this.#groups.get(groupId)?.values() ?? []) {
      if (entries.has(keyOf(topic, partition))) return true;
    }
    return false;
  }

  /** Topics and partitions of a group's pending offsets. */
  *of(groupId: string): Generator<{ readonly topic: string; readonly partition: number }> {
    for (const entries of this.#groups.get(groupId)?.values() ?? []) yield* entries.values();
  }

  /** To be called in the order of the log. */
  add(producerId: number, groupId: string, { topic, partition, committed }: PendingOffset): void {
    let producers = this.#groups.get(groupId);
    if (producers === undefined) {
      producers = new Map();
      this.#groups.set(groupId, producers);
    }
    let entries = producers.get(producerId);
    if (entries === undefined) {
      entries = new Map();
      producers.set(producerId, entries);
    }
    entries.set(keyOf(topic, partition), { topic, partition, order: this.#added++, committed });
  }

  /** Something was committed without a transaction, or in one, as what was added `order`th: older ones no longer count. */
  supersede(groupId: string, topic: string, partition: number, order = this.#added): void {
    for (const entries of this.#groups.get(groupId)?.values() ?? []) {
      const entry = entries.get(keyOf(topic, partition));
      if (entry !== undefined && entry.order < order) entry.committed = undefined;
    }
  }

  /** A producer's transaction ended for the groups that `concerns` takes: gives what was pending of it, and counts if it was
   * committed. */
  end(
    producerId: number,
    commit: boolean,
    concerns: (groupId: string) => boolean,
  ): { readonly groupId: string; readonly offsets: readonly PendingOffset[] }[] {
    const ended: { groupId: string; offsets: PendingOffset[] }[] = [];
    for (const [groupId, producers] of [...this.#groups]) {
      const entries = producers.get(producerId);
      if (entries === undefined || !concerns(groupId)) continue;
      producers.delete(producerId);
      const offsets: PendingOffset[] = [];
      for (const { topic, partition, order, committed } of entries.values()) {
        if (!commit || committed === undefined) continue;
        this.supersede(groupId, topic, partition, order);
        offsets.push({ topic, partition, committed });
      }
      if (producers.size === 0) this.#groups.delete(groupId);
      ended.push({ groupId, offsets });
    }
    return ended;
  }

  /** Forgets what concerns a group, one topic of it, or one partition of that. */
  forget(groupId: string, topic?: string, partition?: number): void {
    if (topic === undefined) {
      this.#groups.delete(groupId);
      return;
    }
    for (const entries of this.#groups.get(groupId)?.values() ?? []) {
      if (partition !== undefined) entries.delete(keyOf(topic, partition));
      else for (const [key, entry] of entries) if (entry.topic === topic) entries.delete(key);
    }
  }

  clear(): void {
    this.#groups.clear();
  }
}

function keyOf(topic: string, partition: number): string {
  return `${partition}/${topic}`;
}

/** All groups of the broker, whatever their protocol, and the offsets that each has committed. */
import { ClassicGroup } from './classic-group.ts';
import { ConsumerGroup } from './consumer-group.ts';
import type { CommittedOffset, ForeignType } from './group-records.ts';
import { PendingOffsets } from './pending-offsets.ts';
import { StreamsGroup } from './streams-group.ts';

/** Committed offsets of one group, by topic and partition. */
export class GroupOffsets {
  readonly #topics = new Map<string, Map<number, CommittedOffset>>();

  get isEmpty(): boolean {
    return this.#topics.size === 0;
  }

  get(topic: string, partition: number): CommittedOffset | undefined {
    return this.#topics.get(topic)?.get(partition);
  }

  set(topic: string, partition: number, committed: CommittedOffset): void {
    const partitions = this.#topics.get(topic);
    if (partitions === undefined) this.#topics.set(topic, new Map([[partition, committed]]));
    else partitions.set(partition, committed);
  }

  delete(topic: string, partition: number): void {
    const partitions = this.#topics.get(topic);
    if (partitions?.delete(partition) && partitions.size === 0) this.#topics.delete(topic);
  }

  topics(): IterableIterator<[string, ReadonlyMap<number, CommittedOffset>]> {
    return this.#topics.entries();
  }

  partitions(topic: string): ReadonlyMap<number, CommittedOffset> | undefined {
    return this.#topics.get(topic);
  }
}

/** What is known of a group of a protocol that is not served, which an Apache Kafka has left: enough to list it and to remove it. */
export class ForeignGroup {
  readonly type: ForeignType;
  /** Keys of its records, by their bytes. */
  readonly keys = new Map<string, { readonly key: Uint8Array; readonly ofMember: boolean }>();

  constructor(type: ForeignType) {
    this.type = type;
  }

  get state(): 'Empty' | 'Stable' {
    for (const { ofMember } of this.keys.values()) if (ofMember) return 'Stable';
    return 'Empty';
  }
}

/** A group has one protocol at a time, or none: then it is only a name under which offsets are kept. */
export class Group {
  readonly groupId: string;
  protocol: ClassicGroup | ConsumerGroup | StreamsGroup | ForeignGroup | undefined;
  readonly offsets = new GroupOffsets();
  /** Commits that are being written. */
  commitsInFlight = 0;

  constructor(groupId: string) {
    this.groupId = groupId;
  }

  get classic(): ClassicGroup | undefined {
    return this.protocol instanceof ClassicGroup ? this.protocol : undefined;
  }

  get consumer(): ConsumerGroup | undefined {
    return this.protocol instanceof ConsumerGroup ? this.protocol : undefined;
  }

  get streams(): StreamsGroup | undefined {
    return this.protocol instanceof StreamsGroup ? this.protocol : undefined;
  }

  /** One whose members know epochs: of the consumer protocol, or a streams group. */
  get modern(): ConsumerGroup | StreamsGroup | undefined {
    return this.consumer ?? this.streams;
  }

  get foreign(): ForeignGroup | undefined {
    return this.protocol instanceof ForeignGroup ? this.protocol : undefined;
  }

  /** Whether nobody is in it. */
  get isVacant(): boolean {
    const { protocol } = this;
    if (protocol === undefined) return true;
    return protocol.state === 'Empty' && !(protocol instanceof ClassicGroup && protocol.pendingMembers > 0);
  }
}

export class GroupTable {
  readonly #groups = new Map<string, Group>();
  readonly pending = new PendingOffsets();

  get size(): number {
    return this.#groups.size;
  }

  get(groupId: string): Group | undefined {
    return this.#groups.get(groupId);
  }

  getOrCreate(groupId: string): Group {
    let group = this.#groups.get(groupId);
    if (group === undefined) {
      group = new Group(groupId);
      this.#groups.set(groupId, group);
    }
    return group;
  }

  /** Forgets a group; its timers stop. */
  remove(groupId: string): void {
    const group = this.#groups.get(groupId);
    group?.classic?.close();
    group?.modern?.close();
    this.#groups.delete(groupId);
  }

  clear(): void {
    for (const groupId of [...this.#groups.keys()]) this.remove(groupId);
    this.pending.clear();
  }

  all(): IterableIterator<Group> {
    return this.#groups.values();
  }
}

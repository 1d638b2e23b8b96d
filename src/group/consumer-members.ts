/** The members of one consumer group, and what follows from them: who holds a partition, who subscribes to what, how many have
 * reached the target. Decides nothing. */
import {
  type ConsumerMember,
  type EpochPartitions,
  type MemberProgress,
  type MemberSubscription,
  NO_PARTITIONS,
} from './consumer-member.ts';
import { MemberTable } from './member-table.ts';

function count(counts: Map<string, number>, key: string, by: number): void {
  const sum = (counts.get(key) ?? 0) + by;
  if (sum === 0) counts.delete(key);
  else counts.set(key, sum);
}

export class ConsumerMembers extends MemberTable<ConsumerMember> {
  /** Topic id -> partition -> who holds it, be it only to give it up. */
  readonly #holders = new Map<string, Map<number, string>>();
  /** How many members name each topic, each pattern, each assignor; and the classic protocols that are offered. */
  readonly #names = new Map<string, number>();
  readonly #patterns = new Map<string, number>();
  readonly #assignors = new Map<string, number>();
  /** One copy of each list of names. */
  readonly #lists = new Map<string, { readonly names: readonly string[]; users: number }>();
  #classic = 0;

  /** Members that speak the classic protocol. */
  get classicCount(): number {
    return this.#classic;
  }

  override add(member: ConsumerMember): void {
    super.add(member);
    this.#countSubscription(member.subscription, 1);
    this.#hold(member.memberId, member.progress, true);
  }

  override remove(member: ConsumerMember): void {
    this.#countSubscription(member.subscription, -1);
    this.#hold(member.memberId, member.progress, false);
    super.remove(member);
  }

  setSubscription(member: ConsumerMember, subscription: MemberSubscription): void {
    this.#countSubscription(member.subscription, -1);
    const topicNames = this.#oneList(subscription.topicNames);
    this.change(member, () => {
      member.subscription =
        topicNames === subscription.topicNames ? subscription : { ...subscription, topicNames };
    });
    this.#countSubscription(member.subscription, 1);
  }

  setProgress(member: ConsumerMember, progress: MemberProgress): void {
    this.#hold(member.memberId, member.progress, false);
    this.change(member, () => {
      member.progress = progress;
    });
    this.#hold(member.memberId, progress, true);
  }

  #oneList(names: readonly string[]): readonly string[] {
    return this.#lists.get(names.join('\n'))?.names ?? names;
  }

  #countSubscription(subscription: MemberSubscription, by: 1 | -1): void {
    const { topicNames, topicRegex, serverAssignor, classic } = subscription;
    for (const name of topicNames) count(this.#names, name, by);
    if (topicRegex !== '') count(this.#patterns, topicRegex, by);
    if (serverAssignor !== null) count(this.#assignors, serverAssignor, by);
    if (classic !== null) this.#classic += by;
    const key = topicNames.join('\n');
    const list = this.#lists.get(key);
    if (list === undefined) this.#lists.set(key, { names: topicNames, users: by });
    else {
      list.users += by;
      if (list.users === 0) this.#lists.delete(key);
    }
  }

  #hold(memberId: string, { assigned, pendingRevocation }: MemberProgress, holds: boolean): void {
    for (const partitions of [assigned, pendingRevocation]) {
      if (partitions !== NO_PARTITIONS) this.#holdAll(memberId, partitions, holds);
    }
  }

  #holdAll(memberId: string, held: EpochPartitions, holds: boolean): void {
    for (const [topicId, partitions] of held) {
      let holders = this.#holders.get(topicId);
      if (holders === undefined) {
        holders = new Map();
        this.#holders.set(topicId, holders);
      }
      for (const partition of partitions.keys()) {
        if (holds) holders.set(partition, memberId);
        else if (holders.get(partition) === memberId) holders.delete(partition);
      }
      if (holders.size === 0) this.#holders.delete(topicId);
    }
  }

  holder(topicId: string, partition: number): string | undefined {
    return this.#holders.get(topicId)?.get(partition);
  }

  /** Topics that a member names. */
  names(): IterableIterator<string> {
    return this.#names.keys();
  }

  namesTopic(name: string): boolean {
    return this.#names.has(name);
  }

  patterns(): IterableIterator<string> {
    return this.#patterns.keys();
  }

  usesPattern(pattern: string): boolean {
    return this.#patterns.has(pattern);
  }

  /** The assignor that most members ask for, undefined when none asks; the earliest among equals. */
  get preferredAssignor(): string | undefined {
    let best: string | undefined;
    for (const [name, votes] of this.#assignors) {
      if (best === undefined || votes > this.#assignors.get(best)!) best = name;
    }
    return best;
  }
}

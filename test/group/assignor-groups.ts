/** Random groups for assignors: members come and go, topics appear, grow and vanish, subscriptions change. */
import type { AssignorMember, MemberAssignment } from '../../src/group/assignor.ts';
import type { Random } from '../support/random.ts';

export interface Group {
  readonly topics: ReadonlyMap<string, number>;
  readonly members: readonly AssignorMember[];
}

/** `topic partition` to the owner's id; throws on a partition with two owners. */
export function owners(assignment: ReadonlyMap<string, MemberAssignment>): Map<string, string> {
  const found = new Map<string, string>();
  for (const [memberId, topics] of assignment) {
    for (const [topicId, partitions] of topics) {
      for (const partition of partitions) {
        const key = `${topicId} ${partition}`;
        if (found.has(key)) throw new Error(`${key} is owned by ${found.get(key)} and ${memberId}`);
        found.set(key, memberId);
      }
    }
  }
  return found;
}

/** How many partitions that had an owner before have another one now. */
export function moved(before: Group, after: ReadonlyMap<string, MemberAssignment>): number {
  const now = owners(after);
  let count = 0;
  for (const [key, owner] of owners(new Map(before.members.map((m) => [m.memberId, m.owned])))) {
    if (now.has(key) && now.get(key) !== owner) count++;
  }
  return count;
}

export class RandomGroup implements Group {
  readonly topics = new Map<string, number>();
  members: AssignorMember[] = [];
  readonly #random: Random;
  readonly #alike: boolean;
  #ids = 0;

  constructor(random: Random, alike: boolean) {
    this.#random = random;
    this.#alike = alike;
    for (let i = random.int(4); i >= 0; i--) this.#addTopic();
    for (let i = random.int(6); i >= 0; i--) this.#addMember();
  }

  #id(kind: string): string {
    // Ids in no order of age.
    return Buffer.from(`${kind}${String(this.#random.int(90) + 10)}-${this.#ids++}`)
      .toString('base64url')
      .padEnd(21, 'A')
      .concat('A');
  }

  #addTopic(): void {
    this.topics.set(this.#id('t'), 1 + this.#random.int(12));
  }

  #subscription(): Set<string> {
    const names = [...this.topics.keys()];
    return new Set(this.#alike ? names : names.filter(() => this.#random.int(3) > 0));
  }

  #addMember(): void {
    this.members.push({
      memberId: this.#id('m'),
      instanceId: this.#random.int(3) === 0 ? this.#id('i') : null,
      rackId: null,
      subscribedTopicIds: this.#subscription(),
      owned: new Map(),
    });
  }

  /** Something happens to the group. */
  change(): void {
    const random = this.#random;
    const dice = random.int(10);
    if (dice < 4 || this.members.length === 0) this.#addMember();
    else if (dice < 6 && this.members.length > 1) this.members.splice(random.int(this.members.length), 1);
    else if (dice < 7) this.#addTopic();
    else if (dice < 8 && this.topics.size > 0) this.topics.delete(random.pick([...this.topics.keys()]));
    else if (dice < 9 && this.topics.size > 0) {
      const topic = random.pick([...this.topics.keys()]);
      this.topics.set(topic, this.topics.get(topic)! + 1 + random.int(5));
    }
    const changed = random.int(this.members.length);
    this.members = this.members.map((member, index) =>
      this.#alike || index === changed ? { ...member, subscribedTopicIds: this.#subscription() } : member,
    );
  }

  shuffled(): AssignorMember[] {
    const members = [...this.members];
    for (let i = members.length - 1; i > 0; i--) {
      const j = this.#random.int(i + 1);
      [members[i], members[j]] = [members[j]!, members[i]!];
    }
    return members;
  }

  /** The members have what they were given. */
  take(assignment: ReadonlyMap<string, MemberAssignment>): void {
    this.members = this.members.map((member) => ({
      ...member,
      owned: assignment.get(member.memberId) ?? new Map(),
    }));
  }

  /** How many owned partitions must move, among members alike, for loads to differ by one at most. */
  leastMoves(): number {
    let total = 0;
    for (const count of this.topics.values()) total += count;
    const share = Math.floor(total / this.members.length);
    let larger = total % this.members.length;
    let moves = 0;
    for (const { owned } of this.members) {
      let load = 0;
      for (const [topicId, partitions] of owned) if (this.topics.has(topicId)) load += partitions.length;
      if (load > share && larger > 0) {
        larger--;
        load--;
      }
      moves += Math.max(0, load - share);
    }
    return moves;
  }
}

/** What the members of a consumer group subscribe to: names, and the topics that their patterns match. */
import type { ConsumerMember } from './consumer-member.ts';
import type { ConsumerMembers } from './consumer-members.ts';
import type { ResolvedPattern, TopicsView } from './consumer-types.ts';

export class ConsumerSubscriptions {
  readonly #members: ConsumerMembers;
  readonly #resolved = new Map<string, ResolvedPattern>();
  /** How many patterns match each topic. */
  readonly #matched = new Map<string, number>();

  constructor(members: ConsumerMembers) {
    this.#members = members;
  }

  get(pattern: string): ResolvedPattern | undefined {
    return this.#resolved.get(pattern);
  }

  patterns(): IterableIterator<string> {
    return this.#resolved.keys();
  }

  set(pattern: string, resolved: ResolvedPattern): void {
    this.delete(pattern);
    this.#resolved.set(pattern, resolved);
    for (const topic of resolved.topics) this.#matched.set(topic, (this.#matched.get(topic) ?? 0) + 1);
  }

  delete(pattern: string): void {
    for (const topic of this.#resolved.get(pattern)?.topics ?? []) {
      const others = this.#matched.get(topic)! - 1;
      if (others === 0) this.#matched.delete(topic);
      else this.#matched.set(topic, others);
    }
    this.#resolved.delete(pattern);
  }

  subscribesTo(topic: string): boolean {
    return this.#members.namesTopic(topic) || this.#matched.has(topic);
  }

  /** All topics that a member subscribes to, ascending; they need not exist. */
  topics(): string[] {
    return [...new Set([...this.#members.names(), ...this.#matched.keys()])].sort();
  }

  /** A function that gives the ids of the existing topics of a member: the same set for the same subscription. */
  topicIds(view: TopicsView): (member: ConsumerMember) => ReadonlySet<string> {
    const known = new Map<readonly string[], Map<string, ReadonlySet<string>>>();
    return ({ subscription: { topicNames, topicRegex } }) => {
      let byPattern = known.get(topicNames);
      if (byPattern === undefined) {
        byPattern = new Map();
        known.set(topicNames, byPattern);
      }
      let ids = byPattern.get(topicRegex);
      if (ids === undefined) {
        ids = this.#ids([...topicNames, ...(this.#resolved.get(topicRegex)?.topics ?? [])], view);
        byPattern.set(topicRegex, ids);
      }
      return ids;
    };
  }

  #ids(names: readonly string[], view: TopicsView): ReadonlySet<string> {
    const ids = new Set<string>();
    for (const name of names) {
      const id = view.idOf(name);
      if (id !== undefined) ids.add(id);
    }
    return ids;
  }
}

/** What the members of a consumer group subscribe to: names, and the topics that their patterns match. */
import type { ConsumerMember } from './consumer-member.ts';
import type { ConsumerMembers } from './consumer-members.ts';
import type { TopicsView } from './consumer-types.ts';
import { compileTopicRegex } from './topic-regex.ts';

export interface ResolvedPattern {
  /** Ascending. */
  readonly topics: readonly string[];
  /** Of the metadata that it was resolved with. */
  readonly version: number;
  /** ms since the epoch. */
  readonly timestamp: number;
}

/** Throws INVALID_REGULAR_EXPRESSION. */
export function resolvePattern(pattern: string, topics: TopicsView, now: number): ResolvedPattern {
  const regex = compileTopicRegex(pattern);
  const matching: string[] = [];
  for (const name of topics.names()) if (regex.matches(name)) matching.push(name);
  return { topics: matching.sort(), version: 0, timestamp: now };
}

export class ConsumerSubscriptions {
  readonly #members: ConsumerMembers;
  readonly #resolved = new Map<string, ResolvedPattern>();

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
    this.#resolved.set(pattern, resolved);
  }

  delete(pattern: string): void {
    this.#resolved.delete(pattern);
  }

  subscribesTo(topic: string): boolean {
    if (this.#members.namesTopic(topic)) return true;
    for (const { topics } of this.#resolved.values()) if (topics.includes(topic)) return true;
    return false;
  }

  /** All topics that a member subscribes to, ascending; they need not exist. */
  topics(): string[] {
    const all = new Set(this.#members.names());
    for (const { topics } of this.#resolved.values()) for (const topic of topics) all.add(topic);
    return [...all].sort();
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

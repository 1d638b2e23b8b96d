/**
 * Balance among members that subscribe to different topics. What nobody owns goes to the member with the least of those that
 * may have it, topics with few subscribers first. Then, from the fullest member down, a partition moves from a member to one
 * that has at least two less, directly or along a chain (A gives one to B, B another to C), until no move helps: then the
 * partitions are spread as evenly as the subscriptions allow (a semi-matching without cost-reducing paths: Harvey, Ladner,
 * Lovász, Tamir, "Semi-matchings for bipartite graphs and load balancing", 2006). Apache Kafka makes the direct moves only.
 */
import type { ClaimedTopic, Claims } from './assignor-claims.ts';

/** Steps of the search for chains, per assignment: some 0.2 s. Past it only direct moves are made. */
const MAX_SEARCH = 20_000_000;

/** Members by load, least first. Loads may grow behind its back; an entry is put right when it comes up. */
class LeastLoaded {
  readonly #loads: Int32Array;
  readonly #members: number[];
  readonly #keys: number[];

  constructor(members: readonly number[], loads: Int32Array) {
    this.#loads = loads;
    // Sorted is a heap.
    this.#members = [...members].sort((a, b) => loads[a]! - loads[b]! || a - b);
    this.#keys = this.#members.map((member) => loads[member]!);
  }

  /** There is always one. */
  get first(): number {
    const members = this.#members;
    const keys = this.#keys;
    for (;;) {
      const member = members[0]!;
      const load = this.#loads[member]!;
      if (load <= keys[0]!) return member;
      let at = 0;
      for (let child = 1; child < members.length; child = 2 * at + 1) {
        const right = child + 1;
        if (right < members.length && this.#isBefore(right, keys[child]!, members[child]!)) child = right;
        if (!this.#isBefore(child, load, member)) break;
        members[at] = members[child]!;
        keys[at] = keys[child]!;
        at = child;
      }
      members[at] = member;
      keys[at] = load;
    }
  }

  #isBefore(at: number, key: number, member: number): boolean {
    return this.#keys[at]! < key || (this.#keys[at] === key && this.#members[at]! < member);
  }
}

interface Topic extends ClaimedTopic {
  readonly subscribers: readonly number[];
  readonly least: LeastLoaded;
  /** The last search that came by, and the member that came with it. */
  search: number;
  from: number;
  /** Nobody who subscribes to it, or can be reached from there, can take anything any more. */
  closed: boolean;
}

class Balance {
  readonly #claims: Claims;
  readonly #loads: Int32Array;
  readonly #topics: readonly Topic[];
  /** What each member has, by topic: the last one is the first to go. */
  readonly #held: readonly Map<Topic, number[]>[];
  readonly #closed: Uint8Array;
  readonly #search: Int32Array;
  readonly #via: Topic[] = [];
  readonly #byLoad: number[][] = [];
  #searches = 0;
  #steps = 0;

  constructor(claims: Claims) {
    this.#claims = claims;
    const { members, loads } = claims;
    this.#loads = loads;
    this.#held = members.map(() => new Map());
    this.#closed = new Uint8Array(members.length);
    this.#search = new Int32Array(members.length);
    const subscribers = new Map<string, number[]>(claims.topics.map(({ id }) => [id, []]));
    members.forEach(({ subscribedTopicIds }, index) => {
      for (const id of subscribedTopicIds) subscribers.get(id)?.push(index);
    });
    this.#topics = claims.topics.map((topic) => {
      const of = subscribers.get(topic.id)!;
      return {
        ...topic,
        subscribers: of,
        least: new LeastLoaded(of, loads),
        search: 0,
        from: 0,
        closed: false,
      };
    });
    for (const topic of this.#topics) {
      topic.owners.forEach((owner, partition) => {
        if (owner >= 0) this.#hold(topic, partition, owner);
      });
    }
  }

  #hold(topic: Topic, partition: number, member: number): void {
    const partitions = this.#held[member]!.get(topic);
    if (partitions === undefined) this.#held[member]!.set(topic, [partition]);
    else partitions.push(partition);
  }

  /** Gives what nobody owns to those who have the least. */
  fill(): void {
    const topics = this.#topics.toSorted((a, b) => a.subscribers.length - b.subscribers.length);
    for (const topic of topics) {
      topic.owners.forEach((owner, partition) => {
        if (owner >= 0) return;
        const member = topic.least.first;
        this.#claims.give(topic, partition, member);
        this.#hold(topic, partition, member);
      });
    }
  }

  #move(topic: Topic, from: number, to: number): void {
    const partitions = this.#held[from]!.get(topic)!;
    const partition = partitions.pop()!;
    if (partitions.length === 0) this.#held[from]!.delete(topic);
    this.#claims.give(topic, partition, to);
    this.#hold(topic, partition, to);
  }

  even(): void {
    const loads = this.#loads;
    const byLoad = this.#byLoad;
    loads.forEach((_, member) => {
      this.#sort(member);
    });
    for (let load = byLoad.length - 1; load >= 2; load--) {
      for (const member of byLoad[load] ?? []) {
        // Those that have taken something since they were put here stand higher up too.
        if (this.#closed[member] === 1 || loads[member] !== load) continue;
        if (this.#relieve(member, load)) this.#sort(member);
      }
    }
  }

  #sort(member: number): void {
    const load = this.#loads[member]!;
    this.#byLoad[load] ??= [];
    this.#byLoad[load].push(member);
  }

  /** Moves one partition away from a member, if that helps. */
  #relieve(member: number, load: number): boolean {
    let best: Topic | undefined;
    let least = load - 1;
    for (const topic of this.#held[member]!.keys()) {
      if (topic.closed) continue;
      const taker = this.#loads[topic.least.first]!;
      if (taker >= least) continue;
      least = taker;
      best = topic;
    }
    if (best !== undefined) {
      const taker = best.least.first;
      this.#move(best, member, taker);
      this.#sort(taker);
      return true;
    }
    return this.#steps < MAX_SEARCH && this.#relieveByChain(member, load);
  }

  /** Breadth first from a member over what it and its neighbours hold. */
  #relieveByChain(member: number, load: number): boolean {
    const search = ++this.#searches;
    const reached = [member];
    const topics: Topic[] = [];
    this.#search[member] = search;
    for (const holder of reached) {
      for (const topic of this.#held[holder]!.keys()) {
        if (topic.closed || topic.search === search) continue;
        topic.search = search;
        topic.from = holder;
        topics.push(topic);
        const taker = topic.least.first;
        if (this.#loads[taker]! <= load - 2) {
          this.#shift(topic, taker, member);
          this.#sort(taker);
          return true;
        }
        this.#steps += topic.subscribers.length;
        for (const next of topic.subscribers) {
          if (this.#search[next] === search || this.#closed[next] === 1) continue;
          this.#search[next] = search;
          this.#via[next] = topic;
          reached.push(next);
        }
      }
    }
    for (const topic of topics) topic.closed = true;
    for (const reachedMember of reached) this.#closed[reachedMember] = 1;
    return false;
  }

  #shift(last: Topic, taker: number, source: number): void {
    let topic = last;
    let to = taker;
    for (;;) {
      const from = topic.from;
      this.#move(topic, from, to);
      if (from === source) return;
      to = from;
      topic = this.#via[from]!;
    }
  }
}

export function balanceMixed(claims: Claims): void {
  const balance = new Balance(claims);
  balance.fill();
  balance.even();
}

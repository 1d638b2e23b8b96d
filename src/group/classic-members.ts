/** The members of one classic group: by id and instance id, who leads, what they vote for. Makes no transition. */
import { KafkaError } from '../protocol/errors.ts';
import type { ClassicMember, GroupProtocol, JoinAnswer } from './classic-member.ts';

function namesOf(protocols: readonly GroupProtocol[]): Set<string> {
  return new Set(protocols.map(({ name }) => name));
}

export class ClassicMembers {
  readonly #byId = new Map<string, ClassicMember>();
  /** Group instance id to member id. */
  readonly #static = new Map<string, string>();
  /** How many members offer each protocol. */
  readonly #support = new Map<string, number>();
  #awaitingJoin = 0;
  leaderId: string | null = null;

  get size(): number {
    return this.#byId.size;
  }

  get(memberId: string): ClassicMember | undefined {
    return this.#byId.get(memberId);
  }

  has(memberId: string): boolean {
    return this.#byId.has(memberId);
  }

  /** In the order in which they joined; may be changed meanwhile. */
  all(): ClassicMember[] {
    return [...this.#byId.values()];
  }

  staticMemberId(groupInstanceId: string): string | undefined {
    return this.#static.get(groupInstanceId);
  }

  /** The first member leads. */
  add(member: ClassicMember): void {
    this.leaderId ??= member.memberId;
    this.#byId.set(member.memberId, member);
    this.#count(member.protocols, 1);
    if (member.groupInstanceId !== null) this.#static.set(member.groupInstanceId, member.memberId);
  }

  #count(protocols: readonly GroupProtocol[], by: number): void {
    for (const name of namesOf(protocols)) {
      const count = (this.#support.get(name) ?? 0) + by;
      if (count === 0) this.#support.delete(name);
      else this.#support.set(name, count);
    }
  }

  setProtocols(member: ClassicMember, protocols: readonly GroupProtocol[]): void {
    this.#count(member.protocols, -1);
    member.protocols = protocols;
    this.#count(protocols, 1);
  }

  /** Its join must be answered before. */
  remove(memberId: string): ClassicMember | undefined {
    const member = this.#byId.get(memberId);
    if (member === undefined) return undefined;
    this.#byId.delete(memberId);
    this.#count(member.protocols, -1);
    if (member.groupInstanceId !== null && this.#static.get(member.groupInstanceId) === memberId) {
      this.#static.delete(member.groupInstanceId);
    }
    if (this.leaderId === memberId) this.leaderId = this.#byId.keys().next().value ?? null;
    return member;
  }

  /** Gives a static member another id; it keeps its place. */
  rename(member: ClassicMember, memberId: string): void {
    const before = member.memberId;
    this.#byId.delete(before);
    member.memberId = memberId;
    this.#byId.set(memberId, member);
    if (member.groupInstanceId !== null) this.#static.set(member.groupInstanceId, memberId);
    if (this.leaderId === before) this.leaderId = memberId;
  }

  /** Members whose join waits for its answer. */
  get awaitingJoin(): number {
    return this.#awaitingJoin;
  }

  awaitJoin(member: ClassicMember, respond: (answer: JoinAnswer) => void): void {
    if (!member.awaitsJoin) this.#awaitingJoin++;
    member.awaitJoin(respond);
  }

  answerJoin(member: ClassicMember, answer: JoinAnswer): void {
    if (!member.awaitsJoin) return;
    this.#awaitingJoin--;
    member.answerJoin(answer);
  }

  /** Sees that the leader is one who rejoined; false if nobody did. */
  electJoinedLeader(): boolean {
    if (this.leaderId !== null && this.#byId.get(this.leaderId)?.awaitsJoin) return true;
    for (const member of this.#byId.values()) {
      if (!member.awaitsJoin) continue;
      this.leaderId = member.memberId;
      return true;
    }
    return false;
  }

  /** Longest of all, ms: as long a rebalance waits for members to rejoin. */
  rebalanceTimeoutMs(): number {
    let longest = 0;
    for (const { rebalanceTimeoutMs } of this.#byId.values()) longest = Math.max(longest, rebalanceTimeoutMs);
    return longest;
  }

  #isCommon(name: string): boolean {
    return this.#support.get(name) === this.#byId.size;
  }

  /** Whether a newcomer with these protocols has one in common with all. */
  supportsAny(protocols: readonly GroupProtocol[]): boolean {
    return protocols.some(({ name }) => this.#isCommon(name));
  }

  /** Of the protocols that all offer, the one that most prefer; the earliest member's choice among equals. */
  selectProtocol(): string | null {
    const votes = new Map<string, number>();
    for (const { protocols } of this.#byId.values()) {
      const choice = protocols.find(({ name }) => this.#isCommon(name));
      if (choice !== undefined) votes.set(choice.name, (votes.get(choice.name) ?? 0) + 1);
    }
    let best: string | null = null;
    for (const [name, count] of votes) if (best === null || count > votes.get(best)!) best = name;
    return best;
  }

  /** NONE if the member exists and its instance id, if it gives one, is its own. */
  fault(memberId: string, groupInstanceId: string | null): number {
    if (groupInstanceId !== null) {
      const current = this.#static.get(groupInstanceId);
      if (current === undefined) return KafkaError.UNKNOWN_MEMBER_ID;
      if (current !== memberId) return KafkaError.FENCED_INSTANCE_ID;
    }
    return this.#byId.has(memberId) ? KafkaError.NONE : KafkaError.UNKNOWN_MEMBER_ID;
  }
}

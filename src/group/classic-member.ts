/** One member of a group of the classic protocol. */
import type { Clock, Timer } from '../runtime/clock.ts';

/** A way of assigning that a member offers, with what it tells the leader. */
export interface GroupProtocol {
  readonly name: string;
  readonly metadata: Uint8Array;
}

/** What a leader is told of a member. */
export interface JoinedMember {
  readonly memberId: string;
  readonly groupInstanceId: string | null;
  readonly metadata: Uint8Array;
}

export interface JoinAnswer {
  /** A Kafka error code. */
  readonly errorCode: number;
  readonly memberId: string;
  readonly generationId: number;
  readonly protocolType: string | null;
  readonly protocolName: string | null;
  /** Member id of the leader. */
  readonly leader: string;
  readonly skipAssignment: boolean;
  /** For the leader alone. */
  readonly members: readonly JoinedMember[];
}

export interface SyncAnswer {
  readonly errorCode: number;
  readonly protocolType: string | null;
  readonly protocolName: string | null;
  readonly assignment: Uint8Array;
}

export const NO_BYTES = new Uint8Array();
export const NO_GENERATION = -1;
export const NO_MEMBER_ID = '';

export function refusedJoin(errorCode: number, memberId: string): JoinAnswer {
  return {
    errorCode,
    memberId,
    generationId: NO_GENERATION,
    protocolType: null,
    protocolName: null,
    leader: NO_MEMBER_ID,
    skipAssignment: false,
    members: [],
  };
}

export function refusedSync(errorCode: number): SyncAnswer {
  return { errorCode, protocolType: null, protocolName: null, assignment: NO_BYTES };
}

/** Calls back once nothing was heard for some time. Being heard costs no timer: one that fires early is armed again. */
export class SessionTimer {
  readonly #clock: Clock;
  readonly #onExpired: () => void;
  #deadline = 0;
  #firesAt = 0;
  #timer: Timer | undefined;

  constructor(clock: Clock, onExpired: () => void) {
    this.#clock = clock;
    this.#onExpired = onExpired;
  }

  /** Heard now: expires in ms from now on. */
  touch(ms: number): void {
    this.#deadline = this.#clock.monotonic() + ms;
    if (this.#timer !== undefined && this.#firesAt <= this.#deadline) return;
    this.#timer?.cancel();
    this.#arm();
  }

  #arm(): void {
    this.#firesAt = this.#deadline;
    this.#timer = this.#clock.setTimer(this.#deadline - this.#clock.monotonic(), () => {
      this.#timer = undefined;
      // A timer may fire a little early.
      if (this.#clock.monotonic() + 1 < this.#deadline) this.#arm();
      else this.#onExpired();
    });
  }

  cancel(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
  }
}

export interface MemberFacts {
  readonly memberId: string;
  readonly groupInstanceId: string | null;
  readonly clientId: string;
  /** `/address`, as Kafka writes it. */
  readonly clientHost: string;
  readonly rebalanceTimeoutMs: number;
  readonly sessionTimeoutMs: number;
  /** In the member's order of preference. */
  readonly protocols: readonly GroupProtocol[];
}

export class ClassicMember {
  /** Changes when a static member comes back. */
  memberId: string;
  readonly groupInstanceId: string | null;
  readonly clientId: string;
  readonly clientHost: string;
  rebalanceTimeoutMs: number;
  sessionTimeoutMs: number;
  protocols: readonly GroupProtocol[];
  assignment: Uint8Array = NO_BYTES;
  /** Its first join is not answered yet: it can't send heartbeats, since it may not know its id. */
  isNew = false;
  session: SessionTimer | undefined;
  #join: ((answer: JoinAnswer) => void) | undefined;
  #sync: ((answer: SyncAnswer) => void) | undefined;

  constructor(facts: MemberFacts) {
    this.memberId = facts.memberId;
    this.groupInstanceId = facts.groupInstanceId;
    this.clientId = facts.clientId;
    this.clientHost = facts.clientHost;
    this.rebalanceTimeoutMs = facts.rebalanceTimeoutMs;
    this.sessionTimeoutMs = facts.sessionTimeoutMs;
    this.protocols = facts.protocols;
  }

  get isStatic(): boolean {
    return this.groupInstanceId !== null;
  }

  get awaitsJoin(): boolean {
    return this.#join !== undefined;
  }

  get awaitsSync(): boolean {
    return this.#sync !== undefined;
  }

  awaitJoin(respond: (answer: JoinAnswer) => void): void {
    this.#join = respond;
  }

  awaitSync(respond: (answer: SyncAnswer) => void): void {
    this.#sync = respond;
  }

  /** Answers the join that waits, if one does. */
  answerJoin(answer: JoinAnswer): void {
    const respond = this.#join;
    this.#join = undefined;
    respond?.(answer);
  }

  /** Answers the sync that waits; true if one did. */
  answerSync(answer: SyncAnswer): boolean {
    const respond = this.#sync;
    this.#sync = undefined;
    respond?.(answer);
    return respond !== undefined;
  }

  /** What it tells the leader under a protocol. */
  metadata(protocolName: string | null): Uint8Array {
    return this.protocols.find(({ name }) => name === protocolName)?.metadata ?? NO_BYTES;
  }

  /** The same protocols with the same metadata, in the same order. */
  matches(protocols: readonly GroupProtocol[]): boolean {
    return (
      this.protocols.length === protocols.length &&
      this.protocols.every(({ name, metadata }, index) => {
        const other = protocols[index]!;
        return name === other.name && Buffer.compare(metadata, other.metadata) === 0;
      })
    );
  }
}

/** One member of a group of the consumer protocol: what it said of itself, and what it has. */
import type { Timer } from '../runtime/clock.ts';
import type { MemberAssignment } from './assignor.ts';
import type { SessionTimer } from './classic-member.ts';

/** As in the records. */
export const MemberState = { STABLE: 0, UNREVOKED: 1, UNRELEASED: 2 } as const;

/** Partitions with the epoch in which each was assigned: by topic id, then by partition, ascending. */
export type EpochPartitions = ReadonlyMap<string, ReadonlyMap<number, number>>;

export const NO_PARTITIONS: EpochPartitions = new Map();
export const NOTHING_ASSIGNED: MemberAssignment = new Map();

/** What a member says of itself. */
export interface MemberSubscription {
  readonly instanceId: string | null;
  readonly rackId: string | null;
  readonly clientId: string;
  readonly clientHost: string;
  readonly rebalanceTimeoutMs: number;
  /** Each once, in ascending order. */
  readonly topicNames: readonly string[];
  /** Empty: none. */
  readonly topicRegex: string;
  readonly serverAssignor: string | null;
  /** Of a member that speaks the classic protocol. */
  readonly classic: ClassicFacts | null;
}

export interface ClassicFacts {
  readonly sessionTimeoutMs: number;
  readonly protocols: readonly { readonly name: string; readonly metadata: Uint8Array }[];
}

/** How far a member has come. */
export interface MemberProgress {
  readonly memberEpoch: number;
  readonly previousMemberEpoch: number;
  /** One of MemberState. */
  readonly state: number;
  readonly assigned: EpochPartitions;
  /** It has been told to give these up. */
  readonly pendingRevocation: EpochPartitions;
}

export const NO_SUBSCRIPTION: MemberSubscription = {
  instanceId: null,
  rackId: null,
  clientId: '',
  clientHost: '',
  rebalanceTimeoutMs: -1,
  topicNames: [],
  topicRegex: '',
  serverAssignor: null,
  classic: null,
};

export const NEW_PROGRESS: MemberProgress = {
  memberEpoch: 0,
  previousMemberEpoch: -1,
  state: MemberState.STABLE,
  assigned: NO_PARTITIONS,
  pendingRevocation: NO_PARTITIONS,
};

export class ConsumerMember {
  readonly memberId: string;
  subscription: MemberSubscription = NO_SUBSCRIPTION;
  progress: MemberProgress = NEW_PROGRESS;
  session: SessionTimer | undefined;
  /** Runs while it has something to revoke. */
  revocation: Timer | undefined;
  /** Of one that speaks the classic protocol: it has to join, or to sync, before this fires. */
  rejoin: { readonly awaits: 'join' | 'sync'; readonly timer: Timer } | undefined;

  constructor(memberId: string) {
    this.memberId = memberId;
  }

  get memberEpoch(): number {
    return this.progress.memberEpoch;
  }

  get instanceId(): string | null {
    return this.subscription.instanceId;
  }

  get isClassic(): boolean {
    return this.subscription.classic !== null;
  }

  /** Whether it has all of a target of that epoch. */
  isReconciledTo(targetEpoch: number): boolean {
    return this.progress.state === MemberState.STABLE && this.progress.memberEpoch === targetEpoch;
  }

  stop(): void {
    this.session?.cancel();
    this.revocation?.cancel();
    this.revocation = undefined;
    this.stopAwaiting();
  }

  stopAwaiting(): void {
    this.rejoin?.timer.cancel();
    this.rejoin = undefined;
  }
}

/** Without the epochs. */
export function partitionsOf(assigned: EpochPartitions): MemberAssignment {
  const plain = new Map<string, number[]>();
  for (const [topicId, partitions] of assigned) plain.set(topicId, [...partitions.keys()]);
  return plain;
}

/** With an epoch that all are newer than: who comes back for them may commit what was read before. */
export function withoutEpochs(assigned: EpochPartitions): EpochPartitions {
  const plain = new Map<string, Map<number, number>>();
  for (const [topicId, partitions] of assigned) {
    plain.set(topicId, new Map([...partitions.keys()].map((partition) => [partition, 0])));
  }
  return plain;
}

/** Of both, without the epochs. */
export function allPartitions(a: EpochPartitions, b: EpochPartitions): MemberAssignment {
  const all = new Map(partitionsOf(a));
  for (const [topicId, partitions] of b) {
    all.set(
      topicId,
      [...(all.get(topicId) ?? []), ...partitions.keys()].sort((x, y) => x - y),
    );
  }
  return all;
}

export function sameSubscription(a: MemberSubscription, b: MemberSubscription): boolean {
  return (
    a.instanceId === b.instanceId &&
    a.rackId === b.rackId &&
    a.clientId === b.clientId &&
    a.clientHost === b.clientHost &&
    a.rebalanceTimeoutMs === b.rebalanceTimeoutMs &&
    a.topicRegex === b.topicRegex &&
    a.serverAssignor === b.serverAssignor &&
    a.classic === b.classic &&
    sameNames(a.topicNames, b.topicNames)
  );
}

/** Of lists that are in order. */
export function sameNames(a: readonly string[], b: readonly string[]): boolean {
  return a === b || (a.length === b.length && a.every((name, index) => name === b[index]));
}

export function sameAssignment(a: MemberAssignment, b: MemberAssignment): boolean {
  if (a === b) return true;
  if (a.size !== b.size) return false;
  for (const [topicId, partitions] of a) {
    const others = b.get(topicId);
    if (others === undefined || others.length !== partitions.length) return false;
    for (let i = 0; i < partitions.length; i++) if (partitions[i] !== others[i]) return false;
  }
  return true;
}

export function samePartitions(a: EpochPartitions, b: EpochPartitions): boolean {
  if (a === b) return true;
  if (a.size !== b.size) return false;
  for (const [topicId, partitions] of a) {
    const others = b.get(topicId);
    if (others === undefined || others.size !== partitions.size) return false;
    for (const partition of partitions.keys()) if (!others.has(partition)) return false;
  }
  return true;
}

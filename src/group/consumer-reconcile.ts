/**
 * How one member comes from what it has to what its target says (KIP-848, "Rebalance Process"): first it gives up what it
 * is to lose, and stays in its epoch until it has said so; then it enters the target's epoch, and takes up whatever nobody
 * else holds any more.
 */
import type { MemberAssignment } from './assignor.ts';
import { type EpochPartitions, type MemberProgress, MemberState, NO_PARTITIONS } from './consumer-member.ts';

export interface Target {
  readonly epoch: number;
  readonly partitions: MemberAssignment;
}

/** Whether another member still holds a partition. */
type IsHeld = (topicId: string, partition: number) => boolean;

/** Whether a member that says what it owns, or does not, may own any of these. */
export function ownsAny(owned: MemberAssignment | null, partitions: EpochPartitions): boolean {
  // Who does not say what it owns may own all of it.
  if (owned === null) return partitions.size > 0;
  for (const [topicId, wanted] of partitions) {
    for (const partition of owned.get(topicId) ?? []) if (wanted.has(partition)) return true;
  }
  return false;
}

/** The next step of a member, or the same object when there is none. `owned` is what the member says that it owns. */
export function reconcile(
  progress: MemberProgress,
  target: Target,
  owned: MemberAssignment | null,
  isHeld: IsHeld,
): MemberProgress {
  switch (progress.state) {
    case MemberState.STABLE:
      return progress.memberEpoch === target.epoch ? progress : next(progress, target, owned, isHeld);
    case MemberState.UNREVOKED:
      return ownsAny(owned, progress.pendingRevocation) ? progress : next(progress, target, owned, isHeld);
    default:
      return next(progress, target, owned, isHeld);
  }
}

function next(
  progress: MemberProgress,
  target: Target,
  owned: MemberAssignment | null,
  isHeld: IsHeld,
): MemberProgress {
  const { assigned } = progress;
  const { kept, lost } = split(assigned, target.partitions);
  if (lost.size > 0 && ownsAny(owned, lost)) {
    return { ...progress, state: MemberState.UNREVOKED, assigned: kept, pendingRevocation: lost };
  }
  const { taken, isWaiting } = takeUp(target, assigned, isHeld);
  const moves = progress.memberEpoch !== target.epoch;
  const state = isWaiting ? MemberState.UNRELEASED : MemberState.STABLE;
  const changes = count(taken) !== count(kept);
  if (!moves && state === progress.state && !changes && lost.size === 0) return progress;
  return {
    memberEpoch: target.epoch,
    previousMemberEpoch: moves ? progress.memberEpoch : progress.previousMemberEpoch,
    state,
    assigned: taken,
    pendingRevocation: NO_PARTITIONS,
  };
}

type Partitions = Map<string, Map<number, number>>;

/** What a member has, by whether it is to keep it. */
export function split(
  assigned: EpochPartitions,
  wanted: MemberAssignment,
): { kept: Partitions; lost: Partitions } {
  const kept: Partitions = new Map();
  const lost: Partitions = new Map();
  for (const [topicId, partitions] of assigned) {
    const wantedHere = new Set(wanted.get(topicId));
    for (const [partition, epoch] of partitions)
      put(wantedHere.has(partition) ? kept : lost, topicId, partition, epoch);
  }
  return { kept, lost };
}

/** What a member has of its target once it takes up all that nobody else holds. */
export function takeUp(
  target: Target,
  assigned: EpochPartitions,
  isHeld: IsHeld,
): { taken: Partitions; isWaiting: boolean } {
  let isWaiting = false;
  const taken: Partitions = new Map();
  for (const [topicId, partitions] of target.partitions) {
    const had = assigned.get(topicId);
    // In the target's order, which is ascending.
    for (const partition of partitions) {
      const epoch = had?.get(partition);
      if (epoch !== undefined) put(taken, topicId, partition, epoch);
      else if (isHeld(topicId, partition)) isWaiting = true;
      else put(taken, topicId, partition, target.epoch);
    }
  }
  return { taken, isWaiting };
}

export function put(
  into: Map<string, Map<number, number>>,
  topicId: string,
  partition: number,
  epoch: number,
): void {
  const partitions = into.get(topicId);
  if (partitions === undefined) into.set(topicId, new Map([[partition, epoch]]));
  else partitions.set(partition, epoch);
}

/** Of all topics. */
export function count(partitions: EpochPartitions): number {
  let total = 0;
  for (const { size } of partitions.values()) total += size;
  return total;
}

/** What holds for members of consumer groups and of streams groups alike. */
import { KafkaError } from '../protocol/errors.ts';
import type { Clock, Timer } from '../runtime/clock.ts';
import type { MemberAssignment } from './assignor.ts';
import type { EpochPartitions } from './consumer-member.ts';
import { type ConsumerFault, fault } from './consumer-types.ts';

/** What is wrong with one that speaks for an instance; `known` is the instance's member. */
export function instanceFault(
  known: { readonly memberId: string } | undefined,
  memberId: string,
  instanceId: string,
): ConsumerFault | undefined {
  if (known === undefined) {
    return fault(KafkaError.UNKNOWN_MEMBER_ID, `instance ${instanceId} is not in the group`);
  }
  if (known.memberId === memberId) return undefined;
  return fault(KafkaError.FENCED_INSTANCE_ID, `instance ${instanceId} is member ${known.memberId} now`);
}

/** Whether a member has all that it says it owns. */
export function ownsOnly(owned: MemberAssignment, assigned: EpochPartitions): boolean {
  for (const [topicId, partitions] of owned) {
    const own = assigned.get(topicId);
    if (own === undefined || !partitions.every((partition) => own.has(partition))) return false;
  }
  return true;
}

/** A member that has something to give up has that long for it, from when it was told first; undefined: it has nothing. */
export function watchRevocation(
  member: { revocation: Timer | undefined },
  clock: Clock,
  timeoutMs: number | undefined,
  expire: () => void,
): void {
  if (timeoutMs === undefined) {
    member.revocation?.cancel();
    member.revocation = undefined;
    return;
  }
  member.revocation ??= clock.setTimer(timeoutMs, expire);
}

export function epochFault(is: number, said: number): ConsumerFault {
  return fault(
    KafkaError.FENCED_MEMBER_EPOCH,
    `the member's epoch is ${is}, not ${said}: it has to give up all that it owns and join`,
  );
}

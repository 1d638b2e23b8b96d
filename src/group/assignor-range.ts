/**
 * The `range` assignor: each topic's partitions in order, cut into one run for each of its members, the first of them one
 * longer where the division leaves a rest. Topics with the same members and the same number of partitions are so cut alike,
 * and who reads partition 3 of one reads partition 3 of the other (KIP-848's co-partitioning).
 *
 * Static members come first, by instance id, then the others by member id. It is by this order that it is sticky: a member
 * that stays keeps its place in the row. As in Apache Kafka, what a member had before does not count.
 */
import type { Assignor, AssignorMember, MemberAssignment } from './assignor.ts';

function compare(a: AssignorMember, b: AssignorMember): number {
  if (a.instanceId !== null || b.instanceId !== null) {
    if (a.instanceId === null) return 1;
    if (b.instanceId === null) return -1;
    if (a.instanceId !== b.instanceId) return a.instanceId < b.instanceId ? -1 : 1;
  }
  return a.memberId < b.memberId ? -1 : 1;
}

export const rangeAssignor: Assignor = {
  name: 'range',

  assign(members, partitionCount) {
    const assignment = new Map<string, Map<string, readonly number[]>>();
    const subscribers = new Map<string, string[]>();
    for (const { memberId, subscribedTopicIds } of [...members].sort(compare)) {
      assignment.set(memberId, new Map());
      for (const topicId of subscribedTopicIds) {
        const known = subscribers.get(topicId);
        if (known === undefined) subscribers.set(topicId, [memberId]);
        else known.push(memberId);
      }
    }
    for (const [topicId, memberIds] of subscribers) {
      const partitions = Math.max(0, partitionCount(topicId));
      const each = Math.floor(partitions / memberIds.length);
      const longer = partitions % memberIds.length;
      let next = 0;
      for (let i = 0; i < memberIds.length && next < partitions; i++) {
        const first = next;
        const length = each + (i < longer ? 1 : 0);
        assignment.get(memberIds[i]!)!.set(
          topicId,
          Array.from({ length }, (_, p) => first + p),
        );
        next += length;
      }
    }
    return assignment satisfies Map<string, MemberAssignment>;
  },
};

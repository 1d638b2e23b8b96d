/** Who owns what while the `uniform` assignor works: members and topics by index, in an order that does not depend on who asks. */
import type { AssignorMember, MemberAssignment } from './assignor.ts';

const NOBODY = -1;

export interface ClaimedTopic {
  readonly id: string;
  /** The owner of each partition as an index into `members`, -1 for nobody. */
  readonly owners: Int32Array;
}

export class Claims {
  /** By member id. */
  readonly members: readonly AssignorMember[];
  /** Topics that exist and that somebody subscribes to, by id. */
  readonly topics: readonly ClaimedTopic[];
  /** How many partitions each member owns. */
  readonly loads: Int32Array;

  /** What members own already they claim first, as far as it exists and they still subscribe to it; once at most. */
  constructor(members: readonly AssignorMember[], partitionCount: (topicId: string) => number) {
    this.members = [...members].sort((a, b) => (a.memberId < b.memberId ? -1 : 1));
    this.loads = new Int32Array(members.length);
    const ids = new Set<string>();
    const seen = new Set<ReadonlySet<string>>();
    for (const { subscribedTopicIds } of members) {
      if (seen.has(subscribedTopicIds)) continue;
      seen.add(subscribedTopicIds);
      for (const id of subscribedTopicIds) ids.add(id);
    }
    const topics = [...ids]
      .sort()
      .map((id) => ({ id, count: partitionCount(id) }))
      .filter(({ count }) => count > 0);
    this.topics = topics.map(({ id, count }) => ({ id, owners: new Int32Array(count).fill(NOBODY) }));
    const byId = new Map(this.topics.map((topic) => [topic.id, topic]));
    this.members.forEach(({ owned, subscribedTopicIds }, member) => {
      for (const [topicId, partitions] of owned) {
        const owners = subscribedTopicIds.has(topicId) ? byId.get(topicId)?.owners : undefined;
        if (owners === undefined) continue;
        for (const partition of partitions) {
          if (owners[partition] !== NOBODY) continue;
          owners[partition] = member;
          this.loads[member]!++;
        }
      }
    });
  }

  /** Gives a partition to a member, or to nobody (-1). */
  give(topic: ClaimedTopic, partition: number, to: number): void {
    const from = topic.owners[partition]!;
    if (from !== NOBODY) this.loads[from]!--;
    topic.owners[partition] = to;
    if (to !== NOBODY) this.loads[to]!++;
  }

  assignment(): Map<string, MemberAssignment> {
    const given = this.members.map(() => new Map<string, number[]>());
    for (const { id, owners } of this.topics) {
      owners.forEach((owner, partition) => {
        if (owner === NOBODY) return;
        const topics = given[owner]!;
        const partitions = topics.get(id);
        if (partitions === undefined) topics.set(id, [partition]);
        else partitions.push(partition);
      });
    }
    return new Map(this.members.map(({ memberId }, index) => [memberId, given[index]!]));
  }
}

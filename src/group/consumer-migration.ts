/** A group's way from the classic protocol to the consumer protocol and back, while its members go on (KIP-848, online
 * migration). Rules as in Apache Kafka 4.4. */
import { KafkaError } from '../protocol/errors.ts';
import type { MemberAssignment } from './assignor.ts';
import { ClassicGroup } from './classic-group.ts';
import { ClassicMember } from './classic-member.ts';
import { ClassicMembers } from './classic-members.ts';
import type { ClassicHost } from './classic-types.ts';
import { ConsumerGroup } from './consumer-group.ts';
import {
  type MemberProgress,
  MemberState,
  type MemberSubscription,
  NO_PARTITIONS,
  partitionsOf,
} from './consumer-member.ts';
import { readAssignment, readSubscription, writeAssignment } from './consumer-protocol-bytes.ts';
import type { ConsumerHost, TopicsView } from './consumer-types.ts';
import { groupRecord, groupTombstone } from './group-records.ts';

interface Converted {
  readonly memberId: string;
  readonly subscription: MemberSubscription;
  readonly assignment: MemberAssignment;
}

/** Undefined for one whose bytes are not a consumer's. */
function converted(
  member: ClassicMember,
  protocolName: string | null,
  topics: TopicsView,
): Converted | undefined {
  const { memberId, protocols } = member;
  const metadata = protocols.find(({ name }) => name === protocolName)?.metadata ?? protocols[0]?.metadata;
  const said = metadata === undefined ? undefined : readSubscription(metadata);
  const assignment = readAssignment(member.assignment, topics);
  if (said === undefined || assignment === undefined) return undefined;
  return {
    memberId,
    subscription: {
      instanceId: member.groupInstanceId,
      rackId: said.rackId,
      clientId: member.clientId,
      clientHost: member.clientHost,
      rebalanceTimeoutMs: member.rebalanceTimeoutMs,
      topicNames: [...new Set(said.topics)].sort(),
      topicRegex: '',
      serverAssignor: null,
      classic: { sessionTimeoutMs: member.sessionTimeoutMs, protocols },
    },
    assignment,
  };
}

function settledAt(epoch: number, assignment: MemberAssignment): MemberProgress {
  const assigned = new Map<string, Map<number, number>>();
  for (const [topicId, partitions] of assignment) {
    assigned.set(topicId, new Map(partitions.map((partition) => [partition, epoch])));
  }
  return {
    memberEpoch: epoch,
    previousMemberEpoch: epoch,
    state: MemberState.STABLE,
    assigned,
    pendingRevocation: NO_PARTITIONS,
  };
}

/** The group with all its members, under the consumer protocol; undefined when it can't go there. Its records go with the next
 * ones that it writes. The classic group is ended. */
export function upgraded(classic: ClassicGroup, host: ConsumerHost): ConsumerGroup | undefined {
  const { groupId, generationId, protocolName } = classic;
  if (!host.consumer.upgrades || !classic.usesConsumerProtocol) return undefined;
  const members = classic.members.all();
  if (members.length > host.consumer.maxSize) return undefined;
  const adopted: Converted[] = [];
  for (const member of members) {
    const one = converted(member, protocolName, host.topics);
    if (one === undefined) return undefined;
    adopted.push(one);
  }
  classic.close(KafkaError.REBALANCE_IN_PROGRESS);
  const consumer = new ConsumerGroup(groupId, host);
  const { facts } = consumer;
  facts.beginAt(generationId);
  for (const { memberId, subscription, assignment } of adopted) {
    facts.adopt(memberId, subscription, settledAt(generationId, assignment), assignment);
  }
  facts.addRecord(groupTombstone(groupId));
  facts.writeAll();
  consumer.watchAll();
  return consumer;
}

/** What a member may still read: should the group come back before it has rebalanced, nobody else may have it. */
function held({ assigned, pendingRevocation }: MemberProgress): MemberAssignment {
  const all = new Map(partitionsOf(assigned));
  for (const [topicId, partitions] of partitionsOf(pendingRevocation)) {
    const merged = [...(all.get(topicId) ?? []), ...partitions];
    all.set(
      topicId,
      merged.sort((a, b) => a - b),
    );
  }
  return all;
}

/** The group under the classic protocol, once all its members speak that; undefined when it can't go there. It rebalances. The
 * consumer group is ended. */
export function downgraded(
  consumer: ConsumerGroup,
  host: ConsumerHost,
  classicHost: ClassicHost,
): ClassicGroup | undefined {
  const { groupId, members, facts } = consumer;
  if (members.size === 0 || members.classicCount < members.size || !host.consumer.downgrades)
    return undefined;
  if (members.size > classicHost.settings.maxSize) return undefined;
  const converted = [...members.all()].map(({ memberId, subscription, progress }) => {
    const { sessionTimeoutMs, protocols } = subscription.classic!;
    const member = new ClassicMember({
      memberId,
      groupInstanceId: subscription.instanceId,
      clientId: subscription.clientId,
      clientHost: subscription.clientHost,
      rebalanceTimeoutMs: subscription.rebalanceTimeoutMs,
      sessionTimeoutMs,
      protocols,
    });
    member.assignment = writeAssignment(held(progress), protocols[0]!.metadata, host.topics);
    return member;
  });
  const together = new ClassicMembers();
  for (const member of converted) together.add(member);
  facts.bury();
  consumer.retire();
  const classic = new ClassicGroup(groupId, classicHost);
  classic.restore(
    {
      protocolType: 'consumer',
      // The epoch that its members have reached, so that they are told to rejoin rather than fenced.
      generationId: consumer.assignmentEpoch,
      protocolName: together.selectProtocol(),
      leaderId: null,
      stateTimestamp: host.clock.now(),
    },
    converted,
  );
  // A broker that is killed before the rebalance ends takes the group for a settled one: in a later generation than its members
  // are in, so that they join again.
  facts.addRecord(groupRecord(classic, classic.assignments(), classic.generationId + 1));
  facts.flush();
  classic.resume('the last member of the consumer protocol left');
  return classic;
}

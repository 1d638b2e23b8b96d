/** Whether a member of a consumer group, or of a streams group, may commit offsets, or read those of its group. Rules as in Apache Kafka 4.4. */
import { KafkaError } from '../protocol/errors.ts';
import type { ConsumerGroup } from './consumer-group.ts';
import type { StreamsGroup } from './streams-group.ts';

/** First version of OffsetCommit whose clients know the errors of member epochs. */
const FIRST_WITH_MEMBER_EPOCH = 9;

interface CommittedPartition {
  readonly topic: string;
  readonly topicId: string;
  readonly partition: number;
}

/** A member, as far as it matters for what it may commit. */
interface CommittingMember {
  readonly memberEpoch: number;
  readonly isClassic: boolean;
  /** The epoch since which it holds a partition, undefined if it does not. */
  heldSince(of: CommittedPartition): number | undefined;
}

function committingMember(
  group: ConsumerGroup | StreamsGroup,
  memberId: string,
): CommittingMember | undefined {
  if (!('classic' in group)) return group.committingMember(memberId);
  const member = group.members.get(memberId);
  if (member === undefined) return undefined;
  const { memberEpoch, isClassic, progress } = member;
  const heldSince = ({ topicId, partition }: CommittedPartition) =>
    progress.assigned.get(topicId)?.get(partition) ?? progress.pendingRevocation.get(topicId)?.get(partition);
  return { memberEpoch, isClassic, heldSince };
}

export interface Committer {
  readonly memberId: string;
  readonly memberEpoch: number;
  /** Of the request. */
  readonly version: number;
  readonly partitions: readonly CommittedPartition[];
}

/**
 * An error code for all partitions. What a member read before its epoch was raised it may still commit, where it has held all
 * of them since then (KIP-1251).
 */
export function judgeConsumerCommit(group: ConsumerGroup | StreamsGroup, committer: Committer): number {
  const { memberId, memberEpoch, version } = committer;
  // Not a member but an admin client, or a consumer that assigns its partitions by itself.
  if (memberEpoch < 0 && group.members.size === 0) return KafkaError.NONE;
  const member = committingMember(group, memberId);
  if (member === undefined) return KafkaError.UNKNOWN_MEMBER_ID;
  if (!member.isClassic && version < FIRST_WITH_MEMBER_EPOCH) return KafkaError.UNSUPPORTED_VERSION;
  if (memberEpoch === member.memberEpoch) return KafkaError.NONE;
  const stale = member.isClassic ? KafkaError.ILLEGAL_GENERATION : KafkaError.STALE_MEMBER_EPOCH;
  if (memberEpoch > member.memberEpoch) return stale;
  for (const partition of committer.partitions) {
    const since = member.heldSince(partition);
    if (since === undefined || memberEpoch < since) return stale;
  }
  return KafkaError.NONE;
}

/** An error code. Who gives neither member id nor epoch is no member, and may read. */
export function judgeConsumerFetch(
  group: ConsumerGroup | StreamsGroup,
  memberId: string | null,
  memberEpoch: number,
): number {
  if (memberId === null && memberEpoch < 0) return KafkaError.NONE;
  const member = memberId === null ? undefined : committingMember(group, memberId);
  if (member === undefined) return KafkaError.UNKNOWN_MEMBER_ID;
  if (memberEpoch === member.memberEpoch) return KafkaError.NONE;
  return member.isClassic ? KafkaError.ILLEGAL_GENERATION : KafkaError.STALE_MEMBER_EPOCH;
}

/**
 * ConsumerGroupDescribe (key 69), versions 0-1 (KIP-848): state, epochs and members of groups of the consumer protocol, with what
 * each member has and what it is to have. v1 tells which protocol a member speaks.
 *
 * Errors, per group: GROUP_ID_NOT_FOUND (also for a group of another protocol), COORDINATOR_NOT_AVAILABLE;
 * UNSUPPORTED_VERSION where the protocol is switched off.
 */
import type { MemberAssignment } from '../../group/assignor.ts';
import type { ConsumerGroup } from '../../group/consumer-group.ts';
import { allPartitions, type ConsumerMember } from '../../group/consumer-member.ts';
import { KafkaError } from '../../protocol/errors.ts';
import {
  type ConsumerGroupDescribeResponseDescribedGroupInput,
  type ConsumerGroupDescribeResponseMemberInput,
  readConsumerGroupDescribeRequest,
  writeConsumerGroupDescribeResponse,
} from '../../protocol/generated/ConsumerGroupDescribe.ts';
import type { BrokerContext } from '../context.ts';
import type { Request } from '../request.ts';
import { servesConsumerProtocol } from './consumer-protocol.ts';
import { GROUP_OPERATIONS } from './describe-groups.ts';
import type { HandlerRow } from './handler.ts';

const VERSIONS = [0, 1] as const;
const MEMBER_TYPE = { CLASSIC: 0, CONSUMER: 1 } as const;

/** Topics that are gone are left out. */
function namedPartitions(assignment: MemberAssignment, broker: BrokerContext) {
  const topicPartitions = [...assignment].flatMap(([topicId, partitions]) => {
    const topicName = broker.image.topicsById.get(topicId)?.name;
    return topicName === undefined ? [] : [{ topicId, topicName, partitions }];
  });
  return { topicPartitions };
}

function describeMember(
  member: ConsumerMember,
  group: ConsumerGroup,
  version: number,
  broker: BrokerContext,
): ConsumerGroupDescribeResponseMemberInput {
  const { memberId, memberEpoch, subscription, progress } = member;
  return {
    memberId,
    instanceId: subscription.instanceId,
    rackId: subscription.rackId,
    memberEpoch,
    clientId: subscription.clientId,
    clientHost: subscription.clientHost,
    subscribedTopicNames: subscription.topicNames,
    subscribedTopicRegex: subscription.topicRegex,
    assignment: namedPartitions(allPartitions(progress.assigned, progress.pendingRevocation), broker),
    targetAssignment: namedPartitions(group.target(memberId), broker),
    ...(version >= 1 ? { memberType: member.isClassic ? MEMBER_TYPE.CLASSIC : MEMBER_TYPE.CONSUMER } : {}),
  };
}

function describe(
  groupId: string,
  version: number,
  broker: BrokerContext,
): ConsumerGroupDescribeResponseDescribedGroupInput {
  const failed = (errorCode: number, errorMessage: string | null) => ({
    errorCode,
    errorMessage,
    groupId,
    groupState: '',
    groupEpoch: 0,
    assignmentEpoch: 0,
    assignorName: '',
    members: [],
  });
  if (!servesConsumerProtocol(broker)) return failed(KafkaError.UNSUPPORTED_VERSION, null);
  const unavailable = broker.groups.availability(groupId);
  if (unavailable !== KafkaError.NONE) return failed(unavailable, null);
  const found = broker.groups.get(groupId);
  const group = found?.consumer;
  if (group === undefined) {
    const why = found === undefined ? 'not found' : 'is not a consumer group';
    return failed(KafkaError.GROUP_ID_NOT_FOUND, `Group ${groupId} ${why}.`);
  }
  return {
    errorCode: KafkaError.NONE,
    errorMessage: null,
    groupId,
    groupState: group.state,
    groupEpoch: group.epoch,
    assignmentEpoch: group.assignmentEpoch,
    assignorName: group.assignorName,
    members: [...group.members.all()].map((member) => describeMember(member, group, version, broker)),
  };
}

function handle(request: Request, broker: BrokerContext): void {
  const { version } = request;
  const { groupIds, includeAuthorizedOperations } = readConsumerGroupDescribeRequest(request.body(), version);
  const groups = groupIds.map((groupId) => {
    const described = describe(groupId, version, broker);
    const shows = includeAuthorizedOperations && described.errorCode === KafkaError.NONE;
    return shows ? { ...described, authorizedOperations: GROUP_OPERATIONS } : described;
  });
  request.reply((writer) =>
    writeConsumerGroupDescribeResponse(writer, version, { throttleTimeMs: 0, groups }),
  );
}

export const consumerGroupDescribe: HandlerRow = {
  key: 69,
  name: 'ConsumerGroupDescribe',
  served: VERSIONS,
  advertised: VERSIONS,
  overlaps: false,
  authorisation: { operation: 'DESCRIBE', resource: 'GROUP' },
  handle,
};

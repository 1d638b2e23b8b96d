/**
 * StreamsGroupDescribe (key 89), versions 0-1 (KIP-1071): state, epochs, topology and members of streams groups, with the tasks
 * that each member has and those it is to have. v1 names the assignor, and can ask for the topology's description: there is
 * none, since no plugin keeps it.
 *
 * Errors, per group: GROUP_ID_NOT_FOUND (also for a group of another protocol), COORDINATOR_NOT_AVAILABLE;
 * UNSUPPORTED_VERSION where the protocol is switched off.
 */
import type { StreamsGroup } from '../../group/streams-group.ts';
import type { StreamsMember } from '../../group/streams-member.ts';
import { type TaskAssignment, tasksOf } from '../../group/streams-tasks.ts';
import type { TopicInfo } from '../../group/streams-topology.ts';
import { KafkaError } from '../../protocol/errors.ts';
import {
  readStreamsGroupDescribeRequest,
  type StreamsGroupDescribeResponseDescribedGroupInput,
  type StreamsGroupDescribeResponseMemberInput,
  type StreamsGroupDescribeResponseTopologyInput,
  writeStreamsGroupDescribeResponse,
} from '../../protocol/generated/StreamsGroupDescribe.ts';
import type { BrokerContext } from '../context.ts';
import type { Request } from '../request.ts';
import { GROUP_OPERATIONS } from './describe-groups.ts';
import type { HandlerRow } from './handler.ts';
import { taskIds } from './streams-group-heartbeat.ts';
import { servesStreamsProtocol } from './streams-protocol.ts';

const VERSIONS = [0, 1] as const;
const FIRST_WITH_ASSIGNOR = 1;
/** What is said of a topology's description that was asked for: none is kept. */
const DESCRIPTION_NOT_STORED = 1;

function describeTopology({ facts }: StreamsGroup): StreamsGroupDescribeResponseTopologyInput | null {
  const { topology, configured } = facts;
  if (topology === undefined) return null;
  const byName = <T extends { readonly name: string }>(all: readonly T[]) =>
    [...all].sort((a, b) => (a.name < b.name ? -1 : 1));
  /** With the partitions that it has, once all are known to fit. */
  const known = (topics: readonly TopicInfo[]) =>
    byName(topics).map((topic) => ({
      ...topic,
      partitions:
        configured?.status === undefined
          ? (configured?.partitions.get(topic.name) ?? topic.partitions)
          : topic.partitions,
    }));
  return {
    epoch: topology.epoch,
    subtopologies: [...topology.subtopologies]
      .sort((a, b) => (a.subtopologyId < b.subtopologyId ? -1 : 1))
      .map((s) => ({
        subtopologyId: s.subtopologyId,
        sourceTopics: [...s.sourceTopics].sort(),
        repartitionSinkTopics: [...s.repartitionSinkTopics].sort(),
        stateChangelogTopics: known(s.stateChangelogTopics),
        repartitionSourceTopics: known(s.repartitionSourceTopics),
      })),
  };
}

function assignmentOf(tasks: TaskAssignment) {
  return {
    activeTasks: taskIds(tasks.active),
    standbyTasks: taskIds(tasks.standby),
    warmupTasks: taskIds(tasks.warmup),
  };
}

function describeMember(member: StreamsMember, group: StreamsGroup): StreamsGroupDescribeResponseMemberInput {
  const { memberId, memberEpoch, facts, progress, taskOffsets, taskEndOffsets } = member;
  return {
    ...facts,
    memberId,
    memberEpoch,
    taskOffsets,
    taskEndOffsets,
    assignment: assignmentOf(tasksOf(progress.assigned)),
    targetAssignment: assignmentOf(group.facts.target(memberId)),
    isClassic: false,
  };
}

function describe(
  groupId: string,
  version: number,
  broker: BrokerContext,
): StreamsGroupDescribeResponseDescribedGroupInput {
  const failed = (errorCode: number, errorMessage: string | null) => ({
    errorCode,
    errorMessage,
    groupId,
    groupState: '',
    groupEpoch: 0,
    assignmentEpoch: 0,
    members: [],
  });
  if (!servesStreamsProtocol(broker)) return failed(KafkaError.UNSUPPORTED_VERSION, null);
  const unavailable = broker.groups.availability(groupId);
  if (unavailable !== KafkaError.NONE) return failed(unavailable, null);
  const found = broker.groups.get(groupId);
  const group = found?.streams;
  if (group === undefined) {
    const why = found === undefined ? 'not found' : 'is not a streams group';
    return failed(KafkaError.GROUP_ID_NOT_FOUND, `Group ${groupId} ${why}.`);
  }
  return {
    errorCode: KafkaError.NONE,
    errorMessage: null,
    groupId,
    groupState: group.state,
    groupEpoch: group.facts.epoch,
    assignmentEpoch: group.facts.assignmentEpoch,
    topology: describeTopology(group),
    members: [...group.members.all()].map((member) => describeMember(member, group)),
    ...(version >= FIRST_WITH_ASSIGNOR ? { assignorName: group.assignorName } : {}),
  };
}

function handle(request: Request, broker: BrokerContext): void {
  const { version } = request;
  const message = readStreamsGroupDescribeRequest(request.body(), version);
  const groups = message.groupIds.map((groupId) => {
    const described = describe(groupId, version, broker);
    if (described.errorCode !== KafkaError.NONE) return described;
    return {
      ...described,
      ...(message.includeAuthorizedOperations ? { authorizedOperations: GROUP_OPERATIONS } : {}),
      ...(message.includeTopologyDescription ? { topologyDescriptionStatus: DESCRIPTION_NOT_STORED } : {}),
    };
  });
  request.reply((writer) =>
    writeStreamsGroupDescribeResponse(writer, version, { throttleTimeMs: 0, groups }),
  );
}

export const streamsGroupDescribe: HandlerRow = {
  key: 89,
  name: 'StreamsGroupDescribe',
  served: VERSIONS,
  advertised: VERSIONS,
  overlaps: false,
  authorisation: { operation: 'DESCRIBE', resource: 'GROUP' },
  handle,
};

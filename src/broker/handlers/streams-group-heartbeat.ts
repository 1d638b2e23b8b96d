/**
 * StreamsGroupHeartbeat (key 88), versions 0-1 (KIP-1071): a Kafka Streams application's member joins its group with its
 * topology, says that it is alive and which tasks it owns, and hears which it is assigned; or it leaves. Answered when
 * what the answer tells of is written, and internal topics of the topology exist.
 *
 * - v1 has the acceptable recovery lag, and says whether a description of the topology is wanted: none is, no plugin takes it.
 *
 * Errors: INVALID_REQUEST, STREAMS_INVALID_TOPOLOGY, GROUP_ID_NOT_FOUND, UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH,
 * FENCED_INSTANCE_ID, UNRELEASED_INSTANCE_ID, GROUP_MAX_SIZE_REACHED, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR;
 * UNSUPPORTED_VERSION where the protocol is switched off.
 */
import type { MemberAssignment } from '../../group/assignor.ts';
import type { TaskAssignment } from '../../group/streams-tasks.ts';
import { plainTopology } from '../../group/streams-topology.ts';
import { bareAnswer, type StreamsHeartbeat, type StreamsHeartbeatAnswer } from '../../group/streams-types.ts';
import { KafkaError } from '../../protocol/errors.ts';
import {
  readStreamsGroupHeartbeatRequest,
  type StreamsGroupHeartbeatRequest,
  writeStreamsGroupHeartbeatResponse,
} from '../../protocol/generated/StreamsGroupHeartbeat.ts';
import type { Writer } from '../../protocol/writer.ts';
import type { BrokerContext } from '../context.ts';
import type { Request } from '../request.ts';
import { clientHostOf } from './client-host.ts';
import type { HandlerRow } from './handler.ts';
import { servesStreamsProtocol } from './streams-protocol.ts';

const VERSIONS = [0, 1] as const;
const FIRST_WITH_LAG = 1;

export function taskIds(tasks: MemberAssignment) {
  return [...tasks].map(([subtopologyId, partitions]) => ({ subtopologyId, partitions }));
}

function write(writer: Writer, version: number, answer: StreamsHeartbeatAnswer): void {
  const { tasks, endpoints, acceptableRecoveryLag, ...plain } = answer;
  const legacy = version < FIRST_WITH_LAG ? { acceptableRecoveryLagLegacy: 0 } : {};
  writeStreamsGroupHeartbeatResponse(writer, version, {
    ...plain,
    ...legacy,
    throttleTimeMs: 0,
    acceptableRecoveryLag,
    activeTasks: tasks === null ? null : taskIds(tasks.active),
    standbyTasks: tasks === null ? null : taskIds(tasks.standby),
    warmupTasks: tasks === null ? null : taskIds(tasks.warmup),
    partitionsByUserEndpoint: endpoints,
  });
}

function ownedOf(message: StreamsGroupHeartbeatRequest): TaskAssignment | null {
  const { activeTasks, standbyTasks, warmupTasks } = message;
  if (activeTasks === null || standbyTasks === null || warmupTasks === null) return null;
  const tasks = (list: typeof activeTasks) =>
    new Map(list.map(({ subtopologyId, partitions }) => [subtopologyId, partitions]));
  return { active: tasks(activeTasks), standby: tasks(standbyTasks), warmup: tasks(warmupTasks) };
}

function heartbeatOf(message: StreamsGroupHeartbeatRequest, request: Request): StreamsHeartbeat {
  const { topology, userEndpoint: endpoint, clientTags } = message;
  const given = [message.activeTasks, message.standbyTasks, message.warmupTasks].filter(
    (list) => list !== null,
  );
  const tags = clientTags?.map(({ key, value }) => ({ key, value }));
  const offsets = (list: StreamsGroupHeartbeatRequest['taskOffsets']) =>
    list?.map(({ subtopologyId, partition, offset }) => ({ subtopologyId, partition, offset })) ?? null;
  return {
    groupId: message.groupId,
    memberId: message.memberId,
    memberEpoch: message.memberEpoch,
    endpointInformationEpoch: message.endpointInformationEpoch,
    instanceId: message.instanceId,
    rackId: message.rackId,
    rebalanceTimeoutMs: message.rebalanceTimeoutMs,
    topology: topology === null ? null : plainTopology(topology),
    owned: ownedOf(message),
    ownsInPart: given.length === 1 || given.length === 2,
    processId: message.processId,
    userEndpoint: endpoint === null ? null : { host: endpoint.host, port: endpoint.port },
    clientTags: tags?.sort((a, b) => (a.key < b.key ? -1 : 1)) ?? null,
    taskOffsets: offsets(message.taskOffsets),
    taskEndOffsets: offsets(message.taskEndOffsets),
    shutdownApplication: message.shutdownApplication,
    clientId: request.clientId,
    clientHost: clientHostOf(request),
  };
}

function handle(request: Request, broker: BrokerContext): void | Promise<void> {
  const { version } = request;
  const heartbeat = heartbeatOf(readStreamsGroupHeartbeatRequest(request.body(), version), request);
  const respond = (answer: StreamsHeartbeatAnswer) => {
    if (!request.open) return;
    if (answer.errorCode === KafkaError.NONE && answer.memberEpoch >= 0) {
      broker.groups.heardOn(request.connection.id, heartbeat.groupId, answer.memberId);
    }
    request.reply((writer) => write(writer, version, answer));
  };
  const begin = () => {
    if (request.open) broker.groups.streamsHeartbeat(heartbeat, respond, () => request.open);
  };
  if (!servesStreamsProtocol(broker)) {
    respond(bareAnswer(KafkaError.UNSUPPORTED_VERSION, 'streams groups are switched off'));
    return;
  }
  const creation = broker.groups.prepare();
  if (creation === undefined) return begin();
  return creation.then((code) => {
    if (code === KafkaError.NONE) begin();
    else respond(bareAnswer(code, null));
  });
}

export const streamsGroupHeartbeat: HandlerRow = {
  key: 88,
  name: 'StreamsGroupHeartbeat',
  served: VERSIONS,
  advertised: VERSIONS,
  overlaps: false,
  authorisation: { operation: 'READ', resource: 'GROUP' },
  handle,
  failure: (writer, version, code, message) => write(writer, version, bareAnswer(code, message)),
};

/**
 * ConsumerGroupHeartbeat (key 68), versions 0-1 (KIP-848): a member joins a group of the consumer protocol, says that it is
 * alive, what it subscribes to and what it owns, and hears what is assigned to it; or it leaves. Answered when what the
 * answer tells of is written.
 *
 * - v1 adds patterns that the broker resolves, and members make their own ids.
 *
 * Errors: INVALID_REQUEST, UNSUPPORTED_ASSIGNOR, INVALID_REGULAR_EXPRESSION, GROUP_ID_NOT_FOUND, UNKNOWN_MEMBER_ID,
 * FENCED_MEMBER_EPOCH, FENCED_INSTANCE_ID, UNRELEASED_INSTANCE_ID, GROUP_MAX_SIZE_REACHED, COORDINATOR_NOT_AVAILABLE,
 * NOT_COORDINATOR; UNSUPPORTED_VERSION where the protocol is switched off.
 */
import type { ConsumerHeartbeatAnswer } from '../../group/consumer-types.ts';
import { refusedHeartbeat } from '../../group/consumer-types.ts';
import { KafkaError } from '../../protocol/errors.ts';
import {
  type ConsumerGroupHeartbeatRequest,
  readConsumerGroupHeartbeatRequest,
  writeConsumerGroupHeartbeatResponse,
} from '../../protocol/generated/ConsumerGroupHeartbeat.ts';
import type { Writer } from '../../protocol/writer.ts';
import type { BrokerContext } from '../context.ts';
import type { Request } from '../request.ts';
import { clientHostOf } from './client-host.ts';
import { servesConsumerProtocol } from './consumer-protocol.ts';
import type { HandlerRow } from './handler.ts';

const VERSIONS = [0, 1] as const;
const FIRST_WITH_PATTERN = 1;

function write(writer: Writer, version: number, answer: ConsumerHeartbeatAnswer): void {
  const { assignment } = answer;
  writeConsumerGroupHeartbeatResponse(writer, version, {
    throttleTimeMs: 0,
    errorCode: answer.errorCode,
    errorMessage: answer.errorMessage,
    memberId: answer.memberId,
    memberEpoch: answer.memberEpoch,
    heartbeatIntervalMs: answer.heartbeatIntervalMs,
    assignment:
      assignment === null
        ? null
        : { topicPartitions: [...assignment].map(([topicId, partitions]) => ({ topicId, partitions })) },
  });
}

function ownedOf({ topicPartitions }: ConsumerGroupHeartbeatRequest) {
  if (topicPartitions === null) return null;
  return new Map(topicPartitions.map(({ topicId, partitions }) => [topicId, partitions]));
}

function handle(request: Request, broker: BrokerContext): void | Promise<void> {
  const { version, clientId } = request;
  const message = readConsumerGroupHeartbeatRequest(request.body(), version);
  const heartbeat = {
    version,
    groupId: message.groupId,
    memberId: message.memberId,
    memberEpoch: message.memberEpoch,
    instanceId: message.instanceId,
    rackId: message.rackId,
    rebalanceTimeoutMs: message.rebalanceTimeoutMs,
    subscribedTopicNames: message.subscribedTopicNames,
    subscribedTopicRegex: version >= FIRST_WITH_PATTERN ? message.subscribedTopicRegex : null,
    serverAssignor: message.serverAssignor,
    topicPartitions: ownedOf(message),
    clientId,
    clientHost: clientHostOf(request),
  };
  const respond = (answer: ConsumerHeartbeatAnswer) => {
    if (!request.open) return;
    if (answer.memberId !== null && answer.memberEpoch >= 0) {
      broker.groups.heardOn(request.connection.id, message.groupId, answer.memberId);
    }
    request.reply((writer) => write(writer, version, answer));
  };
  const begin = () => {
    if (request.open) broker.groups.consumerHeartbeat(heartbeat, respond, () => request.open);
  };
  if (!servesConsumerProtocol(broker)) {
    respond(refusedHeartbeat(KafkaError.UNSUPPORTED_VERSION, 'the consumer protocol is switched off'));
    return;
  }
  const creation = broker.groups.prepare();
  if (creation === undefined) return begin();
  return creation.then((code) => {
    if (code === KafkaError.NONE) begin();
    else respond(refusedHeartbeat(code, null));
  });
}

export const consumerGroupHeartbeat: HandlerRow = {
  key: 68,
  name: 'ConsumerGroupHeartbeat',
  served: VERSIONS,
  advertised: VERSIONS,
  overlaps: false,
  authorisation: { operation: 'READ', resource: 'GROUP' },
  handle,
  failure: (writer, version, code, message) => write(writer, version, refusedHeartbeat(code, message)),
};

/**
 * JoinGroup (key 11), versions 0-9 (KIP-62, KIP-345, KIP-394, KIP-800, KIP-814): a member enters a group of the classic
 * protocol, or takes part in its next generation. Answered when the generation begins.
 *
 * - v1 adds the rebalance timeout; before, the session timeout is it.
 * - v4: a new member is given its id with MEMBER_ID_REQUIRED and joins again with it.
 * - v5 adds group.instance.id, v7 the protocol type to the answer, v8 a reason, v9 skipAssignment.
 *
 * Errors: INVALID_GROUP_ID, INVALID_SESSION_TIMEOUT, MEMBER_ID_REQUIRED, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID,
 * INCONSISTENT_GROUP_PROTOCOL, GROUP_MAX_SIZE_REACHED, REBALANCE_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE,
 * NOT_COORDINATOR.
 */
import { type JoinAnswer, refusedJoin } from '../../group/classic-member.ts';
import { readJoinGroupRequest, writeJoinGroupResponse } from '../../protocol/generated/JoinGroup.ts';
import type { Writer } from '../../protocol/writer.ts';
import type { BrokerContext } from '../context.ts';
import type { Request } from '../request.ts';
import { clientHostOf } from './client-host.ts';
import type { HandlerRow } from './handler.ts';

const VERSIONS = [0, 9] as const;
const FIRST_WITH_REBALANCE_TIMEOUT = 1;
const FIRST_WITH_REQUIRED_MEMBER_ID = 4;
const FIRST_WITH_INSTANCE_ID = 5;
const FIRST_WITH_NULL_PROTOCOL = 7;
const FIRST_WITH_SKIP_ASSIGNMENT = 9;

function write(writer: Writer, version: number, answer: JoinAnswer): void {
  writeJoinGroupResponse(writer, version, {
    errorCode: answer.errorCode,
    generationId: answer.generationId,
    protocolType: answer.protocolType,
    protocolName: answer.protocolName ?? (version >= FIRST_WITH_NULL_PROTOCOL ? null : ''),
    leader: answer.leader,
    skipAssignment: answer.skipAssignment,
    memberId: answer.memberId,
    members: answer.members.map(({ memberId, groupInstanceId, metadata }) => ({
      memberId,
      metadata,
      ...(version >= FIRST_WITH_INSTANCE_ID ? { groupInstanceId } : {}),
    })),
  });
}

function handle(request: Request, broker: BrokerContext): void | Promise<void> {
  const { version, clientId } = request;
  const message = readJoinGroupRequest(request.body(), version);
  const join = {
    memberId: message.memberId,
    groupInstanceId: message.groupInstanceId,
    clientId,
    clientHost: clientHostOf(request),
    protocolType: message.protocolType,
    // The group keeps them; the frame goes.
    protocols: message.protocols.map(({ name, metadata }) => ({ name, metadata: Buffer.from(metadata) })),
    sessionTimeoutMs: message.sessionTimeoutMs,
    rebalanceTimeoutMs:
      version >= FIRST_WITH_REBALANCE_TIMEOUT ? message.rebalanceTimeoutMs : message.sessionTimeoutMs,
    reason: message.reason,
    requireKnownMemberId: version >= FIRST_WITH_REQUIRED_MEMBER_ID,
    supportsSkippingAssignment: version >= FIRST_WITH_SKIP_ASSIGNMENT,
  };
  const respond = (answer: JoinAnswer) => {
    if (answer.errorCode === 0) {
      broker.groups.heardOn(request.connection.id, message.groupId, answer.memberId);
    }
    request.reply((writer) => write(writer, version, answer));
  };
  const begin = () => {
    if (!request.open) return;
    if (join.memberId !== '') broker.groups.heardOn(request.connection.id, message.groupId, join.memberId);
    const abandon = broker.groups.join(message.groupId, join, respond);
    if (request.open) request.abandon = abandon;
  };
  const creation = broker.groups.prepare();
  if (creation === undefined) return begin();
  return creation.then((code) => (code === 0 ? begin() : respond(refusedJoin(code, join.memberId))));
}

export const joinGroup: HandlerRow = {
  key: 11,
  name: 'JoinGroup',
  served: VERSIONS,
  advertised: VERSIONS,
  overlaps: false,
  authorisation: { operation: 'READ', resource: 'GROUP' },
  handle,
  failure: (writer, version, code) => write(writer, version, refusedJoin(code, '')),
};

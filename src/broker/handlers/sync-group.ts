/**
 * SyncGroup (key 14), versions 0-5: the leader hands in the assignment of a generation, and each member gets its own.
 * Followers wait for the leader; nobody gets what is not written.
 *
 * - v3 adds group.instance.id.
 * - v5 adds the protocol type and name, which must be given and be the group's.
 *
 * Errors: INVALID_GROUP_ID, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS,
 * INCONSISTENT_GROUP_PROTOCOL, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR, UNKNOWN_SERVER_ERROR (an assignment larger
 * than max.message.bytes).
 */
import { refusedSync, type SyncAnswer } from '../../group/classic-member.ts';
import { KafkaError } from '../../protocol/errors.ts';
import { readSyncGroupRequest, writeSyncGroupResponse } from '../../protocol/generated/SyncGroup.ts';
import type { Writer } from '../../protocol/writer.ts';
import type { BrokerContext } from '../context.ts';
import type { Request } from '../request.ts';
import type { HandlerRow } from './handler.ts';

const VERSIONS = [0, 5] as const;
const FIRST_WITH_PROTOCOL = 5;

function write(writer: Writer, version: number, answer: SyncAnswer): void {
  writeSyncGroupResponse(writer, version, {
    errorCode: answer.errorCode,
    assignment: answer.assignment,
    ...(version >= FIRST_WITH_PROTOCOL
      ? { protocolType: answer.protocolType, protocolName: answer.protocolName }
      : {}),
  });
}

function handle(request: Request, broker: BrokerContext): void {
  const { version } = request;
  const message = readSyncGroupRequest(request.body(), version);
  const { groupId, memberId, groupInstanceId, generationId, protocolType, protocolName } = message;
  const respond = (answer: SyncAnswer) => request.reply((writer) => write(writer, version, answer));
  if (version >= FIRST_WITH_PROTOCOL && (protocolType === null || protocolName === null)) {
    respond(refusedSync(KafkaError.INCONSISTENT_GROUP_PROTOCOL));
    return;
  }
  const assignments = new Map<string, Uint8Array>();
  // The group keeps them; the frame goes.
  for (const given of message.assignments) assignments.set(given.memberId, Buffer.from(given.assignment));
  broker.groups.sync(
    groupId,
    { memberId, groupInstanceId, generationId, protocolType, protocolName, assignments },
    respond,
  );
}

export const syncGroup: HandlerRow = {
  key: 14,
  name: 'SyncGroup',
  served: VERSIONS,
  advertised: VERSIONS,
  overlaps: false,
  authorisation: { operation: 'READ', resource: 'GROUP' },
  handle,
  failure: (writer, version, code) => write(writer, version, refusedSync(code)),
};

/**
 * Heartbeat (key 12), versions 0-4: a member of a classic group is alive, and hears whether it has to rejoin. v3 adds
 * group.instance.id.
 *
 * Errors: INVALID_GROUP_ID, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS,
 * COORDINATOR_NOT_AVAILABLE.
 */
import { readHeartbeatRequest, writeHeartbeatResponse } from '../../protocol/generated/Heartbeat.ts';
import type { BrokerContext } from '../context.ts';
import type { Request } from '../request.ts';
import type { HandlerRow } from './handler.ts';

const VERSIONS = [0, 4] as const;

function handle(request: Request, broker: BrokerContext): void {
  const { version } = request;
  const { groupId, memberId, groupInstanceId, generationId } = readHeartbeatRequest(request.body(), version);
  const errorCode = broker.groups.heartbeat(groupId, memberId, groupInstanceId, generationId);
  if (errorCode === 0) broker.groups.heardOn(request.connection.id, groupId, memberId);
  request.reply((writer) => writeHeartbeatResponse(writer, version, { errorCode }));
}

export const heartbeat: HandlerRow = {
  key: 12,
  name: 'Heartbeat',
  served: VERSIONS,
  advertised: VERSIONS,
  overlaps: false,
  authorisation: { operation: 'READ', resource: 'GROUP' },
  handle,
  failure: (writer, version, errorCode) => writeHeartbeatResponse(writer, version, { errorCode }),
};

/**
 * LeaveGroup (key 13), versions 0-5: members leave a classic group at once, instead of when their sessions end.
 *
 * - v3 takes many members, and static ones by their group.instance.id alone, with a code for each; v5 adds a reason.
 *
 * Errors: INVALID_GROUP_ID, COORDINATOR_NOT_AVAILABLE; per member UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID.
 */
import { readLeaveGroupRequest, writeLeaveGroupResponse } from '../../protocol/generated/LeaveGroup.ts';
import type { BrokerContext } from '../context.ts';
import type { Request } from '../request.ts';
import type { HandlerRow } from './handler.ts';

const VERSIONS = [0, 5] as const;
const FIRST_WITH_MANY = 3;

function handle(request: Request, broker: BrokerContext): void {
  const { version } = request;
  const message = readLeaveGroupRequest(request.body(), version);
  const members =
    version >= FIRST_WITH_MANY
      ? message.members
      : [{ memberId: message.memberId, groupInstanceId: null, reason: null }];
  const { errorCode, codes } = broker.groups.leave(message.groupId, members);
  request.reply((writer) => {
    if (version < FIRST_WITH_MANY) {
      writeLeaveGroupResponse(writer, version, { errorCode: errorCode || codes[0]! });
      return;
    }
    writeLeaveGroupResponse(writer, version, {
      errorCode,
      members: codes.map((code, index) => ({
        memberId: members[index]!.memberId,
        groupInstanceId: members[index]!.groupInstanceId,
        errorCode: code,
      })),
    });
  });
}

export const leaveGroup: HandlerRow = {
  key: 13,
  name: 'LeaveGroup',
  served: VERSIONS,
  advertised: VERSIONS,
  overlaps: false,
  authorisation: { operation: 'READ', resource: 'GROUP' },
  handle,
  failure: (writer, version, errorCode) => writeLeaveGroupResponse(writer, version, { errorCode }),
};

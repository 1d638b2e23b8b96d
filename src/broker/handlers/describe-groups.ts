/**
 * DescribeGroups (key 15), versions 0-6: state and members of groups of the classic protocol.
 *
 * - v3 adds authorised operations, v4 group.instance.id. Before v6 a group that does not exist is Dead, without an error;
 *   from v6 on it is GROUP_ID_NOT_FOUND.
 *
 * Errors, per group: GROUP_ID_NOT_FOUND (also for a group of another protocol), COORDINATOR_NOT_AVAILABLE.
 */
import type { ClassicGroup } from '../../group/classic-group.ts';
import { KafkaError } from '../../protocol/errors.ts';
import {
  type DescribeGroupsResponseDescribedGroupInput,
  type DescribeGroupsResponseDescribedGroupMemberInput,
  readDescribeGroupsRequest,
  writeDescribeGroupsResponse,
} from '../../protocol/generated/DescribeGroups.ts';
import type { BrokerContext } from '../context.ts';
import type { Request } from '../request.ts';
import type { HandlerRow } from './handler.ts';

const VERSIONS = [0, 6] as const;
const FIRST_WITH_OPERATIONS = 3;
const FIRST_WITH_INSTANCE_ID = 4;
const FIRST_WITH_NOT_FOUND = 6;

/** READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS: all that Kafka knows on a group. */
export const GROUP_OPERATIONS = 0xd48;
const NO_BYTES = new Uint8Array();

type Described = DescribeGroupsResponseDescribedGroupInput;

function membersOf(group: ClassicGroup, version: number): DescribeGroupsResponseDescribedGroupMemberInput[] {
  const stable = group.state === 'Stable';
  return group.members.all().map((member) => ({
    memberId: member.memberId,
    ...(version >= FIRST_WITH_INSTANCE_ID ? { groupInstanceId: member.groupInstanceId } : {}),
    clientId: member.clientId,
    clientHost: member.clientHost,
    memberMetadata: stable ? member.metadata(group.protocolName) : NO_BYTES,
    memberAssignment: member.assignment,
  }));
}

function failed(groupId: string, errorCode: number, groupState: string, message: string | null): Described {
  return {
    groupId,
    errorCode,
    errorMessage: message,
    groupState,
    protocolType: '',
    protocolData: '',
    members: [],
  };
}

function describe(groupId: string, version: number, broker: BrokerContext): Described {
  const unavailable = broker.groups.availability(groupId);
  if (unavailable !== KafkaError.NONE) return failed(groupId, unavailable, '', null);
  const found = broker.groups.get(groupId);
  if (found === undefined || found.foreign !== undefined || found.modern !== undefined) {
    const message = `Group ${groupId} ${found === undefined ? 'not found' : 'is not a classic group'}.`;
    return version >= FIRST_WITH_NOT_FOUND
      ? failed(groupId, KafkaError.GROUP_ID_NOT_FOUND, 'Dead', message)
      : failed(groupId, KafkaError.NONE, 'Dead', null);
  }
  const { classic } = found;
  return {
    groupId,
    errorCode: KafkaError.NONE,
    errorMessage: null,
    groupState: classic?.state ?? 'Empty',
    protocolType: classic?.protocolType ?? '',
    protocolData: (classic?.state === 'Stable' ? classic.protocolName : null) ?? '',
    members: classic === undefined ? [] : membersOf(classic, version),
  };
}

function handle(request: Request, broker: BrokerContext): void {
  const { version } = request;
  const message = readDescribeGroupsRequest(request.body(), version);
  const shows = version >= FIRST_WITH_OPERATIONS && message.includeAuthorizedOperations;
  const groups = message.groups.map((groupId) => {
    const { errorMessage, ...described } = describe(groupId, version, broker);
    return {
      ...described,
      ...(version >= FIRST_WITH_NOT_FOUND ? { errorMessage } : {}),
      ...(shows && described.errorCode === KafkaError.NONE ? { authorizedOperations: GROUP_OPERATIONS } : {}),
    };
  });
  request.reply((writer) => writeDescribeGroupsResponse(writer, version, { groups }));
}

export const describeGroups: HandlerRow = {
  key: 15,
  name: 'DescribeGroups',
  served: VERSIONS,
  advertised: VERSIONS,
  overlaps: false,
  authorisation: { operation: 'DESCRIBE', resource: 'GROUP' },
  handle,
};

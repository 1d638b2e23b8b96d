/**
 * ListGroups (key 16), versions 0-5: all groups of this broker. v4 adds states and a filter by them (KIP-518), v5 types
 * and a filter by them (KIP-848); both without regard to case.
 *
 * Errors: none.
 */
import { readListGroupsRequest, writeListGroupsResponse } from '../../protocol/generated/ListGroups.ts';
import type { BrokerContext } from '../context.ts';
import type { Request } from '../request.ts';
import type { HandlerRow } from './handler.ts';

const VERSIONS = [0, 5] as const;
const FIRST_WITH_STATE = 4;
const FIRST_WITH_TYPE = 5;

function handle(request: Request, broker: BrokerContext): void {
  const { version } = request;
  const { statesFilter, typesFilter } = readListGroupsRequest(request.body(), version);
  const states = new Set(statesFilter.map((state) => state.toLowerCase()));
  const types = new Set(typesFilter.map((type) => type.toLowerCase()));
  const groups = broker.groups
    .list()
    .filter(({ state }) => states.size === 0 || states.has(state.toLowerCase()))
    .filter(({ type }) => types.size === 0 || types.has(type.toLowerCase()))
    .map(({ groupId, protocolType, state, type }) => ({
      groupId,
      protocolType,
      ...(version >= FIRST_WITH_STATE ? { groupState: state } : {}),
      ...(version >= FIRST_WITH_TYPE ? { groupType: type } : {}),
    }));
  request.reply((writer) => writeListGroupsResponse(writer, version, { errorCode: 0, groups }));
}

export const listGroups: HandlerRow = {
  key: 16,
  name: 'ListGroups',
  served: VERSIONS,
  advertised: VERSIONS,
  overlaps: false,
  authorisation: { operation: 'DESCRIBE', resource: 'GROUP' },
  handle,
  failure: (writer, version, errorCode) =>
    writeListGroupsResponse(writer, version, { errorCode, groups: [] }),
};

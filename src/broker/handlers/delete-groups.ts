/**
 * DeleteGroups (key 42), versions 0-3: removes groups without members, and what they have committed. v3 adds a text, which Kafka leaves
 * null too.
 *
 * Errors, per group: GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR.
 */
import { readDeleteGroupsRequest, writeDeleteGroupsResponse } from '../../protocol/generated/DeleteGroups.ts';
import type { BrokerContext } from '../context.ts';
import type { Request } from '../request.ts';
import type { HandlerRow } from './handler.ts';

const VERSIONS = [0, 3] as const;

function handle(request: Request, broker: BrokerContext): void {
  const { version } = request;
  const names = [...new Set(readDeleteGroupsRequest(request.body(), version).groupsNames)];
  const codes = new Map<string, number>();
  const answer = () => {
    const results = names.map((groupId) => ({ groupId, errorCode: codes.get(groupId)! }));
    request.reply((writer) => writeDeleteGroupsResponse(writer, version, { throttleTimeMs: 0, results }));
  };
  if (names.length === 0) {
    answer();
    return;
  }
  for (const groupId of names) {
    broker.groups.delete(groupId, (code) => {
      codes.set(groupId, code);
      if (codes.size === names.length) answer();
    });
  }
}

export const deleteGroups: HandlerRow = {
  key: 42,
  name: 'DeleteGroups',
  served: VERSIONS,
  advertised: VERSIONS,
  overlaps: false,
  authorisation: { operation: 'DELETE', resource: 'GROUP' },
  handle,
};

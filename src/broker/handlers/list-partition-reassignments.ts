/**
 * ListPartitionReassignments (key 46), version 0 (KIP-455): partitions on their way to other nodes. There is one node, and
 * no directory with another's partitions is opened: none are.
 */
import { KafkaError } from '../../protocol/errors.ts';
import {
  readListPartitionReassignmentsRequest,
  writeListPartitionReassignmentsResponse,
} from '../../protocol/generated/ListPartitionReassignments.ts';
import type { Request } from '../request.ts';
import type { HandlerRow } from './handler.ts';

const VERSIONS = [0, 0] as const;

function handle(request: Request): void {
  const { version } = request;
  readListPartitionReassignmentsRequest(request.body(), version);
  request.reply((writer) =>
    writeListPartitionReassignmentsResponse(writer, version, {
      throttleTimeMs: 0,
      errorCode: KafkaError.NONE,
      errorMessage: null,
      topics: [],
    }),
  );
}

export const listPartitionReassignments: HandlerRow = {
  key: 46,
  name: 'ListPartitionReassignments',
  served: VERSIONS,
  advertised: VERSIONS,
  overlaps: false,
  authorisation: { operation: 'DESCRIBE', resource: 'CLUSTER' },
  handle,
  failure: (writer, version, errorCode, errorMessage) =>
    writeListPartitionReassignmentsResponse(writer, version, {
      throttleTimeMs: 0,
      errorCode,
      errorMessage,
      topics: [],
    }),
};

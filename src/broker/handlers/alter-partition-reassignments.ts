/**
 * AlterPartitionReassignments (key 45), versions 0-1 (KIP-455): moves partitions to other nodes, or stops that. There is
 * one node: a partition can be given the replica that it has, which changes nothing.
 *
 * - v1 lets a client forbid that the number of replicas changes (KIP-860).
 *
 * Errors, per partition and with a text: UNKNOWN_TOPIC_OR_PARTITION, INVALID_REPLICA_ASSIGNMENT,
 * NO_REASSIGNMENT_IN_PROGRESS (nothing to cancel).
 */
import { reassignPartition } from '../../metadata/controller-partitions.ts';
import { KafkaError } from '../../protocol/errors.ts';
import {
  readAlterPartitionReassignmentsRequest,
  writeAlterPartitionReassignmentsResponse,
} from '../../protocol/generated/AlterPartitionReassignments.ts';
import type { BrokerContext } from '../context.ts';
import type { Request } from '../request.ts';
import type { HandlerRow } from './handler.ts';

const VERSIONS = [0, 1] as const;

function handle(request: Request, broker: BrokerContext): void {
  const { version } = request;
  const message = readAlterPartitionReassignmentsRequest(request.body(), version);
  const responses = message.topics.map(({ name, partitions }) => ({
    name,
    partitions: partitions.map(({ partitionIndex, replicas }) => {
      const refusal = reassignPartition(broker.image, name, partitionIndex, replicas, broker);
      return {
        partitionIndex,
        errorCode: refusal?.errorCode ?? KafkaError.NONE,
        errorMessage: refusal?.message ?? null,
      };
    }),
  }));
  request.reply((writer) =>
    writeAlterPartitionReassignmentsResponse(writer, version, {
      throttleTimeMs: 0,
      allowReplicationFactorChange: message.allowReplicationFactorChange,
      errorCode: KafkaError.NONE,
      errorMessage: null,
      responses,
    }),
  );
}

export const alterPartitionReassignments: HandlerRow = {
  key: 45,
  name: 'AlterPartitionReassignments',
  served: VERSIONS,
  advertised: VERSIONS,
  overlaps: false,
  authorisation: { operation: 'ALTER', resource: 'CLUSTER' },
  handle,
  failure: (writer, version, errorCode, errorMessage) =>
    writeAlterPartitionReassignmentsResponse(writer, version, {
      throttleTimeMs: 0,
      errorCode,
      errorMessage,
      responses: [],
    }),
};

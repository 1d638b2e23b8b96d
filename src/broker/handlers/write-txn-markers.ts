/**
 * WriteTxnMarkers (key 27), versions 1-2: writes ends of transactions. On one node the coordinator does it by itself; who asks
 * is an administrator who ends a transaction that hangs (kafka-transactions).
 *
 * - v2 adds the transaction.version of the transaction: from 2 on a marker's epoch must be above that of the producer's open
 *   transaction.
 *
 * Errors, per partition: UNKNOWN_TOPIC_OR_PARTITION, INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED,
 * KAFKA_STORAGE_ERROR, INVALID_PRODUCER_ID_MAPPING (a producer id below 0), INVALID_REQUEST (a transaction.version below 0).
 */
import { KafkaError } from '../../protocol/errors.ts';
import {
  readWriteTxnMarkersRequest,
  type WriteTxnMarkersRequestWritableTxnMarker,
  writeWriteTxnMarkersResponse,
} from '../../protocol/generated/WriteTxnMarkers.ts';
import type { BrokerContext } from '../context.ts';
import type { Request } from '../request.ts';
import type { HandlerRow } from './handler.ts';

const VERSIONS = [1, 2] as const;

type Marker = WriteTxnMarkersRequestWritableTxnMarker;

/** What is wrong with a marker, wherever it goes to. */
function faultOf({ producerId, transactionVersion }: Marker): number {
  if (producerId < 0) return KafkaError.INVALID_PRODUCER_ID_MAPPING;
  return transactionVersion < 0 ? KafkaError.INVALID_REQUEST : KafkaError.NONE;
}

function handle(request: Request, broker: BrokerContext): void {
  const { version } = request;
  const message = readWriteTxnMarkersRequest(request.body(), version);
  const markers = message.markers.map(({ producerId, topics }) => ({
    producerId,
    topics: topics.map(({ name, partitionIndexes }) => ({
      name,
      partitions: partitionIndexes.map((partitionIndex) => ({ partitionIndex, errorCode: 0 })),
    })),
  }));
  let left = 1;
  const end = () => {
    if (--left === 0) request.reply((writer) => writeWriteTxnMarkersResponse(writer, version, { markers }));
  };
  for (const [i, asked] of message.markers.entries()) {
    const { producerId, producerEpoch, transactionResult, coordinatorEpoch, transactionVersion } = asked;
    const marker = {
      producerId,
      producerEpoch,
      commit: transactionResult,
      coordinatorEpoch,
      transactionVersion,
    };
    for (const { name, partitions } of markers[i]!.topics) {
      for (const partition of partitions) {
        partition.errorCode = faultOf(asked);
        if (partition.errorCode !== KafkaError.NONE) continue;
        left++;
        broker.markers.writeMarker(name, partition.partitionIndex, marker, (code) => {
          partition.errorCode = code;
          end();
        });
      }
    }
  }
  end();
}

export const writeTxnMarkers: HandlerRow = {
  key: 27,
  name: 'WriteTxnMarkers',
  served: VERSIONS,
  advertised: VERSIONS,
  overlaps: false,
  authorisation: { operation: 'ALTER', resource: 'CLUSTER' },
  handle,
};

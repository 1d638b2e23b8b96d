/**
 * OffsetForLeaderEpoch (key 23), versions 2-4: where the records of a leader epoch end, so that a client can find out
 * whether its position was cut away (KIP-101, KIP-279, KIP-320). Answered with the largest epoch that is not above the
 * asked one, and the offset where it ends; -1 and -1 for an epoch that is not known.
 *
 * - v3 names who asks; followers get the same answer as consumers.
 *
 * Errors, per partition: UNKNOWN_TOPIC_OR_PARTITION, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, KAFKA_STORAGE_ERROR.
 */
import { KafkaError } from '../../protocol/errors.ts';
import {
  type OffsetForLeaderEpochRequestOffsetForLeaderPartition,
  type OffsetForLeaderEpochResponseEpochEndOffsetInput,
  readOffsetForLeaderEpochRequest,
  writeOffsetForLeaderEpochResponse,
} from '../../protocol/generated/OffsetForLeaderEpoch.ts';
import type { BrokerContext } from '../context.ts';
import { leaderEpochFault } from '../leader-epoch.ts';
import type { Request } from '../request.ts';
import type { HandlerRow } from './handler.ts';

const VERSIONS = [2, 4] as const;

function endOf(
  topic: string,
  asked: OffsetForLeaderEpochRequestOffsetForLeaderPartition,
  broker: BrokerContext,
): OffsetForLeaderEpochResponseEpochEndOffsetInput {
  const index = asked.partition;
  const refuse = (errorCode: number) => ({ errorCode, partition: index, leaderEpoch: -1, endOffset: -1 });
  const partition = broker.partition(topic, index);
  if (partition === undefined) return refuse(broker.missingCode(topic, index));
  if (partition.offline !== undefined) return refuse(KafkaError.KAFKA_STORAGE_ERROR);
  const fault = leaderEpochFault(partition, asked.currentLeaderEpoch);
  if (fault !== KafkaError.NONE) return refuse(fault);
  const { epoch, endOffset } = partition.epochs.endOffsetFor(asked.leaderEpoch, partition.logEndOffset);
  return { errorCode: KafkaError.NONE, partition: index, leaderEpoch: epoch, endOffset };
}

function handle(request: Request, broker: BrokerContext): void {
  const { version } = request;
  const message = readOffsetForLeaderEpochRequest(request.body(), version);
  const topics = message.topics.map(({ topic, partitions }) => ({
    topic,
    partitions: partitions.map((asked) => endOf(topic, asked, broker)),
  }));
  request.reply((writer) => writeOffsetForLeaderEpochResponse(writer, version, { topics }));
}

export const offsetForLeaderEpoch: HandlerRow = {
  key: 23,
  name: 'OffsetForLeaderEpoch',
  served: VERSIONS,
  advertised: VERSIONS,
  overlaps: false,
  authorisation: { operation: 'DESCRIBE', resource: 'TOPIC' },
  handle,
};

/**
 * DescribeProducers (key 61), version 0: what a partition knows of its producers, the first offset of an open transaction
 * among it.
 *
 * Errors, per partition: INVALID_TOPIC_EXCEPTION, UNKNOWN_TOPIC_OR_PARTITION, KAFKA_STORAGE_ERROR.
 */
import type { Partition } from '../../log/partition.ts';
import { topicNameFault } from '../../metadata/topic-names.ts';
import { KafkaError } from '../../protocol/errors.ts';
import {
  type DescribeProducersResponsePartitionResponseInput,
  type DescribeProducersResponseProducerStateInput,
  readDescribeProducersRequest,
  writeDescribeProducersResponse,
} from '../../protocol/generated/DescribeProducers.ts';
import type { BrokerContext } from '../context.ts';
import type { Request } from '../request.ts';
import type { HandlerRow } from './handler.ts';

const VERSIONS = [0, 0] as const;

function producersOf(partition: Partition): DescribeProducersResponseProducerStateInput[] {
  return Array.from(partition.producers.entries(), (entry) => ({
    producerId: entry.producerId,
    producerEpoch: entry.epoch,
    lastSequence: entry.batches.at(-1)?.lastSequence ?? -1,
    lastTimestamp: entry.lastTimestamp,
    coordinatorEpoch: entry.coordinatorEpoch,
    currentTxnStartOffset: entry.currentTxnFirstOffset,
  }));
}

function describe(
  topic: string,
  partitionIndex: number,
  broker: BrokerContext,
): DescribeProducersResponsePartitionResponseInput {
  const refuse = (errorCode: number, errorMessage: string | null = null) => ({
    partitionIndex,
    errorCode,
    errorMessage,
    activeProducers: [],
  });
  const fault = topicNameFault(topic);
  if (fault !== undefined) return refuse(KafkaError.INVALID_TOPIC_EXCEPTION, fault);
  const partition = broker.partition(topic, partitionIndex);
  if (partition === undefined) return refuse(broker.missingCode(topic, partitionIndex));
  if (partition.offline !== undefined) return refuse(KafkaError.KAFKA_STORAGE_ERROR);
  return {
    partitionIndex,
    errorCode: KafkaError.NONE,
    errorMessage: null,
    activeProducers: producersOf(partition),
  };
}

function handle(request: Request, broker: BrokerContext): void {
  const { version } = request;
  const message = readDescribeProducersRequest(request.body(), version);
  const topics = message.topics.map(({ name, partitionIndexes }) => ({
    name,
    partitions: partitionIndexes.map((index) => describe(name, index, broker)),
  }));
  request.reply((writer) => writeDescribeProducersResponse(writer, version, { throttleTimeMs: 0, topics }));
}

export const describeProducers: HandlerRow = {
  key: 61,
  name: 'DescribeProducers',
  served: VERSIONS,
  advertised: VERSIONS,
  overlaps: false,
  authorisation: { operation: 'READ', resource: 'TOPIC' },
  handle,
};

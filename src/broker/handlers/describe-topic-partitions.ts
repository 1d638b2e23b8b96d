/**
 * DescribeTopicPartitions (key 75), version 0 (KIP-966): partitions of the named topics, or of all, in order of name and
 * page by page. A page holds at most as many partitions as the client asks for and max.request.partition.size.limit
 * allows; the cursor in the answer says where the next one begins.
 *
 * Errors, per topic: UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION (a name that no topic can have), INVALID_REQUEST
 * (for all of them: a cursor with a negative partition, or at a topic that is not asked for).
 */
import { NO_LEADER, type PartitionState } from '../../metadata/image.ts';
import { INTERNAL_TOPICS, topicNameFault } from '../../metadata/topic-names.ts';
import { KafkaError } from '../../protocol/errors.ts';
import {
  type DescribeTopicPartitionsRequest,
  type DescribeTopicPartitionsResponseInput,
  type DescribeTopicPartitionsResponsePartitionInput,
  type DescribeTopicPartitionsResponseTopicInput,
  readDescribeTopicPartitionsRequest,
  writeDescribeTopicPartitionsResponse,
} from '../../protocol/generated/DescribeTopicPartitions.ts';
import { TOPIC_OPERATIONS } from '../authorised-operations.ts';
import type { BrokerContext } from '../context.ts';
import type { Request } from '../request.ts';
import type { HandlerRow } from './handler.ts';

const VERSIONS = [0, 0] as const;

type TopicAnswer = DescribeTopicPartitionsResponseTopicInput;
type PartitionAnswer = DescribeTopicPartitionsResponsePartitionInput;

function describePartition(partition: PartitionState): PartitionAnswer {
  return {
    errorCode: partition.leader === NO_LEADER ? KafkaError.LEADER_NOT_AVAILABLE : KafkaError.NONE,
    partitionIndex: partition.id,
    leaderId: partition.leader,
    leaderEpoch: partition.leaderEpoch,
    replicaNodes: partition.replicas,
    isrNodes: partition.isr,
    eligibleLeaderReplicas: partition.eligibleLeaderReplicas,
    lastKnownElr: partition.lastKnownElr,
    offlineReplicas: [],
  };
}

function failed(name: string, errorCode: number): TopicAnswer {
  return { errorCode, name, isInternal: INTERNAL_TOPICS.has(name), partitions: [] };
}

/** One page: topics in order from the cursor on. */
function page(
  names: readonly string[],
  firstIndex: number,
  limit: number,
  broker: BrokerContext,
): DescribeTopicPartitionsResponseInput {
  const topics: TopicAnswer[] = [];
  let left = limit;
  let from = firstIndex;
  for (const name of names) {
    if (left === 0) return { topics, nextCursor: { topicName: name, partitionIndex: 0 } };
    const topic = broker.image.topicsByName.get(name);
    if (topic === undefined) {
      const errorCode =
        topicNameFault(name) === undefined
          ? KafkaError.UNKNOWN_TOPIC_OR_PARTITION
          : KafkaError.INVALID_TOPIC_EXCEPTION;
      topics.push({ ...failed(name, errorCode), topicAuthorizedOperations: TOPIC_OPERATIONS });
    } else {
      const partitions: PartitionAnswer[] = [];
      const end = Math.min(topic.partitions.size, from + left);
      for (let index = from; index < end; index++) {
        const partition = topic.partitions.get(index);
        if (partition !== undefined) partitions.push(describePartition(partition));
      }
      topics.push({
        errorCode: KafkaError.NONE,
        name,
        topicId: topic.id,
        isInternal: INTERNAL_TOPICS.has(name),
        partitions,
        topicAuthorizedOperations: TOPIC_OPERATIONS,
      });
      if (end < topic.partitions.size) {
        return { topics, nextCursor: { topicName: name, partitionIndex: end } };
      }
      left -= partitions.length;
    }
    from = 0;
  }
  return { topics, nextCursor: null };
}

function answer(
  message: DescribeTopicPartitionsRequest,
  broker: BrokerContext,
): DescribeTopicPartitionsResponseInput {
  const { cursor } = message;
  const all = message.topics.length === 0;
  const asked = all
    ? [...broker.image.topicsByName.keys()]
    : [...new Set(message.topics.map(({ name }) => name))];
  let names = asked.sort();
  let firstIndex = 0;
  if (cursor !== null) {
    names = names.filter((name) => name >= cursor.topicName);
    const found = names[0] === cursor.topicName;
    if (cursor.partitionIndex < 0 || (!all && !found)) {
      const topics = message.topics.map(({ name }) => failed(name, KafkaError.INVALID_REQUEST));
      return { topics, nextCursor: null };
    }
    // A topic that is gone meanwhile: the one after it is next.
    if (found) firstIndex = cursor.partitionIndex;
  }
  const most = Math.min(
    message.responsePartitionLimit,
    broker.config.number('max.request.partition.size.limit'),
  );
  return page(names, firstIndex, Math.max(most, 1), broker);
}

async function handle(request: Request, broker: BrokerContext): Promise<void> {
  const { version } = request;
  const message = readDescribeTopicPartitionsRequest(request.body(), version);
  await Promise.allSettled(message.topics.map(({ name }) => broker.topics.settled(name)));
  const response = answer(message, broker);
  request.reply((writer) => writeDescribeTopicPartitionsResponse(writer, version, response));
}

export const describeTopicPartitions: HandlerRow = {
  key: 75,
  name: 'DescribeTopicPartitions',
  served: VERSIONS,
  advertised: VERSIONS,
  overlaps: false,
  authorisation: { operation: 'DESCRIBE', resource: 'TOPIC' },
  handle,
};

/**
 * Metadata (key 3), versions 0-13: the brokers, and the partitions of all, some or no topics. A topic that is missing is
 * created first where that is allowed, and answered with its leader.
 *
 * - v0: an empty list means all topics; from v1 null does, and empty means none. v1 adds the controller and what is
 *   internal, v2 the cluster id, v5 offline replicas, v7 leader epochs, v8 authorised operations (the cluster's until
 *   v10).
 * - v4 adds allowAutoTopicCreation; before, it is allowed.
 * - v10 adds topic ids to the answer; v12 lets a client ask by id.
 * - v13 adds an error for the whole request.
 *
 * Errors, per topic: UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, INVALID_TOPIC_EXCEPTION, INVALID_REQUEST (a null name
 * without an id, or a version below 12 that uses either), and what refuses a creation.
 */

import { NO_LEADER, type TopicState } from '../../metadata/image.ts';
import { INTERNAL_TOPICS, topicNameFault } from '../../metadata/topic-names.ts';
import { KafkaError } from '../../protocol/errors.ts';
import {
  type MetadataRequest,
  type MetadataResponseTopicInput,
  readMetadataRequest,
  writeMetadataResponse,
} from '../../protocol/generated/Metadata.ts';
import { CLUSTER_OPERATIONS, TOPIC_OPERATIONS } from '../authorised-operations.ts';
import type { BrokerContext } from '../context.ts';
import type { Request } from '../request.ts';
import type { HandlerRow } from './handler.ts';

const VERSIONS = [0, 13] as const;
const ZERO_ID = 'AAAAAAAAAAAAAAAAAAAAAA';

type TopicAnswer = MetadataResponseTopicInput;

function describeTopic(topic: TopicState, message: MetadataRequest): TopicAnswer {
  return {
    errorCode: KafkaError.NONE,
    name: topic.name,
    topicId: topic.id,
    isInternal: INTERNAL_TOPICS.has(topic.name),
    partitions: [...topic.partitions.values()].map((partition) => ({
      errorCode: partition.leader === NO_LEADER ? KafkaError.LEADER_NOT_AVAILABLE : KafkaError.NONE,
      partitionIndex: partition.id,
      leaderId: partition.leader,
      leaderEpoch: partition.leaderEpoch,
      replicaNodes: partition.replicas,
      isrNodes: partition.isr,
      offlineReplicas: [],
    })),
    ...(message.includeTopicAuthorizedOperations ? { topicAuthorizedOperations: TOPIC_OPERATIONS } : {}),
  };
}

function failedTopic(errorCode: number, name: string | null, topicId = ZERO_ID): TopicAnswer {
  return { errorCode, name, topicId, isInternal: name !== null && INTERNAL_TOPICS.has(name), partitions: [] };
}

/** One topic that was asked for by name or id, created if need be. */
function resolve(
  asked: { topicId: string; name: string | null },
  message: MetadataRequest,
  version: number,
  broker: BrokerContext,
): TopicAnswer | Promise<TopicAnswer> {
  const { name, topicId } = asked;
  const again = () => resolve(asked, message, version, broker);
  if (topicId !== ZERO_ID || name === null) {
    const shown = version >= 12 ? null : '';
    if (topicId === ZERO_ID || version < 12) return failedTopic(KafkaError.INVALID_REQUEST, shown, topicId);
    const topic = broker.image.topicsById.get(topicId);
    return topic === undefined
      ? failedTopic(KafkaError.UNKNOWN_TOPIC_ID, shown, topicId)
      : describeTopic(topic, message);
  }
  const busy = broker.topics.settled(name);
  if (busy !== undefined) return busy.then(again, again);
  const topic = broker.image.topicsByName.get(name);
  if (topic !== undefined) return describeTopic(topic, message);
  if (topicNameFault(name) !== undefined) return failedTopic(KafkaError.INVALID_TOPIC_EXCEPTION, name);
  if (!message.allowAutoTopicCreation || !broker.topics.mayAutoCreate(name)) {
    return failedTopic(KafkaError.UNKNOWN_TOPIC_OR_PARTITION, name);
  }
  return broker.topics.autoCreate(name).then((errorCode) => {
    const created = broker.image.topicsByName.get(name);
    // Created and deleted again before this went on.
    if (created === undefined) return failedTopic(errorCode || KafkaError.UNKNOWN_TOPIC_OR_PARTITION, name);
    return describeTopic(created, message);
  });
}

function reply(
  request: Request,
  broker: BrokerContext,
  message: MetadataRequest,
  topics: TopicAnswer[],
): void {
  const { version } = request;
  const endpoint = broker.listeners.advertisedTo(request.connection.peer);
  request.reply((writer) =>
    writeMetadataResponse(writer, version, {
      brokers: [{ nodeId: broker.nodeId, host: endpoint.host, port: endpoint.port, rack: broker.rack }],
      clusterId: broker.clusterId,
      controllerId: broker.nodeId,
      topics,
      ...(version >= 8 && version <= 10 && message.includeClusterAuthorizedOperations
        ? { clusterAuthorizedOperations: CLUSTER_OPERATIONS }
        : {}),
    }),
  );
}

function handle(request: Request, broker: BrokerContext): void | Promise<void> {
  const { version } = request;
  const message = readMetadataRequest(request.body(), version);
  if (message.topics === null || (version === 0 && message.topics.length === 0)) {
    const all = [...broker.image.topicsByName.values()].map((topic) => describeTopic(topic, message));
    reply(request, broker, message, all);
    return;
  }
  const seen = new Set<string>();
  const answers: (TopicAnswer | Promise<TopicAnswer>)[] = [];
  let waits = false;
  for (const asked of message.topics) {
    const key = `${asked.topicId} ${asked.name}`;
    if (seen.has(key)) continue;
    seen.add(key);
    const answer = resolve(asked, message, version, broker);
    if (answer instanceof Promise) waits = true;
    answers.push(answer);
  }
  if (!waits) {
    reply(request, broker, message, answers as TopicAnswer[]);
    return;
  }
  return Promise.all(answers).then((topics) => reply(request, broker, message, topics));
}

export const metadata: HandlerRow = {
  key: 3,
  name: 'Metadata',
  served: VERSIONS,
  advertised: VERSIONS,
  overlaps: false,
  authorisation: { operation: 'DESCRIBE', resource: 'TOPIC' },
  handle,
};

/**
 * DescribeQuorum (key 55), versions 0-2: leader, epoch and replicas of the metadata log, which is a quorum of one.
 *
 * - v1 adds when a replica last fetched and was caught up: for the leader itself that is now.
 * - v2 adds directory ids, texts of errors, and where the nodes listen: there is no listener for controllers, so it is the
 *   one that the client uses.
 *
 * Errors: UNKNOWN_TOPIC_OR_PARTITION for every partition unless the request asks for partition 0 of
 * `__cluster_metadata` and nothing else.
 */
import { CLUSTER_METADATA_TOPIC } from '../../metadata/topic-names.ts';
import { KafkaError } from '../../protocol/errors.ts';
import {
  type DescribeQuorumRequest,
  type DescribeQuorumResponseInput,
  readDescribeQuorumRequest,
  writeDescribeQuorumResponse,
} from '../../protocol/generated/DescribeQuorum.ts';
import type { BrokerContext } from '../context.ts';
import type { Request } from '../request.ts';
import type { HandlerRow } from './handler.ts';

const VERSIONS = [0, 2] as const;
const FIRST_WITH_DIRECTORIES = 2;

/** Kafka answers success with an empty text. */
const NO_ERROR = { errorCode: KafkaError.NONE, errorMessage: '' } as const;

function asksForTheQuorum({ topics }: DescribeQuorumRequest): boolean {
  const [topic] = topics;
  return (
    topics.length === 1 &&
    topic?.topicName === CLUSTER_METADATA_TOPIC &&
    topic.partitions.length === 1 &&
    topic.partitions[0]?.partitionIndex === 0
  );
}

function unknown({ topics }: DescribeQuorumRequest): DescribeQuorumResponseInput {
  return {
    ...NO_ERROR,
    topics: topics.map(({ topicName, partitions }) => ({
      topicName,
      partitions: partitions.map(({ partitionIndex }) => ({
        partitionIndex,
        errorCode: KafkaError.UNKNOWN_TOPIC_OR_PARTITION,
        errorMessage: `there is one quorum, and it is asked for alone: partition 0 of ${CLUSTER_METADATA_TOPIC}`,
        leaderId: 0,
        leaderEpoch: 0,
        highWatermark: 0,
        currentVoters: [],
        observers: [],
      })),
    })),
  };
}

function quorum(request: Request, broker: BrokerContext): DescribeQuorumResponseInput {
  const { nodeId, directoryId, leaderEpoch, logEndOffset, highWatermark } = broker.cluster.quorum;
  const now = broker.clock.now();
  const voter = {
    replicaId: nodeId,
    ...(request.version >= FIRST_WITH_DIRECTORIES ? { replicaDirectoryId: directoryId } : {}),
    logEndOffset,
    lastFetchTimestamp: now,
    lastCaughtUpTimestamp: now,
  };
  const partition = {
    partitionIndex: 0,
    ...NO_ERROR,
    leaderId: nodeId,
    leaderEpoch,
    highWatermark,
    currentVoters: [voter],
    observers: [],
  };
  const { peer } = request.connection;
  const listener = { name: broker.listeners.name(peer.listener), ...broker.listeners.advertisedTo(peer) };
  return {
    ...NO_ERROR,
    topics: [{ topicName: CLUSTER_METADATA_TOPIC, partitions: [partition] }],
    ...(request.version >= FIRST_WITH_DIRECTORIES ? { nodes: [{ nodeId, listeners: [listener] }] } : {}),
  };
}

function handle(request: Request, broker: BrokerContext): void {
  const { version } = request;
  const message = readDescribeQuorumRequest(request.body(), version);
  const answer = asksForTheQuorum(message) ? quorum(request, broker) : unknown(message);
  request.reply((writer) => writeDescribeQuorumResponse(writer, version, answer));
}

export const describeQuorum: HandlerRow = {
  key: 55,
  name: 'DescribeQuorum',
  served: VERSIONS,
  advertised: VERSIONS,
  overlaps: false,
  authorisation: { operation: 'DESCRIBE', resource: 'CLUSTER' },
  handle,
  failure: (writer, version, errorCode, errorMessage) =>
    writeDescribeQuorumResponse(writer, version, { errorCode, errorMessage, topics: [] }),
};

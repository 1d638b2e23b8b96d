/**
 * Fetch (key 1), versions 4-18, without sessions: records from an offset on, up to the high watermark or, under
 * read_committed, the last stable offset. Waits until there are min bytes, or max wait has passed, or another request
 * arrives on the connection. The first batch found is always sent whole; the rest keeps to the client's limits and to
 * fetch.max.bytes.
 *
 * - v5 adds the log start offset, v7 sessions (this broker opens none: every fetch is answered in full with session id 0,
 *   which clients take for "no session"), v9 leader epochs, v11 the rack, v12 the last fetched epoch and what diverges.
 * - v13 names topics by id. v15 moves the replica id into a tagged field.
 *
 * Errors of the whole request: FETCH_SESSION_ID_NOT_FOUND (a session that goes on), INVALID_REQUEST (an unknown isolation
 * level). Per partition: UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, OFFSET_OUT_OF_RANGE, FENCED_LEADER_EPOCH,
 * UNKNOWN_LEADER_EPOCH, KAFKA_STORAGE_ERROR, CORRUPT_MESSAGE, NOT_LEADER_OR_FOLLOWER (to replicas, of which there are none), and
 * UNSUPPORTED_VERSION for read_committed on a partition with transactional data, which this version cannot judge.
 */
import type { Partition } from '../../log/partition.ts';
import { KafkaError } from '../../protocol/errors.ts';
import { encodeFetchResponse, type FetchPartitionResult, FetchRequestReader } from '../../protocol/fetch.ts';
import type { BrokerContext } from '../context.ts';
import type { FetchResult, FetchTarget } from '../fetch-read.ts';
import { PendingFetch } from '../pending-fetch.ts';
import type { Request } from '../request.ts';
import type { HandlerRow } from './handler.ts';

const FIRST_WITH_TOPIC_ID = 13;
const VERSIONS = [4, 18] as const;
const NO_RECORDS = new Uint8Array(0);
/** Session epoch of a fetch that wants no session, or ends one. */
const FINAL_EPOCH = -1;
/** Session epoch of a fetch that begins a session. */
const INITIAL_EPOCH = 0;

/** Used up before the call that fills it returns. */
const message = new FetchRequestReader();

/** Where the topics of a fetch end among its partitions. */
interface TopicRange {
  readonly topic: string;
  readonly end: number;
}

function handle(request: Request, broker: BrokerContext): void {
  const { version } = request;
  message.read(request.body(), version);
  const goesOn = message.sessionEpoch !== FINAL_EPOCH && message.sessionEpoch !== INITIAL_EPOCH;
  if (goesOn) {
    refuse(request, KafkaError.FETCH_SESSION_ID_NOT_FOUND);
    return;
  }
  if (message.isolationLevel !== 0 && message.isolationLevel !== 1) {
    refuse(request, KafkaError.INVALID_REQUEST);
    return;
  }
  const readCommitted = message.isolationLevel === 1;
  const topics: TopicRange[] = [];
  const targets: FetchTarget[] = [];
  for (let t = 0, p = 0; t < message.topicCount; t++) {
    const topic = message.topics[t]!;
    for (; p < message.partitionEnds[t]!; p++) targets.push(target(topic, p, version, broker));
    topics.push({ topic, end: p });
  }
  const options = {
    isolation: readCommitted ? ('read_committed' as const) : ('read_uncommitted' as const),
    maxBytes: Math.min(message.maxBytes, broker.config.number('fetch.max.bytes')),
    minBytes: message.minBytes,
    maxWaitMs: message.maxWaitMs,
  };
  const pending = new PendingFetch(request, targets, options, broker.fetches, broker.clock, (reading) => {
    for (const { partition, offset, error } of reading.broken) {
      const { topic, index } = partition;
      broker.log.error(
        { topic, partition: index, offset, reason: error.message },
        'a partition cannot be read',
      );
    }
    answer(request, topics, reading.results, readCommitted);
  });
  pending.start();
}

/** Partition p of the request. */
function target(topic: string, p: number, version: number, broker: BrokerContext): FetchTarget {
  const index = message.partitions[p]!;
  const byId = version >= FIRST_WITH_TOPIC_ID;
  let partition: Partition | undefined;
  let missingCode: number = byId ? KafkaError.UNKNOWN_TOPIC_ID : KafkaError.UNKNOWN_TOPIC_OR_PARTITION;
  if (message.replicaId >= 0) missingCode = KafkaError.NOT_LEADER_OR_FOLLOWER;
  else {
    partition = byId ? broker.partitionById(topic, index) : broker.partition(topic, index);
    if (partition === undefined) {
      const name = byId ? broker.image.topicsById.get(topic)?.name : topic;
      if (name !== undefined) missingCode = broker.missingCode(name, index);
    }
  }
  return {
    index,
    partition,
    missingCode,
    fetchOffset: message.fetchOffsets[p]!,
    maxBytes: message.partitionMaxBytes[p]!,
    currentLeaderEpoch: message.currentLeaderEpochs[p]!,
    lastFetchedEpoch: message.lastFetchedEpochs[p]!,
  };
}

function refuse(request: Request, errorCode: number): void {
  const result = { throttleTimeMs: 0, errorCode, sessionId: 0, responses: [] };
  request.replyParts((writer) => encodeFetchResponse(writer, request.version, result, 0));
}

function answer(
  request: Request,
  topics: readonly TopicRange[],
  results: readonly FetchResult[],
  readCommitted: boolean,
): void {
  let at = 0;
  const responses = topics.map(({ topic, end }) => {
    const partitions: FetchPartitionResult[] = [];
    for (; at < end; at++) partitions.push(partitionAnswer(results[at]!, readCommitted));
    return { topic, partitions };
  });
  const result = { throttleTimeMs: 0, errorCode: KafkaError.NONE, sessionId: 0, responses };
  request.replyParts((writer) => encodeFetchResponse(writer, request.version, result, 0));
}

function partitionAnswer(result: FetchResult, readCommitted: boolean): FetchPartitionResult {
  const { index, errorCode, highWatermark, lastStableOffset, logStartOffset, divergingEpoch } = result;
  return {
    partitionIndex: index,
    errorCode,
    highWatermark,
    lastStableOffset,
    logStartOffset,
    ...(divergingEpoch === undefined ? {} : { divergingEpoch }),
    abortedTransactions: readCommitted ? [] : null,
    records: result.records ?? NO_RECORDS,
  };
}

export const fetch: HandlerRow = {
  key: 1,
  name: 'Fetch',
  served: VERSIONS,
  advertised: VERSIONS,
  overlaps: false,
  authorisation: { operation: 'READ', resource: 'TOPIC' },
  handle,
};

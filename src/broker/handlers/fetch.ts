/**
 * Fetch (key 1), versions 4-18: records from an offset on, up to the high watermark or, under read_committed, the last stable
 * offset. Waits until there are min bytes, or max wait has passed, or another request arrives on the connection. The first
 * batch found is always sent whole; the rest keeps to the client's limits and to fetch.max.bytes.
 *
 * - v5 adds the log start offset, v7 sessions (KIP-227), v9 leader epochs, v11 the rack, v12 the last fetched epoch and what
 *   diverges. v13 names topics by id. v15 moves the replica id into a tagged field.
 * - Session epoch 0 asks for all that is named and opens a session, -1 opens none; both close the session that they name.
 *   Any other goes on with a session: it is answered with what is new.
 *
 * Errors of the whole request: FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH (also to a fetch that waits while its
 * session is asked again), FETCH_SESSION_TOPIC_ID_ERROR (ids in a session that goes by names, or the reverse), INVALID_REQUEST
 * (an unknown isolation level). Per partition: UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, OFFSET_OUT_OF_RANGE,
 * FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, KAFKA_STORAGE_ERROR, CORRUPT_MESSAGE, NOT_LEADER_OR_FOLLOWER (to replicas, of
 * which there are none).
 */
import { KafkaError } from '../../protocol/errors.ts';
import {
  encodeFetchResponse,
  type FetchPartitionResult,
  FetchRequestReader,
  type FetchTopicResult,
} from '../../protocol/fetch.ts';
import type { BrokerContext } from '../context.ts';
import type { FetchResult, FetchTarget, Reading } from '../fetch-read.ts';
import {
  type FetchSession,
  FINAL_EPOCH,
  INITIAL_EPOCH,
  nextEpoch,
  type PartitionRequest,
  type ResolvePartition,
  type SessionNews,
  type SessionPartition,
} from '../fetch-session.ts';
import { NO_SESSION } from '../fetch-session-cache.ts';
import { type FetchOptions, type FetchScope, PendingFetch, scopeOf } from '../pending-fetch.ts';
import type { Request } from '../request.ts';
import type { HandlerRow } from './handler.ts';

const FIRST_WITH_TOPIC_ID = 13;
const VERSIONS = [4, 18] as const;

/** Used up before the call that fills it returns. */
const message = new FetchRequestReader();

function handle(request: Request, broker: BrokerContext): void {
  message.read(request.body(), request.version);
  if (message.isolationLevel !== 0 && message.isolationLevel !== 1) {
    refuse(request, KafkaError.INVALID_REQUEST);
    return;
  }
  const { sessionId, sessionEpoch } = message;
  if (sessionEpoch === INITIAL_EPOCH || sessionEpoch === FINAL_EPOCH) {
    broker.sessions.remove(sessionId);
    fetchAll(request, broker, sessionEpoch === INITIAL_EPOCH);
  } else fetchNews(request, broker);
}

function optionsOf(broker: BrokerContext): FetchOptions {
  const maxBytes = Math.min(message.maxBytes, broker.config.number('fetch.max.bytes'));
  return {
    isolation: message.isolationLevel === 1 ? 'read_committed' : 'read_uncommitted',
    maxBytes,
    // More than can be sent is not waited for.
    minBytes: Math.min(message.minBytes, maxBytes),
    maxWaitMs: message.maxWaitMs,
  };
}

// --- without a session, or to open one ---

/** Where the topics of a fetch end among its partitions. */
interface TopicRange {
  readonly topic: string;
  readonly end: number;
}

function fetchAll(request: Request, broker: BrokerContext, opensSession: boolean): void {
  const byId = request.version >= FIRST_WITH_TOPIC_ID;
  const replica = message.replicaId >= 0;
  const resolve = resolver(broker, byId, replica);
  const topics = new Array<TopicRange>(message.topicCount);
  const targets = new Array<FetchTarget>(message.partitionCount);
  for (let t = 0, p = 0; t < topics.length; t++) {
    const topic = message.topics[t]!;
    for (; p < message.partitionEnds[t]!; p++) targets[p] = target(topic, p, resolve);
    topics[t] = { topic, end: p };
  }
  const options = optionsOf(broker);
  const { isolation } = options;
  const answer = (_: readonly FetchTarget[], reading: Reading): void => {
    logBroken(reading, broker);
    let sessionId = NO_SESSION;
    if (opensSession) {
      const first = { asked: targets, forgotten: [], isolation };
      const session = broker.sessions.create(byId, replica, resolve, first);
      session?.tell(
        targets.map(({ topic, index }) => session.find(topic, index)!),
        reading.results,
      );
      sessionId = session?.id ?? NO_SESSION;
    }
    reply(request, sessionId, inOrder(topics, reading.results));
  };
  new PendingFetch(request, scopeOf(targets), options, broker.fetches, broker.clock, answer).start();
}

function inOrder(topics: readonly TopicRange[], results: readonly FetchResult[]): FetchTopicResult[] {
  let at = 0;
  return topics.map(({ topic, end }) => {
    const partitions = results.slice(at, end);
    at = end;
    return { topic, partitions };
  });
}

/** Finds partitions for clients, who name topics by id or not; for a replica there are none. The code beside one that is there
 * is for when it goes away. */
function resolver(broker: BrokerContext, byId: boolean, replica: boolean): ResolvePartition {
  if (replica) return () => ({ partition: undefined, missingCode: KafkaError.NOT_LEADER_OR_FOLLOWER });
  return (topic, index) => {
    const partition = byId ? broker.partitionById(topic, index) : broker.partition(topic, index);
    let missingCode: number = byId ? KafkaError.UNKNOWN_TOPIC_ID : KafkaError.UNKNOWN_TOPIC_OR_PARTITION;
    if (partition === undefined) {
      const name = byId ? broker.image.topicsById.get(topic)?.name : topic;
      if (name !== undefined) missingCode = broker.missingCode(name, index);
    }
    return { partition, missingCode };
  };
}

/** Partition p of the request, for one fetch. */
function target(topic: string, p: number, resolve: ResolvePartition): FetchTarget {
  const index = message.partitions[p]!;
  const { partition, missingCode } = resolve(topic, index);
  return {
    topic,
    index,
    partition,
    missingCode,
    fetchOffset: message.fetchOffsets[p]!,
    maxBytes: message.partitionMaxBytes[p]!,
    currentLeaderEpoch: message.currentLeaderEpochs[p]!,
    lastFetchedEpoch: message.lastFetchedEpochs[p]!,
  };
}

/** What is asked of partition p of the request. */
function asked(topic: string, p: number): PartitionRequest {
  return {
    topic,
    index: message.partitions[p]!,
    fetchOffset: message.fetchOffsets[p]!,
    maxBytes: message.partitionMaxBytes[p]!,
    currentLeaderEpoch: message.currentLeaderEpochs[p]!,
    lastFetchedEpoch: message.lastFetchedEpochs[p]!,
  };
}

// --- with a session ---

function* askedPartitions(): Generator<PartitionRequest> {
  for (let t = 0, p = 0; t < message.topicCount; t++) {
    for (; p < message.partitionEnds[t]!; p++) yield asked(message.topics[t]!, p);
  }
}

function* forgottenPartitions(): Generator<readonly [string, number]> {
  for (let t = 0, p = 0; t < message.forgottenTopicCount; t++) {
    for (; p < message.forgottenPartitionEnds[t]!; p++) {
      yield [message.forgottenTopics[t]!, message.forgottenPartitions[p]!];
    }
  }
}

function fetchNews(request: Request, broker: BrokerContext): void {
  const session = broker.sessions.get(message.sessionId);
  if (session === undefined) {
    refuse(request, KafkaError.FETCH_SESSION_ID_NOT_FOUND);
    return;
  }
  if (session.epoch !== message.sessionEpoch) {
    refuse(request, KafkaError.INVALID_FETCH_SESSION_EPOCH);
    return;
  }
  if (session.byId !== request.version >= FIRST_WITH_TOPIC_ID) {
    refuse(request, KafkaError.FETCH_SESSION_TOPIC_ID_ERROR);
    return;
  }
  const options = optionsOf(broker);
  const { isolation } = options;
  const state = broker.sessions.update(session, {
    asked: askedPartitions(),
    forgotten: forgottenPartitions(),
    isolation,
  });
  if (state === 'too-large') refuse(request, KafkaError.FETCH_SESSION_ID_NOT_FOUND);
  else if (state === 'empty') fetchAll(request, broker, false);
  else {
    session.epoch = nextEpoch(session.epoch);
    const { epoch } = session;
    const answer = (targets: readonly SessionPartition[], reading: Reading): void => {
      logBroken(reading, broker);
      // Asked again meanwhile: what would be told here counts as told to nobody.
      if (session.epoch !== epoch) refuse(request, KafkaError.INVALID_FETCH_SESSION_EPOCH, session.id);
      else {
        const news = session.tell(targets, reading.results);
        reply(request, session.id, inGroups(news));
      }
    };
    new PendingFetch(request, scopeOfSession(session), options, broker.fetches, broker.clock, answer).start();
  }
}

function scopeOfSession(session: FetchSession): FetchScope<SessionPartition> {
  return {
    empty: false,
    targets: () => session.targets(),
    watched: (targets, results) => {
      session.rest(targets, results);
      return [session];
    },
  };
}

/** As in Kafka, the order of partitions is kept: those of one topic are together where they follow each other. */
function inGroups(news: readonly SessionNews[]): FetchTopicResult[] {
  const topics: { topic: string; partitions: FetchPartitionResult[] }[] = [];
  for (const { topic, result } of news) {
    let last = topics.at(-1);
    if (last?.topic !== topic) {
      last = { topic, partitions: [] };
      topics.push(last);
    }
    last.partitions.push(result);
  }
  return topics;
}

// --- answers ---

function logBroken(reading: Reading, broker: BrokerContext): void {
  for (const { partition, offset, error } of reading.broken) {
    const { topic, index } = partition;
    broker.log.error(
      { topic, partition: index, offset, reason: error.message },
      'a partition cannot be read',
    );
  }
}

function refuse(request: Request, errorCode: number, sessionId = NO_SESSION): void {
  const result = { throttleTimeMs: 0, errorCode, sessionId, responses: [] };
  request.replyParts((writer) => encodeFetchResponse(writer, request.version, result, 0));
}

function reply(request: Request, sessionId: number, responses: readonly FetchTopicResult[]): void {
  const result = { throttleTimeMs: 0, errorCode: KafkaError.NONE, sessionId, responses };
  request.replyParts((writer) => encodeFetchResponse(writer, request.version, result, 0));
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

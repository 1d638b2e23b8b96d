/**
 * ListOffsets (key 2), versions 1-11: where a partition begins and ends, and which offset belongs to a time.
 *
 * - v2 adds the isolation level: "latest" is then the last stable offset.
 * - v4 adds leader epochs, the client's and the one of the record that was found.
 * - v7 adds the offset with the largest timestamp (-3), v8 the earliest local offset (-4), v9 the latest tiered offset
 *   (-5), v11 the earliest offset that waits for tiering (-6). Nothing is tiered here: -4 is the start of the log, and
 *   -5 and -6 are unknown (-1).
 * - v10 adds a timeout, which concerns tiered storage alone.
 *
 * Errors, per partition: UNKNOWN_TOPIC_OR_PARTITION, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, UNSUPPORTED_VERSION (a
 * special timestamp that the version does not have), INVALID_REQUEST (a partition twice, an unknown isolation level),
 * KAFKA_STORAGE_ERROR.
 */
import type { Partition } from '../../log/partition.ts';
import { findByTime, findMaxTimestamp, type TimedOffset } from '../../log/time-search.ts';
import { KafkaError, kafkaCodeOf } from '../../protocol/errors.ts';
import {
  type ListOffsetsRequest,
  type ListOffsetsRequestListOffsetsPartition,
  type ListOffsetsResponseListOffsetsPartitionResponseInput,
  readListOffsetsRequest,
  writeListOffsetsResponse,
} from '../../protocol/generated/ListOffsets.ts';
import type { BrokerContext } from '../context.ts';
import { leaderEpochFault } from '../leader-epoch.ts';
import type { Request } from '../request.ts';
import type { HandlerRow } from './handler.ts';

const VERSIONS = [1, 11] as const;

/** Timestamps that name an offset instead of a time. */
const LATEST = -1;
const EARLIEST = -2;
const MAX_TIMESTAMP = -3;
const EARLIEST_LOCAL = -4;
const LATEST_TIERED = -5;
const EARLIEST_PENDING_UPLOAD = -6;

/** First version that has each special timestamp. */
const SINCE = new Map([
  [LATEST, 1],
  [EARLIEST, 1],
  [MAX_TIMESTAMP, 7],
  [EARLIEST_LOCAL, 8],
  [LATEST_TIERED, 9],
  [EARLIEST_PENDING_UPLOAD, 11],
]);

type Answer = ListOffsetsResponseListOffsetsPartitionResponseInput;

interface Found {
  readonly offset: number;
  /** Of the record that was found, ms; -1 for the ends of the log. */
  readonly timestamp: number;
  readonly leaderEpoch: number;
}

const NOTHING: Found = { offset: -1, timestamp: -1, leaderEpoch: -1 };

function found(partition: Partition, record: TimedOffset | undefined): Found {
  return record === undefined ? NOTHING : { ...record, leaderEpoch: partition.epochs.epochOf(record.offset) };
}

async function find(partition: Partition, timestamp: number, upTo: number): Promise<Found> {
  const { epochs, log, logStartOffset } = partition;
  switch (timestamp) {
    case LATEST:
      return { offset: upTo, timestamp: -1, leaderEpoch: epochs.latest?.epoch ?? -1 };
    case EARLIEST:
    case EARLIEST_LOCAL:
      return { offset: logStartOffset, timestamp: -1, leaderEpoch: epochs.epochOf(logStartOffset) };
    case LATEST_TIERED:
    case EARLIEST_PENDING_UPLOAD:
      return NOTHING;
    case MAX_TIMESTAMP:
      return found(partition, await findMaxTimestamp(log, logStartOffset, upTo));
    default:
      return found(partition, await findByTime(log, timestamp, logStartOffset, upTo));
  }
}

async function list(
  asked: ListOffsetsRequestListOffsetsPartition,
  topic: string,
  message: ListOffsetsRequest,
  version: number,
  broker: BrokerContext,
): Promise<Answer> {
  const { partitionIndex, timestamp, currentLeaderEpoch } = asked;
  const refuse = (errorCode: number): Answer => ({ partitionIndex, errorCode, timestamp: -1, offset: -1 });
  if (message.isolationLevel !== 0 && message.isolationLevel !== 1) return refuse(KafkaError.INVALID_REQUEST);
  if (timestamp < 0 && version < (SINCE.get(timestamp) ?? Number.POSITIVE_INFINITY)) {
    return refuse(KafkaError.UNSUPPORTED_VERSION);
  }
  const partition = broker.partition(topic, partitionIndex);
  if (partition === undefined) return refuse(broker.missingCode(topic, partitionIndex));
  if (partition.offline !== undefined) return refuse(KafkaError.KAFKA_STORAGE_ERROR);
  const fault = leaderEpochFault(partition, currentLeaderEpoch);
  if (fault !== KafkaError.NONE) return refuse(fault);
  const upTo = message.isolationLevel === 1 ? partition.lastStableOffset : partition.highWatermark;
  try {
    const { offset, timestamp: time, leaderEpoch } = await find(partition, timestamp, upTo);
    return {
      partitionIndex,
      errorCode: KafkaError.NONE,
      timestamp: time,
      offset,
      ...(version >= 4 ? { leaderEpoch } : {}),
    };
  } catch (error) {
    if (partition.deleted) return refuse(KafkaError.UNKNOWN_TOPIC_OR_PARTITION);
    broker.log.warn(
      { topic, partition: partitionIndex, timestamp, error: String(error) },
      'an offset could not be looked up',
    );
    return refuse(kafkaCodeOf(error));
  }
}

async function handle(request: Request, broker: BrokerContext): Promise<void> {
  const { version } = request;
  const message = readListOffsetsRequest(request.body(), version);
  const topics = await Promise.all(
    message.topics.map(async ({ name, partitions }) => {
      const times = new Map<number, number>();
      for (const { partitionIndex } of partitions) {
        times.set(partitionIndex, (times.get(partitionIndex) ?? 0) + 1);
      }
      const answers: (Answer | Promise<Answer>)[] = [];
      for (const asked of partitions) {
        const { partitionIndex } = asked;
        const count = times.get(partitionIndex) ?? 0;
        if (count === 1) answers.push(list(asked, name, message, version, broker));
        // Asked for more than once: one refusal for all of them.
        else if (count > 1) {
          times.set(partitionIndex, 0);
          answers.push({ partitionIndex, errorCode: KafkaError.INVALID_REQUEST, timestamp: -1, offset: -1 });
        }
      }
      return { name, partitions: await Promise.all(answers) };
    }),
  );
  request.reply((writer) => writeListOffsetsResponse(writer, version, { topics }));
}

export const listOffsets: HandlerRow = {
  key: 2,
  name: 'ListOffsets',
  served: VERSIONS,
  advertised: VERSIONS,
  overlaps: false,
  authorisation: { operation: 'DESCRIBE', resource: 'TOPIC' },
  handle,
};

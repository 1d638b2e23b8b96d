/**
 * DeleteRecords (key 21), versions 0-2: moves the start of logs up to an offset; what lies below is never read again. The
 * answer comes when the new start outlives a kill. An offset of -1 means the high watermark; one below the start changes
 * nothing and is answered with the start. All versions mean the same.
 *
 * Errors, per partition: UNKNOWN_TOPIC_OR_PARTITION, OFFSET_OUT_OF_RANGE (past the high watermark, or negative),
 * POLICY_VIOLATION (the topic is compacted and nothing else), INVALID_TOPIC_EXCEPTION (a coordinator's topic),
 * KAFKA_STORAGE_ERROR.
 */
import { INTERNAL_TOPICS } from '../../metadata/topic-names.ts';
import { KafkaError, kafkaCodeOf } from '../../protocol/errors.ts';
import {
  readDeleteRecordsRequest,
  writeDeleteRecordsResponse,
} from '../../protocol/generated/DeleteRecords.ts';
import type { BrokerContext } from '../context.ts';
import type { Request } from '../request.ts';
import type { HandlerRow } from './handler.ts';

const VERSIONS = [0, 2] as const;
const HIGH_WATERMARK = -1;
const UNKNOWN_OFFSET = -1;

interface Outcome {
  readonly errorCode: number;
  readonly lowWatermark: number;
}

function refuse(errorCode: number): Outcome {
  return { errorCode, lowWatermark: UNKNOWN_OFFSET };
}

function deleteUpTo(topic: string, index: number, asked: number, broker: BrokerContext): Outcome {
  if (INTERNAL_TOPICS.has(topic)) return refuse(KafkaError.INVALID_TOPIC_EXCEPTION);
  const partition = broker.partition(topic, index);
  if (partition === undefined) return refuse(broker.missingCode(topic, index));
  if (partition.offline !== undefined) return refuse(KafkaError.KAFKA_STORAGE_ERROR);
  if (!partition.config.cleanupPolicy.includes('delete')) return refuse(KafkaError.POLICY_VIOLATION);
  const offset = asked === HIGH_WATERMARK ? partition.highWatermark : asked;
  if (offset < 0 || offset > partition.highWatermark) return refuse(KafkaError.OFFSET_OUT_OF_RANGE);
  try {
    partition.setLogStartOffset(offset);
  } catch (error) {
    return refuse(kafkaCodeOf(error));
  }
  return { errorCode: KafkaError.NONE, lowWatermark: partition.logStartOffset };
}

async function handle(request: Request, broker: BrokerContext): Promise<void> {
  const { version } = request;
  const message = readDeleteRecordsRequest(request.body(), version);
  // Of a partition that comes twice, the last offset counts, as in Kafka.
  const asked = new Map<string, Map<number, number>>();
  for (const { name, partitions } of message.topics) {
    const offsets = asked.get(name) ?? new Map<number, number>();
    for (const { partitionIndex, offset } of partitions) offsets.set(partitionIndex, offset);
    if (offsets.size > 0) asked.set(name, offsets);
  }
  const outcomes = [...asked].map(([name, offsets]) => ({
    name,
    partitions: [...offsets].map(([partitionIndex, offset]) => ({
      partitionIndex,
      ...deleteUpTo(name, partitionIndex, offset, broker),
    })),
  }));
  let fault: number = KafkaError.NONE;
  // Also where no start moved: another request may have moved it just now, or could not write that down.
  if (outcomes.some(({ partitions }) => partitions.some(({ errorCode }) => errorCode === KafkaError.NONE))) {
    try {
      await broker.checkpointLogStarts();
    } catch (error) {
      broker.log.error({ error: String(error) }, 'where logs start could not be written down');
      fault = kafkaCodeOf(error);
    }
  }
  const topics = outcomes.map(({ name, partitions }) => ({
    name,
    partitions: partitions.map(({ partitionIndex, errorCode, lowWatermark }) =>
      errorCode !== KafkaError.NONE || fault === KafkaError.NONE
        ? { partitionIndex, errorCode, lowWatermark }
        : { partitionIndex, errorCode: fault, lowWatermark: UNKNOWN_OFFSET },
    ),
  }));
  request.reply((writer) => writeDeleteRecordsResponse(writer, version, { throttleTimeMs: 0, topics }));
}

export const deleteRecords: HandlerRow = {
  key: 21,
  name: 'DeleteRecords',
  served: VERSIONS,
  advertised: VERSIONS,
  overlaps: false,
  authorisation: { operation: 'DELETE', resource: 'TOPIC' },
  handle,
};

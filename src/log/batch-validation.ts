/**
 * What a Produce may append to a partition: one batch, judged as Kafka judges it, or more strictly where Kafka would store
 * nonsense or fail without a reason (docs/DIFFERENCES.md, "Produce"). The engine's inspector walks uncompressed batches
 * in one call; a compressed one is unpacked here, within max.decompressed.message.bytes, and then walked by it.
 */
import type { TopicConfig } from '../config/topic-config.ts';
import {
  type CompressionName,
  compress,
  compressionId,
  compressionName,
  decompress,
} from '../protocol/compression.ts';
import {
  ATTRIBUTE_COMPRESSION,
  ATTRIBUTE_CONTROL,
  ATTRIBUTE_LOG_APPEND_TIME,
  ATTRIBUTE_TRANSACTIONAL,
  ATTRIBUTES_AT,
  BATCH_HEADER_BYTES,
  BATCH_LENGTH_AT,
  LOG_OVERHEAD_BYTES,
  MAGIC_AT,
} from '../protocol/records/batch.ts';
import { frameBytes } from '../protocol/records/reader.ts';
import { BroadsheetError, type ErrorCode } from '../runtime/errors.ts';
import { type BatchFacts, type BatchInspector, type Mutable, noFacts } from './batch-inspector.ts';
import type { BatchInfo } from './log.ts';

/** The topic configs that say what may be produced. */
export type ProduceRules = Pick<
  TopicConfig,
  | 'cleanupPolicy'
  | 'maxMessageBytes'
  | 'maxDecompressedMessageBytes'
  | 'compressionType'
  | 'compressionGzipLevel'
  | 'compressionZstdLevel'
  | 'messageTimestampType'
  | 'messageTimestampBeforeMaxMs'
  | 'messageTimestampAfterMaxMs'
>;

/** One record to blame, by its index in the batch. */
export interface RecordFault {
  readonly batchIndex: number;
  readonly message: string;
}

/** A batch refused for what single records in it are: the first of each kind of fault, where Kafka names all. */
export class RecordsRefused extends BroadsheetError {
  readonly recordFaults: readonly RecordFault[];

  constructor(code: ErrorCode, recordFaults: readonly RecordFault[]) {
    super(code, recordFaults.map(({ message }) => message).join('; '));
    this.recordFaults = recordFaults;
  }
}

/** A batch that may be appended. The object is used again by the next validation: read it at once. */
export interface ProducedBatch extends BatchInfo {
  /** The bytes to store, where compression.type wants another codec than the producer's: they are not those handed in. */
  readonly recoded: Uint8Array | undefined;
}

const MAGIC = 2;
const NO_TIMESTAMP = -1;

/**
 * Judges what a producer sent for one partition, in a request with a transactional id or without, and makes it what is to be stored: timestamp
 * type, largest timestamp and CRC are patched in place where the topic wants them otherwise; another codec makes new bytes. `now` is in ms since the
 * epoch. The facts returned have base offset 0 and the patched values.
 *
 * Throws BATCH_CORRUPT, BATCH_INVALID, BATCH_TOO_LARGE, TIMESTAMP_INVALID and TRANSACTION_REFUSED; RecordsRefused where
 * single records are to blame.
 */
export function validateProduced(
  bytes: Uint8Array,
  start: number,
  end: number,
  rules: ProduceRules,
  now: number,
  inspector: BatchInspector,
  hasTransactionalId = false,
): ProducedBatch {
  const attributes = peekAttributes(bytes, start, end);
  const transactional = (attributes & ATTRIBUTE_TRANSACTIONAL) !== 0;
  if (transactional && !hasTransactionalId && holdsOneBatch(bytes, start, end)) {
    throw new BroadsheetError(
      'TRANSACTION_REFUSED',
      'a transactional batch in a request without a transactional id',
    );
  }
  // Records of a batch with the flag have its time, not their own.
  const flagged = (attributes & ATTRIBUTE_LOG_APPEND_TIME) !== 0;
  const stamps = rules.messageTimestampType === 'LogAppendTime';
  const bounded = !stamps && !flagged;
  const oldest = bounded ? now - rules.messageTimestampBeforeMaxMs : -Infinity;
  const newest = bounded ? now + rules.messageTimestampAfterMaxMs : Infinity;

  const facts = inspector.inspectBatch(bytes, start, end, rules.maxMessageBytes, oldest, newest);
  if (facts.fault !== undefined && !facts.walked) throw facts.fault;
  const info = infoOf(facts);
  const size = info.sizeInBytes;
  if ((info.attributes & ATTRIBUTE_CONTROL) !== 0) {
    throw new BroadsheetError('BATCH_INVALID', 'clients may not write control records');
  }
  let unpacked: Uint8Array | undefined;
  if (!facts.walked) {
    const { baseTimestamp } = facts;
    const codec = compressionName(facts.compression);
    const records = unpack(codec, bytes.subarray(start + BATCH_HEADER_BYTES, start + size), rules);
    unpacked = records;
    inspector.walkRecords(records, 0, records.length, info.recordCount, baseTimestamp, oldest, newest);
  }
  refuse(facts, rules, now);
  if (flagged) checkStamp(info.maxTimestamp, stamps, rules, now);

  const maxTimestamp = stamps ? now : flagged ? info.maxTimestamp : facts.recordsMaxTimestamp;
  const stamp = stamps ? ATTRIBUTE_LOG_APPEND_TIME : 0;
  const target = targetCodec(rules.compressionType, info.attributes);
  if (target !== (info.attributes & ATTRIBUTE_COMPRESSION)) {
    const records = unpacked ?? bytes.subarray(start + BATCH_HEADER_BYTES, start + size);
    const recoded = recode(bytes.subarray(start, start + BATCH_HEADER_BYTES), records, target, rules);
    inspector.patchBatch(recoded, 0, recoded.length, stamps, maxTimestamp);
    info.maxTimestamp = maxTimestamp;
    info.attributes =
      (info.attributes & ~(ATTRIBUTE_COMPRESSION | ATTRIBUTE_LOG_APPEND_TIME)) | target | stamp;
    info.sizeInBytes = recoded.length;
    info.recoded = recoded;
    return info;
  }
  if (stamps === flagged && maxTimestamp === info.maxTimestamp) return info;
  inspector.patchBatch(bytes, start, start + size, stamps, maxTimestamp);
  info.maxTimestamp = maxTimestamp;
  info.attributes = (info.attributes & ~ATTRIBUTE_LOG_APPEND_TIME) | stamp;
  return info;
}

/** The id of the codec in which the topic stores a batch. */
function targetCodec(type: ProduceRules['compressionType'], attributes: number): number {
  if (type === 'producer') return attributes & ATTRIBUTE_COMPRESSION;
  return compressionId(type === 'uncompressed' ? 'none' : type);
}

/** The same records in another codec; the CRC is left to be patched. Throws BATCH_TOO_LARGE. */
function recode(header: Uint8Array, records: Uint8Array, target: number, rules: ProduceRules): Uint8Array {
  const codec = compressionName(target);
  const level = codec === 'gzip' ? rules.compressionGzipLevel : rules.compressionZstdLevel;
  const batch = Buffer.concat([header, compress(codec, records, level)]);
  if (batch.length > rules.maxMessageBytes) {
    throw new BroadsheetError(
      'BATCH_TOO_LARGE',
      `the batch has ${batch.length} bytes once compressed as compression.type=${rules.compressionType} wants, more ` +
        `than max.message.bytes=${rules.maxMessageBytes}`,
    );
  }
  batch.writeInt32BE(batch.length - LOG_OVERHEAD_BYTES, BATCH_LENGTH_AT);
  const attributes = batch.readInt16BE(ATTRIBUTES_AT);
  batch.writeInt16BE((attributes & ~ATTRIBUTE_COMPRESSION) | target, ATTRIBUTES_AT);
  return batch;
}

function unpack(codec: CompressionName, payload: Uint8Array, rules: ProduceRules): Uint8Array {
  const limit = rules.maxDecompressedMessageBytes;
  try {
    return decompress(codec, payload, limit);
  } catch (error) {
    if (!(error instanceof BroadsheetError) || error.code !== 'BATCH_TOO_LARGE') throw error;
    throw new BroadsheetError(
      'BATCH_TOO_LARGE',
      `the batch decompresses from ${payload.length} bytes to more than max.decompressed.message.bytes=${limit}`,
    );
  }
}

/** The attributes of what may be a batch: 0 where it is too short or old to be one. */
function peekAttributes(bytes: Uint8Array, start: number, end: number): number {
  if (end - start < BATCH_HEADER_BYTES || bytes[start + MAGIC_AT] !== MAGIC) return 0;
  return (bytes[start + ATTRIBUTES_AT]! << 8) | bytes[start + ATTRIBUTES_AT + 1]!;
}

function holdsOneBatch(bytes: Uint8Array, start: number, end: number): boolean {
  const first = frameBytes(bytes, start, end);
  return first !== undefined && frameBytes(bytes, start + first, end) === undefined;
}

const produced: Mutable<ProducedBatch> = { ...noFacts(), recoded: undefined };

function infoOf(facts: BatchFacts): Mutable<ProducedBatch> {
  produced.baseOffset = facts.baseOffset;
  produced.lastOffset = facts.lastOffset;
  produced.maxTimestamp = facts.maxTimestamp;
  produced.producerId = facts.producerId;
  produced.producerEpoch = facts.producerEpoch;
  produced.baseSequence = facts.baseSequence;
  produced.recordCount = facts.recordCount;
  produced.attributes = facts.attributes;
  produced.leaderEpoch = facts.leaderEpoch;
  produced.sizeInBytes = facts.sizeInBytes;
  produced.recoded = undefined;
  return produced;
}

/** Throws what the last walk over the records found, if it is a reason to refuse them. */
function refuse(facts: BatchFacts, rules: ProduceRules, now: number): void {
  const { fault, invalidIndex: invalid, invalidTimestamp, nullKeyIndex: keyless } = facts;
  if (fault !== undefined && fault.code !== 'TIMESTAMP_INVALID') {
    throw invalid < 0
      ? fault
      : new RecordsRefused(fault.code, [{ batchIndex: invalid, message: fault.message }]);
  }
  const faults: RecordFault[] = [];
  const needsKey = keyless >= 0 && rules.cleanupPolicy.includes('compact');
  if (needsKey) {
    faults.push({
      batchIndex: keyless,
      message: `record ${keyless}: a compacted topic takes no record without a key`,
    });
  }
  const badTimestamp = fault !== undefined && !(needsKey && invalid === keyless);
  if (badTimestamp)
    faults.push({ batchIndex: invalid, message: outOfBounds(invalid, invalidTimestamp, rules, now) });
  if (faults.length === 0) return;
  faults.sort((a, b) => a.batchIndex - b.batchIndex);
  // A wrong timestamp outweighs a missing key, as in Kafka.
  throw new RecordsRefused(badTimestamp ? 'TIMESTAMP_INVALID' : 'BATCH_INVALID', faults);
}

/** A producer that sets the log's flag gives all records one time. */
function checkStamp(timestamp: number, stamps: boolean, rules: ProduceRules, now: number): void {
  const refused = (message: string) => new RecordsRefused('TIMESTAMP_INVALID', [{ batchIndex: 0, message }]);
  if (stamps || timestamp === NO_TIMESTAMP)
    throw refused('record 0: a producer may not set the timestamp type LogAppendTime');
  if (
    timestamp < now - rules.messageTimestampBeforeMaxMs ||
    timestamp > now + rules.messageTimestampAfterMaxMs
  ) {
    throw refused(outOfBounds(0, timestamp, rules, now));
  }
}

/** What is wrong with the timestamp of a record, in words. */
function outOfBounds(index: number, timestamp: number, rules: ProduceRules, now: number): string {
  const { messageTimestampBeforeMaxMs: before, messageTimestampAfterMaxMs: after } = rules;
  const [how, limit] =
    timestamp < now
      ? [`${now - timestamp} ms before`, `message.timestamp.before.max.ms=${before}`]
      : [`${timestamp - now} ms after`, `message.timestamp.after.max.ms=${after}`];
  return `record ${index}: timestamp ${timestamp} is ${how} the broker's clock, ${now}: more than ${limit} allows`;
}

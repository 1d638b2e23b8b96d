/** Batches judged in JavaScript. Answers what native/record_batch.cc inspect_produced_batch answers. */
import { crc32c } from '../protocol/crc32c.ts';
import {
  ATTRIBUTE_COMPRESSION,
  ATTRIBUTE_LOG_APPEND_TIME,
  ATTRIBUTES_AT,
  BATCH_HEADER_BYTES,
  BATCH_LENGTH_AT,
  LOG_OVERHEAD_BYTES,
  MAGIC_AT,
} from '../protocol/records/batch.ts';
import { readInt64, writeInt64 } from '../protocol/records/int64.ts';
import { BroadsheetError } from '../runtime/errors.ts';
import { type BatchFacts, type BatchInspector, noFacts } from './batch-inspector.ts';
import { add, clearRecords, type Int64, int64At, toInt64, walkRecords } from './js-records.ts';

/** Of magic 0: crc, magic, attributes, key and value length. */
const SMALLEST_LENGTH = 14;
const MAGIC = 2;
const CRC_AT = 17;
const MAX_TIMESTAMP_AT = 35;
const DELETE_HORIZON = 0x40;

const facts = noFacts();

const corrupt = (message: string) => new BroadsheetError('BATCH_CORRUPT', message);
const invalid = (message: string) => new BroadsheetError('BATCH_INVALID', message);

function viewOf(bytes: Uint8Array, start: number, end: number): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset + start, end - start);
}

/** Whether [at, ...) begins with a whole batch or message of any magic, judged as Kafka's reader does; or why not. */
function frameAt(view: DataView, at: number): 'whole' | 'incomplete' | BroadsheetError {
  const available = view.byteLength - at;
  if (available < LOG_OVERHEAD_BYTES) return 'incomplete';
  const length = view.getInt32(at + BATCH_LENGTH_AT);
  if (length < SMALLEST_LENGTH) {
    return corrupt(`the batch length ${length} is less than the least possible, ${SMALLEST_LENGTH}`);
  }
  if (available <= MAGIC_AT) return 'incomplete';
  const magic = view.getInt8(at + MAGIC_AT);
  if (magic < 0 || magic > MAGIC) return corrupt(`the magic byte is ${magic}, expected 2`);
  return length > available - LOG_OVERHEAD_BYTES ? 'incomplete' : 'whole';
}

function fillHeader(view: DataView, size: number): void {
  const attributes = view.getUint16(ATTRIBUTES_AT);
  facts.baseOffset = readInt64(view, 0);
  facts.lastOffset = Number(add(int64At(view, 0), view.getInt32(23)));
  facts.baseTimestamp = readInt64(view, 27);
  facts.maxTimestamp = readInt64(view, MAX_TIMESTAMP_AT);
  facts.producerId = readInt64(view, 43);
  facts.producerEpoch = view.getInt16(51);
  facts.baseSequence = view.getInt32(53);
  facts.recordCount = view.getInt32(57);
  facts.attributes = attributes;
  facts.leaderEpoch = view.getInt32(12);
  facts.sizeInBytes = size;
  facts.compression = attributes & ATTRIBUTE_COMPRESSION;
}

function countFault(view: DataView): BroadsheetError | undefined {
  const { recordCount, producerId, baseSequence, compression, attributes } = facts;
  const delta = view.getInt32(23);
  if (recordCount <= 0) return invalid(`the record count is ${recordCount}`);
  if (delta !== recordCount - 1)
    return invalid(`the last offset delta ${delta} does not fit the record count ${recordCount}`);
  if (producerId >= 0 && baseSequence < 0)
    return invalid(`the base sequence is ${baseSequence}, with producer id ${int64At(view, 43)}`);
  if (compression > 4) return invalid(`compression codec ${compression} is unknown`);
  if ((attributes & DELETE_HORIZON) !== 0)
    return invalid("the delete horizon flag is not a producer's to set");
  return undefined;
}

/** All but the records. */
function headerFault(
  bytes: Uint8Array,
  start: number,
  view: DataView,
  maxMessageBytes: number,
): BroadsheetError | undefined {
  const first = frameAt(view, 0);
  if (first === 'incomplete') return invalid('the request holds no whole record batch for this partition');
  if (first !== 'whole') return first;
  const magic = view.getInt8(MAGIC_AT);
  if (magic !== MAGIC) return invalid(`the batch has magic ${magic}, this version takes 2 only`);
  const size = LOG_OVERHEAD_BYTES + view.getInt32(BATCH_LENGTH_AT);
  if (size >= BATCH_HEADER_BYTES) fillHeader(view, size);

  const behind = frameAt(view, size);
  if (behind === 'whole')
    return invalid('a produce request takes exactly one record batch per partition, this has more');
  if (behind !== 'incomplete') return corrupt(`behind the first batch: ${behind.message}`);

  const baseOffset = int64At(view, 0);
  if (baseOffset !== 0) return invalid(`the base offset is ${baseOffset}, a producer sends 0`);
  if (size > maxMessageBytes) {
    return new BroadsheetError(
      'BATCH_TOO_LARGE',
      `the batch has ${size} bytes, more than max.message.bytes=${maxMessageBytes}`,
    );
  }
  if (size < BATCH_HEADER_BYTES)
    return corrupt(`the batch has ${size} bytes, its header alone takes ${BATCH_HEADER_BYTES}`);
  if (view.getUint32(CRC_AT) !== crc32c(bytes, start + ATTRIBUTES_AT, start + size))
    return corrupt("the batch's CRC32C does not fit its content");
  return countFault(view);
}

export const jsInspector: BatchInspector = {
  inspectBatch(bytes, start, end, maxMessageBytes, oldest, newest): BatchFacts {
    const view = viewOf(bytes, start, end);
    facts.sizeInBytes = 0;
    facts.walked = false;
    clearRecords(facts);
    facts.fault = headerFault(bytes, start, view, maxMessageBytes);
    if (facts.fault !== undefined || facts.compression !== 0) return facts;
    facts.walked = true;
    const from = start + BATCH_HEADER_BYTES;
    const to = start + facts.sizeInBytes;
    const base: Int64 = int64At(view, 27);
    walkRecords(facts, bytes, from, to, facts.recordCount, base, toInt64(oldest), toInt64(newest));
    return facts;
  },

  walkRecords(records, start, end, count, baseTimestamp, oldest, newest): BatchFacts {
    const base = toInt64(baseTimestamp);
    walkRecords(facts, records, start, end, count, base, toInt64(oldest), toInt64(newest));
    return facts;
  },

  patchBatch(bytes, start, end, logAppendTime, maxTimestamp): void {
    const length = end - start;
    const view = viewOf(bytes, start, end);
    if (length < BATCH_HEADER_BYTES || view.getInt32(BATCH_LENGTH_AT) + LOG_OVERHEAD_BYTES !== length)
      throw new BroadsheetError('INVALID_ARGUMENT', 'start and end must hold exactly one batch');
    const attributes = view.getInt16(ATTRIBUTES_AT);
    view.setInt16(
      ATTRIBUTES_AT,
      logAppendTime ? attributes | ATTRIBUTE_LOG_APPEND_TIME : attributes & ~ATTRIBUTE_LOG_APPEND_TIME,
    );
    writeInt64(view, MAX_TIMESTAMP_AT, Math.trunc(maxTimestamp));
    view.setUint32(CRC_AT, crc32c(bytes, start + ATTRIBUTES_AT, end));
  },
};

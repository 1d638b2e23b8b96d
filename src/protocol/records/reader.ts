/**
 * Reads record batches from bytes as a consumer does: frame by frame, then record by record. It gets as far as Kafka's
 * reader gets: an incomplete batch at the end is left alone without a word, and the records before a broken one come out.
 */
import { BroadsheetError } from '../../runtime/errors.ts';
import { inflate } from '../compression.ts';
import type { RecordView } from './batch.ts';
import { BATCH_HEADER_BYTES, BATCH_LENGTH_AT, BatchHeader, LOG_OVERHEAD_BYTES, MAGIC_AT } from './batch.ts';
import { LegacyBatch, MIN_MESSAGE_BYTES } from './legacy.ts';
import { type RawRecord, readRecordBody } from './record-codec.ts';
import { EndOfRecords, VarintCursor } from './varint.ts';

const MAX_INT32 = 2 ** 31 - 1;
const CURRENT_MAGIC = 2;

/** A batch of magic 2. */
export class RecordBatch extends BatchHeader {
  /** Throws BATCH_CORRUPT if the batch is shorter than its header or its checksum is wrong. */
  ensureValid(): void {
    if (this.sizeInBytes < BATCH_HEADER_BYTES) {
      throw new BroadsheetError(
        'BATCH_CORRUPT',
        `a batch of ${this.sizeInBytes} bytes is shorter than its header of ${BATCH_HEADER_BYTES}`,
      );
    }
    if (!this.checksOut()) {
      throw new BroadsheetError(
        'BATCH_CORRUPT',
        `the CRC of the batch at offset ${this.baseOffset} is wrong`,
      );
    }
  }

  /** The records with their deltas as written, one by one. Throws BATCH_INVALID, BATCH_CORRUPT (payload does not
   * decompress) and BATCH_TOO_LARGE (past `limit` bytes decompressed). */
  *rawRecords(limit?: number): Generator<RawRecord> {
    const count = this.recordCount;
    if (count === 0) return;
    const payload = this.bytes.subarray(this.start + BATCH_HEADER_BYTES, this.start + this.sizeInBytes);
    const { bytes, fault } = inflate(this.compression, payload, limit);
    if (count < 0) throw new BroadsheetError('BATCH_INVALID', `a batch of ${count} records`);
    const cursor = new VarintCursor(bytes, 0, bytes.length);
    for (let index = 0; index < count; index++) {
      const size = recordSize(cursor, index, count, fault);
      const record = readRecordBody(cursor, size, index);
      if (index === count - 1) {
        if (cursor.at < cursor.end) {
          throw new BroadsheetError(
            'BATCH_INVALID',
            `bytes are left after the ${count} records of the batch`,
          );
        }
        if (fault !== undefined) throw fault;
      }
      yield record;
    }
  }

  /** The records as a consumer sees them. Throws as rawRecords. */
  *records(limit?: number): Generator<RecordView> {
    const { baseOffset, baseTimestamp } = this;
    const appended = this.timestampType === 'LogAppendTime' ? this.maxTimestamp : undefined;
    for (const raw of this.rawRecords(limit)) {
      yield {
        offset: baseOffset + raw.offsetDelta,
        timestamp: appended ?? baseTimestamp + raw.timestampDelta,
        key: raw.key,
        value: raw.value,
        headers: raw.headers,
      };
    }
  }
}

function recordSize(
  cursor: VarintCursor,
  index: number,
  count: number,
  fault: BroadsheetError | undefined,
): number {
  try {
    const size = cursor.varint();
    if (size <= cursor.end - cursor.at) return size;
  } catch (error) {
    if (error instanceof BroadsheetError) {
      throw new BroadsheetError('BATCH_INVALID', `the length of record ${index} does not parse`, 0, {
        cause: error,
      });
    }
    if (!(error instanceof EndOfRecords)) throw error;
  }
  throw fault ?? new BroadsheetError('BATCH_INVALID', `the batch ends within record ${index} of ${count}`);
}

/** The batches of bytes[start, end), complete ones only. Old messages (magic 0 and 1) come out as LegacyBatch. Throws
 * BATCH_CORRUPT where no frame can be told. */
export function* readBatches(
  bytes: Uint8Array,
  start = 0,
  end = bytes.length,
): Generator<RecordBatch | LegacyBatch> {
  for (let at = start; ; ) {
    const size = frameBytes(bytes, at, end);
    if (size === undefined) return;
    const magic = bytes[at + MAGIC_AT]!;
    if (magic < CURRENT_MAGIC) yield new LegacyBatch(bytes, at);
    else yield headerAt(bytes, at, at + size);
    at += size;
  }
}

/** A batch shorter than a header is given one of zeros behind it, so that its fields can be asked for. */
function headerAt(bytes: Uint8Array, start: number, end: number): RecordBatch {
  if (end - start >= BATCH_HEADER_BYTES) return new RecordBatch(bytes, start);
  const padded = new Uint8Array(BATCH_HEADER_BYTES);
  padded.set(bytes.subarray(start, end));
  return new RecordBatch(padded, 0);
}

/** Bytes of the batch at `at`, or undefined if it is not complete. Throws BATCH_CORRUPT. */
export function frameBytes(bytes: Uint8Array, at: number, end: number): number | undefined {
  if (end - at < LOG_OVERHEAD_BYTES) return undefined;
  const length = new DataView(bytes.buffer, bytes.byteOffset + at).getInt32(BATCH_LENGTH_AT);
  if (length < MIN_MESSAGE_BYTES) {
    throw new BroadsheetError(
      'BATCH_CORRUPT',
      `a batch length of ${length}, ${MIN_MESSAGE_BYTES} is the least`,
    );
  }
  if (end - at <= MAGIC_AT) return undefined;
  const magic = (bytes[at + MAGIC_AT]! << 24) >> 24;
  if (magic < 0 || magic > CURRENT_MAGIC) {
    throw new BroadsheetError('BATCH_CORRUPT', `a batch of magic ${magic}`);
  }
  if (length > MAX_INT32 - LOG_OVERHEAD_BYTES) {
    throw new BroadsheetError('BATCH_CORRUPT', `a batch length of ${length} overflows`);
  }
  const size = LOG_OVERHEAD_BYTES + length;
  return size > end - at ? undefined : size;
}

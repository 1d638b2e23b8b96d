/**
 * What a cleaning leaves of one batch, by Kafka's rules: the last record of each key, tombstones until their delete horizon
 * (KIP-534), all past what the map knows. Offsets, producer fields and the codec stay; a batch that loses all its records
 * stays as an empty one where its producer's last sequence hangs on it.
 */
import { compress, decompress } from '../protocol/compression.ts';
import {
  ATTRIBUTE_COMPRESSION,
  ATTRIBUTE_DELETE_HORIZON,
  ATTRIBUTES_AT,
  BASE_TIMESTAMP_AT,
  BATCH_HEADER_BYTES,
  BATCH_LENGTH_AT,
  type BatchHeader,
  LOG_OVERHEAD_BYTES,
  MAX_TIMESTAMP_AT,
  patchCrc,
  RECORD_COUNT_AT,
} from '../protocol/records/batch.ts';
import type { OffsetMap } from './cleaner-map.ts';
import { RecordCursor, varlong } from './cleaner-records.ts';
import type { CleanedTransactions } from './cleaner-transactions.ts';
import { corrupt } from './js-batch.ts';

/** What one batch may unpack to, bytes. */
const MAX_UNPACKED_BYTES = 2 ** 31 - 1;
const CONTROL_TYPE_AT = 2;
const NO_TIMESTAMP = -1n;

/** The newest batch of a producer that is known: by its last offset, or by its epoch where that was a marker. */
export interface LastRecord {
  readonly producerId: number;
  /** -1: its last batch is a marker. */
  readonly lastOffset: number;
  readonly epoch: number;
}

export interface FilterOptions {
  readonly map: OffsetMap;
  readonly transactions: CleanedTransactions;
  readonly lastRecords: ReadonlyMap<number, LastRecord>;
  /** ms since the epoch. */
  readonly now: number;
  readonly deleteRetentionMs: number;
  /** The batch that ends here stays, empty if need be, so that the end of the log can be told from it. */
  readonly highWatermark: number;
}

/** Unpacked records of a batch, and where they lie. */
export function recordsOf(batch: BatchHeader): {
  readonly bytes: Uint8Array;
  readonly start: number;
  readonly end: number;
} {
  const start = batch.start + BATCH_HEADER_BYTES;
  const end = batch.start + batch.sizeInBytes;
  if ((batch.attributes & ATTRIBUTE_COMPRESSION) === 0) return { bytes: batch.bytes, start, end };
  const bytes = decompress(batch.compression, batch.bytes.subarray(start, end), MAX_UNPACKED_BYTES);
  return { bytes, start: 0, end: bytes.length };
}

/** The type of a control batch's record. */
export function controlTypeOf(batch: BatchHeader): number {
  const { bytes, start, end } = recordsOf(batch);
  const cursor = new RecordCursor();
  cursor.reset(bytes, start, end, batch.recordCount);
  if (!cursor.next() || cursor.keyLength < CONTROL_TYPE_AT + 2)
    throw corrupt('a control batch without a type');
  return (bytes[cursor.keyStart + CONTROL_TYPE_AT]! << 8) | bytes[cursor.keyStart + CONTROL_TYPE_AT + 1]!;
}

export class BatchFilter {
  readonly #options: FilterOptions;
  readonly #cursor = new RecordCursor();
  #keeps: {
    start: number;
    end: number;
    timestampAt: number;
    timestampEnd: number;
    timestampDelta: number;
  }[] = [];
  recordsRead = 0;
  recordsKept = 0;

  constructor(options: FilterOptions) {
    this.#options = options;
  }

  /** The bytes to store for the batch; undefined: none. Throws CORRUPT. */
  clean(batch: BatchHeader): Uint8Array | undefined {
    const { transactions, now } = this.#options;
    const horizon = batch.deleteHorizon;
    const isControl = batch.isControl;
    let dropsRecords: boolean;
    let endsEmpty = false;
    if (isControl && batch.recordCount > 0) {
      endsEmpty = transactions.endsEmpty(batch, controlTypeOf(batch));
      dropsRecords = endsEmpty && horizon !== undefined && horizon <= now;
    } else dropsRecords = transactions.isAborted(batch);
    if (!dropsRecords && batch.recordCount > 0) {
      const cleaned = this.#filter(batch, isControl, endsEmpty, horizon);
      if (cleaned !== undefined) return cleaned;
    } else this.recordsRead += batch.recordCount;
    return this.#staysEmpty(batch) ? emptied(batch) : undefined;
  }

  #staysEmpty(batch: BatchHeader): boolean {
    const last = batch.producerId < 0 ? undefined : this.#options.lastRecords.get(batch.producerId);
    if (last !== undefined) {
      if (
        last.lastOffset >= 0
          ? batch.lastOffset === last.lastOffset
          : batch.isControl && batch.producerEpoch === last.epoch
      )
        return true;
    }
    return batch.lastOffset + 1 === this.#options.highWatermark;
  }

  #filter(
    batch: BatchHeader,
    isControl: boolean,
    endsEmpty: boolean,
    horizon: number | undefined,
  ): Uint8Array | undefined {
    const { map, now, deleteRetentionMs } = this.#options;
    const { bytes, start, end } = recordsOf(batch);
    const cursor = this.#cursor;
    const { baseOffset, recordCount } = batch;
    cursor.reset(bytes, start, end, recordCount);
    this.#keeps = [];
    let hasTombstones = false;
    this.recordsRead += recordCount;
    while (cursor.next()) {
      const isTombstone = cursor.valueLength < 0;
      if (!isControl && baseOffset + cursor.offsetDelta <= map.latestOffset) {
        // What has no key can't be in a compacted log.
        if (cursor.keyLength < 0) continue;
        const { keyStart, keyLength } = cursor;
        if (baseOffset + cursor.offsetDelta < map.get(bytes, keyStart, keyStart + keyLength)) continue;
        if (isTombstone && horizon !== undefined && now >= horizon) continue;
      }
      hasTombstones ||= isTombstone;
      const { start, end, timestampAt, timestampEnd, timestampDelta } = cursor;
      this.#keeps.push({ start, end, timestampAt, timestampEnd, timestampDelta });
    }
    if (this.#keeps.length === 0) return undefined;
    this.recordsKept += this.#keeps.length;
    const setsHorizon = (hasTombstones || endsEmpty) && horizon === undefined;
    if (this.#keeps.length === recordCount && !setsHorizon)
      return batch.bytes.subarray(batch.start, batch.start + batch.sizeInBytes);
    return this.#rebuild(batch, bytes, setsHorizon ? now + deleteRetentionMs : undefined);
  }

  /** The batch with the records that are kept, and a new base timestamp, which is its delete horizon, if one is given. */
  #rebuild(batch: BatchHeader, records: Uint8Array, newBase: number | undefined): Uint8Array {
    const { baseTimestamp } = batch;
    let latest = Number.NEGATIVE_INFINITY;
    const parts: Uint8Array[] = [];
    for (const kept of this.#keeps) {
      const timestamp = baseTimestamp + kept.timestampDelta;
      latest = Math.max(latest, timestamp);
      if (newBase === undefined) {
        parts.push(records.subarray(kept.start, kept.end));
        continue;
      }
      const delta = varlong(timestamp - newBase);
      const attributes = records.subarray(kept.timestampAt - 1, kept.timestampAt);
      const rest = records.subarray(kept.timestampEnd, kept.end);
      const length = varlong(1 + delta.length + rest.length);
      parts.push(Uint8Array.from(length), attributes, Uint8Array.from(delta), rest);
    }
    const packed = compress(batch.compression, Buffer.concat(parts));
    const out = Buffer.concat([batch.bytes.subarray(batch.start, batch.start + BATCH_HEADER_BYTES), packed]);
    out.writeInt32BE(out.length - LOG_OVERHEAD_BYTES, BATCH_LENGTH_AT);
    if (newBase !== undefined) {
      out.writeBigInt64BE(BigInt(newBase), BASE_TIMESTAMP_AT);
      out.writeInt16BE(batch.attributes | ATTRIBUTE_DELETE_HORIZON, ATTRIBUTES_AT);
    }
    if (batch.timestampType === 'CreateTime') out.writeBigInt64BE(BigInt(latest), MAX_TIMESTAMP_AT);
    out.writeInt32BE(this.#keeps.length, RECORD_COUNT_AT);
    patchCrc(out, 0, out.length);
    return out;
  }
}

/** The header alone, without codec and horizon: offsets and producer stay. */
function emptied(batch: BatchHeader): Uint8Array {
  const out = Buffer.from(batch.bytes.subarray(batch.start, batch.start + BATCH_HEADER_BYTES));
  out.writeInt32BE(BATCH_HEADER_BYTES - LOG_OVERHEAD_BYTES, BATCH_LENGTH_AT);
  out.writeInt16BE(batch.attributes & ~(ATTRIBUTE_COMPRESSION | ATTRIBUTE_DELETE_HORIZON), ATTRIBUTES_AT);
  out.writeBigInt64BE(NO_TIMESTAMP, BASE_TIMESTAMP_AT);
  out.writeInt32BE(0, RECORD_COUNT_AT);
  patchCrc(out, 0, out.length);
  return out;
}

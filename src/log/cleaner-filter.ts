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
  CRC_AT,
  LOG_OVERHEAD_BYTES,
  MAX_TIMESTAMP_AT,
  RECORD_COUNT_AT,
} from '../protocol/records/batch.ts';
import type { CleanerEngine } from './cleaner-engine.ts';
import type { OffsetMap } from './cleaner-map.ts';
import { RecordCursor, varlong } from './cleaner-records.ts';
import type { CleanedTransactions } from './cleaner-transactions.ts';
import { corrupt } from './js-batch.ts';

/** What one batch may unpack to, bytes. */
const MAX_UNPACKED_BYTES = 2 ** 31 - 1;
const CONTROL_TYPE_AT = 2;
const NO_TIMESTAMP = -1n;
const ROOM_BYTES = 1 << 20;
/** No offset is at or below it. */
const NOTHING = Number.NEGATIVE_INFINITY;

/** The newest batch of a producer that is known: by its last offset, or by its epoch where that was a marker. */
export interface LastRecord {
  readonly producerId: number;
  /** -1: its last batch is a marker. */
  readonly lastOffset: number;
  readonly epoch: number;
}

export interface FilterOptions {
  readonly engine: CleanerEngine;
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

/** Memory for what is made anew, until it is written: a piece at a time, which is used again then. */
class Room {
  #buffer = Buffer.allocUnsafeSlow(ROOM_BYTES);
  #used = 0;

  /** The buffer that has room for so many bytes from `used` on. */
  for(bytes: number): Buffer {
    if (this.#buffer.length - this.#used < bytes) {
      this.#buffer = Buffer.allocUnsafeSlow(Math.max(ROOM_BYTES, bytes));
      this.#used = 0;
    }
    return this.#buffer;
  }

  get used(): number {
    return this.#used;
  }

  take(bytes: number): Buffer {
    this.#used += bytes;
    return this.#buffer.subarray(this.#used - bytes, this.#used);
  }

  free(): void {
    this.#used = 0;
  }
}

export class BatchFilter {
  readonly #options: FilterOptions;
  readonly #cursor = new RecordCursor();
  readonly #room = new Room();
  readonly #unpacked = new Room();
  recordsRead = 0;
  recordsKept = 0;

  constructor(options: FilterOptions) {
    this.#options = options;
  }

  /** The bytes to store for the batch, good until written(); undefined: none. Throws CORRUPT. */
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
    return this.#staysEmpty(batch) ? this.#emptied(batch) : undefined;
  }

  /** What clean() gave is written: its memory is used again. */
  written(): void {
    this.#room.free();
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
    const { engine, map, now, deleteRetentionMs } = this.#options;
    const { bytes, start, end } = recordsOf(batch);
    const { recordCount, baseOffset } = batch;
    const isPacked = bytes !== batch.bytes;
    this.recordsRead += recordCount;
    // What is not packed again comes at once to where it is written from.
    const room = isPacked ? this.#unpacked : this.#room;
    const into = room.for(BATCH_HEADER_BYTES + end - start);
    const at = room.used + BATCH_HEADER_BYTES;
    const upTo = isControl ? NOTHING : map.latestOffset;
    const dropsTombstones = horizon !== undefined && now >= horizon;
    const sifted = engine.sift(
      ...([map, bytes, start, end, recordCount] as const),
      ...([baseOffset, upTo, dropsTombstones, into, at] as const),
    );
    const { kept } = sifted;
    if (kept === 0) return undefined;
    this.recordsKept += kept;
    const latest = batch.baseTimestamp + sifted.latestDelta;
    const setsHorizon = (sifted.hasTombstones || endsEmpty) && horizon === undefined;
    const keepsAll = kept === recordCount;
    if (keepsAll && !setsHorizon) return batch.bytes.subarray(batch.start, batch.start + batch.sizeInBytes);
    let records = keepsAll ? bytes.subarray(start, end) : into.subarray(at, at + sifted.bytes);
    const newBase = setsHorizon ? now + deleteRetentionMs : undefined;
    if (newBase !== undefined) records = this.#rebased(records, kept, batch.baseTimestamp - newBase);
    return this.#rebuild(batch, kept, records, latest, newBase);
  }

  /** The records, with timestamp deltas that are larger by `shift`. */
  #rebased(records: Uint8Array, count: number, shift: number): Uint8Array {
    const cursor = this.#cursor;
    const parts: Uint8Array[] = [];
    cursor.reset(records, 0, records.length, count);
    while (cursor.next()) {
      const delta = varlong(cursor.timestampDelta + shift);
      const attributes = records.subarray(cursor.timestampAt - 1, cursor.timestampAt);
      const rest = records.subarray(cursor.timestampEnd, cursor.end);
      const length = varlong(1 + delta.length + rest.length);
      parts.push(Uint8Array.from(length), attributes, Uint8Array.from(delta), rest);
    }
    return Buffer.concat(parts);
  }

  /** The batch with these records, and a new base timestamp, which is its delete horizon, if one is given. */
  #rebuild(
    batch: BatchHeader,
    count: number,
    records: Uint8Array,
    latest: number,
    newBase: number | undefined,
  ): Uint8Array {
    const packed = compress(batch.compression, records);
    const bytes = BATCH_HEADER_BYTES + packed.length;
    const whole = this.#room.for(bytes);
    const at = this.#room.used + BATCH_HEADER_BYTES;
    const isThere = packed.buffer === whole.buffer && packed.byteOffset === whole.byteOffset + at;
    const out = this.#room.take(bytes);
    if (!isThere) out.set(packed, BATCH_HEADER_BYTES);
    out.set(batch.bytes.subarray(batch.start, batch.start + BATCH_HEADER_BYTES));
    out.writeInt32BE(bytes - LOG_OVERHEAD_BYTES, BATCH_LENGTH_AT);
    if (newBase !== undefined) {
      out.writeBigInt64BE(BigInt(newBase), BASE_TIMESTAMP_AT);
      out.writeInt16BE(batch.attributes | ATTRIBUTE_DELETE_HORIZON, ATTRIBUTES_AT);
    }
    if (batch.timestampType === 'CreateTime') out.writeBigInt64BE(BigInt(latest), MAX_TIMESTAMP_AT);
    out.writeInt32BE(count, RECORD_COUNT_AT);
    return this.#summed(out);
  }

  /** The header alone, without codec and horizon: offsets and producer stay. */
  #emptied(batch: BatchHeader): Uint8Array {
    this.#room.for(BATCH_HEADER_BYTES);
    const out = this.#room.take(BATCH_HEADER_BYTES);
    out.set(batch.bytes.subarray(batch.start, batch.start + BATCH_HEADER_BYTES));
    out.writeInt32BE(BATCH_HEADER_BYTES - LOG_OVERHEAD_BYTES, BATCH_LENGTH_AT);
    out.writeInt16BE(batch.attributes & ~(ATTRIBUTE_COMPRESSION | ATTRIBUTE_DELETE_HORIZON), ATTRIBUTES_AT);
    out.writeBigInt64BE(NO_TIMESTAMP, BASE_TIMESTAMP_AT);
    out.writeInt32BE(0, RECORD_COUNT_AT);
    return this.#summed(out);
  }

  #summed(out: Buffer): Buffer {
    out.writeUInt32BE(this.#options.engine.crc32c(out, ATTRIBUTES_AT, out.length), CRC_AT);
    return out;
  }
}

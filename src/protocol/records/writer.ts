/** Writes record batches of magic 2. */
import { type CompressionName, compress, compressionId, compressionName } from '../compression.ts';
import {
  ATTRIBUTE_COMPRESSION,
  ATTRIBUTE_CONTROL,
  ATTRIBUTE_LOG_APPEND_TIME,
  ATTRIBUTE_TRANSACTIONAL,
  ATTRIBUTES_AT,
  BASE_OFFSET_AT,
  BASE_SEQUENCE_AT,
  BASE_TIMESTAMP_AT,
  BATCH_HEADER_BYTES,
  BATCH_LENGTH_AT,
  LAST_OFFSET_DELTA_AT,
  LEADER_EPOCH_AT,
  LOG_OVERHEAD_BYTES,
  MAGIC_AT,
  MAX_TIMESTAMP_AT,
  PRODUCER_EPOCH_AT,
  PRODUCER_ID_AT,
  patchCrc,
  RECORD_COUNT_AT,
  type RecordHeader,
} from './batch.ts';
import { writeInt64 } from './int64.ts';
import { type RawRecord, recordBodyBytes, writeRecord } from './record-codec.ts';
import { varlongBytes } from './varint.ts';

/** All fields of a batch that its bytes do not follow from. */
export interface BatchFields {
  readonly baseOffset: number;
  readonly leaderEpoch: number;
  readonly attributes: number;
  readonly lastOffsetDelta: number;
  readonly baseTimestamp: number;
  readonly maxTimestamp: number;
  readonly producerId: number;
  readonly producerEpoch: number;
  readonly baseSequence: number;
}

/** The batch as its fields and records say; the codec is in the attributes. */
export function writeBatch(fields: BatchFields, records: readonly RawRecord[], level?: number): Uint8Array {
  const sizes = records.map(recordBodyBytes);
  let size = BATCH_HEADER_BYTES;
  for (const body of sizes) size += varlongBytes(body) + body;
  let bytes: Uint8Array = Buffer.allocUnsafe(size);
  let at = BATCH_HEADER_BYTES;
  records.forEach((record, index) => {
    at = writeRecord(bytes, at, record, sizes[index]!);
  });
  const codec = compressionName(fields.attributes & ATTRIBUTE_COMPRESSION);
  if (codec !== 'none' && records.length > 0) {
    const payload = compress(codec, bytes.subarray(BATCH_HEADER_BYTES), level);
    const header = bytes.subarray(0, BATCH_HEADER_BYTES);
    bytes = Buffer.concat([header, payload]);
  }
  const view = new DataView(bytes.buffer, bytes.byteOffset, BATCH_HEADER_BYTES);
  writeInt64(view, BASE_OFFSET_AT, fields.baseOffset);
  view.setInt32(BATCH_LENGTH_AT, bytes.length - LOG_OVERHEAD_BYTES);
  view.setInt32(LEADER_EPOCH_AT, fields.leaderEpoch);
  view.setInt8(MAGIC_AT, 2);
  view.setInt16(ATTRIBUTES_AT, fields.attributes);
  view.setInt32(LAST_OFFSET_DELTA_AT, fields.lastOffsetDelta);
  writeInt64(view, BASE_TIMESTAMP_AT, fields.baseTimestamp);
  writeInt64(view, MAX_TIMESTAMP_AT, fields.maxTimestamp);
  writeInt64(view, PRODUCER_ID_AT, fields.producerId);
  view.setInt16(PRODUCER_EPOCH_AT, fields.producerEpoch);
  view.setInt32(BASE_SEQUENCE_AT, fields.baseSequence);
  view.setInt32(RECORD_COUNT_AT, records.length);
  patchCrc(bytes, 0, bytes.length);
  return bytes;
}

export interface BatchOptions {
  readonly compression?: CompressionName;
  /** Of gzip and zstd. */
  readonly level?: number;
  readonly baseOffset?: number;
  readonly leaderEpoch?: number;
  /** ms since the epoch: the batch is stamped with it as LogAppendTime. */
  readonly logAppendTime?: number;
  readonly producerId?: number;
  readonly producerEpoch?: number;
  readonly baseSequence?: number;
  readonly transactional?: boolean;
  readonly control?: boolean;
}

export interface NewRecord {
  /** ms since the epoch. */
  readonly timestamp: number;
  readonly key?: Uint8Array | string | null;
  readonly value?: Uint8Array | string | null;
  readonly headers?: readonly { readonly key: string; readonly value: Uint8Array | string | null }[];
}

/** Collects records, then makes a batch of them. Offsets are dense from the base offset on. */
export class BatchBuilder {
  private readonly options: BatchOptions;
  private readonly records: RawRecord[] = [];
  private baseTimestamp = -1;
  private maxTimestamp = -1;
  private bytes = BATCH_HEADER_BYTES;

  constructor(options: BatchOptions = {}) {
    this.options = options;
  }

  get count(): number {
    return this.records.length;
  }

  /** Bytes of the batch if nothing is compressed. */
  get uncompressedBytes(): number {
    return this.bytes;
  }

  append(record: NewRecord): this {
    if (this.records.length === 0) this.baseTimestamp = record.timestamp;
    this.maxTimestamp = Math.max(this.maxTimestamp, record.timestamp);
    const headers: RecordHeader[] = [];
    for (const { key, value } of record.headers ?? []) headers.push({ key, value: toBytes(value) });
    const raw: RawRecord = {
      attributes: 0,
      timestampDelta: record.timestamp - this.baseTimestamp,
      offsetDelta: this.records.length,
      key: toBytes(record.key),
      value: toBytes(record.value),
      headers,
    };
    this.records.push(raw);
    const body = recordBodyBytes(raw);
    this.bytes += varlongBytes(body) + body;
    return this;
  }

  build(): Uint8Array {
    const { options } = this;
    const attributes =
      compressionId(options.compression ?? 'none') |
      (options.logAppendTime === undefined ? 0 : ATTRIBUTE_LOG_APPEND_TIME) |
      (options.transactional ? ATTRIBUTE_TRANSACTIONAL : 0) |
      (options.control ? ATTRIBUTE_CONTROL : 0);
    const fields: BatchFields = {
      baseOffset: options.baseOffset ?? 0,
      leaderEpoch: options.leaderEpoch ?? -1,
      attributes,
      lastOffsetDelta: this.records.length - 1,
      baseTimestamp: this.baseTimestamp,
      maxTimestamp: options.logAppendTime ?? this.maxTimestamp,
      producerId: options.producerId ?? -1,
      producerEpoch: options.producerEpoch ?? -1,
      baseSequence: options.baseSequence ?? -1,
    };
    return writeBatch(fields, this.records, options.level);
  }
}

function toBytes(value: Uint8Array | string | null | undefined): Uint8Array | null {
  if (value === null || value === undefined) return null;
  return typeof value === 'string' ? Buffer.from(value) : value;
}

/**
 * The header of a record batch of magic 2 (KIP-98): where its fields lie and what its attribute bits mean. All is
 * big-endian. The CRC32C covers everything from the attributes on.
 */
import { type CompressionName, compressionName } from '../compression.ts';
import { crc32c } from '../crc32c.ts';
import { readInt64 } from './int64.ts';

export const BASE_OFFSET_AT = 0;
/** Counts the bytes after itself. */
export const BATCH_LENGTH_AT = 8;
export const LEADER_EPOCH_AT = 12;
export const MAGIC_AT = 16;
export const CRC_AT = 17;
export const ATTRIBUTES_AT = 21;
export const LAST_OFFSET_DELTA_AT = 23;
export const BASE_TIMESTAMP_AT = 27;
export const MAX_TIMESTAMP_AT = 35;
export const PRODUCER_ID_AT = 43;
export const PRODUCER_EPOCH_AT = 51;
export const BASE_SEQUENCE_AT = 53;
export const RECORD_COUNT_AT = 57;
export const BATCH_HEADER_BYTES = 61;
/** Offset and length: what stands before any batch or message, whatever its magic. */
export const LOG_OVERHEAD_BYTES = 12;

export const ATTRIBUTE_COMPRESSION = 0x07;
export const ATTRIBUTE_LOG_APPEND_TIME = 0x08;
export const ATTRIBUTE_TRANSACTIONAL = 0x10;
export const ATTRIBUTE_CONTROL = 0x20;
/** The base timestamp is the time from which tombstones may go (KIP-534). */
export const ATTRIBUTE_DELETE_HORIZON = 0x40;

export type TimestampType = 'CreateTime' | 'LogAppendTime';

/** One record as a consumer sees it. Key, value and headers are views of the batch, or of what it decompressed to. */
export interface RecordView {
  readonly offset: number;
  /** ms since the epoch, -1 for none. */
  readonly timestamp: number;
  readonly key: Uint8Array | null;
  readonly value: Uint8Array | null;
  readonly headers: readonly RecordHeader[];
}

export interface RecordHeader {
  readonly key: string;
  readonly value: Uint8Array | null;
}

/** The header of the batch at `start` of bytes, read field by field as it is asked for. */
export class BatchHeader {
  readonly bytes: Uint8Array;
  readonly start: number;
  private readonly view: DataView;

  /** At least BATCH_HEADER_BYTES must lie there. */
  constructor(bytes: Uint8Array, start = 0) {
    this.bytes = bytes;
    this.start = start;
    this.view = new DataView(bytes.buffer, bytes.byteOffset + start, BATCH_HEADER_BYTES);
  }

  get baseOffset(): number {
    return readInt64(this.view, BASE_OFFSET_AT);
  }
  /** As in the header: bytes after the length field. */
  get batchLength(): number {
    return this.view.getInt32(BATCH_LENGTH_AT);
  }
  /** Whole batch, bytes. */
  get sizeInBytes(): number {
    return LOG_OVERHEAD_BYTES + this.batchLength;
  }
  get leaderEpoch(): number {
    return this.view.getInt32(LEADER_EPOCH_AT);
  }
  get magic(): number {
    return this.view.getInt8(MAGIC_AT);
  }
  get crc(): number {
    return this.view.getUint32(CRC_AT);
  }
  get attributes(): number {
    return this.view.getInt16(ATTRIBUTES_AT);
  }
  get lastOffsetDelta(): number {
    return this.view.getInt32(LAST_OFFSET_DELTA_AT);
  }
  get lastOffset(): number {
    return this.baseOffset + this.lastOffsetDelta;
  }
  get baseTimestamp(): number {
    return readInt64(this.view, BASE_TIMESTAMP_AT);
  }
  get maxTimestamp(): number {
    return readInt64(this.view, MAX_TIMESTAMP_AT);
  }
  get producerId(): number {
    return readInt64(this.view, PRODUCER_ID_AT);
  }
  get producerEpoch(): number {
    return this.view.getInt16(PRODUCER_EPOCH_AT);
  }
  get baseSequence(): number {
    return this.view.getInt32(BASE_SEQUENCE_AT);
  }
  /** Sequence of the last record; it wraps from 2^31-1 to 0. -1 without a sequence. */
  get lastSequence(): number {
    return this.baseSequence < 0 ? -1 : (this.baseSequence + this.lastOffsetDelta) & 0x7fffffff;
  }
  get recordCount(): number {
    return this.view.getInt32(RECORD_COUNT_AT);
  }
  /** Throws BATCH_INVALID for an unknown codec. */
  get compression(): CompressionName {
    return compressionName(this.attributes & ATTRIBUTE_COMPRESSION);
  }
  get timestampType(): TimestampType {
    return (this.attributes & ATTRIBUTE_LOG_APPEND_TIME) !== 0 ? 'LogAppendTime' : 'CreateTime';
  }
  get isTransactional(): boolean {
    return (this.attributes & ATTRIBUTE_TRANSACTIONAL) !== 0;
  }
  get isControl(): boolean {
    return (this.attributes & ATTRIBUTE_CONTROL) !== 0;
  }
  /** ms since the epoch, or undefined where the batch has none. */
  get deleteHorizon(): number | undefined {
    return (this.attributes & ATTRIBUTE_DELETE_HORIZON) !== 0 ? this.baseTimestamp : undefined;
  }

  /** Whether the checksum is that of the bytes. The whole batch must lie there. */
  checksOut(): boolean {
    return this.crc === crc32c(this.bytes, this.start + ATTRIBUTES_AT, this.start + this.sizeInBytes);
  }
}

/** Computes the CRC of the batch at start anew and writes it. */
export function patchCrc(bytes: Uint8Array, start: number, end: number): void {
  const crc = crc32c(bytes, start + ATTRIBUTES_AT, end);
  new DataView(bytes.buffer, bytes.byteOffset + start, BATCH_HEADER_BYTES).setUint32(CRC_AT, crc);
}

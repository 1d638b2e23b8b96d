/**
 * Messages of magic 0 and 1, which Kafka 4 no longer takes from producers but which an old directory can hold. A
 * compressed one wraps the messages of its batch in its value. They are read, never written.
 */
import { BroadsheetError } from '../../runtime/errors.ts';
import { type CompressionName, compressionName, inflate } from '../compression.ts';
import { crc32 } from '../crc32.ts';
import {
  ATTRIBUTE_COMPRESSION,
  ATTRIBUTE_LOG_APPEND_TIME,
  LOG_OVERHEAD_BYTES,
  type RecordView,
  type TimestampType,
} from './batch.ts';
import { readInt64 } from './int64.ts';

const OFFSET_AT = 0;
const SIZE_AT = 8;
const CRC_AT = 12;
const MAGIC_AT = 16;
const ATTRIBUTES_AT = 17;
const TIMESTAMP_AT = 18;
/** Least that the length field of a message counts: CRC, magic, attributes, and the sizes of key and value. */
export const MIN_MESSAGE_BYTES = 14;
const NO_TIMESTAMP = -1;

/** One outer message: a record, or a wrapper around some. */
export class LegacyBatch {
  private readonly bytes: Uint8Array;
  private readonly start: number;
  private readonly view: DataView;

  /** The frame must be complete (frameBytes). */
  constructor(bytes: Uint8Array, start: number) {
    this.bytes = bytes;
    this.start = start;
    this.view = new DataView(bytes.buffer, bytes.byteOffset + start, bytes.length - start);
  }

  get offset(): number {
    return readInt64(this.view, OFFSET_AT);
  }
  /** Bytes after the length field. */
  get messageSize(): number {
    return this.view.getInt32(SIZE_AT);
  }
  get sizeInBytes(): number {
    return LOG_OVERHEAD_BYTES + this.messageSize;
  }
  get crc(): number {
    return this.view.getUint32(CRC_AT);
  }
  get magic(): number {
    return this.view.getInt8(MAGIC_AT);
  }
  get attributes(): number {
    return this.view.getInt8(ATTRIBUTES_AT);
  }
  get compression(): CompressionName {
    return compressionName(this.attributes & ATTRIBUTE_COMPRESSION);
  }
  get timestampType(): TimestampType | 'NoTimestampType' {
    if (this.magic === 0) return 'NoTimestampType';
    return (this.attributes & ATTRIBUTE_LOG_APPEND_TIME) !== 0 ? 'LogAppendTime' : 'CreateTime';
  }
  /** ms since the epoch; -1 for magic 0. */
  get timestamp(): number {
    if (this.magic === 0) return NO_TIMESTAMP;
    if (this.messageSize < MIN_MESSAGE_BYTES + 8) throw malformed('it ends within its timestamp');
    return readInt64(this.view, TIMESTAMP_AT);
  }

  /** Throws BATCH_CORRUPT if the checksum is wrong. */
  ensureValid(): void {
    const actual = crc32(this.bytes, this.start + MAGIC_AT, this.start + this.sizeInBytes);
    if (this.crc !== actual) {
      throw new BroadsheetError('BATCH_CORRUPT', `the CRC of the message at offset ${this.offset} is wrong`);
    }
  }

  /** The record, or those that it wraps, as a consumer sees them; key and value are looked at when asked for. Throws
   * BATCH_INVALID, BATCH_CORRUPT, BATCH_TOO_LARGE. */
  *records(limit?: number): Generator<RecordView> {
    if (this.compression === 'none') {
      yield new LegacyRecord(this, this.offset, this.timestamp);
      return;
    }
    const wrapped = this.value();
    if (wrapped === null) throw malformed('a compressed one without a value');
    const { bytes, fault } = inflate(this.compression, wrapped, limit, this.magic);
    const inner: LegacyBatch[] = [];
    for (let at = 0; bytes.length - at >= LOG_OVERHEAD_BYTES; ) {
      const size = new DataView(bytes.buffer, bytes.byteOffset + at).getInt32(SIZE_AT);
      if (size < MIN_MESSAGE_BYTES) throw new BroadsheetError('BATCH_CORRUPT', `a message of ${size} bytes`);
      if (size > bytes.length - at - LOG_OVERHEAD_BYTES) break;
      const message = new LegacyBatch(bytes, at);
      inner.push(message);
      at += message.sizeInBytes;
    }
    if (fault !== undefined) throw fault;
    const last = inner.at(-1);
    if (last === undefined) throw malformed('a compressed one that wraps nothing');
    // Of magic 1, inner offsets count from 0 and the wrapper has the last one's; of magic 0 they are absolute.
    const base = this.magic === 0 ? 0 : this.offset - last.offset;
    const appended = this.timestampType === 'LogAppendTime' ? this.timestamp : undefined;
    for (const message of inner) {
      if (message.compression !== 'none') throw malformed('compressed within compressed');
      yield new LegacyRecord(message, base + message.offset, appended ?? message.timestamp);
    }
  }

  key(): Uint8Array | null {
    return this.field(this.keyAt());
  }

  value(): Uint8Array | null {
    const key = this.key();
    return this.field(this.keyAt() + 4 + (key?.length ?? 0));
  }

  private keyAt(): number {
    return this.magic === 0 ? TIMESTAMP_AT : TIMESTAMP_AT + 8;
  }

  private field(at: number): Uint8Array | null {
    const left = this.sizeInBytes - at - 4;
    if (left < 0) throw malformed('it ends early');
    const length = this.view.getInt32(at);
    if (length > left) throw malformed(`a key or value of ${length} bytes, ${left} left`);
    const begin = this.start + at + 4;
    return length < 0 ? null : this.bytes.subarray(begin, begin + length);
  }
}

class LegacyRecord implements RecordView {
  readonly offset: number;
  readonly timestamp: number;
  readonly headers = [];
  private readonly message: LegacyBatch;

  constructor(message: LegacyBatch, offset: number, timestamp: number) {
    this.message = message;
    this.offset = offset;
    this.timestamp = timestamp;
  }
  get key(): Uint8Array | null {
    return this.message.key();
  }
  get value(): Uint8Array | null {
    return this.message.value();
  }
}

function malformed(what: string): BroadsheetError {
  return new BroadsheetError('BATCH_INVALID', `a message of magic 0 or 1 is malformed: ${what}`);
}

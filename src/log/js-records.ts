/** The walk over the records of a batch, in JavaScript. Answers what native/record_batch.cc walk_records answers. */
import { BroadsheetError } from '../runtime/errors.ts';
import type { BatchFacts } from './batch-inspector.ts';

/** An int64: a number where that is exact, else a bigint. The two compare rightly with each other. */
export type Int64 = number | bigint;

const SAFE = 2 ** 52;

export function int64At(view: DataView, at: number): Int64 {
  const value = view.getInt32(at) * 2 ** 32 + view.getUint32(at + 4);
  return value < SAFE && value > -SAFE ? value : view.getBigInt64(at);
}

/** Wraps around, as int64 does. */
export function add(a: Int64, b: Int64): Int64 {
  return typeof a === 'number' && typeof b === 'number' && isSmall(a) && isSmall(b)
    ? a + b
    : BigInt.asIntN(64, BigInt(a) + BigInt(b));
}

function isSmall(value: number): boolean {
  return value < SAFE && value > -SAFE;
}

/** The int64 nearest to a double. */
export function toInt64(value: number): Int64 {
  const whole = Math.trunc(value);
  if (isSmall(whole)) return whole;
  if (whole >= 2 ** 63) return 2n ** 63n - 1n;
  return whole <= -(2 ** 63) ? -(2n ** 63n) : BigInt(whole);
}

/** Reads the fields of one record. What fails is remembered: it is asked for where it matters. */
class RecordReader {
  bytes!: Uint8Array;
  at = 0;
  end = 0;
  failed = false;
  /** Of the last varlong. */
  long: Int64 = 0;

  get remaining(): number {
    return this.end - this.at;
  }

  byte(): void {
    if (this.at === this.end) this.failed = true;
    else this.at++;
  }

  /** Zigzag, 5 bytes at most; bits past 32 are dropped, as in Kafka. */
  varint(): number {
    let value = 0;
    for (let shift = 0; shift < 35 && this.at !== this.end; shift += 7) {
      const byte = this.bytes[this.at++]!;
      value |= (byte & 0x7f) << shift;
      if (byte < 0x80) return (value >>> 1) ^ -(value & 1);
    }
    this.failed = true;
    return 0;
  }

  /** Zigzag, 10 bytes at most; bits past 64 are dropped. */
  varlong(): void {
    let low = 0;
    let high = 0;
    for (let index = 0; index < 10 && this.at !== this.end; index++) {
      const byte = this.bytes[this.at++]!;
      const bits = byte & 0x7f;
      if (index < 4) {
        low |= bits << (7 * index);
      } else if (index === 4) {
        low |= bits << 28;
        high = bits >>> 4;
      } else {
        high |= bits << (7 * index - 32);
      }
      if (byte < 0x80) {
        const sign = -(low & 1);
        const high32 = (high >>> 1) ^ sign;
        const low32 = (((low >>> 1) | (high << 31)) ^ sign) >>> 0;
        const value = high32 * 2 ** 32 + low32;
        this.long = isSmall(value) ? value : (BigInt(high32) << 32n) | BigInt(low32);
        return;
      }
    }
    this.failed = true;
    this.long = 0;
  }

  /** Skips a field of a length that was read; false when it does not fit. */
  skip(length: number): boolean {
    if (length < 0 || length > this.end - this.at) return false;
    this.at += length;
    return true;
  }
}

const batch = new RecordReader();
const record = new RecordReader();
let nullKey = false;

function tooLong(what: string, length: number, left: number): string {
  return `${what} length ${length}${length < 0 ? ' is negative' : ` is more than the ${left} bytes left`}`;
}

/** One record of `batch`, into `record` and `nullKey`. Returns what is wrong with it. */
function walkRecord(index: number): string | undefined {
  const length = batch.varint();
  if (batch.failed) return 'its length is not a whole varint';
  if (length < 0 || length > batch.remaining) return tooLong('record', length, batch.remaining);

  record.bytes = batch.bytes;
  record.at = batch.at;
  record.end = batch.at + length;
  record.failed = false;
  record.byte(); // attributes: none is in use
  record.varlong();
  const offsetDelta = record.varint();
  const keyLength = record.varint();
  if (record.failed) return 'it ends before its key';
  if (offsetDelta !== index) return `offset delta ${offsetDelta}, expected ${index}`;
  nullKey = keyLength === -1;
  if (!nullKey && !record.skip(keyLength)) return tooLong('key', keyLength, record.remaining);

  const valueLength = record.varint();
  if (record.failed) return 'it ends before its value';
  if (valueLength !== -1 && !record.skip(valueLength)) return tooLong('value', valueLength, record.remaining);

  const headers = record.varint();
  if (record.failed) return 'it ends before its headers';
  // A header takes two bytes at least.
  if (headers < 0 || headers > record.remaining >>> 1)
    return `header count ${headers} does not fit into the ${record.remaining} bytes left`;
  for (let header = 0; header < headers; header++) {
    const nameLength = record.varint();
    if (record.failed) return 'it ends within its headers';
    if (!record.skip(nameLength)) return tooLong('header key', nameLength, record.remaining);
    const contentLength = record.varint();
    if (record.failed) return 'it ends within its headers';
    if (contentLength !== -1 && !record.skip(contentLength))
      return tooLong('header value', contentLength, record.remaining);
  }
  if (record.remaining !== 0) return `${record.remaining} bytes too many for its content`;
  batch.skip(length);
  return undefined;
}

const invalid = (message: string) => new BroadsheetError('BATCH_INVALID', message);

/** Walks over `count` records that fill bytes[start, end). Sets the facts of records and the fault. */
export function walkRecords(
  facts: BatchFacts,
  bytes: Uint8Array,
  start: number,
  end: number,
  count: number,
  baseTimestamp: Int64,
  oldest: Int64,
  newest: Int64,
): void {
  clearRecords(facts);
  batch.bytes = bytes;
  batch.at = start;
  batch.end = end;
  batch.failed = false;
  let largest: Int64 = -1;
  let late: BroadsheetError | undefined;
  const stop = (index: number, message: string) => {
    facts.recordsMaxTimestamp = Number(largest);
    facts.invalidIndex = index;
    facts.fault = invalid(message);
  };
  for (let index = 0; index < count; index++) {
    if (batch.remaining === 0) {
      stop(index, `the batch counts ${count} records and holds ${index}`);
      return;
    }
    const wrong = walkRecord(index);
    if (wrong !== undefined) {
      stop(index, `record ${index}: ${wrong}`);
      return;
    }
    if (nullKey && facts.nullKeyIndex < 0) facts.nullKeyIndex = index;
    const timestamp = add(baseTimestamp, record.long);
    if (facts.recordsMaxIndex < 0 || timestamp > largest) {
      largest = timestamp;
      facts.recordsMaxIndex = index;
    }
    if (late === undefined && timestamp !== -1 && (timestamp < oldest || timestamp > newest)) {
      facts.invalidIndex = index;
      facts.invalidTimestamp = Number(timestamp);
      late = new BroadsheetError(
        'TIMESTAMP_INVALID',
        `record ${index}: timestamp ${timestamp} is out of bounds`,
      );
    }
  }
  if (batch.remaining !== 0) {
    stop(-1, `${batch.remaining} bytes follow the ${count} records that the batch counts`);
    return;
  }
  facts.recordsMaxTimestamp = Number(largest);
  facts.fault = late;
}

export function clearRecords(facts: BatchFacts): void {
  facts.recordsMaxTimestamp = -1;
  facts.recordsMaxIndex = -1;
  facts.nullKeyIndex = -1;
  facts.invalidIndex = -1;
  facts.invalidTimestamp = -1;
  facts.fault = undefined;
}

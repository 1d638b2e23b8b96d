/** One record inside a batch of magic 2: its body as it is written, deltas and all. */
import { BroadsheetError } from '../../runtime/errors.ts';
import type { RecordHeader } from './batch.ts';
import { EndOfRecords, VarintCursor, varlongBytes, writeVarlong } from './varint.ts';

/** A record with its deltas as written. */
export interface RawRecord {
  /** Unused by Kafka; 0. */
  readonly attributes: number;
  readonly timestampDelta: number;
  readonly offsetDelta: number;
  readonly key: Uint8Array | null;
  readonly value: Uint8Array | null;
  readonly headers: readonly RecordHeader[];
}

const NO_HEADERS: readonly RecordHeader[] = [];

/** Reads the body of `size` bytes at the cursor. Throws BATCH_INVALID; `index` is the record's, for the message. */
export function readRecordBody(cursor: VarintCursor, size: number, index: number): RawRecord {
  const bodyEnd = cursor.at + size;
  const body = new VarintCursor(cursor.bytes, cursor.at, bodyEnd);
  try {
    if (size < 1) throw new EndOfRecords();
    const attributes = body.bytes[body.at++]!;
    const timestampDelta = body.varlong();
    const offsetDelta = body.varint();
    const key = readBytes(body);
    const value = readBytes(body);
    const headerCount = body.varint();
    // Each header takes two bytes at least.
    if (headerCount < 0 || headerCount > bodyEnd - body.at) throw new EndOfRecords();
    let headers = NO_HEADERS;
    if (headerCount > 0) {
      const list: RecordHeader[] = [];
      for (let n = 0; n < headerCount; n++) {
        const name = readBytes(body);
        if (name === null) throw new EndOfRecords();
        list.push({ key: text(name), value: readBytes(body) });
      }
      headers = list;
    }
    if (body.at !== bodyEnd) throw new EndOfRecords();
    cursor.at = bodyEnd;
    return { attributes, timestampDelta, offsetDelta, key, value, headers };
  } catch (error) {
    if (error instanceof EndOfRecords || error instanceof BroadsheetError) {
      throw new BroadsheetError('BATCH_INVALID', `record ${index} of the batch is malformed`, 0, {
        cause: error,
      });
    }
    throw error;
  }
}

/** A negative length is null, whatever its value, as in Kafka. */
function readBytes(cursor: VarintCursor): Uint8Array | null {
  const length = cursor.varint();
  if (length < 0) return null;
  if (length > cursor.end - cursor.at) throw new EndOfRecords();
  cursor.at += length;
  return cursor.bytes.subarray(cursor.at - length, cursor.at);
}

function text(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('utf8');
}

/** Bytes of the record's body; its length varint comes on top. */
export function recordBodyBytes(record: RawRecord): number {
  let size =
    1 +
    varlongBytes(record.timestampDelta) +
    varlongBytes(record.offsetDelta) +
    sizedBytes(record.key?.length) +
    sizedBytes(record.value?.length) +
    varlongBytes(record.headers.length);
  for (const { key, value } of record.headers) {
    size += sizedBytes(Buffer.byteLength(key)) + sizedBytes(value?.length);
  }
  return size;
}

function sizedBytes(length: number | undefined): number {
  return length === undefined ? 1 : varlongBytes(length) + length;
}

/** Writes length and body at `at`; returns where they end. There must be room. */
export function writeRecord(bytes: Uint8Array, at: number, record: RawRecord, bodyBytes: number): number {
  at = writeVarlong(bytes, at, bodyBytes);
  bytes[at++] = record.attributes;
  at = writeVarlong(bytes, at, record.timestampDelta);
  at = writeVarlong(bytes, at, record.offsetDelta);
  at = writeBytes(bytes, at, record.key);
  at = writeBytes(bytes, at, record.value);
  at = writeVarlong(bytes, at, record.headers.length);
  for (const { key, value } of record.headers) {
    at = writeBytes(bytes, at, Buffer.from(key));
    at = writeBytes(bytes, at, value);
  }
  return at;
}

function writeBytes(bytes: Uint8Array, at: number, value: Uint8Array | null): number {
  if (value === null) return writeVarlong(bytes, at, -1);
  at = writeVarlong(bytes, at, value.length);
  bytes.set(value, at);
  return at + value.length;
}

/**
 * The rules for golden record batches: vectors of `record-batches.jsonl` decode to their JSON and, where uncompressed,
 * encode to the same bytes; vectors of `record-batches-corrupt.jsonl` are read as far as Kafka reads them.
 */
import { createHash } from 'node:crypto';
import { inspect, isDeepStrictEqual } from 'node:util';
import {
  ATTRIBUTE_COMPRESSION,
  BASE_OFFSET_AT,
  BASE_TIMESTAMP_AT,
  MAX_TIMESTAMP_AT,
  PRODUCER_ID_AT,
  patchCrc,
  type RecordHeader,
  type TimestampType,
} from '../../../src/protocol/records/batch.ts';
import { controlTypeName } from '../../../src/protocol/records/control.ts';
import { LegacyBatch } from '../../../src/protocol/records/legacy.ts';
import { type RecordBatch, readBatches } from '../../../src/protocol/records/reader.ts';
import type { RawRecord } from '../../../src/protocol/records/record-codec.ts';
import { writeBatch } from '../../../src/protocol/records/writer.ts';
import { BroadsheetError, type ErrorCode } from '../../../src/runtime/errors.ts';

export interface BatchesVector {
  readonly name: string;
  readonly hex: string;
  readonly batches: readonly unknown[];
}

export interface CorruptVector {
  readonly name: string;
  readonly hex: string;
  readonly stage?: string;
  readonly exception?: string;
  readonly goodBatches: number;
  readonly goodRecords: number;
  readonly unreadBytes: number;
}

/** Longer values are given by length and digest. */
function bytesJson(name: string, bytes: Uint8Array | null, expected: object): object {
  if (bytes !== null && `${name}Sha256` in expected) {
    return {
      [`${name}Bytes`]: bytes.length,
      [`${name}Sha256`]: createHash('sha256').update(bytes).digest('hex'),
    };
  }
  return { [name]: bytes === null ? null : Buffer.from(bytes).toString('hex') };
}

interface ExpectedBatch {
  readonly records?: readonly (object & { readonly headers?: readonly object[] })[];
}

/** The int64 fields exactly, beyond 2^53 too. */
function exact(batch: RecordBatch, at: number): bigint {
  return new DataView(batch.bytes.buffer, batch.bytes.byteOffset + batch.start).getBigInt64(at);
}
const INT64_FIELDS = [BASE_OFFSET_AT, BASE_TIMESTAMP_AT, MAX_TIMESTAMP_AT, PRODUCER_ID_AT];

function batchJson(batch: RecordBatch, raws: readonly RawRecord[], expected: ExpectedBatch): object {
  const append = batch.timestampType === 'LogAppendTime';
  return {
    baseOffset: String(exact(batch, BASE_OFFSET_AT)),
    batchLength: batch.batchLength,
    partitionLeaderEpoch: batch.leaderEpoch,
    magic: batch.magic,
    crc: batch.crc,
    attributes: batch.attributes,
    lastOffsetDelta: batch.lastOffsetDelta,
    baseTimestamp: String(exact(batch, BASE_TIMESTAMP_AT)),
    maxTimestamp: String(exact(batch, MAX_TIMESTAMP_AT)),
    producerId: String(exact(batch, PRODUCER_ID_AT)),
    producerEpoch: batch.producerEpoch,
    baseSequence: batch.baseSequence,
    lastSequence: batch.lastSequence,
    count: batch.recordCount,
    compression: batch.compression,
    timestampType: batch.timestampType satisfies TimestampType,
    transactional: batch.isTransactional,
    control: batch.isControl,
    ...(batch.deleteHorizon === undefined ? {} : { deleteHorizonMs: String(batch.deleteHorizon) }),
    records: raws.map((raw, index) => {
      const wanted = expected.records?.[index] ?? {};
      return {
        offsetDelta: raw.offsetDelta,
        timestampDelta: String(raw.timestampDelta),
        timestamp: String(append ? batch.maxTimestamp : batch.baseTimestamp + raw.timestampDelta),
        ...bytesJson('key', raw.key, wanted),
        ...bytesJson('value', raw.value, wanted),
        headers: raw.headers.map((header: RecordHeader, n) => ({
          key: header.key,
          ...bytesJson('value', header.value, wanted.headers?.[n] ?? {}),
        })),
        ...(batch.isControl ? { controlType: controlTypeName(raw) ?? 'UNKNOWN' } : {}),
      };
    }),
  };
}

function legacyJson(batch: LegacyBatch, expected: ExpectedBatch): object {
  return {
    offset: String(batch.offset),
    messageSize: batch.messageSize,
    crc: batch.crc,
    magic: batch.magic,
    attributes: batch.attributes,
    compression: batch.compression,
    timestampType: batch.timestampType,
    records: [...batch.records()].map((record, index) => ({
      offset: String(record.offset),
      timestamp: String(record.timestamp),
      ...bytesJson('key', record.key, expected.records?.[index] ?? {}),
      ...bytesJson('value', record.value, expected.records?.[index] ?? {}),
    })),
  };
}

/** Writes the batch anew from what was read. */
function rewritten(batch: RecordBatch, raws: readonly RawRecord[], attributes: number): Uint8Array {
  const { baseOffset, leaderEpoch, lastOffsetDelta, baseTimestamp, maxTimestamp } = batch;
  const { producerId, producerEpoch, baseSequence } = batch;
  const bytes = writeBatch(
    {
      baseOffset,
      leaderEpoch,
      attributes,
      lastOffsetDelta,
      baseTimestamp,
      maxTimestamp,
      producerId,
      producerEpoch,
      baseSequence,
    },
    raws,
  );
  const view = new DataView(bytes.buffer, bytes.byteOffset);
  for (const at of INT64_FIELDS) view.setBigInt64(at, exact(batch, at));
  patchCrc(bytes, 0, bytes.length);
  return bytes;
}

/** Throws what is wrong with how a vector of `record-batches.jsonl` is read and written. */
export function checkBatches(vector: BatchesVector): void {
  const wrong = batchesFault(vector);
  if (wrong !== undefined) throw new Error(wrong);
}

function batchesFault(vector: BatchesVector): string | undefined {
  const bytes = Buffer.from(vector.hex, 'hex');
  let read = 0;
  let index = 0;
  for (const batch of readBatches(bytes)) {
    const expected = (vector.batches[index] ?? {}) as ExpectedBatch;
    batch.ensureValid();
    const raws = batch instanceof LegacyBatch ? [] : [...batch.rawRecords()];
    const actual =
      batch instanceof LegacyBatch ? legacyJson(batch, expected) : batchJson(batch, raws, expected);
    if (!isDeepStrictEqual(actual, expected)) {
      return `batch ${index} reads ${inspect(actual, { depth: 4 })}, expected ${inspect(expected, { depth: 4 })}`;
    }
    if (!(batch instanceof LegacyBatch)) {
      const original = bytes.subarray(read, read + batch.sizeInBytes);
      const again = rewritten(batch, raws, batch.attributes);
      if (batch.compression === 'none' || raws.length === 0) {
        if (!original.equals(again))
          return `batch ${index} is written otherwise: ${Buffer.from(again).toString('hex')}`;
      } else {
        const back = [...readBatches(again)][0] as RecordBatch;
        back.ensureValid();
        if (
          (back.attributes & ATTRIBUTE_COMPRESSION) === 0 ||
          !isDeepStrictEqual([...back.rawRecords()], raws)
        ) {
          return `batch ${index} compressed anew reads differently`;
        }
      }
    }
    read += batch.sizeInBytes;
    index++;
  }
  if (index !== vector.batches.length || read !== bytes.length) {
    return `${index} batches in ${read} of ${bytes.length} bytes, expected ${vector.batches.length} in all`;
  }
  return undefined;
}

/** Which of our codes stand for an exception of Kafka's. KafkaException and SnappyError are payloads that don't decompress;
 * IllegalArgumentException is an unknown codec, a varint without an end, or a length that overflows. */
const CODES: Readonly<Record<string, readonly ErrorCode[]>> = {
  CorruptRecordException: ['BATCH_CORRUPT'],
  InvalidRecordException: ['BATCH_INVALID'],
  KafkaException: ['BATCH_CORRUPT'],
  SnappyError: ['BATCH_CORRUPT'],
  IndexOutOfBoundsException: ['BATCH_INVALID'],
  IllegalArgumentException: ['BATCH_INVALID', 'BATCH_CORRUPT'],
};

/** Throws what is wrong with how far a vector of `record-batches-corrupt.jsonl` is read. */
export function checkCorrupt(vector: CorruptVector): void {
  const wrong = corruptFault(vector);
  if (wrong !== undefined) throw new Error(wrong);
}

function corruptFault(vector: CorruptVector): string | undefined {
  const bytes = Buffer.from(vector.hex, 'hex');
  let stage = 'frame';
  let goodBatches = 0;
  let goodRecords = 0;
  let read = 0;
  let code: ErrorCode | undefined;
  let message = '';
  try {
    for (const batch of readBatches(bytes)) {
      stage = 'valid';
      batch.ensureValid();
      stage = 'records';
      for (const _record of batch.records()) goodRecords++;
      goodBatches++;
      read += batch.sizeInBytes;
      stage = 'frame';
    }
  } catch (error) {
    if (!(error instanceof BroadsheetError)) throw error;
    ({ code, message } = error);
  }
  const { name: _name, hex: _hex, exception, ...rest } = vector;
  // A payload that was damaged where the checksum was made to fit: when a decoder notices is its own affair, and
  // ours for zstd and lz4 notice what those in Java decode to garbage. Being earlier is no failure.
  const earlier =
    exception === 'InvalidRecordException' && code === 'BATCH_CORRUPT' && /zstd|lz4/.test(message);
  if (earlier && vector.stage === stage && goodRecords <= vector.goodRecords) return undefined;
  const actual = { stage: code && stage, goodBatches, goodRecords, unreadBytes: bytes.length - read };
  const expected = { stage: undefined, ...rest };
  if (!isDeepStrictEqual(actual, expected)) {
    return `got ${inspect(actual)} (${code} ${message}), expected ${inspect(expected)} ${exception}`;
  }
  const fits = exception === undefined ? code === undefined : CODES[exception]?.includes(code!);
  return fits ? undefined : `failed with ${code} (${message}), expected ${exception}`;
}

import { describe, expect, it } from 'vitest';
import { addon, type SlotName } from '../../src/native.ts';
import { codeOf } from '../support/native-testing.ts';

const native = addon();
const slot = (name: SlotName) => native.results[native.slots[name]]!;
const ANY = [Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY] as const;

/** A varint with zigzag, as records carry it. */
function varint(value: number | bigint): number[] {
  const big = BigInt(value);
  let rest = BigInt.asUintN(64, (big << 1n) ^ (big >> 63n));
  const bytes: number[] = [];
  for (; rest > 127n; rest >>= 7n) bytes.push(Number(rest & 127n) | 128);
  return [...bytes, Number(rest)];
}

interface RecordParts {
  delta?: number | bigint;
  offset?: number;
  keyLength?: number;
  key?: string | null;
  valueLength?: number;
  value?: string | null;
  headerCount?: number;
  headers?: number[];
  /** Added to the record's length. */
  lie?: number;
  length?: number[];
}

const field = (length: number | undefined, text: string | null) => [
  ...varint(length ?? (text === null ? -1 : Buffer.byteLength(text))),
  ...Buffer.from(text ?? ''),
];

function record(index: number, parts: RecordParts = {}): number[] {
  const body = [
    0,
    ...varint(parts.delta ?? index),
    ...varint(parts.offset ?? index),
    ...field(parts.keyLength, parts.key === undefined ? 'k' : parts.key),
    ...field(parts.valueLength, parts.value === undefined ? 'value' : parts.value),
    ...varint(parts.headerCount ?? 0),
    ...(parts.headers ?? []),
  ];
  return [...(parts.length ?? varint(body.length + (parts.lie ?? 0))), ...body];
}

interface BatchParts {
  baseOffset?: number;
  length?: number;
  magic?: number;
  attributes?: number;
  lastOffsetDelta?: number;
  baseTimestamp?: number;
  maxTimestamp?: number;
  producerId?: number;
  producerEpoch?: number;
  baseSequence?: number;
  count?: number;
}

function batch(records: readonly number[][], parts: BatchParts = {}): Buffer {
  const payload = records.flat();
  const bytes = Buffer.alloc(61 + payload.length);
  bytes.set(payload, 61);
  bytes.writeBigInt64BE(BigInt(parts.baseOffset ?? 0), 0);
  bytes.writeInt32BE(parts.length ?? bytes.length - 12, 8);
  bytes.writeInt32BE(-1, 12);
  bytes.writeInt8(parts.magic ?? 2, 16);
  bytes.writeInt16BE(parts.attributes ?? 0, 21);
  bytes.writeInt32BE(parts.lastOffsetDelta ?? records.length - 1, 23);
  bytes.writeBigInt64BE(BigInt(parts.baseTimestamp ?? 1_000), 27);
  bytes.writeBigInt64BE(BigInt(parts.maxTimestamp ?? 1_000 + records.length - 1), 35);
  bytes.writeBigInt64BE(BigInt(parts.producerId ?? -1), 43);
  bytes.writeInt16BE(parts.producerEpoch ?? -1, 51);
  bytes.writeInt32BE(parts.baseSequence ?? -1, 53);
  bytes.writeInt32BE(parts.count ?? records.length, 57);
  seal(bytes);
  return bytes;
}

function seal(bytes: Buffer, end = bytes.length) {
  bytes.writeUInt32BE(native.crc32cBy(bytes, 21, end, 'portable'), 17);
}

function inspect(bytes: Uint8Array, max = 1 << 20, bounds: readonly [number, number] = ANY): string {
  return codeOf(native.inspectBatch(bytes, 0, bytes.length, max, ...bounds));
}
const context = () => native.lastStatus().context;

describe('inspectBatch', () => {
  it('takes a good batch and tells what its header says', () => {
    const bytes = batch([record(0), record(1, { delta: 500 }), record(2, { key: null, delta: -3 })], {
      attributes: 0x18,
      producerId: 2 ** 40,
      producerEpoch: 3,
      baseSequence: 77,
      maxTimestamp: 1_234,
    });
    const around = Buffer.concat([Buffer.alloc(5), bytes, Buffer.alloc(3)]);
    expect(native.inspectBatch(around, 5, 5 + bytes.length, 1 << 20, ...ANY)).toBe(bytes.length);
    expect(
      Object.fromEntries(Object.keys(native.slots).map((name) => [name, slot(name as SlotName)])),
    ).toMatchObject({
      baseOffset: 0,
      lastOffset: 2,
      baseTimestamp: 1_000,
      maxTimestamp: 1_234,
      producerId: 2 ** 40,
      producerEpoch: 3,
      baseSequence: 77,
      recordCount: 3,
      attributes: 0x18,
      leaderEpoch: -1,
      sizeInBytes: bytes.length,
      compression: 0,
      walked: 1,
      recordsMaxTimestamp: 1_500,
      recordsMaxIndex: 1,
      nullKeyIndex: 2,
      invalidIndex: -1,
      invalidTimestamp: -1,
    });
  });

  it('names the first of several records with the largest timestamp', () => {
    inspect(batch([record(0, { delta: 5 }), record(1, { delta: 9 }), record(2, { delta: 9 })]));
    expect([slot('recordsMaxTimestamp'), slot('recordsMaxIndex')]).toEqual([1_009, 1]);
    inspect(batch([record(0, { delta: 0 })], { baseTimestamp: -1, maxTimestamp: -1 }));
    expect([slot('recordsMaxTimestamp'), slot('recordsMaxIndex')]).toEqual([-1, 0]);
  });

  it('wants a whole batch', () => {
    const bytes = batch([record(0)]);
    for (let length = 0; length < bytes.length; length++) {
      expect([length, inspect(bytes.subarray(0, length))]).toEqual([length, 'BATCH_INVALID']);
      expect(slot('sizeInBytes')).toBe(0);
    }
  });

  it('judges the frame as Kafka does', () => {
    for (const length of [-1, 0, 13, -(2 ** 31)])
      expect(inspect(batch([record(0)], { length }))).toBe('BATCH_CORRUPT');
    for (const length of [14, 48, 49]) {
      expect([length, inspect(batch([record(0)], { length }).subarray(0, 12 + length))]).toEqual([
        length,
        'BATCH_CORRUPT',
      ]);
    }
    expect(inspect(batch([record(0)], { length: 2 ** 31 - 1 }))).toBe('BATCH_INVALID');
    for (const magic of [-1, 3, 127]) expect(inspect(batch([record(0)], { magic }))).toBe('BATCH_CORRUPT');
    for (const magic of [0, 1]) expect(inspect(batch([record(0)], { magic }))).toBe('BATCH_INVALID');
  });

  it('takes one batch only, and leaves half a one behind it alone', () => {
    const bytes = batch([record(0)]);
    expect(inspect(Buffer.concat([bytes, bytes]))).toBe('BATCH_INVALID');
    expect(context()).toContain('exactly one');
    const half = Buffer.concat([bytes, bytes.subarray(0, bytes.length - 1)]);
    expect(native.inspectBatch(half, 0, half.length, 1 << 20, ...ANY)).toBe(bytes.length);
    expect(inspect(Buffer.concat([bytes, Buffer.alloc(100)]))).toBe('BATCH_CORRUPT');
    expect(inspect(Buffer.concat([bytes, Buffer.alloc(11)]))).toBe('OK');
  });

  it('notices each flipped bit behind the checksum', () => {
    const bytes = batch([record(0)]);
    for (let at = 17; at < bytes.length; at++) {
      for (let bit = 0; bit < 8; bit++) {
        bytes[at]! ^= 1 << bit;
        expect(inspect(bytes)).toBe('BATCH_CORRUPT');
        bytes[at]! ^= 1 << bit;
      }
    }
    expect(inspect(bytes)).toBe('OK');
  });

  it('names the limit and the size of what is too large', () => {
    const bytes = batch([record(0)]);
    expect(inspect(bytes, bytes.length)).toBe('OK');
    expect(inspect(bytes, bytes.length - 1)).toBe('BATCH_TOO_LARGE');
    expect(context()).toContain(`${bytes.length} bytes`);
    expect(context()).toContain(`max.message.bytes=${bytes.length - 1}`);
    expect(slot('sizeInBytes')).toBe(bytes.length);
  });

  it.each<[string, BatchParts, string]>([
    ['a base offset', { baseOffset: 5 }, 'base offset is 5'],
    ['a negative base offset', { baseOffset: -1 }, 'base offset is -1'],
    ['no records', { count: 0, lastOffsetDelta: -1 }, 'count is 0'],
    ['a negative count', { count: -1 }, 'count is -1'],
    ['a count that offsets belie', { count: 3 }, 'does not fit'],
    ['offsets that the count belies', { lastOffsetDelta: 5 }, 'does not fit'],
    ['a last offset delta of -1', { lastOffsetDelta: -1 }, 'does not fit'],
    ['the largest count', { count: 2 ** 31 - 1, lastOffsetDelta: 2 ** 31 - 2 }, 'holds 2'],
    ['a producer id without a sequence', { producerId: 7, producerEpoch: 0 }, 'sequence is -1'],
    ['codec 5', { attributes: 5 }, 'codec 5'],
    ['codec 7', { attributes: 7 }, 'codec 7'],
    ['a delete horizon', { attributes: 0x40 }, 'delete horizon'],
  ])('refuses %s', (_, parts, text) => {
    expect(inspect(batch([record(0), record(1)], parts))).toBe('BATCH_INVALID');
    expect(context()).toContain(text);
  });

  it.each<[string, number[], string]>([
    ['a negative length', record(0, { length: varint(-1) }), 'record length -1'],
    ['length 0', record(0, { length: varint(0) }), 'ends before its key'],
    ['one byte too short', record(0, { lie: -1 }), 'ends before its headers'],
    ['one byte too long', record(0, { lie: 1 }), 'more than'],
    ['the largest length', record(0, { length: varint(2 ** 31 - 1) }), 'record length 2147483647'],
    ['a varint without an end', record(0, { length: [255, 255, 255, 255, 255, 1] }), 'not a whole varint'],
    ['a length and nothing else', [2], 'more than the 0 bytes left'],
    ['key length -2', record(0, { keyLength: -2 }), 'key length -2'],
    ['a key past the end', record(0, { keyLength: 100 }), 'key length 100'],
    ['the largest key', record(0, { keyLength: 2 ** 31 - 1 }), 'key length 2147483647'],
    ['value length -2', record(0, { valueLength: -2 }), 'value length -2'],
    ['a value past the end', record(0, { valueLength: 8 }), 'value length 8'],
    ['header count -1', record(0, { headerCount: -1 }), 'header count -1'],
    ['more headers than fit', record(0, { headerCount: 2, headers: [0, 0, 0] }), 'header count 2'],
    ['the largest header count', record(0, { headerCount: 2 ** 31 - 1 }), 'header count 2147483647'],
    ['a header without a key', record(0, { headerCount: 1, headers: [1, 0] }), 'header key length -1'],
    ['a header key past the end', record(0, { headerCount: 1, headers: [10, 0] }), 'header key length 5'],
    ['a header that ends early', record(0, { headerCount: 1, headers: [2, 65] }), 'within its headers'],
    ['header value length -2', record(0, { headerCount: 1, headers: [0, 3] }), 'header value length -2'],
    ['bytes behind its headers', record(0, { headers: [0] }), '1 bytes too many'],
    ['offset delta 1', record(0, { offset: 1 }), 'offset delta 1, expected 0'],
    ['a negative offset delta', record(0, { offset: -1 }), 'offset delta -1'],
  ])('refuses a record with %s', (_, bad, text) => {
    expect(inspect(batch([bad]))).toBe('BATCH_INVALID');
    expect(context()).toMatch(/^record 0: /);
    expect(context()).toContain(text);
    expect(slot('invalidIndex')).toBe(0);
    // Behind good ones it is named by its index.
    const third = batch([record(0), record(1), bad]);
    expect(inspect(third)).toBe('BATCH_INVALID');
    expect(context()).toMatch(/^record 2: /);
    expect(slot('invalidIndex')).toBe(2);
  });

  it('takes headers, null and empty ones, and every attribute byte of a record', () => {
    const headers = [0, 0, 2, 65, 1, 2, 66, 4, 67, 68];
    expect(inspect(batch([record(0, { headerCount: 3, headers, value: null, key: '' })]))).toBe('OK');
    expect(slot('nullKeyIndex')).toBe(-1);
    const bytes = batch([record(0)]);
    bytes[62] = 0xff;
    seal(bytes);
    expect(inspect(bytes)).toBe('OK');
  });

  it('counts records exactly', () => {
    const three = [record(0), record(1), record(2)];
    expect(inspect(batch(three, { count: 2, lastOffsetDelta: 1 }))).toBe('BATCH_INVALID');
    expect(context()).toContain('follow the 2 records');
    expect(inspect(batch(three, { count: 4, lastOffsetDelta: 3 }))).toBe('BATCH_INVALID');
    expect(context()).toContain('counts 4 records and holds 3');
  });

  it('holds timestamps against bounds, the ends included, and lets -1 pass', () => {
    const bytes = batch([
      record(0, { delta: 0 }),
      record(1, { delta: 50 }),
      record(2, { delta: -1_001 }),
      record(3, { delta: -10 }),
    ]);
    expect(inspect(bytes, 1 << 20, [990, 1_050])).toBe('OK');
    expect(inspect(bytes, 1 << 20, [990, 1_049])).toBe('TIMESTAMP_INVALID');
    expect(slot('invalidIndex')).toBe(1);
    expect(slot('invalidTimestamp')).toBe(1_050);
    expect(context()).toBe('record 1: timestamp 1050 is out of bounds');
    expect(inspect(bytes, 1 << 20, [991, 1_050])).toBe('TIMESTAMP_INVALID');
    expect(slot('invalidIndex')).toBe(3);
    expect(slot('invalidTimestamp')).toBe(990);
    // A record that does not parse counts more than one that is late.
    const worse = batch([record(0, { delta: 50 }), record(1, { keyLength: -5 })]);
    expect(inspect(worse, 1 << 20, [990, 1_049])).toBe('BATCH_INVALID');
    expect(slot('invalidIndex')).toBe(1);
  });

  it('survives timestamps at the ends of int64', () => {
    const bytes = batch([record(0, { delta: 2n ** 63n - 1n }), record(1, { delta: -(2n ** 63n) })], {
      baseTimestamp: 2 ** 53,
    });
    expect(inspect(bytes)).toBe('OK');
    expect(Number.isFinite(slot('recordsMaxTimestamp'))).toBe(true);
  });

  it('leaves the records of a compressed batch to the caller', () => {
    expect(inspect(batch([[1, 2, 3]], { attributes: 2 }))).toBe('OK');
    expect([slot('walked'), slot('compression')]).toEqual([0, 2]);
  });

  it('never reads outside of the part that it was given, whatever the bytes say', () => {
    // Under the sanitizers this is what finds a missing check.
    let state = 7;
    const random = (n: number) => {
      state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
      return Math.floor((state / 2 ** 32) * n);
    };
    const codes = new Set<string>();
    for (let round = 0; round < 20_000; round++) {
      const bytes = batch([record(0, { headerCount: 1, headers: [2, 65, 2, 66] }), record(1)]);
      for (let flips = random(4); flips >= 0; flips--) bytes[61 + random(bytes.length - 61)] = random(256);
      if (random(4) === 0) bytes[8 + random(53)] = random(256);
      const end = random(8) === 0 ? random(bytes.length) : bytes.length;
      const exact = new Uint8Array(bytes.subarray(0, end));
      if (end > 61) seal(Buffer.from(exact.buffer));
      codes.add(inspect(exact));
    }
    expect(codes).toEqual(new Set(['OK', 'BATCH_INVALID', 'BATCH_CORRUPT']));
  });

  it('refuses arguments of the wrong kind', () => {
    const raw = native as unknown as Record<string, (...args: unknown[]) => number>;
    const bytes = new Uint8Array(100);
    for (const args of [
      [],
      [bytes],
      [bytes, 0, 101, 1, 0, 0],
      [bytes, 0, 100, -1, 0, 0],
      [bytes, 0, 100, 1, 'x', 0],
      [bytes, 0, 100, 1, 0, Number.NaN],
      ['bytes', 0, 0, 1, 0, 0],
    ]) {
      expect(codeOf(raw.inspectBatch!(...args))).toBe('INVALID_ARGUMENT');
    }
  });
});

describe('walkRecords', () => {
  it('walks over the records of a batch that was decompressed elsewhere', () => {
    const payload = Uint8Array.from([...record(0, { delta: 9 }), ...record(1, { key: null })]);
    expect(native.walkRecords(payload, 0, payload.length, 2, 100, ...ANY)).toBe(0);
    expect([slot('recordsMaxTimestamp'), slot('recordsMaxIndex'), slot('nullKeyIndex')]).toEqual([109, 0, 1]);
    expect(codeOf(native.walkRecords(payload, 0, payload.length - 1, 2, 100, ...ANY))).toBe('BATCH_INVALID');
    expect(codeOf(native.walkRecords(payload, 0, payload.length, 1, 100, ...ANY))).toBe('BATCH_INVALID');
    expect(codeOf(native.walkRecords(payload, 0, payload.length, 3, 100, ...ANY))).toBe('BATCH_INVALID');
    expect(codeOf(native.walkRecords(payload, 0, payload.length, 2, 100, 0, 108))).toBe('TIMESTAMP_INVALID');
    expect(slot('invalidIndex')).toBe(0);
    expect(native.walkRecords(payload, 0, 0, 0, 100, ...ANY)).toBe(0);
    expect(codeOf(native.walkRecords(payload, 0, 10, -1, 100, ...ANY))).toBe('INVALID_ARGUMENT');
    expect(codeOf(native.walkRecords(payload, 0, 10, 2 ** 31, 100, ...ANY))).toBe('INVALID_ARGUMENT');
  });
});

describe('patchBatch', () => {
  it('sets the timestamp type and the largest timestamp, and mends the checksum', () => {
    const bytes = batch([record(0), record(1)], { attributes: 0x10 });
    const all = Buffer.concat([Buffer.alloc(7), bytes, Buffer.alloc(7)]);
    expect(native.patchBatch(all, 7, 7 + bytes.length, true, 5_000)).toBe(0);
    expect(native.inspectBatch(all, 7, 7 + bytes.length, 1 << 20, ...ANY)).toBe(bytes.length);
    expect([slot('attributes'), slot('maxTimestamp')]).toEqual([0x18, 5_000]);
    expect(native.patchBatch(all, 7, 7 + bytes.length, false, 1_001)).toBe(0);
    expect(all.subarray(7, 7 + bytes.length)).toEqual(bytes);
    expect([...all.subarray(0, 7), ...all.subarray(7 + bytes.length)].every((byte) => byte === 0)).toBe(true);
  });

  it('wants exactly one batch', () => {
    const bytes = batch([record(0)]);
    for (const [start, end] of [
      [0, bytes.length - 1],
      [1, bytes.length],
      [0, 60],
      [0, 0],
    ] as const) {
      expect(codeOf(native.patchBatch(bytes, start, end, true, 0))).toBe('INVALID_ARGUMENT');
    }
    bytes.writeInt32BE(-1, 8);
    expect(codeOf(native.patchBatch(bytes, 0, bytes.length, true, 0))).toBe('INVALID_ARGUMENT');
    const raw = native as unknown as Record<string, (...args: unknown[]) => number>;
    expect(codeOf(raw.patchBatch!(bytes, 0, bytes.length, 1, 0))).toBe('INVALID_ARGUMENT');
  });
});

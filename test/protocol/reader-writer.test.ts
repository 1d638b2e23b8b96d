import { describe, expect, it } from 'vitest';
import { NameCache } from '../../src/protocol/name-cache.ts';
import { Reader } from '../../src/protocol/reader.ts';
import { unsignedVarintSize, Writer } from '../../src/protocol/writer.ts';
import { ExactReader, ExactWriter } from '../support/golden/exact.ts';
import { Random } from '../support/random.ts';

const hex = (text: string) => Buffer.from(text.replaceAll(' ', ''), 'hex');
const reader = (text: string) => new Reader(hex(text));
const written = (write: (w: Writer) => void, w = new Writer(16)) => {
  write(w);
  return w.bytes().toString('hex');
};

describe('numbers', () => {
  it.each<[string, 'int8' | 'int16' | 'uint16' | 'int32' | 'uint32' | 'int64' | 'float64', number]>([
    ['80', 'int8', -128],
    ['7f', 'int8', 127],
    ['8000', 'int16', -32768],
    ['ff01', 'int16', -255],
    ['ffff', 'uint16', 65535],
    ['80000000', 'int32', -2147483648],
    ['00ff0001', 'int32', 16711681],
    ['ffffffff', 'uint32', 4294967295],
    ['ffffffffffffffff', 'int64', -1],
    ['ffffffff00000000', 'int64', -4294967296],
    ['001fffffffffffff', 'int64', Number.MAX_SAFE_INTEGER],
    ['ffe0000000000001', 'int64', Number.MIN_SAFE_INTEGER],
    ['8000000000000000', 'int64', -(2 ** 63)],
    ['7ff0000000000000', 'float64', Number.POSITIVE_INFINITY],
    ['8000000000000000', 'float64', -0],
  ])('%s is %s %d', (bytes, type, value) => {
    expect(reader(bytes)[type]()).toBe(value);
    expect(written((w) => w[type](value))).toBe(bytes);
  });

  it.each<[string, number]>([
    ['00', 0],
    ['7f', 127],
    ['8001', 128],
    ['ffff7f', 2097151],
    ['ffffffff0f', 4294967295],
  ])('unsigned varint %s is %d', (bytes, value) => {
    expect(reader(bytes).unsignedVarint()).toBe(value);
    expect(written((w) => w.unsignedVarint(value))).toBe(bytes);
    expect(unsignedVarintSize(value)).toBe(bytes.length / 2);
  });

  it.each<[string, number]>([
    ['00', 0],
    ['01', -1],
    ['02', 1],
    ['ffffffff0f', -2147483648],
    ['feffffff0f', 2147483647],
  ])('varint and varlong %s are %d', (bytes, value) => {
    expect(reader(bytes).varint()).toBe(value);
    expect(reader(bytes).varlong()).toBe(value);
    expect(written((w) => w.varint(value))).toBe(bytes);
    expect(written((w) => w.varlong(value))).toBe(bytes);
  });

  it('reads and writes varlongs up to 2^53 exactly', () => {
    const random = new Random(1);
    const samples = [2 ** 53 - 1, -(2 ** 53) + 1, 2 ** 31, 2 ** 32, -(2 ** 32)];
    for (let i = 0; i < 2000; i++) samples.push(Math.trunc((random.unit() - 0.5) * 2 ** random.int(54)));
    for (const value of samples) {
      // -0 and 0 have the same bytes.
      const bytes = written((w) => w.varlong(value + 0));
      const zigzag = BigInt.asUintN(64, BigInt(value) >= 0n ? BigInt(value) * 2n : BigInt(value) * -2n - 1n);
      let rest = zigzag;
      let expected = '';
      do {
        const byte = Number(rest & 0x7fn);
        rest >>= 7n;
        expected += (rest > 0n ? byte | 0x80 : byte).toString(16).padStart(2, '0');
      } while (rest > 0n);
      expect(bytes).toBe(expected);
      expect(reader(bytes).varlong() + 0).toBe(value + 0);
    }
  });

  it('gives the nearest number beyond 2^53 and saturates', () => {
    expect(reader('7fffffffffffffff').int64()).toBe(2 ** 63);
    expect(written((w) => w.int64(2 ** 63))).toBe('7fffffffffffffff');
    expect(written((w) => w.int64(1e30))).toBe('7fffffffffffffff');
    expect(written((w) => w.int64(-1e30))).toBe('8000000000000000');
    expect(written((w) => w.int64(2 ** 60 + 256))).toBe('1000000000000100');
  });

  it('is exact where golden vectors are checked', () => {
    const r = new ExactReader(hex('7fffffffffffffff 0020000000000001 ffffffffffffffff'));
    const values = [r.int64(), r.int64(), r.int64()];
    expect(values).toEqual([9223372036854775807n, 9007199254740993n, -1]);
    const w = new ExactWriter();
    for (const value of values) w.int64(value);
    expect(w.bytes().toString('hex')).toBe('7fffffffffffffff0020000000000001ffffffffffffffff');
  });

  it('knows uuids as base64url', () => {
    const text = 'KeSsESRpL21VKIaXL_ktug';
    const bytes = written((w) => w.uuid(text));
    expect(bytes).toHaveLength(32);
    expect(reader(bytes).uuid()).toBe(text);
    expect(() => written((w) => w.uuid('short'))).toThrow(/uuid/);
    expect(() => written((w) => w.uuid('not a uuid of 22 chars'))).toThrow(/uuid/);
  });
});

describe('what does not fit', () => {
  it.each<[string, string, (r: Reader) => unknown]>([
    ['a number past the end', '0000', (r) => r.int32()],
    ['half an int64', '0000000000', (r) => r.int64()],
    ['a varint of 6 bytes', '808080808001', (r) => r.unsignedVarint()],
    ['a varint cut off', '8080', (r) => r.unsignedVarint()],
    ['a varlong of 11 bytes', '8080808080808080808001', (r) => r.varlong()],
    ['a varlong cut off', '80', (r) => r.varlong()],
    ['null for a string', 'ffff', (r) => r.string()],
    ['null for a compact string', '00', (r) => r.compactString()],
    ['a string longer than what is left', '000361', (r) => r.string()],
    ['a nullable string longer than what is left', '000361', (r) => r.nullableString()],
    ['a compact string longer than what is left', '0361', (r) => r.compactString()],
    ['a compact length of 2^32 - 1', 'ffffffff0f', (r) => r.compactNullableBytes()],
    ['null for bytes', 'ffffffff', (r) => r.bytes()],
    ['2 GiB of bytes', '7fffffff00', (r) => r.nullableBytes()],
    ['2^31 - 1 elements', '7fffffff00', (r) => r.arrayCount(1)],
    ['elements that need more than is left', '0000000200000000', (r) => r.nullableArrayCount(4)],
    ['a negative count', 'fffffffe', (r) => r.arrayCount(1)],
    ['null for a compact array', '00', (r) => r.compactArrayCount(1)],
    ['more compact elements than bytes', '0500', (r) => r.compactNullableArrayCount(1)],
    ['more tags than bytes', '020000', (r) => r.tagCount()],
    ['a tagged field longer than what is left', '01000500', (r) => r.unknownTags()],
    ['a tagged field to skip, longer than what is left', '01000500', (r) => r.skipTags()],
    ['a name cut off', '000561', (r) => new NameCache().name(r, false)],
    ['an id cut off', '0005', (r) => new NameCache().id(r)],
  ])('%s', (_what, bytes, read) => {
    // Bytes behind the range must not be seen.
    const r = new Reader(Buffer.concat([hex(bytes), Buffer.alloc(64)]), 0, hex(bytes).length);
    expect(() => read(r)).toThrow(expect.objectContaining({ code: 'MALFORMED' }));
  });

  it('is refused when written', () => {
    const long = 'x'.repeat(32768);
    expect(() => written((w) => w.string(long))).toThrow(
      expect.objectContaining({ code: 'INVALID_ARGUMENT' }),
    );
    expect(() => written((w) => w.compactString(`${'x'.repeat(32766)}é`))).toThrow(/32768 bytes/);
    const w = new Writer();
    w.int32(1);
    expect(() => w.patchInt32(1, 5)).toThrow(RangeError);
    expect(() => new Reader(Buffer.alloc(4), 0, 5)).toThrow(RangeError);
  });

  it('is null where null may be', () => {
    expect(reader('ffff').nullableString()).toBeNull();
    expect(reader('00').compactNullableString()).toBeNull();
    expect(reader('ffffffff').nullableBytes()).toBeNull();
    expect(reader('00').compactNullableBytes()).toBeNull();
    expect(reader('ffffffff').nullableArrayCount(4)).toBe(-1);
    expect(reader('00').compactNullableArrayCount(4)).toBe(-1);
  });
});

describe('text', () => {
  const samples = ['', 'orders', 'x'.repeat(31), 'x'.repeat(300), 'naïve café', '漢字かな', '😀 ok'];
  it.each(samples)('%j', (text) => {
    const w = new Writer(16);
    w.string(text);
    w.compactString(text);
    w.nullableString(null);
    w.compactNullableString(text);
    const r = new Reader(w.bytes());
    expect([r.string(), r.compactString(), r.nullableString(), r.compactNullableString()]).toEqual([
      text,
      text,
      null,
      text,
    ]);
  });

  it('replaces what is no UTF-8 as Java does', () => {
    const decoded = (text: string) => new Reader(hex(text)).utf8(text.length / 2);
    expect(decoded('ff41')).toBe('\ufffdA');
    expect(decoded('c041')).toBe('\ufffdA');
    expect(decoded('edbf9f')).toBe('\ufffd');
    expect(decoded('edbd')).toBe('\ufffd');
    expect(decoded('bf90edbda041')).toBe('\ufffd\ufffd\ufffdA');
    expect(decoded('efbfbd')).toBe('\ufffd');
    expect(written((w) => w.string('a\ud800b'))).toBe('0003613f62');
    expect(written((w) => w.compactString('\udc00é'))).toBe('043fc3a9');
  });

  it('gives the same names from the cache, whatever was in it', () => {
    const random = new Random(3);
    const cache = new NameCache();
    const w = new Writer();
    for (let i = 0; i < 5000; i++) {
      const name = random.pick(['a', 'ü', `topic-${random.int(3000)}`, 'x'.repeat(random.int(400)), '']);
      w.reset();
      w.string(name);
      w.compactString(name);
      const id = Buffer.from(`id of ${random.int(3000)}`.padEnd(16)).toString('base64url');
      w.uuid(id);
      const r = new Reader(w.bytes());
      expect([cache.name(r, false), cache.name(r, true), cache.id(r)]).toEqual([name, name, id]);
    }
  });
});

describe('tagged fields', () => {
  it('get their size when they end, whatever it is', () => {
    for (const size of [0, 1, 127, 128, 16383, 16384, 70000]) {
      const w = new Writer(16);
      w.int8(9);
      const at = w.beginTag(3);
      w.raw(new Uint8Array(size).fill(7));
      w.endTag(at);
      w.int8(8);
      const r = new Reader(w.bytes());
      expect([r.int8(), r.unsignedVarint()]).toEqual([9, 3]);
      const end = r.tagEnd();
      expect(end - r.position).toBe(size);
      expect(r.raw(size).every((byte) => byte === 7)).toBe(true);
      r.tagDone(3, end);
      expect(r.int8()).toBe(8);
    }
  });

  it('are refused out of order', () => {
    const field = (tag: number) => ({ tag, data: new Uint8Array(1) });
    const w = new Writer();
    expect(() => w.unknownTags([field(2), field(1)])).toThrow(/comes after/);
    expect(() => w.unknownTags([field(2), field(2)])).toThrow(/comes after/);
    expect(() => w.unknownTagsBelow([field(2)], 0, 2)).toThrow(/both known and unknown/);
  });
});

it('reads from any Uint8Array, and again after reset', () => {
  const memory = new Uint8Array([9, 9, 0, 5, 0, 0, 0, 7, 9]);
  const r = new Reader(memory.subarray(2, 8));
  expect([r.int16(), r.int32(), r.remaining]).toEqual([5, 7, 0]);
  r.reset(memory, 2, 4);
  expect([r.int16(), r.remaining]).toEqual([5, 0]);
  r.reset(memory, 6);
  expect(r.position).toBe(6);
  expect(r.uint16()).toBe(7);
});

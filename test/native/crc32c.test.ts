import { describe, expect, it } from 'vitest';
import { addon } from '../../src/native.ts';
import { codeOf } from '../support/native-testing.ts';

const native = addon();

/** Bit by bit from the definition: the slowest way, and none of the addon's. */
function reference(bytes: Uint8Array): number {
  let crc = 0xffffffff;
  for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ 0x82f63b78 : crc >>> 1;
  }
  return ~crc >>> 0;
}

function noise(length: number, seed: number): Uint8Array {
  let state = seed;
  return Uint8Array.from({ length }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state >>> 24;
  });
}

const paths = (['portable', 'hardware'] as const).filter(
  (path) => native.crc32cBy(new Uint8Array(0), 0, 0, path) >= 0,
);

describe('crc32c', () => {
  it('has a hardware path on the machines that we build for', () => {
    expect(paths).toContain('portable');
    if (process.arch === 'x64') expect(paths).toContain('hardware');
  });

  it.each(paths)('knows the published vectors (%s)', (path) => {
    const ascending = Uint8Array.from({ length: 32 }, (_, i) => i);
    const vectors: [Uint8Array, number][] = [
      [new Uint8Array(0), 0],
      [Buffer.from('123456789'), 0xe3069283],
      // RFC 3720, B.4
      [new Uint8Array(32), 0x8a9136aa],
      [new Uint8Array(32).fill(0xff), 0x62a8ab43],
      [ascending, 0x46dd794e],
      [ascending.toReversed(), 0x113fdb5c],
    ];
    for (const [bytes, crc] of vectors) expect(native.crc32cBy(bytes, 0, bytes.length, path)).toBe(crc);
  });

  it.each(paths)('agrees with the definition at every length and alignment (%s)', (path) => {
    const bytes = noise(13_500, 1);
    // Around each size at which a path changes its stride.
    const lengths = [
      0, 1, 7, 8, 9, 255, 256, 767, 768, 769, 1_535, 1_536, 4_096, 12_287, 12_288, 12_289, 13_063,
    ];
    for (const length of lengths) {
      for (const start of [0, 1, 3, 8]) {
        const expected = reference(bytes.subarray(start, start + length));
        expect([length, start, native.crc32cBy(bytes, start, start + length, path)]).toEqual([
          length,
          start,
          expected,
        ]);
      }
    }
  });

  it('takes one of these paths by itself', () => {
    const bytes = noise(20_000, 2);
    expect(native.crc32c(bytes, 5, 19_999)).toBe(reference(bytes.subarray(5, 19_999)));
  });

  it('refuses parts that are not within the bytes, and paths that are not there', () => {
    const bytes = new Uint8Array(10);
    for (const [start, end] of [
      [0, 11],
      [6, 5],
      [-1, 5],
      [0.5, 5],
      [0, Number.NaN],
      [0, Number.POSITIVE_INFINITY],
    ] as const) {
      expect(codeOf(native.crc32c(bytes, start, end))).toBe('INVALID_ARGUMENT');
    }
    const raw = native as unknown as Record<string, (...args: unknown[]) => number>;
    for (const bad of [undefined, null, 'bytes', 5, {}, [1, 2]]) {
      expect(codeOf(raw.crc32c!(bad, 0, 0))).toBe('INVALID_ARGUMENT');
    }
    expect(codeOf(raw.crc32cBy!(bytes, 0, 0, 'quantum'))).toBe('INVALID_ARGUMENT');
    expect(codeOf(raw.crc32c!())).toBe('INVALID_ARGUMENT');
  });

  it('takes any view, and one whose buffer was taken away as empty', () => {
    const floats = new Float64Array([1]);
    expect(native.crc32c(floats as unknown as Uint8Array, 0, 8)).toBe(
      reference(new Uint8Array(floats.buffer)),
    );
    const gone = new Uint8Array(8);
    structuredClone(gone.buffer, { transfer: [gone.buffer] });
    expect(codeOf(native.crc32c(gone, 0, 8))).toBe('INVALID_ARGUMENT');
    expect(native.crc32c(gone, 0, 0)).toBe(0);
  });
});

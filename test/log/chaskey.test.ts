/** Chaskey-12 gives what its authors publish: the digests of the bytes 0, 1, 2 ... under one secret. */
import { expect, it } from 'vitest';
import { Chaskey } from '../../src/log/chaskey.ts';

const SECRET = Int32Array.of(0x833d3433, 0x009f389f, 0x2398e64f, 0x417acf39);
const PUBLISHED: readonly (readonly [number, readonly number[]])[] = [
  [0, [0x43cb1f41, 0x51eba0c2, 0xff0a8ac3, 0x7ee3f642]],
  [1, [0xf9ac2067, 0x9c35a846, 0x441aad3d, 0x777b7330]],
  [3, [0x8c5e6ab9, 0x5035adfb, 0xbff69f98, 0x965516d9]],
  [15, [0x03cfb44b, 0x283c8163, 0xfca71448, 0xc40a0aea]],
  [16, [0x5dd0e2a9, 0xfb5eac8c, 0x633a392e, 0x500c36f3]],
  [17, [0x8b5f6d5a, 0x202314f6, 0x22092368, 0x9639e606]],
  [31, [0x1d3d30b1, 0x01d74fca, 0x3b2eb54c, 0xd8cd36b4]],
  [32, [0x77962784, 0x07c647fa, 0xdd752c0f, 0xd2f5a799]],
  [33, [0xd74bb867, 0x2c0dfb3a, 0xb697e9cd, 0x5658edda]],
  [63, [0x2dd072e1, 0x42b89efe, 0xfb26b615, 0x049aa451]],
];

it.each(PUBLISHED)('digests %i bytes', (length, words) => {
  const chaskey = new Chaskey(SECRET);
  for (const start of [0, 1, 7]) {
    const bytes = new Uint8Array(start + length + 3).fill(0xa5);
    for (let i = 0; i < length; i++) bytes[start + i] = i;
    chaskey.digest(bytes, start, start + length);
    const { a, b, c, d } = chaskey;
    expect([a, b, c, d].map((word) => word >>> 0)).toEqual(words);
  }
});

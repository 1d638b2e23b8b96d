import { expect, it } from 'vitest';
import { xxh3 } from '../../src/protocol/xxh3.ts';

/** Of bytes (31 i + 7) mod 256, by hash4j 0.22, which Apache Kafka uses. */
const HASHES: readonly (readonly [length: number, hash: bigint])[] = [
  [0, 3244421341483603138n],
  [1, 5502495245947142431n],
  [3, 1582743943441612892n],
  [4, -2549016526957988167n],
  [8, -2394039629164210130n],
  [9, -3754995788605292611n],
  [16, 9099606716676871632n],
  [17, 2345212530088924167n],
  [100, -8316154546292524762n],
  [128, -492175581222641016n],
  [129, -506823097681485574n],
  [240, -3690920546649497853n],
  [241, 809349449570470400n],
  [1024, 2575082683865311686n],
  [1025, -4566685497618039422n],
  [5000, 6169931020318013678n],
];

it.each(HASHES)('hashes %i bytes', (length, hash) => {
  expect(xxh3(Uint8Array.from({ length }, (_, i) => (i * 31 + 7) & 255))).toBe(hash);
});

/**
 * CRC32C (Castagnoli, RFC 3720 appendix B.4), table-driven: the portable fallback, for whoever has no addon. The table
 * approach is "slicing by 8" (Kounavis and Berry, 2005).
 */

const SLICES = 8;
const POLYNOMIAL = 0x82f63b78; // reflected

const tables: Uint32Array[] = Array.from({ length: SLICES }, () => new Uint32Array(256));
for (let n = 0; n < 256; n++) {
  let crc = n;
  for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ POLYNOMIAL : crc >>> 1;
  tables[0]![n] = crc;
}
for (let slice = 1; slice < SLICES; slice++) {
  for (let n = 0; n < 256; n++) {
    const previous = tables[slice - 1]![n]!;
    tables[slice]![n] = (previous >>> 8) ^ tables[0]![previous & 0xff]!;
  }
}
const [t0, t1, t2, t3, t4, t5, t6, t7] = tables as [
  Uint32Array,
  Uint32Array,
  Uint32Array,
  Uint32Array,
  Uint32Array,
  Uint32Array,
  Uint32Array,
  Uint32Array,
];

/** CRC32C of bytes[start, end), unsigned. `seed` is the CRC of what came before, 0 at the beginning. */
export function crc32c(bytes: Uint8Array, start = 0, end = bytes.length, seed = 0): number {
  let crc = ~seed;
  let at = start;
  for (; at + SLICES <= end; at += SLICES) {
    const low = crc ^ (bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 24));
    crc =
      t7[low & 0xff]! ^
      t6[(low >>> 8) & 0xff]! ^
      t5[(low >>> 16) & 0xff]! ^
      t4[low >>> 24]! ^
      t3[bytes[at + 4]!]! ^
      t2[bytes[at + 5]!]! ^
      t1[bytes[at + 6]!]! ^
      t0[bytes[at + 7]!]!;
  }
  for (; at < end; at++) crc = (crc >>> 8) ^ t0[(crc ^ bytes[at]!) & 0xff]!;
  return ~crc >>> 0;
}

/** Which partition a key belongs to, as Kafka's own producers choose it, so that they and this one agree. */

const M = 0x5bd1e995;
const SEED = 0x9747b28c;

/** MurmurHash2 (Austin Appleby, public domain), 32 bits, with Kafka's seed; signed. */
export function murmur2(bytes: Uint8Array): number {
  const length = bytes.length;
  let h = SEED ^ length;
  let at = 0;
  for (; at + 4 <= length; at += 4) {
    let k = bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 24);
    k = Math.imul(k, M);
    k ^= k >>> 24;
    h = Math.imul(h, M) ^ Math.imul(k, M);
  }
  const left = length - at;
  if (left >= 3) h ^= bytes[at + 2]! << 16;
  if (left >= 2) h ^= bytes[at + 1]! << 8;
  if (left >= 1) h = Math.imul(h ^ bytes[at]!, M);
  h ^= h >>> 13;
  h = Math.imul(h, M);
  return h ^ (h >>> 15);
}

/** The partition of a key among `count`. */
export function partitionOf(key: Uint8Array, count: number): number {
  return (murmur2(key) & 0x7fffffff) % count;
}

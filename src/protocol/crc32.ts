/** CRC-32 (ISO 3309, as in gzip): the checksum of messages of magic 0 and 1, and of a gzip member. Table-driven: nothing
 * hot uses it. */

const table = new Uint32Array(256);
for (let n = 0; n < 256; n++) {
  let crc = n;
  for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ 0xedb88320 : crc >>> 1;
  table[n] = crc;
}

/** CRC-32 of bytes[start, end), unsigned. */
export function crc32(bytes: Uint8Array, start = 0, end = bytes.length): number {
  let crc = -1;
  for (let at = start; at < end; at++) crc = (crc >>> 8) ^ table[(crc ^ bytes[at]!) & 0xff]!;
  return ~crc >>> 0;
}

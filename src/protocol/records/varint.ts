/** Zigzag varints (protocol buffers' encoding) as records use them. */
import { BroadsheetError } from '../../runtime/errors.ts';

/** Reads varints from a run of bytes that may end anywhere. */
export class VarintCursor {
  readonly bytes: Uint8Array;
  readonly end: number;
  at: number;

  constructor(bytes: Uint8Array, at: number, end: number) {
    this.bytes = bytes;
    this.at = at;
    this.end = end;
  }

  /** Throws EndOfRecords past the end and MALFORMED after five bytes without an end. */
  varint(): number {
    let value = 0;
    for (let shift = 0; shift < 35; shift += 7) {
      if (this.at >= this.end) throw new EndOfRecords();
      const byte = this.bytes[this.at++]!;
      value |= (byte & 0x7f) << shift;
      if (byte < 0x80) return (value >>> 1) ^ -(value & 1);
    }
    throw new BroadsheetError('MALFORMED', 'a varint of more than five bytes');
  }

  /** 64 bits, as the nearest number. Throws as varint(), after ten bytes. */
  varlong(): number {
    let low = 0;
    let high = 0;
    for (let shift = 0; shift < 70; shift += 7) {
      if (this.at >= this.end) throw new EndOfRecords();
      const byte = this.bytes[this.at++]!;
      const bits = byte & 0x7f;
      if (shift < 28) low += bits * 2 ** shift;
      else if (shift < 56) high += bits * 2 ** (shift - 28);
      else high += bits * 2 ** 28 * (shift === 56 ? 1 : 128);
      if (byte < 0x80) return unzigzag(low, high);
    }
    throw new BroadsheetError('MALFORMED', 'a varlong of more than ten bytes');
  }
}

/** low: 28 bits; high: the 36 above them, any beyond 64 bits in all dropped. */
function unzigzag(low: number, high: number): number {
  const value = (high % 2 ** 36) * 2 ** 28 + low;
  if (high < 2 ** 25) return value % 2 === 0 ? value / 2 : -(value + 1) / 2;
  const exact = (BigInt(high % 2 ** 36) << 28n) | BigInt(low);
  return Number((exact >> 1n) ^ -(exact & 1n));
}

/** The bytes ended within a value: what that means is for the caller to say. */
export class EndOfRecords extends Error {}

/** Writes value at `at` and returns where it ends. The same bytes serve as varint and as varlong. */
export function writeVarlong(bytes: Uint8Array, at: number, value: number): number {
  if (value >= -0x40000000 && value < 0x40000000) {
    let bits = ((value << 1) ^ (value >> 31)) >>> 0;
    for (; bits >= 0x80; bits >>>= 7) bytes[at++] = (bits & 0x7f) | 0x80;
    bytes[at++] = bits;
    return at;
  }
  let bits = BigInt.asUintN(64, (BigInt(value) << 1n) ^ (BigInt(value) >> 63n));
  for (; bits >= 0x80n; bits >>= 7n) bytes[at++] = Number(bits & 0x7fn) | 0x80;
  bytes[at++] = Number(bits);
  return at;
}

const scratch = new Uint8Array(10);

/** Bytes that writeVarlong takes for value. */
export function varlongBytes(value: number): number {
  if (value >= -0x40 && value < 0x40) return 1;
  if (value >= -0x2000 && value < 0x2000) return 2;
  return writeVarlong(scratch, 0, value);
}

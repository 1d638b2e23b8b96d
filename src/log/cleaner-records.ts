/** A walk over the records of a batch that makes no objects, for the log cleaner. */
import { corrupt } from './js-batch.ts';

const ENDLESS = 'a varint of a record has no end';

export class RecordCursor {
  #bytes: Uint8Array = new Uint8Array(0);
  #at = 0;
  #end = 0;
  #left = 0;
  /** Of the record: where its length field begins, where its timestamp delta lies, and where it ends. */
  start = 0;
  timestampAt = 0;
  timestampEnd = 0;
  end = 0;
  timestampDelta = 0;
  offsetDelta = 0;
  keyStart = 0;
  /** -1: no key. */
  keyLength = -1;
  /** -1: a tombstone. */
  valueLength = -1;

  /** The records of a batch, unpacked. */
  reset(bytes: Uint8Array, start: number, end: number, count: number): void {
    this.#bytes = bytes;
    this.#at = start;
    this.#end = end;
    this.#left = count;
  }

  /** Goes to the next record; false at the end. Throws CORRUPT. */
  next(): boolean {
    if (this.#left <= 0) return false;
    this.#left--;
    this.start = this.#at;
    const length = this.#varint(this.#end);
    const end = this.#at + length;
    if (length < 0 || end > this.#end) throw corrupt('a record is longer than its batch');
    this.end = end;
    this.#at++; // attributes
    this.timestampAt = this.#at;
    this.timestampDelta = this.#varlong(end);
    this.timestampEnd = this.#at;
    this.offsetDelta = this.#varint(end);
    this.keyLength = this.#varint(end);
    this.keyStart = this.#at;
    if (this.keyLength > 0) this.#at += this.keyLength;
    if (this.#at > end) throw corrupt('a key is longer than its record');
    this.valueLength = this.#varint(end);
    this.#at = end;
    return true;
  }

  /** Zigzag; bits past 32 are dropped, as in Kafka. */
  #varint(end: number): number {
    let value = 0;
    for (let shift = 0; shift < 35 && this.#at < end; shift += 7) {
      const byte = this.#bytes[this.#at++]!;
      value |= (byte & 0x7f) << shift;
      if (byte < 0x80) return (value >>> 1) ^ -(value & 1);
    }
    throw corrupt(ENDLESS);
  }

  /** Zigzag; exact up to 2^53. */
  #varlong(end: number): number {
    let value = 0;
    let scale = 1;
    for (let i = 0; i < 10 && this.#at < end; i++) {
      const byte = this.#bytes[this.#at++]!;
      value += (byte & 0x7f) * scale;
      if (byte < 0x80) return value % 2 === 0 ? value / 2 : -(value + 1) / 2;
      scale *= 128;
    }
    throw corrupt(ENDLESS);
  }
}

/** Zigzag varlong of a safe integer. */
export function varlong(value: number): number[] {
  let left = value >= 0 ? BigInt(value) * 2n : BigInt(-value) * 2n - 1n;
  const bytes: number[] = [];
  while (left >= 0x80n) {
    bytes.push(Number(left & 0x7fn) | 0x80);
    left >>= 7n;
  }
  bytes.push(Number(left));
  return bytes;
}

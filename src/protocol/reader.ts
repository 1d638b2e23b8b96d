import { BroadsheetError } from '../runtime/errors.ts';

/** A tagged field that the schema does not know: kept as it came, so that it can be written again (KIP-482). */
export interface TaggedField {
  readonly tag: number;
  readonly data: Uint8Array;
}

const TWO_32 = 4294967296;
const EMPTY = Buffer.alloc(0);

/** The int32 at a position that take() returned, or behind it. */
export function int32At(b: Uint8Array, at: number): number {
  return (b[at]! << 24) | (b[at + 1]! << 16) | (b[at + 2]! << 8) | b[at + 3]!;
}

/** The int64 there, as the nearest number. */
export function int64At(b: Uint8Array, at: number): number {
  return int32At(b, at) * TWO_32 + (int32At(b, at + 4) >>> 0);
}

export function malformed(message: string): BroadsheetError {
  return new BroadsheetError('MALFORMED', message);
}

/**
 * Reads Kafka's primitive types from a range of bytes. Every read is checked against the end of the range, and every
 * length and count against the bytes left before anything is allocated; what does not fit throws MALFORMED.
 *
 * Bytes are views of the memory that was handed in: whoever keeps them longer than that memory is valid copies them.
 * An int64 is the nearest number (exact up to 2^53).
 */
export class Reader {
  /** Index of the next byte in the bytes that were handed in. */
  position = 0;
  /** Index after the last byte that may be read. */
  end = 0;
  #source: Uint8Array = EMPTY;
  #buffer: Buffer = EMPTY;

  constructor(bytes: Uint8Array = EMPTY, start = 0, end: number = bytes.length) {
    this.reset(bytes, start, end);
  }

  /** Starts over on bytes[start, end). */
  reset(bytes: Uint8Array, start = 0, end: number = bytes.length): void {
    if (!(start >= 0 && start <= end && end <= bytes.length)) {
      throw new RangeError(`reader range ${start}-${end} of ${bytes.length} bytes`);
    }
    if (bytes !== this.#source) {
      this.#source = bytes;
      this.#buffer = Buffer.isBuffer(bytes)
        ? bytes
        : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    }
    this.position = start;
    this.end = end;
  }

  /** The bytes that positions index: those handed in. */
  get source(): Buffer {
    return this.#buffer;
  }

  get remaining(): number {
    return this.end - this.position;
  }

  /** Takes size bytes and returns where they begin. The one bounds check of all reads. */
  take(size: number): number {
    const start = this.position;
    if (size > this.end - start) {
      throw malformed(`${size} bytes wanted at ${start}, ${this.end - start} left`);
    }
    this.position = start + size;
    return start;
  }

  skip(size: number): void {
    this.take(size);
  }

  int8(): number {
    const at = this.take(1);
    return (this.#buffer[at]! << 24) >> 24;
  }

  boolean(): boolean {
    const at = this.take(1);
    return this.#buffer[at]! !== 0;
  }

  int16(): number {
    const at = this.take(2);
    const b = this.#buffer;
    return ((b[at]! << 24) >> 16) | b[at + 1]!;
  }

  uint16(): number {
    const at = this.take(2);
    const b = this.#buffer;
    return (b[at]! << 8) | b[at + 1]!;
  }

  int32(): number {
    return int32At(this.#buffer, this.take(4));
  }

  uint32(): number {
    return this.int32() >>> 0;
  }

  int64(): number {
    const at = this.take(8);
    const b = this.#buffer;
    return this.int64Of(int32At(b, at), int32At(b, at + 4) >>> 0);
  }

  /** The int64 with these halves (high signed, low unsigned), as this reader represents it. */
  int64Of(high: number, low: number): number {
    return high * TWO_32 + low;
  }

  float64(): number {
    return this.#buffer.readDoubleBE(this.take(8));
  }

  /** 16 bytes as base64url without padding, 22 characters. */
  uuid(): string {
    const at = this.take(16);
    return this.#buffer.toString('base64url', at, at + 16);
  }

  /** At most 5 bytes; 0 to 2^32 - 1. */
  unsignedVarint(): number {
    const b = this.#buffer;
    const end = this.end;
    let at = this.position;
    let value = 0;
    for (let shift = 0; shift < 35; shift += 7) {
      if (at >= end) throw malformed(`a varint at ${this.position} is cut off`);
      const byte = b[at++]!;
      value |= (byte & 0x7f) << shift;
      if (byte < 0x80) {
        this.position = at;
        return value >>> 0;
      }
    }
    throw malformed(`a varint at ${this.position} is longer than 5 bytes`);
  }

  /** Zigzag, at most 5 bytes. */
  varint(): number {
    const value = this.unsignedVarint();
    return (value >>> 1) ^ -(value & 1);
  }

  /** Zigzag, at most 10 bytes. */
  varlong(): number {
    const b = this.#buffer;
    const end = this.end;
    let at = this.position;
    let low = 0;
    let middle = 0;
    let high = 0;
    for (let shift = 0; shift < 70; shift += 7) {
      if (at >= end) throw malformed(`a varlong at ${this.position} is cut off`);
      const byte = b[at++]!;
      const bits = byte & 0x7f;
      if (shift < 28) low |= bits << shift;
      else if (shift < 56) middle |= bits << (shift - 28);
      else high |= bits << (shift - 56);
      if (byte < 0x80) {
        this.position = at;
        return this.varlongOf(low, middle, high & 0xff);
      }
    }
    throw malformed(`a varlong at ${this.position} is longer than 10 bytes`);
  }

  /** The number behind a zigzag varlong of low (28 bits), middle (28 bits) and high (8 bits). */
  varlongOf(low: number, middle: number, high: number): number {
    const half = (low >>> 1) + middle * 134217728 + high * 36028797018963968;
    return (low & 1) === 0 ? half : -half - 1;
  }

  // Lengths. A nullable one returns -1 for null.

  #checked(length: number, what: string): number {
    if (length > this.end - this.position) {
      throw malformed(`${what} of ${length} at ${this.position}, ${this.end - this.position} bytes left`);
    }
    return length;
  }

  #notNull(length: number, what: string): number {
    if (length < 0) throw malformed(`${what} of length ${length} at ${this.position}`);
    return length;
  }

  #nullable(length: number, what: string): number {
    // Kafka takes any negative length for null, and so do clients' encoders that write -1.
    return length < 0 ? -1 : this.#checked(length, what);
  }

  // Strings

  string(): string {
    return this.utf8(this.stringLength());
  }

  stringLength(): number {
    return this.#checked(this.#notNull(this.int16(), 'a string'), 'a string');
  }

  /** -1: null. */
  nullableStringLength(): number {
    return this.#nullable(this.int16(), 'a string');
  }

  nullableString(): string | null {
    const length = this.nullableStringLength();
    return length < 0 ? null : this.utf8(length);
  }

  compactString(): string {
    return this.utf8(this.compactStringLength());
  }

  compactStringLength(): number {
    return this.#checked(this.#notNull(this.unsignedVarint() - 1, 'a string'), 'a string');
  }

  compactNullableString(): string | null {
    const length = this.#nullable(this.unsignedVarint() - 1, 'a string');
    return length < 0 ? null : this.utf8(length);
  }

  /** The next `length` bytes as text; what is no UTF-8 becomes U+FFFD, as in Java. */
  utf8(length: number): string {
    return this.utf8At(this.take(length), length);
  }

  /** As utf8(), from a position that take() returned. */
  utf8At(start: number, length: number): string {
    const text = this.#buffer.toString('utf8', start, start + length);
    return text.includes('\ufffd') ? replacedAsInJava(this.#buffer.subarray(start, start + length)) : text;
  }

  // Bytes and records

  bytes(): Uint8Array {
    return this.raw(this.#checked(this.#notNull(this.int32(), 'bytes'), 'bytes'));
  }

  nullableBytes(): Uint8Array | null {
    const length = this.nullableBytesLength();
    return length < 0 ? null : this.raw(length);
  }

  /** -1: null. */
  nullableBytesLength(): number {
    return this.#nullable(this.int32(), 'bytes');
  }

  compactBytes(): Uint8Array {
    return this.raw(this.#checked(this.#notNull(this.unsignedVarint() - 1, 'bytes'), 'bytes'));
  }

  compactNullableBytes(): Uint8Array | null {
    const length = this.compactNullableBytesLength();
    return length < 0 ? null : this.raw(length);
  }

  /** -1: null. */
  compactNullableBytesLength(): number {
    return this.#nullable(this.unsignedVarint() - 1, 'bytes');
  }

  /** A view of the next `length` bytes. */
  raw(length: number): Uint8Array {
    const start = this.take(length);
    const b = this.#buffer;
    // A plain view: Buffer's own subarray takes three times as long.
    return new Uint8Array(b.buffer, b.byteOffset + start, length);
  }

  // Array counts: minimum is the least number of bytes that one element takes.

  #count(count: number, minimum: number): number {
    if (count * minimum > this.end - this.position) {
      throw malformed(
        `an array of ${count} at ${this.position}: each takes ${minimum} bytes or more, ${this.end - this.position} left`,
      );
    }
    return count;
  }

  arrayCount(minimum: number): number {
    return this.#count(this.#notNull(this.int32(), 'an array'), minimum);
  }

  nullableArrayCount(minimum: number): number {
    const count = this.int32();
    return count < 0 ? -1 : this.#count(count, minimum);
  }

  compactArrayCount(minimum: number): number {
    return this.#count(this.#notNull(this.unsignedVarint() - 1, 'an array'), minimum);
  }

  compactNullableArrayCount(minimum: number): number {
    const count = this.unsignedVarint() - 1;
    return count < 0 ? -1 : this.#count(count, minimum);
  }

  // Tagged fields

  /** Number of tagged fields at the end of a struct; each takes 2 bytes or more. */
  tagCount(): number {
    return this.#count(this.unsignedVarint(), 2);
  }

  /** Reads the size of a tagged field and returns where it ends. */
  tagEnd(): number {
    const size = this.unsignedVarint();
    return this.position + this.#checked(size, 'a tagged field');
  }

  /** A known tagged field was read: it must have filled its size. */
  tagDone(tag: number, end: number): void {
    if (this.position !== end) throw malformed(`tagged field ${tag} ends at ${this.position}, not at ${end}`);
  }

  /** Keeps an unknown tagged field. */
  unknownTag(fields: TaggedField[] | undefined, tag: number, end: number): TaggedField[] {
    const field = { tag, data: this.raw(end - this.position) };
    if (fields === undefined) return [field];
    fields.push(field);
    return fields;
  }

  /** Passes over the tagged fields of a struct. */
  skipTags(): void {
    for (let left = this.tagCount(); left > 0; left--) {
      this.unsignedVarint();
      this.position = this.tagEnd();
    }
  }

  /** All tagged fields of a struct that knows none; undefined if there are none. */
  unknownTags(): TaggedField[] | undefined {
    let fields: TaggedField[] | undefined;
    for (let left = this.tagCount(); left > 0; left--) {
      const tag = this.unsignedVarint();
      fields = this.unknownTag(fields, tag, this.tagEnd());
    }
    return fields;
  }
}

/** Half of a surrogate pair, in three bytes or cut off: Java replaces it by one U+FFFD, Node by one for each byte. */
function replacedAsInJava(bytes: Uint8Array): string {
  const result = Buffer.allocUnsafe(bytes.length);
  let length = 0;
  for (let at = 0; at < bytes.length; at++) {
    const next = bytes[at + 1];
    if (bytes[at] === 0xed && next !== undefined && next >= 0xa0 && next < 0xc0) {
      at += ((bytes[at + 2] ?? 0) & 0xc0) === 0x80 ? 2 : 1;
      result[length++] = 0xff;
    } else result[length++] = bytes[at]!;
  }
  return result.toString('utf8', 0, length);
}

/** Why a message cannot be read: its version is none that the schema knows. */
export function versionUnreadable(message: string, version: number): BroadsheetError {
  return malformed(`${message} has no version ${version}`);
}

/** Why a message cannot be read: a tagged field that the schema knows in other versions only. */
export function tagUnknownToVersion(tag: number, version: number): BroadsheetError {
  return malformed(`tagged field ${tag} is not valid in version ${version}`);
}

import { BroadsheetError } from '../runtime/errors.ts';
import type { TaggedField } from './reader.ts';

const TWO_32 = 4294967296;
const TWO_63 = 2 ** 63;

function invalid(message: string): BroadsheetError {
  return new BroadsheetError('INVALID_ARGUMENT', message);
}

export function putInt32(b: Uint8Array, at: number, value: number): void {
  b[at] = value >> 24;
  b[at + 1] = value >> 16;
  b[at + 2] = value >> 8;
  b[at + 3] = value;
}

/** Saturates at the ends of int64. */
export function putInt64(b: Uint8Array, at: number, value: number): void {
  if (value >= TWO_63) {
    putInt32(b, at, 0x7fffffff);
    putInt32(b, at + 4, -1);
  } else if (value < -TWO_63) {
    putInt32(b, at, -0x80000000);
    putInt32(b, at + 4, 0);
  } else {
    putInt32(b, at, Math.floor(value / TWO_32));
    putInt32(b, at + 4, value);
  }
}

/** Bytes that an unsigned varint takes. */
export function unsignedVarintSize(value: number): number {
  return value < 0x80 ? 1 : value < 0x4000 ? 2 : value < 0x200000 ? 3 : value < 0x10000000 ? 4 : 5;
}

/**
 * Writes Kafka's primitive types into memory that grows. A number is written as an int64 as it is up to 2^53, beyond
 * that as the int64 that the number stands for, saturated at the ends. What a type cannot hold throws INVALID_ARGUMENT.
 */
export class Writer {
  /** Bytes written so far; where the next one goes. */
  position = 0;
  #buffer: Buffer;

  /** @param initialBytes what is allocated at once. */
  constructor(initialBytes = 256) {
    this.#buffer = Buffer.allocUnsafeSlow(Math.max(16, initialBytes));
  }

  /** Starts over in the same memory. */
  reset(): void {
    this.position = 0;
  }

  /** A view of what is written. Valid until reset(), or the next write. */
  bytes(): Buffer {
    return this.#buffer.subarray(0, this.position);
  }

  /** A view of [start, end) of what is written. Stays as it is when the Writer grows, but not over reset(). */
  slice(start: number, end: number): Uint8Array {
    // A plain view: Buffer's own subarray takes three times as long.
    return new Uint8Array(this.#buffer.buffer, this.#buffer.byteOffset + start, end - start);
  }

  /** The memory that take() returned a position of; another one after the next take(). */
  get memory(): Buffer {
    return this.#buffer;
  }

  /** Makes room for size more bytes and returns where they go. */
  take(size: number): number {
    const start = this.position;
    const end = start + size;
    if (end > this.#buffer.length) this.#grow(end);
    this.position = end;
    return start;
  }

  #grow(needed: number): void {
    const larger = Buffer.allocUnsafeSlow(Math.max(needed, this.#buffer.length * 2));
    this.#buffer.copy(larger, 0, 0, this.position);
    this.#buffer = larger;
  }

  int8(value: number): void {
    const at = this.take(1);
    this.#buffer[at] = value;
  }

  boolean(value: boolean): void {
    const at = this.take(1);
    this.#buffer[at] = value ? 1 : 0;
  }

  int16(value: number): void {
    const at = this.take(2);
    const b = this.#buffer;
    b[at] = value >> 8;
    b[at + 1] = value;
  }

  uint16(value: number): void {
    this.int16(value);
  }

  int32(value: number): void {
    const at = this.take(4);
    putInt32(this.#buffer, at, value);
  }

  uint32(value: number): void {
    this.int32(value | 0);
  }

  int64(value: number): void {
    const at = this.take(8);
    putInt64(this.#buffer, at, value);
  }

  int64Halves(high: number, low: number): void {
    const at = this.take(8);
    putInt32(this.#buffer, at, high);
    putInt32(this.#buffer, at + 4, low);
  }

  /** The int64 with these halves (high signed, low unsigned), as this writer represents it. */
  int64Of(high: number, low: number): number {
    return high * TWO_32 + low;
  }

  /** Is value the int64 with these halves, as this writer represents it? */
  isInt64(value: number, high: number, low: number): boolean {
    return value === high * TWO_32 + low;
  }

  float64(value: number): void {
    const at = this.take(8);
    this.#buffer.writeDoubleBE(value, at);
  }

  uuid(value: string): void {
    const at = this.take(16);
    if (value.length !== 22 || this.#buffer.write(value, at, 16, 'base64url') !== 16) {
      throw invalid(`"${value}" is not a uuid of 22 base64url characters`);
    }
  }

  /** 0 to 2^32 - 1. */
  unsignedVarint(value: number): void {
    const at = this.take(unsignedVarintSize(value));
    this.#varintAt(at, value);
  }

  #varintAt(at: number, value: number): void {
    const b = this.#buffer;
    while (value >= 0x80) {
      b[at++] = (value & 0x7f) | 0x80;
      value >>>= 7;
    }
    b[at] = value;
  }

  /** Zigzag of an int32. */
  varint(value: number): void {
    this.unsignedVarint(((value << 1) ^ (value >> 31)) >>> 0);
  }

  /** Zigzag of a whole number, exact up to 2^53. */
  varlong(value: number): void {
    const half = value < 0 ? -(value + 1) : value;
    // The zigzag is half * 2, plus 1 if negative: the lowest 7 bits first, the rest divided out.
    let rest = Math.floor(half / 64);
    let bits = (half % 64) * 2 + (value < 0 ? 1 : 0);
    while (rest > 0) {
      this.int8(bits | 0x80);
      bits = rest % 128;
      rest = Math.floor(rest / 128);
    }
    this.int8(bits);
  }

  // Strings

  string(value: string): void {
    const length = Buffer.byteLength(value);
    if (length === value.length) {
      this.int16(this.#shortLength(length));
      this.#ascii(value, length);
      return;
    }
    const text = wellFormed(value);
    this.int16(this.#shortLength(Buffer.byteLength(text)));
    this.#utf8(text);
  }

  nullableString(value: string | null): void {
    if (value === null) this.int16(-1);
    else this.string(value);
  }

  compactString(value: string): void {
    const length = Buffer.byteLength(value);
    if (length === value.length) {
      this.unsignedVarint(this.#shortLength(length) + 1);
      this.#ascii(value, length);
      return;
    }
    const text = wellFormed(value);
    this.unsignedVarint(this.#shortLength(Buffer.byteLength(text)) + 1);
    this.#utf8(text);
  }

  compactNullableString(value: string | null): void {
    if (value === null) this.unsignedVarint(0);
    else this.compactString(value);
  }

  #shortLength(length: number): number {
    if (length > 0x7fff) throw invalid(`a string of ${length} bytes; the protocol ends at 32767`);
    return length;
  }

  #ascii(value: string, length: number): void {
    const at = this.take(length);
    const b = this.#buffer;
    if (length < 32) {
      for (let i = 0; i < length; i++) b[at + i] = value.charCodeAt(i);
    } else {
      b.write(value, at, length, 'latin1');
    }
  }

  #utf8(text: string): void {
    const length = Buffer.byteLength(text);
    const at = this.take(length);
    this.#buffer.write(text, at, length, 'utf8');
  }

  // Bytes and records

  bytesField(value: Uint8Array): void {
    this.int32(value.length);
    this.raw(value);
  }

  nullableBytes(value: Uint8Array | null): void {
    if (value === null) this.int32(-1);
    else this.bytesField(value);
  }

  compactBytes(value: Uint8Array): void {
    this.unsignedVarint(value.length + 1);
    this.raw(value);
  }

  compactNullableBytes(value: Uint8Array | null): void {
    if (value === null) this.unsignedVarint(0);
    else this.compactBytes(value);
  }

  /** The bytes alone. */
  raw(value: Uint8Array): void {
    const at = this.take(value.length);
    this.#buffer.set(value, at);
  }

  // Tagged fields

  /** Begins a tagged field whose size is not known yet; its bytes follow, then endTag(). */
  beginTag(tag: number): number {
    this.unsignedVarint(tag);
    return this.take(1);
  }

  /** Writes the size of the field that began at beginTag(); moves its bytes if the size takes more than a byte. */
  endTag(at: number): void {
    const size = this.position - at - 1;
    const more = unsignedVarintSize(size) - 1;
    if (more > 0) {
      this.take(more);
      this.#buffer.copyWithin(at + 1 + more, at + 1, at + 1 + size);
    }
    this.#varintAt(at, size);
  }

  /** Writes the unknown tagged fields from index on whose tag is below `below`; returns the index of the next. */
  unknownTagsBelow(fields: readonly TaggedField[], index: number, below: number): number {
    for (; index < fields.length; index++) {
      const field = fields[index]!;
      if (field.tag >= below) break;
      if (index > 0 && field.tag <= fields[index - 1]!.tag) {
        throw invalid(`tagged field ${field.tag} comes after ${fields[index - 1]!.tag}`);
      }
      this.unsignedVarint(field.tag);
      this.#sized(field.data);
    }
    if (index < fields.length && fields[index]!.tag === below) {
      throw invalid(`tagged field ${below} is both known and unknown`);
    }
    return index;
  }

  /** The tagged fields of a struct that knows none. */
  unknownTags(fields: readonly TaggedField[] | undefined): void {
    if (fields === undefined) {
      this.int8(0);
      return;
    }
    this.unsignedVarint(fields.length);
    this.unknownTagsBelow(fields, 0, TWO_32);
  }

  #sized(data: Uint8Array): void {
    this.unsignedVarint(data.length);
    this.raw(data);
  }

  // Patches of what is written

  patchInt32(at: number, value: number): void {
    if (at < 0 || at + 4 > this.position) throw new RangeError(`patch at ${at} of ${this.position} bytes`);
    this.#buffer.writeInt32BE(value | 0, at);
  }
}

/** Java's encoder writes '?' for half of a surrogate pair; Node's would write U+FFFD. */
function wellFormed(text: string): string {
  return text.replace(/\p{Surrogate}/gu, '?');
}

/** Why a message cannot be written: the version lacks a field that is not at its default. */
export function fieldUnsupported(field: string, version: number): BroadsheetError {
  return invalid(`${field} has a value, but version ${version} does not carry it`);
}

/** Why a message cannot be written: a field that is null, in a version where it may not be. */
export function fieldNull(field: string, version: number): BroadsheetError {
  return invalid(`${field} is null, which version ${version} does not allow`);
}

/** Why a message cannot be written: it has tagged fields and the version is not flexible. */
export function tagsUnsupported(message: string, version: number): BroadsheetError {
  return invalid(`${message} has tagged fields, which version ${version} does not carry`);
}

/** Why a message cannot be written: its version is none that the schema knows. */
export function versionUnwritable(message: string, version: number): BroadsheetError {
  return invalid(`${message} has no version ${version}`);
}

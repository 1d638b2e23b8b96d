import type { Reader } from './reader.ts';

interface Entry {
  readonly bytes: Uint8Array;
  readonly text: string;
}

/** Longer names are made anew each time; a topic name has 249 bytes at most. */
const LONGEST = 249;
const PLACES = 1024;

/**
 * Topic names and ids as strings that are made once: the same few arrive with every request, and a string that was
 * looked up before has its hash. One place per hash, the newest wins, so that no peer makes it grow.
 */
export class NameCache {
  readonly #names = new Array<Entry | undefined>(PLACES).fill(undefined);
  readonly #ids = new Array<Entry | undefined>(PLACES).fill(undefined);

  /** Reads a string that is not null. Throws MALFORMED. */
  name(r: Reader, compact: boolean): string {
    return this.#text(r, compact ? r.compactStringLength() : r.stringLength());
  }

  /** Reads a string that may be null, not compact. Throws MALFORMED. */
  nullableName(r: Reader): string | null {
    const length = r.nullableStringLength();
    return length < 0 ? null : this.#text(r, length);
  }

  #text(r: Reader, length: number): string {
    if (length > LONGEST) return r.utf8(length);
    const start = r.take(length);
    const place = hash(r.source, start, length);
    const entry = this.#names[place];
    if (entry !== undefined && same(entry.bytes, r.source, start, length)) return entry.text;
    const text = r.utf8At(start, length);
    this.#names[place] = { bytes: Uint8Array.from(r.source.subarray(start, start + length)), text };
    return text;
  }

  /** Reads a uuid. Throws MALFORMED. */
  id(r: Reader): string {
    const start = r.take(16);
    const place = hash(r.source, start, 16);
    const entry = this.#ids[place];
    if (entry !== undefined && same(entry.bytes, r.source, start, 16)) return entry.text;
    const text = r.source.toString('base64url', start, start + 16);
    this.#ids[place] = { bytes: Uint8Array.from(r.source.subarray(start, start + 16)), text };
    return text;
  }
}

function hash(bytes: Uint8Array, start: number, length: number): number {
  let value = length;
  for (let at = start; at < start + length; at++) value = (Math.imul(value, 31) + bytes[at]!) | 0;
  return (value ^ (value >>> 15)) & (PLACES - 1);
}

function same(known: Uint8Array, bytes: Uint8Array, start: number, length: number): boolean {
  if (known.length !== length) return false;
  for (let i = 0; i < length; i++) if (known[i] !== bytes[start + i]) return false;
  return true;
}

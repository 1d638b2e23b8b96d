/**
 * The last offset of each key, in a bound of memory: an open hash table of 16 bytes of MD5 and 8 of the offset, as Apache Kafka's.
 * Two keys that have the same MD5 would count as one.
 */
import { Md5 } from './md5.ts';

const SLOT_BYTES = 24;
const LEAST_SLOTS = 1024;

export class OffsetMap {
  readonly #slots: number;
  readonly #capacity: number;
  readonly #hashes: Int32Array;
  /** Offset + 1; 0: the slot is free. */
  readonly #offsets: Float64Array;
  readonly #md5 = new Md5();
  #size = 0;
  /** Largest offset whose batch was looked at; -1: none was. */
  latestOffset = -1;
  /** The key of the last call and its slot: keys often come in a row. */
  #lastKey: Uint8Array = new Uint8Array(0);
  #lastLength = -1;
  #lastSlot = 0;

  /** At most `bytes` of memory, and no more than `mostKeys` need; full when `loadFactor` of the slots are taken. */
  constructor(bytes: number, mostKeys: number, loadFactor: number) {
    const wanted = Math.max(LEAST_SLOTS, Math.ceil(mostKeys / loadFactor) + 1);
    this.#slots = Math.max(2, Math.min(Math.floor(bytes / SLOT_BYTES), wanted));
    this.#capacity = Math.max(1, Math.floor(this.#slots * loadFactor));
    this.#hashes = new Int32Array(this.#slots * 4);
    this.#offsets = new Float64Array(this.#slots);
  }

  get size(): number {
    return this.#size;
  }

  get isFull(): boolean {
    return this.#size >= this.#capacity;
  }

  /** Notes a key's offset; offsets of a key ascend. The map must not be full. */
  put(bytes: Uint8Array, start: number, end: number, offset: number): void {
    const slot = this.#slotOf(bytes, start, end);
    if (this.#offsets[slot] === 0) this.#size++;
    this.#offsets[slot] = offset + 1;
  }

  /** The last offset of a key, or -1. */
  get(bytes: Uint8Array, start: number, end: number): number {
    return this.#offsets[this.#slotOf(bytes, start, end)]! - 1;
  }

  #slotOf(bytes: Uint8Array, start: number, end: number): number {
    const length = end - start;
    if (length === this.#lastLength && this.#isLast(bytes, start, length)) return this.#lastSlot;
    const digest = this.#md5.digest(bytes, start, end);
    const a = digest[0]!;
    const b = digest[1]!;
    const c = digest[2]!;
    const d = digest[3]!;
    let slot = (a >>> 0) % this.#slots;
    while (this.#offsets[slot] !== 0) {
      const at = slot * 4;
      const hashes = this.#hashes;
      if (hashes[at] === a && hashes[at + 1] === b && hashes[at + 2] === c && hashes[at + 3] === d) break;
      slot = slot + 1 === this.#slots ? 0 : slot + 1;
    }
    // A slot that stays free may be written to: it is taken with its offset only.
    if (this.#offsets[slot] === 0) this.#hashes.set(digest, slot * 4);
    if (this.#lastKey.length < length) this.#lastKey = new Uint8Array(2 * length);
    this.#lastKey.set(bytes.subarray(start, end));
    this.#lastLength = length;
    this.#lastSlot = slot;
    return slot;
  }

  #isLast(bytes: Uint8Array, start: number, length: number): boolean {
    for (let i = 0; i < length; i++) if (this.#lastKey[i] !== bytes[start + i]) return false;
    return true;
  }
}

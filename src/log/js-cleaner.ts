/** The cleaner's work on bytes in JavaScript. Answers what native/cleaner.cc answers. */
import { crc32c } from '../protocol/crc32c.ts';
import { Chaskey } from './chaskey.ts';
import type { CleanerEngine, Sifted } from './cleaner-engine.ts';
import { type OffsetMap, SLOT_BYTES } from './cleaner-map.ts';
import { RecordCursor } from './cleaner-records.ts';

/** Of a slot: its size, and where its offset lies, counted in words and in doubles. */
const SLOT_WORDS = SLOT_BYTES / 4;
const SLOT_DOUBLES = SLOT_BYTES / 8;
const OFFSET_AT = 2;

const cursor = new RecordCursor();
const sifted: Sifted = { kept: 0, bytes: 0, hasTombstones: false, latestDelta: 0 };

/** A map's memory, as it is searched. */
class Slots {
  readonly #count: number;
  readonly #words: Int32Array;
  readonly #doubles: Float64Array;
  readonly #chaskey: Chaskey;

  constructor({ memory, slots, secret }: OffsetMap) {
    this.#count = slots;
    this.#words = new Int32Array(memory.buffer);
    this.#doubles = new Float64Array(memory.buffer);
    this.#chaskey = new Chaskey(secret);
  }

  /** The slot of the digest of a key, or the free one where it would be. */
  #find(bytes: Uint8Array, start: number, length: number): number {
    const chaskey = this.#chaskey;
    chaskey.digest(bytes, start, start + length);
    const { a, b, c, d } = chaskey;
    const words = this.#words;
    let slot = (a >>> 0) % this.#count;
    while (this.#doubles[slot * SLOT_DOUBLES + OFFSET_AT] !== 0) {
      const at = slot * SLOT_WORDS;
      if (words[at] === a && words[at + 1] === b && words[at + 2] === c && words[at + 3] === d) break;
      slot = slot + 1 === this.#count ? 0 : slot + 1;
    }
    return slot;
  }

  /** Offset + 1; 0: the map does not have the key. */
  get(bytes: Uint8Array, start: number, length: number): number {
    return this.#doubles[this.#find(bytes, start, length) * SLOT_DOUBLES + OFFSET_AT]!;
  }

  /** Whether the key is new. */
  put(bytes: Uint8Array, start: number, length: number, offset: number): boolean {
    const slot = this.#find(bytes, start, length);
    const at = slot * SLOT_DOUBLES + OFFSET_AT;
    const isNew = this.#doubles[at] === 0;
    if (isNew) {
      const { a, b, c, d } = this.#chaskey;
      const words = this.#words;
      words[slot * SLOT_WORDS] = a;
      words[slot * SLOT_WORDS + 1] = b;
      words[slot * SLOT_WORDS + 2] = c;
      words[slot * SLOT_WORDS + 3] = d;
    }
    this.#doubles[at] = offset + 1;
    return isNew;
  }
}

const viewed = new WeakMap<OffsetMap, Slots>();

function slotsOf(map: OffsetMap): Slots {
  const slots = viewed.get(map) ?? new Slots(map);
  viewed.set(map, slots);
  return slots;
}

export const jsCleaner: CleanerEngine = {
  crc32c,

  learn(map, bytes, start, end, count, baseOffset, from): boolean {
    const slots = slotsOf(map);
    cursor.reset(bytes, start, end, count);
    while (cursor.next()) {
      const { keyStart, keyLength, offsetDelta } = cursor;
      if (keyLength < 0 || baseOffset + offsetDelta < from) continue;
      if (map.room <= 0) return false;
      if (slots.put(bytes, keyStart, keyLength, baseOffset + offsetDelta)) map.size++;
    }
    return true;
  },

  sift(map, bytes, start, end, count, baseOffset, upTo, dropsTombstones, into, at): Sifted {
    const slots = slotsOf(map);
    cursor.reset(bytes, start, end, count);
    sifted.kept = 0;
    sifted.bytes = 0;
    sifted.hasTombstones = false;
    sifted.latestDelta = Number.NEGATIVE_INFINITY;
    // What stays in a row is copied at once.
    let run = start;
    const copy = (to: number) => {
      if (to > run) into.set(bytes.subarray(run, to), at + sifted.bytes);
      sifted.bytes += to - run;
    };
    while (cursor.next()) {
      const offset = baseOffset + cursor.offsetDelta;
      const { keyStart, keyLength } = cursor;
      const isTombstone = cursor.valueLength < 0;
      const goes =
        offset <= upTo &&
        (keyLength < 0 ||
          (isTombstone && dropsTombstones) ||
          offset + 1 < slots.get(bytes, keyStart, keyLength));
      if (goes) {
        copy(cursor.start);
        run = cursor.end;
        continue;
      }
      sifted.kept++;
      sifted.hasTombstones ||= isTombstone;
      sifted.latestDelta = Math.max(sifted.latestDelta, cursor.timestampDelta);
    }
    if (sifted.kept < count) copy(count === 0 ? start : cursor.end);
    return sifted;
  },
};

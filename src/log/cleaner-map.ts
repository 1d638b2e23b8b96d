/**
 * The last offset of each key, in a bound of memory: an open hash table of 16 bytes of digest and 8 of the offset, as Apache
 * Kafka's. Two keys of the same digest would count as one; it is keyed at random, so that nobody can make them. Here is the memory;
 * the cleaner's engines (cleaner-engine.ts) fill it and look into it.
 */
import { randomSecret } from './chaskey.ts';

/** Four little-endian words of digest, then the offset + 1 as a double, 0 where the slot is free. */
export const SLOT_BYTES = 24;
const LEAST_SLOTS = 1024;

export class OffsetMap {
  /** The slots, one after the other. A key's is the first free one, or that of its digest, from `first word % slots` on. */
  readonly memory: Uint8Array;
  readonly slots: number;
  readonly secret: Int32Array;
  readonly #capacity: number;
  size = 0;
  /** Largest offset whose batch was looked at; -1: none was. */
  latestOffset = -1;

  /** At most `bytes` of memory, and no more than `mostKeys` need; full when `loadFactor` of the slots are taken. */
  constructor(bytes: number, mostKeys: number, loadFactor: number, secret = randomSecret()) {
    const wanted = Math.max(LEAST_SLOTS, Math.ceil(mostKeys / loadFactor) + 1);
    this.slots = Math.max(2, Math.min(Math.floor(bytes / SLOT_BYTES), wanted));
    // A search ends at a free slot.
    this.#capacity = Math.max(1, Math.min(Math.floor(this.slots * loadFactor), this.slots - 1));
    this.memory = new Uint8Array(this.slots * SLOT_BYTES);
    this.secret = secret;
  }

  /** Keys that there is room for. */
  get room(): number {
    return this.#capacity - this.size;
  }
}

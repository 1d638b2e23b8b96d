/**
 * Chaskey-12 (Mouha et al., "Chaskey: An Efficient MAC Algorithm for 32-bit Microcontrollers", SAC 2014; ISO/IEC 29192-6): a keyed
 * digest of 128 bits that costs little for short inputs. native/chaskey.h is the same.
 */
import { randomFillSync } from 'node:crypto';

const BLOCK_BYTES = 16;
const ROUNDS = 12;

/** Doubles in GF(2^128). */
function doubled([a, b, c, d]: Int32Array): Int32Array {
  return Int32Array.of(
    (a! << 1) ^ (d! >>> 31 === 0 ? 0 : 0x87),
    (b! << 1) | (a! >>> 31),
    (c! << 1) | (b! >>> 31),
    (d! << 1) | (c! >>> 31),
  );
}

export function randomSecret(): Int32Array {
  return randomFillSync(new Int32Array(4));
}

export class Chaskey {
  /** The digest of the last call, as four little-endian words. */
  a = 0;
  b = 0;
  c = 0;
  d = 0;
  readonly #secret: Int32Array;
  /** For an input of whole blocks, and for one whose last block is filled up. */
  readonly #whole: Int32Array;
  readonly #filled: Int32Array;

  /** `secret`: 16 bytes, as four little-endian words. */
  constructor(secret: Int32Array) {
    this.#secret = secret;
    this.#whole = doubled(secret);
    this.#filled = doubled(this.#whole);
  }

  digest(bytes: Uint8Array, start: number, end: number): void {
    this.a = this.#secret[0]!;
    this.b = this.#secret[1]!;
    this.c = this.#secret[2]!;
    this.d = this.#secret[3]!;
    let at = start;
    for (; at + BLOCK_BYTES < end; at += BLOCK_BYTES) {
      this.#take(bytes, at);
      this.#permute();
    }
    const left = end - at;
    const last = left === BLOCK_BYTES ? this.#whole : this.#filled;
    if (left === BLOCK_BYTES) this.#take(bytes, at);
    else this.#takeLast(bytes, at, left);
    this.#add(last);
    this.#permute();
    this.#add(last);
  }

  #add(key: Int32Array): void {
    this.a ^= key[0]!;
    this.b ^= key[1]!;
    this.c ^= key[2]!;
    this.d ^= key[3]!;
  }

  #take(bytes: Uint8Array, at: number): void {
    this.a ^= bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 24);
    this.b ^= bytes[at + 4]! | (bytes[at + 5]! << 8) | (bytes[at + 6]! << 16) | (bytes[at + 7]! << 24);
    this.c ^= bytes[at + 8]! | (bytes[at + 9]! << 8) | (bytes[at + 10]! << 16) | (bytes[at + 11]! << 24);
    this.d ^= bytes[at + 12]! | (bytes[at + 13]! << 8) | (bytes[at + 14]! << 16) | (bytes[at + 15]! << 24);
  }

  /** Fewer bytes than a block: a one comes behind them, and zeros. */
  #takeLast(bytes: Uint8Array, at: number, count: number): void {
    for (let i = 0; i <= count; i++) {
      const byte = (i === count ? 1 : bytes[at + i]!) << ((i & 3) * 8);
      if (i < 4) this.a ^= byte;
      else if (i < 8) this.b ^= byte;
      else if (i < 12) this.c ^= byte;
      else this.d ^= byte;
    }
  }

  #permute(): void {
    let { a, b, c, d } = this;
    for (let round = 0; round < ROUNDS; round++) {
      a = (a + b) | 0;
      b = ((b << 5) | (b >>> 27)) ^ a;
      a = (a << 16) | (a >>> 16);
      c = (c + d) | 0;
      d = ((d << 8) | (d >>> 24)) ^ c;
      a = (a + d) | 0;
      d = ((d << 13) | (d >>> 19)) ^ a;
      c = (c + b) | 0;
      b = ((b << 7) | (b >>> 25)) ^ c;
      c = (c << 16) | (c >>> 16);
    }
    this.a = a;
    this.b = b;
    this.c = c;
    this.d = d;
  }
}

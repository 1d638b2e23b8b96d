/** MD5 (RFC 1321) of short keys: a call into OpenSSL costs several times what the digest of a key does. */

/** Per step: the sine table of the RFC, and how far it rotates. */
const SINES = Int32Array.from({ length: 64 }, (_, i) => Math.floor(Math.abs(Math.sin(i + 1)) * 2 ** 32));
const ROTATIONS = [7, 12, 17, 22, 5, 9, 14, 20, 4, 11, 16, 23, 6, 10, 15, 21];
const TURNS = Int32Array.from({ length: 64 }, (_, i) => ROTATIONS[(i >> 4) * 4 + (i & 3)]!);
/** Which word of the block a step takes. */
const WORDS = Int32Array.from({ length: 64 }, (_, i) => [i, 5 * i + 1, 3 * i + 5, 7 * i][i >> 4]! & 15);
const BLOCK_BYTES = 64;
const LENGTH_AT = 56;

export class Md5 {
  /** The digest of the last call, as four little-endian words. */
  readonly words = new Int32Array(4);
  readonly #block = new Int32Array(16);

  digest(bytes: Uint8Array, start: number, end: number): Int32Array {
    const { words } = this;
    words[0] = 0x67452301;
    words[1] = 0xefcdab89;
    words[2] = 0x98badcfe;
    words[3] = 0x10325476;
    let at = start;
    for (; at + BLOCK_BYTES <= end; at += BLOCK_BYTES) {
      this.#take(bytes, at, BLOCK_BYTES);
      this.#mix();
    }
    const left = end - at;
    this.#take(bytes, at, left);
    const block = this.#block;
    block[left >> 2]! |= 0x80 << ((left & 3) * 8);
    if (left >= LENGTH_AT) {
      this.#mix();
      block.fill(0);
    }
    const length = end - start;
    block[14] = length << 3;
    block[15] = length >>> 29;
    this.#mix();
    return words;
  }

  /** Fills the block with these bytes and zeros. */
  #take(bytes: Uint8Array, from: number, count: number): void {
    const block = this.#block;
    block.fill(0);
    for (let i = 0; i < count; i++) block[i >> 2]! |= bytes[from + i]! << ((i & 3) * 8);
  }

  #mix(): void {
    const { words } = this;
    const block = this.#block;
    let a = words[0]!;
    let b = words[1]!;
    let c = words[2]!;
    let d = words[3]!;
    for (let i = 0; i < 64; i++) {
      let f: number;
      if (i < 16) f = (b & c) | (~b & d);
      else if (i < 32) f = (d & b) | (~d & c);
      else if (i < 48) f = b ^ c ^ d;
      else f = c ^ (b | ~d);
      const sum = (a + f + SINES[i]! + block[WORDS[i]!]!) | 0;
      const turn = TURNS[i]!;
      a = d;
      d = c;
      c = b;
      b = (b + ((sum << turn) | (sum >>> (32 - turn)))) | 0;
    }
    words[0] = (words[0]! + a) | 0;
    words[1] = (words[1]! + b) | 0;
    words[2] = (words[2]! + c) | 0;
    words[3] = (words[3]! + d) | 0;
  }
}

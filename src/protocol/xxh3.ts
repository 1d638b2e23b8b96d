/** XXH3, 64 bits, seed 0 (github.com/Cyan4973/xxHash, doc/xxhash_spec.md). For short inputs that are hashed now and then. */

const MASK = (1n << 64n) - 1n;
const PRIME32_1 = 0x9e3779b1n;
const PRIME32_2 = 0x85ebca77n;
const PRIME32_3 = 0xc2b2ae3dn;
const PRIME64_1 = 0x9e3779b185ebca87n;
const PRIME64_2 = 0xc2b2ae3d27d4eb4fn;
const PRIME64_3 = 0x165667b19e3779f9n;
const PRIME64_4 = 0x85ebca77c2b2ae63n;
const PRIME64_5 = 0x27d4eb2f165667c5n;
const PRIME_MX1 = 0x165667919e3779f9n;
const PRIME_MX2 = 0x9fb21c651e98df25n;

const SECRET = Buffer.from(
  'b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221' +
    'b8084674f743248ee03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8' +
    'a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb' +
    '170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e',
  'hex',
);
/** Of 64 bytes each. */
const STRIPES_PER_BLOCK = (SECRET.length - 64) / 8;

const secretAt = (at: number) => SECRET.readBigUInt64LE(at);

function product(a: bigint, b: bigint): bigint {
  const wide = a * b;
  return (wide & MASK) ^ (wide >> 64n);
}

function avalanche(hash: bigint): bigint {
  let h = hash;
  h ^= h >> 37n;
  h = (h * PRIME_MX1) & MASK;
  return h ^ (h >> 32n);
}

function avalancheXxh64(hash: bigint): bigint {
  let h = hash;
  h ^= h >> 33n;
  h = (h * PRIME64_2) & MASK;
  h ^= h >> 29n;
  h = (h * PRIME64_3) & MASK;
  return h ^ (h >> 32n);
}

function hashUpTo16(input: Buffer): bigint {
  const { length } = input;
  if (length === 0) return avalancheXxh64(secretAt(56) ^ secretAt(64));
  if (length <= 3) {
    const [first, middle, last] = [input[0]!, input[length >> 1]!, input[length - 1]!];
    const combined = BigInt(((first << 16) | (middle << 24) | last | (length << 8)) >>> 0);
    return avalancheXxh64(combined ^ BigInt((SECRET.readUInt32LE(0) ^ SECRET.readUInt32LE(4)) >>> 0));
  }
  if (length <= 8) {
    const high = BigInt(input.readUInt32LE(0));
    const low = BigInt(input.readUInt32LE(length - 4));
    let h = (low + (high << 32n)) ^ secretAt(8) ^ secretAt(16);
    h ^= rotate(h, 49n) ^ rotate(h, 24n);
    h = (h * PRIME_MX2) & MASK;
    h ^= (h >> 35n) + BigInt(length);
    h = (h * PRIME_MX2) & MASK;
    return h ^ (h >> 28n);
  }
  const low = input.readBigUInt64LE(0) ^ secretAt(24) ^ secretAt(32);
  const high = input.readBigUInt64LE(length - 8) ^ secretAt(40) ^ secretAt(48);
  const sum = BigInt(length) + swapped(low) + high + product(low, high);
  return avalanche(sum & MASK);
}

function rotate(value: bigint, bits: bigint): bigint {
  return ((value << bits) | (value >> (64n - bits))) & MASK;
}

function swapped(value: bigint): bigint {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(value);
  return bytes.readBigUInt64BE(0);
}

function mix16(input: Buffer, at: number, secret: number): bigint {
  return product(
    input.readBigUInt64LE(at) ^ secretAt(secret),
    input.readBigUInt64LE(at + 8) ^ secretAt(secret + 8),
  );
}

function hashUpTo128(input: Buffer): bigint {
  const { length } = input;
  let h = (BigInt(length) * PRIME64_1) & MASK;
  for (let i = (length - 1) >> 5; i >= 0; i--) {
    h += mix16(input, 16 * i, 32 * i) + mix16(input, length - 16 * (i + 1), 32 * i + 16);
  }
  return avalanche(h & MASK);
}

function hashUpTo240(input: Buffer): bigint {
  const { length } = input;
  let h = (BigInt(length) * PRIME64_1) & MASK;
  for (let i = 0; i < 8; i++) h += mix16(input, 16 * i, 16 * i);
  h = avalanche(h & MASK);
  for (let i = 8; i < length >> 4; i++) h += mix16(input, 16 * i, 16 * (i - 8) + 3);
  return avalanche((h + mix16(input, length - 16, 136 - 17)) & MASK);
}

function accumulate(lanes: BigUint64Array, input: Buffer, at: number, secret: number): void {
  for (let lane = 0; lane < 8; lane++) {
    const value = input.readBigUInt64LE(at + 8 * lane);
    const keyed = value ^ secretAt(secret + 8 * lane);
    lanes[lane ^ 1] = lanes[lane ^ 1]! + value;
    lanes[lane] = lanes[lane]! + (keyed & 0xffffffffn) * (keyed >> 32n);
  }
}

function hashLong(input: Buffer): bigint {
  const { length } = input;
  const lanes = BigUint64Array.of(
    PRIME32_3,
    PRIME64_1,
    PRIME64_2,
    PRIME64_3,
    PRIME64_4,
    PRIME32_2,
    PRIME64_5,
    PRIME32_1,
  );
  const stripes = (length - 1) >> 6;
  for (let stripe = 0; stripe < stripes; stripe++) {
    const within = stripe % STRIPES_PER_BLOCK;
    accumulate(lanes, input, 64 * stripe, 8 * within);
    if (within !== STRIPES_PER_BLOCK - 1) continue;
    for (let lane = 0; lane < 8; lane++) {
      const value = lanes[lane]!;
      lanes[lane] = (value ^ (value >> 47n) ^ secretAt(SECRET.length - 64 + 8 * lane)) * PRIME32_1;
    }
  }
  accumulate(lanes, input, length - 64, SECRET.length - 64 - 7);
  let h = BigInt(length) * PRIME64_1;
  for (let i = 0; i < 4; i++) {
    h += product(lanes[2 * i]! ^ secretAt(11 + 16 * i), lanes[2 * i + 1]! ^ secretAt(19 + 16 * i));
  }
  return avalanche(h & MASK);
}

/** As a signed number. */
export function xxh3(bytes: Uint8Array): bigint {
  const input = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const { length } = input;
  let hash: bigint;
  if (length <= 16) hash = hashUpTo16(input);
  else if (length <= 128) hash = hashUpTo128(input);
  else if (length <= 240) hash = hashUpTo240(input);
  else hash = hashLong(input);
  return BigInt.asIntN(64, hash);
}

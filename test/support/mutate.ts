/** Changes bytes as a fuzzer does. */
import type { Random } from './random.ts';

/** Numbers that length fields like least. */
const EXTREMES = [
  'ffffffff',
  '7fffffff',
  '80000000',
  'ffffffff0f',
  'ffffffff7f',
  '00',
  'ffff',
  '7fff',
  '8000',
  'ffff03',
];

/** Bytes with one to three changes: a bit, an end, an extreme length, noise, a piece twice. */
export function mutate(original: Buffer, random: Random): Buffer {
  let bytes = Buffer.from(original);
  for (let times = 1 + random.int(3); times > 0; times--) {
    const at = random.int(bytes.length + 1);
    switch (random.int(5)) {
      case 0:
        if (at < bytes.length) bytes[at]! ^= 1 << random.int(8);
        break;
      case 1:
        bytes = bytes.subarray(0, at);
        break;
      case 2: {
        const value = Buffer.from(random.pick(EXTREMES), 'hex');
        bytes = Buffer.concat([bytes.subarray(0, at), value, bytes.subarray(at + value.length)]);
        break;
      }
      case 3: {
        const noise = Buffer.from(Array.from({ length: 1 + random.int(6) }, () => random.int(256)));
        bytes = Buffer.concat([bytes.subarray(0, at), noise, bytes.subarray(at)]);
        break;
      }
      default: {
        const from = random.int(bytes.length + 1);
        const piece = bytes.subarray(from, from + random.int(32));
        bytes = Buffer.concat([bytes.subarray(0, at), piece, bytes.subarray(at)]);
      }
    }
  }
  return bytes;
}

/** Our MD5 against OpenSSL's. */
import { createHash } from 'node:crypto';
import { expect, it } from 'vitest';
import { Md5 } from '../../src/log/md5.ts';
import { Random } from '../support/random.ts';

const SEED = Number(process.env.BROADSHEET_SEED ?? 1_321);

it(`digests as OpenSSL does, whatever the length and place, BROADSHEET_SEED=${SEED}`, () => {
  const random = new Random(SEED);
  const md5 = new Md5();
  for (let length = 0; length <= 300; length++) {
    const start = random.int(9);
    const bytes = Uint8Array.from({ length: start + length + random.int(9) }, () => random.int(256));
    const words = md5.digest(bytes, start, start + length);
    const digest = Buffer.alloc(16);
    words.forEach((word, i) => void digest.writeInt32LE(word, 4 * i));
    const wanted = createHash('md5')
      .update(bytes.subarray(start, start + length))
      .digest('hex');
    expect(digest.toString('hex'), `${length} bytes`).toBe(wanted);
  }
});

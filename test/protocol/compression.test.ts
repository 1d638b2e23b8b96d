import { describe, expect, it } from 'vitest';
import {
  COMPRESSIONS,
  type CompressionName,
  compress,
  decompress,
  inflate,
} from '../../src/protocol/compression.ts';
import { crc32 } from '../../src/protocol/crc32.ts';
import { crc32c } from '../../src/protocol/crc32c.ts';
import { xxhash32 } from '../../src/protocol/xxhash32.ts';

const codecs = COMPRESSIONS.filter((name) => name !== 'none');

function sample(bytes: number, seed: number): Buffer {
  const out = Buffer.alloc(bytes);
  let state = seed;
  for (let at = 0; at < bytes; at++) {
    state = (Math.imul(state, 1103515245) + 12345) >>> 0;
    // Half noise, half repetition, so that literals and copies both occur.
    out[at] = (at >> 6) & 1 ? out[at - 64]! : state >>> 24;
  }
  return out;
}

describe('checksums', () => {
  it('give the published check values', () => {
    const digits = Buffer.from('123456789');
    expect(crc32(digits)).toBe(0xcbf43926);
    expect(crc32c(digits)).toBe(0xe3069283);
    expect(xxhash32(digits, 0, digits.length)).toBe(0x937bad67);
    expect(xxhash32(digits, 0, 0)).toBe(0x02cc5d05);
  });

  it('crc32c goes on from where it stopped', () => {
    const bytes = sample(1000, 7);
    expect(crc32c(bytes, 333, 1000, crc32c(bytes, 0, 333))).toBe(crc32c(bytes));
  });
});

describe.each(codecs)('%s', (name) => {
  it.each([0, 1, 100, 32_768, 65_536, 65_537, 300_000])('gives %i bytes back', (size) => {
    const bytes = sample(size, size + 1);
    const packed = compress(name, bytes);
    expect(Buffer.compare(decompress(name, packed, Math.max(1, size)), bytes)).toBe(0);
  });

  it('stops at the limit, however small the payload', () => {
    const bomb = compress(name, Buffer.alloc(20_000_000));
    expect(() => decompress(name, bomb, 1_000_000)).toThrow(/more than the limit of 1000000 bytes/);
    try {
      decompress(name, bomb, 1_000_000);
    } catch (error) {
      expect(error).toMatchObject({ code: 'BATCH_TOO_LARGE' });
    }
  });

  it('never gives more than the limit', () => {
    const bytes = sample(70_000, 3);
    const packed = compress(name, bytes);
    expect(() => decompress(name, packed, 69_999)).toThrow();
    expect(decompress(name, packed, 70_000).length).toBe(70_000);
  });

  it('survives every truncation and every single broken byte', () => {
    const bytes = sample(3000, 11);
    const packed = compress(name, bytes);
    for (let cut = 0; cut < packed.length; cut++) {
      const { bytes: output, fault } = inflate(name, packed.subarray(0, cut), 10_000);
      expect(output.length).toBeLessThanOrEqual(3000);
      if (fault === undefined) expect(output.length).toBeLessThan(3000);
      else expect(fault.code).toBe('BATCH_CORRUPT');
    }
    for (let at = 0; at < packed.length; at++) {
      const broken = Buffer.from(packed);
      broken[at]! ^= 1 << (at % 8);
      try {
        expect(inflate(name, broken, 10_000).bytes.length).toBeLessThanOrEqual(10_000);
      } catch (error) {
        expect(error).toMatchObject({ code: 'BATCH_TOO_LARGE' });
      }
    }
  });
});

describe('junk after the stream', () => {
  const bytes = sample(500, 5);
  const junk = Buffer.from('some junk');
  const withJunk = (name: CompressionName) => inflate(name, Buffer.concat([compress(name, bytes), junk]));

  it('is taken by gzip and lz4, as Kafka does', () => {
    for (const name of ['gzip', 'lz4'] as const) {
      const { bytes: output, fault } = withJunk(name);
      expect(fault).toBeUndefined();
      expect(Buffer.compare(output, bytes)).toBe(0);
    }
  });

  it('is a fault for snappy and zstd', () => {
    expect(withJunk('snappy').fault?.code).toBe('BATCH_CORRUPT');
    expect(withJunk('zstd').fault?.code).toBe('BATCH_CORRUPT');
  });
});

describe('claims', () => {
  it('of raw snappy are not believed', () => {
    const claim = Buffer.from([0xff, 0xff, 0xff, 0xff, 0x07, 0x00, 0x41]);
    expect(inflate('snappy', claim).fault?.message).toContain('2147483647 bytes claimed by a block of 7');
  });

  it('of a zstd frame are not believed', () => {
    const frame = Buffer.from('28b52ffde0ffffffffffffff7f010000', 'hex');
    expect(inflate('zstd', frame).fault?.message).toContain('claimed, 0 possible');
  });

  it('of a zstd window are bounded', () => {
    const frame = Buffer.from('28b52ffd00ff010000', 'hex');
    expect(inflate('zstd', frame).fault?.message).toContain('window');
  });

  it('of linked lz4 blocks are refused', () => {
    const frame = Buffer.from('04224d184040c000000000', 'hex');
    expect(inflate('lz4', frame).fault?.message).toContain('linked');
  });
});

describe('foreign framings', () => {
  it('raw snappy', () => {
    const raw = Buffer.from('0a24', 'hex');
    const block = Buffer.concat([raw, Buffer.from('aaaaaaaaaa')]);
    expect(decompress('snappy', block).toString()).toBe('aaaaaaaaaa');
  });

  it('several gzip members, several zstd frames', () => {
    for (const name of ['gzip', 'zstd'] as const) {
      const two = Buffer.concat([compress(name, Buffer.from('one ')), compress(name, Buffer.from('two'))]);
      expect(Buffer.from(decompress(name, two)).toString()).toBe('one two');
    }
  });
});

import { describe, expect, it } from 'vitest';
import { parseAddresses } from '../../src/client/address.ts';
import { assign } from '../../src/client/group-member.ts';
import { murmur2, partitionOf } from '../../src/client/partitioner.ts';

describe('a partition', () => {
  it('is chosen by murmur2 of the key', () => {
    const hashes: [string, number][] = [
      ['21', -973932308],
      ['foobar', -790332482],
      ['a-little-bit-long-string', -985981536],
      ['a-little-bit-longer-string', -1486304829],
      ['lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8', -58897971],
      ['abc', 479470107],
    ];
    for (const [key, hash] of hashes) expect([key, murmur2(Buffer.from(key))]).toEqual([key, hash]);
    expect(partitionOf(Buffer.from('21'), 7)).toBe((-973932308 & 0x7fffffff) % 7);
  });

  it('is assigned to one member, in runs or dealt out', () => {
    const members = ['c', 'a', 'b'].map((memberId) => ({
      memberId,
      order: memberId,
      topics: memberId === 'c' ? ['t'] : ['t', 'u'],
    }));
    const counts = new Map([
      ['t', 7],
      ['u', 3],
    ]);
    const plain = (name: 'range' | 'roundrobin') =>
      Object.fromEntries(
        [...assign(name, members, counts)].map(([id, topics]) => [id, Object.fromEntries(topics)]),
      );
    expect(plain('range')).toEqual({
      a: { t: [0, 1, 2], u: [0, 1] },
      b: { t: [3, 4], u: [2] },
      c: { t: [5, 6] },
    });
    expect(plain('roundrobin')).toEqual({
      a: { t: [0, 3, 6], u: [1] },
      b: { t: [1, 4], u: [0, 2] },
      c: { t: [2, 5] },
    });
    expect(() => assign('sticky' as 'range', members, counts)).toThrow('sticky');
  });
});

describe('an address', () => {
  it('is host:port, as many as there are', () => {
    expect(parseAddresses('a:1, [::1]:65535')).toEqual([
      { host: 'a', port: 1 },
      { host: '::1', port: 65535 },
    ]);
    for (const bad of ['', 'a', ':1', 'a:', 'a:65536', 'a:1,', 'a:-1']) {
      expect(() => parseAddresses(bad), bad).toThrow('not host:port');
    }
  });
});

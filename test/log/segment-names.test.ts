import { describe, expect, it } from 'vitest';
import { offsetOfFileName, segmentBases, segmentFileName } from '../../src/log/segment-names.ts';

describe('names of segments', () => {
  it('carry the base offset', () => {
    expect(segmentFileName(12, '.log')).toBe('00000000000000000012.log');
    expect(offsetOfFileName('00000000000000000012.timeindex')).toBe(12);
    for (const name of [
      '12.log',
      '00000000000000000012',
      '99999999999999999999.log',
      'leader-epoch-checkpoint',
    ])
      expect(offsetOfFileName(name)).toBeUndefined();
  });

  it('tell which segments there are', () => {
    const names = [
      '00000000000000000079.log',
      '00000000000000000012.log',
      '00000000000000000012.index',
      '00000000000000000003.log.deleted',
      '00000000000000000005-0000000001.checkpoint',
      '99999999999999999999.log',
    ];
    expect(segmentBases(names)).toEqual([12, 79]);
    expect(segmentBases([])).toEqual([]);
  });
});

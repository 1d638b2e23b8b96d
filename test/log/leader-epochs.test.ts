import { describe, expect, it } from 'vitest';
import { LeaderEpochs } from '../../src/log/leader-epochs.ts';
import { epochsText } from '../support/checkpoint-text.ts';

const KAFKA_TEXT = '0\n2\n0 0\n2 250\n';

describe('LeaderEpochs', () => {
  it('reads and writes what Kafka writes', () => {
    const epochs = LeaderEpochs.parse(KAFKA_TEXT);
    expect(epochs.text()).toBe('0\n4\n0 0\n0 0\n2 250\n2 250\n');
    expect(LeaderEpochs.parse(epochs.text()).entries).toEqual(epochs.entries);
    expect(LeaderEpochs.parse('').entries).toEqual([]);
    expect(new LeaderEpochs().text()).toBe('0\n0\n');
  });

  it.each([
    '0\n1\n',
    '0\n2\n0 0\n',
    '1\n0\n',
    '0\n1\n0 0',
    '0\n1\n0\n',
    '0\n1\nx 0\n',
    '0\n2\n3 0\n2 5\n',
    '0\n1\n-1 0\n',
    '0\n2\n3 5\n4 5\n',
  ])('refuses %j', (text) => {
    expect(() => LeaderEpochs.parse(text)).toThrow(expect.objectContaining({ code: 'CORRUPT' }));
  });

  it('replaces an entry that starts at the offset of the new one', () => {
    const epochs = LeaderEpochs.parse(KAFKA_TEXT);
    epochs.assign(5, 250);
    expect(epochs.entries).toEqual([
      { epoch: 0, startOffset: 0 },
      { epoch: 5, startOffset: 250 },
    ]);
    expect(epochs.dirty).toBe(true);
  });

  it('keeps the start of the epoch that it has', () => {
    const epochs = LeaderEpochs.parse(KAFKA_TEXT);
    epochs.assign(2, 300);
    expect(epochs.dirty).toBe(false);
    expect(epochs.text()).toBe(epochsText('0 0', '2 250'));
  });

  it('drops what begins past the end and what ends before the start', () => {
    const epochs = LeaderEpochs.parse('0\n4\n0 0\n2 100\n4 200\n6 300\n');
    epochs.truncateFromEnd(300);
    epochs.truncateFromStart(123);
    expect(epochs.text()).toBe(epochsText('2 123', '4 200'));
    epochs.truncateFromStart(123);
    expect(epochs.dirty).toBe(false);
    epochs.truncateFromStart(1000);
    expect(epochs.text()).toBe(epochsText('4 1000'));
  });

  it('tells where an epoch ends', () => {
    const epochs = LeaderEpochs.parse('0\n3\n1 10\n3 20\n7 30\n');
    const ends = (epoch: number) => {
      const { epoch: floor, endOffset } = epochs.endOffsetFor(epoch, 40);
      return [floor, endOffset];
    };
    expect(ends(7)).toEqual([7, 40]);
    expect(ends(8)).toEqual([-1, -1]);
    expect(ends(5)).toEqual([3, 30]);
    expect(ends(3)).toEqual([3, 30]);
    expect(ends(0)).toEqual([0, 10]);
    expect(ends(-1)).toEqual([-1, -1]);
    expect(new LeaderEpochs().endOffsetFor(0, 5)).toEqual({ epoch: -1, endOffset: -1 });
  });

  it('tells the epoch of an offset', () => {
    const epochs = LeaderEpochs.parse('0\n2\n1 10\n3 20\n');
    expect([9, 10, 19, 20, 99].map((offset) => epochs.epochOf(offset))).toEqual([-1, 1, 1, 3, 3]);
  });
});

import { describe, expect, it } from 'vitest';
import { BroadsheetError } from '../../src/runtime/errors.ts';
import { rawBatch } from './batches.ts';
import { MemoryEngine, type MemoryLog } from './memory-log.ts';

const options = {
  segmentBytes: 200,
  segmentMs: 1000,
  indexBytes: 1024,
  indexIntervalBytes: 4096,
  logStartOffset: 0,
  recoveryPoint: 0,
  cleanShutdown: true,
  now: 0,
};

describe('MemoryLog', () => {
  it('writes what was staged, rolls by size and reads back within one segment', async () => {
    const engine = new MemoryEngine();
    const log = await engine.open('/d/t-0', options);
    for (let i = 0; i < 5; i++) {
      const bytes = rawBatch({ recordCount: 2, maxTimestamp: i });
      const staged = log.stage(bytes, 0, bytes.length, 3, 0);
      expect(staged.baseOffset).toBe(2 * i);
      expect(staged.rolled).toBe(i === 3);
    }
    expect(log.logEndOffset).toBe(10);
    expect(log.writtenOffset).toBe(0);
    engine.commit((_, error) => expect(error).toBeUndefined());
    expect(log.segmentBaseOffsets()).toEqual([0, 6]);
    const read = log.read(3, 1000, 10, true);
    expect(read).toMatchObject({ kind: 'range', range: { position: 61, length: 122 } });
    expect(log.read(10, 1000, 10, true)).toEqual({ kind: 'empty' });
    expect(log.read(11, 1000, 10, true)).toEqual({ kind: 'out-of-range' });
    expect((await log.scanBatches(5, 8, false)).map((batch) => batch.baseOffset)).toEqual([4, 6]);
    await log.close();
    const again = await engine.open('/d/t-0', options);
    expect(again.logEndOffset).toBe(10);
    expect((await again.scanBatches(0, 10, false)).every((batch) => batch.leaderEpoch === 3)).toBe(true);
  });

  it('cuts back to the last commit when a commit fails', async () => {
    const engine = new MemoryEngine();
    const log = (await engine.open('/d/t-0', options)) as MemoryLog;
    const bytes = rawBatch({ recordCount: 1 });
    log.stage(bytes, 0, bytes.length, 0, 0);
    engine.failNextCommit.set('/d/t-0', new BroadsheetError('NO_SPACE', 'disk full'));
    const seen: unknown[] = [];
    engine.commit((_, error) => seen.push(error?.code));
    expect(seen).toEqual(['NO_SPACE']);
    expect(log.logEndOffset).toBe(0);
  });
});

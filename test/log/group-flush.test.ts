import { describe, expect, it } from 'vitest';
import { GroupFlush } from '../../src/log/group-flush.ts';
import type { Log } from '../../src/log/log.ts';
import type { Partition } from '../../src/log/partition.ts';
import { BroadsheetError } from '../../src/runtime/errors.ts';
import { MemoryEngine } from '../support/memory-log.ts';

describe('a group of flushes', () => {
  it('tells partitions whose log went offline by itself too', async () => {
    const engine = new MemoryEngine();
    const flushed: Log[][] = [];
    engine.flushAll = async (logs) => void flushed.push([...logs]);
    const told: string[] = [];
    const group = new GroupFlush(engine, (partitions) => told.push(...partitions.map(({ topic }) => topic)));
    const offline = new BroadsheetError('IO', 'a flush that the log began failed');
    const broken = { topic: 'broken', log: {}, offline } as unknown as Partition;
    const sound = { topic: 'sound', log: {}, offline: undefined } as unknown as Partition;
    for (const partition of [broken, sound]) group.add(partition);
    await group.start();
    expect(told).toEqual(['broken', 'sound']);
    expect(flushed).toEqual([[sound.log]]);
  });

  it('rejects when it fails, unless a partition was deleted meanwhile', async () => {
    const engine = new MemoryEngine();
    engine.flushAll = async () => {
      throw new BroadsheetError('CLOSED', 'the log is closed');
    };
    const flushed = (...deleted: boolean[]) => {
      const group = new GroupFlush(engine, () => {});
      for (const each of deleted)
        group.add({ log: {}, offline: undefined, deleted: each } as unknown as Partition);
      return group.start();
    };
    await expect(flushed(false, false)).rejects.toMatchObject({ code: 'CLOSED' });
    await flushed(false, true);
  });
});

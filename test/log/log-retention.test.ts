/** Retention and roll on real files, under a virtual clock. */
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import type { TopicConfig } from '../../src/config/topic-config.ts';
import { cleanSegments } from '../../src/log/cleaner-pass.ts';
import type { SegmentCleaner } from '../../src/log/cleaner-thread.ts';
import { LogCommitter } from '../../src/log/committer.ts';
import type { LogEngine } from '../../src/log/log.ts';
import { LogManager } from '../../src/log/log-manager.ts';
import type { Partition } from '../../src/log/partition.ts';
import { type RecordBatch, readBatches } from '../../src/protocol/records/reader.ts';
import { BatchBuilder } from '../../src/protocol/records/writer.ts';
import { VirtualClock } from '../../src/runtime/clock.ts';
import { silentLogger } from '../../src/runtime/logging.ts';
import { ENGINES } from '../support/engines.ts';
import { scratch } from '../support/logs.ts';
import { batchInfoOf } from '../support/memory-log.ts';
import { LOG_SETTINGS, topicConfigForTests } from '../support/topic-config.ts';

const ID = 'OeXl6uY5Tm2ppr3C3B0cZQ';
const HOUR = 3_600_000;
const silent = { onAppended() {}, onAppendFailed() {} };
const cleaner: SegmentCleaner = { clean: (job) => cleanSegments(job, () => {}), close: async () => {} };
/** Longer than any test waits. */
const NEVER = 1e12;
const settings = {
  ...LOG_SETTINGS,
  retentionCheckMs: NEVER,
  retentionDelayMs: NEVER,
  recoveryPointCheckpointMs: NEVER,
  logStartCheckpointMs: NEVER,
  highWatermarkCheckpointMs: NEVER,
  producerExpirationCheckMs: NEVER,
};

describe.each(ENGINES)('retention, engine=$name', ({ make }) => {
  let engine: LogEngine;
  let manager: LogManager;
  let clock: VirtualClock;
  let dir: string;

  afterEach(async () => {
    await manager.close(1);
    await engine.close();
  });

  async function begin(overrides: Partial<TopicConfig>, random?: () => number): Promise<Partition> {
    dir = scratch(true);
    clock = new VirtualClock();
    engine = make();
    const config = topicConfigForTests({ segmentMs: HOUR - 1, ...overrides });
    const description = { topicId: ID, leaderEpoch: 0, config };
    const committer = new LogCommitter(engine);
    const parts = { dataDir: dir, engine, committer, clock, logger: silentLogger, settings, cleaner };
    manager = await LogManager.open({ ...parts, random }, () => description);
    return manager.create('t', 0, description);
  }

  function append(partition: Partition, timestamp = clock.now(), key = 'k'): void {
    const builder = new BatchBuilder({});
    builder.append({ timestamp, key, value: 'x'.repeat(100) });
    const bytes = builder.build();
    const info = batchInfoOf(bytes, 0);
    expect(partition.append(bytes, 0, bytes.length, info, clock.now(), silent, 0)).toBeUndefined();
    manager.commitTick();
  }

  /** Segments of an hour, one record each. */
  function fill(partition: Partition, hours: number): void {
    for (let i = 0; i < hours; i++) {
      if (i > 0) clock.advance(HOUR);
      append(partition);
    }
  }

  const bases = (partition: Partition) => partition.log.segmentBaseOffsets();
  const files = (suffix: string) =>
    readdirSync(join(dir, 't-0'))
      .filter((name) => name.endsWith(suffix))
      .map((name) => Number(name.split('.')[0]))
      .sort((a, b) => a - b);

  it('keeps files of what it deletes for file.delete.delay.ms', async () => {
    const partition = await begin({ retentionMs: 2.5 * HOUR, fileDeleteDelayMs: 5000 });
    fill(partition, 5);
    await manager.retain();
    expect(bases(partition)).toEqual([2, 3, 4]);
    expect(files('.log')).toEqual([2, 3, 4]);
    for (const suffix of ['.log.deleted', '.index.deleted', '.timeindex.deleted'])
      expect(files(suffix)).toEqual([0, 1]);
    // What goes later, goes later; the delay is that of the topic at the deletion.
    clock.advance(4999);
    manager.setConfig(partition, { ...partition.config, retentionMs: 1.5 * HOUR, fileDeleteDelayMs: 0 });
    await manager.retain();
    expect(files('.log.deleted')).toEqual([0, 1, 2]);
    clock.advance(0);
    const until = async (left: number[]) => {
      while (files('.deleted').join() !== left.flatMap((base) => [base, base, base]).join())
        await new Promise((resolve) => setTimeout(resolve, 1));
    };
    await until([0, 1]);
    clock.advance(1);
    await until([]);
    expect(files('.log')).toEqual([3, 4]);
  });

  it('removes at a stop what waits', async () => {
    const partition = await begin({ retentionMs: HOUR, fileDeleteDelayMs: NEVER });
    fill(partition, 4);
    await manager.retain();
    expect(files('.log.deleted')).toEqual([0, 1]);
    await manager.close(1);
    expect(files('.deleted')).toEqual([]);
    expect(files('.log')).toEqual([2, 3]);
  });

  it('counts the active segment to retention.bytes, and takes it when the rest may be nothing', async () => {
    const partition = await begin({ retentionMs: -1 });
    fill(partition, 5);
    const each = partition.log.sizeInBytes / 5;
    const retain = async (retentionBytes: number) => {
      manager.setConfig(partition, { ...partition.config, retentionBytes });
      await manager.retain();
      return bases(partition);
    };
    expect(await retain(4 * each + 1)).toEqual([0, 1, 2, 3, 4]);
    expect(await retain(4 * each)).toEqual([1, 2, 3, 4]);
    expect(await retain(each + 1)).toEqual([3, 4]);
    expect(await retain(1)).toEqual([4]);
    expect(await retain(0)).toEqual([5]);
    expect([partition.logStartOffset, partition.logEndOffset]).toEqual([5, 5]);
  });

  it('of a compacted topic that deletes too takes what is too old, compacted or not', async () => {
    const cleanupPolicy = ['compact', 'delete'];
    const partition = await begin({ cleanupPolicy, retentionMs: 3.5 * HOUR, minCleanableDirtyRatio: 0 });
    append(partition, clock.now(), 'once');
    for (let i = 0; i < 5; i++) {
      append(partition);
      clock.advance(HOUR);
    }
    await manager.compact(partition);
    append(partition);
    const kept = async () => {
      const bytes = await partition.log.readBatches(partition.logStartOffset, 1e6, partition.highWatermark);
      const batches = [...readBatches(bytes)] as RecordBatch[];
      return batches.flatMap((batch) => [...batch.records()].map(({ offset }) => offset));
    };
    expect(await kept()).toEqual([0, 5, 6]);
    // What is left of many segments is in one, which is as old as its newest record.
    clock.advance(2.5 * HOUR);
    await manager.retain();
    expect(await kept()).toEqual([0, 5, 6]);
    clock.advance(1);
    await manager.retain();
    expect(await kept()).toEqual([6]);
    manager.setConfig(partition, { ...partition.config, cleanupPolicy: ['compact'] });
    clock.advance(100 * HOUR);
    await manager.retain();
    expect(await kept()).toEqual([6]);
  });

  describe('segment.jitter.ms', () => {
    it('is drawn for each segment', async () => {
      const draws = [0.5, 0, 0.999, 0.25];
      const partition = await begin({ segmentMs: 100, segmentJitterMs: 80 }, () => draws.shift()!);
      const began = clock.now();
      const lengths: number[] = [];
      for (let at = began; draws.length > 0 || bases(partition).length < 4; at++) {
        if (bases(partition).length > lengths.length) {
          expect(partition.segmentMs).toBe([60, 100, 21, 80][lengths.length]);
          lengths.push(partition.segmentMs);
        }
        append(partition, at);
      }
      expect(lengths.slice(0, 3)).toEqual([60, 100, 21]);
      // Each takes what comes within its time, and the next one begins a millisecond later.
      expect(bases(partition)).toEqual([0, 61, 162, 184]);
    });

    it('is no more than segment.ms, and stays what it is when segment.ms changes', async () => {
      let drawn = 0;
      const partition = await begin({ segmentMs: 1000, segmentJitterMs: 5000 }, () => {
        drawn++;
        return 0.9;
      });
      expect([partition.segmentMs, drawn]).toEqual([100, 1]);
      manager.setConfig(partition, { ...partition.config, segmentMs: 3000 });
      expect([partition.segmentMs, drawn]).toEqual([2100, 1]);
      const at = clock.now();
      append(partition, at);
      append(partition, at + 2100);
      expect(bases(partition)).toEqual([0]);
      append(partition, at + 2101);
      expect([bases(partition), partition.segmentMs, drawn]).toEqual([[0, 2], 300, 2]);
      // Less than the jitter that was drawn: closed by the next append, and the one after has a jitter that fits.
      manager.setConfig(partition, { ...partition.config, segmentMs: 500 });
      expect([partition.segmentMs, drawn]).toEqual([0, 2]);
      append(partition, at + 2102);
      expect([bases(partition), partition.segmentMs, drawn]).toEqual([[0, 2, 3], 50, 3]);
    });

    it('holds for a segment that is closed without traffic', async () => {
      const partition = await begin({ segmentMs: HOUR, segmentJitterMs: HOUR }, () => 0.5);
      append(partition);
      clock.advance(HOUR / 2);
      await manager.retain();
      expect(bases(partition)).toEqual([0]);
      clock.advance(1);
      await manager.retain();
      expect(bases(partition)).toEqual([0, 1]);
    });
  });
});

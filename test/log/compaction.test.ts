import { cpSync, existsSync, readdirSync, readFileSync } from 'node:fs';
import { constants } from 'node:os';
import { basename, join } from 'node:path';
import { afterEach, describe, expect, it, vi } from 'vitest';
import type { TopicConfig } from '../../src/config/topic-config.ts';
import { type CleanResult, cleanSegments } from '../../src/log/cleaner-pass.ts';
import { findCleanable } from '../../src/log/cleaner-rules.ts';
import type { SegmentCleaner } from '../../src/log/cleaner-thread.ts';
import { throttleTo } from '../../src/log/cleaner-throttle.ts';
import { LogCommitter } from '../../src/log/committer.ts';
import type { LogEngine, SegmentFacts } from '../../src/log/log.ts';
import { LogManager } from '../../src/log/log-manager.ts';
import type { Partition } from '../../src/log/partition.ts';
import type { CompressionName } from '../../src/protocol/compression.ts';
import { RecordBatch, readBatches } from '../../src/protocol/records/reader.ts';
import { BatchBuilder } from '../../src/protocol/records/writer.ts';
import { VirtualClock } from '../../src/runtime/clock.ts';
import { BroadsheetError } from '../../src/runtime/errors.ts';
import { silentLogger } from '../../src/runtime/logging.ts';
import { offsetsText } from '../support/checkpoint-text.ts';
import { ENGINES } from '../support/engines.ts';
import { scratch } from '../support/logs.ts';
import { batchInfoOf } from '../support/memory-log.ts';
import { Random } from '../support/random.ts';
import { scaled } from '../support/scale.ts';
import { LOG_SETTINGS, NO_CLEANER, topicConfigForTests } from '../support/topic-config.ts';

const ID = 'OeXl6uY5Tm2ppr3C3B0cZQ';
const DAY = 86_400_000;
const CODECS: CompressionName[] = ['none', 'gzip', 'snappy', 'lz4', 'zstd'];
/** Cleans on this thread: making one takes longer than the work. */
let throttled: SegmentCleaner | undefined;
const HERE: SegmentCleaner = {
  clean: (job) => throttled?.clean(job) ?? cleanSegments(job, () => {}),
  close: async () => {},
};
const silent = { onAppended() {}, onAppendFailed() {} };

interface Seen {
  readonly offset: number;
  readonly timestamp: number;
  readonly key: string;
  readonly value: string | null;
}

describe('what is cleaned', () => {
  const NOW = 100 * DAY;
  const segment = (baseOffset: number, sizeInBytes: number, ageDays: number): SegmentFacts => {
    const time = NOW - ageDays * DAY;
    return { baseOffset, sizeInBytes, largestTimestamp: time, lastModified: time, beganAt: -1 };
  };
  const SEGMENTS = [segment(0, 100, 9), segment(100, 50, 5), segment(200, 50, 2), segment(300, 10, 0)];
  const find = (state: object, rules: object = {}) =>
    findCleanable(
      { segments: SEGMENTS, logStartOffset: 0, lastStableOffset: 400, cleanedTo: undefined, ...state },
      { minCleanableDirtyRatio: 0.5, minCompactionLagMs: 0, maxCompactionLagMs: 1000 * DAY, ...rules },
      NOW,
    );

  it('is closed, below the last stable offset, and dirty', () => {
    expect(find({})).toMatchObject({ firstDirtyOffset: 0, count: 3, dirtyRatio: 1, isDue: true });
    expect(find({ cleanedTo: 100 })).toMatchObject({ firstDirtyOffset: 100, dirtyRatio: 0.5, isDue: false });
    expect(find({ cleanedTo: 100 }, { minCleanableDirtyRatio: 0.4 })).toMatchObject({ isDue: true });
    expect(find({ cleanedTo: 300 })).toBeUndefined();
    expect(find({ cleanedTo: 999 })).toMatchObject({ firstDirtyOffset: 0 });
    expect(find({ cleanedTo: 100, logStartOffset: 120 })).toMatchObject({ firstDirtyOffset: 120, count: 3 });
    expect(find({ cleanedTo: 100, logStartOffset: 120, lastStableOffset: 120 })).toBeUndefined();
    expect(find({ lastStableOffset: 250 })).toMatchObject({ count: 2 });
    expect(find({ lastStableOffset: 99 })).toBeUndefined();
  });

  it('is old enough, and not too old', () => {
    expect(find({}, { minCompactionLagMs: 4 * DAY })).toMatchObject({ count: 2 });
    expect(find({ cleanedTo: 100 }, { maxCompactionLagMs: 4 * DAY })).toMatchObject({ isDue: true });
  });
});

describe.each(ENGINES)('compaction, engine=$name', ({ make }) => {
  let engine: LogEngine;
  let manager: LogManager | undefined;
  let dir: string;
  let clock: VirtualClock;
  let config: TopicConfig;
  let inThread = false;
  let cleaning = NO_CLEANER;

  afterEach(async () => {
    await manager?.close(1);
    manager = undefined;
    inThread = false;
    cleaning = NO_CLEANER;
    throttled = undefined;
    await engine.close();
  });

  async function open(): Promise<Partition> {
    engine = make();
    const description = { topicId: ID, leaderEpoch: 0, config };
    manager = await LogManager.open(
      {
        ...{
          dataDir: dir,
          engine,
          committer: new LogCommitter(engine),
          clock,
          logger: silentLogger,
          settings: { ...LOG_SETTINGS, cleaner: cleaning },
        },
        ...(inThread ? {} : { cleaner: HERE }),
      },
      () => description,
    );
    return manager.partition('t', 0) ?? manager.create('t', 0, description);
  }

  async function begin(overrides: Partial<TopicConfig> = {}): Promise<Partition> {
    dir = scratch();
    clock = new VirtualClock();
    config = topicConfigForTests({
      cleanupPolicy: ['compact'],
      segmentBytes: 8_000,
      indexIntervalBytes: 500,
      ...overrides,
    });
    return open();
  }

  function append(partition: Partition, builder: BatchBuilder): void {
    const bytes = builder.build();
    expect(
      partition.append(bytes, 0, bytes.length, batchInfoOf(bytes, 0), clock.now(), silent, 0),
    ).toBeUndefined();
    manager!.commitTick();
  }

  async function batches(partition: Partition): Promise<RecordBatch[]> {
    const all: RecordBatch[] = [];
    const end = partition.logEndOffset;
    // Through gaps, as a reader goes.
    for (let at = partition.logStartOffset; at < end; ) {
      const bytes = await partition.log.readBatches(at, 3000, end);
      if (bytes.length === 0) break;
      for (const batch of readBatches(bytes)) {
        if (!(batch instanceof RecordBatch)) throw new Error('an old batch');
        expect(batch.checksOut()).toBe(true);
        expect(batch.lastOffset).toBeGreaterThanOrEqual(at);
        all.push(batch);
        at = batch.lastOffset + 1;
      }
    }
    return all;
  }

  async function records(partition: Partition): Promise<Seen[]> {
    const text = (bytes: Uint8Array | null) => (bytes === null ? null : Buffer.from(bytes).toString());
    const seen: Seen[] = [];
    for (const batch of await batches(partition)) {
      if (batch.isControl) continue;
      for (const { offset, timestamp, key, value } of batch.records())
        seen.push({ offset, timestamp, key: text(key)!, value: text(value) });
    }
    return seen;
  }

  /** Random writes with all codecs; gives all of them. */
  function fill(partition: Partition, random: Random, count: number): Seen[] {
    const written: Seen[] = [];
    for (let i = 0; i < count; i++) {
      const builder = new BatchBuilder({ compression: random.pick(CODECS) });
      const first = partition.logEndOffset;
      for (let n = random.int(5); n >= 0; n--) {
        const key = `key-${random.int(40)}`;
        const value = random.int(6) === 0 ? null : `value ${first}-${n} ${'x'.repeat(random.int(100))}`;
        const timestamp = clock.now() - random.int(1000);
        builder.append({
          timestamp,
          key: Buffer.from(key),
          value: value === null ? null : Buffer.from(value),
        });
        written.push({ offset: first + (builder.count - 1), timestamp, key, value });
      }
      append(partition, builder);
      clock.advance(10);
    }
    return written;
  }

  function lastOfEach(written: readonly Seen[]): Seen[] {
    const last = new Map(written.map((each) => [each.key, each]));
    return written.filter((each) => last.get(each.key) === each);
  }

  it.each([
    ['while its producer goes on', false],
    ['while its producer rests', true],
  ])('keeps what is committed after a transaction whose abort marker it took, %s', async (_, rests) => {
    let partition = await begin({ deleteRetentionMs: DAY });
    const producer = { producerId: 20, producerEpoch: 0 };
    const transaction = (baseSequence: number, key: string, commit: boolean) => {
      const builder = new BatchBuilder({ ...producer, baseSequence, transactional: true });
      builder.append({ timestamp: clock.now(), key: Buffer.from(key), value: Buffer.from(key) });
      append(partition, builder);
      const marker = { ...producer, coordinatorEpoch: 0, transactionVersion: 0, commit };
      partition.appendMarker(marker, clock.now(), silent, 0);
      manager!.commitTick();
    };
    const plain = (key: string) => {
      const builder = new BatchBuilder();
      append(
        partition,
        builder.append({ timestamp: clock.now(), key: Buffer.from(key), value: Buffer.from('v') }),
      );
    };
    transaction(0, 'aborted', false);
    if (!rests) transaction(1, 'first', true);
    for (let pass = 0; pass < 3; pass++) {
      plain(`plain-${pass}`);
      await manager!.compact(partition);
      clock.advance(2 * DAY);
    }
    transaction(rests ? 1 : 2, 'committed', true);
    for (let pass = 0; pass < 4; pass++) {
      // A reader that hears of an aborted transaction waits for its marker.
      const markers = (await batches(partition)).filter((batch) => batch.isControl && batch.recordCount > 0);
      const told = partition.abortedTransactions(0, partition.logEndOffset);
      const ends = markers.map(({ baseOffset }) => baseOffset);
      expect(ends).toEqual(expect.arrayContaining(told.map(({ lastOffset }) => lastOffset)));
      plain(`late-${pass}`);
      await manager!.compact(partition);
      clock.advance(2 * DAY);
      expect((await records(partition)).map(({ key }) => key)).toContain('committed');
      if (pass < 2) continue;
      await manager!.close(1);
      await engine.close();
      partition = await open();
    }
  });

  it('keeps what is committed after a transaction whose abort marker was deleted with its segment', async () => {
    let partition = await begin({ segmentBytes: 300 });
    const producer = { producerId: 20, producerEpoch: 0 };
    const transaction = (baseSequence: number, key: string, commit: boolean) => {
      const builder = new BatchBuilder({ ...producer, baseSequence, transactional: true });
      append(partition, builder.append({ timestamp: clock.now(), key, value: key }));
      const marker = { ...producer, coordinatorEpoch: 0, transactionVersion: 0, commit };
      partition.appendMarker(marker, clock.now(), silent, 0);
      manager!.commitTick();
    };
    transaction(0, 'aborted', false);
    fill(partition, new Random(1), 5);
    await manager!.checkpointRecoveryPoints();
    expect(partition.aborted.isSaved(partition.log.writtenOffset)).toBe(true);
    partition.setLogStartOffset(partition.log.segmentBaseOffsets()[2]!);
    await manager!.checkpointLogStarts();
    await manager!.close(1);
    await engine.close();
    partition = await open();
    await manager!.retain();
    expect(partition.log.segmentBaseOffsets()[0]).toBe(partition.logStartOffset);
    transaction(1, 'committed', true);
    await manager!.compact(partition);
    expect((await records(partition)).map(({ key }) => key)).toContain('committed');
  });

  it.each([
    ['a kill', []],
    ['a kill and damage', ['recovery-point-offset-checkpoint']],
  ])('leaves a log that loses nothing in %s once its topic is not compacted any more', async (_, gone) => {
    const partition = await begin();
    fill(partition, new Random(7), 300);
    await manager!.compact(partition);
    fill(partition, new Random(8), 100);
    const before = await records(partition);
    const killed = scratch();
    const left = ['.lock', ...gone];
    // What is about to be renamed may be gone before it is copied; a start does not look at it.
    const isLeft = (path: string) => left.includes(basename(path)) || path.endsWith('.tmp');
    cpSync(dir, killed, { recursive: true, filter: (path) => !isLeft(path) });
    await manager!.close(1);
    await engine.close();
    dir = killed;
    config = { ...config, cleanupPolicy: ['delete'] };
    expect(await records(await open())).toEqual(before);
  });

  it.each(scaled([1], [1, 2, 3, 4, 5, 6]))(
    'leaves the last record of each key, again and again, and over restarts (seed %i)',
    async (seed) => {
      const random = new Random(seed);
      let partition = await begin();
      const written: Seen[] = [];
      for (let round = 0; round < scaled(3, 6); round++) {
        written.push(...fill(partition, random, scaled(80, 300)));
        const end = partition.logEndOffset;
        const before = partition.log.sizeInBytes;
        await manager!.compact(partition);
        expect(partition.logEndOffset).toBe(end);
        expect(partition.log.sizeInBytes).toBeLessThan(before);
        expect(await records(partition)).toEqual(lastOfEach(written));
        const target = clock.now() - random.int(3000);
        const hit = await partition.log.findBatchByTimestamp(target, 0, end);
        const wanted = lastOfEach(written).find((each) => each.timestamp >= target);
        const found =
          hit === undefined
            ? undefined
            : [...new RecordBatch(hit, 0).records()].find((each) => each.timestamp >= target);
        expect(found?.offset).toBe(wanted?.offset);
        if (round % 2 === 0) continue;
        await manager!.close(1);
        partition = await open();
        expect(partition.logEndOffset).toBe(end);
        expect(await records(partition)).toEqual(lastOfEach(written));
      }
      expect(readFileSync(join(dir, 'cleaner-offset-checkpoint'), 'utf8')).toBe(
        offsetsText(`t 0 ${partition.logEndOffset}`),
      );
      // Each offset can be asked for, whether something is there or not.
      for (let offset = 0; offset < partition.logEndOffset; offset += 7) {
        const next = lastOfEach(written).find((each) => each.offset >= offset);
        const bytes = await partition.log.readBatches(offset, 1, partition.logEndOffset);
        if (next !== undefined) expect(new RecordBatch(bytes, 0).lastOffset).toBeGreaterThanOrEqual(offset);
      }
    },
  );

  it('keeps a tombstone until its horizon, which the first cleaning sets', async () => {
    const partition = await begin({ deleteRetentionMs: DAY });
    const put = (key: string, value: string | null) =>
      append(
        partition,
        new BatchBuilder({}).append({
          timestamp: clock.now(),
          key: Buffer.from(key),
          value: value === null ? null : Buffer.from(value),
        }),
      );
    put('a', '1');
    put('b', '1');
    put('a', null);
    const written = clock.now();
    await manager!.compact(partition);
    const tombstone = (await batches(partition)).find(({ lastOffset }) => lastOffset === 2)!;
    expect(tombstone.deleteHorizon).toBe(clock.now() + DAY);
    expect(await records(partition)).toEqual([
      { offset: 1, timestamp: written, key: 'b', value: '1' },
      { offset: 2, timestamp: written, key: 'a', value: null },
    ]);
    clock.advance(DAY - 1);
    put('c', '1');
    await manager!.compact(partition);
    expect((await records(partition)).map(({ key }) => key)).toEqual(['b', 'a', 'c']);
    clock.advance(1);
    put('c', '2');
    await manager!.compact(partition);
    expect((await records(partition)).map(({ key }) => key)).toEqual(['b', 'c']);
  });

  it('keeps what producers hang on: a duplicate is known after it was compacted away, and a restart', async () => {
    let partition = await begin();
    const produce = (sequence: number) =>
      new BatchBuilder({ producerId: 7, producerEpoch: 0, baseSequence: sequence }).append({
        timestamp: clock.now(),
        key: Buffer.from('k'),
        value: Buffer.from(String(sequence)),
      });
    append(partition, produce(0));
    append(partition, produce(1));
    append(
      partition,
      new BatchBuilder({}).append({ timestamp: 1, key: Buffer.from('k'), value: Buffer.from('z') }),
    );
    await manager!.compact(partition);
    const left = await batches(partition);
    expect(left.map(({ baseOffset, recordCount }) => [baseOffset, recordCount])).toEqual([
      [1, 0],
      [2, 1],
    ]);
    await manager!.close(undefined);
    for (const name of readdirSync(join(dir, 't-0')))
      if (name.endsWith('.snapshot')) await engine.files.remove(join(dir, 't-0', name));
    partition = await open();
    const end = partition.logEndOffset;
    append(partition, produce(1));
    expect(partition.logEndOffset).toBe(end);
    append(partition, produce(2));
    expect(partition.logEndOffset).toBe(end + 1);
  });

  it('drops aborted data and then its marker, and stops at an open transaction', async () => {
    const partition = await begin({ deleteRetentionMs: 1000 });
    const marker = (producerId: number, commit: boolean) => {
      const fields = { producerId, producerEpoch: 0, coordinatorEpoch: 0, transactionVersion: 1, commit };
      expect(partition.appendMarker(fields, clock.now(), silent, 0)).toBeUndefined();
      manager!.commitTick();
    };
    const put = (producerId: number, sequence: number, key: string) =>
      append(
        partition,
        new BatchBuilder({
          producerId,
          producerEpoch: 0,
          baseSequence: sequence,
          transactional: true,
        }).append({
          timestamp: clock.now(),
          key: Buffer.from(key),
          value: Buffer.from(`${producerId}`),
        }),
      );
    put(1, 0, 'a');
    put(2, 0, 'a');
    marker(1, true);
    marker(2, false);
    put(3, 0, 'b');
    await manager!.compact(partition);
    expect((await records(partition)).map(({ offset }) => offset)).toEqual([0, 1, 4]);
    marker(3, true);
    await manager!.compact(partition);
    expect((await records(partition)).map(({ offset }) => offset)).toEqual([0, 4]);
    const offsets = async () => (await batches(partition)).map(({ lastOffset }) => lastOffset);
    expect(await offsets()).toEqual(expect.arrayContaining([0, 2, 3, 4, 5]));
    // While its producer is known, an empty batch stays, and the marker with it.
    partition.producers.expire(clock.now() + 10 * DAY, DAY);
    // Nothing of it is left: the next cleaning gives the marker a horizon, and the one behind that takes it.
    for (let round = 0; round < 3; round++) {
      clock.advance(2000);
      put(4, round, 'c');
      marker(4, true);
      await manager!.compact(partition);
    }
    put(5, 0, 'd');
    marker(5, true);
    await manager!.compact(partition);
    expect(await offsets()).not.toContain(3);
    expect((await records(partition)).map(({ key }) => key)).toEqual(['a', 'b', 'c', 'd']);
  });

  it('works in a bound of memory, in several rounds', async () => {
    const partition = await begin();
    const written = fill(partition, new Random(5), 100);
    const settings = Object.assign(NO_CLEANER, { mapBytes: 24 * 30 });
    try {
      await manager!.compact(partition);
    } finally {
      settings.mapBytes = 1 << 20;
    }
    // Keys beyond the last map may be there more than once; none is lost.
    const left = await records(partition);
    expect(lastOfEach(left)).toEqual(lastOfEach(written));
    expect(left.length).toBeLessThan(written.length);
    await expect(manager!.compact(partition)).resolves.toBeDefined();
  });

  it('takes as long as its throttle wants, by what it reads and writes', async () => {
    const partition = await begin({ segmentBytes: 100_000 });
    fill(partition, new Random(9), 200);
    const rate = 10_000;
    let elapsed = 0;
    let result: CleanResult | undefined;
    const sleeps: number[] = [];
    throttled = {
      clean: async (job) => {
        const sleep = (ms: number) => {
          sleeps.push(ms);
          elapsed += ms;
        };
        result = await cleanSegments(
          job,
          throttleTo(rate, () => elapsed, sleep),
        );
        return result;
      },
      close: async () => {},
    };
    await manager!.compact(partition);
    // The map and the filter each read all of it.
    const { bytesBefore, bytesAfter } = result!;
    expect(elapsed / 1000).toBeCloseTo((2 * bytesBefore + bytesAfter) / rate, 2);
    expect(sleeps.length).toBeGreaterThan(1);
    // A slow disk owes nothing.
    let slow = 0;
    const free = throttleTo(
      rate,
      () => slow,
      () => expect.unreachable(),
    );
    for (let i = 0; i < 10; i++) {
      slow += 1000;
      free(rate);
    }
    throttleTo(
      Number.MAX_SAFE_INTEGER,
      () => 0,
      () => expect.unreachable(),
    )(2 ** 40);
  });

  it('leaves no file behind, and refuses a topic that is not compacted', async () => {
    inThread = true;
    const partition = await begin({ fileDeleteDelayMs: 1000 });
    fill(partition, new Random(6), 100);
    await manager!.compact(partition);
    const strange = () => readdirSync(join(dir, 't-0')).filter((name) => /deleted|cleaned|swap/.test(name));
    expect(strange().length).toBeGreaterThan(0);
    expect(strange().every((name) => name.endsWith('.deleted'))).toBe(true);
    clock.advance(1000);
    await manager!.close(1);
    expect(strange()).toEqual([]);
    expect(existsSync(join(dir, '.kafka_cleanshutdown'))).toBe(true);
    config = { ...config, cleanupPolicy: ['delete'] };
    const again = await open();
    await expect(manager!.compact(again)).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' });
  });

  it('goes on where the checksums of transaction indexes can not be written', async () => {
    const partition = await begin();
    fill(partition, new Random(3), 100);
    const before = await records(partition);
    let failures = 0;
    const replace = partition.log.replaceSegments.bind(partition.log);
    const saved = vi.spyOn(partition.aborted, 'save');
    vi.spyOn(partition.log, 'replaceSegments').mockImplementation((old, made) => {
      saved.mockImplementationOnce(async () => {
        failures++;
        throw new BroadsheetError('NO_SPACE', 'no space');
      });
      return replace(old, made);
    });
    const { bytesBefore, bytesAfter } = await manager!.compact(partition);
    expect(failures).toBeGreaterThan(0);
    expect(bytesAfter).toBeLessThan(bytesBefore);
    expect((await records(partition)).length).toBeLessThan(before.length);
  });

  it('tries again where there was no space, and leaves nothing on the full disk', async () => {
    const partition = await begin({ minCleanableDirtyRatio: 0 });
    await manager!.close(1);
    await engine.close();
    cleaning = { ...NO_CLEANER, enabled: true };
    const again = await open();
    expect(again).not.toBe(partition);
    fill(again, new Random(7), 100);
    await again.log.flush();
    const js = ENGINES.find(({ name }) => name === 'js')!;
    const left = () => readdirSync(join(dir, 't-0')).filter((name) => /cleaned|swap/.test(name));
    const replaced = () => readdirSync(join(dir, 't-0')).filter((name) => name.endsWith('.log.deleted'));
    const look = (seen: () => void) =>
      vi.waitFor(() => {
        clock.advance(NO_CLEANER.backoffMs);
        seen();
      }, 20_000);
    // The cleaner writes with the files of the JS engine, whichever engine the log is of.
    for (const skip of [0, 2, 4]) {
      let failed = false;
      throttled = {
        clean: async (job) => {
          js.setFault('pwritev', skip, 1_000, constants.errno.ENOSPC, 0);
          try {
            return await cleanSegments(job, () => {});
          } catch (error) {
            expect(error).toMatchObject({ code: 'NO_SPACE' });
            expect(left()).toEqual([]);
            failed = true;
            throw error;
          } finally {
            js.clearFaults();
          }
        },
        close: async () => {},
      };
      await look(() => expect(failed).toBe(true));
      expect(replaced()).toEqual([]);
    }
    throttled = undefined;
    await look(() => expect(replaced().length).toBeGreaterThan(0));
    // One group of segments after the other is taken in.
    await vi.waitFor(() => expect(left()).toEqual([]), 20_000);
  });
});

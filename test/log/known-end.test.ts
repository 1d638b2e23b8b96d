/** Logs that do not reach what a recovery point of ours says: their ends are given back, and nothing else is taken for such a log. */
import {
  cpSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmdirSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, it, vi } from 'vitest';
import { copyCut, copyDirectory } from '../../src/log/backup.ts';
import { CLEANER_FILE, RECOVERY_POINT_FILE } from '../../src/log/checkpoints.ts';
import { LogCommitter } from '../../src/log/committer.ts';
import type { LogEngine } from '../../src/log/log.ts';
import { CUT_VERSION, cutPartition } from '../../src/log/log-cut.ts';
import { LogManager } from '../../src/log/log-manager.ts';
import type { AppendListener, Partition } from '../../src/log/partition.ts';
import { segmentFileName } from '../../src/log/segment-names.ts';
import { type RecordBatch, readBatches } from '../../src/protocol/records/reader.ts';
import { VirtualClock } from '../../src/runtime/clock.ts';
import { BroadsheetError } from '../../src/runtime/errors.ts';
import { silentLogger } from '../../src/runtime/logging.ts';
import { offsetsText } from '../support/checkpoint-text.ts';
import { cli } from '../support/cli.ts';
import { ENGINES } from '../support/engines.ts';
import { batch, scratch } from '../support/logs.ts';
import { batchInfoOf } from '../support/memory-log.ts';
import { LOG_SETTINGS, topicConfigForTests } from '../support/topic-config.ts';

const ID = 'OeXl6uY5Tm2ppr3C3B0cZQ';
const OTHER_ID = 'CKd2ROAwRh6cFasLIWPGHw';
/** Of a batch with a payload of 50 bytes; 36 of them fill a segment. */
const SIZE = 111;
const BATCHES = 101;
/** Stands for __cluster_metadata in a cut. */
const METADATA_ID = 'AAAAAAAAAAAAAAAAAAAAAQ';
const LAST = segmentFileName(72, '.log');
const ALL = Array.from({ length: BATCHES }, (_, i) => i);
const without = (...gone: readonly number[]) => ALL.filter((i) => !gone.includes(i));
const batchAt = (base: number) => (base - 72) * SIZE;
const silent: AppendListener = { onAppended() {}, onAppendFailed() {} };

describe.each(ENGINES)('where a log ended is known, engine=$name', ({ make }) => {
  let engine: LogEngine;
  let warnings: { message: string; fields: Record<string, unknown> }[];
  let topicId: string;
  let compact: boolean;

  beforeEach(() => {
    topicId = ID;
    compact = false;
  });

  const description = () => ({
    topicId,
    leaderEpoch: 0,
    config: topicConfigForTests({
      segmentBytes: 4000,
      indexIntervalBytes: 300,
      retentionMs: -1,
      cleanupPolicy: compact ? ['compact'] : ['delete'],
    }),
  });

  function open(dir: string): Promise<LogManager> {
    engine = make();
    warnings = [];
    const warn = (fields: object, message: string) =>
      void warnings.push({ message, fields: fields as Record<string, unknown> });
    return LogManager.open(
      {
        ...{ dataDir: dir, engine, committer: new LogCommitter(engine), clock: new VirtualClock() },
        logger: { ...silentLogger, warn },
        settings: LOG_SETTINGS,
      },
      (topic) => ({ ...description(), topicId: topic === 't' ? topicId : METADATA_ID }),
    );
  }

  async function close(manager: LogManager, epoch?: number): Promise<void> {
    await manager.close(epoch);
    await engine.close();
  }

  const append = (manager: LogManager, partition: Partition, count: number) => {
    for (let i = 0; i < count; i++) {
      const bytes = batch({ maxTimestamp: 1000 + i, payload: new Uint8Array(50).fill(i + 1) });
      expect(
        partition.append(bytes, 0, bytes.length, batchInfoOf(bytes, 0), 1000, silent, 0),
      ).toBeUndefined();
      manager.commitTick();
    }
  };

  /** Batches in segments at 0, 36 and 72, index entries up to 99, and a recovery point of ours at the end. */
  async function stopped(isClean = false): Promise<string> {
    const dir = join(scratch(true), 'data');
    mkdirSync(dir);
    writeFileSync(join(dir, 'meta.properties'), '');
    const manager = await open(dir);
    append(manager, await manager.create('t', 0, description()), BATCHES);
    await close(manager, isClean ? 1 : undefined);
    return dir;
  }

  /** Offsets of batches with records, as a consumer reads them, and the end. */
  async function read(partition: Partition): Promise<{ offsets: number[]; end: number }> {
    const { log } = partition;
    const offsets: number[] = [];
    for (let offset = log.logStartOffset; offset < log.writtenOffset; ) {
      const before = offset;
      for (const each of readBatches(
        await log.readBatches(offset, 1, log.writtenOffset),
      ) as Iterable<RecordBatch>) {
        expect(each.checksOut()).toBe(true);
        if (each.recordCount > 0) offsets.push(each.baseOffset);
        offset = each.lastOffset + 1;
      }
      expect(offset).toBeGreaterThan(before);
    }
    return { offsets, end: log.logEndOffset };
  }

  /** Opens, reads, appends one more, kills, and reads again. Leaves the warnings of the first start. */
  async function reopened(dir: string, offsets: number[], end = BATCHES): Promise<void> {
    let manager = await open(dir);
    const said = warnings;
    const partition = manager.partition('t', 0)!;
    expect(await read(partition)).toEqual({ offsets, end });
    append(manager, partition, 1);
    await engine.close();
    manager = await open(dir);
    expect(await read(manager.partition('t', 0)!)).toEqual({ offsets: [...offsets, end], end: end + 1 });
    await close(manager);
    expect(warnings.filter(({ message }) => message.includes('damaged'))).toEqual([]);
    warnings = said;
  }

  const flip = (at: number, bit: number) => (bytes: Buffer) => {
    bytes[at]! ^= bit;
    return bytes;
  };
  const cases = [
    {
      what: 'a damaged last batch',
      harm: flip(batchAt(100) + 80, 1),
      bytes: SIZE,
      gone: [100],
      isUnread: true,
    },
    {
      what: 'an offset that leaps',
      harm: flip(batchAt(100) + 5, 1),
      bytes: 0,
      gone: [],
      moved: 1,
      isDense: true,
    },
    { what: 'no magic in the last batch but one', harm: flip(batchAt(99) + 16, 8), bytes: SIZE, gone: [99] },
    { what: 'an end within a batch', harm: (b: Buffer) => b.subarray(0, -7), bytes: SIZE - 7, gone: [100] },
    {
      what: 'an end between batches',
      harm: (b: Buffer) => b.subarray(0, -2 * SIZE),
      bytes: 0,
      gone: [99, 100],
    },
    { what: 'an empty last segment', harm: (b: Buffer) => b.subarray(0, 0), bytes: 0, gone: ALL.slice(72) },
    { what: 'no last segment', harm: () => undefined, bytes: 0, gone: ALL.slice(72) },
  ];

  it.each(cases)('gives it back: $what', async ({ harm, bytes, gone, moved = 0, isUnread, isDense }) => {
    // After a clean stop no checksum is looked at; an offset that leaps may be compaction's.
    for (const isClean of isUnread ? [false] : [false, true]) {
      for (const isCompacted of isDense ? [false] : [false, true]) {
        compact = isCompacted;
        const dir = await stopped(isClean);
        const path = join(dir, 't-0', LAST);
        const harmed = harm(readFileSync(path));
        if (harmed === undefined) rmSync(path);
        else writeFileSync(path, harmed);
        await reopened(dir, without(...gone));
        const message = expect.stringContaining(
          moved > 0 ? 'written again' : 'records that were on disk are damaged or missing',
        );
        expect(warnings).toEqual([
          {
            message,
            fields: { dir: join(dir, 't-0'), fault: expect.any(String), bytes, offsets: gone.length, moved },
          },
        ]);
        const kept = readdirSync(join(dir, 't-0')).filter((name) => name.endsWith('.quarantine'));
        expect(kept).toHaveLength(bytes === 0 ? 0 : 1);
      }
    }
  });

  it('pads nothing for a recovery point that no checksum vouches for, nor does a backup vouch for it', async () => {
    const dir = await stopped();
    const kafkas = '0\n1\nt 0 1000\n';
    writeFileSync(join(dir, RECOVERY_POINT_FILE), kafkas);
    const manager = await open(dir);
    const cut = {
      ...({ version: CUT_VERSION, dataDir: dir, recoveryPoints: kafkas } as const),
      metadata: cutPartition(await manager.create('m', 0, { ...description(), topicId: METADATA_ID })),
      partitions: [cutPartition(manager.partition('t', 0)!)],
    };
    await copyCut(cut, `${dir}-cut`);
    await engine.close();
    writeFileSync(join(dir, RECOVERY_POINT_FILE), kafkas);
    await copyDirectory(dir, `${dir}-copy`);
    for (const each of [`${dir}-cut`, `${dir}-copy`, dir]) {
      const log = join(each, 't-0', LAST);
      truncateSync(log, readFileSync(log).length - 7);
      await reopened(each, without(100), 100);
    }
  });

  it('gives a backup and what is restored of it the end of the backup', async () => {
    const dir = await stopped();
    let manager = await open(dir);
    const metadata = cutPartition(await manager.create('m', 0, { ...description(), topicId: METADATA_ID }));
    const partitions = [cutPartition(manager.partition('t', 0)!)];
    append(manager, manager.partition('t', 0)!, 10);
    await manager.partition('t', 0)!.log.flush();
    await manager.checkpointRecoveryPoints();
    // Newer than the cut, as a checkpoint that is written meanwhile.
    const recoveryPoints = readFileSync(join(dir, RECOVERY_POINT_FILE), 'latin1');
    expect(recoveryPoints).toContain('t 0 111');
    await copyCut(
      { version: CUT_VERSION, dataDir: dir, recoveryPoints, metadata, partitions },
      `${dir}-backup`,
    );
    await close(manager);
    await copyDirectory(`${dir}-backup`, `${dir}-restored`, { link: false });
    for (const each of [`${dir}-backup`, `${dir}-restored`]) {
      const log = join(each, 't-0', LAST);
      truncateSync(log, readFileSync(log).length - SIZE);
      manager = await open(each);
      expect(await read(manager.partition('t', 0)!)).toEqual({ offsets: without(100), end: BATCHES });
      await close(manager);
    }
  });

  it.each([false, true])('cuts no gaps of compaction, stopped cleanly: %s', async (isClean) => {
    compact = true;
    const dir = await stopped(isClean);
    for (const base of [0, 36, 72]) {
      const path = join(dir, 't-0', segmentFileName(base, '.log'));
      const bytes = readFileSync(path);
      // Every third batch is left, and of the last segment its last one, which makes gaps on both sides of a point at 50.
      const parts = Array.from({ length: bytes.length / SIZE }, (_, i) =>
        bytes.subarray(i * SIZE, (i + 1) * SIZE),
      );
      writeFileSync(path, Buffer.concat(parts.filter((_, i) => i % 3 === 1)));
      for (const suffix of ['.index', '.timeindex']) rmSync(join(dir, 't-0', segmentFileName(base, suffix)));
    }
    const left = ALL.filter((offset) => (offset % 36) % 3 === 1);
    for (const point of [0, 49, 50, 90, 101]) {
      writeFileSync(join(dir, RECOVERY_POINT_FILE), offsetsText(`t 0 ${point} ${ID}`));
      const copy = `${dir}-${point}`;
      cpSync(dir, copy, { recursive: true });
      await reopened(copy, left);
    }
    // The topic is not compacted any more, which the checkpoint of the cleaner tells.
    compact = false;
    writeFileSync(join(dir, CLEANER_FILE), offsetsText('t 0 72'));
    await reopened(dir, left);
    expect(warnings).toEqual([]);
  });

  const missing = [
    { what: 'the first segment', bases: [0], start: 0, gone: [0, 36] },
    { what: 'the first two', bases: [0, 36], start: 0, gone: [0, 72] },
    { what: 'all', bases: [0, 36, 72], start: 0, gone: [0, 101] },
    { what: 'the first of a log that starts later', bases: [36], start: 40, gone: [40, 72] },
  ];
  it.each(missing)('and where it starts, without $what', async ({ bases, start, gone }) => {
    for (const isClean of [false, true]) {
      const dir = await stopped(isClean);
      const first = await open(dir);
      // What lies before the start goes with retention, but for the segment that it is in.
      first.partition('t', 0)!.setLogStartOffset(start);
      if (start > 0) await first.retain();
      await close(first, isClean ? 1 : undefined);
      for (const base of bases) rmSync(join(dir, 't-0', segmentFileName(base, '.log')));
      const checked = `${dir}-checked`;
      cpSync(dir, checked, { recursive: true });
      const kafkas = `${dir}-kafka`;
      cpSync(dir, kafkas, { recursive: true });

      const [from, to] = gone as [number, number];
      const left = ALL.slice(to);
      await reopened(dir, left);
      expect(warnings.map(({ fields }) => [fields.fault, fields.offsets])).toEqual([
        [`${segmentFileName(start, '.log')} is missing`, to - from],
      ]);

      if (!isClean) continue;
      const { stdout } = await cli(['check', checked, '--repair', '--json']);
      const { faults, repaired } = JSON.parse(stdout.toString()) as Record<string, { file: string }[]>;
      expect(repaired![0]!.file).toBe(`t-0/${segmentFileName(start, '.log')}`);
      expect(faults!.filter(({ file }) => file.startsWith('t-0'))).toEqual([]);
      await reopened(checked, left);
      expect(warnings).toEqual([]);

      // Apache Kafka, which was there since, deletes segments too.
      const watermarks = join(kafkas, 'replication-offset-checkpoint');
      writeFileSync(
        watermarks,
        readFileSync(watermarks, 'latin1')
          .replace(/^#crc.*\n/m, '')
          .replace('\n2\n', '\n1\n'),
      );
      const manager = await open(kafkas);
      const { logStartOffset } = manager.partition('t', 0)!.log;
      expect(logStartOffset).toBe(to === BATCHES ? 0 : to);
      await close(manager);
    }
  });

  it('is not given to a later partition of the same name', async () => {
    const dir = await stopped();
    let manager = await open(dir);
    const writeAtomic = vi.spyOn(engine.files, 'writeAtomic');
    const fails = async (path: string) => {
      if (path.endsWith(RECOVERY_POINT_FILE)) throw new BroadsheetError('NO_SPACE', 'full');
    };
    writeAtomic.mockImplementationOnce(fails);
    await expect(manager.deleteTopic('t')).rejects.toMatchObject({ code: 'NO_SPACE' });
    writeAtomic.mockImplementationOnce(fails);
    await expect(manager.create('t', 0, description())).rejects.toMatchObject({ code: 'NO_SPACE' });
    // The next start finds a point of a partition that it does not know.
    await engine.close();
    topicId = OTHER_ID;
    expect(readFileSync(join(dir, RECOVERY_POINT_FILE), 'latin1')).toContain('t 0 101');
    for (let i = 0; i < 2; i++) {
      manager = await open(dir);
      if (i === 0) await manager.create('t', 0, description());
      expect(manager.partition('t', 0)!.logEndOffset).toBe(0);
      // A kill.
      await engine.close();
    }
  });

  it.each([20, 150])('is not taken for that of a later topic, of %i batches', async (count) => {
    const dir = await stopped();
    const earlier = await open(dir);
    earlier.partition('t', 0)!.setLogStartOffset(40);
    await close(earlier);
    // As Apache Kafka leaves it that is killed when it made the topic again, and had not come to write the checkpoints.
    topicId = OTHER_ID;
    const later = join(scratch(true), 'later');
    mkdirSync(later);
    writeFileSync(join(later, 'meta.properties'), '');
    const manager = await open(later);
    append(manager, await manager.create('t', 0, description()), count);
    await close(manager);
    rmSync(join(dir, 't-0'), { recursive: true });
    cpSync(join(later, 't-0'), join(dir, 't-0'), { recursive: true });
    const copy = `${dir}-copy`;
    await copyDirectory(dir, copy);
    const all = Array.from({ length: count }, (_, i) => i);
    for (const each of [dir, copy]) await reopened(each, all, count);
    expect(warnings).toEqual([]);
  });

  it('and where it starts are kept while a partition does not open', async () => {
    const dir = await stopped();
    let manager = await open(dir);
    manager.partition('t', 0)!.setLogStartOffset(40);
    await close(manager);
    // No file can be opened that is a folder.
    const log = join(dir, 't-0', LAST);
    renameSync(log, `${log}.aside`);
    mkdirSync(log);
    manager = await open(dir);
    expect(manager.failure('t', 0)).toBeDefined();
    await close(manager);
    rmdirSync(log);
    renameSync(`${log}.aside`, log);
    truncateSync(log, readFileSync(log).length - SIZE);
    await reopened(dir, without(...ALL.slice(0, 40), 100));
  });
});

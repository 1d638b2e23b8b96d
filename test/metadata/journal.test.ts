import { readdirSync } from 'node:fs';
import { constants } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { LogCommitter } from '../../src/log/committer.ts';
import type { OpenOptions } from '../../src/log/log.ts';
import { ClusterMetadata } from '../../src/metadata/cluster-metadata.ts';
import { Journal } from '../../src/metadata/journal.ts';
import { BroadsheetError } from '../../src/runtime/errors.ts';
import { ENGINES } from '../support/engines.ts';
import { scratch } from '../support/logs.ts';
import { MemoryEngine, type MemoryLog } from '../support/memory-log.ts';

const OPTIONS: OpenOptions = {
  segmentBytes: 1 << 20,
  segmentMs: 1e9,
  indexBytes: 1 << 20,
  indexIntervalBytes: 4096,
  logStartOffset: 0,
  recoveryPoint: 0,
  cleanShutdown: false,
  now: 0,
};

async function newJournal() {
  const engine = new MemoryEngine();
  const log = (await engine.open('/j', OPTIONS)) as MemoryLog;
  const committer = new LogCommitter(engine);
  return { engine, log, committer, journal: new Journal(log, committer, engine.files) };
}

const text = (value: string) => ({ key: null, value: Buffer.from(value) });
const append = (journal: Journal, ...values: string[]) =>
  journal.append(values.map(text), { leaderEpoch: 3, control: false, now: 1000 });

async function contentOf(journal: Journal, from = 0): Promise<string[]> {
  const found: string[] = [];
  await journal.replay(from, (batch) => {
    for (const record of batch.records()) found.push(`${record.offset}:${String(record.value)}`);
  });
  return found;
}

describe('Journal', () => {
  it('reads back what was appended, before it is durable', async () => {
    const { journal } = await newJournal();
    expect(append(journal, 'a', 'b')).toBe(0);
    expect(append(journal, 'c')).toBe(2);
    expect(journal.log.flushedOffset).toBe(0);
    expect(await contentOf(journal)).toEqual(['0:a', '1:b', '2:c']);
    expect(await contentOf(journal, 2)).toEqual(['2:c']);
    await journal.flushed();
    expect(journal.log.flushedOffset).toBe(3);
  });

  it.each(ENGINES)('closes where an index has no space for its end (engine=$name)', async (under) => {
    const engine = under.make();
    const log = await engine.open(join(scratch(), 'j-0'), OPTIONS);
    const journal = new Journal(log, new LogCommitter(engine), engine.files);
    append(journal, 'a');
    try {
      under.setFault('pwritev', 0, 1000, constants.errno.ENOSPC, 0);
      await journal.close();
      under.clearFaults();
      // A flush that fails for the same reason is another thing.
      const again = await engine.open(log.dir, OPTIONS);
      const other = new Journal(again, new LogCommitter(engine), engine.files);
      append(other, 'b');
      under.setFault('fdatasync', 0, 1, constants.errno.ENOSPC, 0);
      await expect(other.close()).rejects.toMatchObject({ code: 'NO_SPACE' });
    } finally {
      under.clearFaults();
    }
    const last = await engine.open(log.dir, OPTIONS);
    expect(last.logEndOffset).toBe(2);
    await engine.close();
  });

  it('shares a flush between all that was appended before it begins', async () => {
    const { journal, log } = await newJournal();
    const waits: Promise<void>[] = [];
    for (let i = 0; i < 1000; i++) {
      append(journal, String(i));
      waits.push(journal.flushed());
    }
    await Promise.all(waits);
    expect(log.flushes).toBe(1);
    await journal.flushed();
    expect(log.flushes).toBe(1);
  });

  it('begins the next flush when the one under way ends', async () => {
    const { journal, log } = await newJournal();
    log.holdFlushes = true;
    append(journal, 'a');
    const first = journal.flushed();
    await Promise.resolve();
    append(journal, 'b');
    const second = journal.flushed();
    append(journal, 'c');
    expect(journal.flushed()).toBe(second);
    log.releaseFlushes();
    await first;
    await second;
    expect(log.flushes).toBe(2);
    expect(log.flushedOffset).toBe(3);
  });

  it('appends nothing when the write fails, and goes on', async () => {
    const { journal, engine, log } = await newJournal();
    append(journal, 'a');
    engine.failNextCommit.set('/j', new BroadsheetError('NO_SPACE', 'full'));
    expect(() => append(journal, 'b')).toThrow('full');
    expect(append(journal, 'c')).toBe(1);
    await journal.flushed();
    expect(await contentOf(journal)).toEqual(['0:a', '1:c']);
    expect(log.flushedOffset).toBe(2);
  });

  it('tells all that wait of a failed flush and takes nothing more', async () => {
    const { journal, log } = await newJournal();
    log.failNextFlush = new BroadsheetError('IO', 'disk gone');
    append(journal, 'a');
    const waits = [journal.flushed(), journal.flushed()];
    const outcomes = await Promise.allSettled(waits);
    expect(outcomes.map((outcome) => outcome.status)).toEqual(['rejected', 'rejected']);
    expect(() => append(journal, 'b')).toThrow('disk gone');
    await expect(journal.flushed()).rejects.toThrow('disk gone');
  });

  it('writes what others have staged, and leaves the outcome to them', async () => {
    const { journal, engine, committer } = await newJournal();
    const other = (await engine.open('/other', OPTIONS)) as MemoryLog;
    const outcomes: (BroadsheetError | undefined)[] = [];
    committer.register(other, (_, error) => outcomes.push(error));
    const donor = new Journal((await engine.open('/donor', OPTIONS)) as MemoryLog, committer, engine.files);
    append(donor, 'x');
    const bytes = Uint8Array.from(await donor.log.readBatches(0, 1000, 1));
    other.stage(bytes, 0, bytes.length, 0, 0);
    engine.failNextCommit.set('/other', new BroadsheetError('NO_SPACE', 'theirs'));
    expect(append(journal, 'a')).toBe(0);
    expect(outcomes.map((error) => error?.message)).toEqual(['theirs']);
  });

  it('notes a failed flush for the next start, which cuts what may be in the page cache only', async () => {
    for (const { make, setFault, clearFaults } of ENGINES) {
      const dir = scratch();
      const engine = make();
      const open = () =>
        ClusterMetadata.open({
          dataDir: dir,
          engine,
          defaultPartitions: 1,
          maxPartitions: 100,
          validateTopicConfig: () => {},
          now: 1000,
        });
      const create = (metadata: ClusterMetadata, name: string) =>
        metadata.createTopics(
          [{ name, numPartitions: 1, replicationFactor: 1, assignments: [], configs: [] }],
          1000,
        );
      try {
        const metadata = await open();
        await metadata.activate([], 1000);
        create(metadata, 'synced');
        await metadata.durable();
        create(metadata, 'lost');
        setFault('fdatasync', 0, 1, constants.errno.EIO, 0);
        await expect(metadata.durable()).rejects.toThrow();
        await metadata.close().catch(() => {});
        for (let start = 0; start < 2; start++) {
          const next = await open();
          expect([...next.image.topicsByName.keys()]).toEqual(['synced']);
          await next.activate([], 1000);
          await next.close();
        }
        expect(readdirSync(join(dir, '__cluster_metadata-0'))).not.toContain('failed-flush-checkpoint');
      } finally {
        clearFaults();
        await engine.close();
      }
    }
  });

  it('waits for a write that ends later, and goes offline when it fails', async () => {
    const { journal, engine, log } = await newJournal();
    const commit = engine.commit.bind(engine);
    const late: (() => void)[] = [];
    engine.commit = (done) => commit((of, error) => late.push(() => done(of, error)));
    append(journal, 'a');
    append(journal, 'b');
    const flushed = journal.flushed();
    await Promise.resolve();
    await Promise.resolve();
    expect(log.flushes).toBe(0);
    for (const tell of late.splice(0)) tell();
    await flushed;
    expect(log.flushes).toBe(1);
    engine.failNextCommit.set('/j', new BroadsheetError('IO', 'late'));
    append(journal, 'c');
    const lost = journal.flushed();
    for (const tell of late.splice(0)) tell();
    await expect(lost).rejects.toThrow('late');
    expect(() => append(journal, 'd')).toThrow('late');
  });
});

/** What a backup makes of what goes on in a log while it copies. By call and by command: test/broker/. Under load: test/crash/. */
import { mkdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, expect, it, vi } from 'vitest';
import { copyCut } from '../../src/log/backup.ts';
import { LogCommitter } from '../../src/log/committer.ts';
import { DirectoryCopy } from '../../src/log/directory-copy.ts';
import { CUT_VERSION, cutPartition, readRecoveryPoints } from '../../src/log/log-cut.ts';
import { LogManager } from '../../src/log/log-manager.ts';
import { checkPartition } from '../../src/log/partition-check.ts';
import { TRANSACTION_INDEX_CHECKPOINT } from '../../src/log/txn-index.ts';
import { BatchBuilder } from '../../src/protocol/records/writer.ts';
import { VirtualClock } from '../../src/runtime/clock.ts';
import { type Logger, silentLogger } from '../../src/runtime/logging.ts';
import { ENGINES } from '../support/engines.ts';
import { scratch } from '../support/logs.ts';
import { batchInfoOf } from '../support/memory-log.ts';
import { LOG_SETTINGS, topicConfigForTests } from '../support/topic-config.ts';

const ID = 'OeXl6uY5Tm2ppr3C3B0cZQ';
const SEGMENT_MS = 1000;
const silent = { onAppended() {}, onAppendFailed() {} };

afterEach(() => void vi.restoreAllMocks());

it.each(ENGINES)('takes of the indexes what the cut had, engine=$name', async ({ make }) => {
  const engine = make();
  const clock = new VirtualClock();
  const root = scratch();
  const dataDir = join(root, 'data');
  mkdirSync(dataDir);
  writeFileSync(join(dataDir, 'meta.properties'), '');
  const config = topicConfigForTests({ segmentBytes: 150_000, indexIntervalBytes: 100 });
  const description = { topicId: ID, leaderEpoch: 0, config };
  const manager = await LogManager.open(
    {
      ...{ dataDir, engine, committer: new LogCommitter(engine), clock },
      ...{ logger: silentLogger, settings: LOG_SETTINGS },
    },
    () => description,
  );
  const partition = await manager.create('t', 0, description);
  const append = () => {
    clock.advance(1);
    const bytes = new BatchBuilder().append({ timestamp: clock.now(), value: Buffer.alloc(100) }).build();
    partition.append(bytes, 0, bytes.length, batchInfoOf(bytes, 0), clock.now(), silent, 0);
    manager.commitTick();
  };
  const copyFile = DirectoryCopy.prototype.file;
  let more = 0;
  vi.spyOn(DirectoryCopy.prototype, 'file').mockImplementation(async function (this: DirectoryCopy, ...args) {
    // Behind the copy of the log, before that of its indexes; at last the segment is closed meanwhile.
    if (/\.(time)?index$/.test(args[0])) for (let i = 0; i < more; i++) append();
    await copyFile.apply(this, args);
  });
  for (more of [0, 1, 100, 400]) {
    // Entries are written when some have come together.
    for (let i = 0; i < 150; i++) append();
    const recoveryPoints = await readRecoveryPoints(engine.files, dataDir);
    const log = cutPartition(partition);
    const cut = { version: CUT_VERSION, dataDir, recoveryPoints, metadata: log, partitions: [] } as const;
    await copyCut(cut, join(root, `backup-${more}`));
    const folder = join(root, `backup-${more}`, 't-0');
    const { faults, batches } = await checkPartition(folder, { clean: true });
    expect([more, batches, faults]).toEqual([more, log.endOffset, []]);
    const index = `${String(log.bases.at(-1)).padStart(20, '0')}.index`;
    expect(statSync(join(folder, index)).size).toBeGreaterThan(0);
    expect(log.bases.length).toBe(1);
  }
  expect(partition.log.segmentBaseOffsets().length).toBeGreaterThan(1);
  await manager.close(1);
  await engine.close();
});

it.each(ENGINES)('takes the aborted transactions of the cut, engine=$name', async ({ make }) => {
  const engine = make();
  const clock = new VirtualClock();
  const warnings: string[] = [];
  const logger = { ...silentLogger, warn: (_: object, message: string) => void warnings.push(message) };
  const description = {
    topicId: ID,
    leaderEpoch: 0,
    config: topicConfigForTests({ segmentMs: SEGMENT_MS, segmentBytes: 400 }),
  };
  const open = (dataDir: string, log: Logger) =>
    LogManager.open(
      { dataDir, engine, committer: new LogCommitter(engine), clock, logger: log, settings: LOG_SETTINGS },
      () => description,
    );
  const root = scratch();
  const dataDir = join(root, 'data');
  mkdirSync(dataDir);
  writeFileSync(join(dataDir, 'meta.properties'), '');
  const manager = await open(dataDir, silentLogger);
  const partition = await manager.create('t', 0, description);
  // Stands for __cluster_metadata.
  const metadata = await manager.create('m', 0, description);
  let sequence = 0;
  const abort = async () => {
    const producer = { producerId: 1, producerEpoch: 0 };
    const builder = new BatchBuilder({ ...producer, baseSequence: sequence++, transactional: true });
    const bytes = builder.append({ timestamp: clock.now(), key: 'k', value: 'v' }).build();
    partition.append(bytes, 0, bytes.length, batchInfoOf(bytes, 0), clock.now(), silent, 0);
    const marker = { ...producer, coordinatorEpoch: 0, transactionVersion: 0, commit: false };
    partition.appendMarker(marker, clock.now(), silent, 0);
    manager.commitTick();
    await partition.log.flush();
    await manager.checkpointRecoveryPoints();
  };
  let aborts = 0;
  const copyFile = DirectoryCopy.prototype.file;
  vi.spyOn(DirectoryCopy.prototype, 'file').mockImplementation(async function (this: DirectoryCopy, ...args) {
    // Between the files of aborted transactions and their checksums.
    if (args[0] === `${partition.log.dir}/${TRANSACTION_INDEX_CHECKPOINT}` && aborts-- > 0) await abort();
    await copyFile.apply(this, args);
  });
  await abort();
  for (let i = 0; i < 9; i++) {
    if (i % 3 === 2) {
      clock.advance(2 * SEGMENT_MS);
      await manager.retain();
      expect(partition.log.activeSegmentBaseOffset).toBe(partition.logEndOffset);
    }
    const recoveryPoints = await readRecoveryPoints(engine.files, dataDir);
    const cut = {
      ...({ version: CUT_VERSION, dataDir, recoveryPoints } as const),
      metadata: cutPartition(metadata),
      partitions: [cutPartition(partition)],
    };
    const expected = partition.abortedTransactions(0, partition.logEndOffset);
    aborts = 1;
    await copyCut(cut, join(root, `backup-${i}`));
    expect(aborts).toBe(0);
    const restored = await open(join(root, `backup-${i}`), logger);
    const copy = restored.partition('t', 0)!;
    expect(copy.abortedTransactions(0, copy.logEndOffset)).toEqual(expected);
    await restored.close(1);
  }
  expect(partition.log.segmentBaseOffsets().length).toBeGreaterThan(2);
  expect(warnings).toEqual([]);
  await manager.close(1);
  await engine.close();
});

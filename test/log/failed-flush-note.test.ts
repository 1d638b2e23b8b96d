import { expect, it } from 'vitest';
import { LogCommitter } from '../../src/log/committer.ts';
import { LogManager } from '../../src/log/log-manager.ts';
import { VirtualClock } from '../../src/runtime/clock.ts';
import { BroadsheetError } from '../../src/runtime/errors.ts';
import type { Logger } from '../../src/runtime/logging.ts';
import { rawBatch } from '../support/batches.ts';
import { batchInfoOf, MemoryEngine, type MemoryLog } from '../support/memory-log.ts';
import { LOG_SETTINGS, topicConfigForTests } from '../support/topic-config.ts';

const settle = () => new Promise((resolve) => setImmediate(resolve));

it('a failed flush is noted again and again until the note is written', async () => {
  const engine = new MemoryEngine();
  const clock = new VirtualClock();
  let refused = 0;
  const count = (fields: object) => {
    if (JSON.stringify(fields).includes('no such luck')) refused++;
  };
  const logger: Logger = { debug() {}, info() {}, warn: count, error: count, child: () => logger };
  await engine.files.mkdir('/d');
  const description = { topicId: 'OeXl6uY5Tm2ppr3C3B0cZQ', leaderEpoch: 0, config: topicConfigForTests() };
  const committer = new LogCommitter(engine);
  const manager = await LogManager.open(
    { dataDir: '/d', engine, committer, clock, logger, settings: LOG_SETTINGS },
    () => description,
  );
  const partition = await manager.create('t', 0, description);
  const bytes = rawBatch({});
  const listener = { onAppended() {}, onAppendFailed() {} };
  expect(
    partition.append(bytes, 0, bytes.length, batchInfoOf(bytes, 0), clock.now(), listener, 0),
  ).toBeUndefined();
  manager.commitTick();

  const path = '/d/t-0/failed-flush-checkpoint';
  const note = () => engine.files.content.get(path)?.toString();
  const failNote = () => engine.files.failNextWrite.set(path, new BroadsheetError('IO', 'no such luck'));
  (partition.log as MemoryLog).failNextFlush = new BroadsheetError('IO', 'fdatasync: EIO');
  failNote();
  await manager.checkpointRecoveryPoints();
  await settle();
  expect(partition.offline?.code).toBe('IO');
  expect(note()).toBeUndefined();
  failNote();
  clock.advance(5_000);
  await settle();
  expect(note()).toBeUndefined();
  clock.advance(5_000);
  await settle();
  expect(note()).toBe('0\n2\n0 0\n1 1\n');
  expect(refused).toBe(2);
  await engine.close();
});

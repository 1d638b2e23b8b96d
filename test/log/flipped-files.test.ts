/** Every byte of every small file of a directory, flipped, cut off and missing: no record, no end and no start of a log moves. */
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { LogCommitter } from '../../src/log/committer.ts';
import { LogManager } from '../../src/log/log-manager.ts';
import type { AppendListener, Partition } from '../../src/log/partition.ts';
import { VirtualClock } from '../../src/runtime/clock.ts';
import { silentLogger } from '../../src/runtime/logging.ts';
import { ENGINES } from '../support/engines.ts';
import { batch, scratch } from '../support/logs.ts';
import { batchInfoOf } from '../support/memory-log.ts';
import { Random } from '../support/random.ts';
import { FULL_SIZE } from '../support/scale.ts';
import { seedOf } from '../support/seed.ts';
import { LOG_SETTINGS, topicConfigForTests } from '../support/topic-config.ts';

const ROOT = scratch(true);
const TOPIC_ID = 'OeXl6uY5Tm2ppr3C3B0cZQ';
const PARTITIONS = [0, 1];
const SAMPLE = 8;
/** Producers that are silent for long are forgotten. */
const BEGAN = new VirtualClock().now();
const silent: AppendListener = { onAppended() {}, onAppendFailed() {} };

function append(partition: Partition, producerId: number, baseSequence: number, attributes: number): void {
  const at = BEGAN + partition.logEndOffset;
  const payload = new Uint8Array(100);
  const bytes = batch({ producerId, producerEpoch: 0, baseSequence, attributes, maxTimestamp: at, payload });
  expect(
    partition.append(bytes, 0, bytes.length, batchInfoOf(bytes, 0), at, silent, baseSequence),
  ).toBeUndefined();
}

function abort(partition: Partition, producerId: number): void {
  const marker = {
    producerId,
    producerEpoch: 0,
    commit: false,
    coordinatorEpoch: 0,
    transactionVersion: 1,
  };
  expect(partition.appendMarker(marker, BEGAN + partition.logEndOffset, silent, 0)).toBeUndefined();
}

describe.each(ENGINES)('damaged small files, engine=$name', ({ name, make }) => {
  async function withManager<T>(
    dataDir: string,
    epoch: number | undefined,
    work: (manager: LogManager) => Promise<T>,
  ) {
    const engine = make();
    const config = topicConfigForTests({ segmentBytes: 1000, indexIntervalBytes: 150 });
    const parts = {
      dataDir,
      engine,
      committer: new LogCommitter(engine),
      clock: new VirtualClock(),
      logger: silentLogger,
    };
    const describePartition = (topic: string) =>
      topic === 't' ? { topicId: TOPIC_ID, leaderEpoch: 0, config } : undefined;
    const manager = await LogManager.open({ ...parts, settings: LOG_SETTINGS }, describePartition);
    try {
      return await work(manager);
    } finally {
      await manager.close(epoch);
      await engine.close();
    }
  }

  async function write(dataDir: string): Promise<void> {
    await withManager(dataDir, 1, async (manager) => {
      for (const index of PARTITIONS) {
        const config = topicConfigForTests({ segmentBytes: 1000, indexIntervalBytes: 150 });
        const partition = await manager.create('t', index, { topicId: TOPIC_ID, leaderEpoch: 0, config });
        for (let i = 0; i < 20; i++) {
          append(partition, 9, i, 0);
          manager.commitTick();
        }
        // Transactions that overlap, in more than one segment; the first two are aborted together.
        for (const [producerId, ends] of [
          [11, []],
          [12, [12, 11]],
          [13, [13]],
          [14, []],
          [15, [15, 14]],
        ] as const) {
          for (let i = 0; i < 2; i++) append(partition, producerId, i, 0x10);
          for (const ended of ends) abort(partition, ended);
          manager.commitTick();
        }
        expect(partition.aborted.size).toBe(5);
        partition.setLogStartOffset(3 + index);
      }
    });
  }

  /** What readers see: where logs start and end, which batches they have, what look-ups by time and by offset give. */
  const seen = (dataDir: string) =>
    withManager(dataDir, undefined, async (manager) => {
      const all: unknown[] = [];
      for (const index of PARTITIONS) {
        const partition = manager.partition('t', index);
        if (partition === undefined) return 'a partition is missing';
        const { log, epochs, producers } = partition;
        const { logStartOffset, logEndOffset } = log;
        const batches = await log.scanBatches(logStartOffset, logEndOffset, false);
        const byTime: unknown[] = [];
        for (let at = logStartOffset; at < logEndOffset; at++) {
          const found = await log.findBatchByTimestamp(BEGAN + at, logStartOffset, logEndOffset);
          const read = await log.readBatches(at, 1, logEndOffset);
          byTime.push(found && Buffer.from(found).readBigInt64BE(0), Buffer.from(read).readBigInt64BE(0));
        }
        all.push(
          logStartOffset,
          logEndOffset,
          batches,
          byTime,
          [...epochs.entries],
          producers.get(9)?.batches,
          partition.abortedTransactions(logStartOffset, logEndOffset),
        );
      }
      return all;
    });

  function* harms(bytes: Buffer): Generator<[string, Buffer | undefined]> {
    yield ['missing', undefined];
    for (let at = 0; at < bytes.length; at++) {
      yield [`cut at ${at}`, bytes.subarray(0, at)];
      for (let bit = 0; bit < 8; bit++) {
        const flipped = Buffer.from(bytes);
        flipped[at]! ^= 1 << bit;
        yield [`bit ${bit} of byte ${at} flipped`, flipped];
      }
    }
  }

  it.each(['clean', 'killed'])('after a stop that was %s', { timeout: 3_600_000 }, async (state) => {
    const pristine = join(ROOT, `${name}-${state}`);
    const work = join(ROOT, `${name}-work`);
    mkdirSync(pristine);
    await write(pristine);
    if (state === 'killed') rmSync(join(pristine, '.kafka_cleanshutdown'));
    const fresh = () => {
      rmSync(work, { recursive: true, force: true });
      cpSync(pristine, work, { recursive: true });
    };
    fresh();
    const expected = await seen(work);
    const paths = readdirSync(pristine, { recursive: true, encoding: 'utf8' }).filter(
      (path) => !path.endsWith('.log') && statSync(join(pristine, path)).isFile(),
    );
    const byPath = paths.map((path) =>
      [...harms(readFileSync(join(pristine, path)))].map(([what, bytes]) => ({ path, what, bytes })),
    );
    const cases = byPath.flat();
    const random = new Random(seedOf(`flipped files, ${name} ${state}`, 6));
    const chosen = FULL_SIZE ? cases : Array.from({ length: SAMPLE }, () => random.pick(random.pick(byPath)));
    const faults: string[] = [];
    for (const { path, what, bytes } of chosen) {
      fresh();
      if (bytes === undefined) rmSync(join(work, path));
      else writeFileSync(join(work, path), bytes);
      const found = await seen(work).catch((error: Error) => error.message);
      if (JSON.stringify(found, big) !== JSON.stringify(expected, big))
        faults.push(`${path}: ${what}: ${difference(found, expected)}`);
    }
    process.stdout.write(
      `${name} ${state}: ${chosen.length} of ${cases.length} damages of ${paths.length} files\n`,
    );
    expect(faults.slice(0, 20)).toEqual([]);
  });
});

const big = (_: string, value: unknown) => (typeof value === 'bigint' ? String(value) : value);

function difference(found: unknown, expected: unknown): string {
  if (!Array.isArray(found) || !Array.isArray(expected)) return String(found);
  const at = found.findIndex((each, i) => JSON.stringify(each, big) !== JSON.stringify(expected[i], big));
  return `part ${at} is ${JSON.stringify(found[at], big)?.slice(0, 200)}`;
}

/** check --repair lowers no log's end and no log's start, and keeps what it replaces. */
import { linkSync, mkdirSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, vi } from 'vitest';
import { checkDirectory } from '../../src/cli/check.ts';
import {
  CLEANER_FILE,
  LEADER_EPOCH_FILE,
  LOG_START_FILE,
  RECOVERY_POINT_FILE,
} from '../../src/log/checkpoints.ts';
import { LogCommitter } from '../../src/log/committer.ts';
import type { LogEngine } from '../../src/log/log.ts';
import { LogManager } from '../../src/log/log-manager.ts';
import type { AppendListener } from '../../src/log/partition.ts';
import { checkPartition } from '../../src/log/partition-check.ts';
import { segmentFileName } from '../../src/log/segment-names.ts';
import { createMetaProperties } from '../../src/metadata/meta-properties.ts';
import { readBatches } from '../../src/protocol/records/reader.ts';
import { BatchBuilder } from '../../src/protocol/records/writer.ts';
import { VirtualClock } from '../../src/runtime/clock.ts';
import { silentLogger } from '../../src/runtime/logging.ts';
import { epochsText, offsetsText } from '../support/checkpoint-text.ts';
import { cli } from '../support/cli.ts';
import { ENGINES } from '../support/engines.ts';
import { batch, OPTIONS, scratch } from '../support/logs.ts';
import { batchInfoOf } from '../support/memory-log.ts';
import { LOG_SETTINGS, topicConfigForTests } from '../support/topic-config.ts';

const IDS: Readonly<Record<string, string>> = { t: 'OeXl6uY5Tm2ppr3C3B0cZQ', u: 'CKd2ROAwRh6cFasLIWPGHw' };
/** Of a batch with a payload of 50 bytes; 36 of them fill a segment. */
const SIZE = 111;
const BATCHES = 101;
const START = 20;
const LAST = segmentFileName(72, '.log');
const CLEAN = '.kafka_cleanshutdown';
const silent: AppendListener = { onAppended() {}, onAppendFailed() {} };
const config = topicConfigForTests({ segmentBytes: 4000, indexIntervalBytes: 300 });
const describeTopic = (topic: string) => ({ topicId: IDS[topic]!, leaderEpoch: 0, config });

function open(dir: string, engine: LogEngine): Promise<LogManager> {
  const committer = new LogCommitter(engine);
  const parts = { dataDir: dir, engine, committer, clock: new VirtualClock() };
  return LogManager.open({ ...parts, logger: silentLogger, settings: LOG_SETTINGS }, describeTopic);
}

/** Two topics alike, that start at 20 and end at 101, in segments at 0, 36 and 72. */
async function stopped(engine: LogEngine): Promise<string> {
  const dir = join(scratch(true), 'data');
  mkdirSync(dir);
  await (await createMetaProperties(engine.files, dir)).mend();
  const manager = await open(dir, engine);
  for (const topic of Object.keys(IDS)) {
    const partition = await manager.create(topic, 0, describeTopic(topic));
    for (let i = 0; i < BATCHES; i++) {
      const bytes = batch({
        ...{ maxTimestamp: 1000 + i, payload: new Uint8Array(50).fill(i + 1) },
        ...{ producerId: 9, producerEpoch: 0, baseSequence: i },
      });
      partition.append(bytes, 0, bytes.length, batchInfoOf(bytes, 0), 1000, silent, 0);
      manager.commitTick();
    }
    partition.setLogStartOffset(START);
  }
  await manager.close(1);
  await engine.close();
  return dir;
}

/** Of each topic where it starts and ends, and which offsets have a record. */
async function served(dir: string, engine: LogEngine) {
  const manager = await open(dir, engine);
  const found: Record<string, { start: number; end: number; gone: number[] }> = {};
  for (const topic of Object.keys(IDS)) {
    const { log } = manager.partition(topic, 0)!;
    const offsets = new Set<number>();
    for (let offset = log.logStartOffset; offset < log.writtenOffset; ) {
      for (const each of readBatches(await log.readBatches(offset, 1 << 20, log.writtenOffset))) {
        if (!('recordCount' in each)) throw new Error('an old message');
        if (each.recordCount > 0) offsets.add(each.baseOffset);
        offset = each.lastOffset + 1;
      }
    }
    const all = Array.from(
      { length: log.logEndOffset - log.logStartOffset },
      (_, i) => log.logStartOffset + i,
    );
    found[topic] = {
      ...{ start: log.logStartOffset, end: log.logEndOffset },
      gone: all.filter((offset) => !offsets.has(offset)),
    };
  }
  await manager.close(2);
  await engine.close();
  return found;
}

/** What the command prints as JSON, without a process for it; throws where it ends with an error. */
async function check(dir: string, options: { repair?: boolean } = {}) {
  const printed: string[] = [];
  const write = vi.spyOn(process.stdout, 'write').mockImplementation((text) => {
    printed.push(String(text));
    return true;
  });
  try {
    await checkDirectory(dir, { ...options, json: true });
  } finally {
    write.mockRestore();
  }
  return JSON.parse(printed.join('')) as { faults: object[]; repaired: { file: string }[] };
}

interface Case {
  readonly what: string;
  readonly isClean?: boolean;
  readonly gone?: readonly number[];
  /** Of the files that faults are told of. */
  readonly files: readonly string[];
  harm(at: (name: string) => string): void;
}

const flip = (path: string, at: number) => {
  const bytes = readFileSync(path);
  bytes[at < 0 ? bytes.length + at : at]! ^= 1;
  writeFileSync(path, bytes);
};
const cutLast = (path: string) => truncateSync(path, readFileSync(path).length - SIZE);
const TIMES = `t-0/${segmentFileName(72, '.timeindex')}`;
const SNAPSHOT = `t-0/${segmentFileName(101, '.snapshot')}`;
const START_COPY = `${LOG_START_FILE}.copy`;

const CASES: readonly Case[] = [
  ...[true, false].map((isClean) => ({
    what: `an end that a recovery point knows, stopped cleanly: ${isClean}`,
    isClean,
    gone: [100],
    files: [`t-0/${LAST}`, TIMES, ...(isClean ? [SNAPSHOT] : [])],
    harm: (at: (name: string) => string) => cutLast(at(`t-0/${LAST}`)),
  })),
  {
    what: 'an end that a producer snapshot knows',
    isClean: true,
    gone: [100],
    files: [TIMES, SNAPSHOT],
    harm: (at) => {
      cutLast(at(`t-0/${LAST}`));
      rmSync(at(RECOVERY_POINT_FILE));
      rmSync(at('replication-offset-checkpoint'));
    },
  },
  {
    what: 'a batch, and the recovery points, without which the start would cut there',
    gone: [40],
    files: [RECOVERY_POINT_FILE, `t-0/${segmentFileName(36, '.log')}`],
    harm: (at) => {
      flip(at(`t-0/${segmentFileName(36, '.log')}`), 4 * SIZE + 80);
      flip(at(RECOVERY_POINT_FILE), 6);
    },
  },
  {
    what: 'log starts without a copy',
    files: [LOG_START_FILE],
    harm: (at) => {
      rmSync(at(START_COPY));
      flip(at(LOG_START_FILE), -3);
    },
  },
  {
    what: 'the copy of log starts, and nothing else that knows them',
    files: [START_COPY],
    harm: (at) => {
      rmSync(at(LOG_START_FILE));
      flip(at(START_COPY), -3);
    },
  },
  {
    what: 'a log start of Apache Kafka that lies past the end, beside a good one',
    isClean: true,
    files: [LOG_START_FILE],
    harm: (at) => {
      writeFileSync(at(LOG_START_FILE), `0\n2\nt 0 ${START}\nu 0 999\n`);
      writeFileSync(at(START_COPY), offsetsText(`${IDS.u} 0 ${START}`));
    },
  },
  {
    what: 'what the cleaner knows',
    files: [CLEANER_FILE],
    harm: (at) => writeFileSync(at(CLEANER_FILE), '0\n1\nt 0'),
  },
  {
    what: 'the copy of meta.properties',
    isClean: true,
    files: ['meta.properties.copy'],
    harm: (at) => flip(at('meta.properties.copy'), 20),
  },
  {
    what: 'meta.properties',
    isClean: true,
    files: ['meta.properties'],
    harm: (at) => flip(at('meta.properties'), 30),
  },
];

/** A partition's folder with 80 batches of epochs 3, 5 (from 30) and 8 (from 60), in segments at 0, 36 and 72. */
async function threeEpochs(engine: LogEngine): Promise<{ dir: string; epochs: number[] }> {
  const dir = join(scratch(true), 't-0');
  const log = await engine.open(dir, OPTIONS);
  const epochs = Array.from({ length: 80 }, (_, i) => [3, 5, 8][Math.floor(i / 30)]!);
  for (const [i, epoch] of epochs.entries()) {
    const bytes = batch({ maxTimestamp: 1, payload: new Uint8Array(50).fill(i) });
    log.stage(bytes, 0, bytes.length, epoch, 1000);
    engine.commit(() => {});
  }
  await engine.close();
  return { dir, epochs };
}

describe.each(ENGINES)('check --repair, engine=$name', ({ make }) => {
  it('finds the leader epoch that was altered, and writes it again', async () => {
    const { dir, epochs } = await threeEpochs(make());
    // Segments begin at 0, 36 and 72; where an epoch begins, what is next to it may have either.
    for (const i of [0, 1, 29, 30, 35, 36, 59, 60, 71, 72, 79]) {
      const path = join(dir, segmentFileName(i < 36 ? 0 : i < 72 ? 36 : 72, '.log'));
      const at = (i % 36) * SIZE + 12;
      const whole = readFileSync(path);
      for (const altered of [-2, 1, 4, 6, 7, 9, 1 << 30]) {
        const around = [epochs[i - 1] ?? -1, epochs[i]!, epochs[i + 1] ?? 8];
        if (altered >= around[0]! && altered <= around[2]!) continue;
        const harmed = Buffer.from(whole);
        harmed.writeInt32BE(altered, at);
        writeFileSync(path, harmed);
        const report = await checkPartition(dir, { clean: true, latestLeaderEpoch: 8 });
        const where = `batch ${i}, epoch ${altered}`;
        expect(report.faults, where).toHaveLength(1);
        const [file, positions] = [...report.epochs][0]!;
        expect([file, ...positions.keys()], where).toEqual([path.slice(dir.length + 1), at - 12]);
        expect(around, where).toContain([...positions.values()][0]);
      }
      writeFileSync(path, whole);
    }
    const path = join(dir, segmentFileName(36, '.log'));
    const whole = readFileSync(path);
    const what = '1 leader epochs are written again';
    // A backup has it too; at the second time a repair was killed.
    const backup = `${path}.linked`;
    linkSync(path, backup);
    for (const isLeft of [false, true]) {
      flip(path, 5 * SIZE + 14);
      const harmed = readFileSync(path);
      if (isLeft) writeFileSync(`${path}.tmp`, 'a part');
      const { stdout, code } = await cli(['check', dir, '--repair', '--json']);
      expect([code, JSON.parse(stdout.toString()).repaired]).toEqual([
        0,
        [{ file: segmentFileName(36, '.log'), what }],
      ]);
      expect(readFileSync(path)).toEqual(whole);
      if (!isLeft) expect(readFileSync(backup)).toEqual(harmed);
      expect(readdirSync(dir)).not.toContain(`${segmentFileName(36, '.log')}.tmp`);
    }
  });

  const HISTORY = epochsText('3 0', '5 30', '8 60');
  const OF_KAFKA = '0\n3\n3 0\n5 30\n8 60\n';
  const SEGMENTS = [0, 36, 72].map((base) => segmentFileName(base, '.log'));

  it.each([
    { history: HISTORY, batch: 29, altered: 4, right: 3 },
    { history: HISTORY, batch: 29, altered: 5, right: 3 },
    { history: HISTORY, batch: 30, altered: 3, right: 5 },
    { history: HISTORY, batch: 30, altered: 4, right: 5 },
    { history: HISTORY, batch: 59, altered: 7, right: 5 },
    { history: HISTORY, batch: 79, altered: 9, right: 8 },
    { history: OF_KAFKA, batch: 29, altered: 4, right: 3 },
    // Either may have been altered.
    { history: OF_KAFKA, batch: 30, altered: 3, right: undefined },
    { history: HISTORY, batch: 30, altered: 3, right: undefined, clean: false },
    { history: OF_KAFKA.replace('5', '4'), batch: 0, altered: 3, right: undefined },
    { history: epochsText('3 0', '5 30'), batch: 0, altered: 3, right: undefined },
    // A kill came before the history was written.
    { history: epochsText('3 0', '5 30'), batch: 0, altered: 3, right: undefined, clean: false, faults: [] },
  ])('compares leader epochs that fit with the history: $#', async (each) => {
    const { dir } = await threeEpochs(make());
    writeFileSync(join(dir, LEADER_EPOCH_FILE), each.history);
    const file = SEGMENTS.findLast((name) => Number(name.slice(0, 20)) <= each.batch)!;
    const position = (each.batch - Number(file.slice(0, 20))) * SIZE;
    const bytes = readFileSync(join(dir, file));
    bytes.writeInt32BE(each.altered, position + 12);
    writeFileSync(join(dir, file), bytes);
    const report = await checkPartition(dir, { clean: each.clean ?? true, latestLeaderEpoch: 9 });
    const faulty = [...new Set(report.faults.map((fault) => fault.file))];
    expect(faulty).toEqual(each.faults ?? [each.right === undefined ? LEADER_EPOCH_FILE : file]);
    expect([...report.epochs].map(([name, found]) => [name, [...found]])).toEqual(
      each.right === undefined ? [] : [[file, [[position, each.right]]]],
    );
  });

  it.each(CASES)('mends $what', async ({ isClean, gone = [], files, harm }) => {
    const dir = await stopped(make());
    const properties = readFileSync(join(dir, 'meta.properties'), 'latin1');
    if (isClean !== true) rmSync(join(dir, CLEAN));
    harm((name) => join(dir, name));
    const said = await check(dir, { repair: true });
    expect(said.repaired.map(({ file }) => file).sort()).toEqual(files.toSorted());
    expect(said.faults).toEqual([]);
    expect(readFileSync(join(dir, 'meta.properties'), 'latin1')).toBe(properties);
    for (const file of files) {
      if (file.startsWith('t-0/')) continue;
      expect(readdirSync(dir)).toContain(`${file}.0.quarantine`);
    }
    expect(await served(dir, make())).toEqual({
      t: { start: START, end: BATCHES, gone },
      u: { start: START, end: BATCHES, gone: [] },
    });
  });

  /** Transactions of two producers that overlap; every third one is aborted, the last one is open. */
  it('finds and mends transaction indexes that differ from the markers', async () => {
    const engine = make();
    const dir = join(scratch(true), 'data');
    mkdirSync(dir);
    await (await createMetaProperties(engine.files, dir)).mend();
    const manager = await open(dir, engine);
    const partition = await manager.create('t', 0, describeTopic('t'));
    for (let i = 0; i < 60; i++) {
      const producer = { producerId: 1 + (i % 2), producerEpoch: 0 };
      if (i > 1) {
        const marker = { ...producer, coordinatorEpoch: 0, transactionVersion: 0, commit: i % 3 > 0 };
        expect(partition.appendMarker(marker, 1000, silent, 0)).toBeUndefined();
      }
      const options = { ...producer, baseSequence: i >> 1, transactional: true };
      const bytes = new BatchBuilder(options).append({ timestamp: 1000, key: 'k', value: 'v' }).build();
      partition.append(bytes, 0, bytes.length, batchInfoOf(bytes, 0), 1000, silent, 0);
      manager.commitTick();
    }
    await manager.close(1);
    await engine.close();
    expect(await check(dir)).toMatchObject({ ok: true, faults: [], remarks: [] });

    const name = `t-0/${segmentFileName(0, '.txnindex')}`;
    const path = join(dir, name);
    const whole = readFileSync(path);
    expect(whole.length).toBeGreaterThan(5 * 34);
    // Of the second entry: a producer's id, its first offset, the marker's, the last stable one.
    const altered = [9, 17, 25, 33].map((at) => (bytes: Buffer) => {
      bytes[34 + at]! ^= 1;
      return bytes;
    });
    const cut = (bytes: Buffer) => bytes.subarray(0, -34);
    for (const harm of [...altered, cut, () => undefined]) {
      const harmed = harm(Buffer.from(whole));
      if (harmed === undefined) rmSync(path);
      else writeFileSync(path, harmed);
      expect(await check(dir, { repair: true })).toMatchObject({ ok: true, repaired: [{ file: name }] });
      expect(readFileSync(path).equals(whole)).toBe(true);
    }
    // Of a transaction index that a kill left behind, nothing is said but that.
    rmSync(join(dir, CLEAN));
    writeFileSync(path, cut(whole));
    const remark = { file: name, what: expect.stringContaining('there is no such entry') };
    expect(await check(dir)).toMatchObject({
      ok: true,
      remarks: expect.arrayContaining([remark]),
    });
  });
});

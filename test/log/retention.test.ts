import { closeSync, openSync, readdirSync, readFileSync, readSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import type { Log, LogEngine, SegmentFacts } from '../../src/log/log.ts';
import {
  isRollDue,
  planCap,
  planRetention,
  type RetentionRules,
  segmentTime,
} from '../../src/log/retention.ts';
import { ENGINES } from '../support/engines.ts';
import { append, CLEAN, OPTIONS, readWarm, scratch } from '../support/logs.ts';

const DAY = 86_400_000;
const NOW = 100 * DAY;

function segment(baseOffset: number, sizeInBytes: number, ageDays: number): SegmentFacts {
  const time = NOW - ageDays * DAY;
  return { baseOffset, sizeInBytes, largestTimestamp: time, lastModified: time, beganAt: -1 };
}

const RULES: RetentionRules = { cleanupPolicy: ['delete'], retentionMs: 7 * DAY, retentionBytes: -1 };

function plan(
  segments: SegmentFacts[],
  rules: Partial<RetentionRules> = {},
  state: { logStartOffset?: number; highWatermark?: number; logEndOffset?: number } = {},
) {
  const logEndOffset = state.logEndOffset ?? 400;
  return planRetention(
    {
      segments,
      logStartOffset: 0,
      highWatermark: logEndOffset,
      segmentMs: 1000 * DAY,
      ...state,
      logEndOffset,
    },
    { ...RULES, ...rules },
    NOW,
  );
}

const FOUR = [segment(0, 100, 20), segment(100, 100, 10), segment(200, 100, 5), segment(300, 50, 1)];

describe('what goes to keep all logs to a size', () => {
  const other = [segment(0, 30, 15), segment(50, 30, 12), segment(60, 30, 30)];
  const logs = [
    { segments: FOUR, highWatermark: 400 },
    { segments: other, highWatermark: 90 },
  ];

  it.each([
    [0, [0, 0]],
    [1, [100, 0]],
    [100, [100, 0]],
    [101, [100, 50]],
    [131, [100, 60]],
    [161, [200, 60]],
    [261, [300, 60]],
    // The active ones stay.
    [1e9, [300, 60]],
  ])('for %d bytes', (excess, below) => {
    expect(planCap(logs, excess)).toEqual(below);
  });

  it('never leaves a hole, nor takes what is not below the high watermark', () => {
    // The second is older than the first by its clock.
    const odd = [segment(0, 10, 1), segment(10, 10, 90), segment(20, 10, 0)];
    expect(planCap([{ segments: odd, highWatermark: 30 }, logs[0]!], 101)).toEqual([0, 200]);
    expect(planCap([{ segments: odd, highWatermark: 30 }, logs[0]!], 305)).toEqual([10, 300]);
    expect(planCap([{ segments: FOUR, highWatermark: 250 }], 1e9)).toEqual([200]);
    expect(planCap([], 1)).toEqual([]);
  });
});

describe('what goes', () => {
  it('goes by age, oldest first, and stops at the first that stays', () => {
    expect(plan(FOUR)).toEqual({ roll: false, deleteBelow: 200 });
    expect(plan([FOUR[0]!, FOUR[2]!, segment(250, 10, 30), FOUR[3]!])).toMatchObject({ deleteBelow: 200 });
    expect(plan(FOUR, { retentionMs: -1 })).toMatchObject({ deleteBelow: 0 });
    expect(plan([{ ...segment(0, 1, 0), largestTimestamp: NOW - 7 * DAY }, FOUR[3]!]).deleteBelow).toBe(0);
  });

  it('takes the active segment too once its records are too old, after a roll', () => {
    expect(plan(FOUR, { retentionMs: DAY / 2 })).toEqual({ roll: true, deleteBelow: 400 });
    const empty = { ...segment(400, 0, 1), largestTimestamp: -1 };
    expect(plan([...FOUR, empty], { retentionMs: DAY / 2 })).toEqual({ roll: false, deleteBelow: 400 });
  });

  it('goes by size only as far as the rest is not below the limit', () => {
    expect(plan(FOUR, { retentionMs: -1, retentionBytes: 249 }).deleteBelow).toBe(100);
    expect(plan(FOUR, { retentionMs: -1, retentionBytes: 250 }).deleteBelow).toBe(100);
    expect(plan(FOUR, { retentionMs: -1, retentionBytes: 251 }).deleteBelow).toBe(0);
    expect(plan(FOUR, { retentionMs: -1, retentionBytes: 0 })).toEqual({ roll: true, deleteBelow: 400 });
  });

  it('goes by age too behind what goes by size', () => {
    const odd = [segment(0, 100, 1), segment(100, 100, 30), segment(200, 100, 2), segment(300, 100, 1)];
    expect(plan(odd).deleteBelow).toBe(0);
    expect(plan(odd, { retentionBytes: 300 }).deleteBelow).toBe(200);
  });

  it('goes below the log start, of compacted logs too, but never the active segment', () => {
    const compact = { cleanupPolicy: ['compact'] };
    expect(plan(FOUR, compact).deleteBelow).toBe(0);
    expect(plan(FOUR, compact, { logStartOffset: 199 }).deleteBelow).toBe(100);
    expect(plan(FOUR, compact, { logStartOffset: 200 }).deleteBelow).toBe(200);
    expect(plan(FOUR, compact, { logStartOffset: 400 })).toEqual({ roll: false, deleteBelow: 300 });
  });

  it('never takes what is not below the high watermark', () => {
    expect(plan(FOUR, { retentionMs: 0 }, { highWatermark: 250 })).toEqual({ roll: false, deleteBelow: 200 });
    expect(plan(FOUR, { retentionBytes: 0 }, { highWatermark: 99 })).toEqual({ roll: false, deleteBelow: 0 });
  });

  it('does not let a timestamp of the future hold anything back', () => {
    const late = { ...segment(0, 100, 8), largestTimestamp: NOW + 1000 * DAY };
    expect(segmentTime(late)).toBe(NOW - 8 * DAY);
    expect(plan([late, ...FOUR.slice(1)]).deleteBelow).toBe(200);
  });

  it('counts records without a time from when the file was written', () => {
    expect(plan([{ ...segment(0, 100, 8), largestTimestamp: -1 }, FOUR[3]!]).deleteBelow).toBe(300);
    expect(plan([{ ...segment(0, 100, 6), largestTimestamp: -1 }, FOUR[3]!]).deleteBelow).toBe(0);
  });
});

describe('a segment without traffic', () => {
  const active = (beganDays: number, writtenDays: number): SegmentFacts => ({
    ...segment(0, 100, writtenDays),
    beganAt: NOW - beganDays * DAY,
  });

  it('is closed when its time is over', () => {
    expect(isRollDue(active(8, 7.5), 7 * DAY, NOW)).toBe(true);
    expect(isRollDue(active(7, 6), 7 * DAY, NOW)).toBe(false);
    expect(isRollDue({ ...active(8, 7.5), beganAt: -1 }, 7 * DAY, NOW)).toBe(false);
  });

  it('counts old records from when they came', () => {
    expect(isRollDue(active(90, 1), 7 * DAY, NOW)).toBe(false);
    expect(isRollDue(active(90, 8), 7 * DAY, NOW)).toBe(true);
  });
});

describe.each(ENGINES)('segments that leave a log, engine=$name', ({ make }) => {
  let engine: LogEngine;

  afterEach(async () => {
    await engine.close();
  });

  async function filled(): Promise<Log> {
    engine = make();
    const log = await engine.open(join(scratch(), 'log-0'), OPTIONS);
    for (let i = 0; i < 60; i++)
      append(engine, log, { recordCount: 2, maxTimestamp: 1000 + i, payload: new Uint8Array(300).fill(i) });
    await log.flush();
    return log;
  }

  it('tells facts of segments', async () => {
    const log = await filled();
    const bases = log.segmentBaseOffsets();
    utimesSync(join(log.dir, `${String(bases[0]).padStart(20, '0')}.log`), 5, 1234.5);
    const facts = await log.segmentFacts();
    expect(facts.map((each) => each.baseOffset)).toEqual(bases);
    expect(facts.reduce((sum, each) => sum + each.sizeInBytes, 0)).toBe(log.sizeInBytes);
    expect(facts[0]).toMatchObject({ lastModified: 1_234_500, beganAt: -1 });
    expect(facts.map((each) => each.largestTimestamp)).toEqual(
      [...bases.slice(1), log.writtenOffset].map((end) => 1000 + end / 2 - 1),
    );
    expect(facts.at(-1)!.beganAt).toBe(1000 + bases.at(-1)! / 2);
  });

  it('lets readers go on, moves the log start, and is the same after a restart', async () => {
    let log = await filled();
    const bases = log.segmentBaseOffsets();
    expect(bases.length).toBeGreaterThan(4);
    const before = await readWarm(log, 0, 500, log.writtenOffset, true);
    if (before.kind !== 'range') throw new Error(before.kind);
    const { position, length, segment, source } = before.range;
    const held = source.hold(segment);
    const reading = log.readBatches(0, 1e6, log.writtenOffset);
    const size = log.sizeInBytes;
    const gone = await log.replaceSegments(bases.slice(0, 3), []);
    expect(gone.filter((name) => name.endsWith('.log.deleted'))).toHaveLength(3);
    expect(gone.filter((name) => name.endsWith('.timeindex.deleted'))).toHaveLength(3);
    for (const name of gone) expect(readdirSync(log.dir)).toContain(name);
    expect((await reading).length).toBe(size);
    for (const name of gone) await engine.files.remove(join(log.dir, name));
    const bytes = Buffer.alloc(length);
    readSync(held.fd, bytes, 0, length, position);
    expect(bytes.readBigInt64BE(0)).toBe(0n);
    held.release();
    expect(log.logStartOffset).toBe(bases[3]);
    expect(log.segmentBaseOffsets()).toEqual(bases.slice(3));
    expect(log.sizeInBytes).toBe((await log.segmentFacts()).reduce((sum, each) => sum + each.sizeInBytes, 0));
    expect(log.read(bases[3]! - 1, 100, log.writtenOffset, true).kind).toBe('out-of-range');
    const end = log.writtenOffset;
    const { dir } = log;
    await log.close();
    log = await engine.open(dir, CLEAN);
    expect([log.logStartOffset, log.writtenOffset]).toEqual([bases[3], end]);
  });

  it('refuses the active segment, holes, and what is not flushed', async () => {
    const log = await filled();
    const bases = log.segmentBaseOffsets();
    const refused = { code: 'INVALID_ARGUMENT' };
    const replace = async (old: number[], cleaned: number[] = []) => log.replaceSegments(old, cleaned);
    await expect(replace(bases)).rejects.toMatchObject(refused);
    await expect(replace([])).rejects.toMatchObject(refused);
    await expect(replace([bases[1]!])).rejects.toMatchObject(refused);
    await expect(replace([bases[0]!, bases[2]!])).rejects.toMatchObject(refused);
    await expect(replace([bases[0]!], [bases[1]!])).rejects.toMatchObject(refused);
    await expect(replace([bases[1]!], [bases[1]!, bases[2]!])).rejects.toMatchObject(refused);
    append(engine, log, { recordCount: 2, maxTimestamp: 2000, payload: new Uint8Array(3500) });
    append(engine, log, { recordCount: 2, maxTimestamp: 2000, payload: new Uint8Array(3500) });
    if (log.flushedOffset < log.activeSegmentBaseOffset)
      await expect(replace(log.segmentBaseOffsets().slice(0, -1))).rejects.toMatchObject(refused);
  });

  it('puts a cleaned segment in the place of others', async () => {
    const log = await filled();
    const bases = log.segmentBaseOffsets();
    const name = (suffix: string) => join(log.dir, `${String(bases[1]).padStart(20, '0')}${suffix}`);
    // Every second batch of the second segment is left.
    const bytes = readFileSync(name('.log'));
    const kept: Buffer[] = [];
    for (let at = 0, i = 0; at < bytes.length; i++) {
      const length = bytes.readInt32BE(at + 8) + 12;
      if (i % 2 === 0) kept.push(bytes.subarray(at, at + length));
      at += length;
    }
    writeFileSync(name('.log.cleaned'), Buffer.concat(kept));
    for (const index of ['.index.cleaned', '.timeindex.cleaned']) closeSync(openSync(name(index), 'w'));
    const old = await log.readBatches(0, 1e6, log.writtenOffset);
    const gone = await log.replaceSegments([bases[1]!, bases[2]!], [bases[1]!]);
    expect(gone.filter((each) => each.endsWith('.log.deleted'))).toHaveLength(2);
    expect(log.segmentBaseOffsets()).toEqual([bases[0], bases[1], ...bases.slice(3)]);
    const left = await log.readBatches(0, 1e6, log.writtenOffset);
    expect(left.length).toBe(log.sizeInBytes);
    expect(left.length).toBeLessThan(old.length);
    // A reader at an offset that is gone gets the next one that is there.
    const gap = bases[3]! - 1;
    const range = await readWarm(log, gap, 100, log.writtenOffset, true);
    expect(range.kind).toBe('range');
    expect(Number(Buffer.from(await log.readBatches(gap, 1, log.writtenOffset)).readBigInt64BE(0))).toBe(
      bases[3],
    );
    expect(readdirSync(log.dir).filter((each) => /cleaned|swap/.test(each))).toEqual([]);
  });
});

/** What recovery cuts off a log stays in files beside it, whatever ends the start in between. */
import { readdirSync, readFileSync, truncateSync, writeFileSync } from 'node:fs';
import { constants } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import type { OpenOptions } from '../../src/log/log.ts';
import { segmentFileName } from '../../src/log/segment-names.ts';
import { ENGINES } from '../support/engines.ts';
import { closedLog, OPTIONS } from '../support/logs.ts';

const { ENOSPC, EIO } = constants.errno;
const SIZE = 111;

describe.each(ENGINES)('quarantine, engine=$name', ({ make, setFault, clearFaults }) => {
  afterEach(clearFaults);

  const quarantined = (dir: string) => readdirSync(dir).filter((name) => name.includes('.quarantine'));

  const stopped = () => closedLog(make());

  function flip(path: string, position: number): void {
    const bytes = readFileSync(path);
    bytes[position]! ^= 1;
    writeFileSync(path, bytes);
  }

  async function reopened(dir: string, options: Partial<OpenOptions> = {}) {
    const engine = make();
    try {
      const log = await engine.open(dir, { ...OPTIONS, ...options });
      const { logEndOffset, recovery } = log;
      const count = (await log.scanBatches(0, logEndOffset, false)).length;
      return { logEndOffset, count, recovery };
    } finally {
      await engine.close();
    }
  }

  it('keeps the tail of the damaged segment and all of those behind it', async () => {
    const dir = await stopped();
    flip(join(dir, segmentFileName(36, '.log')), 14 * SIZE + 70);
    const tail = readFileSync(join(dir, segmentFileName(36, '.log'))).subarray(14 * SIZE);
    const last = readFileSync(join(dir, segmentFileName(72, '.log')));
    const { logEndOffset, count, recovery } = await reopened(dir);
    expect([logEndOffset, count, recovery.bytesTruncated]).toEqual([50, 50, 50 * SIZE]);
    expect(recovery.fault).toContain(`is kept in ${segmentFileName(72, '.log')}.0.quarantine and 1 more`);
    expect(quarantined(dir).sort()).toEqual([
      `${segmentFileName(36, '.log')}.${14 * SIZE}.quarantine`,
      `${segmentFileName(72, '.log')}.0.quarantine`,
    ]);
    expect(readFileSync(join(dir, `${segmentFileName(36, '.log')}.${14 * SIZE}.quarantine`))).toEqual(tail);
    expect(readFileSync(join(dir, `${segmentFileName(72, '.log')}.0.quarantine`))).toEqual(last);
    expect((await reopened(dir)).recovery.fault).toBeUndefined();
  });

  it.each([
    // Batches are of epoch 7; the last bit of one is flipped.
    { at: 50, options: {}, end: 50, says: 'is of an earlier leader epoch than the one before it' },
    { at: 50, options: { latestLeaderEpoch: 7 }, end: 50, says: 'earlier leader epoch' },
    { at: 50, bit: 8, options: {}, end: 51, says: 'earlier leader epoch' },
    {
      at: 50,
      bit: 8,
      options: { latestLeaderEpoch: 7 },
      end: 50,
      says: 'is of a leader epoch that has not begun',
    },
    { at: 99, bit: 8, options: { latestLeaderEpoch: 7 }, end: 99, says: 'leader epoch that has not begun' },
    { at: 50, options: { recoveryPoint: 51 }, end: 100, says: undefined },
    { at: 50, bit: 8, options: { recoveryPoint: 51, latestLeaderEpoch: 7 }, end: 100, says: undefined },
  ])('takes a leader epoch that was altered for damage: $at, $bit, $options', async (each) => {
    const dir = await stopped();
    const base = each.at < 72 ? 36 : 72;
    const path = join(dir, segmentFileName(base, '.log'));
    const bytes = readFileSync(path);
    bytes[(each.at - base) * SIZE + 15]! ^= each.bit ?? 1;
    writeFileSync(path, bytes);
    const { logEndOffset, recovery } = await reopened(dir, each.options);
    expect([logEndOffset, recovery.bytesTruncated]).toEqual([each.end, (100 - each.end) * SIZE]);
    if (each.says === undefined) expect(recovery.fault).toBeUndefined();
    else expect(recovery.fault).toContain(each.says);
  });

  it('keeps no zeros, and writes over nothing that an earlier cut left', async () => {
    const dir = await stopped();
    const path = join(dir, segmentFileName(72, '.log'));
    writeFileSync(path, Buffer.concat([readFileSync(path), Buffer.alloc(5000)]));
    expect((await reopened(dir)).recovery.bytesTruncated).toBe(5000);
    expect(quarantined(dir)).toEqual([]);
    for (let i = 0; i < 3; i++) {
      writeFileSync(path, Buffer.concat([readFileSync(path), Buffer.alloc(100, i + 1)]));
      await reopened(dir);
    }
    const names = ['', '.1', '.2'].map((n) => `${segmentFileName(72, '.log')}.${28 * SIZE}${n}.quarantine`);
    expect(quarantined(dir).sort()).toEqual([...names].sort());
    for (const [i, name] of names.entries())
      expect(readFileSync(join(dir, name))).toEqual(Buffer.alloc(100, i + 1));
  });

  it('keeps what lies below a log start that a power cut left past the end', async () => {
    const dir = await stopped();
    const engine = make();
    const log = await engine.open(dir, { ...OPTIONS, logStartOffset: 200 });
    expect([log.logStartOffset, log.logEndOffset]).toEqual([200, 200]);
    expect(log.recovery.fault).toContain('ends at offset 100, before its start at 200');
    await engine.close();
    expect(quarantined(dir)).toHaveLength(3);
  });

  it('ends the start for no full disk', async () => {
    const dir = await stopped();
    flip(join(dir, segmentFileName(72, '.log')), 14 * SIZE + 70);
    setFault('pwritev', 0, 1000, ENOSPC, 0);
    const engine = make();
    const { logEndOffset, recovery } = await engine.open(dir, OPTIONS);
    clearFaults();
    await engine.close();
    expect(logEndOffset).toBe(86);
    expect(recovery.fault).toContain('not all that was cut could be kept');
    expect(quarantined(dir)).toEqual([]);
  });

  it('loses no byte and leaves no gap, whichever call a start ends with', async () => {
    let ended = 0;
    for (const call of ['rename', 'unlink', 'ftruncate', 'pwritev', 'fsync'] as const) {
      for (let skip = 0; ; skip++) {
        const dir = await stopped();
        flip(join(dir, segmentFileName(0, '.log')), 14 * SIZE + 70);
        const cut = Buffer.concat(
          [0, 36, 72].map((base) => readFileSync(join(dir, segmentFileName(base, '.log')))),
        );
        setFault(call, skip, 1, EIO, 0);
        const failed = await reopened(dir).then(
          () => false,
          () => true,
        );
        clearFaults();
        if (!failed) break;
        ended++;
        const { logEndOffset, count } = await reopened(dir);
        expect([logEndOffset, count], `${call} ${skip}`).toEqual([14, 14]);
        const kept = quarantined(dir).sort();
        expect(kept.some((name) => name.endsWith('.tmp'))).toBe(false);
        const bytes = [
          ...new Map(kept.map((name) => [name.slice(0, 24), readFileSync(join(dir, name))])).values(),
        ];
        expect(Buffer.concat(bytes)).toEqual(cut.subarray(14 * SIZE));
        // What is left is a log like any other.
        truncateSync(join(dir, segmentFileName(0, '.log')), 13 * SIZE);
        expect((await reopened(dir)).logEndOffset).toBe(13);
      }
    }
    expect(ended).toBeGreaterThan(8);
  });
});

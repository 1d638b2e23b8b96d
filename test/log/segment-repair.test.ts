import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { segmentFileName } from '../../src/log/segment-names.ts';
import { repairSegment } from '../../src/log/segment-repair.ts';
import { type RecordBatch, readBatches } from '../../src/protocol/records/reader.ts';
import { ENGINES } from '../support/engines.ts';
import { CLEAN, closedLog } from '../support/logs.ts';
import { scaled } from '../support/scale.ts';

const SIZE = 111;

describe.each(ENGINES)('a segment is repaired, engine=$name', ({ make }) => {
  const stopped = () => closedLog(make());

  /** Base offsets of batches that have records, read one after the other as a consumer does; and the end. */
  async function read(dir: string): Promise<{ offsets: number[]; end: number }> {
    const engine = make();
    try {
      const log = await engine.open(dir, CLEAN);
      const offsets: number[] = [];
      for (let offset = 0; offset < log.writtenOffset; ) {
        const bytes = await log.readBatches(offset, 1, log.writtenOffset);
        for (const batch of readBatches(bytes) as Iterable<RecordBatch>) {
          expect(batch.checksOut()).toBe(true);
          if (batch.recordCount > 0) offsets.push(batch.baseOffset);
          offset = batch.lastOffset + 1;
        }
      }
      return { offsets, end: log.logEndOffset };
    } finally {
      await engine.close();
    }
  }

  const without = (...gone: number[]) =>
    Array.from({ length: 100 }, (_, i) => i).filter((i) => !gone.includes(i));

  it.each([
    ['first of a segment', 36, 0, 72],
    ['in the middle', 36, 14, 72],
    ['last of a closed segment', 36, 35, 72],
    ['in the last segment', 72, 3, Number.POSITIVE_INFINITY],
    ['last of the log', 72, 27, Number.POSITIVE_INFINITY],
  ])('whose batch is damaged at any byte: %s', async (_, base, index, nextBase) => {
    const dir = await stopped();
    const path = join(dir, segmentFileName(base, '.log'));
    const whole = readFileSync(path);
    const { files } = make();
    for (let at = 0; at < SIZE; at += scaled(13, 1)) {
      // The leader epoch is not in the checksum.
      if (at >= 12 && at < 16) continue;
      const harmed = Buffer.from(whole);
      harmed[index * SIZE + at]! ^= at === 7 ? 0x40 : 0x10;
      writeFileSync(path, harmed);
      const repaired = await repairSegment(files, dir, base, nextBase, { endOffset: 100 });
      // No checksum covers its offset: it gets back the only one that it can have had.
      if (at < 8) {
        expect(repaired, `byte ${at}`).toEqual({ bytes: 0, offsets: 0, moved: 1 });
        expect(readFileSync(path)).toEqual(whole);
        continue;
      }
      expect(repaired, `byte ${at}`).toEqual({ bytes: SIZE, offsets: 1, moved: 0 });
      const name = readdirSync(dir).find((each) => each.endsWith('.quarantine'))!;
      expect(name).toBe(`${segmentFileName(base, '.log')}.${index * SIZE}.quarantine`);
      expect(readFileSync(join(dir, name))).toEqual(harmed.subarray(index * SIZE, (index + 1) * SIZE));
      expect(await read(dir)).toEqual({ offsets: without(base + index), end: 100 });
      expect(await repairSegment(files, dir, base, nextBase, { endOffset: 100 })).toBeUndefined();
      rmSync(join(dir, name));
    }
  });

  it('where several batches are gone, and where nothing is damaged', async () => {
    const dir = await stopped();
    const path = join(dir, segmentFileName(36, '.log'));
    const { files } = make();
    expect(await repairSegment(files, dir, 36, 72)).toBeUndefined();
    const bytes = readFileSync(path);
    writeFileSync(
      path,
      Buffer.concat([
        bytes.subarray(0, 5 * SIZE),
        Buffer.alloc(50, 2),
        bytes.subarray(8 * SIZE, 20 * SIZE),
        bytes.subarray(21 * SIZE, -9),
      ]),
    );
    // What is missing altogether leaves no bytes, and a gap.
    expect(await repairSegment(files, dir, 36, 72)).toEqual({ bytes: 50 + SIZE - 9, offsets: 4, moved: 0 });
    expect(await read(dir)).toEqual({ offsets: without(41, 42, 43, 56, 71), end: 100 });
  });
});

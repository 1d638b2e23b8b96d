import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { ENGINES } from '../support/engines.ts';
import { append, batch, CLEAN, OPTIONS, readWarm, scratch, segmentBytes } from '../support/logs.ts';

describe.each(ENGINES)('engine=$name', ({ make }) => {
  /** 60 batches of 2 records and 111 bytes: segments of 36 batches at 4000 bytes. */
  async function filled(options = OPTIONS) {
    const engine = make();
    const log = await engine.open(join(scratch(), 't-0'), options);
    for (let i = 0; i < 60; i++)
      append(engine, log, { recordCount: 2, maxTimestamp: 1000 + i, payload: new Uint8Array(50).fill(i) });
    return { engine, log };
  }

  describe('log', () => {
    it('gives offsets, patches base offset and leader epoch, and writes one file per segment', async () => {
      const { engine, log } = await filled();
      expect(log.logEndOffset).toBe(120);
      expect(log.writtenOffset).toBe(120);
      expect(log.flushedOffset).toBeLessThan(120);
      expect(log.segmentBaseOffsets()).toEqual([0, 72]);
      expect(log.activeSegmentBaseOffset).toBe(72);
      expect(log.sizeInBytes).toBe(60 * 111);
      const bytes = segmentBytes(log, 0);
      expect(bytes.length).toBe(36 * 111);
      expect(bytes.readBigInt64BE(111)).toBe(2n);
      expect(bytes.readInt32BE(111 + 12)).toBe(7);
      await engine.close();
    });

    it('tells at which batch a segment begins, within one tick too', async () => {
      const engine = make();
      const log = await engine.open(join(scratch(), 't-0'), OPTIONS);
      const rolls: number[] = [];
      for (let i = 0; i < 100; i++) {
        const bytes = batch({ maxTimestamp: 0, payload: new Uint8Array(50) });
        const { baseOffset, rolled } = log.stage(bytes, 0, bytes.length, 0, 0);
        if (rolled) rolls.push(baseOffset);
      }
      expect(rolls).toEqual([36, 72]);
      expect(log.segmentBaseOffsets()).toEqual([0]);
      engine.commit((_, error) => expect(error).toBeUndefined());
      expect(log.segmentBaseOffsets()).toEqual([0, 36, 72]);
      expect((await log.scanBatches(0, 100, false)).map((info) => info.baseOffset)).toEqual([
        ...Array(100).keys(),
      ]);
      await engine.close();
    });

    it('ends its files with the last byte and leaves indexes with one entry per interval', async () => {
      const { engine, log } = await filled();
      await engine.close();
      const sizes = Object.fromEntries(
        readdirSync(log.dir).map((name) => [name, statSync(join(log.dir, name)).size]),
      );
      // An entry when more than 300 bytes came since the last one: every third batch from the fourth on.
      expect(sizes).toEqual({
        '00000000000000000000.log': 36 * 111,
        '00000000000000000000.index': 11 * 8,
        '00000000000000000000.timeindex': 12 * 12,
        '00000000000000000072.log': 24 * 111,
        '00000000000000000072.index': 7 * 8,
        '00000000000000000072.timeindex': 8 * 12,
      });
      const index = readFileSync(join(log.dir, '00000000000000000072.index'));
      expect([index.readInt32BE(0), index.readInt32BE(4)]).toEqual([7, 333]);
      const times = readFileSync(join(log.dir, '00000000000000000072.timeindex'));
      expect([times.readBigInt64BE(0), times.readInt32BE(8)]).toEqual([1039n, 7]);
      // The last one is the largest timestamp of the segment, as Kafka closes one.
      expect([times.readBigInt64BE(84), times.readInt32BE(92)]).toEqual([1059n, 47]);
    });

    it('reads ranges within one segment', async () => {
      const { engine, log } = await filled();
      const range = async (offset: number, maxBytes: number, upTo: number, minOne = true) => {
        const result = await readWarm(log, offset, maxBytes, upTo, minOne);
        return result.kind === 'range' ? [result.range.position, result.range.length] : result.kind;
      };
      expect(await range(0, 1e6, 120)).toEqual([0, 36 * 111]);
      expect(await range(3, 1e6, 120)).toEqual([111, 35 * 111]);
      expect(await range(3, 300, 120)).toEqual([111, 300]);
      expect(await range(3, 5, 120)).toEqual([111, 111]);
      expect(await range(3, 5, 120, false)).toEqual([111, 5]);
      expect(await range(3, 0, 120, false)).toBe('empty');
      expect(await range(3, 1e6, 10)).toEqual([111, 4 * 111]);
      expect(await range(3, 1e6, 11)).toEqual([111, 4 * 111]);
      expect(await range(3, 1e6, 3)).toBe('empty');
      expect(await range(71, 1e6, 120)).toEqual([35 * 111, 111]);
      expect(await range(72, 1e6, 120)).toEqual([0, 24 * 111]);
      expect(await range(119, 1e6, 120)).toEqual([23 * 111, 111]);
      expect(await range(120, 1e6, 120)).toBe('empty');
      expect(await range(121, 1e6, 120)).toBe('out-of-range');
      expect(await range(-1, 1e6, 120)).toBe('out-of-range');
      log.setLogStartOffset(50);
      expect(await range(49, 1e6, 120)).toBe('out-of-range');
      expect(await range(51, 111, 120)).toEqual([25 * 111, 111]);
      await engine.close();
    });

    it('answers what needs a thread', async () => {
      const { engine, log } = await filled();
      const base = (bytes: Uint8Array | undefined) =>
        bytes === undefined ? undefined : Number(Buffer.from(bytes).readBigInt64BE(0));
      await log.warm(0, 1e6);
      expect((await log.readBatches(1, 250, 120)).length).toBe(222);
      expect((await log.readBatches(1, 1, 120)).length).toBe(111);
      expect((await log.readBatches(60, 1e6, 120)).length).toBe(30 * 111);
      expect((await log.readBatches(60, 1e6, 61)).length).toBe(0);
      expect(base(await log.findBatchByTimestamp(1040, 0, 120))).toBe(80);
      expect(base(await log.findBatchByTimestamp(0, 0, 120))).toBe(0);
      expect(base(await log.findBatchByTimestamp(1010, 55, 120))).toBe(54);
      expect(base(await log.findBatchByTimestamp(1060, 0, 120))).toBeUndefined();
      expect(base(await log.findBatchByTimestamp(1040, 0, 80))).toBeUndefined();
      expect(base(await log.findBatchByMaxTimestamp(0, 120))).toBe(118);
      expect(base(await log.findBatchByMaxTimestamp(0, 90))).toBe(88);
      expect((await log.scanBatches(70, 75, false)).map((info) => info.baseOffset)).toEqual([70, 72, 74]);
      expect(await log.scanBatches(0, 120, true)).toEqual([]);
      await engine.close();
    });

    it('opens again where it ended, without reading after a clean stop', async () => {
      const { engine, log } = await filled();
      await log.flush();
      expect(log.flushedOffset).toBe(120);
      await log.close();
      const clean = await engine.open(log.dir, { ...CLEAN, recoveryPoint: 120 });
      expect(clean.recovery).toEqual({ bytesScanned: 0, bytesTruncated: 0, indexesRebuilt: 0 });
      expect([clean.logEndOffset, clean.flushedOffset, clean.sizeInBytes]).toEqual([120, 120, 6660]);
      append(engine, clean, { maxTimestamp: 5000 });
      await clean.close();
      const unclean = await engine.open(log.dir, OPTIONS);
      expect(unclean.recovery.bytesScanned).toBe(60 * 111 + 61);
      expect([unclean.logEndOffset, unclean.flushedOffset]).toEqual([121, 0]);
      await engine.close();
    });
  });
});

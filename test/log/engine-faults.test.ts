import { execFileSync } from 'node:child_process';
import {
  appendFileSync,
  copyFileSync,
  existsSync,
  readFileSync,
  readSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { constants } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import type { Log, LogEngine } from '../../src/log/log.ts';
import type { BroadsheetError } from '../../src/runtime/errors.ts';
import { ENGINES } from '../support/engines.ts';
import { append, batch, CLEAN, OPTIONS, readWarm, scratch } from '../support/logs.ts';

const { ENOSPC, EIO } = constants.errno;

describe.each(ENGINES)('engine=$name', (under) => {
  const { name, make, setFault, clearFaults, limitDescriptors, descriptors } = under;

  async function opened(options = OPTIONS): Promise<{ engine: LogEngine; log: Log }> {
    const engine = make();
    return { engine, log: await engine.open(join(scratch(), 't-0'), options) };
  }

  async function code(promise: Promise<unknown>): Promise<string> {
    return promise.then(
      () => 'OK',
      (error: BroadsheetError) => error.code,
    );
  }

  function codeOfThrow(fn: () => unknown): string {
    try {
      fn();
      return 'OK';
    } catch (error) {
      return (error as BroadsheetError).code;
    }
  }

  /** Stages batches of 111 bytes and commits them; the error of the commit. */
  function tick(engine: LogEngine, log: Log, count: number): BroadsheetError | undefined {
    for (let i = 0; i < count; i++) {
      const bytes = batch({ maxTimestamp: 1, payload: new Uint8Array(50) });
      log.stage(bytes, 0, bytes.length, 0, 1000);
    }
    let outcome: BroadsheetError | undefined;
    engine.commit((_, error) => {
      outcome = error;
    });
    return outcome;
  }

  afterEach(() => {
    clearFaults();
    limitDescriptors(0);
  });

  describe('log when the disk fails', () => {
    it('is cut back to where the tick began on ENOSPC, over a roll too, and goes on', async () => {
      const { engine, log } = await opened();
      tick(engine, log, 20);
      // The first write of the tick falls short, the second finds no space.
      setFault('pwritev', 1, 1, ENOSPC, 0);
      expect(tick(engine, log, 50)?.code).toBe('NO_SPACE');
      expect([log.logEndOffset, log.writtenOffset, log.sizeInBytes]).toEqual([20, 20, 20 * 111]);
      expect(log.segmentBaseOffsets()).toEqual([0]);
      expect(log.activeSegmentBaseOffset).toBe(0);
      expect(log.offline).toBeUndefined();
      expect(statSync(join(log.dir, `${'0'.repeat(20)}.log`)).size).toBe(20 * 111);
      expect(existsSync(join(log.dir, `${'36'.padStart(20, '0')}.log`))).toBe(false);
      expect(tick(engine, log, 50)).toBeUndefined();
      expect(log.logEndOffset).toBe(70);
      expect((await log.scanBatches(0, 70, false)).length).toBe(70);
      await engine.close();
    });

    it('resumes short writes', async () => {
      const { engine, log } = await opened();
      setFault('pwritev', 0, 30, 0, 7);
      expect(tick(engine, log, 10)).toBeUndefined();
      await log.close();
      const again = await engine.open(log.dir, OPTIONS);
      expect([again.logEndOffset, again.recovery.bytesTruncated]).toEqual([10, 0]);
      await engine.close();
    });

    it('goes offline on another failed write, and still reads', async () => {
      const { engine, log } = await opened();
      tick(engine, log, 5);
      setFault('pwritev', 0, 1, EIO, 0);
      expect(tick(engine, log, 5)?.code).toBe('IO');
      expect(log.offline?.code).toBe('IO');
      expect(log.offline?.errno).toBe(EIO);
      expect(codeOfThrow(() => tick(engine, log, 1))).toBe('OFFLINE');
      expect(codeOfThrow(() => log.roll(0))).toBe('OFFLINE');
      expect(await code(log.flush())).toBe('OFFLINE');
      expect(log.read(0, 1000, 5, true).kind).toBe('range');
      expect((await log.readBatches(0, 1e6, 5)).length).toBe(555);
      expect(await code(log.close())).toBe('OK');
      expect(log.offline?.code).toBe('IO');
      await engine.close();
    });

    it('goes offline on a failed flush and never tries again', async () => {
      const { engine, log } = await opened();
      tick(engine, log, 5);
      setFault('fdatasync', 0, 1, EIO, 0);
      const two = [log.flush(), log.flush()];
      expect(await Promise.all(two.map(code))).toEqual(['IO', 'IO']);
      expect(log.flushedOffset).toBe(0);
      expect(log.offline?.code).toBe('IO');
      expect(await code(engine.flushAll([log]))).toBe('OFFLINE');
      await engine.close();
    });

    it('keeps index entries for which there is no space', async () => {
      const { engine, log } = await opened({ ...OPTIONS, segmentBytes: 100_000, indexIntervalBytes: 0 });
      // 64 entries of the time index are written together, after the 65th batch.
      setFault('pwritev', 65, 1, ENOSPC, 0);
      for (let i = 0; i < 200; i++) append(engine, log, { maxTimestamp: 1000 + i });
      clearFaults();
      expect(log.offline).toBeUndefined();
      for (const offset of [0, 1, 99, 150, 199]) {
        const result = log.read(offset, 61, 200, true);
        expect(result.kind === 'range' && result.range.position).toBe(offset * 61);
      }
      await log.close();
      expect(statSync(join(log.dir, `${'0'.repeat(20)}.index`)).size).toBe(199 * 8);
      const again = await engine.open(log.dir, CLEAN);
      expect(again.recovery.indexesRebuilt).toBe(0);
      await engine.close();
    });

    it('opens after a kill on a full disk, and writes its indexes when there is space', async () => {
      const { engine, log } = await opened();
      for (let i = 0; i < 200; i++)
        append(engine, log, { maxTimestamp: 1000 + i, payload: new Uint8Array(50) });
      await log.close();
      const sizes = () =>
        ['index', 'timeindex'].map((suffix) => statSync(join(log.dir, `${'0'.repeat(20)}.${suffix}`)).size);
      const whole = sizes();
      setFault('pwritev', 0, 1000, ENOSPC, 0);
      const again = await engine.open(log.dir, OPTIONS);
      clearFaults();
      expect([again.logEndOffset, again.recovery.bytesTruncated, again.offline]).toEqual([200, 0, undefined]);
      expect(sizes()).toEqual([0, 0]);
      expect((await again.readBatches(7, 100, 200)).length).toBeGreaterThan(0);
      const named = await again.findBatchByTimestamp(1020, 0, 200);
      expect(Buffer.from(named!).readBigInt64BE(0)).toBe(20n);
      await again.flush();
      expect(sizes()).toEqual(whole);
      await engine.close();
    });

    it('answers cold for what would have to wait for a disk, and range once it is warm', async () => {
      const { engine, log } = await opened();
      tick(engine, log, 20);
      await log.close();
      const again = await engine.open(log.dir, CLEAN);
      if (name === 'native') setFault('preadv2', 0, 1000, constants.errno.EAGAIN, 0);
      expect(again.read(5, 1000, 20, true).kind).toBe('cold');
      // Warmed, but nobody could tell: who wants it is to copy it.
      if (name === 'native') await expect(again.warm(5, 1000)).rejects.toMatchObject({ code: 'COLD' });
      expect((await again.readBatches(5, 1000, 20)).length).toBeGreaterThan(0);
      clearFaults();
      await again.warm(5, 1000);
      expect(again.read(5, 1000, 20, true).kind).toBe('range');
      await engine.close();
    });

    it('reads and writes many segments and logs through a handful', async () => {
      limitDescriptors(6);
      const before = descriptors().forcedSyncs;
      const engine = make();
      const root = scratch();
      const logs = await Promise.all(
        Array.from({ length: 20 }, (_, i) => engine.open(join(root, `t-${i}`), OPTIONS)),
      );
      for (let round = 0; round < 60; round++)
        for (const log of logs) append(engine, log, { maxTimestamp: round });
      expect(descriptors().forcedSyncs).toBeGreaterThan(before);
      await engine.flushAll(logs);
      for (const log of logs) expect((await log.scanBatches(0, 60, false)).length).toBe(60);
      for (const log of logs) expect(['range', 'cold']).toContain(log.read(30, 1000, 60, true).kind);
      // Ranges of one turn may hold half of the descriptors; the rest is asked to come again.
      await new Promise(setImmediate);
      await Promise.all(logs.map((log) => log.warm(30, 1000)));
      const kinds = logs.map((log) => log.read(30, 1000, 60, true).kind);
      expect(kinds.filter((kind) => kind === 'range').length).toBe(3);
      expect(kinds.filter((kind) => kind === 'cold').length).toBe(17);
      await new Promise(setImmediate);
      expect(descriptors().openFiles).toBeLessThanOrEqual(9);
      await engine.close();
      expect(descriptors().openFiles).toBe(0);
    });
  });

  describe('log after a crash or a Kafka', () => {
    const first = '0'.repeat(20);

    async function stopped(count = 100) {
      const { engine, log } = await opened();
      for (let i = 0; i < count; i++)
        append(engine, log, { maxTimestamp: 1000 + i, payload: new Uint8Array(50) });
      await log.close();
      return { engine, dir: log.dir };
    }

    it('cuts at the first bad batch, removes the segments behind it, and says what was wrong', async () => {
      for (const [harm, says] of [
        [(bytes: Buffer) => bytes.writeInt32BE(-5, 111 * 40 + 8), 'too small'],
        [(bytes: Buffer) => bytes.writeInt32BE(0x7fffffff, 111 * 40 + 8), 'past the end'],
        [(bytes: Buffer) => bytes.writeInt8(1, 111 * 40 + 16), 'magic 0 or 1'],
        [(bytes: Buffer) => bytes.writeInt8(9, 111 * 40 + 16), 'unknown magic'],
        [(bytes: Buffer) => bytes.writeUInt8(0xff, 111 * 40 + 100), 'checksum'],
        [(bytes: Buffer) => bytes.writeBigInt64BE(3n, 111 * 40), 'outside of the segment'],
        [(bytes: Buffer) => bytes.writeBigInt64BE(38n, 111 * 40), 'come after'],
        [(bytes: Buffer) => bytes.writeBigInt64BE(2n ** 62n, 111 * 40), 'outside of the segment'],
      ] as const) {
        const { engine, dir } = await stopped();
        // Batches 36 to 71 lie in the second segment; number 40 of the log is its fifth.
        const path = join(dir, `${'36'.padStart(20, '0')}.log`);
        const bytes = readFileSync(path);
        const shifted = Buffer.concat([Buffer.alloc(36 * 111), bytes]);
        harm(shifted);
        writeFileSync(path, shifted.subarray(36 * 111));
        const log = await engine.open(dir, OPTIONS);
        expect(log.logEndOffset, says).toBe(40);
        expect(log.segmentBaseOffsets()).toEqual([0, 36]);
        expect(log.recovery.bytesTruncated).toBe(60 * 111);
        expect(log.recovery.fault).toContain(says);
        append(engine, log, { maxTimestamp: 1 });
        expect(log.logEndOffset).toBe(41);
        await engine.close();
      }
    });

    it('cuts at an offset that leaps, unless compaction may have made the gap', async () => {
      // No checksum covers the base offset of batch 40, the fifth of the second segment, nor that of the last one.
      const path = (dir: string, base: number) => join(dir, `${String(base).padStart(20, '0')}.log`);
      for (const [base, at, options, end, fault] of [
        [36, 4, { ...OPTIONS, dense: true }, 40, 'leaves out offsets from 40 on'],
        [72, 27, { ...OPTIONS, dense: true }, 99, 'leaves out offsets from 99 on'],
        [72, 27, { ...OPTIONS, dense: true, recoveryPoint: 80 }, 99, 'leaves out offsets from 99 on'],
        [72, 27, OPTIONS, 99 + 1024 + 1, undefined],
      ] as const) {
        const { engine, dir } = await stopped();
        const bytes = readFileSync(path(dir, base));
        bytes[at * 111 + 6]! ^= 4;
        writeFileSync(path(dir, base), bytes);
        const log = await engine.open(dir, options);
        expect(log.logEndOffset).toBe(end);
        if (fault === undefined) expect(log.recovery.fault).toBeUndefined();
        else expect(log.recovery.fault).toContain(fault);
        await engine.close();
      }
    });

    it('cuts nothing where the log does not reach what it is known to', async () => {
      for (const cleanShutdown of [true, false]) {
        const { engine, dir } = await stopped();
        const path = join(dir, `${'72'.padStart(20, '0')}.log`);
        const bytes = readFileSync(path);
        bytes[27 * 111 + 16] = 9;
        writeFileSync(path, bytes);
        const options = { ...OPTIONS, dense: true, recoveryPoint: 100, cleanShutdown };
        await expect(engine.open(dir, { ...options, knownEnd: 100 })).rejects.toMatchObject({
          code: 'CORRUPT',
          message: expect.stringContaining('ends at offset 99, and is known to reach offset 100'),
        });
        expect(readFileSync(path)).toEqual(bytes);
        await engine.close();
      }
    });

    it('cuts where segments do not meet, unless compaction may have made the gap', async () => {
      // The last batches of the second segment did not reach the disk; the name of the third one did.
      const path = (dir: string) => join(dir, `${'36'.padStart(20, '0')}.log`);
      for (const [options, end, fault] of [
        [{ ...OPTIONS, dense: true }, 70, 'ends at offset 70, and the next segment begins at 72'],
        [{ ...OPTIONS, dense: true, logStartOffset: 72 }, 100, undefined],
        [{ ...OPTIONS, dense: true, recoveryPoint: 72 }, 100, undefined],
        [OPTIONS, 100, undefined],
      ] as const) {
        const { engine, dir } = await stopped();
        truncateSync(path(dir), 34 * 111);
        const log = await engine.open(dir, options);
        expect([log.logEndOffset, log.recovery.fault?.includes(fault ?? '')]).toEqual([
          end,
          fault === undefined ? undefined : true,
        ]);
        expect(append(engine, log, { maxTimestamp: 1 })).toBe(end);
        await engine.close();
      }
    });

    it('cuts a torn tail even after what calls itself a clean stop', async () => {
      const { engine, dir } = await stopped();
      appendFileSync(join(dir, `${'72'.padStart(20, '0')}.log`), new Uint8Array(200));
      const log = await engine.open(dir, CLEAN);
      expect([log.logEndOffset, log.recovery.bytesTruncated]).toEqual([100, 200]);
      await engine.close();
    });

    it('accepts indexes with a tail of zeros, as a killed Kafka leaves', async () => {
      for (const options of [OPTIONS, CLEAN]) {
        const { engine, dir } = await stopped();
        for (const base of ['0', '36', '72']) {
          for (const [suffix, bytes] of [
            ['.index', 10485760],
            ['.timeindex', 10485756],
          ] as const) {
            const path = join(dir, base.padStart(20, '0') + suffix);
            execFileSync('truncate', ['-s', String(bytes), path]);
          }
        }
        const log = await engine.open(dir, options);
        for (const offset of [0, 35, 36, 99]) {
          const result = await readWarm(log, offset, 111, 100, true);
          expect(result.kind === 'range' && result.range.position).toBe((offset % 36) * 111);
        }
        append(engine, log, { maxTimestamp: 5000 });
        await log.close();
        expect(statSync(join(dir, `${'72'.padStart(20, '0')}.index`)).size).toBeLessThan(200);
        await engine.close();
      }
    });

    it('finishes a compaction that was about to replace segments, and drops one that was not', async () => {
      const { engine, dir } = await stopped();
      const at = (base: number, suffix: string) => join(dir, String(base).padStart(20, '0') + suffix);
      // Segments 0 and 36 were compacted into one, that of 0, which holds the batches 36 to 71 with their offsets.
      copyFileSync(at(36, '.log'), at(0, '.log.swap'));
      copyFileSync(at(36, '.log'), at(36, '.log.cleaned'));
      copyFileSync(at(0, '.log'), at(36, '.log.swap'));
      copyFileSync(at(0, '.log'), at(0, '.log.deleted'));
      writeFileSync(at(5, '.index'), new Uint8Array(8));
      writeFileSync(at(5, '.snapshot'), 'left alone');
      writeFileSync(join(dir, 'leader-epoch-checkpoint'), 'left alone');
      const log = await engine.open(dir, CLEAN);
      expect(log.segmentBaseOffsets()).toEqual([0, 72]);
      expect((await log.scanBatches(0, 100, false)).map((info) => info.baseOffset)[0]).toBe(36);
      const result = await readWarm(log, 3, 1e6, 100, true);
      expect(result.kind).toBe('range');
      expect(existsSync(at(5, '.snapshot'))).toBe(true);
      expect(existsSync(join(dir, 'leader-epoch-checkpoint'))).toBe(true);
      for (const gone of [
        at(36, '.log'),
        at(36, '.log.swap'),
        at(0, '.log.deleted'),
        at(36, '.log.cleaned'),
        at(5, '.index'),
      ])
        expect(existsSync(gone)).toBe(false);
      await engine.close();
    });

    it('begins anew at a log start offset past the end, and at one within keeps all', async () => {
      const { engine, dir } = await stopped();
      const within = await engine.open(dir, { ...CLEAN, logStartOffset: 50 });
      expect([within.logStartOffset, within.logEndOffset]).toEqual([50, 100]);
      await within.close();
      const past = await engine.open(dir, { ...CLEAN, logStartOffset: 500 });
      expect([past.logStartOffset, past.logEndOffset, past.sizeInBytes]).toEqual([500, 500, 0]);
      expect(past.segmentBaseOffsets()).toEqual([500]);
      expect(append(engine, past, { maxTimestamp: 1 })).toBe(500);
      await engine.close();
    });

    it('does not scan what lies below the recovery point', async () => {
      const { engine, dir } = await stopped();
      const log = await engine.open(dir, { ...OPTIONS, recoveryPoint: 72 });
      expect(log.recovery.bytesScanned).toBe(28 * 111);
      expect(log.flushedOffset).toBe(72);
      await engine.close();
    });

    it('refuses what cannot be a log', async () => {
      const root = scratch();
      const engine = make();
      writeFileSync(join(root, 'file'), '');
      expect(await code(engine.open(join(root, 'file'), OPTIONS))).toBe('IO');
      expect(await code(engine.open(join(root, 'no', 'parent'), OPTIONS))).toBe('NOT_FOUND');
      const { dir } = await stopped(1);
      rmSync(join(dir, `${first}.log`));
      execFileSync('truncate', ['-s', '3G', join(dir, `${first}.log`)]);
      expect(await code(engine.open(dir, OPTIONS))).toBe('CORRUPT');
    });

    it('reads on after a rename, and from a range of a removed log', async () => {
      const { engine, log } = await opened();
      tick(engine, log, 50);
      const to = `${log.dir}.x-delete`;
      await log.rename(to);
      expect(log.dir).toBe(to);
      expect((await readWarm(log, 3, 1000, 50, true)).kind).toBe('range');
      tick(engine, log, 50);
      expect((await log.scanBatches(0, 100, false)).length).toBe(100);
      const result = await readWarm(log, 0, 111, 100, true);
      if (result.kind !== 'range') throw new Error(result.kind);
      const { source, segment } = result.range;
      const held = source.hold(segment);
      // A write behind may still end a file in it, also while it is emptied.
      while (existsSync(to)) {
        try {
          rmSync(to, { recursive: true });
        } catch (error) {
          if (!(error instanceof Error && 'code' in error && error.code === 'ENOTEMPTY')) throw error;
        }
      }
      // There is no folder any more in which its files could be ended.
      await code(log.close());
      const buffer = Buffer.alloc(111);
      expect(readSync(held.fd, buffer, 0, 111, 0)).toBe(111);
      expect(buffer.readBigInt64BE(0)).toBe(0n);
      held.release();
      // What was read is held until the turn ends.
      await new Promise((resolve) => setImmediate(resolve));
      expect(codeOfThrow(() => source.hold(segment))).toBe('CLOSED');
      await engine.close();
    });
  });

  describe('log after close', () => {
    it('answers CLOSED, and close again does nothing', async () => {
      const { engine, log } = await opened();
      const bytes = batch({ maxTimestamp: 1 });
      tick(engine, log, 3);
      const closing = log.close();
      expect(codeOfThrow(() => log.stage(bytes, 0, bytes.length, 0, 0))).toBe('CLOSED');
      expect(codeOfThrow(() => log.read(0, 1, 1, true))).toBe('CLOSED');
      expect(codeOfThrow(() => log.roll(0))).toBe('CLOSED');
      expect(codeOfThrow(() => log.setOptions(OPTIONS))).toBe('CLOSED');
      expect(codeOfThrow(() => log.setLogStartOffset(0))).toBe('CLOSED');
      await closing;
      for (const call of [
        log.flush(),
        log.warm(0, 1),
        log.readBatches(0, 1, 1),
        log.scanBatches(0, 1, false),
        log.findBatchByTimestamp(0, 0, 1),
        log.findBatchByMaxTimestamp(0, 1),
        log.rename('/nowhere'),
      ])
        expect(await code(call)).toBe('CLOSED');
      await log.close();
      expect([log.logEndOffset, log.flushedOffset, log.segmentBaseOffsets()]).toEqual([3, 3, []]);
      await engine.close();
      await engine.close();
    });

    it('drops what was staged and not committed', async () => {
      const { engine, log } = await opened();
      const bytes = batch({ maxTimestamp: 1 });
      log.stage(bytes, 0, bytes.length, 0, 0);
      await log.close();
      engine.commit(() => expect.unreachable());
      const again = await engine.open(log.dir, CLEAN);
      expect(again.logEndOffset).toBe(0);
      await engine.close();
    });

    it('rejects bytes that are no batch, and batches larger than a segment', async () => {
      const { engine, log } = await opened();
      const bytes = batch({ maxTimestamp: 1 });
      expect(codeOfThrow(() => log.stage(bytes, 0, 60, 0, 0))).toBe('INVALID_ARGUMENT');
      expect(codeOfThrow(() => log.stage(bytes, 0, 62, 0, 0))).toBe('INVALID_ARGUMENT');
      expect(codeOfThrow(() => log.stage(new Uint8Array(61), 0, 61, 0, 0))).toBe('INVALID_ARGUMENT');
      const large = batch({ maxTimestamp: 1, payload: new Uint8Array(5000) });
      expect(codeOfThrow(() => log.stage(large, 0, large.length, 0, 0))).toBe('BATCH_TOO_LARGE');
      expect(log.logEndOffset).toBe(0);
      await engine.close();
    });
  });
});

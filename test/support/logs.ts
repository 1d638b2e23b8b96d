/** What tests of logs share: options, batches with a right checksum, bytes of a range. */
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll } from 'vitest';
import { jsInspector } from '../../src/log/js-inspector.ts';
import type { Log, LogEngine, OpenOptions, ReadResult } from '../../src/log/log.ts';
import { segmentFileName } from '../../src/log/segment-names.ts';
import { type RawBatchFields, rawBatch } from './batches.ts';

export const OPTIONS: OpenOptions = {
  segmentBytes: 4000,
  segmentMs: 1_000_000,
  indexBytes: 4096,
  indexIntervalBytes: 300,
  logStartOffset: 0,
  recoveryPoint: 0,
  cleanShutdown: false,
  now: 1000,
};

export const CLEAN: OpenOptions = { ...OPTIONS, cleanShutdown: true };

const folders: string[] = [];
// Of the file that imports this: from within a test it would do nothing.
afterAll(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
});

/** A new empty folder, removed when the file's tests are over; in memory where nothing but speed asks for it. */
export function scratch(inMemory = false): string {
  const parent = inMemory && existsSync('/dev/shm') ? '/dev/shm' : tmpdir();
  const folder = mkdtempSync(join(parent, 'broadsheet-log-'));
  folders.push(folder);
  return folder;
}

export function batch(fields: RawBatchFields & { maxTimestamp: number }): Uint8Array {
  const bytes = rawBatch(fields);
  jsInspector.patchBatch(bytes, 0, bytes.length, false, fields.maxTimestamp);
  return bytes;
}

/** Stages and commits one batch; returns its base offset. */
export function append(
  engine: LogEngine,
  log: Log,
  fields: RawBatchFields & { maxTimestamp: number },
  now = 1000,
): number {
  const bytes = batch(fields);
  const { baseOffset } = log.stage(bytes, 0, bytes.length, 7, now);
  engine.commit((_, error) => {
    if (error !== undefined) throw error;
  });
  return baseOffset;
}

/** A closed log in a folder of its own: 100 batches of 111 bytes in segments at 0, 36 and 72. */
export async function closedLog(engine: LogEngine): Promise<string> {
  const dir = join(scratch(), 't-0');
  const log = await engine.open(dir, OPTIONS);
  for (let i = 0; i < 100; i++)
    append(engine, log, { maxTimestamp: 1 + i, payload: new Uint8Array(50).fill(i + 1) });
  await engine.close();
  return dir;
}

/** The bytes of a segment file; the one that holds an offset. */
export function segmentBytes(log: Log, offset: number): Buffer {
  const base = log.segmentBaseOffsets().filter((candidate) => candidate <= offset);
  return readFileSync(join(log.dir, segmentFileName(base[base.length - 1]!, '.log')));
}

/** What read() gives once it is warm. */
export async function readWarm(log: Log, ...args: Parameters<Log['read']>): Promise<ReadResult> {
  for (let attempt = 0; ; attempt++) {
    const result = log.read(...args);
    if (result.kind !== 'cold' || attempt === 3) return result;
    await log.warm(args[0], args[1]);
  }
}

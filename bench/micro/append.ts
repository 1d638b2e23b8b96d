/** The native log's append against a bare loop of pwritev(2) over the same sizes, counts and files. */
import { once } from 'node:events';
import { mkdtempSync, readdirSync, rmSync, truncateSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { performance } from 'node:perf_hooks';
import { NativeEngine } from '../../src/log/native-engine.ts';
import { addon } from '../../src/native.ts';
import { batchOf } from '../batches.ts';
import {
  type Comparison,
  compare,
  compile,
  cpuSecondsOf,
  firstLine,
  LOG_OPTIONS,
  type Measurement,
  type Scale,
  spawnPinned,
} from '../support.ts';

/** As the slab in which a tick's frames lie. */
const MEMORY = 8 << 20;
const FILES = 4;

interface Shape {
  readonly batchBytes: number;
  readonly batchesPerCommit: number;
  /** Checked before they are staged, as Produce does. */
  readonly inspected: boolean;
}

/** Appends `total` bytes to a new log; batches go round in memory, like those that a transport receives. */
async function append(dir: string, memory: Buffer, shape: Shape, total: number): Promise<Measurement> {
  const { batchBytes, batchesPerCommit, inspected } = shape;
  const engine = new NativeEngine();
  const now = Date.now();
  const log = await engine.open(join(dir, 'log'), { ...LOG_OPTIONS, segmentBytes: total / FILES, now });
  const { inspectBatch } = addon();
  const done = (_: unknown, error: Error | undefined) => {
    if (error !== undefined) throw error;
  };
  const slots = Math.floor(MEMORY / batchBytes);
  let slot = 0;
  const start = performance.now();
  const cpu = cpuSecondsOf(process.pid);
  for (let written = 0; written < total; ) {
    for (let i = 0; i < batchesPerCommit; i++, written += batchBytes) {
      const at = slot * batchBytes;
      slot = slot + 1 === slots ? 0 : slot + 1;
      if (inspected) {
        // A producer's batch has base offset 0; the last round gave it another.
        for (let b = at; b < at + 8; b++) memory[b] = 0;
        if (inspectBatch(memory, at, at + batchBytes, batchBytes, -Infinity, Infinity) < 0) {
          throw new Error(addon().lastStatus().context);
        }
      }
      log.stage(memory, at, at + batchBytes, 0, now);
    }
    engine.commit(done);
  }
  const usedCpu = cpuSecondsOf(process.pid) - cpu;
  const seconds = (performance.now() - start) / 1000;
  // What was written is of no use any more: flushing it would only keep the disk busy.
  for (const name of readdirSync(log.dir)) if (name.endsWith('.log')) truncateSync(join(log.dir, name), 0);
  await log.close();
  await engine.close();
  rmSync(log.dir, { recursive: true });
  const mebibytes = total / (1 << 20);
  return { perSecond: mebibytes / seconds, perCpuSecond: mebibytes / usedCpu };
}

async function bare(dir: string, shape: Shape, total: number): Promise<Measurement> {
  const args = [dir, shape.batchBytes, shape.batchesPerCommit, total, total / FILES].map(String);
  const child = spawnPinned('server', compile('write-loop'), args);
  const ended = once(child, 'exit') as Promise<[number | null]>;
  const text = await Promise.race([
    firstLine(child),
    ended.then(([code]) => Promise.reject(new Error(`the write loop ended with ${code}`))),
  ]);
  await ended;
  const [seconds, cpu] = text.split(' ').map(Number) as [number, number];
  const mebibytes = total / (1 << 20);
  return { perSecond: mebibytes / seconds, perCpuSecond: mebibytes / cpu };
}

export async function appends(scale: Scale): Promise<Comparison[]> {
  const dir = mkdtempSync(join(tmpdir(), 'broadsheet-append-'));
  const results: Comparison[] = [];
  for (const [batchBytes, many] of [
    [4096, 64],
    [16_384, 16],
    [65_536, 8],
    [1 << 20, 1],
  ] as const) {
    const memory = Buffer.alloc(MEMORY);
    const batch = batchOf(batchBytes);
    for (let at = 0; at + batchBytes <= MEMORY; at += batchBytes) memory.set(batch, at);
    for (const batchesPerCommit of many === 1 ? [1] : [1, many]) {
      for (const inspected of [false, true]) {
        const shape = { batchBytes, batchesPerCommit, inspected };
        const what = inspected ? 'check and append' : 'append';
        const expected = !inspected && batchBytes >= 16_384 ? 0.8 : undefined;
        results.push(
          await compare(
            `${what}, batches of ${batchBytes / 1024} KiB, ${batchesPerCommit} per write`,
            'MiB/s',
            scale.rounds,
            () => append(dir, memory, shape, scale.bytes),
            () => bare(dir, shape, scale.bytes),
            expected,
          ),
        );
      }
    }
  }
  rmSync(dir, { recursive: true });
  return results;
}

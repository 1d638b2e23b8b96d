/** The cleaner's two engines side by side: the same map, the same records, the same faults, the same files. */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import type { CleanerEngine } from '../../src/log/cleaner-engine.ts';
import { OffsetMap } from '../../src/log/cleaner-map.ts';
import { type CleanJob, cleanSegments } from '../../src/log/cleaner-pass.ts';
import { jsCleaner } from '../../src/log/js-cleaner.ts';
import { nativeCleaner } from '../../src/log/native-cleaner.ts';
import { segmentFileName } from '../../src/log/segment-names.ts';
import type { CompressionName } from '../../src/protocol/compression.ts';
import { BATCH_HEADER_BYTES } from '../../src/protocol/records/batch.ts';
import { BatchBuilder } from '../../src/protocol/records/writer.ts';
import { BroadsheetError } from '../../src/runtime/errors.ts';
import { scratch } from '../support/logs.ts';
import { Random } from '../support/random.ts';
import { scaled } from '../support/scale.ts';

const SEED = Number(process.env.BROADSHEET_SEED ?? 1_204);
const ENGINES = [jsCleaner, nativeCleaner];
const SECRET = Int32Array.of(1, -2, 3, -4);
const CODECS: CompressionName[] = ['none', 'gzip', 'snappy', 'lz4', 'zstd'];

/** A batch of random records; keys of any length, some twice, some missing. */
function batchOf(
  random: Random,
  count: number,
  compression: CompressionName = 'none',
  firstValueBytes = 0,
): Buffer {
  const builder = new BatchBuilder({ compression });
  for (let i = 0; i < count; i++) {
    const key = random.int(9) === 0 ? null : Buffer.alloc(random.int(40), `key-${random.int(60)}`);
    const value =
      random.int(5) === 0 ? null : Buffer.alloc((i === 0 ? firstValueBytes : 0) + random.int(200), 'value');
    builder.append({ timestamp: 1e12 + random.int(1e6), key, value });
  }
  return Buffer.from(builder.build());
}

/** What a call gives, or its fault. */
function outcome<T>(run: () => T): T | string {
  try {
    return run();
  } catch (error) {
    if (!(error instanceof BroadsheetError)) throw error;
    return `${error.code} ${error.message}`;
  }
}

it(`learn and sift alike, damaged records too, BROADSHEET_SEED=${SEED}`, () => {
  const random = new Random(SEED);
  let faults = 0;
  let full = 0;
  let gone = 0;
  for (let round = 0; round < scaled(60, 5_000); round++) {
    const maps = ENGINES.map(() => new OffsetMap(24 * (2 + (round % 97)), 1000, 0.9, SECRET));
    for (let batch = 0; batch < 4; batch++) {
      const count = 1 + random.int(40);
      const bytes = batchOf(random, count);
      const isDamaged = random.int(3) === 0;
      if (isDamaged)
        for (let n = 1 + random.int(3); n > 0; n--)
          bytes[BATCH_HEADER_BYTES + random.int(bytes.length - BATCH_HEADER_BYTES)] = random.int(256);
      const base = batch * 50;
      const call = (what: (engine: CleanerEngine, map: OffsetMap) => unknown) =>
        ENGINES.map((engine, i) => outcome(() => what(engine, maps[i]!)));
      const from = random.int(60);
      const [ours, theirs] = call((engine, map) =>
        engine.learn(map, bytes, BATCH_HEADER_BYTES, bytes.length, count, base, from),
      );
      expect(theirs).toBe(ours);
      if (ours === false) full++;
      if (typeof ours === 'string') {
        faults++;
        break;
      }
      expect(maps[1]!.size).toBe(maps[0]!.size);
      expect(maps[1]!.room).toBe(maps[0]!.room);
      expect(Buffer.compare(maps[1]!.memory, maps[0]!.memory)).toBe(0);
      const upTo = random.int(300) - 20;
      const drops = random.int(2) === 0;
      const [left, right] = call((engine, map) => {
        const into = Buffer.alloc(bytes.length + 9);
        const sifted = engine.sift(
          map,
          bytes,
          BATCH_HEADER_BYTES,
          bytes.length,
          count,
          base - 20,
          upTo,
          drops,
          into,
          7,
        );
        return { ...sifted, copy: into.toString('hex') };
      });
      expect(right).toEqual(left);
      if (typeof left === 'object' && (left as { kept: number }).kept < count) gone++;
    }
  }
  for (const seen of [faults, full, gone]) expect(seen).toBeGreaterThan(0);
});

it('refuse what does not fit their memory', () => {
  const map = new OffsetMap(24 * 10, 10, 1, SECRET);
  expect(map.room).toBe(map.slots - 1);
  const bytes = batchOf(new Random(1), 3);
  const into = Buffer.alloc(bytes.length - BATCH_HEADER_BYTES);
  const sift = (into: Uint8Array, at: number, memory = map.memory) =>
    nativeCleaner.sift(
      Object.assign(Object.create(map) as OffsetMap, { memory }),
      bytes,
      BATCH_HEADER_BYTES,
      bytes.length,
      3,
      0,
      10,
      false,
      into,
      at,
    );
  expect(sift(into, 0).kept).toBeLessThanOrEqual(3);
  for (const run of [
    () => sift(into, 1),
    () => sift(into, into.length + 1),
    () => sift(into, 0, map.memory.subarray(0, 25)),
    () => sift(into, 0, map.memory.subarray(4, 28)),
    () => sift(into, 0, new Uint8Array(0)),
  ])
    expect(outcome(run)).toMatch(/^INVALID_ARGUMENT/);
});

it(`clean to the same files, BROADSHEET_SEED=${SEED}`, async () => {
  const random = new Random(SEED);
  const dir = scratch();
  const segments: CleanJob['segments'][number][] = [];
  let offset = 0;
  for (let segment = 0; segment < 2; segment++) {
    const baseOffset = offset;
    const batches: Buffer[] = [];
    for (let batch = 0; batch < scaled(30, 200); batch++) {
      const count = 1 + random.int(30);
      // Some lie over the borders of what is read at once.
      const large = [0, 400, 1200][batch % 15] ?? 0;
      const bytes = batchOf(random, count, random.pick(CODECS), large << 10);
      bytes.writeBigInt64BE(BigInt(offset));
      batches.push(bytes);
      offset += count;
    }
    const bytes = Buffer.concat(batches);
    writeFileSync(join(dir, segmentFileName(baseOffset, '.log')), bytes);
    segments.push({ baseOffset, endOffset: offset, sizeInBytes: bytes.length, lastModified: 1e12 });
  }
  const left: Record<string, string>[] = [];
  for (const engine of ['js', 'native'] as const) {
    const own = join(dir, engine);
    mkdirSync(own);
    for (const { baseOffset } of segments) {
      const name = segmentFileName(baseOffset, '.log');
      writeFileSync(join(own, name), readFileSync(join(dir, name)));
    }
    const job: CleanJob = {
      engine,
      dir: own,
      segments,
      firstDirtyOffset: 0,
      segmentBytes: 1 << 20,
      indexBytes: 1 << 20,
      indexIntervalBytes: 500,
      now: 2e12,
      deleteRetentionMs: 1000,
      mapBytes: 1 << 20,
      mapLoadFactor: 0.9,
      aborted: [],
      lastRecords: [],
      highWatermark: offset,
      bytesPerSecond: Number.MAX_SAFE_INTEGER,
    };
    const { bytesAfter, bytesBefore } = await cleanSegments(job, () => {});
    expect(bytesAfter).toBeLessThan(bytesBefore);
    const names = readdirSync(own).filter((name) => name.endsWith('.cleaned'));
    expect(names.length).toBeGreaterThanOrEqual(3);
    left.push(Object.fromEntries(names.map((name) => [name, readFileSync(join(own, name), 'hex')])));
  }
  expect(left[1]).toEqual(left[0]);
});

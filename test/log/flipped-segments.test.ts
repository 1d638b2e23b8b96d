/** Every byte of every segment, flipped and cut off: beyond the recovery point the log is cut there, and what was cut is kept; below
 * it the log's end stays, and the batches of other segments and those before the damage are whole. */
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { LEADER_EPOCH_FILE } from '../../src/log/checkpoints.ts';
import { LogCommitter } from '../../src/log/committer.ts';
import { LogManager } from '../../src/log/log-manager.ts';
import type { AppendListener, Partition } from '../../src/log/partition.ts';
import { segmentFileName } from '../../src/log/segment-names.ts';
import { RecordBatch, readBatches } from '../../src/protocol/records/reader.ts';
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
const SAMPLE = 12;
const BATCHES = 12;
const PER_SEGMENT = 4;
const SIZE = 81;
const BASE_OFFSETS = [0, 4, 8];
const silent: AppendListener = { onAppended() {}, onAppendFailed() {} };
const DESCRIPTION = {
  topicId: 'OeXl6uY5Tm2ppr3C3B0cZQ',
  leaderEpoch: 0,
  config: topicConfigForTests({ segmentBytes: PER_SEGMENT * SIZE, indexIntervalBytes: SIZE + 1 }),
};

interface Harm {
  readonly base: number;
  readonly what: string;
  readonly at: number;
  readonly bytes: Buffer;
}

interface Warning {
  readonly bytesTruncated?: number;
  readonly bytes?: number;
  readonly offsets?: number;
  readonly moved?: number;
}

describe.each(ENGINES)('damaged segments, engine=$name', ({ name, make }) => {
  async function withPartition<T>(
    dataDir: string,
    stop: 'clean' | 'killed',
    work: (manager: LogManager, partition: Partition, warnings: Warning[]) => Promise<T>,
  ): Promise<T> {
    const engine = make();
    const warnings: Warning[] = [];
    const manager = await LogManager.open(
      {
        ...{ dataDir, engine, committer: new LogCommitter(engine), clock: new VirtualClock() },
        logger: { ...silentLogger, warn: (fields: object) => void warnings.push(fields) },
        settings: LOG_SETTINGS,
      },
      () => DESCRIPTION,
    );
    try {
      const partition = manager.partition('t', 0) ?? (await manager.create('t', 0, DESCRIPTION));
      return await work(manager, partition, warnings);
    } finally {
      if (stop === 'clean') await manager.close(1);
      await engine.close();
    }
  }

  /** `point`: what is on disk when the recovery points are written. */
  const write = (dataDir: string, point: number, stop: 'clean' | 'killed') =>
    withPartition(dataDir, stop, async (manager, partition) => {
      for (let i = 0; i < BATCHES; i++) {
        const bytes = batch({ maxTimestamp: 1000 + i, payload: new Uint8Array(SIZE - 61).fill(i + 1) });
        expect(bytes.length).toBe(SIZE);
        expect(
          partition.append(bytes, 0, bytes.length, batchInfoOf(bytes, 0), 1000, silent, 0),
        ).toBeUndefined();
        manager.commitTick();
        if (i + 1 !== point) continue;
        await partition.log.flush();
        await manager.checkpointRecoveryPoints();
      }
    });

  /** What a reader finds at each offset: its batch, or what is wrong. */
  async function read({ log }: Partition, original: Buffer): Promise<string[]> {
    const found: string[] = [];
    for (let offset = 0; offset < log.writtenOffset; offset++) {
      const what = await log.readBatches(offset, 1, log.writtenOffset).then(
        (bytes) => {
          const [first] = bytes.length < 61 ? [] : readBatches(bytes);
          if (!(first instanceof RecordBatch)) return 'nothing';
          if (!first.checksOut()) return 'damaged';
          if (first.recordCount === 0 && first.baseOffset <= offset) return 'gone';
          if (first.baseOffset !== offset) return `offset ${first.baseOffset}`;
          const [stored, was] = [Buffer.from(bytes), original.subarray(offset * SIZE, (offset + 1) * SIZE)];
          if (stored.equals(was)) return 'whole';
          return stored.subarray(16).equals(was.subarray(16)) ? 'another epoch' : 'other bytes';
        },
        (error: { code?: string }) => error.code ?? String(error),
      );
      found.push(what);
    }
    return found;
  }

  function* harms(dataDir: string): Generator<Harm> {
    for (const base of BASE_OFFSETS) {
      const bytes = readFileSync(join(dataDir, 't-0', segmentFileName(base, '.log')));
      for (let at = 0; at < bytes.length; at++) {
        yield { base, at, what: `cut at ${at}`, bytes: bytes.subarray(0, at) };
        for (let bit = 0; bit < 8; bit++) {
          const flipped = Buffer.from(bytes);
          flipped[at]! ^= 1 << bit;
          yield { base, at, what: `bit ${bit} of byte ${at} flipped`, bytes: flipped };
        }
      }
    }
  }

  const positionOf = ({ base, at }: Harm) => base * SIZE + at;
  /** No checksum covers it. */
  const isOfEpoch = ({ at, what }: Harm) => what.startsWith('bit') && at % SIZE >= 12 && at % SIZE < 16;
  /** Offset of the batch that is harmed. */
  const harmed = (harm: Harm) => Math.floor(positionOf(harm) / SIZE);

  function expectCut(harm: Harm, found: string[], warnings: Warning[], dir: string, original: Buffer): void {
    const k = harmed(harm);
    expect(found).toEqual(Array(k).fill('whole'));
    const tail = harm.bytes.subarray((k - harm.base) * SIZE);
    const behind = original.subarray((harm.base + PER_SEGMENT) * SIZE);
    // Zeros are what a power cut leaves: they are not kept.
    const lost = Buffer.concat(tail.every((byte) => byte === 0) ? [behind] : [tail, behind]);
    const kept = readdirSync(dir).filter((file) => file.endsWith('.quarantine'));
    expect(Buffer.concat(kept.sort().map((file) => readFileSync(join(dir, file))))).toEqual(lost);
    const bytes = tail.length + behind.length;
    const told = warnings.map(({ bytesTruncated }) => bytesTruncated);
    // Between two batches of the last segment nothing tells of a cut.
    expect(told).toEqual(bytes === 0 ? [] : [bytes]);
  }

  function expectOthersWhole(harm: Harm, found: string[], warnings: Warning[]): void {
    const k = harmed(harm);
    expect(found).toHaveLength(BATCHES);
    const isGone = warnings.some(({ offsets }) => (offsets ?? 0) > 0);
    const isMoved = warnings.some(({ moved }) => moved === 1);
    if (isMoved) expect(harm.at % SIZE).toBeLessThan(8);
    const stored = harm.bytes.subarray((k - harm.base) * SIZE);
    // An offset that leaps over that of the batch behind it.
    const leaps = stored.length >= SIZE && stored.readBigInt64BE() > BigInt(k);
    if (leaps && !isMoved && k % PER_SEGMENT < PER_SEGMENT - 1)
      expect(found[k], `offset ${k}`).toBe('CORRUPT');
    for (const [offset, what] of found.entries()) {
      // Without a sound header the way to the batches behind it is lost.
      const isBehind = offset > k && offset < harm.base + PER_SEGMENT;
      if (offset < k || offset >= harm.base + PER_SEGMENT) expect(what, `offset ${offset}`).toBe('whole');
      // Its offset, which no checksum covers, is written again where it can only have been one.
      else if (!isBehind) expect(what === 'whole', `offset ${offset}`).toBe(isMoved);
      if (what === 'gone') expect(isGone).toBe(true);
    }
  }

  it.each([
    { place: 'beyond', point: 0, stop: 'killed' },
    { place: 'below', point: BATCHES, stop: 'killed' },
    { place: 'below', point: BATCHES, stop: 'clean' },
  ] as const)('$place the recovery point, $stop', { timeout: 3_600_000 }, async ({ place, point, stop }) => {
    const pristine = join(ROOT, `${name}-${place}-${stop}`);
    const work = join(ROOT, `${name}-work`);
    mkdirSync(pristine);
    await write(pristine, point, stop);
    const original = Buffer.concat(
      BASE_OFFSETS.map((base) => readFileSync(join(pristine, 't-0', segmentFileName(base, '.log')))),
    );
    expect(original).toHaveLength(BATCHES * SIZE);
    const cases = [...harms(pristine)];
    const random = new Random(seedOf(`flipped segments, ${name} ${place} ${stop}`, 6));
    const chosen = FULL_SIZE ? cases : Array.from({ length: SAMPLE }, () => random.pick(cases));
    const faults: string[] = [];
    for (const harm of chosen) {
      rmSync(work, { recursive: true, force: true });
      cpSync(pristine, work, { recursive: true });
      const dir = join(work, 't-0');
      writeFileSync(join(dir, segmentFileName(harm.base, '.log')), harm.bytes);
      // The epochs of the whole log are looked at then.
      if (isOfEpoch(harm)) rmSync(join(dir, LEADER_EPOCH_FILE), { force: true });
      await withPartition(work, 'killed', async (_, partition, warnings) => {
        const found = await read(partition, original);
        expect(partition.epochs.entries).toEqual([{ epoch: 0, startOffset: 0 }]);
        if (place === 'beyond') expectCut(harm, found, warnings, dir, original);
        else expectOthersWhole(harm, found, warnings);
      }).catch((error: Error) => faults.push(`${harm.base}: ${harm.what}: ${error.message}`));
    }
    process.stdout.write(`${name} ${place} ${stop}: ${chosen.length} of ${cases.length} damages\n`);
    expect(faults.slice(0, 10)).toEqual([]);
  });
});

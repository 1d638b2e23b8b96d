/** Both engines under the same seeded operations and the same harm: same answers, same files. */
import { describe, expect, it } from 'vitest';
import type { Log, OpenOptions } from '../../src/log/log.ts';
import { EngineTwins } from '../support/engine-twins.ts';
import { ENGINES, type EngineUnderTest } from '../support/engines.ts';
import { OPTIONS } from '../support/logs.ts';
import { Random } from '../support/random.ts';
import { scaled } from '../support/scale.ts';
import { seedOf } from '../support/seed.ts';

const STEPS_PER_LOG = 250;

const SHAPES: readonly OpenOptions[] = [
  { ...OPTIONS, segmentMs: 5000, indexBytes: 10_000 },
  { ...OPTIONS, segmentBytes: 100_000, indexBytes: 200 },
  { ...OPTIONS, segmentBytes: 20_000, indexIntervalBytes: 0 },
];

/** Each log has a seed of its own, so that a failing one can be run alone. */
async function run(engines: readonly EngineUnderTest[], seed: number, logs: number) {
  const sums: Record<string, number> = {};
  for (let i = 0; i < logs; i++) {
    const twins = new EngineTwins(new Random(seed + i), engines, SHAPES[(seed + i) % SHAPES.length]!);
    await twins.begin();
    for (let step = 0; step < STEPS_PER_LOG; step++) {
      try {
        await twins.step();
      } catch (error) {
        (error as Error).message = `BROADSHEET_SEED=${seed + i}, step ${step}: ${(error as Error).message}`;
        throw error;
      }
    }
    await twins.end();
    for (const [name, count] of Object.entries(twins.counts)) sums[name] = (sums[name] ?? 0) + count;
  }
  return sums;
}

describe('both engines', () => {
  it('answer and write the same', async () => {
    const counts = await run(ENGINES, seedOf('engine-twins', 5), scaled(3, 300));
    process.stdout.write(`engine-twins: ${JSON.stringify(counts)}\n`);
    for (const what of ['batches', 'reads', 'openings', 'rebuilt', 'left'])
      expect(counts[what], what).toBeGreaterThan(0);
  });

  it('would be told apart', async () => {
    const [native, js] = ENGINES as [EngineUnderTest, EngineUnderTest];
    // An index entry too few, as if the interval were another.
    const wrong: EngineUnderTest = {
      ...js,
      make: () => {
        const engine = js.make();
        const open = engine.open.bind(engine);
        engine.open = (dir, options): Promise<Log> =>
          open(dir, { ...options, indexIntervalBytes: options.indexIntervalBytes + 100 });
        return engine;
      },
    };
    await expect(run([native, wrong], 5, 1)).rejects.toThrow();
  });
});

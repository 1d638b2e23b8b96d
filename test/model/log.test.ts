import { describe, expect, it } from 'vitest';
import { ENGINES } from '../support/engines.ts';
import { LogModel } from '../support/log-model.ts';
import { OPTIONS } from '../support/logs.ts';
import { Random } from '../support/random.ts';

const STEPS = Number(process.env.BROADSHEET_STEPS ?? 4_000);
const STEPS_PER_LOG = 300;
const SEEDS = process.env.BROADSHEET_SEED === undefined ? [1, 2, 3] : [Number(process.env.BROADSHEET_SEED)];

const SHAPES = {
  'rolling by size and time': {
    options: { ...OPTIONS, segmentMs: 5000, indexBytes: 10_000 },
    predicts: true,
  },
  'rolling by full indexes': {
    options: { ...OPTIONS, segmentBytes: 100_000, indexBytes: 200 },
    predicts: false,
  },
  'few and dense': { options: { ...OPTIONS, segmentBytes: 20_000, indexIntervalBytes: 0 }, predicts: true },
};

describe.each(ENGINES)('model of a log, engine=$name', ({ name, make }) => {
  // What the JS engine reads goes through the pool, a hop each.
  const seeds = name === 'js' ? SEEDS.slice(0, 1) : SEEDS;

  for (const [shape, { options, predicts }] of Object.entries(SHAPES)) {
    for (const seed of seeds) {
      it(`${shape}, BROADSHEET_SEED=${seed}`, async () => {
        const random = new Random(seed);
        let reopens = 0;
        let cuts = 0;
        let exchanges = 0;
        for (let step = 0; step < STEPS; ) {
          // A log that only grows makes the list slow, not the test better.
          const model = new LogModel(make, random, options, predicts);
          await model.begin();
          for (let i = 0; i < STEPS_PER_LOG && step < STEPS; i++, step++) {
            try {
              await model.step();
            } catch (error) {
              (error as Error).message = `BROADSHEET_SEED=${seed}, step ${step}: ${(error as Error).message}`;
              throw error;
            }
          }
          await model.end();
          reopens += model.reopens;
          cuts += model.cuts;
          exchanges += model.exchanges;
        }
        expect(reopens).toBeGreaterThan(0);
        expect(cuts).toBeGreaterThan(0);
        expect(exchanges).toBeGreaterThan(0);
      });
    }
  }
});

/** Seeded runs of joins, leaves, deaths, expiries, commits, failed writes and restarts: BROADSHEET_SEED=n runs one. */
import { describe, expect, it } from 'vitest';
import { KafkaError } from '../../src/protocol/errors.ts';
import { Random } from '../support/random.ts';
import { scaled } from '../support/scale.ts';
import { GROUP, GroupModel } from './group-model.ts';

const RUNS = scaled(60, 2_000);
const STEPS = 300;

async function run(seed: number, lying: boolean): Promise<void> {
  const random = new Random(seed);
  const model = new GroupModel(() => random.unit());
  model.log.lying = lying;
  for (let step = 0; step < STEPS; step++) {
    const { living } = model;
    const any = living[model.random(living.length)];
    const dice = model.random(100);
    if (dice < 8 && living.length < 8) {
      const instance = model.random(3) === 0 ? `i${model.random(3)}` : null;
      // One process per instance: the former is gone when the next one comes.
      for (const client of living) if (instance !== null && client.instanceId === instance) client.die();
      model.add(instance, model.random(2) === 0);
    } else if (dice < 11) any?.die();
    else if (dice < 14) any?.leave();
    else if (dice < 17) any?.rejoin();
    else if (dice < 20) any?.disconnected();
    else if (dice < 23) await model.restart();
    else if (dice < 40) any?.commit(dice < 30);
    await model.turn(model.random(4_000), model.random(30) === 0 ? KafkaError.NOT_COORDINATOR : undefined);
  }
  for (let turn = 0; turn < 300; turn++) await model.turn(1_000);
  model.expectConverged();
  for (const client of model.living) client.die();
  for (let turn = 0; turn < 100; turn++) await model.turn(1_000);
  model.expectConverged();
  expect(model.coordinator.get(GROUP)?.classic?.state ?? 'Empty').toBe('Empty');
  model.coordinator.close();
  expect(model.clock.pendingTimers).toBe(0);
}

describe('a classic group', () => {
  it('gives no partition twice in a generation, and converges', async () => {
    const only = process.env.BROADSHEET_SEED;
    const seeds = only === undefined ? Array.from({ length: RUNS }, (_, n) => n + 1) : [Number(only)];
    for (const seed of seeds) {
      await run(seed, false).catch((error: unknown) => {
        throw new Error(`seed ${seed}: ${(error as Error).message}`, { cause: error });
      });
    }
  }, 1_800_000);

  it('is caught when it answers before its records last', async () => {
    let caught = 0;
    for (let seed = 1; seed <= 30; seed++) {
      await run(seed, true).catch((error: unknown) => {
        if (/owned twice|was committed/.test(String(error))) caught++;
      });
    }
    expect(caught).toBeGreaterThan(0);
  });

  it('stays bounded under 10,000 anonymous joins, old clients and new', async () => {
    const random = new Random(7);
    const model = new GroupModel(() => random.unit());
    const stayer = model.add(null, true);
    for (let turn = 0; turn < 10; turn++) await model.turn(1_000);
    let most = 0;
    for (let i = 0; i < 10_000; i++) {
      const client = model.add(null, i % 2 === 0);
      client.step();
      client.die();
      if (i % 10 === 0) await model.turn(1_000);
      most = Math.max(most, model.coordinator.get(GROUP)!.classic!.members.size);
      model.clients = [stayer];
    }
    // group.max.size of those who came, and as many of the generation before.
    expect(most).toBeLessThanOrEqual(200);
    for (let turn = 0; turn < 400; turn++) await model.turn(1_000);
    model.expectConverged();
  });
});

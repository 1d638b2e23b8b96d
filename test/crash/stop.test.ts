/** A broker that is told to stop while many clients produce: all that it acknowledged, and only whole batches, is there. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Random } from '../support/random.ts';
import { scaled } from '../support/scale.ts';
import { seedOf } from '../support/seed.ts';
import { Victim } from './victim.ts';
import { World } from './world.ts';

const ROUNDS = scaled(2, 10);
/** Each has 5 producers and 2 clients that do other things: more than 50 connections. */
const WORLDS = 8;

let root: string;
let broker: Victim | undefined;

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'broadsheet-stop-'));
});
afterEach(async () => {
  await broker?.kill();
  rmSync(root, { recursive: true, force: true });
});

describe('SIGTERM under load', () => {
  it('loses nothing that was acknowledged, and ends with code 0', async () => {
    const random = new Random(seedOf('stop', 20261202));
    const worlds = Array.from({ length: WORLDS }, (_, n) => new World(random, `w${n}-`));
    broker = new Victim(join(root, 'data'));
    let address = await broker.address();
    for (const world of worlds) await world.createTopics(address);
    for (let round = 0; round < ROUNDS; round++) {
      let over = false;
      const load = worlds.map((world) => world.run(address, () => over));
      await new Promise((resolve) => setTimeout(resolve, 100 + random.int(1000)));
      expect(await broker.signal('SIGTERM'), broker.output).toEqual({ code: 0, signal: null });
      over = true;
      await Promise.all(load);
      broker = new Victim(join(root, 'data'));
      address = await broker.address();
      for (const world of worlds) {
        await world.verify(address, false);
        expect(world.faults, broker.output.slice(-2000)).toEqual([]);
      }
    }
    expect(worlds.reduce((sum, world) => sum + world.acknowledged, 0)).toBeGreaterThan(0);
  });
});

/**
 * A broker under load is killed at random points, also while it starts and while it stops, and started again on the same
 * directory. What was acknowledged is there and whole, offsets are dense, idempotent producers that send again leave no
 * duplicate and go on with their sequence numbers, and topics are there or gone as they were said to be.
 */
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Random } from '../support/random.ts';
import { scaled } from '../support/scale.ts';
import { seedOf } from '../support/seed.ts';
import { lastSegment, tear } from './tear.ts';
import { Victim } from './victim.ts';
import { World } from './world.ts';

const KILLS = scaled(15, 200);
const { BROADSHEET_ENGINE } = process.env;
const ENGINES = BROADSHEET_ENGINE === undefined ? scaled(['native'], ['native', 'js']) : [BROADSHEET_ENGINE];
const CONFIG = {
  'log.flush.offset.checkpoint.interval.ms': '150',
  'log.flush.start.offset.checkpoint.interval.ms': '100',
};

let root: string;
let broker: Victim | undefined;

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'broadsheet-crash-'));
});
afterEach(async () => {
  await broker?.kill();
  rmSync(root, { recursive: true, force: true });
});

const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

class CrashTest {
  readonly dataDir = join(root, 'data');
  readonly random: Random;
  readonly world: World;
  kills = 0;
  readonly killedIn = { load: 0, start: 0, stop: 0 };

  readonly #engine: string | undefined;

  constructor(seed: number, engine: string | undefined = BROADSHEET_ENGINE) {
    this.#engine = engine;
    this.random = new Random(seed);
    this.world = new World(this.random);
  }

  start(): Victim {
    broker = new Victim(this.dataDir, {
      ...CONFIG,
      ...(this.#engine === undefined ? {} : { engine: this.#engine }),
    });
    return broker;
  }

  async kill(where: keyof CrashTest['killedIn']): Promise<void> {
    await broker!.kill();
    this.kills++;
    this.killedIn[where]++;
  }

  /** Some starts are cut short; the one that returns was not. */
  async survive(): Promise<string> {
    while (this.random.int(5) === 0) {
      const starting = this.start();
      await Promise.race([starting.ready, pause(this.random.int(400))]);
      await this.kill('start');
    }
    return await this.start().address();
  }

  /** Load, and its end by one way or the other. */
  async live(address: string): Promise<void> {
    const { random, world } = this;
    let over = false;
    const load = world.run(address, () => over);
    await pause(50 + random.int(900));
    if (random.int(5) === 0) {
      const exited = broker!.signal('SIGTERM');
      // A clean stop that gets so far, or one that is cut short.
      if (random.int(2) === 0) await Promise.race([exited, pause(random.int(60))]);
      else expect(await exited, broker!.output).toEqual({ code: 0, signal: null });
      await this.kill('stop');
    } else {
      await this.kill('load');
    }
    over = true;
    await load;
  }

  /** Sometimes what was not acknowledged, and so perhaps not synced, does not make it to the disk as it was. */
  tearTails(): void {
    if (existsSync(join(this.dataDir, '.kafka_cleanshutdown'))) return;
    for (const { topic, partition, model } of this.world.targets) {
      if (this.random.int(3) === 0)
        tear(
          join(this.dataDir, `${topic}-${partition}`),
          Math.max(model.ackedEnd, model.verified),
          this.random,
        );
    }
  }

  async run(kills: number): Promise<void> {
    const { world } = this;
    await world.createTopics(await this.start().address());
    let address = await broker!.address();
    for (let lives = 1; this.kills < kills || lives === 1; lives++) {
      await this.live(address);
      this.tearTails();
      address = await this.survive();
      await world.verify(address, lives % 10 === 0 || this.kills >= kills);
      expect(world.faults, `after ${this.kills} kills; ${broker!.output.slice(-2000)}`).toEqual([]);
    }
  }
}

describe('a broker that is killed', () => {
  it.each(ENGINES)('loses nothing that it acknowledged, engine=%s', async (engine) => {
    const test = new CrashTest(seedOf('crash', 20261202), engine);
    await test.run(KILLS);
    const { load, start, stop } = test.killedIn;
    process.stdout.write(
      `crash, engine=${engine}: ${test.kills} kills (${load} under load, ${start} in a start, ${stop} in or after a stop), ` +
        `${test.world.acknowledged} records acknowledged\n`,
    );
    expect(test.world.acknowledged).toBeGreaterThan(0);
  });

  it.each(['synced', 'plain'])('is caught when acknowledged records of %s do not survive', async (topic) => {
    const test = new CrashTest(1);
    const { world, dataDir } = test;
    await world.createTopics(await test.start().address());
    let over = false;
    const load = world.run(await broker!.address(), () => over);
    while (world.targets.some(({ model }) => model.ackedEnd < 3)) await pause(5);
    await test.kill('load');
    over = true;
    await load;
    const { partition, model } = world.targets.find((target) => target.topic === topic)!;
    // The canary: the last acknowledged record goes the way that only unacknowledged ones may go.
    const folder = join(dataDir, `${topic}-${partition}`);
    // A segment that was begun at the kill holds nothing that was acknowledged: it goes first.
    for (let last = lastSegment(folder); last !== undefined && last.base > model.ackedEnd - 1; ) {
      rmSync(last.path);
      last = lastSegment(folder);
    }
    const damage = [...Array(20).keys()].map((seed) => tear(folder, model.ackedEnd - 1, new Random(seed)));
    expect(damage.join()).toContain('cut');
    await world.verify(await test.start().address(), false);
    expect(world.faults.join('\n')).toMatch(new RegExp(`${topic}-${partition}: (ends at|.*acknowledged at)`));
  });
});

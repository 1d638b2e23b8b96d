/** Seeded lives of groups of the consumer protocol: BROADSHEET_SEED=n runs one. */
import { describe, expect, it } from 'vitest';
import { KafkaError } from '../../src/protocol/errors.ts';
import { Random } from '../support/random.ts';
import { scaled } from '../support/scale.ts';
import { GROUP, GroupLife, type LifeClient, TURN_MS } from './group-life.ts';
import { ClassicClient } from './life-classic.ts';
import { ConsumerClient, type ConsumerOptions } from './life-consumer.ts';

const RUNS = scaled(20, 2_000);
const STEPS = 250;
/** At full size, on a busy machine. */
const LONGEST_MS = 1_800_000;
const MAX_CLIENTS = 8;
const only = process.env.BROADSHEET_SEED;
const seeds = only === undefined ? Array.from({ length: RUNS }, (_, n) => n + 1) : [Number(only)];

/** How those clients of a life behave that speak the classic protocol. */
type ClassicKind = 'eager' | 'cooperative';

interface Canary {
  /** The log says that records last before they do. */
  readonly lying?: boolean;
  /** Clients say that they gave up what they still read. */
  readonly hasty?: boolean;
}

function subscription(life: GroupLife): ConsumerOptions {
  const topics = ['t0', 't1', 't2', 'u0'].filter(() => life.random(3) > 0);
  if (life.random(4) > 0) return { topics };
  return { pattern: ['t.*', '.*0', 't[12]'][life.random(3)]! };
}

function newcomer(life: GroupLife, canary: Canary, classic: ClassicKind | undefined): LifeClient {
  const instanceId = life.random(3) === 0 ? `i${life.random(3)}` : null;
  // One process per instance: the former is gone when the next one comes.
  for (const client of life.living) if (instanceId !== null && client.instanceId === instanceId) client.die();
  if (classic !== undefined && life.random(2) === 0) {
    const topics = ['t0', 't1', 't2', 'u0'].filter(() => life.random(3) > 0);
    return new ClassicClient(life, { topics, instanceId, cooperative: classic === 'cooperative' });
  }
  const assignor = [null, 'uniform', 'range'][life.random(3)]!;
  return new ConsumerClient(life, {
    ...subscription(life),
    instanceId,
    assignor,
    hasty: canary.hasty ?? false,
  });
}

function changeTopics(life: GroupLife): void {
  const name = ['t0', 't1', 't2', 'u0'][life.random(4)]!;
  life.topic(name, () => {
    if (life.topics.idOf(name) === undefined) life.topics.add(name, 1 + life.random(8));
    else if (life.random(3) === 0) life.topics.delete(name);
    else life.topics.grow(name, 1 + life.random(3));
  });
}

async function run(seed: number, canary: Canary = {}, classic?: ClassicKind): Promise<void> {
  const random = new Random(seed);
  const assignmentIntervalMs = seed % 5 === 0 ? 1_000 : 0;
  const life = new GroupLife(() => random.unit(), { assignmentIntervalMs });
  life.log.lying = canary.lying ?? false;
  for (let i = 0; i < 3; i++) changeTopics(life);
  for (let step = 0; step < STEPS; step++) {
    const { living } = life;
    const any = living[life.random(living.length)];
    const dice = life.random(100);
    if (dice < 8 && living.length < MAX_CLIENTS) life.clients.push(newcomer(life, canary, classic));
    else if (dice < 11) any?.die();
    else if (dice < 14) any?.leave();
    else if (dice < 16) any?.pause(life.random(40_000));
    else if (dice < 20) any?.disconnected();
    else if (dice < 23) await life.restart();
    else if (dice < 26) changeTopics(life);
    else if (dice < 50) any?.commit();
    else if (dice < 60) any?.commitLate();
    const fails = life.random(30) === 0;
    await life.turn(life.random(TURN_MS), fails ? KafkaError.NOT_COORDINATOR : undefined);
  }
  for (let turn = 0; turn < 200; turn++) await life.turn(1_000);
  life.expectConverged();
  // A broker that comes back knows what it knew.
  const { fenced } = life;
  await life.restart();
  for (let turn = 0; turn < 50; turn++) await life.turn(1_000);
  life.expectConverged();
  expect(life.fenced).toBe(fenced);
  for (const client of life.living) client.die();
  for (let turn = 0; turn < 60; turn++) await life.turn(1_000);
  life.expectConverged();
  life.coordinator.close();
  expect(life.clock.pendingTimers).toBe(0);
}

async function caught(canary: Canary, rule: RegExp): Promise<number> {
  let count = 0;
  for (let seed = 1; seed <= 30; seed++) {
    await run(seed, canary).catch((error: unknown) => {
      if (rule.test(String(error))) count++;
    });
  }
  return count;
}

async function runAll(classic?: ClassicKind): Promise<void> {
  for (const seed of seeds) {
    await run(seed, {}, classic).catch((error: unknown) => {
      throw new Error(`seed ${seed}: ${(error as Error).message}`, { cause: error });
    });
  }
}

describe('a group of both protocols', () => {
  it(
    'lets no two clients own a partition at once, and converges, with eager classic clients',
    () => runAll('eager'),
    LONGEST_MS,
  );

  it(
    'lets no two clients own a partition at once, and converges, with cooperative classic clients',
    () => runAll('cooperative'),
    LONGEST_MS,
  );
});

describe('a group of the consumer protocol', () => {
  it('lets no two clients own a partition at once, and converges', () => runAll(), LONGEST_MS);

  it('is caught when it answers before its records last', async () => {
    expect(await caught({ lying: true }, /owned twice|was committed/)).toBeGreaterThan(0);
  });

  it('is caught when partitions move on before they are given up', async () => {
    expect(await caught({ hasty: true }, /owned twice/)).toBeGreaterThan(0);
  });

  it('stays bounded under 10,000 anonymous joins', async () => {
    const random = new Random(7);
    const life = new GroupLife(() => random.unit());
    life.topic('t0', () => life.topics.add('t0', 8));
    const stayer = new ConsumerClient(life, { topics: ['t0'] });
    life.clients = [stayer];
    for (let turn = 0; turn < 10; turn++) await life.turn(1_000);
    let most = 0;
    for (let i = 0; i < 10_000; i++) {
      const client = new ConsumerClient(life, { topics: ['t0'] });
      client.step();
      client.die();
      if (i % 10 === 0) await life.turn(1_000);
      most = Math.max(most, life.coordinator.get(GROUP)!.consumer!.members.size);
    }
    expect(most).toBeLessThanOrEqual(100);
    for (let turn = 0; turn < 60; turn++) await life.turn(1_000);
    life.expectConverged();
    life.coordinator.close();
    expect(life.clock.pendingTimers).toBe(0);
  });
});

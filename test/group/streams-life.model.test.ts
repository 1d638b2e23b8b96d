/** Seeded lives of streams groups: BROADSHEET_SEED=n runs one. */
import { describe, expect, it } from 'vitest';
import { KafkaError } from '../../src/protocol/errors.ts';
import { Random } from '../support/random.ts';
import { scaled } from '../support/scale.ts';
import { TURN_MS } from './group-life.ts';
import { StreamsClient, StreamsLife } from './life-streams.ts';

const RUNS = scaled(8, 1_000);
const STEPS = 200;
/** At full size, on a busy machine. */
const LONGEST_MS = 1_800_000;
const MAX_CLIENTS = 7;
const only = process.env.BROADSHEET_SEED;
const seeds = only === undefined ? Array.from({ length: RUNS }, (_, n) => n + 1) : [Number(only)];

interface Canary {
  /** Clients say that they gave up what they still process. */
  readonly hasty?: boolean;
}

function newcomer(life: StreamsLife, { hasty = false }: Canary): StreamsClient {
  const instanceId = life.random(3) === 0 ? `i${life.random(3)}` : null;
  // One process per instance: the former is gone when the next one comes.
  for (const client of life.living) if (instanceId !== null && client.instanceId === instanceId) client.die();
  return new StreamsClient(life, { instanceId, processId: `p${life.random(4)}`, hasty });
}

/** Topics of the topology come and go, internal ones too; sources come back with any number of partitions. */
function changeTopics(life: StreamsLife): void {
  const name = ['t0', 't1', 'c1', 'r'][life.random(4)]!;
  life.topic(name, () => {
    if (life.topics.idOf(name) !== undefined) life.topics.delete(name);
    else if (name.startsWith('t')) life.topics.add(name, 1 + life.random(4));
  });
}

async function run(seed: number, canary: Canary = {}): Promise<void> {
  const random = new Random(seed);
  const life = new StreamsLife(() => random.unit(), {
    standbyReplicas: seed % 3,
    assignmentIntervalMs: seed % 5 === 0 ? 1_000 : 0,
  });
  for (const name of ['t0', 't1']) life.topic(name, () => life.topics.add(name, 2 + life.random(3)));
  for (let step = 0; step < STEPS; step++) {
    const { living } = life;
    const any = living[life.random(living.length)];
    const dice = life.random(100);
    if (dice < 10 && living.length < MAX_CLIENTS) life.clients.push(newcomer(life, canary));
    else if (dice < 14) any?.die();
    else if (dice < 18) any?.leave();
    else if (dice < 21) any?.pause(life.random(40_000));
    else if (dice < 26) any?.disconnected();
    else if (dice < 29) await life.restart();
    else if (dice < 31) changeTopics(life);
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
  await life.coordinator.close();
  expect(life.clock.pendingTimers).toBe(0);
}

/** Whether one of some lives breaks the rule. */
async function caught(canary: Canary, rule: RegExp): Promise<boolean> {
  for (let seed = 1; seed <= 40; seed++) {
    const error = await run(seed, canary).catch((thrown: unknown) => String(thrown));
    if (rule.test(error ?? '')) return true;
  }
  return false;
}

describe('a streams group', () => {
  it(
    'lets no task be processed twice at once, nor be twice in a process, and converges',
    async () => {
      for (const seed of seeds) {
        await run(seed).catch((error: unknown) => {
          throw new Error(`seed ${seed}: ${(error as Error).message}`, { cause: error });
        });
      }
    },
    LONGEST_MS,
  );

  it('is caught when tasks move on before they are given up', async () => {
    expect(await caught({ hasty: true }, /owned twice/)).toBe(true);
  });
});

/** A broker is killed again and again while consumers commit and administrators change things: whatever was acknowledged is there
 * after the restart, and nothing is as it was before. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { Random } from '../support/random.ts';
import { scaled } from '../support/scale.ts';
import { seedOf } from '../support/seed.ts';
import { KILLED, Ratchets } from './ratchets.ts';
import { Victim } from './victim.ts';

const KILLS = scaled(5, 200);

let root: string;
let broker: Victim | undefined;

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'broadsheet-ratchets-'));
});
afterEach(async () => {
  await broker?.kill();
  rmSync(root, { recursive: true, force: true });
});

const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

function start(): Victim {
  broker = new Victim(join(root, 'data'), { 'offsets.topic.num.partitions': '3' });
  return broker;
}

/** Load until the broker is killed. */
async function live(ratchets: Ratchets, address: string, ms: number): Promise<void> {
  let end!: (killed: typeof KILLED) => void;
  const load = ratchets.run(
    address,
    new Promise((resolve) => {
      end = resolve;
    }),
  );
  await pause(ms);
  while (ratchets.all.some(({ raised }) => raised === 0) && ratchets.faults.length === 0) await pause(20);
  await broker!.kill();
  end(KILLED);
  await load;
}

it('keeps what consumers and administrators were told', async () => {
  const random = new Random(seedOf('ratchets', 20261202));
  let address = await start().address();
  const ratchets = await Ratchets.create(address);
  for (let kills = 1; kills <= KILLS; kills++) {
    await live(ratchets, address, 50 + random.int(400));
    for (; random.int(5) === 0; kills++) {
      await Promise.race([start().ready, pause(random.int(400))]);
      await broker!.kill();
    }
    address = await start().address();
    await ratchets.verify(address);
    expect(ratchets.faults, `after ${kills} kills; ${broker!.output.slice(-2000)}`).toEqual([]);
  }
  const raised = ratchets.all.map(({ name, raised }) => `${name} ${raised}`);
  process.stdout.write(`ratchets: ${KILLS} kills; raised ${raised.join(', ')}\n`);
  for (const ratchet of ratchets.all) expect(ratchet.raised, ratchet.name).toBeGreaterThan(0);
});

it('is caught when something is forgotten', async () => {
  const ratchets = await Ratchets.create(await start().address());
  await live(ratchets, await broker!.address(), 400);
  // The canary: more was acknowledged than was ever asked for.
  for (const ratchet of ratchets.all) {
    ratchet.acked += 2;
    ratchet.asked = ratchet.acked;
  }
  await ratchets.verify(await start().address());
  const named = ratchets.all.filter(({ name }) => ratchets.faults.some((fault) => fault.startsWith(name)));
  expect(named.map(({ name }) => name)).toEqual(ratchets.all.map(({ name }) => name));
});

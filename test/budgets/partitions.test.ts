/** Many partitions and many brokers in one process, by an ordinary user's limits: descriptors and mappings. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Client } from '../../src/client/client.ts';
import { SOME_COMBINATIONS } from '../support/combinations.ts';
import { Probed } from '../support/probed.ts';
import { scaled } from '../support/scale.ts';

const NOFILE = 1024;
const PER_TOPIC = 100;

let dir: string;
let probed: Probed | undefined;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'broadsheet-budgets-'));
});
afterEach(async () => {
  await probed?.kill();
  rmSync(dir, { recursive: true, force: true });
}, 600_000);

const topic = (n: number) => `t${n}`;

async function withClient<T>(address: string, use: (client: Client) => Promise<T>): Promise<T> {
  const client = await Client.connect(address);
  try {
    return await use(client);
  } finally {
    await client.close();
  }
}

/** Every partition in turn, a few at a time. */
async function each(
  count: number,
  what: (topicName: string, partition: number) => Promise<void>,
): Promise<void> {
  for (let at = 0; at < count; at += 20) {
    const some = Array.from({ length: Math.min(20, count - at) }, (_, i) => at + i);
    await Promise.all(some.map((n) => what(topic(Math.floor(n / PER_TOPIC)), n % PER_TOPIC)));
  }
}

async function create(address: string, count: number): Promise<void> {
  await withClient(address, async (client) => {
    for (let at = 0; at < count; at += PER_TOPIC) {
      const partitions = Math.min(PER_TOPIC, count - at);
      await client.createTopics([{ name: topic(at / PER_TOPIC), partitions }]);
    }
  });
}

/** One record more in each. */
function fill(address: string, count: number, value: string): Promise<void> {
  return withClient(address, (client) =>
    each(count, async (name, partition) => {
      await client.produce(name, partition, [{ timestamp: Date.now(), value }]);
    }),
  );
}

function expectIn(address: string, count: number, values: readonly string[]): Promise<void> {
  return withClient(address, (client) =>
    each(count, async (name, partition) => {
      const { records } = await client.fetch(name, partition, 0);
      const found = records.map((record) => Buffer.from(record.value ?? []).toString());
      if (found.join() !== values.join()) throw new Error(`${name}-${partition} holds ${found.join()}`);
    }),
  );
}

describe.each(SOME_COMBINATIONS)('$title', ({ engine, transport }) => {
  const partitions = scaled(engine === 'js' ? 200 : 1_000, 1_000);

  it(`serves ${partitions} partitions with 1,024 descriptors, also after SIGKILL`, async () => {
    const start = () => Probed.start({ dir, engine, transport, shell: `ulimit -n ${NOFILE}` });
    probed = await start();
    await create(probed.address, partitions);
    await fill(probed.address, partitions, 'a');
    await expectIn(probed.address, partitions, ['a']);
    expect((await probed.probe()).descriptors).toBeLessThan(NOFILE);
    expect(probed.log).toBe('');
    await probed.kill();
    probed = await start();
    await fill(probed.address, partitions, 'b');
    await expectIn(probed.address, partitions, ['a', 'b']);
    expect(probed.log).toBe('');
    await probed.stop();
  });

  const brokers = scaled(engine === 'js' ? 16 : 4, 16);

  it(`runs ${brokers} brokers of 64 partitions each in one process with 1,024 descriptors`, async () => {
    probed = await Probed.start({ dir, brokers, engine, transport, shell: `ulimit -n ${NOFILE}` });
    const { addresses } = probed;
    await Promise.all(addresses.map((address) => create(address, 64)));
    for (const value of ['a', 'b']) await Promise.all(addresses.map((address) => fill(address, 64, value)));
    await Promise.all(addresses.map((address) => expectIn(address, 64, ['a', 'b'])));
    expect((await probed.probe()).descriptors).toBeLessThan(NOFILE);
    expect(probed.log).toBe('');
    await probed.stop();
  });
});

// What 1,000 need was seen above.
it.each(scaled([], [10_000]))('serves %i partitions under the default vm.max_map_count', async (count) => {
  const allowed = Number(readFileSync('/proc/sys/vm/max_map_count', 'utf8'));
  probed = await Probed.start({ dir });
  await create(probed.address, count);
  await fill(probed.address, count, 'a');
  await expectIn(probed.address, count, ['a']);
  const { mappings, descriptors, rss } = await probed.probe();
  process.stdout.write(
    `${count} partitions: ${mappings} mappings, ${descriptors} descriptors, ${rss >> 20} MiB\n`,
  );
  expect(mappings).toBeLessThan(Math.min(allowed, 65_530) / 2);
  expect(probed.log).toBe('');
  await probed.stop();
  probed = await Probed.start({ dir });
  await expectIn(probed.address, count, ['a']);
  await probed.stop();
});

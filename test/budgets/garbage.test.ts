/** Nothing is made for each record that is produced or fetched: batches of a thousand leave no more garbage than batches of one. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Client } from '../../src/client/client.ts';
import { SOME_COMBINATIONS } from '../support/combinations.ts';
import { Probed } from '../support/probed.ts';
import { scaled } from '../support/scale.ts';

const MANY = 1_000;
const REQUESTS = scaled(300, 3_000);

let dir: string;
let probed: Probed;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'broadsheet-budgets-'));
});
afterEach(async () => {
  await probed.kill();
  rmSync(dir, { recursive: true, force: true });
});

describe.each(SOME_COMBINATIONS)('$title', ({ engine, transport }) => {
  it('makes nothing for each record', async () => {
    probed = await Probed.start({ dir, engine, transport });
    const client = await Client.connect(probed.address);
    await client.createTopics([1, MANY].map((records) => ({ name: `of-${records}`, partitions: 1 })));
    /** Bytes of heap that one request of each kind allocates. */
    const measure = async (records: number) => {
      const topic = `of-${records}`;
      const batch = Array.from({ length: records }, () => ({ timestamp: Date.now(), value: 'broadsheet' }));
      const produce = () => client.produce(topic, 0, batch);
      const fetch = () => client.fetch(topic, 0, 0, { maxBytes: 100 });
      const costs: number[] = [];
      for (const request of [produce, fetch]) {
        for (let n = 0; n < REQUESTS; n++) await request();
        await probed.probe();
        for (let n = 0; n < REQUESTS; n++) await request();
        costs.push((await probed.probe()).allocated / REQUESTS);
      }
      return costs as [produce: number, fetch: number];
    };
    await measure(1);
    const one = await measure(1);
    const many = await measure(MANY);
    process.stdout.write(
      `${engine}/${transport}: bytes of heap a request, to produce and to fetch: ` +
        `${one.map(Math.round).join(', ')} with one record, ${many.map(Math.round).join(', ')} with ${MANY}\n`,
    );
    // A number that needs a box is 16 bytes; the JS engine has one per produced record, and no object.
    expect((many[0] - one[0]) / MANY).toBeLessThan(engine === 'js' ? 24 : 8);
    expect((many[1] - one[1]) / MANY).toBeLessThan(8);
    await client.close();
    await probed.stop();
  });
});

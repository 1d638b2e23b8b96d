/** A broker at full produce, fetch and roll: memory, descriptors and mappings stay where they are. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Client } from '../../src/client/client.ts';
import { COMBINATIONS } from '../support/combinations.ts';
import { Probed, type Snapshot } from '../support/probed.ts';
import { scaled } from '../support/scale.ts';

const MIB = 1 << 20;
const SECONDS = scaled(12, 30 * 60);
/** Between two snapshots, and the life of a topic: what is written is deleted with it. */
const SAMPLE_SECONDS = scaled(0.5, 5);
const TOPIC_SECONDS = scaled(2, 10);
const PARTITIONS = 4;
const VALUE = Buffer.alloc(100_000, 'v');

let dir: string;
let probed: Probed;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'broadsheet-budgets-'));
});
afterEach(async () => {
  await probed.kill();
  rmSync(dir, { recursive: true, force: true });
}, 600_000);

interface Run {
  over: boolean;
  bytes: number;
  read: number;
}

/** Produces to a partition of the topic of the hour and reads behind itself. */
async function work(address: string, partition: number, topicOf: () => string, run: Run): Promise<void> {
  const client = await Client.connect(address);
  const records = Array.from({ length: 8 }, () => ({ timestamp: Date.now(), value: VALUE }));
  while (!run.over) {
    const topic = topicOf();
    const taken = await client.produce(topic, partition, records);
    run.bytes += records.length * VALUE.length;
    run.read += (await client.fetch(topic, partition, taken!.baseOffset)).records.length;
  }
  await client.close();
}

function median(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[values.length >> 1]!;
}

describe.each(scaled(COMBINATIONS.slice(0, 1), COMBINATIONS))('$title', ({ engine, transport }) => {
  it(`holds what it held after ${SECONDS} seconds`, { timeout: (SECONDS + 120) * 1000 }, async () => {
    // Every other batch begins a segment.
    const config = { 'log.segment.bytes': String(2 * MIB), 'log.segment.delete.delay.ms': '100' };
    probed = await Probed.start({ dir, engine, transport, config });
    const admin = await Client.connect(probed.address);
    await admin.metadata([]);
    const before = await probed.probe();
    const run: Run = { over: false, bytes: 0, read: 0 };
    let current = 0;
    const create = (n: number) => admin.createTopics([{ name: `t${n}`, partitions: PARTITIONS }]);
    await create(0);
    const workers = Array.from({ length: PARTITIONS }, (_, n) =>
      work(probed.address, n, () => `t${current}`, run),
    );
    const failed = Promise.all(workers);
    failed.catch(() => {});
    const samples: Snapshot[] = [];
    const began = performance.now();
    let nextTopic = TOPIC_SECONDS;
    for (let second = 0; second < SECONDS; second = (performance.now() - began) / 1000) {
      await Promise.race([sleep(SAMPLE_SECONDS * 1000), failed]);
      samples.push(await probed.probe());
      if (second < nextTopic) continue;
      nextTopic += TOPIC_SECONDS;
      await create(current + 1);
      current++;
      // The one before has no request under way any more.
      if (current >= 2) await admin.deleteTopics([`t${current - 2}`]);
    }
    run.over = true;
    await failed;
    // Files of the topics that are there are open, as many as the rate of rolling makes. Without topics none is.
    await admin.deleteTopics([`t${current - 1}`, `t${current}`]);
    let after = await probed.probe();
    while (after.descriptors > before.descriptors + PARTITIONS + 4) {
      await sleep(100);
      after = await probed.probe();
    }
    await admin.close();
    expect(probed.log).toBe('');
    const third = Math.floor(samples.length / 3);
    const of = (what: 'rss' | 'heapUsed' | 'descriptors' | 'mappings', from: number) =>
      median(samples.slice(from, from + third).map((sample) => sample[what]));
    const held = (from: number) => ({
      rss: of('rss', from),
      heapUsed: of('heapUsed', from),
      descriptors: of('descriptors', from),
      mappings: of('mappings', from),
    });
    const [early, late] = [held(third), held(2 * third)];
    process.stdout.write(
      `${engine}/${transport}, ${SECONDS} s: ${Math.round(run.bytes / SECONDS / MIB)} MiB/s in, as much out, ` +
        `${Math.round(run.bytes / 1.6 / MIB)} segments; ${JSON.stringify({ early, late })}, ` +
        `descriptors before and after: ${before.descriptors}, ${after.descriptors}\n`,
    );
    expect(run.read).toBeGreaterThan(0);
    expect(late.rss - early.rss).toBeLessThan(scaled(48, 24) * MIB);
    expect(late.heapUsed - early.heapUsed).toBeLessThan(16 * MIB);
    expect(late.mappings - early.mappings).toBeLessThan(200);
    await probed.stop();
  });
});

/**
 * Damaged files between two lives of a broker. What can be made again is made again and no record is missed; a damaged
 * segment keeps the records before the damage; without its identity or its metadata a broker may refuse to start, with an
 * error that names the file, and deletes nothing.
 */
import { cpSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { Client } from '../../src/client/client.ts';
import { createBroker } from '../../src/index.ts';
import { LeaderEpochs } from '../../src/log/leader-epochs.ts';
import { recordOf } from '../crash/content.ts';
import { Random } from '../support/random.ts';
import { scaled } from '../support/scale.ts';
import { seedOf } from '../support/seed.ts';
import { until } from '../support/sockets.ts';
import { DiskFuzzer, type PartitionFacts, streamOf } from './disk-fuzzer.ts';

const ROUNDS = scaled(12, 1000);
const PARTITIONS = [
  { topic: 'small', partition: 0 },
  { topic: 'small', partition: 1 },
  { topic: 'synced', partition: 0 },
];

let root: string;
const counts = { clean: [0, 0, 0], killed: [0, 0, 0] };

/** Leaves two directories: one of a clean stop, and one as a kill leaves it, with records past the recovery point. */
beforeAll(async () => {
  root = mkdtempSync(join(tmpdir(), 'broadsheet-disk-'));
  const dataDir = join(root, 'clean');
  const broker = await createBroker({
    dataDir,
    host: '127.0.0.1',
    port: 0,
    config: { 'log.flush.offset.checkpoint.interval.ms': '50' },
  });
  const client = await Client.connect(broker.bootstrapServers);
  const small = { 'internal.segment.bytes': '30000', 'index.interval.bytes': '1000' };
  await client.createTopics([
    { name: 'small', partitions: 2, configs: small },
    { name: 'synced', configs: { 'flush.messages': '1' } },
  ]);
  const producer = await client.initProducerId();
  const random = new Random(1);
  const sent = [0, 0, 0];
  const produce = async (batches: number) => {
    for (let i = 0; i < batches; i++) {
      for (const [at, each] of PARTITIONS.entries()) {
        const first = sent[at]!;
        const records = Array.from({ length: 1 + random.int(5) }, (_, k) =>
          recordOf(streamOf(each), first + k),
        );
        const options = each.partition === 0 ? { ...producer, baseSequence: first } : {};
        await client.produce(each.topic, each.partition, records, options);
        sent[at]! += records.length;
      }
    }
  };
  await produce(60);
  const recovery = () => readFileSync(join(dataDir, 'recovery-point-offset-checkpoint'), 'utf8');
  await until(() => recovery().includes(`small 0 ${sent[0]}`));
  await produce(10);
  // A file that is just being replaced has a name for a moment only, and a socket is no file.
  const filter = (path: string) => !/\.(tmp|sock)$/.test(path);
  cpSync(dataDir, join(root, 'killed'), { recursive: true, filter });
  counts.killed = [...sent];
  await produce(5);
  counts.clean = [...sent];
  await client.close();
  await broker.close();
});
afterEach(() => {
  vi.restoreAllMocks();
});
afterAll(() => rmSync(root, { recursive: true, force: true }));

async function fuzz(state: keyof typeof counts, seed: number, rounds: number, most = 5): Promise<string[]> {
  const facts = PARTITIONS.map((each, at): PartitionFacts => ({ ...each, count: counts[state][at]! }));
  const fuzzer = new DiskFuzzer(join(root, state), join(root, 'work'), facts, new Random(seed));
  const faults: string[] = [];
  for (let round = 0; round < rounds && faults.length < most; round++) {
    const fault = await fuzzer.round();
    if (fault !== undefined) faults.push(`round ${round}: ${fault}`);
  }
  return faults;
}

describe('a damaged directory', () => {
  it.each(['clean', 'killed'] as const)('of a %s broker', { timeout: 3_600_000 }, async (state) => {
    expect(await fuzz(state, seedOf(`disk, ${state}`, 20261202), ROUNDS)).toEqual([]);
  });

  it('gives a canary away: a checkpoint that is believed', async () => {
    const parse = LeaderEpochs.parse;
    vi.spyOn(LeaderEpochs, 'parse').mockImplementation((text) => {
      if (!text.endsWith('\n')) throw new TypeError('nobody expected this');
      return parse(text);
    });
    expect((await fuzz('clean', 3, 200, 1)).join()).toContain('nobody expected this');
  });
});

/** Apache Kafka starts on a backup that was taken of this broker under load. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { Client } from '../../src/client/client.ts';
import { PARTITIONS, TOPIC, Transactor } from '../crash/transactor.ts';
import { BrokerProcess } from '../support/broker-process.ts';
import { cli } from '../support/cli.ts';
import { KafkaPeer, kafkaPort } from '../support/kafka-peer.ts';
import { ProducerLoad, readContent } from '../support/producer-load.ts';
import { Random } from '../support/random.ts';

const dir = mkdtempSync(join(tmpdir(), 'broadsheet-backup-kafka-'));
const kafka = new KafkaPeer(dir, kafkaPort());
const PLAIN = { name: 'plain', partitions: 3 };
let broker: BrokerProcess | undefined;

afterAll(async () => {
  await broker?.kill();
  await kafka.dispose();
  rmSync(dir, { recursive: true, force: true });
});

it('opens a backup: all that was acknowledged before, prefixes of what came, whole transactions', async () => {
  const ours = join(dir, 'ours');
  broker = await BrokerProcess.start(ours);
  const { address } = broker;
  const setup = await Client.connect(address);
  const small = { 'internal.segment.bytes': '150000' };
  await setup.createTopics(
    [PLAIN, { name: TOPIC, partitions: PARTITIONS }].map((each) => ({ ...each, configs: small })),
  );
  await setup.close();
  const load = new ProducerLoad([PLAIN], 2, 77);
  const transactor = new Transactor('t', true, new Random(77));
  let over = false;
  const transacting = transactor.run(address, () => over);
  await load.run(address, 30);
  const producing = load.run(address, 30);
  const before = load.acknowledgedRecords;
  const committedBefore = transactor.count('committed');
  expect(committedBefore).toBeGreaterThan(0);
  expect(await cli(['backup', ours, kafka.dataDir])).toMatchObject({ code: 0, stderr: '' });
  await producing;
  over = true;
  await transacting;
  expect(transactor.faults).toEqual([]);
  await broker.kill();

  await kafka.start();
  await kafka.untilLeading([
    ['plain', 0],
    ['plain', 1],
    ['plain', 2],
    ...[0, 1, 2].map((i) => [TOPIC, i] as const),
  ]);
  const client = await Client.connect(kafka.address);
  // Kafka loads its coordinators behind its start.
  const isLoading = (error: unknown) => /COORDINATOR/.test((error as Error).message);
  for (let taken = false; !taken; ) {
    taken = await transactor.take(client).then(
      () => true,
      (error: unknown) => {
        if (!isLoading(error)) throw error;
        return new Promise<false>((resolve) => setTimeout(() => resolve(false), 100));
      },
    );
  }
  const content = await readContent(kafka.address, [PLAIN]);
  let count = 0;
  for (const [name, { records }] of content) {
    for (const [offset, hash] of records) {
      expect(hash, `${name} ${offset}`).toBe(load.acknowledged.get(name)?.get(offset));
      count++;
    }
  }
  expect(count).toBeGreaterThanOrEqual(before);
  const shown: string[][] = [];
  for (let partition = 0; partition < PARTITIONS; partition++) {
    const values: string[] = [];
    for await (const { value } of client.records(TOPIC, partition, 0, { committedOnly: true }))
      values.push(Buffer.from(value!).toString());
    shown.push(values);
  }
  // A prefix of what was committed, the same one in every partition.
  const committed = transactor.transactions.filter(({ outcome }) => outcome === 'committed');
  const upTo = (n: number) =>
    shown.map((_, partition) => committed.slice(0, n).flatMap(({ values }) => values[partition]!));
  const possible = committed.map((_, n) => JSON.stringify(upTo(n + 1)));
  expect(possible.indexOf(JSON.stringify(shown))).toBeGreaterThanOrEqual(committedBefore - 1);
  await client.close();
});

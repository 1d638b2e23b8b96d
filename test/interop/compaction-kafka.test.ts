/** Apache Kafka's log cleaner and ours, each on a copy of one directory, leave the same records at the same offsets. */
import { execFileSync } from 'node:child_process';
import { cpSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { Client, EARLIEST, LATEST } from '../../src/client/client.ts';
import { createBroker } from '../../src/index.ts';
import { BrokerProcess } from '../support/broker-process.ts';
import { KafkaPeer, kafkaPort, PROTOCOL } from '../support/kafka-peer.ts';
import { Random } from '../support/random.ts';
import { FULL_SIZE, scaled } from '../support/scale.ts';
import { cleanedOffsets, storedBatches } from '../support/stored-batches.ts';
import { CODECS, TransactionalLoad } from '../support/transactional-load.ts';

const TOPIC = 'compacted';
const SEED = Number(process.env.BROADSHEET_SEED ?? 20_261);
const BATCHES = scaled(600, 6_000);
const TRANSACTIONAL = 'transactional';
const TRANSACTIONAL_TURNS = scaled(300, 2_000);
/** Of every record: two fills leave the same bytes. */
const TIME = Date.now();
const OFF = { 'log.cleaner.enable': 'false' };
const EAGER = { 'log.cleaner.backoff.ms': '100', 'log.cleaner.min.cleanable.ratio': '0.0001' };

let dir: string;
let kafka: KafkaPeer;
let ours: BrokerProcess | undefined;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'broadsheet-compaction-'));
  kafka = new KafkaPeer(dir, kafkaPort());
});
afterEach(async () => {
  await ours?.kill();
  await kafka.dispose();
  rmSync(dir, { recursive: true, force: true });
});

async function fill(address: string): Promise<void> {
  const random = new Random(SEED);
  const client = await Client.connect(address);
  const configs = { 'cleanup.policy': 'compact', 'segment.bytes': '1048576', 'index.interval.bytes': '1024' };
  await client.createTopics([{ name: TOPIC, partitions: 1, configs }]);
  const { producerId, producerEpoch } = await client.initProducerId();
  let baseSequence = 0;
  for (let i = 0; i < BATCHES; i++) {
    const records = Array.from({ length: 1 + random.int(30) }, () => ({
      timestamp: Date.now() - random.int(100_000),
      key: `key-${random.int(500)}`,
      value: random.int(8) === 0 ? null : `${i} ${random.int(1 << 30)} `.repeat(1 + random.int(60)),
      headers: random.int(4) === 0 ? [{ key: 'h', value: String(i) }] : [],
    }));
    const compression = random.pick(CODECS);
    const sequenced = random.int(2) === 0;
    const fields = sequenced ? { producerId, producerEpoch, baseSequence } : {};
    await client.produce(TOPIC, 0, records, { compression, ...fields });
    if (sequenced) baseSequence += records.length;
  }
  await client.close();
}

const text = (bytes: Uint8Array | null) => (bytes === null ? null : Buffer.from(bytes).toString());

/** All that a consumer sees of a topic, and where it ends for it. */
async function content(address: string, topic = TOPIC, committedOnly = false): Promise<unknown[]> {
  const client = await Client.connect(address);
  const seen: unknown[] = [(await client.listOffset(topic, 0, LATEST, committedOnly)).offset];
  const records = client.records(topic, 0, 0, { committedOnly });
  for await (const { offset, timestamp, key, value, headers } of records)
    seen.push([
      offset,
      timestamp,
      text(key),
      text(value),
      headers.map((each) => [each.key, text(each.value)]),
    ]);
  await client.close();
  return seen;
}

/** Waits until the cleaner has noted that it stopped somewhere past an offset. */
async function cleanedTo(dataDir: string, topic = TOPIC, past = -1): Promise<number> {
  for (;;) {
    const offset = cleanedOffsets(dataDir).get(`${topic} 0`) ?? -1;
    if (offset > past) return offset;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

it(`leaves what Apache Kafka leaves, BROADSHEET_SEED=${SEED}`, async () => {
  const copy = join(dir, 'copy');
  ours = await BrokerProcess.start(kafka.dataDir, { config: OFF });
  await fill(ours.address);
  const before = (await content(ours.address)).length;
  await ours.stop();
  cpSync(kafka.dataDir, copy, { recursive: true });

  ours = await BrokerProcess.start(copy, { config: EAGER });
  const end = await cleanedTo(copy);
  const left = await content(ours.address);
  await ours.stop();
  expect(left.length).toBeLessThan(before / 2);

  await kafka.start(...Object.entries(EAGER).map(([key, value]) => `${key}=${value}`));
  await kafka.untilLeading([[TOPIC, 0]]);
  expect(await cleanedTo(kafka.dataDir)).toBe(end);
  expect(await content(kafka.address)).toEqual(left);
  await kafka.stop();

  // What either cleaned is served by the other.
  ours = await BrokerProcess.start(kafka.dataDir, { config: OFF });
  expect(await content(ours.address)).toEqual(left);
  await ours.stop();
  ours = undefined;
  if (!FULL_SIZE) return;
  const other = new KafkaPeer(join(dir, 'other'), kafkaPort());
  cpSync(copy, other.dataDir, { recursive: true });
  try {
    await other.start('log.cleaner.enable=false');
    await other.untilLeading([[TOPIC, 0]]);
    expect(await content(other.address)).toEqual(left);
  } finally {
    await other.dispose();
  }
});

it(`leaves of transactions what Apache Kafka leaves, BROADSHEET_SEED=${SEED}`, async () => {
  const copy = join(dir, 'copy');
  const settings = Object.entries(EAGER).map(([key, value]) => `${key}=${value}`);
  const loads = [0, 1].map(() => new TransactionalLoad(TRANSACTIONAL, SEED, TIME));
  const kept: number[] = [];
  let end = -1;
  ours = await BrokerProcess.start(kafka.dataDir, { config: OFF });
  const client = await Client.connect(ours.address);
  const configs = {
    'cleanup.policy': 'compact',
    'internal.segment.bytes': '16384',
    // Tombstones and markers go with the second cleaning after they have lost their meaning.
    'delete.retention.ms': '1',
  };
  await client.createTopics([{ name: TRANSACTIONAL, partitions: 1, configs }]);
  await client.close();
  await ours.stop();
  cpSync(kafka.dataDir, copy, { recursive: true });
  for (const round of [0, 1, 2]) {
    for (const [i, dataDir] of [kafka.dataDir, copy].entries()) {
      ours = await BrokerProcess.start(dataDir, { config: OFF });
      await loads[i]!.run(ours.address, TRANSACTIONAL_TURNS, round === 2 ? 400 : 40);
      await ours.stop();
    }
    const before = storedBatches(copy, TRANSACTIONAL);
    expect(storedBatches(kafka.dataDir, TRANSACTIONAL)).toEqual(before);
    const both = (address: string) =>
      Promise.all([false, true].map((committed) => content(address, TRANSACTIONAL, committed)));

    ours = await BrokerProcess.start(copy, { config: EAGER });
    const next = await cleanedTo(copy, TRANSACTIONAL, end);
    const seen = await both(ours.address);
    await ours.stop();
    const left = storedBatches(copy, TRANSACTIONAL);
    expect(left.length).toBeLessThan(before.length);
    kept.push(left.filter((batch) => batch.includes(' control')).length);

    await kafka.start(...settings);
    await kafka.untilLeading([[TRANSACTIONAL, 0]]);
    expect(await cleanedTo(kafka.dataDir, TRANSACTIONAL, end)).toBe(next);
    expect(await both(kafka.address)).toEqual(seen);
    await kafka.stop();
    expect(storedBatches(kafka.dataDir, TRANSACTIONAL)).toEqual(left);
    end = next;

    // What Kafka left is the same for readers of ours.
    ours = await BrokerProcess.start(kafka.dataDir, { config: OFF });
    expect(await both(ours.address)).toEqual(seen);
    await ours.stop();
    ours = undefined;
  }
  // Where keys are left, markers stay for them; those whose transaction is gone went with the second cleaning.
  expect(kept[1]).toBeGreaterThan(0);
});

it.each(['clean', 'killed'])(
  'keeps the last value of each key of what Apache Kafka wrote (%s)',
  async (name) => {
    execFileSync('tar', ['xzf', `${PROTOCOL}/datadir/kafka-4.4-${name}.tar.gz`, '-C', dir]);
    const [folder] = readdirSync(dir);
    const broker = await createBroker({
      dataDir: join(dir, folder!),
      host: '127.0.0.1',
      port: 0,
      config: OFF,
    });
    try {
      const client = await Client.connect(broker.bootstrapServers);
      const last = async () => {
        const values = new Map<string, string>();
        let count = 0;
        for (const topic of ['compacted', 'compacted-swept', '__consumer_offsets', '__transaction_state']) {
          const { partitions } = await client.topic(topic);
          for (const { partitionIndex } of partitions) {
            const start = await client.listOffset(topic, partitionIndex, EARLIEST);
            const options = { committedOnly: true };
            for await (const record of client.records(topic, partitionIndex, start.offset, options)) {
              const key = `${topic} ${partitionIndex} ${Buffer.from(record.key!).toString('hex')}`;
              count++;
              if (record.value === null) values.delete(key);
              else
                values.set(
                  key,
                  `${record.offset} ${record.timestamp} ${Buffer.from(record.value).toString('hex')}`,
                );
            }
          }
        }
        return { count, values: [...values].sort() };
      };
      const before = await last();
      await broker.compact();
      const after = await last();
      expect(after.values).toEqual(before.values);
      expect(after.count).toBeLessThan(before.count);
      await client.close();
    } finally {
      await broker.close();
    }
  },
);

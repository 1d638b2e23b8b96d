/** Directories whose metadata log begins with a snapshot: Apache Kafka opens ours, and we open Apache Kafka's. */
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { BrokerRefusal, Client } from '../../src/client/client.ts';
import { BrokerProcess } from '../support/broker-process.ts';
import { ENGINES } from '../support/engines.ts';
import { KafkaPeer, kafkaPort } from '../support/kafka-peer.ts';

const FOLDER = '__cluster_metadata-0';
const TOPICS = 120;
/** Snapshots all the time, and nothing below them. */
const OFTEN = {
  'metadata.log.max.record.bytes.between.snapshots': '2000',
  'metadata.log.segment.bytes': '8388608',
  'metadata.max.retention.bytes': '8000',
  'metadata.max.retention.ms': '60000',
  'log.retention.check.interval.ms': '1000',
  'log.initial.task.delay.ms': '1000',
};
/** Apache Kafka begins no segment for a snapshot: what it deletes are whole segments, so they have to be short, though not shorter
 * than the batch of a broker's registration. It looks for them once a minute. */
const SHORT = {
  'internal.metadata.log.segment.bytes': '32768',
  'internal.metadata.delete.delay.millis': '0',
};
const SETTINGS = Object.entries({ ...OFTEN, ...SHORT }).map(([key, value]) => `${key}=${value}`);

let dir: string;
let kafka: KafkaPeer;
let ours: BrokerProcess | undefined;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'broadsheet-snapshots-'));
  kafka = new KafkaPeer(dir, kafkaPort());
});
afterEach(async () => {
  await ours?.kill();
  await kafka.dispose();
  rmSync(dir, { recursive: true, force: true });
});

const files = (suffix: string) =>
  readdirSync(join(kafka.dataDir, FOLDER))
    .filter((name) => name.endsWith(suffix))
    .sort();
const offsetOf = (name: string | undefined) => Number(name?.slice(0, 20));

/** Apache Kafka answers CreateTopics before the topic can be used. */
async function untilTaken(work: () => Promise<unknown>): Promise<void> {
  for (;;) {
    try {
      await work();
      return;
    } catch (error) {
      if (!(error instanceof BrokerRefusal)) throw error;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
}

/** Makes topics with configs, and deletes every third; a record in each that stays. */
async function change(address: string, prefix: string): Promise<void> {
  const client = await Client.connect(address);
  for (let i = 0; i < TOPICS; i++) {
    const name = `${prefix}-${i}`;
    await client.createTopics([{ name, partitions: 2, configs: { 'retention.ms': String(1_000_000 + i) } }]);
    if (i % 3 === 0) await client.deleteTopics([name]);
    else
      await untilTaken(() => client.produce(name, 1, [{ timestamp: Date.now(), value: `value of ${name}` }]));
  }
  await client.close();
}

/** All topics with their ids, and the record of each. */
async function content(address: string): Promise<unknown[]> {
  const client = await Client.connect(address);
  const { topics } = await client.metadata(null);
  const seen: unknown[] = [];
  for (const { name, topicId, partitions } of topics.toSorted((a, b) => (a.name! < b.name! ? -1 : 1))) {
    const values: string[] = [];
    for await (const { value } of client.records(name!, 1, 0)) values.push(Buffer.from(value!).toString());
    seen.push([name, topicId, partitions.length, values]);
  }
  await client.close();
  return seen;
}

/** Waits for a snapshot past an offset, and until the log below some snapshot is gone as far as that. */
async function untilDeletedPast(offset: number): Promise<void> {
  while (offsetOf(files('.checkpoint').at(-1)) <= offset || offsetOf(files('.log')[0]) <= offset)
    await new Promise((resolve) => setTimeout(resolve, 200));
}

it.each(ENGINES)(
  'are opened by Apache Kafka where we made them, and by us where it did, engine=$name',
  async ({ name: engine }) => {
    const config = { ...OFTEN, engine };
    const served = async (topics: unknown[]) => {
      await kafka.start(...SETTINGS);
      await kafka.untilLeading(topics.map((each) => [(each as [string])[0], 1] as const));
      expect(await content(kafka.address)).toEqual(topics);
    };
    ours = await BrokerProcess.start(kafka.dataDir, { config });
    await change(ours.address, 'ours');
    await untilDeletedPast(0);
    const first = await content(ours.address);
    expect(first).toHaveLength(TOPICS - Math.ceil(TOPICS / 3));
    await ours.stop();

    let newest = offsetOf(files('.checkpoint').at(-1));
    await served(first);
    await change(kafka.address, 'theirs');
    // All that we wrote goes, by its own retention.
    await untilDeletedPast(newest);
    const second = await content(kafka.address);
    await kafka.stop();
    expect(second).toHaveLength(2 * first.length);

    newest = offsetOf(files('.checkpoint').at(-1));
    ours = await BrokerProcess.start(kafka.dataDir, { config });
    expect(await content(ours.address)).toEqual(second);
    await change(ours.address, 'again');
    await untilDeletedPast(newest);
    const third = await content(ours.address);
    // As after a kill.
    await ours.kill();
    ours = await BrokerProcess.start(kafka.dataDir, { config });
    expect(await content(ours.address)).toEqual(third);
    await ours.stop();
    ours = undefined;

    await served(third);
  },
);

/** A Kafka Streams word count with exactly_once_v2, unmodified, whose instance and whose broker are killed: what readers of
 * committed records see is what a batch computation gives, each step of it once. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest';
import { Client } from '../../src/client/client.ts';
import { BrokerProcess } from '../support/broker-process.ts';
import { isInstalled, STREAMS_APP } from '../support/clients.ts';
import { install } from '../support/install-client.ts';
import { Random } from '../support/random.ts';
import { scaled } from '../support/scale.ts';
import { StreamsApp } from '../support/streams-app.ts';

const WORDS = 40;
const PARTITIONS = 4;
const LINES = scaled(150, 1500);
const ROUNDS = scaled(2, 6);
const WAIT = { timeout: 180_000, interval: 500 };
const COMMON = ['processing.guarantee=exactly_once_v2', 'producer.transaction.timeout.ms=10000'];
/** Settings by the protocol of its group. */
const PROTOCOLS = {
  classic: ['group.protocol=classic', 'session.timeout.ms=6000'],
  streams: ['group.protocol=streams'],
};
/** The broker says for streams groups when a member is missed. */
const CONFIG = { 'group.streams.min.session.timeout.ms': '6000', 'group.streams.session.timeout.ms': '6000' };

const dir = mkdtempSync(join(tmpdir(), 'broadsheet-streams-once-'));
const random = new Random(11);
const sent = new Map<string, number>();
let plain = 0;
let app: StreamsApp;
let broker: BrokerProcess;
let client: Client;

beforeAll(() => {
  if (!isInstalled(STREAMS_APP)) install(STREAMS_APP);
}, 600_000);
afterAll(() => rmSync(dir, { recursive: true, force: true }));

async function open(data: string): Promise<void> {
  sent.clear();
  plain = 0;
  broker = await BrokerProcess.start(data, { config: CONFIG });
  client = await Client.connect(broker.address);
  const topics = { lines: PARTITIONS, plain: 2, upper: 2, counts: 3 };
  await client.createTopics(
    Object.entries(topics).map(([name, partitions]) => ({ name, partitions, configs: {} })),
  );
}
afterEach(async () => {
  await app?.kill();
  await client?.close();
  await broker?.kill();
});

async function produce(lines: number): Promise<void> {
  for (let line = 0; line < lines; line++) {
    const words = Array.from({ length: 5 }, () => `word${random.int(WORDS)}`);
    for (const word of words) sent.set(word, (sent.get(word) ?? 0) + 1);
    await client.produce('lines', line % PARTITIONS, [{ timestamp: Date.now(), value: words.join(' ') }]);
    await client.produce('plain', line % 2, [{ timestamp: Date.now(), value: `line ${plain++}` }]);
  }
}

async function committed(topic: string, partitions: number): Promise<[key: string, value: string][]> {
  const found: [string, string][] = [];
  for (let partition = 0; partition < partitions; partition++) {
    for await (const { key, value } of client.records(topic, partition, 0, { committedOnly: true })) {
      found.push([Buffer.from(key ?? []).toString(), Buffer.from(value!).toString()]);
    }
  }
  return found;
}

/** Every count that each word went through. */
async function counts(): Promise<Record<string, string>> {
  const steps = new Map<string, string[]>();
  for (const [word, count] of await committed('counts', 3)) {
    const known = steps.get(word);
    if (known === undefined) steps.set(word, [count]);
    else known.push(count);
  }
  return Object.fromEntries([...steps].map(([word, all]): [string, string] => [word, all.join()]).sort());
}

const expected = () =>
  Object.fromEntries(
    [...sent]
      .map(([word, count]): [string, string] => [word, Array.from({ length: count }, (_, i) => i + 1).join()])
      .sort(),
  );

const uppers = async () => (await committed('upper', 2)).map(([, value]) => value).sort();
const expectedUppers = () => Array.from({ length: plain }, (_, i) => `LINE ${i}`).sort();

it.each(scaled<(keyof typeof PROTOCOLS)[]>(['classic'], ['classic', 'streams']))(
  'counts each word once in a %s group, whatever is killed',
  async (protocol) => {
    const data = join(dir, protocol);
    await open(data);
    const start = () => {
      const { address } = broker;
      const settings = [...COMMON, ...PROTOCOLS[protocol]];
      const stateDir = join(dir, `${protocol}-state`);
      app = new StreamsApp({ address, applicationId: 'once', stateDir, endpointPort: 9_000, settings });
    };
    start();
    await expect.poll(() => app.state, WAIT).toBe('RUNNING');
    for (let round = 0; round < ROUNDS; round++) {
      await produce(LINES);
      await app.kill();
      await produce(LINES);
      start();
      await expect.poll(() => app.state, WAIT).toBe('RUNNING');
      await produce(LINES);
      const port = Number(broker.address.split(':')[1]);
      await broker.kill();
      await client.close();
      broker = await BrokerProcess.start(data, { port, config: CONFIG });
      client = await Client.connect(broker.address);
      await produce(LINES);
    }
    await expect.poll(counts, WAIT).toEqual(expected());
    await expect.poll(uppers, WAIT).toEqual(expectedUppers());
    await app.close();
  },
);

/** A Kafka Streams application that speaks the streams protocol (KIP-1071), unmodified: two instances count words while one of
 * them leaves, one comes back, and the broker is restarted. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { api } from '../../src/client/apis.ts';
import { Client } from '../../src/client/client.ts';
import { ApiKey } from '../../src/protocol/generated/api-keys.ts';
import {
  readStreamsGroupDescribeResponse,
  writeStreamsGroupDescribeRequest,
} from '../../src/protocol/generated/StreamsGroupDescribe.ts';
import { BrokerProcess } from '../support/broker-process.ts';
import { isInstalled, STREAMS_APP } from '../support/clients.ts';
import { install } from '../support/install-client.ts';
import { StreamsApp } from '../support/streams-app.ts';

const DESCRIBE = api(
  ApiKey.StreamsGroupDescribe,
  writeStreamsGroupDescribeRequest,
  readStreamsGroupDescribeResponse,
);
const APP = 'words-app';
const WORDS = 40;
const PARTITIONS = 4;
const WAIT = { timeout: 180_000, interval: 500 };

const dir = mkdtempSync(join(tmpdir(), 'broadsheet-streams-'));
const apps: StreamsApp[] = [];
let broker: BrokerProcess;
let client: Client;

beforeAll(async () => {
  if (!isInstalled(STREAMS_APP)) install(STREAMS_APP);
  broker = await BrokerProcess.start(join(dir, 'data'));
  client = await Client.connect(broker.address);
  const topics = { lines: PARTITIONS, plain: 2, upper: 2, counts: 3 };
  await client.createTopics(
    Object.entries(topics).map(([name, partitions]) => ({ name, partitions, configs: {} })),
  );
}, 600_000);
afterAll(async () => {
  for (const app of apps) await app.kill();
  await client?.close();
  await broker?.stop();
  rmSync(dir, { recursive: true, force: true });
});

function start(name: string): StreamsApp {
  const endpointPort = 9_000 + apps.length;
  const options = { address: broker.address, applicationId: APP, stateDir: join(dir, name), endpointPort };
  const app = new StreamsApp(options);
  apps.push(app);
  return app;
}

/** How often each word was sent. */
const sent = new Map<string, number>();
let seed = 1;

async function produceLines(lines: number): Promise<void> {
  for (let line = 0; line < lines; line++) {
    const words = Array.from({ length: 5 }, () => {
      seed = (seed * 48_271) % 2_147_483_647;
      return `word${seed % WORDS}`;
    });
    for (const word of words) sent.set(word, (sent.get(word) ?? 0) + 1);
    await client.produce('lines', line % PARTITIONS, [{ timestamp: Date.now(), value: words.join(' ') }]);
  }
}

/** The newest count of each word. */
async function counted(): Promise<Map<string, number>> {
  const counts = new Map<string, number>();
  for (let partition = 0; partition < 3; partition++) {
    for await (const { key, value } of client.records('counts', partition, 0)) {
      counts.set(Buffer.from(key!).toString(), Number(Buffer.from(value!).toString()));
    }
  }
  return counts;
}

async function uppers(): Promise<number> {
  let count = 0;
  for (const partition of [0, 1]) for await (const _ of client.records('upper', partition, 0)) count++;
  return count;
}

const sorted = (counts: ReadonlyMap<string, number>) => Object.fromEntries([...counts].sort());

async function group() {
  const { groups } = await client.request(DESCRIBE, {
    groupIds: [APP],
    includeAuthorizedOperations: false,
  });
  return groups[0]!;
}

/** Active tasks of each member, of which all have some, when all is at rest. */
async function spread(): Promise<number[]> {
  const { groupState, members } = await group();
  if (groupState !== 'Stable') return [];
  return members.map(({ assignment }) =>
    assignment.activeTasks.reduce((sum, { partitions }) => sum + partitions.length, 0),
  );
}

it('counts with one instance', async () => {
  const first = start('first');
  await produceLines(200);
  await expect.poll(() => first.state, WAIT).toBe('RUNNING');
  await expect.poll(async () => sorted(await counted()), WAIT).toEqual(sorted(sent));
  // Lines and words have four tasks each, what has no state two.
  await expect.poll(spread, WAIT).toEqual([10]);
  const names = (await group()).topology!.subtopologies!.flatMap((subtopology) => [
    ...subtopology.repartitionSourceTopics.map(({ name, partitions }) => `${name} ${partitions}`),
    ...subtopology.stateChangelogTopics.map(({ name, partitions }) => `${name} ${partitions}`),
  ]);
  expect(names.sort()).toEqual([`${APP}-counts-changelog 4`, `${APP}-words-repartition 4`]);
});

it('counts on with two, and when one of them has left', async () => {
  const second = start('second');
  await expect.poll(spread, WAIT).toEqual([5, 5]);
  await produceLines(200);
  await expect.poll(async () => sorted(await counted()), WAIT).toEqual(sorted(sent));
  await second.close();
  await expect.poll(spread, WAIT).toEqual([10]);
  await produceLines(200);
  await expect.poll(async () => sorted(await counted()), WAIT).toEqual(sorted(sent));
});

it('counts on after the broker was killed and started again', async () => {
  const { address } = broker;
  const before = await group();
  await broker.kill();
  await client.close();
  broker = await BrokerProcess.start(join(dir, 'data'), { port: Number(address.split(':')[1]) });
  client = await Client.connect(broker.address);
  await produceLines(200);
  for (let i = 0; i < 20; i++) await client.produce('plain', i % 2, [{ timestamp: Date.now(), value: 'a' }]);
  // At least once: what was not committed is counted again.
  const atLeast = async () => {
    const counts = await counted();
    return [...sent].filter(([word, count]) => (counts.get(word) ?? 0) < count);
  };
  await expect.poll(atLeast, WAIT).toEqual([]);
  await expect.poll(uppers, WAIT).toBeGreaterThanOrEqual(20);
  expect((await group()).members.map(({ memberId }) => memberId)).toEqual(
    before.members.map(({ memberId }) => memberId),
  );
  await apps[0]!.close();
  expect((await group()).groupState).toBe('Empty');
});

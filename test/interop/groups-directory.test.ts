/** Groups of both protocols in one directory that this broker and Apache Kafka open in turn, closed or killed: both list the
 * same groups and committed offsets. Members count as gone or not by their sessions, so they are left out. */
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { BrokerRefusal, Client } from '../../src/client/client.ts';
import { committedOffsets, listGroups } from '../../src/client/groups.ts';
import { BrokerProcess } from '../support/broker-process.ts';
import { KafkaTools } from '../support/compare-tools.ts';
import { EMPTY_GROUPS, GroupWorld, LIVE_GROUPS } from '../support/group-world.ts';
import { KafkaPeer, kafkaPort } from '../support/kafka-peer.ts';

const PORT = kafkaPort();
const GROUPS = [...EMPTY_GROUPS, ...LIVE_GROUPS].sort();

interface Running {
  readonly address: string;
  stop(): Promise<void>;
  kill(): Promise<void>;
}

let dir = '';
let kafka: KafkaPeer | undefined;
let broker: BrokerProcess | undefined;
let tools: KafkaTools | undefined;

afterEach(async () => {
  tools?.close();
  await broker?.kill();
  await kafka?.dispose();
  rmSync(dir, { recursive: true, force: true });
});

async function start(which: 'kafka' | 'broadsheet', peer: KafkaPeer): Promise<Running> {
  if (which === 'kafka') {
    await peer.start();
    return peer;
  }
  broker = await BrokerProcess.start(peer.dataDir);
  return broker;
}

/** A Kafka that has just started loads its groups. */
async function patiently<T>(ask: () => Promise<T>): Promise<T> {
  for (let turns = 0; ; turns++) {
    try {
      return await ask();
    } catch (error) {
      if (!(error instanceof BrokerRefusal) || turns > 300) throw error;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }
}

/** What a client sees of the groups, and what kafka-consumer-groups prints of them up to the columns of members. */
async function seen(address: string, ids: readonly string[]) {
  const client = await Client.connect(address);
  const offsets = [];
  for (const group of ids) offsets.push([group, await patiently(() => committedOffsets(client, group))]);
  const groups = (await patiently(() => listGroups(client))).map(({ group, type, protocolType }) => ({
    group,
    type: type?.toLowerCase(),
    protocolType,
  }));
  await client.close();
  const { stdout } = await tools!.run(
    'consumer-groups',
    '--bootstrap-server',
    address,
    '--describe',
    '--all-groups',
    '--offsets',
  );
  const rows = stdout
    .split('\n')
    .filter((line) => line.startsWith('g-'))
    .map((line) => line.trim().split(/\s+/).slice(0, 6))
    // Without an offset it is there for its member.
    .filter(([, , , committed]) => committed !== '-')
    .map((columns) => columns.join(' '));
  return { groups: groups.sort((a, b) => (a.group < b.group ? -1 : 1)), offsets, rows: rows.sort() };
}

describe.each([
  ['broadsheet', 'kafka', 'stop'],
  ['broadsheet', 'kafka', 'kill'],
  ['kafka', 'broadsheet', 'stop'],
  ['kafka', 'broadsheet', 'kill'],
] as const)('the groups of %s, opened by %s after a %s', (first, second, end) => {
  it('are the same, and what the second changed the first sees', { timeout: 600_000 }, async () => {
    dir = mkdtempSync(join(tmpdir(), 'broadsheet-groups-directory-'));
    kafka = new KafkaPeer(dir, PORT);
    mkdirSync(kafka.dataDir, { recursive: true });
    tools = new KafkaTools();
    const one = await start(first, kafka);
    const world = await GroupWorld.create(one.address);
    const before = await seen(one.address, GROUPS);
    expect(before.groups.map(({ group }) => group)).toEqual(GROUPS);
    // Killed with their members; or these leave, and the broker is stopped.
    if (end === 'stop') await world.leave();
    await one[end]();
    if (end === 'kill') await world.abandon();

    const two = await start(second, kafka);
    expect(await seen(two.address, GROUPS)).toEqual(before);
    const groups = (...args: string[]) =>
      tools!.run('consumer-groups', '--bootstrap-server', two.address, ...args);
    const reset = [
      '--reset-offsets',
      '--group',
      'g-consumer-empty',
      '--all-topics',
      '--to-latest',
      '--execute',
    ];
    expect((await groups(...reset)).code).toBe(0);
    expect((await groups('--delete', '--group', 'g-classic-empty')).code).toBe(0);
    expect((await groups('--delete-offsets', '--group', 'g-simple', '--topic', 'audit')).code).toBe(0);
    const left = GROUPS.filter((group) => group !== 'g-classic-empty');
    const changed = await seen(two.address, left);
    expect(changed.rows).not.toEqual(before.rows);
    expect(changed.groups.map(({ group }) => group)).toEqual(left);
    await two[end]();

    const three = await start(first, kafka);
    expect(await seen(three.address, left)).toEqual(changed);
    await three.stop();
  });
});

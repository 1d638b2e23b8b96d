/** The client in the oldest versions that a broker serves: what an old Kafka hears of it. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  alterConfigs,
  createPartitions,
  deleteRecords,
  describeConfigs,
  ResourceType,
} from '../../src/client/admin.ts';
import { Client, EARLIEST, LATEST } from '../../src/client/client.ts';
import { Fetcher } from '../../src/client/fetcher.ts';
import { GroupMember } from '../../src/client/group-member.ts';
import {
  committedOffsets,
  deleteGroup,
  deleteOffsets,
  describeGroup,
  listGroups,
} from '../../src/client/groups.ts';
import { listOffsets } from '../../src/client/offsets.ts';
import { Producer } from '../../src/client/producer.ts';
import { alterQuotas, describeQuotas } from '../../src/client/quotas.ts';
import { type Broker, createBroker } from '../../src/index.ts';
import { API_FACTS, ApiKey } from '../../src/protocol/generated/api-keys.ts';

const dir = mkdtempSync(join(tmpdir(), 'broadsheet-old-'));
let broker: Broker;
const clients: Client[] = [];

beforeAll(async () => {
  broker = await createBroker({ dataDir: join(dir, 'data'), host: '127.0.0.1', port: 0 });
});
afterAll(async () => {
  for (const client of clients) await client.close();
  await broker?.close();
  rmSync(dir, { recursive: true, force: true });
});

/** Versions of each API by how far they lie between its oldest and its newest. Produce below 3 is advertised and not
 * served, as by Apache Kafka. */
function versions(part: number): Record<number, number> {
  return Object.fromEntries(
    API_FACTS.flatMap((facts) => {
      if (facts?.advertised == null) return [];
      const [least, most] = facts.advertised;
      const lowest = facts.key === ApiKey.Produce ? 3 : least;
      return [[facts.key, Math.round(lowest + (most - lowest) * part)]];
    }),
  );
}

async function connect(part: number): Promise<Client> {
  const client = await Client.connect(broker.bootstrapServers, { maxVersions: versions(part) });
  clients.push(client);
  return client;
}

describe.each([
  ['the oldest', 0],
  ['a third of the way', 0.34],
  ['two thirds of the way', 0.67],
  ['the newest', 1],
])('in versions that are %s', (_name, part) => {
  const topic = `t${part}`;
  const group = `g${part}`;

  it('topics are made, filled, read, trimmed and deleted', async () => {
    const client = await connect(part);
    await client.createTopics([{ name: topic, partitions: 2, configs: { 'retention.ms': '-1' } }]);
    await createPartitions(client, topic, 3);
    expect((await client.topic(topic)).partitions).toHaveLength(3);
    const producer = await Producer.create(client, topic);
    for (let n = 0; n < 30; n++) producer.send({ timestamp: 1000 + n, value: `${n}` }, n % 3, n);
    await producer.flush();
    expect(producer.delivered).toBe(30);
    const fetcher = new Fetcher(client);
    for (const partition of [0, 1, 2]) fetcher.seek({ topic, partition }, 0);
    const found: string[] = [];
    while (found.length < 30) {
      for (const { records } of await fetcher.poll()) {
        found.push(...records.map(({ value }) => Buffer.from(value!).toString()));
      }
    }
    expect(found.map(Number).sort((a, b) => a - b)).toEqual(Array.from({ length: 30 }, (_, n) => n));
    expect(await deleteRecords(client, [{ topic, partition: 1, offset: 4 }])).toEqual([
      { topic, partition: 1, lowWatermark: 4, errorCode: 0 },
    ]);
    const answers = await listOffsets(client, [
      { topic, partition: 1, timestamp: EARLIEST },
      { topic, partition: 2, timestamp: LATEST },
      { topic, partition: 0, timestamp: 1015 },
    ]);
    expect(answers.map(({ offset }) => offset)).toEqual([4, 10, 5]);
    await client.createTopics([{ name: `${topic}-gone` }]);
    await client.deleteTopics([`${topic}-gone`]);
    expect((await client.metadata()).topics.map(({ name }) => name)).not.toContain(`${topic}-gone`);
  });

  it('groups are joined, committed to, described and deleted', async () => {
    const client = await connect(part);
    const member = new GroupMember(client, { groupId: group, topics: [topic] });
    expect(await member.join()).toEqual([0, 1, 2].map((partition) => ({ topic, partition })));
    await member.commit([
      { topic, partition: 0, offset: 3 },
      { topic, partition: 1, offset: 5 },
    ]);
    expect(await describeGroup(client, group)).toMatchObject({
      type: 'classic',
      state: 'Stable',
      members: [{ memberId: member.memberId, assignment: [{ topic, partitions: [0, 1, 2] }] }],
    });
    await member.leave();
    const listed = (await listGroups(client)).find((each) => each.group === group);
    expect(listed).toMatchObject({ protocolType: 'consumer' });
    expect(await deleteOffsets(client, group, [{ topic, partition: 1 }])).toEqual([
      { topic, partition: 1, errorCode: 0 },
    ]);
    // Below version 2 of OffsetFetch nobody can ask for all.
    if (part > 0) {
      expect(await committedOffsets(client, group)).toMatchObject([{ topic, partition: 0, offset: 3 }]);
    }
    await deleteGroup(client, group);
    await expect(describeGroup(client, group)).rejects.toMatchObject({ kafkaError: 'GROUP_ID_NOT_FOUND' });
  });

  it('configs and quotas are set and read', async () => {
    const client = await connect(part);
    const resource = { type: ResourceType.TOPIC, name: topic };
    await alterConfigs(client, resource, [
      { name: 'retention.ms', value: null },
      { name: 'segment.ms', value: '70000' },
    ]);
    const [found] = await describeConfigs(client, [resource]);
    expect(found!.configs.filter(({ configSource }) => configSource === 1)).toMatchObject([
      { name: 'segment.ms', value: '70000' },
    ]);
    const entity = [{ entityType: 'user', entityName: group }] as const;
    await alterQuotas(client, entity, new Map([['request_percentage', 50]]));
    expect(await describeQuotas(client, entity)).toEqual(new Map([['request_percentage', 50]]));
  });
});

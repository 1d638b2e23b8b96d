/** kafka-streams-groups, with its options, against Apache Kafka and against this broker: the same outputs. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { Client } from '../../src/client/client.ts';
import { type Difference, ToolPeers } from '../support/compare-tools.ts';
import { kafkaPort } from '../support/kafka-peer.ts';
import { StreamsWireMember, subtopologyInput, topicInput } from '../support/streams-member.ts';

const dir = mkdtempSync(join(tmpdir(), 'broadsheet-streams-tools-'));
const clients: Client[] = [];
const members: StreamsWireMember[] = [];
let peers: ToolPeers;

const TOPOLOGY = [
  subtopologyInput({ sourceTopics: ['orders'], repartitionSinkTopics: ['s-live-by-user-repartition'] }),
  subtopologyInput({
    subtopologyId: '1',
    repartitionSourceTopics: [topicInput('s-live-by-user-repartition')],
    stateChangelogTopics: [topicInput('s-live-store-changelog')],
  }),
];
const PLAIN = [subtopologyInput({ sourceTopics: ['orders'] })];
const ABSENT = [subtopologyInput({ sourceTopics: ['nowhere'] })];

/** The records are old: nothing may remove them. */
const KEPT = { 'retention.ms': '-1' };

/** The same groups on both: one with two members, one that they have left, one whose topic is missing. */
async function prepare(address: string, served: (topic: string) => Promise<void>): Promise<void> {
  const client = await Client.connect(address, { clientId: 'streams' });
  clients.push(client);
  const topics = ['orders', 's-live-by-user-repartition', 's-live-store-changelog'];
  await client.createTopics(topics.map((name) => ({ name, partitions: 2, configs: KEPT })));
  for (const topic of topics) await served(topic);
  for (const partition of [0, 1]) {
    await client.produce('orders', partition, [
      { timestamp: 1, value: 'a' },
      { timestamp: 2, value: 'b' },
    ]);
  }
  const member = (groupId: string, memberId: string) => {
    const made = new StreamsWireMember(client, groupId, memberId);
    members.push(made);
    return made;
  };
  const offsets = [
    { topic: 'orders', partition: 0, offset: 1 },
    { topic: 'orders', partition: 1, offset: 2 },
  ];
  const first = member('s-live', 'first');
  await first.join(TOPOLOGY, 4);
  await first.commit(offsets);
  await member('s-live', 'second').join(TOPOLOGY, 2);
  const gone = member('s-empty', 'gone');
  await gone.join(PLAIN, 2);
  await gone.commit(offsets);
  await members.pop()!.leave();
  await member('s-missing', 'waiting').join(ABSENT, 0);
}

beforeAll(async () => {
  const config = {
    'group.streams.initial.rebalance.delay.ms': '0',
    'group.streams.assignment.interval.ms': '0',
  };
  peers = await ToolPeers.start({ dir, kafkaPort: kafkaPort(), config });
  await prepare(peers.kafka.address, (topic) => peers.untilServed(topic, 2));
  await prepare(peers.ours.address, () => Promise.resolve());
}, 300_000);
afterAll(async () => {
  for (const member of members) await member.leave().catch(() => undefined);
  for (const client of clients) await client.close();
  await peers?.close();
  rmSync(dir, { recursive: true, force: true });
});

const each = (before: string, groups: readonly string[]) =>
  groups.map((group) => `${before} --group ${group}`);
const GROUPS = ['s-live', 's-empty', 's-missing', 'nobody'];

const STEPS = [
  '--list',
  '--list --state',
  '--list --state stable,empty',
  '--list --state NotReady',
  ...each('--describe', GROUPS),
  ...each('--describe --offsets', GROUPS),
  ...each('--describe --offsets --verbose', GROUPS),
  ...each('--describe --members', GROUPS),
  ...each('--describe --members --verbose', GROUPS),
  ...each('--describe --state', GROUPS),
  ...each('--describe --state --verbose', GROUPS),
  '--describe --all-groups',
  ...each('--reset-offsets --to-earliest --all-input-topics --dry-run', GROUPS),
  '--reset-offsets --group s-empty --input-topic orders:1 --to-offset 1 --execute',
  '--describe --group s-empty --offsets --timeout 29000',
  ...each('--delete-offsets --input-topic orders', GROUPS),
  '--describe --group s-empty --offsets --timeout 28000',
  '--delete --group s-live',
  '--delete --group nobody',
  '--delete --group s-empty',
  '--list --timeout 27000',
];

/** As docs/DIFFERENCES.md has it. */
const EXCEPT: Readonly<Record<string, readonly Difference[]>> = {
  '--list --state NotReady': [
    { reason: 'Kafka finds no group by this state', kafka: /$/, ours: '\ns-missing NotReady' },
  ],
};

it.each(STEPS)('kafka-streams-groups %s', async (args) => {
  const normalise = (text: string) => text.replaceAll(/[ \t]+/g, ' ').replaceAll(/ $/gm, '');
  const { kafka, ours } = await peers.compare('streams-groups', args.split(' '), {
    sorted: true,
    normalise,
    except: EXCEPT[args] ?? [],
  });
  expect(ours).toBe(kafka);
});

/** Kafka's own tools for topics, offsets, records, log directories and replicas: what they say of this broker, and of Apache
 * Kafka. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Client } from '../../src/client/client.ts';
import {
  type CompareOptions,
  type Difference,
  type ToolArguments,
  type ToolName,
  type ToolPeer,
  ToolPeers,
} from '../support/compare-tools.ts';
import { kafkaPort } from '../support/kafka-peer.ts';

const PORT = kafkaPort();
const dir = mkdtempSync(join(tmpdir(), 'broadsheet-admin-tools-'));
const topicIds = new Map<ToolPeer, string>();
let peers: ToolPeers;

beforeAll(async () => {
  peers = await ToolPeers.start({ dir, kafkaPort: PORT });
}, 300_000);
afterAll(async () => {
  await peers?.close();
  rmSync(dir, { recursive: true, force: true });
});

/** `format` writes this value into a new Kafka directory. */
const MIN_ISR: Difference = {
  reason: 'a new directory has no cluster-wide min.insync.replicas',
  kafka: /min\.insync\.replicas=1,?/g,
  ours: '',
};

/** So of a topic without values of its own. */
const NO_OVERRIDES: Difference = {
  ...MIN_ISR,
  kafka: /\nTopic: [^\n]*Configs: min\.insync\.replicas=1(?=\n|$)/g,
};

async function same(tool: ToolName, args: ToolArguments, options: CompareOptions = {}): Promise<void> {
  const { kafka, ours } = await peers.compare(tool, args, options);
  expect(ours).toBe(kafka);
}

/** A file with JSON, for a tool to read. */
function json(name: string, value: unknown): string {
  const path = join(dir, name);
  writeFileSync(path, typeof value === 'string' ? value : JSON.stringify(value));
  return path;
}

/** For what a tool would try again and again for a minute or two. */
function impatient(): string[] {
  const path = join(dir, 'impatient.properties');
  writeFileSync(path, 'default.api.timeout.ms=3000\nrequest.timeout.ms=2000\n');
  return ['--command-config', path];
}

interface Case {
  readonly args: string;
  readonly options?: CompareOptions;
  /** What the tool has made: waited for. */
  readonly made?: readonly [topic: string, partitions: number];
  readonly gone?: string;
}

const sorted: CompareOptions = { sorted: true };
const described: CompareOptions = { sorted: true, except: [MIN_ISR] };
const overridden: CompareOptions = { sorted: true, except: [NO_OVERRIDES, MIN_ISR] };
const notOverridden: CompareOptions = { except: [NO_OVERRIDES] };

/** Runs the same tool with the arguments of each case, in order. */
function cases(tool: ToolName, list: readonly Case[]): void {
  it.each(list)('$args', async ({ args, options, made, gone }) => {
    await same(tool, args.split(' '), options);
    if (made !== undefined) await peers.untilServed(...made);
    if (gone !== undefined) await peers.untilGone(gone);
  });
}

describe('kafka-topics', () => {
  cases('topics', [
    { args: '--list' },
    { args: '--describe' },
    // Its records are old: Kafka's retention would take them while the test runs.
    { args: '--create --topic plain --partitions 3 --config retention.ms=-1', made: ['plain', 3] },
    { args: '--create --topic plain --partitions 3' },
    { args: '--create --topic plain --partitions 3 --if-not-exists' },
    { args: '--create --topic fresh --if-not-exists', made: ['fresh', 1] },
    { args: '--create --topic default', made: ['default', 1] },
    { args: '--create --topic factor --replication-factor 1', made: ['factor', 1] },
    { args: '--create --topic factor2 --replication-factor 2' },
    { args: '--create --topic none --partitions 0' },
    { args: '--create --topic none --replication-factor 0' },
    { args: '--create --topic with.dot', made: ['with.dot', 1] },
    { args: '--create --topic with_dot' },
    { args: '--create --topic bad!name' },
    {
      args: '--create --topic overridden --config retention.ms=1000 --config cleanup.policy=compact',
      made: ['overridden', 1],
    },
    { args: '--create --topic bad --config retention.ms=x' },
    { args: '--create --topic bad --config no.such.key=1' },
    { args: '--create --topic bad --config novalue' },
    { args: '--create --topic assigned --replica-assignment 1,1', made: ['assigned', 2] },
    { args: '--create --topic bad --replica-assignment 1,2' },
    { args: '--create --topic bad --replica-assignment 1:1' },
    { args: '--create --topic bad --replica-assignment x' },
    { args: '--create --topic bad --replica-assignment 1 --partitions 1' },
    { args: '--create' },
    { args: '--create --topic bad --partitions x' },
    { args: '--list', options: sorted },
    { args: '--list --topic plain' },
    { args: '--list --topic p.*' },
    { args: '--list --topic missing' },
    { args: '--describe', options: described },
    { args: '--describe --topic plain', options: described },
    { args: '--describe --topic overridden', options: described },
    { args: '--describe --topic p.*|f.*', options: described },
    { args: '--describe --topic missing' },
    { args: '--describe --topic missing --if-exists' },
    { args: '--describe --topics-with-overrides', options: overridden },
    { args: '--describe --topic factor --topics-with-overrides', options: notOverridden },
    { args: '--describe --under-replicated-partitions' },
    { args: '--describe --under-min-isr-partitions' },
    { args: '--describe --unavailable-partitions' },
    { args: '--describe --at-min-isr-partitions', options: sorted },
    { args: '--describe --topic plain --at-min-isr-partitions', options: sorted },
    { args: '--describe --partition-size-limit-per-response 1', options: described },
    { args: '--describe --topic plain --partition-size-limit-per-response 2', options: described },
    { args: '--describe --exclude-internal', options: described },
    { args: '--describe --topic-id AAAAAAAAAAAAAAAAAAAAAA', options: described },
    { args: '--describe --topic-id EREREREREREREREREREREQ' },
    { args: '--describe --topic-id EREREREREREREREREREREQ --if-exists' },
    { args: '--alter --topic plain --partitions 5', made: ['plain', 5] },
    { args: '--alter --topic plain --partitions 5' },
    { args: '--alter --topic plain --partitions 4' },
    { args: '--alter --topic plain --partitions 0' },
    { args: '--alter --topic plain' },
    { args: '--alter --topic missing --partitions 2' },
    { args: '--alter --topic missing --partitions 2 --if-exists' },
    { args: '--alter --topic fresh --partitions 3 --replica-assignment 1,1,1', made: ['fresh', 3] },
    { args: '--alter --topic fresh --partitions 4 --replica-assignment 1,1,1,7' },
    { args: '--alter --topic fresh --partitions 5 --replica-assignment 1,1,1,1' },
    { args: '--alter --topic fresh --config retention.ms=1' },
    { args: '--describe --topic plain|fresh', options: described },
    { args: '--delete --topic default', gone: 'default' },
    { args: '--delete --topic default' },
    { args: '--delete --topic default --if-exists' },
    { args: '--delete --topic with.*', gone: 'with.dot' },
    { args: '--delete' },
    { args: '--list --exclude-internal', options: sorted },
    { args: '--list --describe' },
    { args: '--bogus' },
    { args: '--version' },
  ]);

  it('--describe --topic-id', async () => {
    for (const peer of [peers.kafka, peers.ours]) {
      const client = await Client.connect(peer.address);
      const { topics } = await client.metadata(['plain']);
      topicIds.set(peer, topics[0]!.topicId);
      await client.close();
    }
    await same('topics', (peer) => ['--describe', '--topic-id', topicIds.get(peer)!], described);
  });
});

describe('with records', () => {
  beforeAll(async () => {
    for (const peer of [peers.kafka, peers.ours]) {
      const client = await Client.connect(peer.address);
      for (let n = 0; n < 20; n++) {
        // The largest timestamp is not the last.
        const timestamp = 1_700_000_000_000 + (n === 7 ? 60_000 : n * 1000);
        await client.produce('plain', n % 2, [{ timestamp, value: `value ${n}` }]);
      }
      await client.close();
    }
  });

  describe('kafka-get-offsets', () => {
    cases('get-offsets', [
      { args: '--topic plain' },
      ...[
        '-1',
        '-2',
        '-3',
        '-4',
        '-5',
        '-6',
        'latest',
        'earliest',
        'max-timestamp',
        'earliest-local',
        'latest-tiered',
        'earliest-pending-upload',
        '0',
        '1700000000000',
        '1700000005000',
        '1700000060000',
        '1900000000000',
        'bogus',
        '-7',
      ].map((time) => ({ args: `--topic plain --time ${time}` })),
      { args: '--topic plain --partitions 0,1' },
      { args: '--topic plain --partitions 9' },
      { args: '--topic plain --partitions x' },
      { args: '--topic p.*' },
      { args: '--topic missing' },
      { args: '--topic-partitions plain:0,fresh:0-2,overridden', options: sorted },
      { args: '--topic-partitions plain:1-,.*:0', options: sorted },
      { args: '--topic-partitions plain:0 --topic plain' },
      { args: '--exclude-internal-topics', options: sorted },
    ]);
  });

  describe('kafka-log-dirs', () => {
    const shape: CompareOptions = { normalise: logDirs };
    cases('log-dirs', [
      { args: '--describe', options: shape },
      { args: '--describe --topic-list plain,fresh', options: shape },
      { args: '--describe --topic-list missing', options: shape },
      { args: '--describe --broker-list 1 --topic-list plain', options: shape },
      { args: '--describe --broker-list 1,2' },
      { args: '' },
    ]);
  });

  describe('kafka-delete-records', () => {
    const file = (name: string, partitions: [string, number, number][], version = 1) =>
      json(name, {
        version,
        partitions: partitions.map(([topic, partition, offset]) => ({ topic, partition, offset })),
      });

    it.each<[name: string, partitions: [string, number, number][]]>([
      ['one', [['plain', 0, 3]]],
      [
        'several',
        [
          ['plain', 0, 5],
          ['plain', 1, 2],
          ['plain', 2, 0],
        ],
      ],
      ['below-start', [['plain', 0, 1]]],
      ['high-watermark', [['plain', 1, -1]]],
      ['past-end', [['plain', 0, 99]]],
      ['negative', [['plain', 0, -5]]],
      ['missing-partition', [['plain', 77, 0]]],
      ['missing-topic', [['missing', 0, 0]]],
      ['compacted', [['overridden', 0, 0]]],
      [
        'twice',
        [
          ['plain', 0, 6],
          ['plain', 0, 7],
        ],
      ],
      ['none', []],
    ])('%s', async (name, partitions) => {
      const args = ['--offset-json-file', file(`${name}.json`, partitions), ...impatient()];
      await same('delete-records', args, sorted);
    });

    it('of files that say something else', async () => {
      await same('delete-records', ['--offset-json-file', file('version.json', [['plain', 0, 0]], 2)]);
      await same('delete-records', ['--offset-json-file', json('text.json', 'text')]);
      await same('delete-records', ['--offset-json-file', json('empty.json', {})]);
    });

    it('leaves what get-offsets and log-dirs tell of', async () => {
      await same('get-offsets', ['--topic', 'plain', '--time', 'earliest']);
      await same('get-offsets', ['--topic', 'plain', '--time', 'latest']);
      await same('get-offsets', ['--topic', 'plain', '--time', '1700000000000']);
      await same('log-dirs', ['--describe', '--topic-list', 'plain'], { normalise: logDirs });
    });
  });
});

describe('kafka-leader-election', () => {
  cases('leader-election', [
    { args: '--election-type PREFERRED --all-topic-partitions' },
    { args: '--election-type UNCLEAN --all-topic-partitions' },
    { args: '--election-type PREFERRED --topic plain --partition 0' },
    { args: '--election-type preferred --topic plain --partition 0' },
    { args: '--election-type UNCLEAN --topic plain --partition 0' },
    { args: '--election-type PREFERRED --topic plain --partition 77' },
    { args: '--election-type PREFERRED --topic missing --partition 0' },
    { args: '--election-type PREFERRED --topic plain' },
    { args: '--election-type BOGUS --all-topic-partitions' },
    { args: '--election-type PREFERRED' },
  ]);

  it('of a file', async () => {
    const partitions = [
      { topic: 'plain', partition: 0 },
      { topic: 'plain', partition: 1 },
      { topic: 'missing', partition: 0 },
    ];
    const file = (name: string, count: number) =>
      json(name, { version: 1, partitions: partitions.slice(0, count) });
    for (const count of [1, 2, 3, 0]) {
      const args = [
        '--election-type',
        'PREFERRED',
        '--path-to-json-file',
        file(`elect-${count}.json`, count),
      ];
      await same('leader-election', args, sorted);
    }
  });
});

describe('kafka-reassign-partitions', () => {
  const plan = (name: string, partitions: object[]) => json(name, { version: 1, partitions });

  async function reassign(file: string, ...args: string[]): Promise<void> {
    await same('reassign-partitions', ['--reassignment-json-file', file, ...args, ...impatient()], sorted);
  }

  it('--list', () => same('reassign-partitions', ['--list']));

  it('--generate', async () => {
    const topics = (...names: string[]) =>
      json(`move-${names.join('-')}.json`, { version: 1, topics: names.map((topic) => ({ topic })) });
    const generate = (file: string, brokers: string) =>
      same('reassign-partitions', [
        '--generate',
        '--topics-to-move-json-file',
        file,
        '--broker-list',
        brokers,
      ]);
    await generate(topics('plain'), '1');
    await generate(topics('plain', 'fresh'), '1');
    await generate(topics('missing'), '1');
    await generate(topics('plain'), '1,2');
    await generate(topics('plain'), '1,1');
  });

  it('--execute and --verify of the replicas that are there', async () => {
    const file = plan('same.json', [
      { topic: 'plain', partition: 0, replicas: [1] },
      { topic: 'plain', partition: 1, replicas: [1], log_dirs: ['any'] },
    ]);
    await reassign(file, '--verify');
    await reassign(file, '--execute');
    await reassign(file, '--verify');
    await reassign(file, '--execute', '--disallow-replication-factor-change');
    await reassign(file, '--cancel');
  });

  it.each<[name: string, partition: object]>([
    ['another broker', { topic: 'plain', partition: 0, replicas: [2] }],
    ['two brokers', { topic: 'plain', partition: 0, replicas: [1, 2] }],
    ['one broker twice', { topic: 'plain', partition: 0, replicas: [1, 1] }],
    ['no broker', { topic: 'plain', partition: 0, replicas: [] }],
    ['a missing partition', { topic: 'plain', partition: 77, replicas: [1] }],
    ['a missing topic', { topic: 'missing', partition: 0, replicas: [1] }],
  ])('to %s', async (name, partition) => {
    const file = plan(`${name.replaceAll(' ', '-')}.json`, [partition]);
    await reassign(file, '--execute');
    await reassign(file, '--verify');
    await reassign(file, '--cancel');
  });

  it('to the log directory where a partition lies, and to one that does not exist', async () => {
    for (const [name, path] of [
      ['here', undefined],
      ['elsewhere', '/no/such/directory'],
    ] as const) {
      const fileOf = (peer: ToolPeer) =>
        plan(`${peer.name}-${name}.json`, [
          { topic: 'plain', partition: 0, replicas: [1], log_dirs: [path ?? peer.dataDir] },
        ]);
      for (const action of ['--execute', '--verify']) {
        const args = (peer: ToolPeer) => [
          '--reassignment-json-file',
          fileOf(peer),
          action,
          ...(action === '--execute' ? ['--timeout', '500'] : []),
        ];
        await same('reassign-partitions', args, sorted);
      }
    }
  });
});

/** APIs that this broker does not serve. */
const ABSENT = new Set([
  'SaslHandshake',
  'SaslAuthenticate',
  'DescribeAcls',
  'CreateAcls',
  'DeleteAcls',
  'CreateDelegationToken',
  'RenewDelegationToken',
  'ExpireDelegationToken',
  'DescribeDelegationToken',
  'ShareGroupHeartbeat',
  'ShareGroupDescribe',
  'ShareFetch',
  'ShareAcknowledge',
  'InitializeShareGroupState',
  'ReadShareGroupState',
  'WriteShareGroupState',
  'DeleteShareGroupState',
  'ReadShareGroupStateSummary',
  'DescribeShareGroupOffsets',
  'AlterShareGroupOffsets',
  'DeleteShareGroupOffsets',
  'StreamsGroupHeartbeat',
  'StreamsGroupDescribe',
  'StreamsGroupTopologyDescriptionUpdate',
]);

describe('kafka-broker-api-versions', () => {
  it('shows what Kafka advertises, but for what is not served', async () => {
    const { kafka, ours } = await peers.compare('broker-api-versions', []);
    const kafkas = kafka.split('\n');
    const missing: string[] = [];
    const others = ours.split('\n').filter((line, index) => {
      const name = /^\t(\w+)\(\d+\): UNSUPPORTED/.exec(line)?.[1];
      if (line === kafkas[index]) return false;
      if (name !== undefined) missing.push(name);
      return name === undefined;
    });
    expect(others).toEqual([]);
    expect(missing.filter((name) => !ABSENT.has(name))).toEqual([]);
  });
});

/** The tool's JSON, with its partitions in order and what is the machine's taken out. */
function logDirs(text: string): string {
  const at = text.indexOf('{');
  if (at < 0) return text;
  const parsed = JSON.parse(text.slice(at)) as {
    brokers: {
      logDirs: { partitions: { partition: string; size: number }[]; error: string | null; logDir: string }[];
    }[];
  };
  for (const broker of parsed.brokers) {
    for (const each of broker.logDirs) {
      each.partitions = each.partitions
        .filter(({ partition }) => !partition.startsWith('__'))
        .sort((a, b) => (a.partition < b.partition ? -1 : 1));
    }
  }
  return `${text.slice(0, at)}${JSON.stringify(parsed, null, 1)}`;
}

/** Requests of topic and partition administration, valid and not, for two brokers that are compared. */
import { type Api, api } from '../../src/client/apis.ts';
import {
  readAlterPartitionReassignmentsResponse,
  writeAlterPartitionReassignmentsRequest,
} from '../../src/protocol/generated/AlterPartitionReassignments.ts';
import {
  readAlterReplicaLogDirsResponse,
  writeAlterReplicaLogDirsRequest,
} from '../../src/protocol/generated/AlterReplicaLogDirs.ts';
import { ApiKey } from '../../src/protocol/generated/api-keys.ts';
import {
  type CreatePartitionsRequestInput,
  readCreatePartitionsResponse,
  writeCreatePartitionsRequest,
} from '../../src/protocol/generated/CreatePartitions.ts';
import {
  type CreateTopicsRequestInput,
  readCreateTopicsResponse,
  writeCreateTopicsRequest,
} from '../../src/protocol/generated/CreateTopics.ts';
import {
  readDeleteRecordsResponse,
  writeDeleteRecordsRequest,
} from '../../src/protocol/generated/DeleteRecords.ts';
import {
  type DeleteTopicsRequestInput,
  readDeleteTopicsResponse,
  writeDeleteTopicsRequest,
} from '../../src/protocol/generated/DeleteTopics.ts';
import {
  readDescribeLogDirsResponse,
  writeDescribeLogDirsRequest,
} from '../../src/protocol/generated/DescribeLogDirs.ts';
import {
  readDescribeTopicPartitionsResponse,
  writeDescribeTopicPartitionsRequest,
} from '../../src/protocol/generated/DescribeTopicPartitions.ts';
import {
  readElectLeadersResponse,
  writeElectLeadersRequest,
} from '../../src/protocol/generated/ElectLeaders.ts';
import { readFetchResponse, writeFetchRequest } from '../../src/protocol/generated/Fetch.ts';
import {
  readListOffsetsResponse,
  writeListOffsetsRequest,
} from '../../src/protocol/generated/ListOffsets.ts';
import {
  readListPartitionReassignmentsResponse,
  writeListPartitionReassignmentsRequest,
} from '../../src/protocol/generated/ListPartitionReassignments.ts';
import {
  readOffsetForLeaderEpochResponse,
  writeOffsetForLeaderEpochRequest,
} from '../../src/protocol/generated/OffsetForLeaderEpoch.ts';
import type { WirePeer, WireStep } from './compare-wire.ts';

const createPartitions = api(
  ApiKey.CreatePartitions,
  writeCreatePartitionsRequest,
  readCreatePartitionsResponse,
);
const createTopics = api(ApiKey.CreateTopics, writeCreateTopicsRequest, readCreateTopicsResponse);
const deleteTopics = api(ApiKey.DeleteTopics, writeDeleteTopicsRequest, readDeleteTopicsResponse);
const deleteRecords = api(ApiKey.DeleteRecords, writeDeleteRecordsRequest, readDeleteRecordsResponse);
const describePartitions = api(
  ApiKey.DescribeTopicPartitions,
  writeDescribeTopicPartitionsRequest,
  readDescribeTopicPartitionsResponse,
);
const describeLogDirs = api(ApiKey.DescribeLogDirs, writeDescribeLogDirsRequest, readDescribeLogDirsResponse);
const alterLogDirs = api(
  ApiKey.AlterReplicaLogDirs,
  writeAlterReplicaLogDirsRequest,
  readAlterReplicaLogDirsResponse,
);
const epochEnds = api(
  ApiKey.OffsetForLeaderEpoch,
  writeOffsetForLeaderEpochRequest,
  readOffsetForLeaderEpochResponse,
);
const electLeaders = api(ApiKey.ElectLeaders, writeElectLeadersRequest, readElectLeadersResponse);
const listReassignments = api(
  ApiKey.ListPartitionReassignments,
  writeListPartitionReassignmentsRequest,
  readListPartitionReassignmentsResponse,
);
const alterReassignments = api(
  ApiKey.AlterPartitionReassignments,
  writeAlterPartitionReassignmentsRequest,
  readAlterPartitionReassignmentsResponse,
);
const listOffsets = api(ApiKey.ListOffsets, writeListOffsetsRequest, readListOffsetsResponse);
const fetchRecords = api(ApiKey.Fetch, writeFetchRequest, readFetchResponse);

const TIMEOUT_MS = 20_000;
const LONG_NAME = 'n'.repeat(250);

function step<Req, Res>(name: string, call: Api<Req, Res>, body: Req, version?: number): WireStep {
  return [name, (peer) => peer.ask(call, body, version)];
}

/** Waits until a broker serves partitions that it has just made: Kafka answers before it does. */
function serving(topic: string, count: number): WireStep {
  return [
    `${topic} serves ${count} partitions`,
    async (peer) => {
      for (let tries = 0; tries < 200; tries++) {
        const partitions = Array.from({ length: count }, (_, partitionIndex) => ({
          partitionIndex,
          timestamp: -1,
        }));
        const answer = await peer.ask(listOffsets, { replicaId: -1, topics: [{ name: topic, partitions }] });
        if (!('failed' in answer) && answer.topics[0]!.partitions.every((each) => each.errorCode === 0)) {
          return { served: count };
        }
        await new Promise((resolve) => setTimeout(resolve, 50));
      }
      return { served: 'never' };
    },
  ];
}

type NewTopic = Partial<CreateTopicsRequestInput['topics'][number]>;

function newTopic(name: string, settings: NewTopic = {}): CreateTopicsRequestInput['topics'][number] {
  return { name, numPartitions: 1, replicationFactor: 1, assignments: [], configs: [], ...settings };
}

function create(name: string, topics: NewTopic[], validateOnly = false, version?: number): WireStep {
  const body = {
    timeoutMs: TIMEOUT_MS,
    validateOnly,
    topics: topics.map((each) => newTopic(each.name!, each)),
  };
  return step(name, createTopics, body, version);
}

function grow(
  name: string,
  topics: CreatePartitionsRequestInput['topics'],
  validateOnly = false,
  version?: number,
): WireStep {
  return step(`grow: ${name}`, createPartitions, { timeoutMs: TIMEOUT_MS, validateOnly, topics }, version);
}

function assigned(...brokers: number[][]): { brokerIds: number[] }[] {
  return brokers.map((brokerIds) => ({ brokerIds }));
}

function partitionCount(topic: string, when: string): WireStep {
  return [
    `partitions of ${topic} ${when}`,
    async (peer) => {
      const { topics } = await (await peer.client()).metadata([topic]);
      return topics[0]!.partitions.map((each) => [
        each.partitionIndex,
        each.leaderId,
        each.leaderEpoch,
        each.replicaNodes,
        each.isrNodes,
      ]);
    },
  ];
}

function produce(topic: string, count: number, from = 0): WireStep {
  return [
    `produce ${count} to ${topic} at ${from}`,
    async (peer) => {
      const client = await peer.client();
      const offsets: number[] = [];
      for (let n = 0; n < count; n++) {
        const answer = await client.produce(topic, 0, [
          { key: null, value: Buffer.from(`v${n}`), timestamp: 1000 + n },
        ]);
        offsets.push(answer!.baseOffset);
      }
      return offsets;
    },
    'ordered',
  ];
}

function cut(
  name: string,
  topic: string,
  partitions: readonly (readonly [number, number])[],
  version?: number,
): WireStep {
  const body = {
    timeoutMs: TIMEOUT_MS,
    topics: [
      { name: topic, partitions: partitions.map(([partitionIndex, offset]) => ({ partitionIndex, offset })) },
    ],
  };
  return step(`delete records: ${name}`, deleteRecords, body, version);
}

function offsetsOf(topic: string, when: string): WireStep {
  return [
    `offsets of ${topic} ${when}`,
    async (peer) => {
      const found: unknown[] = [];
      for (const timestamp of [-2, -1, -3, -4, -5, -6, 0, 1004, 5000]) {
        const partitions = [{ partitionIndex: 0, timestamp }];
        found.push(await peer.ask(listOffsets, { replicaId: -1, topics: [{ name: topic, partitions }] }));
      }
      return found;
    },
    'ordered',
  ];
}

function fetchAt(topic: string, offset: number, when: string): WireStep {
  return [
    `fetch ${topic} at ${offset} ${when}`,
    async (peer) => {
      const topicId = await peer.topicId(topic);
      const answer = await peer.ask(fetchRecords, {
        maxWaitMs: 0,
        minBytes: 0,
        topics: [
          { topicId, partitions: [{ partition: 0, fetchOffset: offset, partitionMaxBytes: 1 << 20 }] },
        ],
      });
      if ('failed' in answer) return answer;
      return answer.responses.map(({ partitions }) =>
        partitions.map((each) => ({ ...each, records: each.records?.length ?? null })),
      );
    },
  ];
}

const CREATE_PARTITIONS: WireStep[] = [
  create('topics to grow', [
    ...[0, 1, 2, 3].map((version) => ({ name: `grow-${version}` })),
    { name: 'grow' },
    { name: 'grow-assigned' },
  ]),
  serving('grow', 1),
  ...[0, 1, 2, 3].flatMap((version) => [
    grow(`v${version}`, [{ name: `grow-${version}`, count: 3, assignments: null }], false, version),
    serving(`grow-${version}`, 3),
    partitionCount(`grow-${version}`, 'after'),
  ]),
  grow('validate only', [{ name: 'grow', count: 5, assignments: null }], true),
  partitionCount('grow', 'after validation'),
  ...[1, 0, -1, -5].map((count) => grow(`1 to ${count}`, [{ name: 'grow', count, assignments: null }])),
  grow('a topic that is missing', [{ name: 'missing', count: 5, assignments: null }]),
  grow('a name that no topic can have', [{ name: 'a b', count: 5, assignments: null }]),
  grow('an empty name', [{ name: '', count: 5, assignments: null }]),
  grow('a topic twice', [
    { name: 'grow', count: 5, assignments: null },
    { name: 'grow', count: 6, assignments: null },
    { name: 'missing', count: 6, assignments: null },
  ]),
  grow('no topic', []),
  grow('the metadata log', [{ name: '__cluster_metadata', count: 5, assignments: null }]),
  grow('too many', [{ name: 'grow', count: 10_100, assignments: null }]),
  grow('far too many', [{ name: 'grow', count: 2 ** 31 - 1, assignments: null }]),
  grow('too few assignments', [{ name: 'grow', count: 4, assignments: assigned([1]) }]),
  grow('too many assignments', [{ name: 'grow', count: 2, assignments: assigned([1], [1]) }]),
  grow('no assignments', [{ name: 'grow', count: 2, assignments: [] }]),
  grow('a broker that is missing', [{ name: 'grow', count: 2, assignments: assigned([7]) }]),
  grow('a broker twice', [{ name: 'grow', count: 2, assignments: assigned([1, 1]) }]),
  grow('two brokers', [{ name: 'grow', count: 2, assignments: assigned([1, 7]) }]),
  grow('a negative broker', [{ name: 'grow', count: 2, assignments: assigned([-1]) }]),
  grow('an empty assignment', [{ name: 'grow', count: 2, assignments: assigned([]) }]),
  partitionCount('grow', 'after refusals'),
  grow('assigned', [{ name: 'grow-assigned', count: 3, assignments: assigned([1], [1]) }]),
  serving('grow-assigned', 3),
  partitionCount('grow-assigned', 'after'),
];

const DELETE_RECORDS: WireStep[] = [
  create('topics to cut', [
    // Its records are old: Kafka's retention would take them while the test runs.
    { name: 'cut', numPartitions: 2, configs: [{ name: 'retention.ms', value: '-1' }] },
    { name: 'compacted', configs: [{ name: 'cleanup.policy', value: 'compact' }] },
    { name: 'both', configs: [{ name: 'cleanup.policy', value: 'compact,delete' }] },
  ]),
  serving('cut', 2),
  serving('compacted', 1),
  serving('both', 1),
  produce('cut', 10),
  cut('v0', 'cut', [[0, 3]], 0),
  cut('v1', 'cut', [[0, 4]], 1),
  cut('v2', 'cut', [[0, 5]], 2),
  offsetsOf('cut', 'after'),
  fetchAt('cut', 4, 'below the start'),
  fetchAt('cut', 5, 'at the start'),
  fetchAt('cut', 11, 'past the end'),
  cut('below the start', 'cut', [[0, 2]]),
  cut('at 0', 'cut', [[0, 0]]),
  cut('at the start', 'cut', [[0, 5]]),
  cut('past the high watermark', 'cut', [[0, 11]]),
  cut('negative', 'cut', [[0, -2]]),
  cut('a missing partition', 'cut', [
    [2, 0],
    [0, 6],
    [-1, 0],
  ]),
  cut('a partition twice', 'cut', [
    [0, 7],
    [0, 8],
  ]),
  cut('an empty partition', 'cut', [[1, 0]]),
  cut('an empty partition, high watermark', 'cut', [[1, -1]]),
  cut('no partition', 'cut', []),
  cut('a missing topic', 'missing', [[0, 0]]),
  cut('a name that no topic can have', 'a b', [[0, 0]]),
  cut('the high watermark', 'cut', [[0, -1]]),
  offsetsOf('cut', 'when all is cut'),
  fetchAt('cut', 10, 'at the end'),
  produce('cut', 1, 10),
  fetchAt('cut', 10, 'after all was cut'),
  cut('compacted', 'compacted', [[0, 0]]),
  cut('compacted and deleted', 'both', [[0, 0]]),
  step('delete records: no topic', deleteRecords, { timeoutMs: TIMEOUT_MS, topics: [] }),
  step('delete records: no time', deleteRecords, {
    timeoutMs: 0,
    topics: [{ name: 'cut', partitions: [{ partitionIndex: 0, offset: 11 }] }],
  }),
  step('delete records: a topic twice', deleteRecords, {
    timeoutMs: TIMEOUT_MS,
    topics: [
      { name: 'cut', partitions: [{ partitionIndex: 0, offset: 11 }] },
      { name: 'cut', partitions: [{ partitionIndex: 1, offset: 0 }] },
    ],
  }),
];

function describe(
  name: string,
  topics: string[],
  responsePartitionLimit = 2000,
  cursor: { topicName: string; partitionIndex: number } | null = null,
): WireStep {
  const body = { topics: topics.map((each) => ({ name: each })), responsePartitionLimit, cursor };
  return [`describe: ${name}`, (peer) => peer.ask(describePartitions, body), 'ordered'];
}

const DESCRIBE: WireStep[] = [
  create('topics to describe', [
    { name: 'd-a', numPartitions: 3 },
    { name: 'd-b', numPartitions: 2 },
    { name: 'd-c', numPartitions: 4 },
  ]),
  serving('d-a', 3),
  serving('d-b', 2),
  serving('d-c', 4),
  describe('one', ['d-a']),
  describe('not in order', ['d-c', 'd-a', 'd-b']),
  describe('all', []),
  describe('missing', ['missing', 'd-a']),
  describe('a name that no topic can have', ['a b']),
  describe('twice', ['d-a', 'd-a']),
  ...[0, -1, 1, 2, 3, 4, 5, 6, 9].map((limit) => describe(`limit ${limit}`, ['d-a', 'd-b', 'd-c'], limit)),
  describe('cursor in the first', ['d-a', 'd-b', 'd-c'], 3, { topicName: 'd-a', partitionIndex: 1 }),
  describe('cursor at the second', ['d-a', 'd-b', 'd-c'], 3, { topicName: 'd-b', partitionIndex: 0 }),
  describe('cursor past the partitions', ['d-a', 'd-b', 'd-c'], 3, { topicName: 'd-a', partitionIndex: 9 }),
  describe('cursor below the partitions', ['d-a', 'd-b'], 3, { topicName: 'd-a', partitionIndex: -1 }),
  describe('cursor at a topic that is not asked for', ['d-a', 'd-c'], 3, {
    topicName: 'd-b',
    partitionIndex: 1,
  }),
  describe('cursor at a missing topic', ['d-a', 'd-c'], 3, { topicName: 'd-bb', partitionIndex: 0 }),
  describe('cursor past all', ['d-a', 'd-c'], 3, { topicName: 'zz', partitionIndex: 0 }),
  describe('cursor and all', [], 3, { topicName: 'd-b', partitionIndex: 1 }),
  describe('cursor and all, at a missing topic', [], 3, { topicName: 'd-bb', partitionIndex: 1 }),
  describe('cursor and all, past all', [], 3, { topicName: 'zz', partitionIndex: 1 }),
  describe('cursor and all, negative', [], 3, { topicName: 'd-a', partitionIndex: -1 }),
  describe('internal', ['__consumer_offsets']),
];

const LOG_DIRS: WireStep[] = [
  ...[1, 2, 3, 4, 5].map(
    (version): WireStep => [
      `log dirs: v${version}`,
      async (peer) => {
        const topics = [{ topic: 'cut', partitions: [0, 1] }];
        return logDirs(await peer.ask(describeLogDirs, { topics }, version), peer);
      },
    ],
  ),
  [
    'log dirs: missing',
    async (peer) =>
      logDirs(
        await peer.ask(describeLogDirs, {
          topics: [
            { topic: 'missing', partitions: [0] },
            { topic: 'cut', partitions: [7, 1] },
          ],
        }),
        peer,
      ),
  ],
  [
    'log dirs: twice',
    async (peer) =>
      logDirs(await peer.ask(describeLogDirs, { topics: [{ topic: 'cut', partitions: [1, 1] }] }), peer),
  ],
  ['log dirs: none', async (peer) => logDirs(await peer.ask(describeLogDirs, { topics: [] }), peer)],
  ['log dirs: all', async (peer) => logDirs(await peer.ask(describeLogDirs, { topics: null }), peer)],
  ...[1, 2].map(
    (version): WireStep => [
      `move: v${version}`,
      async (peer) => move(peer, peer.dataDir, 'cut', [0, 1], version),
    ],
  ),
  ['move: elsewhere', async (peer) => move(peer, '/tmp/no-such-dir', 'cut', [0])],
  ['move: relative', async (peer) => move(peer, 'data', 'cut', [0])],
  ['move: nowhere', async (peer) => move(peer, '', 'cut', [0])],
  ['move: missing', async (peer) => move(peer, peer.dataDir, 'cut', [7, 1, -1])],
  ['move: a missing topic', async (peer) => move(peer, peer.dataDir, 'missing', [0])],
  ['move: missing and elsewhere', async (peer) => move(peer, '/tmp/no-such-dir', 'missing', [0])],
  ['move: twice', async (peer) => move(peer, peer.dataDir, 'cut', [0, 0])],
  ['move: a slash at the end', async (peer) => move(peer, `${peer.dataDir}/`, 'cut', [0])],
  ['move: a way around', async (peer) => move(peer, `${peer.dataDir}/../data`, 'cut', [0])],
  [
    'move: to two',
    (peer) =>
      peer.ask(alterLogDirs, {
        dirs: [
          { path: peer.dataDir, topics: [{ name: 'cut', partitions: [0] }] },
          { path: '/tmp/no-such-dir', topics: [{ name: 'cut', partitions: [0, 1] }] },
        ],
      }),
  ],
  step('move: nothing', alterLogDirs, { dirs: [] }),
];

/** The directory's path and its space are the machine's; sizes of records are the same. */
function logDirs(answer: unknown, peer: WirePeer): unknown {
  if ('failed' in (answer as object)) return answer;
  const { results, ...rest } = answer as ReturnType<typeof describeLogDirs.read>;
  return {
    ...rest,
    results: results.map((dir) => ({
      ...dir,
      logDir: dir.logDir === peer.dataDir,
      totalBytes: dir.totalBytes > 0,
      usableBytes: dir.usableBytes > 0 && dir.usableBytes < dir.totalBytes,
      topics: dir.topics
        .map(({ name, partitions }) => ({
          name,
          partitions: [...partitions].sort((a, b) => a.partitionIndex - b.partitionIndex),
        }))
        .sort((a, b) => (a.name < b.name ? -1 : 1)),
    })),
  };
}

function move(
  peer: WirePeer,
  path: string,
  name: string,
  partitions: number[],
  version?: number,
): Promise<unknown> {
  return peer.ask(alterLogDirs, { dirs: [{ path, topics: [{ name, partitions }] }] }, version);
}

function epochs(
  name: string,
  topic: string,
  asked: readonly (readonly [partition: number, current: number, epoch: number])[],
  version?: number,
): WireStep {
  return step(
    `epochs: ${name}`,
    epochEnds,
    {
      replicaId: -1,
      topics: [
        {
          topic,
          partitions: asked.map(([partition, currentLeaderEpoch, leaderEpoch]) => ({
            partition,
            currentLeaderEpoch,
            leaderEpoch,
          })),
        },
      ],
    },
    version,
  );
}

const EPOCHS: WireStep[] = [
  ...[2, 3, 4].map((version) => epochs(`v${version}`, 'cut', [[0, -1, 0]], version)),
  epochs('a later epoch', 'cut', [[0, -1, 5]]),
  epochs('a negative epoch', 'cut', [
    [0, -1, -1],
    [1, -1, -5],
  ]),
  epochs('an empty partition', 'cut', [
    [1, -1, 0],
    [1, 0, 0],
  ]),
  epochs('current epochs', 'cut', [
    [0, 0, 0],
    [1, 1, 0],
  ]),
  epochs('a missing partition', 'cut', [
    [7, -1, 0],
    [-1, 0, 0],
  ]),
  epochs('a missing topic', 'missing', [[0, -1, 0]]),
  epochs('a partition twice', 'cut', [
    [0, -1, 0],
    [0, -1, 1],
  ]),
  step('epochs: none', epochEnds, { replicaId: -1, topics: [] }),
  step('epochs: a follower', epochEnds, {
    replicaId: 5,
    topics: [{ topic: 'cut', partitions: [{ partition: 0, leaderEpoch: 0 }] }],
  }),
];

function elect(
  name: string,
  electionType: number,
  topicPartitions: { topic: string; partitions: number[] }[] | null,
  version?: number,
): WireStep {
  return step(
    `elect: ${name}`,
    electLeaders,
    { ...(version === 0 ? {} : { electionType }), topicPartitions, timeoutMs: TIMEOUT_MS },
    version,
  );
}

const ELECTIONS: WireStep[] = [
  ...[0, 1, 2].map((version) => elect(`v${version}`, 0, [{ topic: 'cut', partitions: [0, 1] }], version)),
  elect('all', 0, null),
  elect('all, v0', 0, null, 0),
  elect('unclean', 1, [{ topic: 'cut', partitions: [0, 1] }]),
  elect('all, unclean', 1, null),
  elect('a type that is missing', 2, [{ topic: 'cut', partitions: [0] }]),
  elect('a negative type', -1, null),
  elect('missing', 0, [
    { topic: 'missing', partitions: [0] },
    { topic: 'cut', partitions: [7, 0, -1] },
  ]),
  elect('missing, unclean', 1, [
    { topic: 'missing', partitions: [0] },
    { topic: 'cut', partitions: [7] },
  ]),
  elect('a partition twice', 0, [{ topic: 'cut', partitions: [0, 0] }]),
  elect('a topic twice', 0, [
    { topic: 'cut', partitions: [0] },
    { topic: 'cut', partitions: [1] },
  ]),
  elect('none', 0, []),
  elect('no partition', 0, [{ topic: 'cut', partitions: [] }]),
  step('elect: no time', electLeaders, { electionType: 0, topicPartitions: null, timeoutMs: 0 }),
];

type Reassigned = readonly [partitionIndex: number, replicas: number[] | null];

function reassign(
  name: string,
  topic: string,
  partitions: readonly Reassigned[],
  allowReplicationFactorChange = true,
  version = 1,
): WireStep {
  return step(
    `reassign: ${name}`,
    alterReassignments,
    {
      timeoutMs: TIMEOUT_MS,
      ...(version > 0 ? { allowReplicationFactorChange } : {}),
      topics: [
        {
          name: topic,
          partitions: partitions.map(([partitionIndex, replicas]) => ({ partitionIndex, replicas })),
        },
      ],
    },
    version,
  );
}

const REASSIGNMENTS: WireStep[] = [
  ...[0, 1].map((version) =>
    reassign(
      `v${version}`,
      'cut',
      [
        [0, [1]],
        [1, [1]],
      ],
      true,
      version,
    ),
  ),
  reassign('to the same, factor fixed', 'cut', [[0, [1]]], false),
  reassign('to more, factor fixed', 'cut', [[0, [1, 2]]], false),
  reassign('to none, factor fixed', 'cut', [[0, []]], false),
  reassign('cancel', 'cut', [[0, null]]),
  reassign('cancel, factor fixed', 'cut', [[0, null]], false),
  reassign('cancel what is missing', 'cut', [
    [7, null],
    [-1, null],
  ]),
  reassign('to another', 'cut', [[0, [2]]]),
  reassign('to two', 'cut', [[0, [1, 2]]]),
  reassign('to one twice', 'cut', [[0, [1, 1]]]),
  reassign('to none', 'cut', [[0, []]]),
  reassign('to a negative one', 'cut', [[0, [-1]]]),
  reassign('a missing partition', 'cut', [
    [7, [1]],
    [-1, [1]],
  ]),
  reassign('a missing topic', 'missing', [[0, [1]]]),
  reassign('a name that no topic can have', 'a b', [[0, [1]]]),
  reassign('a partition twice', 'cut', [
    [0, [1]],
    [0, [2]],
  ]),
  reassign('no partition', 'cut', []),
  step('reassign: none', alterReassignments, { timeoutMs: TIMEOUT_MS, topics: [] }),
  step('reassign: no time', alterReassignments, {
    timeoutMs: 0,
    topics: [{ name: 'cut', partitions: [{ partitionIndex: 0, replicas: [1] }] }],
  }),
  partitionCount('cut', 'after reassignments'),
  step('reassignments: all', listReassignments, { timeoutMs: TIMEOUT_MS, topics: null }),
  step('reassignments: some', listReassignments, {
    timeoutMs: TIMEOUT_MS,
    topics: [
      { name: 'cut', partitionIndexes: [0, 7] },
      { name: 'missing', partitionIndexes: [0] },
    ],
  }),
  step('reassignments: none', listReassignments, { timeoutMs: TIMEOUT_MS, topics: [] }),
  step('reassignments: twice', listReassignments, {
    timeoutMs: TIMEOUT_MS,
    topics: [
      { name: 'cut', partitionIndexes: [0, 0] },
      { name: 'cut', partitionIndexes: [0] },
    ],
  }),
];

const ALL_CONFIGS: NewTopic['configs'] = [
  { name: 'retention.ms', value: '1000' },
  { name: 'cleanup.policy', value: ' compact , delete ' },
  { name: 'compression.type', value: 'zstd' },
];

const CREATE: WireStep[] = [
  ...[2, 3, 4, 5, 6, 7].flatMap((version) => [
    create(
      `create: v${version}, validate only`,
      [{ name: `c-${version}`, configs: ALL_CONFIGS }],
      true,
      version,
    ),
    create(`create: v${version}`, [{ name: `c-${version}`, configs: ALL_CONFIGS }], false, version),
    create(`create: v${version}, again`, [{ name: `c-${version}` }], false, version),
    create(`create: v${version}, again, validate only`, [{ name: `c-${version}` }], true, version),
  ]),
  create('create: defaults', [{ name: 'c-defaults', numPartitions: -1, replicationFactor: -1 }]),
  create(
    'create: names that no topic can have',
    ['', '.', '..', 'a b', 'ü', LONG_NAME].map((name) => ({ name })),
  ),
  create('create: internal names', [{ name: '__cluster_metadata' }], true),
  create('create: a name that collides', [{ name: 'c.2' }, { name: 'c_2' }]),
  create('create: twice', [{ name: 'c-twice' }, { name: 'c-twice' }, { name: 'c-once' }]),
  create(
    'create: counts',
    [0, -2, -5].map((numPartitions) => ({ name: `c-count${numPartitions}`, numPartitions })),
  ),
  create(
    'create: factors',
    [0, -2, 2, 100].map((replicationFactor) => ({ name: `c-factor${replicationFactor}`, replicationFactor })),
  ),
  create('create: too many', [{ name: 'c-many', numPartitions: 10_001 }, { name: 'c-few' }], true),
  create(
    'create: too many together',
    [
      { name: 'c-many', numPartitions: 5000 },
      { name: 'c-more', numPartitions: 5001 },
    ],
    true,
  ),
  create('create: none', []),
  create('create: assigned', [
    {
      name: 'c-assigned',
      numPartitions: -1,
      replicationFactor: -1,
      assignments: [
        { partitionIndex: 0, brokerIds: [1] },
        { partitionIndex: 1, brokerIds: [1] },
      ],
    },
  ]),
  create(
    'create: assigned, validate only',
    [
      {
        name: 'c-assigned-2',
        numPartitions: -1,
        replicationFactor: -1,
        assignments: [
          { partitionIndex: 1, brokerIds: [1] },
          { partitionIndex: 0, brokerIds: [1] },
        ],
      },
    ],
    true,
  ),
  ...(
    [
      ['a count beside', 1, -1, [[0, [1]]]],
      ['a factor beside', -1, 1, [[0, [1]]]],
      [
        'a gap',
        -1,
        -1,
        [
          [0, [1]],
          [2, [1]],
        ],
      ],
      ['not from 0', -1, -1, [[1, [1]]]],
      ['a missing broker', -1, -1, [[0, [7]]]],
      ['no broker', -1, -1, [[0, []]]],
      ['a broker twice', -1, -1, [[0, [1, 1]]]],
      [
        'a partition twice',
        -1,
        -1,
        [
          [0, [1]],
          [0, [1]],
        ],
      ],
      [
        'different sizes',
        -1,
        -1,
        [
          [0, [1]],
          [1, [1, 7]],
        ],
      ],
      [
        'a negative partition',
        -1,
        -1,
        [
          [-1, [1]],
          [0, [1]],
        ],
      ],
    ] as const
  ).map(([name, numPartitions, replicationFactor, assignments]) =>
    create(`create, assigned: ${name}`, [
      {
        name: 'c-no',
        numPartitions,
        replicationFactor,
        assignments: assignments.map(([partitionIndex, brokerIds]) => ({
          partitionIndex,
          brokerIds: [...brokerIds],
        })),
      },
    ]),
  ),
  ...(
    [
      ['unknown', 'no.such.config', '1'],
      ['a value of another type', 'retention.ms', 'x'],
      ['out of range', 'retention.ms', '-2'],
      ['null', 'retention.ms', null],
      ['empty', 'retention.ms', ''],
      ['a bad policy', 'cleanup.policy', 'x'],
      ['no policy', 'cleanup.policy', ''],
      ['a broker key', 'log.retention.ms', '1'],
      ['a boolean', 'preallocate', 'TRUE'],
      ['spaces', 'retention.ms', ' 5 '],
    ] as const
  ).map(([name, key, value]) =>
    create(`create, config: ${name}`, [{ name: 'c-config', configs: [{ name: key, value }] }], true),
  ),
];

function remove(name: string, body: Partial<DeleteTopicsRequestInput>, version?: number): WireStep {
  return step(
    `delete: ${name}`,
    deleteTopics,
    { topics: [], topicNames: [], timeoutMs: TIMEOUT_MS, ...body },
    version,
  );
}

const ZERO_ID = 'AAAAAAAAAAAAAAAAAAAAAA';

const DELETE: WireStep[] = [
  ...[1, 2, 3, 4, 5].map((version) =>
    remove(`v${version}`, { topicNames: [`c-${version}`, 'c-2'] }, version),
  ),
  remove('v6', { topics: [{ name: 'c-6', topicId: ZERO_ID }] }, 6),
  [
    'delete: by id',
    async (peer) =>
      peer.ask(deleteTopics, {
        topics: [{ name: null, topicId: await peer.topicId('c-7') }],
        topicNames: [],
        timeoutMs: TIMEOUT_MS,
      }),
  ],
  remove('missing', { topics: [{ name: 'missing', topicId: ZERO_ID }] }),
  remove('a missing id', { topics: [{ name: null, topicId: 'EREREREREREREREREREREQ' }] }),
  remove('neither name nor id', { topics: [{ name: null, topicId: ZERO_ID }] }),
  remove('both name and id', { topics: [{ name: 'c-once', topicId: 'EREREREREREREREREREREQ' }] }),
  [
    'delete: by name and by id',
    async (peer) =>
      peer.ask(deleteTopics, {
        topics: [
          { name: 'c-once', topicId: ZERO_ID },
          { name: null, topicId: await peer.topicId('c-once') },
        ],
        topicNames: [],
        timeoutMs: TIMEOUT_MS,
      }),
  ],
  remove('twice', {
    topics: [
      { name: 'c-assigned', topicId: ZERO_ID },
      { name: 'c-assigned', topicId: ZERO_ID },
    ],
  }),
  remove('a missing one twice', {
    topics: [
      { name: 'missing', topicId: ZERO_ID },
      { name: 'missing', topicId: ZERO_ID },
    ],
  }),
  remove('a name that no topic can have', { topics: [{ name: 'a b', topicId: ZERO_ID }] }),
  remove('the metadata log', { topics: [{ name: '__cluster_metadata', topicId: ZERO_ID }] }),
  remove('none', {}),
];

export const ADMIN_STEPS: readonly WireStep[] = [
  ...CREATE_PARTITIONS,
  ...DELETE_RECORDS,
  ...DESCRIBE,
  ...LOG_DIRS,
  ...EPOCHS,
  ...ELECTIONS,
  ...REASSIGNMENTS,
  ...CREATE,
  ...DELETE,
];

/** Requests of topic and partition administration, valid and not, for two brokers that are compared. */
import type { DeleteTopicsRequestInput } from '../../src/protocol/generated/DeleteTopics.ts';
import {
  create,
  deleteTopics,
  describePartitions,
  type NewTopic,
  serving,
  step,
  TIMEOUT_MS,
} from './admin-calls.ts';
import { CREATE_PARTITIONS, DELETE_RECORDS } from './admin-partition-steps.ts';
import { ELECTIONS, EPOCHS, LOG_DIRS, REASSIGNMENTS } from './admin-replica-steps.ts';
import type { WireStep } from './compare-wire.ts';

const LONG_NAME = 'n'.repeat(250);

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

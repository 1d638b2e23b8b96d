/** More partitions, and fewer records. */
import type { CreatePartitionsRequestInput } from '../../src/protocol/generated/CreatePartitions.ts';
import {
  create,
  createPartitions,
  deleteRecords,
  fetchRecords,
  listOffsets,
  partitionCount,
  serving,
  step,
  TIMEOUT_MS,
} from './admin-calls.ts';
import type { WireStep } from './compare-wire.ts';

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

export const CREATE_PARTITIONS: WireStep[] = [
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

export const DELETE_RECORDS: WireStep[] = [
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

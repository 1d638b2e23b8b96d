/** Log directories, epochs, elections and reassignments. */
import {
  alterLogDirs,
  alterReassignments,
  describeLogDirs,
  electLeaders,
  epochEnds,
  listReassignments,
  partitionCount,
  step,
  TIMEOUT_MS,
} from './admin-calls.ts';
import type { WirePeer, WireStep } from './compare-wire.ts';

export const LOG_DIRS: WireStep[] = [
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

export const EPOCHS: WireStep[] = [
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

export const ELECTIONS: WireStep[] = [
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

export const REASSIGNMENTS: WireStep[] = [
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

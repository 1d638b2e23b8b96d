/** Administration of topics and partitions over the broker's requests. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { OffsetCheckpoint, parsePartitionMetadata } from '../../src/log/checkpoints.ts';
import { errorName } from '../../src/protocol/errors.ts';
import {
  readAlterPartitionReassignmentsResponse,
  writeAlterPartitionReassignmentsRequest,
} from '../../src/protocol/generated/AlterPartitionReassignments.ts';
import {
  readAlterReplicaLogDirsResponse,
  writeAlterReplicaLogDirsRequest,
} from '../../src/protocol/generated/AlterReplicaLogDirs.ts';
import {
  type CreatePartitionsRequestInput,
  readCreatePartitionsResponse,
  writeCreatePartitionsRequest,
} from '../../src/protocol/generated/CreatePartitions.ts';
import {
  readDeleteRecordsResponse,
  writeDeleteRecordsRequest,
} from '../../src/protocol/generated/DeleteRecords.ts';
import {
  readDescribeLogDirsResponse,
  writeDescribeLogDirsRequest,
} from '../../src/protocol/generated/DescribeLogDirs.ts';
import {
  type DescribeTopicPartitionsRequestInput,
  readDescribeTopicPartitionsResponse,
  writeDescribeTopicPartitionsRequest,
} from '../../src/protocol/generated/DescribeTopicPartitions.ts';
import {
  readElectLeadersResponse,
  writeElectLeadersRequest,
} from '../../src/protocol/generated/ElectLeaders.ts';
import {
  readListPartitionReassignmentsResponse,
  writeListPartitionReassignmentsRequest,
} from '../../src/protocol/generated/ListPartitionReassignments.ts';
import {
  readOffsetForLeaderEpochResponse,
  writeOffsetForLeaderEpochRequest,
} from '../../src/protocol/generated/OffsetForLeaderEpoch.ts';
import type { Reader } from '../../src/protocol/reader.ts';
import type { Writer } from '../../src/protocol/writer.ts';
import { BroadsheetError } from '../../src/runtime/errors.ts';
import { offsetsText } from '../support/checkpoint-text.ts';
import { MemoryEngine } from '../support/memory-log.ts';
import { TestBroker } from './test-broker.ts';
import { batch, TestClient } from './test-client.ts';

const LOG_STARTS = '/data/log-start-offset-checkpoint';

let engine: MemoryEngine;
let broker: TestBroker;
let client: TestClient;
beforeEach(async () => {
  engine = new MemoryEngine();
  await start();
});
afterEach(() => broker.close());

async function start(config: Record<string, string> = {}): Promise<void> {
  broker = await TestBroker.start(config, engine);
  client = new TestClient(broker);
}

async function restart(): Promise<void> {
  await broker.close();
  await start();
}

/** How one API is called here. */
function caller<Body, Answer>(
  key: number,
  newest: number,
  write: (writer: Writer, version: number, body: Body) => void,
  read: (reader: Reader, version: number) => Answer,
) {
  return (body: Body, version = newest) =>
    broker.ask(client.peer, key, version, (writer) => write(writer, version, body), read);
}

const createPartitions = caller(37, 3, writeCreatePartitionsRequest, readCreatePartitionsResponse);
const deleteRecords = caller(21, 2, writeDeleteRecordsRequest, readDeleteRecordsResponse);
const describeTopics = caller(
  75,
  0,
  writeDescribeTopicPartitionsRequest,
  readDescribeTopicPartitionsResponse,
);
const describeLogDirs = caller(35, 5, writeDescribeLogDirsRequest, readDescribeLogDirsResponse);
const alterLogDirs = caller(34, 2, writeAlterReplicaLogDirsRequest, readAlterReplicaLogDirsResponse);
const epochEnds = caller(23, 4, writeOffsetForLeaderEpochRequest, readOffsetForLeaderEpochResponse);
const elect = caller(43, 2, writeElectLeadersRequest, readElectLeadersResponse);
const listReassignments = caller(
  46,
  0,
  writeListPartitionReassignmentsRequest,
  readListPartitionReassignmentsResponse,
);
const alterReassignments = caller(
  45,
  1,
  writeAlterPartitionReassignmentsRequest,
  readAlterPartitionReassignmentsResponse,
);

async function grow(
  topics: CreatePartitionsRequestInput['topics'],
  validateOnly = false,
  version = 3,
): Promise<Record<string, string>> {
  const { results } = await createPartitions({ topics, timeoutMs: 1000, validateOnly }, version);
  return Object.fromEntries(results.map(({ name, errorCode }) => [name, errorName(errorCode)]));
}

/** Deletes the records of t-0 below an offset: the error and the low watermark. */
async function cut(offset: number, topic = 't', partitionIndex = 0, version = 2): Promise<[string, number]> {
  const partitions = [{ partitionIndex, offset }];
  const answer = await deleteRecords({ topics: [{ name: topic, partitions }], timeoutMs: 1000 }, version);
  const result = answer.topics[0]!.partitions[0]!;
  return [errorName(result.errorCode), result.lowWatermark];
}

async function startOf(topic: string): Promise<number> {
  return (await client.listOffsets(topic, -2))[0]!.offset;
}

describe('CreatePartitions', () => {
  it('answers when the new partitions can be used, in every version', async () => {
    await client.createTopic('t');
    for (let version = 0; version <= 3; version++) {
      const count = version + 2;
      expect(await grow([{ name: 't', count, assignments: null }], false, version)).toEqual({ t: 'NONE' });
      expect(await client.produce('t', batch(['v']), { index: count - 1 })).toMatchObject({
        errorCode: 0,
        baseOffset: 0,
      });
      expect((await client.fetch('t', { partitions: [count - 1] })).values).toEqual(['v']);
    }
    const { topics } = await client.metadata({ topics: [{ name: 't' }] });
    expect(topics[0]!.partitions.map((each) => each.partitionIndex)).toEqual([0, 1, 2, 3, 4]);
  });

  it('keeps them over a restart', async () => {
    await client.createTopic('t');
    await grow([{ name: 't', count: 3, assignments: [{ brokerIds: [1] }, { brokerIds: [1] }] }]);
    await client.produce('t', batch(['a']), { index: 2 });
    await restart();
    expect((await client.fetch('t', { partitions: [2] })).values).toEqual(['a']);
  });

  it('changes nothing when it only validates or refuses', async () => {
    await client.createTopic('t');
    expect(await grow([{ name: 't', count: 9, assignments: null }], true)).toEqual({ t: 'NONE' });
    expect(
      await grow([
        { name: 't', count: 1, assignments: null },
        { name: 'u', count: 3, assignments: null },
      ]),
    ).toEqual({ t: 'INVALID_PARTITIONS', u: 'UNKNOWN_TOPIC_OR_PARTITION' });
    const twice = { name: 't', count: 2, assignments: null };
    expect(await grow([twice, twice])).toEqual({ t: 'INVALID_REQUEST' });
    const { topics } = await client.metadata({ topics: [{ name: 't' }] });
    expect(topics[0]!.partitions).toHaveLength(1);
  });

  it('says that a folder could not be made, and makes it at the next start', async () => {
    await client.createTopic('t');
    const path = '/data/t-1/partition.metadata';
    engine.files.failNextWrite.set(path, new BroadsheetError('IO', 'no disk'));
    expect(await grow([{ name: 't', count: 3, assignments: null }])).toEqual({ t: 'KAFKA_STORAGE_ERROR' });
    expect((await client.produce('t', batch(['v']), { index: 2 })).errorCode).toBe(0);
    await restart();
    expect((await client.produce('t', batch(['v']), { index: 1 })).errorCode).toBe(0);
  });

  it('lets a deletion that comes at the same time win or lose, and leaves nothing', async () => {
    await client.createTopic('t');
    const other = new TestClient(broker);
    const [grown, deleted] = await Promise.all([
      grow([{ name: 't', count: 4, assignments: null }]),
      other.deleteTopics(['t']),
    ]);
    expect(['NONE', 'UNKNOWN_TOPIC_OR_PARTITION']).toContain(grown.t);
    expect(deleted[0]!.errorCode).toBe(0);
    await client.createTopic('t');
    const { topics } = await client.metadata({ topics: [{ name: 't' }] });
    expect(topics[0]!.partitions).toHaveLength(1);
  });
});

describe('DeleteRecords', () => {
  beforeEach(async () => {
    await client.createTopic('t', 2);
    for (const value of ['a', 'b', 'c', 'd']) await client.produce('t', batch([value]));
  });

  it('moves the start of a log, in every version', async () => {
    for (let version = 0; version <= 2; version++) {
      expect(await cut(version + 1, 't', 0, version)).toEqual(['NONE', version + 1]);
    }
    expect(await startOf('t')).toBe(3);
    expect((await client.fetch('t', { offset: 3 })).values).toEqual(['d']);
    expect(errorName((await client.fetch('t', { offset: 2 })).partition.errorCode)).toBe(
      'OFFSET_OUT_OF_RANGE',
    );
  });

  it('takes -1 for the high watermark, and what is below the start for nothing to do', async () => {
    expect(await cut(3)).toEqual(['NONE', 3]);
    expect(await cut(1)).toEqual(['NONE', 3]);
    expect(await cut(-1)).toEqual(['NONE', 4]);
    expect(await startOf('t')).toBe(4);
    expect(await client.produce('t', batch(['e']))).toMatchObject({ errorCode: 0, baseOffset: 4 });
    expect((await client.fetch('t', { offset: 4 })).values).toEqual(['e']);
  });

  it('is written down before it is answered, and lasts', async () => {
    expect(await cut(2)).toEqual(['NONE', 2]);
    const topicId = parsePartitionMetadata(
      engine.files.content.get('/data/t-0/partition.metadata')!.toString(),
    );
    expect(engine.files.content.get(LOG_STARTS)?.toString()).toBe(offsetsText(`t 0 2 ${topicId}`));
    await restart();
    expect(await startOf('t')).toBe(2);
  });

  it('is written down once for all that come while one is written', async () => {
    let writes = 0;
    const write = engine.files.writeAtomic.bind(engine.files);
    engine.files.writeAtomic = async (path, data) => {
      if (path === LOG_STARTS) writes++;
      await broker.settle(5);
      return write(path, data);
    };
    await client.createTopic('many', 20);
    for (let index = 0; index < 20; index++) await client.produce('many', batch(['v']), { index });
    const clients = Array.from({ length: 20 }, () => new TestClient(broker));
    const answers = await Promise.all(
      clients.map((each, partitionIndex) =>
        broker.ask(
          each.peer,
          21,
          2,
          (writer) =>
            writeDeleteRecordsRequest(writer, 2, {
              topics: [{ name: 'many', partitions: [{ partitionIndex, offset: 1 }] }],
              timeoutMs: 1000,
            }),
          readDeleteRecordsResponse,
        ),
      ),
    );
    for (const { topics } of answers) expect(topics[0]!.partitions).toMatchObject([{ lowWatermark: 1 }]);
    expect(writes).toBeLessThanOrEqual(2);
    expect(OffsetCheckpoint.parse(engine.files.content.get(LOG_STARTS)!.toString()).size).toBe(20);
  });

  it('does not say that it is done when it could not be written down', async () => {
    const fail = () => engine.files.failNextWrite.set(LOG_STARTS, new BroadsheetError('NO_SPACE', 'full'));
    fail();
    expect(await cut(2)).toEqual(['KAFKA_STORAGE_ERROR', -1]);
    // The start has moved in memory, and nothing more is to be done for that.
    fail();
    expect(await cut(2)).toEqual(['KAFKA_STORAGE_ERROR', -1]);
    expect(await cut(1)).toEqual(['NONE', 2]);
    expect(OffsetCheckpoint.parse(engine.files.content.get(LOG_STARTS)!.toString()).get('t', 0)).toBe(2);
    expect(await cut(3)).toEqual(['NONE', 3]);
  });

  it('refuses', async () => {
    await client.createTopic('compacted', 1, { 'cleanup.policy': 'compact' });
    await client.createTopic('both', 1, { 'cleanup.policy': 'compact,delete' });
    await client.createTopic('__consumer_offsets');
    expect(await cut(5)).toEqual(['OFFSET_OUT_OF_RANGE', -1]);
    expect(await cut(-2)).toEqual(['OFFSET_OUT_OF_RANGE', -1]);
    expect(await cut(0, 't', 7)).toEqual(['UNKNOWN_TOPIC_OR_PARTITION', -1]);
    expect(await cut(0, 'missing')).toEqual(['UNKNOWN_TOPIC_OR_PARTITION', -1]);
    expect(await cut(0, 'compacted')).toEqual(['POLICY_VIOLATION', -1]);
    expect(await cut(0, 'both')).toEqual(['NONE', 0]);
    expect(await cut(0, '__consumer_offsets')).toEqual(['INVALID_TOPIC_EXCEPTION', -1]);
    expect(await startOf('t')).toBe(0);
  });

  it('takes the last of several offsets of a partition, and answers once', async () => {
    const partitions = [
      { partitionIndex: 0, offset: 3 },
      { partitionIndex: 1, offset: 0 },
    ];
    const { topics } = await deleteRecords({
      topics: [
        { name: 't', partitions },
        { name: 't', partitions: [{ partitionIndex: 0, offset: 2 }] },
        { name: 'none', partitions: [] },
      ],
      timeoutMs: 1000,
    });
    expect(topics).toEqual([
      {
        name: 't',
        partitions: [
          { partitionIndex: 0, lowWatermark: 2, errorCode: 0 },
          { partitionIndex: 1, lowWatermark: 0, errorCode: 0 },
        ],
      },
    ]);
  });

  it('ends a fetch that waits below the new start', async () => {
    const other = new TestClient(broker);
    const waiting = other.fetchFrame('t', { offset: 4, maxWaitMs: 60_000, minBytes: 1_000_000 });
    broker.transport.tick([other.peer, waiting]);
    await broker.settle();
    expect(other.peer.received).toHaveLength(0);
    await client.produce('t', batch(['e']));
    expect(await cut(5)).toEqual(['NONE', 5]);
    await broker.answers(other.peer, 1);
    expect(errorName(other.fetchAnswer(other.peer.received[0]!).partition.errorCode)).toBe(
      'OFFSET_OUT_OF_RANGE',
    );
  });
});

describe('DescribeTopicPartitions', () => {
  beforeEach(async () => {
    await client.createTopic('b', 2);
    await client.createTopic('a', 3);
    await client.createTopic('c', 1);
  });

  async function page(names: string[], more: Partial<DescribeTopicPartitionsRequestInput> = {}) {
    const answer = await describeTopics({ topics: names.map((name) => ({ name })), ...more });
    const shown = answer.topics.map(({ name, errorCode, partitions }) =>
      errorCode === 0
        ? `${name}:${partitions.map((each) => each.partitionIndex)}`
        : `${name} ${errorName(errorCode)}`,
    );
    const { nextCursor } = answer;
    return [
      ...shown,
      nextCursor === null ? 'end' : `next ${nextCursor.topicName}:${nextCursor.partitionIndex}`,
    ];
  }

  it('describes each partition', async () => {
    const { topics } = await describeTopics({ topics: [{ name: 'b' }] });
    expect(topics).toMatchObject([
      { errorCode: 0, name: 'b', isInternal: false, topicAuthorizedOperations: 0xdf8 },
    ]);
    expect(topics[0]!.partitions[1]).toEqual({
      errorCode: 0,
      partitionIndex: 1,
      leaderId: 1,
      leaderEpoch: 0,
      replicaNodes: [1],
      isrNodes: [1],
      eligibleLeaderReplicas: [],
      lastKnownElr: [],
      offlineReplicas: [],
    });
  });

  it('goes through all topics page by page', async () => {
    expect(await page([])).toEqual(['a:0,1,2', 'b:0,1', 'c:0', 'end']);
    const seen: string[] = [];
    let cursor: { topicName: string; partitionIndex: number } | null = null;
    do {
      const answer: Awaited<ReturnType<typeof describeTopics>> = await describeTopics({
        topics: [],
        responsePartitionLimit: 2,
        cursor,
      });
      for (const { name, partitions } of answer.topics) {
        seen.push(...partitions.map((each) => `${name}-${each.partitionIndex}`));
      }
      cursor = answer.nextCursor;
    } while (cursor !== null);
    expect(seen).toEqual(['a-0', 'a-1', 'a-2', 'b-0', 'b-1', 'c-0']);
  });

  it('ends a page at a topic or within one', async () => {
    const limited = (responsePartitionLimit: number) => page(['b', 'a'], { responsePartitionLimit });
    expect(await limited(3)).toEqual(['a:0,1,2', 'next b:0']);
    expect(await limited(4)).toEqual(['a:0,1,2', 'b:0', 'next b:1']);
    expect(await limited(5)).toEqual(['a:0,1,2', 'b:0,1', 'end']);
    for (const limit of [1, 0, -1]) expect(await limited(limit)).toEqual(['a:0', 'next a:1']);
  });

  it('holds no more than the broker allows', async () => {
    await broker.close();
    await start({ 'max.request.partition.size.limit': '2' });
    expect(await page([])).toEqual(['a:0,1', 'next a:2']);
  });

  it('says what it does not find', async () => {
    expect(await page(['x', 'a', 'a b', '__consumer_offsets'])).toEqual([
      '__consumer_offsets UNKNOWN_TOPIC_OR_PARTITION',
      'a:0,1,2',
      'a b INVALID_TOPIC_EXCEPTION',
      'x UNKNOWN_TOPIC_OR_PARTITION',
      'end',
    ]);
  });

  it('follows a cursor only to where it may', async () => {
    const at = (topicName: string, partitionIndex: number) => ({ cursor: { topicName, partitionIndex } });
    expect(await page(['a', 'b'], at('a', 2))).toEqual(['a:2', 'b:0,1', 'end']);
    expect(await page(['a', 'b'], at('a', 9))).toEqual(['a:', 'b:0,1', 'end']);
    expect(await page(['a', 'c'], at('b', 0))).toEqual(['a INVALID_REQUEST', 'c INVALID_REQUEST', 'end']);
    expect(await page(['a'], at('a', -1))).toEqual(['a INVALID_REQUEST', 'end']);
    // The topic at the cursor was deleted between two pages.
    expect(await page([], at('aa', 1))).toEqual(['b:0,1', 'c:0', 'end']);
  });
});

describe('log directories', () => {
  it('are described with the size of each partition, in every version', async () => {
    await client.createTopic('t', 2);
    const bytes = batch(['a']);
    await client.produce('t', bytes);
    for (let version = 1; version <= 5; version++) {
      const topics = [
        { topic: 't', partitions: [1, 0, 0, 7] },
        { topic: 'missing', partitions: [0] },
      ];
      const { errorCode, results } = await describeLogDirs({ topics }, version);
      expect([errorCode, results]).toMatchObject([0, [{ errorCode: 0, logDir: '/data', isCordoned: false }]]);
      const sizes = results[0]!.topics[0]!.partitions.map((each) => [
        each.partitionIndex,
        each.partitionSize,
      ]);
      expect(sizes).toEqual([
        [1, 0],
        [0, bytes.length],
      ]);
      expect([results[0]!.totalBytes, results[0]!.usableBytes]).toEqual(
        version >= 4 ? [1_000_000, 600_000] : [-1, -1],
      );
    }
  });

  it('are described whole when no topic is named, and empty for no topics', async () => {
    await client.createTopic('t', 2);
    await client.createTopic('u');
    const all = (await describeLogDirs({ topics: null })).results[0]!.topics;
    expect(all.map(({ name, partitions }) => [name, partitions.length]).sort()).toEqual([
      ['t', 2],
      ['u', 1],
    ]);
    expect((await describeLogDirs({ topics: [] })).results).toMatchObject([{ logDir: '/data', topics: [] }]);
  });

  it('are one: a partition stays, or is sent to what does not exist', async () => {
    await client.createTopic('t', 2);
    for (let version = 1; version <= 2; version++) {
      const move = async (path: string, name: string, partitions: number[]) => {
        const { results } = await alterLogDirs({ dirs: [{ path, topics: [{ name, partitions }] }] }, version);
        return results.flatMap((topic) => topic.partitions.map((each) => errorName(each.errorCode)));
      };
      expect(await move('/data', 't', [0, 1])).toEqual(['NONE', 'NONE']);
      expect(await move('/data', 't', [2])).toEqual(['UNKNOWN_TOPIC_OR_PARTITION']);
      expect(await move('/data', 'u', [0])).toEqual(['UNKNOWN_TOPIC_OR_PARTITION']);
      for (const path of ['/other', '/data/', 'data', '']) {
        expect(await move(path, 't', [0])).toEqual(['LOG_DIR_NOT_FOUND']);
      }
    }
  });
});

describe('OffsetForLeaderEpoch', () => {
  it('says where epochs end, in every version', async () => {
    await client.createTopic('t');
    await client.produce('t', batch(['a', 'b']));
    for (let version = 2; version <= 4; version++) {
      const ask = async (leaderEpoch: number, currentLeaderEpoch = -1, partition = 0) => {
        const partitions = [{ partition, leaderEpoch, currentLeaderEpoch }];
        const { topics } = await epochEnds({ topics: [{ topic: 't', partitions }] }, version);
        const answer = topics[0]!.partitions[0]!;
        return [errorName(answer.errorCode), answer.leaderEpoch, answer.endOffset];
      };
      expect(await ask(0)).toEqual(['NONE', 0, 2]);
      expect(await ask(0, 0)).toEqual(['NONE', 0, 2]);
      expect(await ask(3)).toEqual(['NONE', -1, -1]);
      expect(await ask(-1)).toEqual(['NONE', -1, -1]);
      expect(await ask(0, 1)).toEqual(['UNKNOWN_LEADER_EPOCH', -1, -1]);
      expect(await ask(0, -1, 4)).toEqual(['UNKNOWN_TOPIC_OR_PARTITION', -1, -1]);
    }
  });
});

describe('replicas of one node', () => {
  it('need no election, in every version', async () => {
    await client.createTopic('t', 2);
    for (let version = 0; version <= 2; version++) {
      const ask = async (
        topicPartitions: { topic: string; partitions: number[] }[] | null,
        electionType = 0,
      ) => {
        const answer = await elect(
          { topicPartitions, timeoutMs: 1000, ...(version === 0 ? {} : { electionType }) },
          version,
        );
        const results = answer.replicaElectionResults.flatMap(({ topic, partitionResult }) =>
          partitionResult.map((each) => `${topic}-${each.partitionId} ${errorName(each.errorCode)}`),
        );
        return [errorName(answer.errorCode), ...results];
      };
      expect(
        await ask([
          { topic: 't', partitions: [0, 2] },
          { topic: 'u', partitions: [0] },
        ]),
      ).toEqual([
        'NONE',
        't-0 ELECTION_NOT_NEEDED',
        't-2 UNKNOWN_TOPIC_OR_PARTITION',
        'u-0 UNKNOWN_TOPIC_OR_PARTITION',
      ]);
      expect(await ask(null)).toEqual(['NONE']);
      if (version === 0) continue;
      expect(await ask([{ topic: 't', partitions: [0] }], 1)).toEqual(['NONE', 't-0 ELECTION_NOT_NEEDED']);
      expect(await ask([{ topic: 't', partitions: [0] }], 2)).toEqual([
        'INVALID_REQUEST',
        't-0 INVALID_REQUEST',
      ]);
    }
  });

  it('are not reassigned', async () => {
    await client.createTopic('t');
    for (let version = 0; version <= 1; version++) {
      const ask = async (partitionIndex: number, replicas: number[] | null) => {
        const { responses } = await alterReassignments(
          { timeoutMs: 1000, topics: [{ name: 't', partitions: [{ partitionIndex, replicas }] }] },
          version,
        );
        return errorName(responses[0]!.partitions[0]!.errorCode);
      };
      expect(await ask(0, [1])).toBe('NONE');
      expect(await ask(0, [2])).toBe('INVALID_REPLICA_ASSIGNMENT');
      expect(await ask(0, null)).toBe('NO_REASSIGNMENT_IN_PROGRESS');
      expect(await ask(5, [1])).toBe('UNKNOWN_TOPIC_OR_PARTITION');
    }
    for (const topics of [null, [{ name: 't', partitionIndexes: [0] }]]) {
      expect(await listReassignments({ timeoutMs: 1000, topics })).toMatchObject({
        errorCode: 0,
        topics: [],
      });
    }
  });
});

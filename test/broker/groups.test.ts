import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { KafkaError } from '../../src/protocol/errors.ts';
import {
  readDeleteGroupsResponse,
  writeDeleteGroupsRequest,
} from '../../src/protocol/generated/DeleteGroups.ts';
import {
  readDescribeGroupsResponse,
  writeDescribeGroupsRequest,
} from '../../src/protocol/generated/DescribeGroups.ts';
import {
  type FindCoordinatorRequestInput,
  readFindCoordinatorResponse,
  writeFindCoordinatorRequest,
} from '../../src/protocol/generated/FindCoordinator.ts';
import { readHeartbeatResponse, writeHeartbeatRequest } from '../../src/protocol/generated/Heartbeat.ts';
import { readJoinGroupResponse, writeJoinGroupRequest } from '../../src/protocol/generated/JoinGroup.ts';
import { readListGroupsResponse, writeListGroupsRequest } from '../../src/protocol/generated/ListGroups.ts';
import {
  type OffsetCommitRequestInput,
  readOffsetCommitResponse,
  writeOffsetCommitRequest,
} from '../../src/protocol/generated/OffsetCommit.ts';
import {
  readOffsetDeleteResponse,
  writeOffsetDeleteRequest,
} from '../../src/protocol/generated/OffsetDelete.ts';
import {
  type OffsetFetchRequestInput,
  readOffsetFetchResponse,
  writeOffsetFetchRequest,
} from '../../src/protocol/generated/OffsetFetch.ts';
import { readSyncGroupResponse, writeSyncGroupRequest } from '../../src/protocol/generated/SyncGroup.ts';
import { TestBroker } from './test-broker.ts';
import { batch, TestClient } from './test-client.ts';

const FEW_PARTITIONS = { 'offsets.topic.num.partitions': '3' };
const HOUR_MS = 3_600_000;
let broker: TestBroker;
let client: TestClient;

beforeEach(async () => {
  broker = await TestBroker.start(FEW_PARTITIONS);
  client = new TestClient(broker);
  await client.createTopic('t', 2);
});
afterEach(() => broker.close());

/** The same disk under another broker. */
async function restart(): Promise<void> {
  await broker.close();
  broker = await TestBroker.start(FEW_PARTITIONS, broker.engine);
  client = new TestClient(broker);
}

function commit(request: Partial<OffsetCommitRequestInput> & { groupId: string }, version = 9) {
  const topics = [
    { name: 't', partitions: [{ partitionIndex: 0, committedOffset: 5, committedMetadata: 'm' }] },
  ];
  const body = { topics, ...request };
  return broker.ask(
    client.peer,
    8,
    version,
    (writer) => writeOffsetCommitRequest(writer, version, body),
    readOffsetCommitResponse,
  );
}

async function committed(groupId: string, ...partitions: number[]): Promise<Record<number, number>> {
  const indexes = partitions.length === 0 ? [0, 1] : partitions;
  const { groups } = await fetchOffsets({
    groups: [{ groupId, topics: [{ name: 't', partitionIndexes: indexes }] }],
  });
  return Object.fromEntries(
    groups[0]!.topics[0]!.partitions.map((p) => [p.partitionIndex, p.committedOffset]),
  );
}

function fetchOffsets(request: OffsetFetchRequestInput, version = 9) {
  return broker.ask(
    client.peer,
    9,
    version,
    (writer) => writeOffsetFetchRequest(writer, version, request),
    readOffsetFetchResponse,
  );
}

function find(request: FindCoordinatorRequestInput, version: number) {
  return broker.ask(
    client.peer,
    10,
    version,
    (writer) => writeFindCoordinatorRequest(writer, version, request),
    readFindCoordinatorResponse,
  );
}

async function groups(version = 5): Promise<string[]> {
  const answer = await broker.ask(
    client.peer,
    16,
    version,
    (writer) => writeListGroupsRequest(writer, version, {}),
    readListGroupsResponse,
  );
  return answer.groups.map((g) => `${g.groupId} ${g.protocolType} ${g.groupState} ${g.groupType}`).sort();
}

/** A member of a group that subscribes to a topic. */
async function member(groupId: string, topic = 't', protocolType = 'consumer') {
  const name = Buffer.from(topic);
  const subscription = Buffer.concat([Buffer.from([0, 0, 0, 0, 0, 1, 0, name.length]), name]);
  const joined = await broker.ask(
    client.peer,
    11,
    3,
    (writer) =>
      writeJoinGroupRequest(writer, 3, {
        groupId,
        sessionTimeoutMs: 30_000,
        rebalanceTimeoutMs: 30_000,
        memberId: '',
        protocolType,
        protocols: [{ name: 'range', metadata: subscription }],
      }),
    readJoinGroupResponse,
  );
  const { memberId, generationId } = joined;
  const synced = await broker.ask(
    client.peer,
    14,
    3,
    (writer) =>
      writeSyncGroupRequest(writer, 3, {
        groupId,
        generationId,
        memberId,
        assignments: [{ memberId, assignment: Buffer.from('all') }],
      }),
    readSyncGroupResponse,
  );
  expect(Buffer.from(synced.assignment).toString()).toBe('all');
  return { memberId, generationId };
}

async function heartbeat(groupId: string, memberId: string, generationId: number): Promise<number> {
  const answer = await broker.ask(
    client.peer,
    12,
    3,
    (writer) => writeHeartbeatRequest(writer, 3, { groupId, memberId, generationId }),
    readHeartbeatResponse,
  );
  return answer.errorCode;
}

async function remove(...names: string[]): Promise<number[]> {
  const { results } = await broker.ask(
    client.peer,
    42,
    2,
    (writer) => writeDeleteGroupsRequest(writer, 2, { groupsNames: names }),
    readDeleteGroupsResponse,
  );
  return results.map((result) => result.errorCode);
}

describe('FindCoordinator', () => {
  it('is ready when it answers', async () => {
    const { errorCode, nodeId, port } = await find({ key: 'g' }, 0);
    expect([errorCode, nodeId, port]).toEqual([0, 1, 9092]);
    const metadata = await client.metadata({ topics: null });
    const topic = metadata.topics.find(({ name }) => name === '__consumer_offsets')!;
    expect(topic.isInternal).toBe(true);
    expect(topic.partitions).toHaveLength(3);
  });

  it('knows every key type', async () => {
    const { coordinators } = await find({ keyType: 1, coordinatorKeys: ['a', 'b'] }, 4);
    expect(coordinators.map((c) => [c.key, c.errorCode])).toEqual([
      ['a', 0],
      ['b', 0],
    ]);
    const shares = await find({ keyType: 2, coordinatorKeys: ['g:AAAAAAAAAAAAAAAAAAAAAQ:0', 'g'] }, 6);
    expect(shares.coordinators.map((c) => c.errorCode)).toEqual([0, KafkaError.INVALID_REQUEST]);
    expect((await find({ keyType: 2, key: 'g' }, 3)).errorCode).toBe(KafkaError.INVALID_REQUEST);
  });
});

it('is alone in writing to its topic', async () => {
  await commit({ groupId: 'g' });
  const answer = await client.produce('__consumer_offsets', batch(['value']));
  expect(answer.errorCode).toBe(KafkaError.INVALID_TOPIC_EXCEPTION);
});

describe('offsets', () => {
  it('are kept over restarts, with the group', async () => {
    await commit({ groupId: 'simple' });
    const { memberId, generationId } = await member('full');
    await commit({ groupId: 'full', memberId, generationIdOrMemberEpoch: generationId });
    await restart();
    expect(await groups()).toEqual(['full consumer Stable classic', 'simple  Empty classic']);
    expect(await committed('simple')).toEqual({ 0: 5, 1: -1 });
    expect(await committed('full')).toEqual({ 0: 5, 1: -1 });
    expect(await heartbeat('full', memberId, generationId)).toBe(0);
    broker.clock.advance(31_000);
    await broker.settle();
    expect(await heartbeat('full', memberId, generationId)).toBe(KafkaError.UNKNOWN_MEMBER_ID);
  });

  it('are judged one by one', async () => {
    const partition = (partitionIndex: number, metadata: string | null = null) => ({
      partitionIndex,
      committedOffset: 1,
      committedMetadata: metadata,
    });
    const { topics } = await commit({
      groupId: 'g',
      topics: [
        { name: 't', partitions: [partition(0), partition(7), partition(1, 'x'.repeat(4097))] },
        { name: 'missing', partitions: [partition(0)] },
      ],
    });
    expect(topics.flatMap((topic) => topic.partitions.map((p) => p.errorCode))).toEqual([
      0,
      KafkaError.UNKNOWN_TOPIC_OR_PARTITION,
      KafkaError.OFFSET_METADATA_TOO_LARGE,
      KafkaError.UNKNOWN_TOPIC_OR_PARTITION,
    ]);
    expect(await committed('g')).toEqual({ 0: 1, 1: -1 });
  });

  it('are refused to strangers, with a code that the version knows', async () => {
    const codeOf = async (request: Parameters<typeof commit>[0], version?: number) =>
      (await commit(request, version)).topics[0]!.partitions[0]!.errorCode;
    const stranger = { groupId: 'none', memberId: 'x', generationIdOrMemberEpoch: 1 };
    expect(await codeOf(stranger, 9)).toBe(KafkaError.GROUP_ID_NOT_FOUND);
    expect(await codeOf(stranger, 8)).toBe(KafkaError.ILLEGAL_GENERATION);
    await member('full');
    expect(await codeOf({ groupId: 'full' })).toBe(KafkaError.UNKNOWN_MEMBER_ID);
    expect(await codeOf({ ...stranger, groupId: 'full' })).toBe(KafkaError.UNKNOWN_MEMBER_ID);
  });

  it('are asked for by name, all at once, and by id', async () => {
    await commit({ groupId: 'g' });
    const all = await fetchOffsets({ groupId: 'g', topics: null }, 7);
    expect(all.topics).toMatchObject([
      { name: 't', partitions: [{ partitionIndex: 0, committedOffset: 5, metadata: 'm' }] },
    ]);
    const topicId = (await client.metadata({ topics: [{ name: 't' }] })).topics[0]!.topicId;
    const unknown = 'AAAAAAAAAAAAAAAAAAAAAQ';
    const byId = await fetchOffsets(
      {
        groups: [
          {
            groupId: 'g',
            topics: [
              { topicId, partitionIndexes: [0] },
              { topicId: unknown, partitionIndexes: [0] },
            ],
          },
        ],
      },
      10,
    );
    expect(byId.groups[0]!.topics).toMatchObject([
      { topicId, partitions: [{ committedOffset: 5, errorCode: 0 }] },
      { topicId: unknown, partitions: [{ committedOffset: -1, errorCode: KafkaError.UNKNOWN_TOPIC_ID }] },
    ]);
  });

  it('go with their topic', async () => {
    await commit({ groupId: 'g' });
    await client.deleteTopics(['t']);
    await client.createTopic('t', 2);
    await broker.settle();
    expect(await committed('g')).toEqual({ 0: -1, 1: -1 });
    await restart();
    expect(await committed('g')).toEqual({ 0: -1, 1: -1 });
  });

  it('are deleted where no member subscribes', async () => {
    await client.createTopic('other');
    const { memberId, generationId } = await member('g', 'other');
    const partitions = [{ partitionIndex: 0, committedOffset: 1, committedMetadata: null }];
    await commit({
      groupId: 'g',
      memberId,
      generationIdOrMemberEpoch: generationId,
      topics: ['t', 'other'].map((name) => ({ name, partitions })),
    });
    const answer = await broker.ask(
      client.peer,
      47,
      0,
      (writer) =>
        writeOffsetDeleteRequest(writer, 0, {
          groupId: 'g',
          topics: ['t', 'other'].map((name) => ({ name, partitions: [{ partitionIndex: 0 }] })),
        }),
      readOffsetDeleteResponse,
    );
    expect(answer.topics.map((topic) => topic.partitions[0]!.errorCode)).toEqual([
      0,
      KafkaError.GROUP_SUBSCRIBED_TO_TOPIC,
    ]);
    expect(await committed('g', 0)).toEqual({ 0: -1 });
  });

  it('expire when nobody was there for all of the retention, and the group with them', async () => {
    const { memberId, generationId } = await member('g');
    const own = { groupId: 'g', memberId, generationIdOrMemberEpoch: generationId };
    await commit(own);
    await commit({ groupId: 'simple' });
    await commit({ groupId: 'short', retentionTimeMs: HOUR_MS }, 4);
    const pass = async (hours: number) => {
      for (let i = 0; i < hours; i++) {
        broker.clock.advance(HOUR_MS);
        await broker.settle(3);
      }
    };
    await pass(2);
    // The member's session has ended; the retention counts from there.
    expect(await groups()).toEqual(['g consumer Empty classic', 'simple  Empty classic']);
    await pass(24 * 7 - 4);
    expect(await committed('g')).toEqual({ 0: 5, 1: -1 });
    expect(await committed('simple')).toEqual({ 0: 5, 1: -1 });
    await pass(4);
    expect(await groups()).toEqual([]);
    await restart();
    expect(await groups()).toEqual([]);
  });
});

describe('groups', () => {
  it('are described', async () => {
    const { memberId } = await member('g');
    const describeGroups = async (version: number) => {
      const answer = await broker.ask(
        client.peer,
        15,
        version,
        (writer) => writeDescribeGroupsRequest(writer, version, { groups: ['g', 'none'] }),
        readDescribeGroupsResponse,
      );
      return answer.groups;
    };
    expect(await describeGroups(6)).toMatchObject([
      {
        groupState: 'Stable',
        protocolType: 'consumer',
        protocolData: 'range',
        members: [{ memberId, clientId: 'test' }],
      },
      { groupState: 'Dead', errorCode: KafkaError.GROUP_ID_NOT_FOUND },
    ]);
    expect((await describeGroups(5))[1]).toMatchObject({ groupState: 'Dead', errorCode: 0 });
  });

  it('are deleted when nobody is in them, for good', async () => {
    await commit({ groupId: 'simple' });
    await member('full');
    expect(await remove('simple', 'full', 'none')).toEqual([
      0,
      KafkaError.NON_EMPTY_GROUP,
      KafkaError.GROUP_ID_NOT_FOUND,
    ]);
    expect(await groups()).toEqual(['full consumer Stable classic']);
    await restart();
    expect(await groups()).toEqual(['full consumer Stable classic']);
    expect(await committed('simple')).toEqual({ 0: -1, 1: -1 });
  });
});

import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ZERO_ID } from '../../src/group/group-records.ts';
import { KafkaError } from '../../src/protocol/errors.ts';
import {
  readConsumerGroupDescribeResponse,
  writeConsumerGroupDescribeRequest,
} from '../../src/protocol/generated/ConsumerGroupDescribe.ts';
import {
  type ConsumerGroupHeartbeatRequestInput,
  readConsumerGroupHeartbeatResponse,
  writeConsumerGroupHeartbeatRequest,
} from '../../src/protocol/generated/ConsumerGroupHeartbeat.ts';
import {
  readDeleteGroupsResponse,
  writeDeleteGroupsRequest,
} from '../../src/protocol/generated/DeleteGroups.ts';
import {
  readDescribeGroupsResponse,
  writeDescribeGroupsRequest,
} from '../../src/protocol/generated/DescribeGroups.ts';
import { readListGroupsResponse, writeListGroupsRequest } from '../../src/protocol/generated/ListGroups.ts';
import { readMetadataResponse, writeMetadataRequest } from '../../src/protocol/generated/Metadata.ts';
import {
  readOffsetCommitResponse,
  writeOffsetCommitRequest,
} from '../../src/protocol/generated/OffsetCommit.ts';
import {
  readOffsetFetchResponse,
  writeOffsetFetchRequest,
} from '../../src/protocol/generated/OffsetFetch.ts';
import type { FakePeer } from './fake-transport.ts';
import { TestBroker } from './test-broker.ts';
import { TestClient } from './test-client.ts';

const CONFIG = { 'offsets.topic.num.partitions': '3' };
let broker: TestBroker;
let client: TestClient;

async function start(config: Record<string, string> = {}): Promise<void> {
  broker = await TestBroker.start({ ...CONFIG, ...config });
  client = new TestClient(broker);
  await client.createTopic('t', 2);
}

beforeEach(() => start());
afterEach(() => broker.close());

type Heartbeat = Partial<ConsumerGroupHeartbeatRequestInput> & { memberId: string; memberEpoch: number };

function heartbeat(request: Heartbeat, peer: FakePeer = client.peer, version = 1) {
  return broker.ask(
    peer,
    68,
    version,
    (writer) => writeConsumerGroupHeartbeatRequest(writer, version, { groupId: 'g', ...request }),
    readConsumerGroupHeartbeatResponse,
  );
}

function join(memberId: string, peer?: FakePeer, extra: Partial<ConsumerGroupHeartbeatRequestInput> = {}) {
  return heartbeat(
    {
      memberId,
      memberEpoch: 0,
      rebalanceTimeoutMs: 10_000,
      subscribedTopicNames: ['t'],
      topicPartitions: [],
      ...extra,
    },
    peer,
  );
}

async function topicIdOf(name: string): Promise<string> {
  const { topics } = await broker.ask(
    client.peer,
    3,
    12,
    (writer) => writeMetadataRequest(writer, 12, { topics: [{ topicId: ZERO_ID, name }] }),
    readMetadataResponse,
  );
  return topics[0]!.topicId;
}

async function described(groupId = 'g') {
  const { groups } = await broker.ask(
    client.peer,
    69,
    1,
    (writer) =>
      writeConsumerGroupDescribeRequest(writer, 1, {
        groupIds: [groupId],
        includeAuthorizedOperations: true,
      }),
    readConsumerGroupDescribeResponse,
  );
  return groups[0]!;
}

async function commit(memberId: string, memberEpoch: number, version = 9): Promise<number> {
  const partitions = [{ partitionIndex: 0, committedOffset: 5, committedMetadata: '' }];
  const answer = await broker.ask(
    client.peer,
    8,
    version,
    (writer) =>
      writeOffsetCommitRequest(writer, version, {
        groupId: 'g',
        memberId,
        generationIdOrMemberEpoch: memberEpoch,
        topics: [{ name: 't', partitions }],
      }),
    readOffsetCommitResponse,
  );
  return answer.topics[0]!.partitions[0]!.errorCode;
}

async function fetched(memberId: string | null, memberEpoch: number) {
  const { groups } = await broker.ask(
    client.peer,
    9,
    9,
    (writer) =>
      writeOffsetFetchRequest(writer, 9, {
        groups: [{ groupId: 'g', memberId, memberEpoch, topics: [{ name: 't', partitionIndexes: [0] }] }],
      }),
    readOffsetFetchResponse,
  );
  return [groups[0]!.errorCode, groups[0]!.topics[0]?.partitions[0]?.committedOffset];
}

async function deleted(groupsNames: string[]): Promise<number[]> {
  const { results } = await broker.ask(
    client.peer,
    42,
    2,
    (writer) => writeDeleteGroupsRequest(writer, 2, { groupsNames }),
    readDeleteGroupsResponse,
  );
  return results.map(({ errorCode }) => errorCode);
}

describe('the consumer protocol', () => {
  it('assigns with the first answer, and tells of the group', async () => {
    const topicId = await topicIdOf('t');
    const answer = await join('a');
    expect(answer).toMatchObject({ errorCode: 0, memberId: 'a', memberEpoch: 2 });
    expect(answer.assignment).toEqual({ topicPartitions: [{ topicId, partitions: [0, 1] }] });
    expect(answer.heartbeatIntervalMs).toBeLessThan(5000);
    const group = await described();
    const assignment = { topicPartitions: [{ topicId, topicName: 't', partitions: [0, 1] }] };
    expect(group).toMatchObject({
      groupState: 'Stable',
      groupEpoch: 2,
      assignmentEpoch: 2,
      assignorName: 'uniform',
    });
    expect(group.members).toMatchObject([
      { memberId: 'a', clientId: 'test', memberType: 1, assignment, targetAssignment: assignment },
    ]);
    const listed = await broker.ask(
      client.peer,
      16,
      5,
      (writer) => writeListGroupsRequest(writer, 5, { typesFilter: ['Consumer'] }),
      readListGroupsResponse,
    );
    expect(listed.groups).toMatchObject([{ groupId: 'g', groupState: 'Stable', groupType: 'consumer' }]);
    const classic = await broker.ask(
      client.peer,
      15,
      6,
      (writer) => writeDescribeGroupsRequest(writer, 6, { groups: ['g'] }),
      readDescribeGroupsResponse,
    );
    expect(classic.groups[0]!.errorCode).toBe(KafkaError.GROUP_ID_NOT_FOUND);
    expect((await described('other')).errorCode).toBe(KafkaError.GROUP_ID_NOT_FOUND);
  });

  it('takes commits of members in their epoch', async () => {
    await join('a');
    expect(await commit('a', 2)).toBe(0);
    expect(await commit('a', 1)).toBe(KafkaError.STALE_MEMBER_EPOCH);
    expect(await commit('a', 3)).toBe(KafkaError.STALE_MEMBER_EPOCH);
    expect(await commit('b', 2)).toBe(KafkaError.UNKNOWN_MEMBER_ID);
    expect(await commit('', -1)).toBe(KafkaError.UNKNOWN_MEMBER_ID);
    expect(await commit('a', 2, 8)).toBe(KafkaError.UNSUPPORTED_VERSION);
    expect(await fetched(null, -1)).toEqual([0, 5]);
    expect(await fetched('a', 2)).toEqual([0, 5]);
    expect(await fetched('a', 1)).toEqual([KafkaError.STALE_MEMBER_EPOCH, undefined]);
    await heartbeat({ memberId: 'a', memberEpoch: -1 });
    expect(await commit('', -1)).toBe(0);
  });

  it('deletes an empty group, with commits or without', async () => {
    for (const commits of [false, true]) {
      const { memberEpoch } = await join('a');
      if (commits) expect(await commit('a', memberEpoch)).toBe(0);
      expect(await deleted(['g', 'other'])).toEqual([
        KafkaError.NON_EMPTY_GROUP,
        KafkaError.GROUP_ID_NOT_FOUND,
      ]);
      await heartbeat({ memberId: 'a', memberEpoch: -1 });
      expect(await deleted(['g'])).toEqual([0]);
      expect((await described()).errorCode).toBe(KafkaError.GROUP_ID_NOT_FOUND);
      await broker.close();
      broker = await TestBroker.start(CONFIG, broker.engine);
      client = new TestClient(broker);
      expect(await deleted(['g'])).toEqual([KafkaError.GROUP_ID_NOT_FOUND]);
    }
  });

  it('lets a member commit in an older epoch what it has held since then', async () => {
    await join('a');
    await join('b');
    const topicId = await topicIdOf('t');
    const told = await heartbeat({
      memberId: 'a',
      memberEpoch: 2,
      topicPartitions: [{ topicId, partitions: [0, 1] }],
    });
    expect(told.assignment!.topicPartitions[0]!.partitions).toEqual([0]);
    const done = await heartbeat({
      memberId: 'a',
      memberEpoch: 2,
      topicPartitions: [{ topicId, partitions: [0] }],
    });
    expect(done.memberEpoch).toBe(3);
    expect(await commit('a', 2)).toBe(0);
  });

  it('follows topics and patterns', async () => {
    const first = await join('a', undefined, { subscribedTopicNames: null, subscribedTopicRegex: '[tu].*' });
    expect(first.assignment!.topicPartitions).toHaveLength(1);
    await client.createTopic('u', 1);
    // The new topic is matched beside the heartbeats.
    let second = first;
    do {
      await broker.settle(1);
      second = await heartbeat({ memberId: 'a', memberEpoch: second.memberEpoch });
      expect(second.errorCode).toBe(0);
    } while (second.assignment === null);
    expect(second.assignment.topicPartitions).toHaveLength(2);
    const bad = await join('b', undefined, { subscribedTopicNames: null, subscribedTopicRegex: '(' });
    expect(bad.errorCode).toBe(KafkaError.INVALID_REGULAR_EXPRESSION);
  });

  it('takes a member whose records are more than a message may be, and others after it', async () => {
    await broker.close();
    await start({ 'message.max.bytes': '2000' });
    const subscribedTopicNames = Array.from({ length: 200 }, (_, i) => `a-topic-that-is-not-there-${i}`);
    expect((await join('large', undefined, { subscribedTopicNames })).errorCode).toBe(0);
    expect(await join('small')).toMatchObject({ errorCode: 0, memberEpoch: 3 });
    const { engine } = broker;
    await broker.close();
    broker = await TestBroker.start(CONFIG, engine);
    client = new TestClient(broker);
    expect((await heartbeat({ memberId: 'small', memberEpoch: 3 })).errorCode).toBe(0);
  });

  it('refuses a subscription that no log would take', async () => {
    const subscribedTopicNames = Array.from({ length: 5_000 }, (_, i) => `${'n'.repeat(200)}${i}`);
    const refused = await join('a', undefined, { subscribedTopicNames });
    expect(refused.errorCode).toBe(KafkaError.INVALID_REQUEST);
    expect((await join('a')).errorCode).toBe(0);
  });

  it('serves others while a pattern is matched, and closes in the midst of it', async () => {
    // A tenth of a second for every name: the broker's stop finds the thread at work.
    for (let i = 0; i < 30; i++) await client.createTopic(`${'a'.repeat(200)}${i}`, 1);
    const subscribedTopicRegex = '(?:(?:(?:a?){0,10}){0,10}){0,10}b';
    const request = { subscribedTopicNames: null, subscribedTopicRegex };
    const slow = broker.transport.connect();
    const body = {
      ...{ groupId: 'slow', memberId: 'a', memberEpoch: 0, rebalanceTimeoutMs: 10_000 },
      ...{ topicPartitions: [], ...request },
    };
    broker.transport.tick([
      slow,
      broker.frame(68, 1, (writer) => writeConsumerGroupHeartbeatRequest(writer, 1, body)),
    ]);
    const { memberEpoch } = await join('b');
    for (let i = 0; i < 50; i++) expect((await heartbeat({ memberId: 'b', memberEpoch })).errorCode).toBe(0);
    expect(slow.received).toHaveLength(0);
    await broker.close();
    expect(slow.closed).toBeDefined();
  });

  it('goes on after a restart of the broker', async () => {
    await join('a');
    await broker.close();
    broker = await TestBroker.start(CONFIG, broker.engine);
    client = new TestClient(broker);
    expect(await described()).toMatchObject({ groupState: 'Stable', groupEpoch: 2 });
    expect(await heartbeat({ memberId: 'a', memberEpoch: 2 })).toMatchObject({
      errorCode: 0,
      assignment: null,
    });
  });

  it('can be switched off', async () => {
    await broker.close();
    await start({ 'group.coordinator.rebalance.protocols': 'classic' });
    expect((await join('a')).errorCode).toBe(KafkaError.UNSUPPORTED_VERSION);
    expect((await described()).errorCode).toBe(KafkaError.UNSUPPORTED_VERSION);
  });
});

describe('a member whose connection closes', () => {
  async function leavesOn(config: Record<string, string>): Promise<number> {
    await broker.close();
    await start(config);
    const other = new TestClient(broker);
    await join('a');
    await join('b', other.peer);
    await join('s', other.peer, { instanceId: 'i' });
    broker.transport.hangUp(other.peer);
    await broker.settle();
    return (await described()).members.length;
  }

  it('stays until its session ends', async () => {
    expect(await leavesOn({})).toBe(3);
  });

  it('is removed at once when the broker is told so, unless it is static', async () => {
    expect(await leavesOn({ 'group.member.removal.on.disconnect': 'true' })).toBe(2);
  });
});

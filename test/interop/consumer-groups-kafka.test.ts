/** A group of the consumer protocol in the middle of a rebalance goes on under Apache Kafka on the same directory, and back: same
 * members, epochs and partitions, and no epoch more than the members' own doings need. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, it } from 'vitest';
import { api } from '../../src/client/apis.ts';
import { Client } from '../../src/client/client.ts';
import { ApiKey } from '../../src/protocol/generated/api-keys.ts';
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
  readFindCoordinatorResponse,
  writeFindCoordinatorRequest,
} from '../../src/protocol/generated/FindCoordinator.ts';
import { BrokerProcess } from '../support/broker-process.ts';
import { KafkaPeer, kafkaPort } from '../support/kafka-peer.ts';

const PORT = kafkaPort();
const GROUP = 'moving';
const HEARTBEAT = api(
  ApiKey.ConsumerGroupHeartbeat,
  writeConsumerGroupHeartbeatRequest,
  readConsumerGroupHeartbeatResponse,
);
const DESCRIBE = api(
  ApiKey.ConsumerGroupDescribe,
  writeConsumerGroupDescribeRequest,
  readConsumerGroupDescribeResponse,
);
const FIND = api(ApiKey.FindCoordinator, writeFindCoordinatorRequest, readFindCoordinatorResponse);
/** Kafka assigns in the heartbeat, as this broker does. */
const AT_ONCE = [
  'group.consumer.assignment.interval.ms=0',
  'group.consumer.assignor.offload.enable=false',
] as const;

const dir = mkdtempSync(join(tmpdir(), 'broadsheet-consumer-groups-'));
const kafka = new KafkaPeer(dir, PORT);
let ours: BrokerProcess | undefined;
afterEach(async () => {
  await ours?.kill();
  await kafka.dispose();
  rmSync(dir, { recursive: true, force: true });
});

class Session {
  readonly #client: Client;
  constructor(client: Client) {
    this.#client = client;
  }

  /** Waits until the coordinator has loaded the group. */
  static async at(address: string): Promise<Session> {
    const session = new Session(await Client.connect(address));
    await session.#client.request(FIND, { keyType: 0, coordinatorKeys: [GROUP] });
    for (let turn = 0; turn < 100; turn++) {
      const { errorCode } = await session.#group();
      if (errorCode === 0 || errorCode === 69) return session;
      await new Promise((resolve) => setTimeout(resolve, 200));
    }
    throw new Error('the coordinator does not load');
  }

  async #group() {
    const { groups } = await this.#client.request(DESCRIBE, {
      groupIds: [GROUP],
      includeAuthorizedOperations: false,
    });
    return groups[0]!;
  }

  /** `epoch assignmentEpoch`, then per member id, epoch and partitions. */
  async state(): Promise<string[]> {
    const group = await this.#group();
    const members = group.members.map(({ memberId, memberEpoch, assignment }) => {
      const partitions = assignment.topicPartitions.map((t) => t.partitions.join());
      return `${memberId} ${memberEpoch} ${partitions.join(' ')}`.trimEnd();
    });
    return [`${group.groupEpoch} ${group.assignmentEpoch}`, ...members.sort()];
  }

  /** The member's epoch, and what it is told to have. */
  async heartbeat(
    memberId: string,
    memberEpoch: number,
    extra: Partial<ConsumerGroupHeartbeatRequestInput> = {},
  ) {
    const answer = await this.#client.request(HEARTBEAT, { groupId: GROUP, memberId, memberEpoch, ...extra });
    expect([answer.errorCode, answer.errorMessage]).toEqual([0, null]);
    const partitions = answer.assignment?.topicPartitions.map((t) => t.partitions.join()).join(' ');
    return [answer.memberEpoch, partitions];
  }

  join(memberId: string, subscription: Partial<ConsumerGroupHeartbeatRequestInput>) {
    return this.heartbeat(memberId, 0, { rebalanceTimeoutMs: 60_000, topicPartitions: [], ...subscription });
  }

  /** It has given up what it had to. */
  async gaveUp(memberId: string, memberEpoch: number) {
    const { members } = await this.#group();
    const { targetAssignment } = members.find((member) => member.memberId === memberId)!;
    const topicPartitions = targetAssignment.topicPartitions.map(({ topicId, partitions }) => ({
      topicId,
      partitions,
    }));
    return this.heartbeat(memberId, memberEpoch, { topicPartitions });
  }

  close(): Promise<void> {
    return this.#client.close();
  }
}

it('goes on where it was', async () => {
  ours = await BrokerProcess.start(kafka.dataDir);
  const client = await Client.connect(ours.address);
  await client.createTopics([{ name: 'q', partitions: 4 }]);
  await client.close();
  let session = await Session.at(ours.address);
  const names = { subscribedTopicNames: ['q'] };
  expect(await session.join('a', names)).toEqual([2, '0,1,2,3']);
  expect(await session.join('b', names)).toEqual([3, '']);
  expect(await session.heartbeat('a', 2)).toEqual([2, '0,1']);
  expect(await session.gaveUp('a', 2)).toEqual([3, undefined]);
  expect(await session.heartbeat('b', 3)).toEqual([3, '2,3']);
  expect(await session.join('r', { subscribedTopicNames: null, subscribedTopicRegex: 'q.*' })).toEqual([
    4,
    '',
  ]);
  const left = await session.state();
  await session.close();
  await ours.stop();

  await kafka.start(...AT_ONCE);
  session = await Session.at(`127.0.0.1:${PORT}`);
  expect(await session.state()).toEqual(left);
  expect((await session.heartbeat('a', 3))[0]).toBe(4);
  await session.join('c', names);
  const byKafka = await session.state();
  expect(byKafka[0]).toBe('5 5');
  await session.close();
  await kafka.stop();

  ours = await BrokerProcess.start(kafka.dataDir);
  session = await Session.at(ours.address);
  expect(await session.state()).toEqual(byKafka);
  expect((await session.heartbeat('c', 5))[0]).toBe(5);
  expect((await session.state())[0]).toBe('5 5');
  await session.close();
});

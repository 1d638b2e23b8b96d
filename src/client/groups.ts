/** Requests of an administrator about groups and their committed offsets. */
import { KafkaError } from '../protocol/errors.ts';
import { ApiKey } from '../protocol/generated/api-keys.ts';
import {
  readConsumerGroupDescribeResponse,
  writeConsumerGroupDescribeRequest,
} from '../protocol/generated/ConsumerGroupDescribe.ts';
import { readConsumerProtocolAssignment } from '../protocol/generated/consumer-protocol.ts';
import { readDeleteGroupsResponse, writeDeleteGroupsRequest } from '../protocol/generated/DeleteGroups.ts';
import {
  type DescribeGroupsResponseDescribedGroup,
  readDescribeGroupsResponse,
  writeDescribeGroupsRequest,
} from '../protocol/generated/DescribeGroups.ts';
import { readListGroupsResponse, writeListGroupsRequest } from '../protocol/generated/ListGroups.ts';
import { readOffsetCommitResponse, writeOffsetCommitRequest } from '../protocol/generated/OffsetCommit.ts';
import { readOffsetDeleteResponse, writeOffsetDeleteRequest } from '../protocol/generated/OffsetDelete.ts';
import { readOffsetFetchResponse, writeOffsetFetchRequest } from '../protocol/generated/OffsetFetch.ts';
import { Reader } from '../protocol/reader.ts';
import { api } from './apis.ts';
import { BrokerRefusal, type Client } from './client.ts';
import { type Coordinator, refuse, withCoordinator } from './coordinator.ts';
import { byTopic, type PartitionOf } from './offsets.ts';

const APIS = {
  consumerGroupDescribe: api(
    ApiKey.ConsumerGroupDescribe,
    writeConsumerGroupDescribeRequest,
    readConsumerGroupDescribeResponse,
  ),
  deleteGroups: api(ApiKey.DeleteGroups, writeDeleteGroupsRequest, readDeleteGroupsResponse),
  describeGroups: api(ApiKey.DescribeGroups, writeDescribeGroupsRequest, readDescribeGroupsResponse),
  listGroups: api(ApiKey.ListGroups, writeListGroupsRequest, readListGroupsResponse),
  offsetCommit: api(ApiKey.OffsetCommit, writeOffsetCommitRequest, readOffsetCommitResponse),
  offsetDelete: api(ApiKey.OffsetDelete, writeOffsetDeleteRequest, readOffsetDeleteResponse),
  offsetFetch: api(ApiKey.OffsetFetch, writeOffsetFetchRequest, readOffsetFetchResponse),
} as const;

const FIRST_FETCH_OF_GROUPS = 8;
/** The last version of OffsetFetch and OffsetCommit that names topics: offsets may be those of a topic that is gone. */
const LAST_WITH_NAMES = 9;

export interface ListedGroup {
  readonly group: string;
  /** As the broker writes it, in small letters: `classic`, `consumer`, `share`, `streams`; null where it does not tell. */
  readonly type: string | null;
  /** As the broker writes it: `Stable`, `Empty` ...; null where it does not tell. */
  readonly state: string | null;
  readonly protocolType: string;
}

/** Groups of all brokers, by name. Throws BROKER_REFUSED. */
export async function listGroups(client: Client): Promise<ListedGroup[]> {
  const { brokers } = await client.metadata([]);
  const groups = new Map<string, ListedGroup>();
  for (const { nodeId } of brokers) {
    const response = await client.request(APIS.listGroups, {}, { to: await client.broker(nodeId) });
    refuse(response.errorCode, `groups of broker ${nodeId}`);
    for (const { groupId, groupType, groupState, protocolType } of response.groups) {
      groups.set(groupId, {
        group: groupId,
        type: groupType === '' ? null : groupType.toLowerCase(),
        state: groupState === '' ? null : groupState,
        protocolType,
      });
    }
  }
  return [...groups.values()].sort((a, b) => (a.group < b.group ? -1 : 1));
}

export interface GroupMemberInfo {
  readonly memberId: string;
  readonly instanceId: string | null;
  readonly clientId: string;
  readonly host: string;
  readonly assignment: readonly { readonly topic: string; readonly partitions: readonly number[] }[];
}

export interface GroupInfo {
  readonly group: string;
  readonly type: 'classic' | 'consumer';
  readonly state: string;
  readonly coordinator: Coordinator;
  /** Of the members; empty while there is none. */
  readonly assignor: string;
  /** Null of a classic group, whose generation is not told. */
  readonly epoch: number | null;
  readonly members: readonly GroupMemberInfo[];
}

/** A group of the consumer or the classic protocol. Throws BROKER_REFUSED: GROUP_ID_NOT_FOUND for one that is not there. */
export async function describeGroup(client: Client, groupId: string): Promise<GroupInfo> {
  return withCoordinator(client, groupId, async (to, coordinator) => {
    if (to.versions?.has(ApiKey.ConsumerGroupDescribe)) {
      const response = await client.request(
        APIS.consumerGroupDescribe,
        { groupIds: [groupId], includeAuthorizedOperations: false },
        { to },
      );
      const group = response.groups[0];
      // A classic group is not found as one of this kind.
      if (group !== undefined && group.errorCode !== KafkaError.GROUP_ID_NOT_FOUND) {
        refuse(group.errorCode, `group ${groupId}`, group.errorMessage);
        return {
          group: groupId,
          type: 'consumer',
          state: group.groupState,
          coordinator,
          assignor: group.assignorName,
          epoch: group.groupEpoch,
          members: group.members.map((member) => ({
            memberId: member.memberId,
            instanceId: member.instanceId,
            clientId: member.clientId,
            host: member.clientHost,
            assignment: member.assignment.topicPartitions.map(({ topicName, partitions }) => ({
              topic: topicName,
              partitions,
            })),
          })),
        };
      }
    }
    const response = await client.request(APIS.describeGroups, { groups: [groupId] }, { to });
    const group = response.groups[0];
    const missing = group === undefined || (group.errorCode === 0 && group.groupState === 'Dead');
    if (missing) throw new BrokerRefusal(KafkaError.GROUP_ID_NOT_FOUND, `group ${groupId}`);
    refuse(group.errorCode, `group ${groupId}`, group.errorMessage);
    return classicInfo(group, coordinator);
  });
}

function classicInfo(group: DescribeGroupsResponseDescribedGroup, coordinator: Coordinator): GroupInfo {
  return {
    group: group.groupId,
    type: 'classic',
    state: group.groupState,
    coordinator,
    assignor: group.protocolData,
    epoch: null,
    members: group.members.map((member) => ({
      memberId: member.memberId,
      instanceId: member.groupInstanceId,
      clientId: member.clientId,
      host: member.clientHost,
      assignment: group.protocolType === 'consumer' ? decodeAssignment(member.memberAssignment) : [],
    })),
  };
}

/** What the leader of a classic consumer group handed to a member: int16 version, then the assignment. */
export function decodeAssignment(bytes: Uint8Array): { topic: string; partitions: number[] }[] {
  if (bytes.length === 0) return [];
  const reader = new Reader(bytes);
  // Versions 0 to 3 are alike but for what stands behind.
  const version = Math.min(reader.int16(), 3);
  return readConsumerProtocolAssignment(reader, version).assignedPartitions;
}

/** Throws BROKER_REFUSED: NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND ... */
export async function deleteGroup(client: Client, groupId: string): Promise<void> {
  await withCoordinator(client, groupId, async (to) => {
    const response = await client.request(APIS.deleteGroups, { groupsNames: [groupId] }, { to });
    for (const { errorCode, errorMessage } of response.results) {
      refuse(errorCode, `group ${groupId} was not deleted`, errorMessage);
    }
  });
}

export interface CommittedOffset extends PartitionOf {
  readonly offset: number;
  readonly leaderEpoch: number;
  readonly metadata: string;
}

/** All offsets that a group has committed, by topic and partition. Throws BROKER_REFUSED. */
export async function committedOffsets(client: Client, groupId: string): Promise<CommittedOffset[]> {
  const topics = await withCoordinator(client, groupId, async (to) => {
    const response = await client.request(
      APIS.offsetFetch,
      (version) =>
        version >= FIRST_FETCH_OF_GROUPS
          ? { groups: [{ groupId, topics: null }] }
          : { groupId, topics: version >= 2 ? null : [] },
      { to, maxVersion: LAST_WITH_NAMES },
    );
    const answer = response.groups[0] ?? response;
    refuse(answer.errorCode, `offsets of group ${groupId}`);
    return answer.topics;
  });
  const offsets: CommittedOffset[] = [];
  for (const { name, partitions } of topics) {
    for (const each of partitions) {
      refuse(each.errorCode, `offset of group ${groupId} in ${name}-${each.partitionIndex}`);
      if (each.committedOffset < 0) continue;
      offsets.push({
        topic: name,
        partition: each.partitionIndex,
        offset: each.committedOffset,
        leaderEpoch: each.committedLeaderEpoch,
        metadata: each.metadata ?? '',
      });
    }
  }
  return offsets.sort((a, b) =>
    a.topic === b.topic ? a.partition - b.partition : a.topic < b.topic ? -1 : 1,
  );
}

/** As which member offsets are committed; nobody for a group without members. */
export interface Committer {
  readonly memberId: string;
  readonly generation: number;
  readonly instanceId?: string | null;
}

/** Commits offsets. Throws BROKER_REFUSED for the first partition that was not. */
export async function commitOffsets(
  client: Client,
  groupId: string,
  offsets: readonly (PartitionOf & { readonly offset: number })[],
  committer: Committer = { memberId: '', generation: -1 },
): Promise<void> {
  if (offsets.length === 0) return;
  await withCoordinator(client, groupId, async (to) => {
    const response = await client.request(
      APIS.offsetCommit,
      {
        groupId,
        generationIdOrMemberEpoch: committer.generation,
        memberId: committer.memberId,
        groupInstanceId: committer.instanceId,
        topics: [...byTopic(offsets)].map(([name, partitions]) => ({
          name,
          partitions: partitions.map(({ partition, offset }) => ({
            partitionIndex: partition,
            committedOffset: offset,
            committedMetadata: '',
          })),
        })),
      },
      { to, maxVersion: LAST_WITH_NAMES },
    );
    for (const { name, partitions } of response.topics) {
      for (const { partitionIndex, errorCode } of partitions) {
        refuse(errorCode, `offset of group ${groupId} in ${name}-${partitionIndex} was not committed`);
      }
    }
  });
}

/** Forgets offsets. Error codes of partitions are left in. Throws BROKER_REFUSED. */
export async function deleteOffsets(
  client: Client,
  groupId: string,
  partitions: readonly PartitionOf[],
): Promise<(PartitionOf & { readonly errorCode: number })[]> {
  return withCoordinator(client, groupId, async (to) => {
    const response = await client.request(
      APIS.offsetDelete,
      {
        groupId,
        topics: [...byTopic(partitions)].map(([name, each]) => ({
          name,
          partitions: each.map(({ partition }) => ({ partitionIndex: partition })),
        })),
      },
      { to },
    );
    refuse(response.errorCode, `offsets of group ${groupId} were not deleted`);
    return response.topics.flatMap(({ name, partitions: answers }) =>
      answers.map(({ partitionIndex, errorCode }) => ({ topic: name, partition: partitionIndex, errorCode })),
    );
  });
}

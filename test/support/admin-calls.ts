/** What the steps of administration are made of. */
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
import type { WireStep } from './compare-wire.ts';

export const createPartitions = api(
  ApiKey.CreatePartitions,
  writeCreatePartitionsRequest,
  readCreatePartitionsResponse,
);
export const createTopics = api(ApiKey.CreateTopics, writeCreateTopicsRequest, readCreateTopicsResponse);
export const deleteTopics = api(ApiKey.DeleteTopics, writeDeleteTopicsRequest, readDeleteTopicsResponse);
export const deleteRecords = api(ApiKey.DeleteRecords, writeDeleteRecordsRequest, readDeleteRecordsResponse);
export const describePartitions = api(
  ApiKey.DescribeTopicPartitions,
  writeDescribeTopicPartitionsRequest,
  readDescribeTopicPartitionsResponse,
);
export const describeLogDirs = api(
  ApiKey.DescribeLogDirs,
  writeDescribeLogDirsRequest,
  readDescribeLogDirsResponse,
);
export const alterLogDirs = api(
  ApiKey.AlterReplicaLogDirs,
  writeAlterReplicaLogDirsRequest,
  readAlterReplicaLogDirsResponse,
);
export const epochEnds = api(
  ApiKey.OffsetForLeaderEpoch,
  writeOffsetForLeaderEpochRequest,
  readOffsetForLeaderEpochResponse,
);
export const electLeaders = api(ApiKey.ElectLeaders, writeElectLeadersRequest, readElectLeadersResponse);
export const listReassignments = api(
  ApiKey.ListPartitionReassignments,
  writeListPartitionReassignmentsRequest,
  readListPartitionReassignmentsResponse,
);
export const alterReassignments = api(
  ApiKey.AlterPartitionReassignments,
  writeAlterPartitionReassignmentsRequest,
  readAlterPartitionReassignmentsResponse,
);
export const listOffsets = api(ApiKey.ListOffsets, writeListOffsetsRequest, readListOffsetsResponse);
export const fetchRecords = api(ApiKey.Fetch, writeFetchRequest, readFetchResponse);

export const TIMEOUT_MS = 20_000;

export function step<Req, Res>(name: string, call: Api<Req, Res>, body: Req, version?: number): WireStep {
  return [name, (peer) => peer.ask(call, body, version)];
}

/** Waits until a broker serves partitions that it has just made: Kafka answers before it does. */
export function serving(topic: string, count: number): WireStep {
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

export type NewTopic = Partial<CreateTopicsRequestInput['topics'][number]>;

export function newTopic(name: string, settings: NewTopic = {}): CreateTopicsRequestInput['topics'][number] {
  return { name, numPartitions: 1, replicationFactor: 1, assignments: [], configs: [], ...settings };
}

export function create(name: string, topics: NewTopic[], validateOnly = false, version?: number): WireStep {
  const body = {
    timeoutMs: TIMEOUT_MS,
    validateOnly,
    topics: topics.map((each) => newTopic(each.name!, each)),
  };
  return step(name, createTopics, body, version);
}

export function partitionCount(topic: string, when: string): WireStep {
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

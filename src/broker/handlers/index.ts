/** THE table: every API that this broker serves. What ApiVersions answers, and what a connection takes, is read off it. */
import { addOffsetsToTxn } from './add-offsets-to-txn.ts';
import { addPartitionsToTxn } from './add-partitions-to-txn.ts';
import { addRaftVoter } from './add-raft-voter.ts';
import { alterClientQuotas } from './alter-client-quotas.ts';
import { alterConfigs } from './alter-configs.ts';
import { alterPartitionReassignments } from './alter-partition-reassignments.ts';
import { alterReplicaLogDirs } from './alter-replica-log-dirs.ts';
import { alterUserScramCredentials } from './alter-user-scram-credentials.ts';
import { apiVersions } from './api-versions.ts';
import { consumerGroupDescribe } from './consumer-group-describe.ts';
import { consumerGroupHeartbeat } from './consumer-group-heartbeat.ts';
import { createPartitions } from './create-partitions.ts';
import { createTopics } from './create-topics.ts';
import { deleteGroups } from './delete-groups.ts';
import { deleteRecords } from './delete-records.ts';
import { deleteTopics } from './delete-topics.ts';
import { describeClientQuotas } from './describe-client-quotas.ts';
import { describeCluster } from './describe-cluster.ts';
import { describeConfigs } from './describe-configs.ts';
import { describeGroups } from './describe-groups.ts';
import { describeLogDirs } from './describe-log-dirs.ts';
import { describeProducers } from './describe-producers.ts';
import { describeQuorum } from './describe-quorum.ts';
import { describeTopicPartitions } from './describe-topic-partitions.ts';
import { describeTransactions } from './describe-transactions.ts';
import { describeUserScramCredentials } from './describe-user-scram-credentials.ts';
import { electLeaders } from './elect-leaders.ts';
import { endTxn } from './end-txn.ts';
import { fetch } from './fetch.ts';
import { findCoordinator } from './find-coordinator.ts';
import type { HandlerRow } from './handler.ts';
import { heartbeat } from './heartbeat.ts';
import { incrementalAlterConfigs } from './incremental-alter-configs.ts';
import { initProducerId } from './init-producer-id.ts';
import { joinGroup } from './join-group.ts';
import { leaveGroup } from './leave-group.ts';
import { listConfigResources } from './list-config-resources.ts';
import { listGroups } from './list-groups.ts';
import { listOffsets } from './list-offsets.ts';
import { listPartitionReassignments } from './list-partition-reassignments.ts';
import { listTransactions } from './list-transactions.ts';
import { metadata } from './metadata.ts';
import { offsetCommit } from './offset-commit.ts';
import { offsetDelete } from './offset-delete.ts';
import { offsetFetch } from './offset-fetch.ts';
import { offsetForLeaderEpoch } from './offset-for-leader-epoch.ts';
import { produce } from './produce.ts';
import { removeRaftVoter } from './remove-raft-voter.ts';
import { streamsGroupDescribe } from './streams-group-describe.ts';
import { streamsGroupHeartbeat } from './streams-group-heartbeat.ts';
import { streamsGroupTopologyDescriptionUpdate } from './streams-group-topology-description-update.ts';
import { syncGroup } from './sync-group.ts';
import { txnOffsetCommit } from './txn-offset-commit.ts';
import { unregisterBroker } from './unregister-broker.ts';
import { unregisterController } from './unregister-controller.ts';
import { updateFeatures } from './update-features.ts';
import { writeTxnMarkers } from './write-txn-markers.ts';

const ROWS: readonly HandlerRow[] = [
  produce,
  fetch,
  listOffsets,
  metadata,
  offsetCommit,
  offsetFetch,
  findCoordinator,
  joinGroup,
  heartbeat,
  leaveGroup,
  syncGroup,
  describeGroups,
  listGroups,
  apiVersions,
  createTopics,
  deleteTopics,
  initProducerId,
  addPartitionsToTxn,
  addOffsetsToTxn,
  endTxn,
  writeTxnMarkers,
  txnOffsetCommit,
  describeProducers,
  describeTransactions,
  listTransactions,
  describeConfigs,
  alterConfigs,
  incrementalAlterConfigs,
  listConfigResources,
  deleteGroups,
  offsetDelete,
  describeClientQuotas,
  alterClientQuotas,
  describeUserScramCredentials,
  alterUserScramCredentials,
  describeQuorum,
  updateFeatures,
  describeCluster,
  unregisterBroker,
  addRaftVoter,
  removeRaftVoter,
  unregisterController,
  alterPartitionReassignments,
  alterReplicaLogDirs,
  createPartitions,
  deleteRecords,
  describeLogDirs,
  describeTopicPartitions,
  electLeaders,
  listPartitionReassignments,
  offsetForLeaderEpoch,
  consumerGroupHeartbeat,
  consumerGroupDescribe,
  streamsGroupHeartbeat,
  streamsGroupDescribe,
  streamsGroupTopologyDescriptionUpdate,
];

/** By API key, ascending. */
export const HANDLERS: ReadonlyMap<number, HandlerRow> = new Map(
  [...ROWS].sort((a, b) => a.key - b.key).map((row) => [row.key, row]),
);

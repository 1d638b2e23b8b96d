/**
 * What the controller decides about partitions of topics that exist: more of them, other replicas, another leader. Pure, as
 * all of the controller is.
 */
import { KafkaError } from '../protocol/errors.ts';
import {
  type ControllerSettings,
  MAX_PARTITIONS_PER_REQUEST,
  partitionRecord,
  type Refusal,
  refuse,
  replicasFault,
} from './controller.ts';
import { type ClusterImage, NO_LEADER, type PartitionState } from './image.ts';
import type { MetadataRecordInput } from './records.ts';
import { INTERNAL_TOPICS } from './topic-names.ts';

/** The shape of CreatePartitionsRequest's CreatePartitionsTopic. */
export interface PartitionsSpec {
  readonly name: string;
  /** How many the topic is to have in all. */
  readonly count: number;
  /** Which nodes hold each new partition; null to let the controller choose. */
  readonly assignments: readonly { readonly brokerIds: readonly number[] }[] | null;
}

export interface CreatePartitionsDecision {
  readonly ok: true;
  readonly name: string;
  /** The first new partition; the others follow. */
  readonly firstIndex: number;
  readonly records: readonly MetadataRecordInput[];
}

/** More partitions of a topic. Also the check of a request that only wants to be validated. */
export function createPartitions(
  image: ClusterImage,
  spec: PartitionsSpec,
  settings: ControllerSettings,
): CreatePartitionsDecision | Refusal {
  const { name, count, assignments } = spec;
  const topic = image.topicsByName.get(name);
  if (topic === undefined) {
    return refuse(KafkaError.UNKNOWN_TOPIC_OR_PARTITION, `topic '${name}' does not exist`);
  }
  if (INTERNAL_TOPICS.has(name)) {
    return refuse(
      KafkaError.INVALID_TOPIC_EXCEPTION,
      `the number of partitions of the internal topic '${name}' says where each key lies and cannot change`,
    );
  }
  const present = topic.partitions.size;
  if (count <= present) {
    return refuse(
      KafkaError.INVALID_PARTITIONS,
      `topic '${name}' has ${present} partitions, it can only get more, not ${count}`,
    );
  }
  const added = count - present;
  if (assignments !== null) {
    if (assignments.length !== added) {
      return refuse(
        KafkaError.INVALID_REPLICA_ASSIGNMENT,
        `${added} partitions are to be added and ${assignments.length} are assigned`,
      );
    }
    for (const [index, { brokerIds }] of assignments.entries()) {
      const fault = replicasFault(brokerIds, settings);
      if (fault !== undefined) {
        return refuse(KafkaError.INVALID_REPLICA_ASSIGNMENT, `partition ${present + index}: ${fault}`);
      }
    }
  }
  if (image.partitionCount + added > settings.maxPartitions) {
    return refuse(
      KafkaError.POLICY_VIOLATION,
      `${added} more partitions would make ${image.partitionCount + added}, the limit is ${settings.maxPartitions}`,
    );
  }
  const records: MetadataRecordInput[] = [];
  for (let index = present; index < count; index++) {
    records.push(partitionRecord(image, topic.id, index, settings));
  }
  return { ok: true, name, firstIndex: present, records };
}

/** The refusal of a whole request that asks for too many more partitions. */
export function tooManyMorePartitions(
  image: ClusterImage,
  specs: readonly PartitionsSpec[],
): Refusal | undefined {
  let total = 0;
  for (const { name, count } of specs) {
    total += Math.max(0, count - (image.topicsByName.get(name)?.partitions.size ?? count));
  }
  if (total <= MAX_PARTITIONS_PER_REQUEST) return undefined;
  return refuse(
    KafkaError.POLICY_VIOLATION,
    `${total} more partitions in one request, the limit is ${MAX_PARTITIONS_PER_REQUEST}`,
  );
}

function findPartition(image: ClusterImage, topic: string, index: number): PartitionState | Refusal {
  const partitions = image.topicsByName.get(topic)?.partitions;
  if (partitions === undefined) {
    return refuse(KafkaError.UNKNOWN_TOPIC_OR_PARTITION, `topic '${topic}' does not exist`);
  }
  return (
    partitions.get(index) ??
    refuse(KafkaError.UNKNOWN_TOPIC_OR_PARTITION, `topic '${topic}' has no partition ${index}`)
  );
}

/** Other replicas for a partition, or null to cancel such a change. With one node there is one set of replicas, which every
 * partition has: undefined says that it has what is asked for. */
export function reassignPartition(
  image: ClusterImage,
  topic: string,
  index: number,
  replicas: readonly number[] | null,
  settings: Pick<ControllerSettings, 'nodeId'>,
): Refusal | undefined {
  const partition = findPartition(image, topic, index);
  if ('ok' in partition) return partition;
  if (replicas === null) {
    return refuse(KafkaError.NO_REASSIGNMENT_IN_PROGRESS, `no reassignment of ${topic}-${index} goes on`);
  }
  const fault = replicasFault(replicas, settings);
  return fault === undefined ? undefined : refuse(KafkaError.INVALID_REPLICA_ASSIGNMENT, fault);
}

/** An election of a partition's leader, whatever its type: the one replica leads already, or is lost. */
export function electLeader(image: ClusterImage, topic: string, index: number): Refusal {
  const partition = findPartition(image, topic, index);
  if ('ok' in partition) return partition;
  return partition.leader === NO_LEADER
    ? refuse(KafkaError.ELIGIBLE_LEADERS_NOT_AVAILABLE, `no replica of ${topic}-${index} can lead it`)
    : refuse(KafkaError.ELECTION_NOT_NEEDED, `${topic}-${index} is led by node ${partition.leader}`);
}

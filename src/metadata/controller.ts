/**
 * The controller as pure functions: what a command means for an image, as records to append or as a Kafka error. Nothing
 * here writes, waits or looks at a clock.
 */
import { KafkaError } from '../protocol/errors.ts';
import { BroadsheetError } from '../runtime/errors.ts';
import { type ClusterImage, ConfigResource, LeaderRecoveryState, NO_LEADER } from './image.ts';
import type { MetadataRecordInput } from './records.ts';
import { CLUSTER_METADATA_TOPIC, topicNameFault } from './topic-names.ts';

/** Producer ids come in blocks of this many. */
export const PRODUCER_ID_BLOCK_SIZE = 1000;

/** Most partitions that one request may make, as in Apache Kafka. */
export const MAX_PARTITIONS_PER_REQUEST = 10_000;

/** Most characters of one resource's configs: Kafka reads no metadata batch above 8 MiB. */
export const MAX_CONFIG_LENGTH = 1024 * 1024;

export interface ControllerSettings {
  readonly nodeId: number;
  readonly directoryId: string;
  /** num.partitions: for topics that name no number. */
  readonly defaultPartitions: number;
  /** Most partitions of all topics together. */
  readonly maxPartitions: number;
  /** Throws BroadsheetError INVALID_CONFIG when Kafka would refuse these values of a topic. */
  readonly validateTopicConfig: (values: ReadonlyMap<string, string>) => void;
  /** A new topic id. */
  readonly newTopicId: () => string;
}

/** The shape of CreateTopicsRequest's CreatableTopic. */
export interface TopicSpec {
  readonly name: string;
  /** -1 for the default. */
  readonly numPartitions: number;
  /** 1, or -1 for the default. */
  readonly replicationFactor: number;
  /** Which nodes hold which partition; empty to let the controller choose. */
  readonly assignments: readonly { readonly partitionIndex: number; readonly brokerIds: readonly number[] }[];
  readonly configs: readonly { readonly name: string; readonly value: string | null }[];
}

/** A command that was refused. */
export interface Refusal {
  readonly ok: false;
  /** Kafka error code. */
  readonly errorCode: number;
  /** For people; names the value that was refused and the limit. */
  readonly message: string;
}

export interface CreateTopicDecision {
  readonly ok: true;
  readonly topicId: string;
  readonly numPartitions: number;
  readonly replicationFactor: number;
  readonly records: readonly MetadataRecordInput[];
}

export interface DeleteTopicDecision {
  readonly ok: true;
  readonly name: string;
  readonly topicId: string;
  readonly records: readonly MetadataRecordInput[];
}

export interface ProducerIdsDecision {
  readonly ok: true;
  readonly firstProducerId: number;
  readonly count: number;
  readonly records: readonly MetadataRecordInput[];
}

export function refuse(errorCode: number, message: string): Refusal {
  return { ok: false, errorCode, message };
}

/** The versions in which records are written: what a finalized metadata.version can hold. A Kafka at that version
 * could not write its snapshots otherwise. */
export interface RecordVersions {
  readonly registerBroker: number;
  readonly partition: number;
  readonly partitionChange: number;
}

export function recordVersions(metadataVersion: number): RecordVersions {
  const registerBroker = metadataVersion >= 30 ? 4 : metadataVersion >= 17 ? 3 : metadataVersion >= 8 ? 2 : 1;
  const partition = metadataVersion >= 23 ? 2 : metadataVersion >= 17 ? 1 : 0;
  return { registerBroker, partition, partitionChange: partition };
}

/** A topic to make. Also the check of a request that only wants to be validated. */
export function createTopic(
  image: ClusterImage,
  spec: TopicSpec,
  settings: ControllerSettings,
): CreateTopicDecision | Refusal {
  const { name } = spec;
  if (name === CLUSTER_METADATA_TOPIC) return refuse(KafkaError.INVALID_REQUEST, `${name} cannot be created`);
  const fault = topicNameFault(name);
  if (fault !== undefined) return refuse(KafkaError.INVALID_TOPIC_EXCEPTION, fault);
  if (image.topicsByName.has(name)) {
    return refuse(KafkaError.TOPIC_ALREADY_EXISTS, `Topic '${name}' already exists.`);
  }
  const colliding = image.collidingTopic(name);
  if (colliding !== undefined) {
    return refuse(
      KafkaError.INVALID_TOPIC_EXCEPTION,
      `topic '${name}' collides with existing topic '${colliding}': names must differ in more than '.' and '_'`,
    );
  }
  const partitions = partitionsOf(spec, settings);
  if (typeof partitions !== 'number') return partitions;
  if (image.partitionCount + partitions > settings.maxPartitions) {
    return refuse(
      KafkaError.POLICY_VIOLATION,
      `${partitions} more partitions would make ${image.partitionCount + partitions}, the limit is ${settings.maxPartitions}`,
    );
  }
  const configs = configsOf(spec, settings);
  if (!(configs instanceof Map)) return configs;
  const topicId = settings.newTopicId();
  const records: MetadataRecordInput[] = [{ type: 'Topic', version: 0, data: { name, topicId } }];
  for (const [key, value] of configs) {
    records.push({
      type: 'Config',
      version: 0,
      data: { resourceType: ConfigResource.TOPIC, resourceName: name, name: key, value },
    });
  }
  for (let partitionId = 0; partitionId < partitions; partitionId++) {
    records.push(partitionRecord(image, topicId, partitionId, settings));
  }
  return { ok: true, topicId, numPartitions: partitions, replicationFactor: 1, records };
}

/** A new partition of this node. */
export function partitionRecord(
  image: ClusterImage,
  topicId: string,
  partitionId: number,
  settings: Pick<ControllerSettings, 'nodeId' | 'directoryId'>,
): MetadataRecordInput {
  const version = recordVersions(image.metadataVersion).partition;
  return {
    type: 'Partition',
    version,
    data: {
      partitionId,
      topicId,
      replicas: [settings.nodeId],
      isr: [settings.nodeId],
      removingReplicas: [],
      addingReplicas: [],
      leader: settings.nodeId,
      leaderRecoveryState: LeaderRecoveryState.RECOVERED,
      leaderEpoch: 0,
      partitionEpoch: 0,
      directories: version >= 1 ? [settings.directoryId] : [],
    },
  };
}

/** Why a partition cannot have these replicas, or undefined. */
export function replicasFault(
  brokerIds: readonly number[],
  { nodeId }: Pick<ControllerSettings, 'nodeId'>,
): string | undefined {
  if (brokerIds.length === 0) return 'no broker is named';
  const stranger = brokerIds.find((id) => id !== nodeId);
  if (stranger !== undefined) return `broker ${stranger} does not exist, the only one is ${nodeId}`;
  return brokerIds.length > 1 ? `broker ${nodeId} is named ${brokerIds.length} times` : undefined;
}

/** How many partitions a spec asks for. */
function partitionsOf(spec: TopicSpec, settings: ControllerSettings): number | Refusal {
  if (spec.assignments.length > 0) {
    if (spec.replicationFactor !== -1) {
      return refuse(
        KafkaError.INVALID_REQUEST,
        `a manual assignment excludes a replication factor, got ${spec.replicationFactor}`,
      );
    }
    if (spec.numPartitions !== -1) {
      return refuse(
        KafkaError.INVALID_REQUEST,
        `a manual assignment excludes a number of partitions, got ${spec.numPartitions}`,
      );
    }
    return checkAssignments(spec, settings) ?? spec.assignments.length;
  }
  const { replicationFactor, numPartitions } = spec;
  if (replicationFactor !== -1 && replicationFactor !== 1) {
    return refuse(
      KafkaError.INVALID_REPLICATION_FACTOR,
      replicationFactor < 1
        ? `the replication factor must be at least 1, or -1 for the default, got ${replicationFactor}`
        : `the replication factor is ${replicationFactor} and this cluster has 1 broker`,
    );
  }
  if (numPartitions < -1 || numPartitions === 0) {
    return refuse(
      KafkaError.INVALID_PARTITIONS,
      `the number of partitions must be at least 1, or -1 for the default, got ${numPartitions}`,
    );
  }
  return numPartitions === -1 ? settings.defaultPartitions : numPartitions;
}

/** The refusal of a whole request that asks for too many partitions. */
export function tooManyPartitions(
  specs: readonly TopicSpec[],
  settings: ControllerSettings,
): Refusal | undefined {
  let total = 0;
  for (const { assignments, numPartitions } of specs) {
    if (assignments.length > 0) total += assignments.length;
    else total += numPartitions === -1 ? settings.defaultPartitions : Math.max(numPartitions, 0);
  }
  if (total <= MAX_PARTITIONS_PER_REQUEST) return undefined;
  return refuse(
    KafkaError.POLICY_VIOLATION,
    `${total} partitions in one request, the limit is ${MAX_PARTITIONS_PER_REQUEST}`,
  );
}

/** One refusal for each name that comes more than once in a request. */
export function repeatedNames(names: readonly string[]): Map<string, Refusal> {
  const seen = new Set<string>();
  const repeated = new Map<string, Refusal>();
  for (const name of names) {
    if (seen.has(name)) {
      repeated.set(
        name,
        refuse(KafkaError.INVALID_REQUEST, `topic '${name}' is in the request more than once`),
      );
    }
    seen.add(name);
  }
  return repeated;
}

function checkAssignments(spec: TopicSpec, settings: ControllerSettings): Refusal | undefined {
  const seen = new Set<number>();
  for (const { partitionIndex, brokerIds } of spec.assignments) {
    const fail = (what: string) =>
      refuse(KafkaError.INVALID_REPLICA_ASSIGNMENT, `partition ${partitionIndex}: ${what}`);
    if (seen.has(partitionIndex)) return fail('assigned twice');
    seen.add(partitionIndex);
    const fault = replicasFault(brokerIds, settings);
    if (fault !== undefined) return fail(fault);
  }
  for (let index = 0; index < seen.size; index++) {
    if (!seen.has(index)) {
      return refuse(
        KafkaError.INVALID_REPLICA_ASSIGNMENT,
        `partitions must count from 0 without gaps, ${index} is missing`,
      );
    }
  }
  return undefined;
}

function configsOf(spec: TopicSpec, settings: ControllerSettings): Map<string, string> | Refusal {
  const values = new Map<string, string>();
  let size = 0;
  for (const { name, value } of spec.configs) {
    size += name.length + (value?.length ?? 0);
    if (value === null) return refuse(KafkaError.INVALID_CONFIG, `the value of ${name} is null`);
    if (values.has(name)) return refuse(KafkaError.INVALID_CONFIG, `${name} is given twice`);
    values.set(name, value);
  }
  if (size > MAX_CONFIG_LENGTH) {
    return refuse(
      KafkaError.INVALID_CONFIG,
      `configs of ${size} characters, the limit is ${MAX_CONFIG_LENGTH}`,
    );
  }
  try {
    settings.validateTopicConfig(values);
  } catch (error) {
    if (error instanceof BroadsheetError && error.code === 'INVALID_CONFIG') {
      return refuse(KafkaError.INVALID_CONFIG, error.message);
    }
    throw error;
  }
  return values;
}

/** Which topic to delete: exactly one of name and id. */
export interface TopicReference {
  readonly name: string | null;
  /** The zero uuid when the topic is given by name. */
  readonly topicId: string;
}

const NO_TOPIC_ID = 'AAAAAAAAAAAAAAAAAAAAAA';
/** Of a replica that Kafka assigns to a directory when it starts. */
const NO_DIRECTORY = 'AAAAAAAAAAAAAAAAAAAAAA';

export function deleteTopic(image: ClusterImage, reference: TopicReference): DeleteTopicDecision | Refusal {
  const { name, topicId } = reference;
  const byId = topicId !== NO_TOPIC_ID;
  if (name !== null && byId)
    return refuse(KafkaError.INVALID_REQUEST, 'a topic is given by name or by id, not both');
  if (name === null && !byId)
    return refuse(KafkaError.INVALID_REQUEST, 'neither a topic name nor an id is given');
  const topic = name !== null ? image.topicsByName.get(name) : image.topicsById.get(topicId);
  if (topic === undefined) {
    return name !== null
      ? refuse(KafkaError.UNKNOWN_TOPIC_OR_PARTITION, `topic '${name}' does not exist`)
      : refuse(KafkaError.UNKNOWN_TOPIC_ID, `no topic has the id ${topicId}`);
  }
  return {
    ok: true,
    name: topic.name,
    topicId: topic.id,
    records: [{ type: 'RemoveTopic', version: 0, data: { topicId: topic.id } }],
  };
}

/** The next block of producer ids. Ids never come twice: the record is durable before an id of the block is used. */
export function allocateProducerIds(
  image: ClusterImage,
  nodeId: number,
  brokerEpoch: number,
): ProducerIdsDecision | Refusal {
  const firstProducerId = image.nextProducerId;
  const nextProducerId = firstProducerId + PRODUCER_ID_BLOCK_SIZE;
  if (nextProducerId > Number.MAX_SAFE_INTEGER) {
    return refuse(
      KafkaError.UNKNOWN_SERVER_ERROR,
      `producer ids are used up, the next is ${firstProducerId}`,
    );
  }
  return {
    ok: true,
    firstProducerId,
    count: PRODUCER_ID_BLOCK_SIZE,
    records: [{ type: 'ProducerIds', version: 0, data: { brokerId: nodeId, brokerEpoch, nextProducerId } }],
  };
}

export interface EndPoint {
  /** Listener name. */
  readonly name: string;
  readonly host: string;
  readonly port: number;
}

/** Security protocol code of PLAINTEXT. */
const PLAINTEXT = 0;

export interface Registration {
  readonly nodeId: number;
  readonly directoryId: string;
  readonly incarnationId: string;
  readonly brokerEpoch: number;
  readonly endPoints: readonly EndPoint[];
  /** Feature levels that this broker serves. */
  readonly features: readonly { name: string; minSupportedVersion: number; maxSupportedVersion: number }[];
}

/**
 * This broker's registration. It stays fenced and nothing ever unfences it: an Apache Kafka that starts on this directory
 * would take an unfenced registration for a living broker and wait for its session to end (9 s, seen). A fenced leader
 * hinders nothing.
 */
export function registerBroker(image: ClusterImage, registration: Registration): MetadataRecordInput {
  return {
    type: 'RegisterBroker',
    version: recordVersions(image.metadataVersion).registerBroker,
    data: {
      brokerId: registration.nodeId,
      incarnationId: registration.incarnationId,
      brokerEpoch: registration.brokerEpoch,
      endPoints: registration.endPoints.map((endPoint) => ({ ...endPoint, securityProtocol: PLAINTEXT })),
      features: registration.features.map((feature) => ({ ...feature })),
      rack: null,
      fenced: true,
      inControlledShutdown: false,
      logDirs: image.metadataVersion >= 17 ? [registration.directoryId] : [],
    },
  };
}

/**
 * Takes the lead of every partition of this node that has no leader, as after an Apache Kafka's stop. A partition that
 * is said to lie in another directory than this one, though its folder is here, is put right: Kafka might leave it without
 * a leader (seen).
 */
export function electLeaders(
  image: ClusterImage,
  nodeId: number,
  directoryId: string,
): MetadataRecordInput[] {
  const version = recordVersions(image.metadataVersion).partitionChange;
  const records: MetadataRecordInput[] = [];
  for (const topic of image.topicsById.values()) {
    for (const partition of topic.partitions.values()) {
      const leaderless = partition.leader === NO_LEADER;
      const elsewhere =
        version >= 1 && partition.directories.some((id) => id !== directoryId && id !== NO_DIRECTORY);
      if (!leaderless && !elsewhere) continue;
      records.push({
        type: 'PartitionChange',
        version,
        data: {
          partitionId: partition.id,
          topicId: topic.id,
          ...(leaderless ? { leader: nodeId, isr: [nodeId] } : {}),
          ...(leaderless && version >= 2 ? { eligibleLeaderReplicas: [] } : {}),
          ...(elsewhere ? { directories: [directoryId] } : {}),
        },
      });
    }
  }
  return records;
}

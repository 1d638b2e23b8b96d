/**
 * The cluster image: what the metadata log says when all of it is replayed. It changes in place and only by apply();
 * whoever reads it sees every record that was appended, durable or not.
 */
import { BroadsheetError } from '../runtime/errors.ts';
import type { MetadataRecord } from './records.ts';
import { SecurityImage } from './security-image.ts';
import { topicNameFault } from './topic-names.ts';

/** Values of PartitionRecord.LeaderRecoveryState. */
export const LeaderRecoveryState = { RECOVERED: 0, RECOVERING: 1 } as const;

/** Leader of a partition that has none. */
export const NO_LEADER = -1;
/** In a PartitionChange: the leader stays, and so does its epoch. */
const LEADER_UNCHANGED = -2;

/** Kinds of resource that configs belong to (ConfigRecord.ResourceType). */
export const ConfigResource = {
  TOPIC: 2,
  BROKER: 4,
  BROKER_LOGGER: 8,
  CLIENT_METRICS: 16,
  GROUP: 32,
} as const;

const UNASSIGNED_DIRECTORY = 'AAAAAAAAAAAAAAAAAAAAAA';

export interface PartitionState {
  readonly id: number;
  replicas: number[];
  isr: number[];
  removingReplicas: number[];
  addingReplicas: number[];
  /** Node id, or NO_LEADER. */
  leader: number;
  leaderRecoveryState: number;
  /** Grows with every change of leader, also to none. Batches carry it. */
  leaderEpoch: number;
  /** Grows with every change. */
  partitionEpoch: number;
  /** The log directory of each replica, in the order of replicas. */
  directories: string[];
  eligibleLeaderReplicas: number[];
  lastKnownElr: number[];
}

export interface TopicState {
  readonly name: string;
  readonly id: string;
  /** By partition id. */
  readonly partitions: Map<number, PartitionState>;
}

export interface BrokerState {
  readonly id: number;
  readonly incarnationId: string;
  /** The BrokerEpoch field of the registration. */
  readonly epoch: number;
  readonly endPoints: readonly { name: string; host: string; port: number; securityProtocol: number }[];
  readonly features: readonly { name: string; minSupportedVersion: number; maxSupportedVersion: number }[];
  readonly rack: string | null;
  fenced: boolean;
  inControlledShutdown: boolean;
  directories: readonly string[];
  cordonedDirectories: readonly string[];
}

/** The record types that an image takes: all but the marks of a transaction, which ImageLoader resolves. */
export type ImageRecord = Exclude<
  MetadataRecord,
  { type: 'BeginTransaction' | 'EndTransaction' | 'AbortTransaction' }
>;

/** Names that differ only in '.' and '_' collide: metrics cannot tell them apart. */
export function collisionKey(topic: string): string {
  return topic.replaceAll('.', '_');
}

export class ClusterImage {
  readonly topicsByName = new Map<string, TopicState>();
  readonly topicsById = new Map<string, TopicState>();
  readonly brokers = new Map<number, BrokerState>();
  readonly controllers = new Map<number, Extract<MetadataRecord, { type: 'RegisterController' }>['data']>();
  /** Finalized features that are above level 0, also those that this broker does not serve. */
  readonly features = new Map<string, number>();
  readonly security = new SecurityImage();
  /** The first producer id that no block holds yet. */
  nextProducerId = 0;
  partitionCount = 0;
  zkMigrationState = 0;
  /** Told of a topic before its partitions change: FrozenImage keeps what they were. */
  beforeTopicChange: ((topic: TopicState) => void) | undefined;
  /** Resource type -> resource name -> key -> value. */
  readonly #configs = new Map<number, Map<string, Map<string, string>>>();
  /** Collision key -> topics, for names that hold '.' or '_'. */
  readonly #collisions = new Map<string, Set<string>>();

  /** Finalized metadata.version, 0 before the log names one. */
  get metadataVersion(): number {
    return this.features.get('metadata.version') ?? 0;
  }

  /** Values that were set on a resource; the cluster-wide defaults of brokers have the name ''. */
  configs(resourceType: number, resourceName: string): ReadonlyMap<string, string> {
    return this.#configs.get(resourceType)?.get(resourceName) ?? EMPTY;
  }

  topicConfigs(name: string): ReadonlyMap<string, string> {
    return this.configs(ConfigResource.TOPIC, name);
  }

  /** The types of resource that have a value set. */
  configuredTypes(): number[] {
    return [...this.#configs.keys()];
  }

  /** Names of the resources of one type that have a value set. */
  configuredResources(resourceType: number): string[] {
    return [...(this.#configs.get(resourceType)?.keys() ?? [])];
  }

  /** Another topic whose name differs from this one only in '.' and '_'. */
  collidingTopic(name: string): string | undefined {
    for (const other of this.#collisions.get(collisionKey(name)) ?? []) if (other !== name) return other;
    return undefined;
  }

  /** Takes one record. Throws CORRUPT when it does not fit what came before. */
  apply(record: ImageRecord): void {
    switch (record.type) {
      case 'Topic':
        this.#addTopic(record.data.name, record.data.topicId);
        return;
      case 'RemoveTopic':
        this.#removeTopic(record.data.topicId);
        return;
      case 'Partition':
        this.#setPartition(record.data);
        return;
      case 'PartitionChange':
        this.#changePartition(record.data);
        return;
      case 'ClearElr':
        this.#clearElr(record.data.topicName);
        return;
      case 'Config':
        this.#setConfig(record.data);
        return;
      case 'FeatureLevel':
        if (record.data.featureLevel === 0) this.features.delete(record.data.name);
        else this.features.set(record.data.name, record.data.featureLevel);
        return;
      case 'ProducerIds':
        this.nextProducerId = record.data.nextProducerId;
        return;
      case 'RegisterBroker':
        this.#registerBroker(record.data);
        return;
      case 'UnregisterBroker':
        this.brokers.delete(record.data.brokerId);
        return;
      case 'FenceBroker':
      case 'UnfenceBroker': {
        const broker = this.brokers.get(record.data.id);
        if (broker !== undefined) broker.fenced = record.type === 'FenceBroker';
        return;
      }
      case 'BrokerRegistrationChange':
        this.#changeBroker(record.data);
        return;
      case 'RegisterController':
        this.controllers.set(record.data.controllerId, record.data);
        return;
      case 'UnregisterController':
        this.controllers.delete(record.data.controllerId);
        return;
      case 'ZkMigrationState':
        this.zkMigrationState = record.data.zkMigrationState;
        return;
      case 'NoOp':
        return;
      default:
        this.security.apply(record);
        return;
    }
  }

  #addTopic(name: string, id: string): void {
    // Folders are named after it.
    const fault = topicNameFault(name);
    if (fault !== undefined) throw corrupt(fault);
    if (this.topicsByName.has(name) || this.topicsById.has(id))
      throw corrupt(`topic ${name} (${id}) is made twice`);
    const topic: TopicState = { name, id, partitions: new Map() };
    this.topicsByName.set(name, topic);
    this.topicsById.set(id, topic);
    const key = collisionKey(name);
    if (!key.includes('_')) return;
    const names = this.#collisions.get(key);
    if (names === undefined) this.#collisions.set(key, new Set([name]));
    else names.add(name);
  }

  #removeTopic(id: string): void {
    const topic = this.#topic(id);
    this.topicsById.delete(id);
    this.topicsByName.delete(topic.name);
    this.partitionCount -= topic.partitions.size;
    this.#configs.get(ConfigResource.TOPIC)?.delete(topic.name);
    const key = collisionKey(topic.name);
    const names = this.#collisions.get(key);
    if (names?.delete(topic.name) && names.size === 0) this.#collisions.delete(key);
  }

  #setPartition(data: Extract<MetadataRecord, { type: 'Partition' }>['data']): void {
    const topic = this.#topic(data.topicId);
    this.beforeTopicChange?.(topic);
    if (!topic.partitions.has(data.partitionId)) this.partitionCount++;
    topic.partitions.set(data.partitionId, {
      id: data.partitionId,
      replicas: data.replicas,
      isr: data.isr,
      removingReplicas: data.removingReplicas,
      addingReplicas: data.addingReplicas,
      leader: data.leader,
      leaderRecoveryState: data.leaderRecoveryState,
      leaderEpoch: data.leaderEpoch,
      partitionEpoch: data.partitionEpoch,
      directories: directoriesFor(data.replicas, data.directories ?? []),
      eligibleLeaderReplicas: data.eligibleLeaderReplicas ?? [],
      lastKnownElr: data.lastKnownElr ?? [],
    });
  }

  #changePartition(data: Extract<MetadataRecord, { type: 'PartitionChange' }>['data']): void {
    const topic = this.#topic(data.topicId);
    const partition = topic.partitions.get(data.partitionId);
    if (partition === undefined)
      throw corrupt(`${topic.name}-${data.partitionId} changes and does not exist`);
    this.beforeTopicChange?.(topic);
    if (data.isr !== null) partition.isr = data.isr;
    if (data.leader !== LEADER_UNCHANGED) {
      partition.leader = data.leader;
      partition.leaderEpoch++;
    }
    if (data.leaderRecoveryState !== -1) partition.leaderRecoveryState = data.leaderRecoveryState;
    if (data.replicas !== null) {
      const before = new Map(partition.replicas.map((id, i) => [id, partition.directories[i]]));
      partition.replicas = data.replicas;
      partition.directories = data.replicas.map((id) => before.get(id) ?? UNASSIGNED_DIRECTORY);
    }
    if (data.directories !== null)
      partition.directories = directoriesFor(partition.replicas, data.directories);
    if (data.removingReplicas !== null) partition.removingReplicas = data.removingReplicas;
    if (data.addingReplicas !== null) partition.addingReplicas = data.addingReplicas;
    if (data.eligibleLeaderReplicas !== null) partition.eligibleLeaderReplicas = data.eligibleLeaderReplicas;
    if (data.lastKnownElr !== null) partition.lastKnownElr = data.lastKnownElr;
    partition.partitionEpoch++;
  }

  #clearElr(topicName: string): void {
    const named = this.topicsByName.get(topicName);
    if (topicName !== '' && named === undefined) throw corrupt(`ClearElr of the missing topic ${topicName}`);
    for (const topic of named === undefined ? this.topicsByName.values() : [named]) {
      for (const partition of topic.partitions.values()) {
        if (partition.eligibleLeaderReplicas.length + partition.lastKnownElr.length === 0) continue;
        this.beforeTopicChange?.(topic);
        partition.eligibleLeaderReplicas = [];
        partition.lastKnownElr = [];
        partition.partitionEpoch++;
      }
    }
  }

  #setConfig(data: Extract<MetadataRecord, { type: 'Config' }>['data']): void {
    const { resourceType, resourceName, name, value } = data;
    let resources = this.#configs.get(resourceType);
    if (resources === undefined) {
      resources = new Map();
      this.#configs.set(resourceType, resources);
    }
    let values = resources.get(resourceName);
    if (value !== null) {
      if (values === undefined) {
        values = new Map();
        resources.set(resourceName, values);
      }
      values.set(name, value);
    } else if (values?.delete(name) && values.size === 0) {
      resources.delete(resourceName);
    }
  }

  #registerBroker(data: Extract<MetadataRecord, { type: 'RegisterBroker' }>['data']): void {
    this.brokers.set(data.brokerId, {
      id: data.brokerId,
      incarnationId: data.incarnationId,
      epoch: data.brokerEpoch,
      endPoints: data.endPoints,
      features: data.features,
      rack: data.rack,
      fenced: data.fenced,
      inControlledShutdown: data.inControlledShutdown,
      directories: data.logDirs,
      cordonedDirectories: data.cordonedLogDirs ?? [],
    });
  }

  #changeBroker(data: Extract<MetadataRecord, { type: 'BrokerRegistrationChange' }>['data']): void {
    const broker = this.brokers.get(data.brokerId);
    if (broker === undefined) throw corrupt(`broker ${data.brokerId} changes and is not registered`);
    if (data.fenced !== 0) broker.fenced = data.fenced > 0;
    if (data.inControlledShutdown !== 0) broker.inControlledShutdown = data.inControlledShutdown > 0;
    if (data.logDirs.length > 0) broker.directories = data.logDirs;
    if (data.cordonedLogDirs !== null) broker.cordonedDirectories = data.cordonedLogDirs;
  }

  #topic(id: string): TopicState {
    const topic = this.topicsById.get(id);
    if (topic === undefined) throw corrupt(`topic id ${id} does not exist`);
    return topic;
  }
}

const EMPTY: ReadonlyMap<string, string> = new Map();

function corrupt(what: string): BroadsheetError {
  return new BroadsheetError('CORRUPT', `cluster metadata: ${what}`);
}

/** Kafka before 3.7 named no directories. */
function directoriesFor(replicas: readonly number[], directories: string[]): string[] {
  return directories.length === replicas.length ? directories : replicas.map(() => UNASSIGNED_DIRECTORY);
}

/** Applies records in log order. What stands between BeginTransaction and EndTransaction is applied at its end, or never
 * if AbortTransaction comes. */
export class ImageLoader {
  readonly #image: ClusterImage;
  #pending: ImageRecord[] | undefined;

  constructor(image: ClusterImage) {
    this.#image = image;
  }

  /** A transaction has begun and not ended. */
  get inTransaction(): boolean {
    return this.#pending !== undefined;
  }

  /** Throws CORRUPT. */
  apply(record: MetadataRecord): void {
    switch (record.type) {
      case 'BeginTransaction':
        if (this.#pending !== undefined) throw corrupt('a transaction begins inside another');
        this.#pending = [];
        return;
      case 'EndTransaction': {
        const pending = this.#pending;
        if (pending === undefined) throw corrupt('a transaction ends that did not begin');
        this.#pending = undefined;
        for (const each of pending) this.#image.apply(each);
        return;
      }
      case 'AbortTransaction':
        if (this.#pending === undefined) throw corrupt('a transaction is aborted that did not begin');
        this.#pending = undefined;
        return;
      default:
        if (this.#pending !== undefined) this.#pending.push(record);
        else this.#image.apply(record);
    }
  }
}

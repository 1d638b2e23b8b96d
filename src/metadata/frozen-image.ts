/**
 * The cluster image as of one offset, as the records that make it again, while the image itself goes on changing: a topic
 * that is about to change before its records were taken is copied first.
 */
import { recordVersions } from './controller.ts';
import { METADATA_VERSION } from './features.ts';
import type { BrokerState, ClusterImage, PartitionState, TopicState } from './image.ts';
import type { MetadataRecordInput } from './records.ts';

/** From this metadata.version on a registration names directories. */
const FIRST_WITH_DIRECTORIES = 17;

export class FrozenImage {
  readonly #image: ClusterImage;
  readonly #metadataVersion: number;
  /** What is in no topic: few, or objects that never change. */
  readonly #first: readonly MetadataRecordInput[];
  readonly #last: readonly MetadataRecordInput[];
  /** Topics whose records were not taken yet. */
  readonly #waiting: Set<TopicState>;
  /** What topics were that have changed since. */
  readonly #kept = new Map<TopicState, readonly PartitionState[]>();

  /** Freezes the image as it is. One at a time: release() before the next. */
  constructor(image: ClusterImage) {
    this.#image = image;
    this.#metadataVersion = image.metadataVersion;
    this.#first = [...features(image), ...nodes(image)];
    this.#last = [...configs(image), ...security(image), ...producerIds(image)];
    this.#waiting = new Set(image.topicsById.values());
    image.beforeTopicChange = (topic) => {
      if (this.#waiting.has(topic) && !this.#kept.has(topic)) this.#kept.set(topic, partitionsOf(topic));
    };
  }

  /** Each record once, in the order in which they can be replayed. What happens to the image between two does no harm. */
  *records(): Generator<MetadataRecordInput> {
    yield* this.#first;
    for (const topic of this.#waiting) {
      const partitions = this.#kept.get(topic) ?? partitionsOf(topic);
      this.#waiting.delete(topic);
      this.#kept.delete(topic);
      yield { type: 'Topic', version: 0, data: { name: topic.name, topicId: topic.id } };
      for (const partition of partitions) yield this.#partition(topic.id, partition);
    }
    yield* this.#last;
  }

  #partition(topicId: string, partition: PartitionState): MetadataRecordInput {
    const version = recordVersions(this.#metadataVersion).partition;
    const { id, directories, eligibleLeaderReplicas, lastKnownElr, ...data } = partition;
    return {
      type: 'Partition',
      version,
      data: {
        ...data,
        partitionId: id,
        topicId,
        directories: version >= 1 ? directories : [],
        ...(version >= 2 && eligibleLeaderReplicas.length > 0 ? { eligibleLeaderReplicas } : {}),
        ...(version >= 2 && lastKnownElr.length > 0 ? { lastKnownElr } : {}),
      },
    };
  }

  /** The image need not be watched any more. */
  release(): void {
    this.#image.beforeTopicChange = undefined;
    this.#waiting.clear();
    this.#kept.clear();
  }
}

/** Copies: the lists in them are exchanged by changes, never altered. */
function partitionsOf(topic: TopicState): PartitionState[] {
  return [...topic.partitions.values()].map((partition) => ({ ...partition }));
}

/** metadata.version comes first: it says what the others may be. */
function* features({ features: levels, zkMigrationState }: ClusterImage): Generator<MetadataRecordInput> {
  const names = [...levels.keys()].sort(
    (a, b) => Number(b === METADATA_VERSION) - Number(a === METADATA_VERSION),
  );
  for (const name of names) {
    yield { type: 'FeatureLevel', version: 0, data: { name, featureLevel: levels.get(name)! } };
  }
  if (zkMigrationState !== 0) yield { type: 'ZkMigrationState', version: 0, data: { zkMigrationState } };
}

function* nodes(image: ClusterImage): Generator<MetadataRecordInput> {
  for (const broker of image.brokers.values()) yield registration(broker, image.metadataVersion);
  for (const data of image.controllers.values()) yield { type: 'RegisterController', version: 0, data };
}

function registration(broker: BrokerState, metadataVersion: number): MetadataRecordInput {
  const version = recordVersions(metadataVersion).registerBroker;
  const { cordonedDirectories } = broker;
  return {
    type: 'RegisterBroker',
    version,
    data: {
      brokerId: broker.id,
      incarnationId: broker.incarnationId,
      brokerEpoch: broker.epoch,
      endPoints: broker.endPoints,
      features: broker.features,
      rack: broker.rack,
      fenced: broker.fenced,
      inControlledShutdown: broker.inControlledShutdown,
      logDirs: metadataVersion >= FIRST_WITH_DIRECTORIES ? broker.directories : [],
      ...(version >= 4 && cordonedDirectories.length > 0 ? { cordonedLogDirs: cordonedDirectories } : {}),
    },
  };
}

function* configs(image: ClusterImage): Generator<MetadataRecordInput> {
  for (const resourceType of image.configuredTypes()) {
    for (const resourceName of image.configuredResources(resourceType)) {
      for (const [name, value] of image.configs(resourceType, resourceName)) {
        yield { type: 'Config', version: 0, data: { resourceType, resourceName, name, value } };
      }
    }
  }
}

function* security({ security: image }: ClusterImage): Generator<MetadataRecordInput> {
  for (const { entity, values } of image.quotas()) {
    for (const [key, value] of values) {
      yield { type: 'ClientQuota', version: 0, data: { entity, key, value, remove: false } };
    }
  }
  for (const credentials of image.scram.values()) {
    for (const data of credentials.values()) yield { type: 'UserScramCredential', version: 0, data };
  }
  for (const data of image.acls.values()) yield { type: 'AccessControlEntry', version: 0, data };
  for (const data of image.delegationTokens.values()) yield { type: 'DelegationToken', version: 0, data };
}

/** Kafka does not say either who was given the last block. */
function* producerIds({ nextProducerId }: ClusterImage): Generator<MetadataRecordInput> {
  if (nextProducerId > 0)
    yield { type: 'ProducerIds', version: 0, data: { brokerId: -1, brokerEpoch: -1, nextProducerId } };
}

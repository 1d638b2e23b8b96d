/** Puts the group coordinator together: its settings from the broker's, its topic from the broker's topics. */
import type { BrokerConfig } from '../config/broker-config.ts';
import { GroupCoordinator, type GroupSettings } from '../group/group-coordinator.ts';
import { OFFSETS_TOPIC, OffsetsTopic } from '../group/offsets-topic.ts';
import type { LogManager } from '../log/log-manager.ts';
import type { ClusterImage } from '../metadata/image.ts';
import { compressionName } from '../protocol/compression.ts';
import { KafkaError } from '../protocol/errors.ts';
import type { Clock } from '../runtime/clock.ts';
import type { Logger } from '../runtime/logging.ts';
import type { Topics } from './topics.ts';

const MINUTE_MS = 60_000;

function groupSettings(config: BrokerConfig): GroupSettings {
  return {
    maxSize: config.number('group.max.size'),
    initialRebalanceDelayMs: config.number('group.initial.rebalance.delay.ms'),
    minSessionTimeoutMs: config.number('group.min.session.timeout.ms'),
    maxSessionTimeoutMs: config.number('group.max.session.timeout.ms'),
    metadataMaxLength: config.number('offset.metadata.max.bytes'),
    retentionMs: config.number('offsets.retention.minutes') * MINUTE_MS,
    retentionCheckMs: config.number('offsets.retention.check.interval.ms'),
  };
}

/** As Apache Kafka makes it. */
async function createOffsetsTopic(topics: Topics, config: BrokerConfig): Promise<number> {
  const configs = {
    'cleanup.policy': 'compact',
    'compression.type': 'producer',
    'segment.bytes': String(config.number('offsets.topic.segment.bytes')),
  };
  const [result] = await topics.create(
    [
      {
        name: OFFSETS_TOPIC,
        numPartitions: config.number('offsets.topic.num.partitions'),
        replicationFactor: -1,
        assignments: [],
        configs: Object.entries(configs).map(([name, value]) => ({ name, value })),
      },
    ],
    false,
  );
  if (result === undefined || result.ok) return KafkaError.NONE;
  return result.errorCode === KafkaError.TOPIC_ALREADY_EXISTS
    ? KafkaError.NONE
    : KafkaError.COORDINATOR_NOT_AVAILABLE;
}

export interface GroupsParts {
  readonly config: BrokerConfig;
  readonly image: ClusterImage;
  readonly logs: LogManager;
  readonly topics: Topics;
  readonly clock: Clock;
  readonly log: Logger;
  requestTick(): void;
}

/** Loads all groups. */
export async function openGroups(parts: GroupsParts): Promise<GroupCoordinator> {
  const { config, image, logs, topics, clock, log, requestTick } = parts;
  const topic = new OffsetsTopic({
    clock,
    log,
    partitionCount: () => image.topicsByName.get(OFFSETS_TOPIC)?.partitions.size ?? 0,
    partition: (index) => logs.partition(OFFSETS_TOPIC, index),
    create: () => createOffsetsTopic(topics, config),
    compression: compressionName(config.number('offsets.topic.compression.codec')),
    requestTick,
  });
  const groups = new GroupCoordinator({ topic, settings: groupSettings(config), clock, log });
  await groups.load();
  groups.offsets.removeStale((name) => image.topicsByName.get(name)?.id);
  topics.onDeleted = (name) => groups.topicDeleted(name, name === OFFSETS_TOPIC);
  return groups;
}

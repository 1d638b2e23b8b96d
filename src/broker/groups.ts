/** Puts the group coordinator together: its settings from the broker's, its topic from the broker's topics. */
import type { BrokerConfig } from '../config/broker-config.ts';
import type { Assignor } from '../group/assignor.ts';
import { rangeAssignor } from '../group/assignor-range.ts';
import { uniformAssignor } from '../group/assignor-uniform.ts';
import type { ConsumerSettings, TopicsView } from '../group/consumer-types.ts';
import { GroupCoordinator, type GroupSettings } from '../group/group-coordinator.ts';
import { OFFSETS_TOPIC } from '../group/group-log.ts';
import { ThreadMatcher } from '../group/pattern-matcher.ts';
import type { InternalTopic } from '../group/streams-topology.ts';
import type { StreamsSettings } from '../group/streams-types.ts';
import { CoordinatorTopic } from '../log/coordinator-topic.ts';
import type { LogManager } from '../log/log-manager.ts';
import { type ClusterImage, ConfigResource } from '../metadata/image.ts';
import { compressionName } from '../protocol/compression.ts';
import { KafkaError } from '../protocol/errors.ts';
import type { Clock } from '../runtime/clock.ts';
import { BroadsheetError } from '../runtime/errors.ts';
import type { Logger } from '../runtime/logging.ts';
import { createCoordinatorTopic } from './coordinator-topics.ts';
import type { Topics } from './topics.ts';

const MINUTE_MS = 60_000;

/** Values of this moment: a group's own over the broker's. */
class OwnSettings {
  readonly #kind: 'consumer' | 'streams';
  readonly #config: BrokerConfig;
  readonly #image: ClusterImage;

  constructor(kind: 'consumer' | 'streams', config: BrokerConfig, image: ClusterImage) {
    this.#kind = kind;
    this.#config = config;
    this.#image = image;
  }

  text(groupId: string, name: string): string | undefined {
    return this.#image.configs(ConfigResource.GROUP, groupId).get(`${this.#kind}.${name}`);
  }

  /** Of `session.timeout.ms`, say. A group's own value is held within what the broker allows now. */
  number(groupId: string, name: string, bounds: readonly ('min' | 'max')[] = ['max', 'min']): number {
    const text = this.text(groupId, name);
    let value = text === undefined || !/^-?\d+$/.test(text) ? Number.NaN : Number(text);
    // What is stored and no number was put there by a stranger: the broker's own value holds.
    if (Number.isNaN(value)) return this.#config.number(`group.${this.#kind}.${name}`);
    for (const bound of bounds) {
      value = Math[bound === 'max' ? 'min' : 'max'](
        value,
        this.#config.number(`group.${this.#kind}.${bound}.${name}`),
      );
    }
    return value;
  }

  heartbeatInterval(groupId: string): { readonly ms: number; readonly fixed: boolean } {
    const name = 'heartbeat.interval.ms';
    const isSet = this.#config.textIfSet(`group.${this.#kind}.${name}`) !== undefined;
    return { ms: this.number(groupId, name), fixed: isSet || this.text(groupId, name) !== undefined };
  }
}

function streamsSettings(config: BrokerConfig, image: ClusterImage): StreamsSettings {
  const own = new OwnSettings('streams', config, image);
  return {
    get maxSize() {
      return config.number('group.streams.max.size');
    },
    sessionTimeoutMs: (groupId) => own.number(groupId, 'session.timeout.ms'),
    heartbeatInterval: (groupId) => own.heartbeatInterval(groupId),
    assignmentIntervalMs: (groupId) => own.number(groupId, 'assignment.interval.ms'),
    initialRebalanceDelayMs: (groupId) => own.number(groupId, 'initial.rebalance.delay.ms', []),
    taskOffsetIntervalMs: (groupId) => own.number(groupId, 'task.offset.interval.ms', ['min']),
    acceptableRecoveryLag: (groupId) => own.number(groupId, 'acceptable.recovery.lag', []),
    assignorName: (groupId) =>
      own.text(groupId, 'assignor.name') ?? config.list('group.streams.assignors')[0] ?? 'sticky',
    standbyReplicas: (groupId) => own.number(groupId, 'num.standby.replicas', ['max']),
    rackTags: (groupId) => {
      const tags = own
        .text(groupId, 'rack.aware.assignment.tags')
        ?.split(',')
        .map((tag) => tag.trim());
      return (tags ?? config.list('group.streams.rack.aware.assignment.tags')).filter((tag) => tag !== '');
    },
  };
}

/** Makes internal topics of a streams group; the text says why some could not be made. */
async function createInternalTopics(topics: Topics, missing: readonly InternalTopic[]): Promise<string> {
  const results = await topics.create(
    missing.map(({ name, partitions, replicationFactor, topicConfigs }) => ({
      name,
      numPartitions: partitions,
      replicationFactor: replicationFactor === 0 ? -1 : replicationFactor,
      assignments: [],
      configs: topicConfigs.map(({ key, value }) => ({ name: key, value })),
    })),
    false,
  );
  const failed = results.flatMap((result) =>
    result.ok || result.errorCode === KafkaError.TOPIC_ALREADY_EXISTS
      ? []
      : [`${result.name} could not be made: ${result.message}`],
  );
  return failed.join('; ');
}

function consumerSettings(config: BrokerConfig, image: ClusterImage): ConsumerSettings {
  const own = new OwnSettings('consumer', config, image);
  const policy = config.string('group.consumer.migration.policy').toLowerCase();
  return {
    get maxSize() {
      return config.number('group.consumer.max.size');
    },
    sessionTimeoutMs: (groupId) => own.number(groupId, 'session.timeout.ms'),
    heartbeatInterval: (groupId) => own.heartbeatInterval(groupId),
    assignmentIntervalMs: (groupId) => own.number(groupId, 'assignment.interval.ms'),
    upgrades: policy === 'bidirectional' || policy === 'upgrade',
    downgrades: policy === 'bidirectional' || policy === 'downgrade',
  };
}

const ASSIGNORS: readonly Assignor[] = [uniformAssignor, rangeAssignor];

/** Throws INVALID_CONFIG. */
function assignors(config: BrokerConfig): Assignor[] {
  return config.list('group.consumer.assignors').map((name) => {
    const assignor = ASSIGNORS.find((known) => known.name === name);
    if (assignor !== undefined) return assignor;
    throw new BroadsheetError(
      'INVALID_CONFIG',
      `Invalid value ${name} for configuration group.consumer.assignors: this broker has ${ASSIGNORS.map((a) => a.name).join(' and ')}`,
    );
  });
}

function topicsView(image: ClusterImage): TopicsView {
  return {
    idOf: (name) => image.topicsByName.get(name)?.id,
    nameOf: (topicId) => image.topicsById.get(topicId)?.name,
    partitionCount: (topicId) => image.topicsById.get(topicId)?.partitions.size ?? 0,
    names: () => image.topicsByName.keys(),
  };
}

function groupSettings(config: BrokerConfig, image: ClusterImage): GroupSettings {
  return {
    maxSize: config.number('group.max.size'),
    initialRebalanceDelayMs: config.number('group.initial.rebalance.delay.ms'),
    minSessionTimeoutMs: config.number('group.min.session.timeout.ms'),
    maxSessionTimeoutMs: config.number('group.max.session.timeout.ms'),
    metadataMaxLength: config.number('offset.metadata.max.bytes'),
    retentionMs: config.number('offsets.retention.minutes') * MINUTE_MS,
    retentionCheckMs: config.number('offsets.retention.check.interval.ms'),
    consumer: consumerSettings(config, image),
    streams: streamsSettings(config, image),
    removesDisconnected: config.boolean('group.member.removal.on.disconnect'),
  };
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
  const topic = new CoordinatorTopic({
    name: OFFSETS_TOPIC,
    subject: 'a group',
    clock,
    log,
    partitionCount: () => image.topicsByName.get(OFFSETS_TOPIC)?.partitions.size ?? 0,
    partition: (index) => logs.partition(OFFSETS_TOPIC, index),
    create: () =>
      createCoordinatorTopic(topics, OFFSETS_TOPIC, config.number('offsets.topic.num.partitions'), {
        'cleanup.policy': 'compact',
        'compression.type': 'producer',
        'segment.bytes': String(config.number('offsets.topic.segment.bytes')),
      }),
    compression: compressionName(config.number('offsets.topic.compression.codec')),
    requestTick,
  });
  const groups = new GroupCoordinator({
    topic,
    settings: groupSettings(config, image),
    clock,
    log,
    topics: topicsView(image),
    matcher: (events) => new ThreadMatcher(events, clock, log),
    assignors: assignors(config),
    createTopics: (missing) => createInternalTopics(topics, missing),
  });
  await groups.load();
  groups.offsets.removeStale((name) => image.topicsByName.get(name)?.id);
  topics.onChanged((name) => groups.topicChanged(name));
  return groups;
}

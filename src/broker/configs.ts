/**
 * Configs as clients see and change them: of topics, brokers, the broker's loggers, groups and client metrics. A change is in
 * force when its answer leaves, and durable; as in Kafka, loggers' levels alone are forgotten by a restart.
 */
import type { BrokerConfig } from '../config/broker-config.ts';
import { validateClientMetricsConfigs } from '../config/client-metrics-config.ts';
import {
  BROKER_CONFIGS,
  CLIENT_METRICS_CONFIGS,
  type ConfigDefinition,
  GROUP_CONFIGS,
  TOPIC_CONFIGS,
} from '../config/definitions.ts';
import { validateBrokerConfigs } from '../config/dynamic-broker-config.ts';
import { validateGroupConfigs } from '../config/group-config.ts';
import { validateTopicConfig } from '../config/topic-config.ts';
import type { LogManager } from '../log/log-manager.ts';
import type { ClusterMetadata } from '../metadata/cluster-metadata.ts';
import type { Refusal } from '../metadata/controller.ts';
import {
  alterConfigs,
  ConfigOperation,
  type ConfigRules,
  type ResourceChange,
} from '../metadata/controller-configs.ts';
import { ConfigResource } from '../metadata/image.ts';
import { topicNameFault } from '../metadata/topic-names.ts';
import { KafkaError, kafkaCodeOf } from '../protocol/errors.ts';
import type { Clock } from '../runtime/clock.ts';
import { BroadsheetError } from '../runtime/errors.ts';
import type { Logger } from '../runtime/logging.ts';
import {
  brokerDefaultEntries,
  brokerEntries,
  ConfigSource,
  clientMetricsEntries,
  type DescribedConfig,
  groupEntries,
  topicEntries,
  UNKNOWN_TYPE,
} from './config-entries.ts';
import { applyDynamicConfig, type TopicConfigs } from './dynamic-config.ts';
import { type KafkaLogLevel, LOG_LEVELS, type Loggers, ROOT_LOGGER } from './loggers.ts';
import type { Topics } from './topics.ts';

export interface ConfigsParts {
  /** Absolute path. */
  readonly dataDir: string;
  readonly metadata: ClusterMetadata;
  readonly logs: LogManager;
  readonly topics: Topics;
  readonly topicConfigs: TopicConfigs;
  readonly config: BrokerConfig;
  readonly loggers: Loggers;
  readonly clock: Clock;
  readonly log: Logger;
}

const DEFINITIONS: ReadonlyMap<number, ReadonlyMap<string, ConfigDefinition>> = new Map([
  [ConfigResource.TOPIC, TOPIC_CONFIGS],
  [ConfigResource.BROKER, BROKER_CONFIGS],
  [ConfigResource.CLIENT_METRICS, CLIENT_METRICS_CONFIGS],
  [ConfigResource.GROUP, GROUP_CONFIGS],
]);

function invalid(message: string): never {
  throw new BroadsheetError('INVALID_REQUEST', message);
}

export class Configs {
  readonly #parts: ConfigsParts;
  readonly #rules: ConfigRules;

  constructor(parts: ConfigsParts) {
    this.#parts = parts;
    this.#rules = {
      listDefault: (type, name) => {
        // As in Kafka, lists of groups and client metrics can only be set as a whole.
        const editable = type === ConfigResource.TOPIC || type === ConfigResource.BROKER;
        const definition = editable ? DEFINITIONS.get(type)?.get(name) : undefined;
        return definition?.type === 'list' ? (definition.default ?? '') : undefined;
      },
      validate: (type, name, values) => this.#validate(type, name, values),
    };
  }

  // --- reading ---

  /** All values of one resource. Throws BroadsheetError, or gives the refusal. */
  describe(type: number, name: string): readonly DescribedConfig[] | Refusal {
    try {
      return this.#describe(type, name);
    } catch (error) {
      if (!(error instanceof BroadsheetError)) throw error;
      return { ok: false, errorCode: kafkaCodeOf(error), message: error.message };
    }
  }

  #describe(type: number, name: string): readonly DescribedConfig[] | Refusal {
    const { dataDir, metadata, config, loggers } = this.#parts;
    const { image } = metadata;
    switch (type) {
      case ConfigResource.TOPIC: {
        const fault = topicNameFault(name);
        if (fault !== undefined) throw new BroadsheetError('INVALID_TOPIC', fault);
        if (image.topicsByName.has(name)) return topicEntries(image.topicConfigs(name), config);
        return {
          ok: false,
          errorCode: KafkaError.UNKNOWN_TOPIC_OR_PARTITION,
          message: `the topic '${name}' does not exist`,
        };
      }
      case ConfigResource.BROKER: {
        if (name === '') return brokerDefaultEntries(config);
        this.#checkNode(name, ' or empty string');
        const nodeId = String(metadata.nodeId);
        return brokerEntries(
          config,
          new Map([
            ['node.id', nodeId],
            ['broker.id', nodeId],
            ['log.dirs', dataDir],
          ]),
        );
      }
      case ConfigResource.BROKER_LOGGER:
        if (name === '') invalid('Broker id must not be empty');
        this.#checkNode(name, '');
        return [...loggers.levels()].map(([logger, level]) => ({
          name: logger,
          value: level,
          readOnly: false,
          configSource: ConfigSource.DYNAMIC_BROKER_LOGGER,
          isSensitive: false,
          synonyms: [],
          configType: UNKNOWN_TYPE,
        }));
      case ConfigResource.CLIENT_METRICS:
        if (name === '') invalid('Client metrics subscription name must not be empty');
        return clientMetricsEntries(image.configs(type, name));
      case ConfigResource.GROUP:
        if (name === '') invalid('Group name must not be empty');
        return groupEntries(image.configs(type, name), config);
      default:
        return invalid(`Unsupported resource type: ${type}`);
    }
  }

  /** Names of the resources of a type that can be described. */
  list(type: number): string[] {
    const { image, nodeId } = this.#parts.metadata;
    if (type === ConfigResource.TOPIC) return [...image.topicsByName.keys()];
    if (type === ConfigResource.BROKER || type === ConfigResource.BROKER_LOGGER) return [String(nodeId)];
    return image.configuredResources(type);
  }

  #checkNode(name: string, alternative: string): void {
    const { nodeId } = this.#parts.metadata;
    if (!/^[+-]?\d{1,10}$/.test(name)) invalid(`Node id must be an integer, but it is: ${name}`);
    if (Number(name) !== nodeId) {
      invalid(`Unexpected broker id, expected ${nodeId}${alternative}, but received ${name}`);
    }
  }

  // --- changing ---

  /** Changes resources, or only says whether they could be. Of each: why not, or undefined. Resolves when all is durable.
   * Throws what a metadata log that takes nothing any more throws. */
  async alter(resources: readonly ResourceChange[], validateOnly: boolean): Promise<(Refusal | undefined)[]> {
    const { metadata, topics } = this.#parts;
    for (const { type, name } of resources) {
      // Partitions that are being made take their values when they are open.
      while (type === ConfigResource.TOPIC && topics.settled(name) !== undefined) {
        await Promise.allSettled([topics.settled(name)]);
      }
    }
    const results = resources.map((resource) => this.#alter(resource, validateOnly));
    if (!validateOnly) await metadata.durable();
    return results;
  }

  #alter(resource: ResourceChange, validateOnly: boolean): Refusal | undefined {
    const { metadata, clock } = this.#parts;
    try {
      this.#checkChanges(resource);
      if (resource.type === ConfigResource.BROKER_LOGGER) {
        this.#alterLevels(resource, validateOnly);
        return undefined;
      }
      const decision = alterConfigs(metadata.image, resource, this.#rules);
      if (!decision.ok) return decision;
      if (validateOnly) return undefined;
      metadata.change(decision.records, clock.now());
      this.#apply(resource);
      return undefined;
    } catch (error) {
      if (!(error instanceof BroadsheetError)) throw error;
      return { ok: false, errorCode: kafkaCodeOf(error), message: error.message };
    }
  }

  #checkChanges({ type, name, changes }: ResourceChange): void {
    if (type !== ConfigResource.BROKER_LOGGER && !DEFINITIONS.has(type)) {
      invalid(`Unknown resource type ${type}`);
    }
    if (new Set(changes.map((change) => change.name)).size !== changes.length) {
      invalid('Error due to duplicate config keys');
    }
    const nulls = changes.filter(
      ({ value, operation }) => value === null && operation !== ConfigOperation.DELETE,
    );
    if (nulls.length > 0) {
      invalid(`Null value not supported for : ${nulls.map((change) => change.name).join(', ')}`);
    }
    const unknown = changes.find(({ operation }) => operation < 0 || operation > ConfigOperation.SUBTRACT);
    if (unknown !== undefined) invalid(`Unknown operation ${unknown.operation} on ${unknown.name}`);
    if (type === ConfigResource.BROKER && name !== '') this.#checkNode(name, '');
  }

  #validate(type: number, name: string, values: ReadonlyMap<string, string>): void {
    const { config } = this.#parts;
    switch (type) {
      case ConfigResource.TOPIC:
        this.#checkTopicName(name);
        validateTopicConfig(values, config);
        return;
      case ConfigResource.BROKER:
        validateBrokerConfigs(values, name !== '', config);
        return;
      case ConfigResource.CLIENT_METRICS:
        if (name === '') invalid("Subscription name can't be empty");
        validateClientMetricsConfigs(values);
        return;
      default:
        if (name === '') invalid('Default group resources are not allowed.');
        validateGroupConfigs(values, config);
    }
  }

  #checkTopicName(name: string): void {
    if (name === '') invalid('Default topic resources are not allowed.');
    const fault = topicNameFault(name);
    if (fault !== undefined) throw new BroadsheetError('INVALID_TOPIC', fault);
  }

  #apply({ type, name }: ResourceChange): void {
    const { metadata, config, topicConfigs, logs, log } = this.#parts;
    if (type === ConfigResource.TOPIC) topicConfigs.apply(name, logs);
    else if (type === ConfigResource.BROKER) applyDynamicConfig(config, metadata.image, metadata.nodeId, log);
  }

  #alterLevels({ name, changes, replaces }: ResourceChange, validateOnly: boolean): void {
    const { loggers } = this.#parts;
    if (replaces) invalid('Levels of loggers are changed by IncrementalAlterConfigs only');
    this.#checkNode(name, '');
    for (const { name: logger, operation, value } of changes) {
      if (operation !== ConfigOperation.SET && operation !== ConfigOperation.DELETE) {
        const verb = operation === ConfigOperation.APPEND ? 'APPEND' : 'SUBTRACT';
        invalid(`${verb} operation is not allowed for the BROKER_LOGGER resource`);
      }
      if (!loggers.has(logger)) {
        throw new BroadsheetError('INVALID_CONFIG', `Logger ${logger} does not exist!`);
      }
      if (operation === ConfigOperation.DELETE) {
        if (logger === ROOT_LOGGER) invalid('Removing the log level of the root logger is not allowed');
      } else if (!LOG_LEVELS.includes(value as KafkaLogLevel)) {
        throw new BroadsheetError(
          'INVALID_CONFIG',
          `${value} is no log level for ${logger}; it must be one of ${LOG_LEVELS.join(', ')}`,
        );
      }
    }
    if (validateOnly) return;
    for (const { name: logger, operation, value } of changes) {
      loggers.setLevel(logger, operation === ConfigOperation.SET ? (value as KafkaLogLevel) : undefined);
    }
  }
}

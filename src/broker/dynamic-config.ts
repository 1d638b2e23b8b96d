/** Puts the values of the metadata log in force: brokers' in the live configuration, topics' in the open partitions. */
import type { BrokerConfig } from '../config/broker-config.ts';
import { TOPIC_CONFIGS } from '../config/definitions.ts';
import { faultOfDynamicValue } from '../config/dynamic-broker-config.ts';
import { type TopicConfig, topicConfig } from '../config/topic-config.ts';
import type { LogManager } from '../log/log-manager.ts';
import { type ClusterImage, ConfigResource } from '../metadata/image.ts';
import type { Logger } from '../runtime/logging.ts';

/** Broker keys that give topics their defaults. */
const TOPIC_DEFAULTS: ReadonlySet<string> = new Set(
  [...TOPIC_CONFIGS.values()].flatMap((topic) => topic.brokerSynonyms.map((synonym) => synonym.name)),
);

const NOTHING: ReadonlyMap<string, string> = new Map();

/** Reads the dynamic values of this broker into its configuration. What this version does not take is logged and ignored. */
export function applyDynamicConfig(
  config: BrokerConfig,
  image: ClusterImage,
  nodeId: number,
  log: Logger,
): void {
  const usable = (resource: string): Map<string, string> => {
    const texts = new Map<string, string>();
    for (const [name, text] of image.configs(ConfigResource.BROKER, resource)) {
      const fault = faultOfDynamicValue(name, text);
      if (fault === undefined) texts.set(name, text);
      else log.error({ name, reason: fault }, 'a dynamic configuration value is ignored');
    }
    return texts;
  };
  config.setDynamic(usable(''), usable(String(nodeId)));
}

/** What each topic's partitions are to obey. */
export class TopicConfigs {
  readonly #image: ClusterImage;
  readonly #config: BrokerConfig;
  readonly #log: Logger;
  /** Of all topics without values of their own. */
  #plain: TopicConfig | undefined;

  constructor(image: ClusterImage, config: BrokerConfig, log: Logger) {
    this.#image = image;
    this.#config = config;
    this.#log = log;
  }

  /** The values in force for a topic. What this version does not take is logged, and the broker's apply. */
  of(topic: string): TopicConfig {
    const own = this.#image.topicConfigs(topic);
    if (own.size > 0) {
      try {
        return topicConfig(own, this.#config);
      } catch (error) {
        this.#log.error({ topic, reason: (error as Error).message }, "a topic's configuration is ignored");
      }
    }
    this.#plain ??= topicConfig(NOTHING, this.#config);
    return this.#plain;
  }

  /** Has partitions obey the broker's values when those change. Returns a function that ends it. */
  follow(logs: LogManager): () => void {
    return this.#config.onChange((changed) => {
      if (![...changed].some((name) => TOPIC_DEFAULTS.has(name))) return;
      this.#plain = undefined;
      for (const topic of this.#image.topicsByName.keys()) this.apply(topic, logs);
    });
  }

  /** Has the partitions of a topic obey its values. */
  apply(topic: string, logs: LogManager): void {
    const config = this.of(topic);
    for (const index of this.#image.topicsByName.get(topic)?.partitions.keys() ?? []) {
      const partition = logs.partition(topic, index);
      if (partition !== undefined) logs.setConfig(partition, config);
    }
  }
}

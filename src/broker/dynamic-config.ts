/** The broker's configuration with the values that were set while a broker ran, as the metadata log holds them. */
import { BrokerConfig } from '../config/broker-config.ts';
import { TOPIC_CONFIGS } from '../config/definitions.ts';
import { type ClusterImage, ConfigResource } from '../metadata/image.ts';
import type { Logger } from '../runtime/logging.ts';

/** Broker keys that give topics their defaults: the ones whose dynamic values count here. */
const TOPIC_DEFAULTS: ReadonlySet<string> = new Set(
  [...TOPIC_CONFIGS.values()].flatMap((topic) => topic.brokerSynonyms.map((synonym) => synonym.name)),
);

/** `config` with the cluster-wide dynamic values over it, and this broker's own over those. A value that this version does
 * not take is logged and ignored. */
export function dynamicConfig(
  config: BrokerConfig,
  image: ClusterImage,
  nodeId: number,
  log: Logger,
): BrokerConfig {
  const texts = new Map<string, string>();
  for (const name of TOPIC_DEFAULTS) {
    const text = config.textIfSet(name);
    if (text !== undefined) texts.set(name, text);
  }
  for (const resource of ['', String(nodeId)]) {
    for (const [name, text] of image.configs(ConfigResource.BROKER, resource)) {
      if (!TOPIC_DEFAULTS.has(name)) continue;
      try {
        new BrokerConfig(new Map([[name, text]]));
        texts.set(name, text);
      } catch (error) {
        log.error({ name, reason: (error as Error).message }, 'a dynamic configuration value is ignored');
      }
    }
  }
  return new BrokerConfig(texts);
}

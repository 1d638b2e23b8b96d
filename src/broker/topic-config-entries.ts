/** A topic's configuration as clients are shown it: each value with where it comes from. */
import type { BrokerConfig } from '../config/broker-config.ts';
import { TOPIC_CONFIGS } from '../config/definitions.ts';
import { ConfigSource } from './config-entries.ts';

export interface ConfigEntry {
  readonly name: string;
  readonly value: string | null;
  readonly readOnly: boolean;
  readonly configSource: number;
  readonly isSensitive: boolean;
}

/** Keys that Kafka keeps to itself. */
const HIDDEN = new Set(['internal.segment.bytes']);

/**
 * All values of a topic, in order of name. `overrides` are the topic's own, `clusterDefaults` the cluster-wide dynamic
 * values of brokers under their broker names.
 */
export function topicConfigEntries(
  overrides: ReadonlyMap<string, string>,
  clusterDefaults: ReadonlyMap<string, string>,
  broker: BrokerConfig,
): ConfigEntry[] {
  const entries: ConfigEntry[] = [];
  for (const definition of TOPIC_CONFIGS.values()) {
    const { name } = definition;
    if (HIDDEN.has(name)) continue;
    const found = (value: string | null, configSource: number) =>
      entries.push({ name, value, readOnly: false, configSource, isSensitive: false });
    const own = overrides.get(name);
    if (own !== undefined) {
      found(own, ConfigSource.TOPIC);
      continue;
    }
    const inherited = definition.brokerSynonyms
      .flatMap((synonym) => [
        { text: clusterDefaults.get(synonym.name), source: ConfigSource.DYNAMIC_DEFAULT_BROKER, synonym },
        { text: broker.staticTexts.get(synonym.name), source: ConfigSource.STATIC_BROKER, synonym },
      ])
      .find((candidate) => candidate.text !== undefined);
    if (inherited === undefined) found(definition.default, ConfigSource.DEFAULT);
    else found(scaled(inherited.text!, inherited.synonym.factor), inherited.source);
  }
  return entries.sort((a, b) => (a.name < b.name ? -1 : 1));
}

/** A broker's value in the topic key's unit; negative values mean "no limit" in any unit. */
function scaled(text: string, factor: number): string {
  return factor === 1 || text.startsWith('-') ? text : String(BigInt(text) * BigInt(factor));
}

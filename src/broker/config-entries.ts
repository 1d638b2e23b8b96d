/** The values of topics, brokers, groups and client metrics as clients are shown them: each with where it comes from, and what
 * would count if it were not set there (its synonyms). */
import type { BrokerConfig } from '../config/broker-config.ts';
import {
  BROKER_CONFIGS,
  baseKey,
  CLIENT_METRICS_CONFIGS,
  type ConfigDefinition,
  type ConfigType,
  DYNAMIC_ONLY_KEYS,
  formatConfig,
  GROUP_CONFIGS,
  isDynamic,
  TOPIC_CONFIGS,
} from '../config/definitions.ts';
import { brokerText } from '../config/topic-config.ts';

/** Where a value comes from: Kafka's ConfigSource codes. */
export const ConfigSource = {
  TOPIC: 1,
  DYNAMIC_BROKER: 2,
  DYNAMIC_DEFAULT_BROKER: 3,
  STATIC_BROKER: 4,
  DEFAULT: 5,
  DYNAMIC_BROKER_LOGGER: 6,
  CLIENT_METRICS: 7,
  GROUP: 8,
} as const;

/** ConfigType codes of DescribeConfigs. */
const TYPE_CODES: Record<ConfigType, number> = {
  boolean: 1,
  string: 2,
  int: 3,
  short: 4,
  long: 5,
  double: 6,
  list: 7,
  class: 8,
  password: 9,
};
export const UNKNOWN_TYPE = 0;

export interface Synonym {
  readonly name: string;
  readonly value: string | null;
  readonly source: number;
}

export interface DescribedConfig {
  readonly name: string;
  readonly value: string | null;
  readonly readOnly: boolean;
  readonly configSource: number;
  readonly isSensitive: boolean;
  /** Highest first. */
  readonly synonyms: readonly Synonym[];
  readonly configType: number;
}

/** The keys that stand for one another, by each of them: `log.retention.ms`, `.minutes`, `.hours`. Of the two of
 * flush.ms the second counts for the first only. */
const BROKER_SYNONYMS: ReadonlyMap<string, readonly string[]> = new Map(
  [...TOPIC_CONFIGS.values()].flatMap(({ brokerSynonyms }) => {
    const names = brokerSynonyms.map((synonym) => synonym.name);
    if (names.length < 2) return [];
    return names
      .filter((name) => name !== 'log.flush.scheduler.interval.ms')
      .map((name) => [name, names] as const);
  }),
);

/** Every value that a broker key has, highest first. */
function brokerSynonyms(name: string, broker: BrokerConfig, isSensitive: boolean): Synonym[] {
  const { defaults, own } = broker.dynamicTexts;
  const base = baseKey(name);
  const names = BROKER_SYNONYMS.get(name) ?? (base === name ? [name] : [name, base]);
  const found: Synonym[] = [];
  const collect = (get: (name: string) => string | null | undefined, source: number) => {
    for (const each of names) {
      const value = get(each) ?? undefined;
      if (value !== undefined) found.push({ name: each, value: isSensitive ? null : value, source });
    }
  };
  collect((each) => own.get(each), ConfigSource.DYNAMIC_BROKER);
  collect((each) => defaults.get(each), ConfigSource.DYNAMIC_DEFAULT_BROKER);
  collect((each) => broker.staticTexts.get(each), ConfigSource.STATIC_BROKER);
  collect((each) => BROKER_CONFIGS.get(each)?.default, ConfigSource.DEFAULT);
  // As Kafka does: what stands before the key's own name is left out.
  const first = found.findIndex((synonym) => synonym.name === name);
  return first < 0 ? [] : found.slice(first);
}

function described(
  definition: ConfigDefinition,
  text: string | null,
  readOnly: boolean,
  synonyms: readonly Synonym[],
): DescribedConfig {
  const isSensitive = definition.type === 'password';
  return {
    name: definition.name,
    value: text === null || isSensitive ? null : formatConfig(definition, text),
    readOnly,
    configSource: synonyms[0]?.source ?? ConfigSource.DEFAULT,
    isSensitive,
    synonyms,
    configType: TYPE_CODES[definition.type],
  };
}

/** The values of a resource that has some of its own over the broker's. */
function overridden(
  definitions: ReadonlyMap<string, ConfigDefinition>,
  own: ReadonlyMap<string, string>,
  broker: BrokerConfig,
  source: number,
  fallback: (definition: ConfigDefinition) => readonly Synonym[],
): DescribedConfig[] {
  const entries: DescribedConfig[] = [];
  for (const definition of definitions.values()) {
    const { name } = definition;
    const text = own.get(name);
    if (definition.internal && text === undefined) continue;
    const primary = definition.brokerSynonyms[0]?.name;
    const inherited = primary === undefined ? fallback(definition) : brokerSynonyms(primary, broker, false);
    const synonyms =
      text === undefined
        ? inherited
        : [{ name, value: formatConfig(definition, text), source }, ...inherited];
    entries.push(described(definition, text ?? brokerText(definition, broker), false, synonyms));
  }
  return sorted(entries);
}

export function topicEntries(own: ReadonlyMap<string, string>, broker: BrokerConfig): DescribedConfig[] {
  return overridden(TOPIC_CONFIGS, own, broker, ConfigSource.TOPIC, () => []);
}

export function groupEntries(own: ReadonlyMap<string, string>, broker: BrokerConfig): DescribedConfig[] {
  return overridden(GROUP_CONFIGS, own, broker, ConfigSource.GROUP, ({ name, default: value }) => [
    { name, value, source: ConfigSource.DEFAULT },
  ]);
}

export function clientMetricsEntries(own: ReadonlyMap<string, string>): DescribedConfig[] {
  const entries: DescribedConfig[] = [];
  for (const definition of CLIENT_METRICS_CONFIGS.values()) {
    const { name } = definition;
    const text = own.get(name);
    const synonyms =
      text === undefined
        ? []
        : [{ name, value: formatConfig(definition, text), source: ConfigSource.CLIENT_METRICS }];
    entries.push(described(definition, text ?? definition.default, false, synonyms));
  }
  return sorted(entries);
}

function sorted(entries: DescribedConfig[]): DescribedConfig[] {
  return entries.sort((a, b) => (a.name < b.name ? -1 : 1));
}

/** A key that Kafka does not know: it may be a secret of someone's plugin. */
function unknownEntry(name: string, synonyms: readonly Synonym[]): DescribedConfig {
  return {
    name,
    value: null,
    readOnly: !isDynamic(name),
    configSource: synonyms[0]?.source ?? ConfigSource.DEFAULT,
    isSensitive: true,
    synonyms,
    configType: UNKNOWN_TYPE,
  };
}

/** All values of this broker; `known` are those that the broker itself knows best (node.id, log.dirs). */
export function brokerEntries(broker: BrokerConfig, known: ReadonlyMap<string, string>): DescribedConfig[] {
  const entries: DescribedConfig[] = [];
  const given = new Set([
    ...broker.staticTexts.keys(),
    ...broker.dynamicTexts.defaults.keys(),
    ...broker.dynamicTexts.own.keys(),
  ]);
  for (const definition of BROKER_CONFIGS.values()) {
    const { name, internal } = definition;
    const hidden = internal || DYNAMIC_ONLY_KEYS.has(name);
    if (hidden && !given.has(name)) continue;
    given.delete(name);
    const fact = known.get(name);
    const synonyms = brokerSynonyms(name, broker, definition.type === 'password');
    if (fact === undefined) {
      const text = broker.textIfSet(name) ?? definition.default;
      entries.push(described(definition, text, !isDynamic(name), synonyms));
    } else {
      const own = { name, value: fact, source: ConfigSource.STATIC_BROKER };
      const others = synonyms.filter((synonym) => synonym.source !== ConfigSource.STATIC_BROKER);
      entries.push(described(definition, fact, true, [own, ...others]));
    }
  }
  for (const name of given) {
    const definition = BROKER_CONFIGS.get(baseKey(name));
    const sensitive = definition === undefined || definition.type === 'password';
    const synonyms = brokerSynonyms(name, broker, sensitive);
    if (definition === undefined) entries.push(unknownEntry(name, synonyms));
    else {
      const text = broker.textIfSet(name) ?? null;
      entries.push({ ...described(definition, text, !isDynamic(name), synonyms), name });
    }
  }
  return sorted(entries);
}

/** The values that were set for all brokers. */
export function brokerDefaultEntries(broker: BrokerConfig): DescribedConfig[] {
  return sorted(
    [...broker.dynamicTexts.defaults].map(([name, text]) => {
      const definition = BROKER_CONFIGS.get(baseKey(name));
      const sensitive = definition === undefined || definition.type === 'password';
      const synonyms = brokerSynonyms(name, broker, sensitive).filter(
        (synonym) => synonym.source === ConfigSource.DYNAMIC_DEFAULT_BROKER,
      );
      if (definition === undefined) return unknownEntry(name, synonyms);
      return { ...described(definition, text, !isDynamic(name), synonyms), name };
    }),
  );
}

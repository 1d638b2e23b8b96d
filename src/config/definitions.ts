/**
 * What a configuration key is: name, type, default, bounds, scope and how it may change. The facts are Kafka's
 * (schemas/configs.json, read off Apache Kafka 4.4); the keys of our own and the defaults that differ on purpose are below.
 */
import { BroadsheetError } from '../runtime/errors.ts';
import facts from './generated/configs.ts';

export type ConfigType =
  | 'boolean'
  | 'int'
  | 'short'
  | 'long'
  | 'double'
  | 'string'
  | 'list'
  | 'password'
  | 'class';

/** A parsed value. A long beyond 2^53 is the nearest double; its text is kept where it is stored. */
export type ConfigValue = boolean | number | string | string[];

export interface ConfigDefinition {
  readonly name: string;
  readonly type: ConfigType;
  /** The text that DescribeConfigs would send; null: none. */
  readonly default: string | null;
  /** Bounds or choices in Kafka's notation, such as `[1,...]` or `[compact, delete]`. */
  readonly valid: string | undefined;
  /** How a broker key may change while the broker runs. */
  readonly updateMode: 'read-only' | 'per-broker' | 'cluster-wide';
  /** Kafka does not show it. */
  readonly internal: boolean;
  /** Broker keys that give a topic key its default, first one wins; `factor` turns their unit into ours. */
  readonly brokerSynonyms: readonly { readonly name: string; readonly factor: number }[];
}

interface Fact {
  name: string;
  type: string;
  default?: string | null;
  valid?: string;
  updateMode?: string;
  internal?: boolean;
  brokerSynonyms?: { name: string; factor?: number }[];
  brokerSynonym?: string;
}

function define(fact: Fact): ConfigDefinition {
  const synonyms = fact.brokerSynonyms ?? (fact.brokerSynonym ? [{ name: fact.brokerSynonym }] : []);
  return {
    name: fact.name,
    type: fact.type as ConfigType,
    default: fact.default ?? null,
    valid: fact.valid,
    updateMode: (fact.updateMode ?? 'read-only') as ConfigDefinition['updateMode'],
    internal: fact.internal ?? false,
    brokerSynonyms: synonyms.map((s: { name: string; factor?: number }) => ({
      name: s.name,
      factor: s.factor ?? 1,
    })),
  };
}

/** Keys that Kafka does not know. */
const OWN: Fact[] = [
  { name: 'engine', type: 'string', default: 'auto', valid: '[auto, native, js]' },
  { name: 'transport', type: 'string', default: 'auto', valid: '[auto, native, js]' },
  { name: 'fetch.path', type: 'string', default: 'auto', valid: '[auto, sendfile, copy]' },
  { name: 'connection.max.queued.bytes', type: 'int', default: '8388608', valid: '[1048576,...]' },
  { name: 'connection.max.queued.requests', type: 'int', default: '100', valid: '[1,...]' },
  { name: 'group.member.removal.on.disconnect', type: 'boolean', default: 'false' },
  { name: 'log.disk.max.bytes', type: 'long', default: '-1', valid: '[-1,...]' },
  { name: 'log.disk.reserve.bytes', type: 'long', default: '-1', valid: '[-1,...]' },
  { name: 'log.flush.dirty.bytes', type: 'long', default: '268435456', valid: '[1,...]' },
];

/** Defaults that differ from Kafka's on purpose; docs/DIFFERENCES.md has the reasons. */
const OWN_DEFAULTS: Record<string, string> = {
  'log.dirs': './data',
  'group.initial.rebalance.delay.ms': '0',
  'group.consumer.assignment.interval.ms': '0',
  'group.streams.assignment.interval.ms': '0',
  'group.streams.initial.rebalance.delay.ms': '0',
  'offsets.topic.replication.factor': '1',
  'transaction.state.log.replication.factor': '1',
  'transaction.state.log.min.isr': '1',
  'share.coordinator.state.topic.replication.factor': '1',
  'share.coordinator.state.topic.min.isr': '1',
  'max.decompressed.message.bytes': '104857600',
  'socket.receive.buffer.bytes': '-1',
};

function table(list: Fact[]): ReadonlyMap<string, ConfigDefinition> {
  return new Map(
    list.map((fact) => [fact.name, define({ ...fact, default: OWN_DEFAULTS[fact.name] ?? fact.default })]),
  );
}

/** Topics' bounds by the broker key that gives their default: Kafka checks them where the key itself states none. */
const TOPIC_BOUNDS = new Map(
  (facts.topic as Fact[]).flatMap(({ valid, brokerSynonyms }) =>
    (brokerSynonyms ?? [])
      .filter(({ factor }) => factor === undefined)
      .map(({ name }) => [name, valid] as const),
  ),
);
/** Any negative value of these means no limit, and zero would delete all there is. */
const RETENTION_KEYS: ReadonlySet<string> = new Set([
  'log.retention.ms',
  'log.retention.minutes',
  'log.retention.hours',
]);

export const BROKER_CONFIGS = table([
  ...(facts.broker as Fact[]).map(
    (fact): Fact =>
      fact.valid !== undefined || RETENTION_KEYS.has(fact.name)
        ? fact
        : { ...fact, valid: TOPIC_BOUNDS.get(fact.name) },
  ),
  ...(facts.brokerDynamicOnly as Fact[]).map((fact): Fact => ({ ...fact, updateMode: 'cluster-wide' })),
  ...OWN,
]);
export const TOPIC_CONFIGS = table(facts.topic as Fact[]);
export const GROUP_CONFIGS = table(facts.group as Fact[]);
/** Of a subscription for clients' metrics (KIP-714). */
export const CLIENT_METRICS_CONFIGS = table(facts.clientMetrics as Fact[]);
/** Keys that are set at run time only: Kafka does not show them among a broker's static ones. */
export const DYNAMIC_ONLY_KEYS: ReadonlySet<string> = new Set(
  (facts.brokerDynamicOnly as Fact[]).map((fact) => fact.name),
);
/** Keys that are ours: never written into the metadata log, since Apache Kafka reads it. */
export const OWN_KEYS: ReadonlySet<string> = new Set(OWN.map((fact) => fact.name));

/** `listener.name.NAME.key` or `key`, as the key that it is about. */
export function baseKey(name: string): string {
  return /^listener\.name\.[^.]+\.(.+)$/.exec(name)?.[1] ?? name;
}

/** Whether Kafka lets a broker key change while a broker runs. */
export function isDynamic(name: string): boolean {
  const definition = BROKER_CONFIGS.get(baseKey(name));
  return definition !== undefined && definition.updateMode !== 'read-only';
}

function refuse(definition: ConfigDefinition, text: string, why: string): never {
  throw new BroadsheetError(
    'INVALID_CONFIG',
    `Invalid value ${text} for configuration ${definition.name}: ${why}`,
  );
}

const INTEGER_BOUNDS: Partial<Record<ConfigType, readonly [bigint, bigint]>> = {
  short: [-(2n ** 15n), 2n ** 15n - 1n],
  int: [-(2n ** 31n), 2n ** 31n - 1n],
  long: [-(2n ** 63n), 2n ** 63n - 1n],
};

function parseNumber(definition: ConfigDefinition, text: string): number {
  const trimmed = text.trim();
  const bounds = INTEGER_BOUNDS[definition.type];
  if (bounds === undefined) {
    if (!/^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$/.test(trimmed))
      refuse(definition, text, 'Not a number of type DOUBLE');
    return Number(trimmed);
  }
  if (!/^[+-]?\d{1,40}$/.test(trimmed)) {
    refuse(definition, text, `Not a number of type ${definition.type.toUpperCase()}`);
  }
  const value = BigInt(trimmed);
  if (value < bounds[0] || value > bounds[1]) {
    refuse(definition, text, `Not a number of type ${definition.type.toUpperCase()}`);
  }
  return Number(value);
}

/** `[low,...,high]` with either end open, or undefined for a list of choices. */
function parseRange(valid: string): { low: number; high: number } | undefined {
  const match = /^\[(-?[\d.]+)?,?\.\.\.(?:,(-?[\d.]+))?\]/.exec(valid);
  if (!match) return undefined;
  return {
    low: match[1] === undefined ? Number.NEGATIVE_INFINITY : Number(match[1]),
    high: match[2] === undefined ? Number.POSITIVE_INFINITY : Number(match[2]),
  };
}

function checkNumber(definition: ConfigDefinition, text: string, value: number): void {
  if (value === 0 && RETENTION_KEYS.has(definition.name))
    refuse(definition, text, 'Value must be -1 or at least 1');
  const { valid } = definition;
  const range = valid === undefined ? undefined : parseRange(valid);
  if (range === undefined) return;
  if (valid!.endsWith('or -1') && value === -1) return;
  if (value < range.low) refuse(definition, text, `Value must be at least ${range.low}`);
  if (value > range.high) refuse(definition, text, `Value must be no more than ${range.high}`);
}

/** The choices of `[a, b, c]`, or undefined. */
function choicesOf(valid: string | undefined): string[] | undefined {
  const match = valid === undefined ? null : /^(?:\(case insensitive\) )?\[([A-Za-z][\w, -]*)\]$/.exec(valid);
  return match?.[1]?.split(', ');
}

const THROTTLED_REPLICAS = /^(\*|\d+:\d+(,\d+:\d+)*)?$/;

function checkText(definition: ConfigDefinition, text: string, values: readonly string[]): void {
  const { valid } = definition;
  const choices = choicesOf(valid);
  if (choices !== undefined) {
    const insensitive = valid!.startsWith('(case');
    for (const value of values) {
      const known = choices.some((c) =>
        insensitive ? c.toLowerCase() === value.toLowerCase() : c === value,
      );
      if (!known) refuse(definition, text, `String must be one of: ${choices.join(', ')}`);
    }
  }
  if (definition.type === 'list') {
    if (new Set(values).size !== values.length) refuse(definition, text, 'List contains duplicate entries');
    if (valid?.startsWith('[partitionId]') && !THROTTLED_REPLICAS.test(values.join(','))) {
      refuse(definition, text, 'Must be the literal "*" or a list of partitionId:brokerId pairs');
    }
  }
  if (valid?.startsWith('non-empty') && values.join('') === '') refuse(definition, text, 'must not be empty');
}

/** Parses and checks one value by Kafka's rules. Throws INVALID_CONFIG with a text that names key, value and bound. */
export function parseConfig(definition: ConfigDefinition, text: string): ConfigValue {
  switch (definition.type) {
    case 'boolean': {
      const lower = text.trim().toLowerCase();
      if (lower !== 'true' && lower !== 'false')
        refuse(definition, text, 'Expected value to be either true or false');
      return lower === 'true';
    }
    case 'int':
    case 'short':
    case 'long':
    case 'double': {
      const value = parseNumber(definition, text);
      checkNumber(definition, text, value);
      return value;
    }
    case 'list': {
      const trimmed = text.trim();
      const values = trimmed === '' ? [] : trimmed.split(/\s*,\s*/);
      checkText(definition, text, values);
      return values;
    }
    default: {
      const value = text.trim();
      checkText(definition, text, [value]);
      return value;
    }
  }
}

/** A double as Java writes it, since clients compare the texts. */
function formatDouble(value: number): string {
  const size = Math.abs(value);
  if (value === 0 || (size >= 1e-3 && size < 1e7))
    return Number.isInteger(value) ? value.toFixed(1) : String(value);
  const [mantissa, exponent] = value.toExponential().split('e') as [string, string];
  return `${mantissa.includes('.') ? mantissa : `${mantissa}.0`}E${Number(exponent)}`;
}

/** A value of the right type, in the one form that DescribeConfigs shows it in. */
export function formatConfig(definition: ConfigDefinition, text: string): string {
  const trimmed = text.trim();
  switch (definition.type) {
    case 'int':
    case 'short':
    case 'long':
      return String(BigInt(trimmed.replace(/^\+/, '')));
    case 'double':
      return formatDouble(Number(trimmed));
    case 'list':
      return trimmed.split(/\s*,\s*/).join(',');
    case 'boolean':
      return trimmed.toLowerCase();
    default:
      return trimmed;
  }
}

/** Which values brokers may be given while they run, by Kafka's rules. */
import { BroadsheetError } from '../runtime/errors.ts';
import { type BrokerConfig, parseOverrides } from './broker-config.ts';
import {
  BROKER_CONFIGS,
  baseKey,
  type ConfigDefinition,
  isDynamic,
  OWN_KEYS,
  parseConfig,
} from './definitions.ts';

/** Kafka opens and closes listeners while it runs; here they are those of the start. */
const FIXED_LISTENERS: ReadonlySet<string> = new Set(['listeners', 'listener.security.protocol.map']);

/** Kafka lets the size of a pool at most double or halve at a time. The pools themselves do not exist here. */
const THREAD_POOLS: ReadonlySet<string> = new Set([
  'background.threads',
  'num.io.threads',
  'num.network.threads',
  'num.recovery.threads.per.data.dir',
  'num.replica.fetchers',
]);

/** Keys of stores and their passwords. */
function isStoreKey(name: string): boolean {
  return /^ssl\.(keystore\.|truststore\.|key\.password)/.test(name);
}

function refuse(message: string): never {
  throw new BroadsheetError('INVALID_REQUEST', message);
}

function refuseNames(names: readonly string[], why: string): void {
  if (names.length > 0) refuse(`${why}: ${names.join(', ')}`);
}

/** Throws INVALID_CONFIG. */
function checkValue(definition: ConfigDefinition, text: string): void {
  parseConfig(definition, text);
  if (definition.type === 'class' && text !== definition.default) {
    throw new BroadsheetError('INVALID_CONFIG', `${definition.name}: this broker loads no classes`);
  }
  if (definition.name === 'max.connections.per.ip.overrides') parseOverrides(text);
}

function checkPoolSize(name: string, text: string, config: BrokerConfig): void {
  const [current, wanted] = [config.number(name), Number(text)];
  if (wanted === current) return;
  const fault =
    wanted < Math.floor(current / 2)
      ? `at least half the current value ${current}`
      : wanted > current * 2
        ? `no more than double the current value ${current}`
        : undefined;
  if (fault !== undefined) refuse(`${name}=${text}: the new value must be ${fault}`);
}

/**
 * Checks all dynamic values of one broker, or with `perBroker` false those of all brokers. Unknown keys are taken: they may
 * be a plugin's. Throws INVALID_REQUEST, as Kafka does here.
 */
export function validateBrokerConfigs(
  values: ReadonlyMap<string, string>,
  perBroker: boolean,
  config: BrokerConfig,
): void {
  const names = [...values.keys()];
  const known = names.filter((name) => BROKER_CONFIGS.has(name));
  refuseNames(
    known.filter((name) => !isDynamic(name)),
    'these configurations cannot be changed while a broker runs',
  );
  refuseNames(
    known.filter((name) => OWN_KEYS.has(name) || FIXED_LISTENERS.has(name)),
    'this broker takes these configurations at its start only',
  );
  refuseNames(
    known.filter(isStoreKey),
    'these configurations can only be changed per listener (listener.name.<name>.<key>)',
  );
  for (const [name, text] of values) {
    const definition = BROKER_CONFIGS.get(baseKey(name));
    if (definition === undefined) continue;
    try {
      checkValue(definition, text);
    } catch (error) {
      refuse((error as Error).message);
    }
    if (THREAD_POOLS.has(name)) checkPoolSize(name, text, config);
  }
  if (perBroker) return;
  refuseNames(
    names.filter((name) => BROKER_CONFIGS.get(baseKey(name))?.updateMode === 'per-broker'),
    'these configurations belong to one broker: name it',
  );
}

/** Whether a stored value counts here: it may be one of a newer or another Kafka. The reason when it does not. */
export function faultOfDynamicValue(name: string, text: string): string | undefined {
  if (FIXED_LISTENERS.has(name)) return `${name} is taken at the start only`;
  const definition = BROKER_CONFIGS.get(baseKey(name));
  if (definition === undefined) return undefined;
  if (!isDynamic(name)) return `${name} cannot be changed while a broker runs`;
  try {
    checkValue(definition, text);
    return undefined;
  } catch (error) {
    return (error as Error).message;
  }
}

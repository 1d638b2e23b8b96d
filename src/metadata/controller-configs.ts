/**
 * What a change of configs means for an image: records to append, or a refusal. As in Kafka, a resource changes as a whole
 * or not at all, and each is judged by itself.
 */
import { KafkaError, kafkaCodeOf } from '../protocol/errors.ts';
import { BroadsheetError } from '../runtime/errors.ts';
import { MAX_CONFIG_LENGTH, type Refusal } from './controller.ts';
import { type ClusterImage, ConfigResource } from './image.ts';
import type { MetadataRecordInput } from './records.ts';

const MIN_ISR = 'min.insync.replicas';

/** Codes of ConfigOperation in IncrementalAlterConfigs. */
export const ConfigOperation = { SET: 0, DELETE: 1, APPEND: 2, SUBTRACT: 3 } as const;

export interface ConfigChange {
  readonly name: string;
  /** A ConfigOperation. */
  readonly operation: number;
  readonly value: string | null;
}

export interface ResourceChange {
  /** A ConfigResource. */
  readonly type: number;
  /** '' for the defaults of all brokers. */
  readonly name: string;
  readonly changes: readonly ConfigChange[];
  /** AlterConfigs: values that are not named are removed. */
  readonly replaces: boolean;
}

/** What the controller asks of whoever knows the keys. */
export interface ConfigRules {
  /** The default of a key whose value is a list, which APPEND and SUBTRACT begin with; undefined for any other key. */
  listDefault(type: number, name: string): string | undefined;
  /** Throws BroadsheetError INVALID_CONFIG or INVALID_REQUEST when Kafka would refuse these values of a resource.
   * `before` are those it has. */
  validate(
    type: number,
    name: string,
    values: ReadonlyMap<string, string>,
    before: ReadonlyMap<string, string>,
  ): void;
}

export interface ConfigDecision {
  readonly ok: true;
  readonly records: readonly MetadataRecordInput[];
}

function refuse(errorCode: number, message: string): Refusal {
  return { ok: false, errorCode, message };
}

function parts(list: string): string[] {
  return list === '' ? [] : list.split(',');
}

/** The value after an operation, null: none. A refusal when the operation does not fit the key. */
function outcome(
  change: ConfigChange,
  resource: ResourceChange,
  before: ReadonlyMap<string, string>,
  rules: ConfigRules,
): string | null | Refusal {
  const { name, operation, value } = change;
  if (operation === ConfigOperation.DELETE) return null;
  if (operation === ConfigOperation.SET) return value;
  const verb = operation === ConfigOperation.APPEND ? 'append to' : 'subtract from';
  const fallback = rules.listDefault(resource.type, name);
  if (fallback === undefined) {
    return refuse(KafkaError.INVALID_CONFIG, `cannot ${verb} ${name}: its value is no list`);
  }
  const list = parts(before.get(name) ?? fallback);
  const given = parts(value ?? '');
  if (operation === ConfigOperation.APPEND) {
    for (const each of given) if (!list.includes(each)) list.push(each);
    return list.join(',');
  }
  return list.filter((each) => !given.includes(each)).join(',');
}

/** With eligible leader replicas (KIP-966) the limit is the cluster's: a broker has none of its own, and it stays set. */
function minIsrFault(
  image: ClusterImage,
  { type, name }: ResourceChange,
  after: ReadonlyMap<string, string>,
  touched: ReadonlySet<string>,
): Refusal | undefined {
  const guarded = (image.features.get('eligible.leader.replicas.version') ?? 0) > 0;
  if (!guarded || type !== ConfigResource.BROKER || !touched.has(MIN_ISR)) return undefined;
  if (name !== '')
    return refuse(KafkaError.INVALID_CONFIG, `${MIN_ISR} of a single broker cannot be changed`);
  if (after.has(MIN_ISR)) return undefined;
  return refuse(KafkaError.INVALID_CONFIG, `${MIN_ISR} of the cluster cannot be removed`);
}

/** Whether the resource can have values at all. */
function missing(image: ClusterImage, { type, name }: ResourceChange): Refusal | undefined {
  if (type === ConfigResource.TOPIC && !image.topicsByName.has(name)) {
    return refuse(KafkaError.UNKNOWN_TOPIC_OR_PARTITION, `The topic '${name}' does not exist.`);
  }
  if (type === ConfigResource.BROKER && name !== '' && !image.brokers.has(Number(name))) {
    return refuse(KafkaError.BROKER_ID_NOT_REGISTERED, `No broker with id ${name} found.`);
  }
  return undefined;
}

/** Judges the change of one resource. */
export function alterConfigs(
  image: ClusterImage,
  resource: ResourceChange,
  rules: ConfigRules,
): ConfigDecision | Refusal {
  const { type, name: resourceName } = resource;
  const before = image.configs(type, resourceName);
  const after = new Map(resource.replaces ? [] : before);
  const touched = new Set(resource.replaces ? before.keys() : []);
  for (const change of resource.changes) {
    const value = outcome(change, resource, before, rules);
    if (value !== null && typeof value === 'object') return value;
    touched.add(change.name);
    if (value === null) after.delete(change.name);
    else after.set(change.name, value);
  }
  let size = 0;
  for (const [key, value] of after) size += key.length + value.length;
  if (size > MAX_CONFIG_LENGTH) {
    return refuse(
      KafkaError.INVALID_CONFIG,
      `configs of ${size} characters, the limit is ${MAX_CONFIG_LENGTH}`,
    );
  }
  try {
    rules.validate(type, resourceName, after, before);
  } catch (error) {
    if (error instanceof BroadsheetError) return refuse(kafkaCodeOf(error), error.message);
    throw error;
  }
  const absent = missing(image, resource) ?? minIsrFault(image, resource, after, touched);
  if (absent !== undefined) return absent;
  const records: MetadataRecordInput[] = [];
  for (const name of touched) {
    const value = after.get(name) ?? null;
    if (value === (before.get(name) ?? null)) continue;
    records.push({
      type: 'Config',
      version: 0,
      data: { resourceType: type, resourceName, name, value },
    });
  }
  return { ok: true, records };
}

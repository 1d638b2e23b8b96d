/** `broadsheet topic`: list, describe, create, alter, delete, delete-records. */
import type { Command } from 'commander';
import {
  CONFIG_SOURCES,
  type ConfigsOf,
  createPartitions,
  deleteRecords,
  describeConfigs,
  ResourceType,
} from '../client/admin.ts';
import { BrokerRefusal, type Client, EARLIEST, LATEST } from '../client/client.ts';
import { listOffsets, type PartitionOf, partitionName } from '../client/offsets.ts';
import { errorName, KafkaError } from '../protocol/errors.ts';
import type { MetadataResponseTopic } from '../protocol/generated/Metadata.ts';
import { BroadsheetError } from '../runtime/errors.ts';
import {
  eachTopicPartitions,
  keyValue,
  type Position,
  position,
  positive,
  type TopicPartitions,
} from './arguments.ts';
import { note, print, printJson, table } from './output.ts';
import { resolvePartitions, resolvePositions } from './positions.ts';
import { overTheWire, type SessionOptions, withClient } from './session.ts';

interface ListOptions extends SessionOptions {
  readonly internal?: boolean;
}

async function list(client: Client, options: ListOptions): Promise<void> {
  const { topics } = await client.metadata();
  const shown = topics
    .filter((topic) => topic.errorCode === 0 && (options.internal || !topic.isInternal))
    .sort((a, b) => (a.name! < b.name! ? -1 : 1))
    .map((topic) => ({
      name: topic.name!,
      id: topic.topicId,
      internal: topic.isInternal,
      partitions: topic.partitions.length,
      replicationFactor: Math.max(0, ...topic.partitions.map(({ replicaNodes }) => replicaNodes.length)),
    }));
  if (options.json) return printJson({ topics: shown });
  if (shown.length === 0) {
    note('there are no topics yet: `broadsheet topic create NAME` makes one');
    return;
  }
  await print(
    table(
      ['TOPIC', 'PARTITIONS', 'REPLICATION'],
      shown.map(({ name, partitions, replicationFactor }) => [name, partitions, replicationFactor]),
    ),
  );
}

interface DescribeOptions extends SessionOptions {
  readonly allConfigs?: boolean;
}

interface Offsets {
  readonly start: number | null;
  readonly end: number | null;
}

async function describe(client: Client, names: readonly string[], options: DescribeOptions): Promise<void> {
  const { topics } = await client.metadata(names.length === 0 ? null : names);
  const found = topics.filter((topic) => names.length > 0 || !topic.isInternal);
  for (const { errorCode, name } of found) {
    if (errorCode !== 0) throw new BrokerRefusal(errorCode, `topic ${name}`);
  }
  const configs = await configsOf(client, found);
  const offsets = await offsetsOf(client, found);
  const described = found.map((topic, index) => ({
    name: topic.name!,
    id: topic.topicId,
    internal: topic.isInternal,
    configs: chosen(configs?.[index], options.allConfigs ?? false),
    partitions: [...topic.partitions]
      .sort((a, b) => a.partitionIndex - b.partitionIndex)
      .map((each) => {
        const at = offsets.get(partitionName({ topic: topic.name!, partition: each.partitionIndex }));
        return {
          partition: each.partitionIndex,
          leader: each.leaderId < 0 ? null : each.leaderId,
          leaderEpoch: each.leaderEpoch,
          replicas: each.replicaNodes,
          isr: each.isrNodes,
          offlineReplicas: each.offlineReplicas,
          startOffset: at?.start ?? null,
          endOffset: at?.end ?? null,
        };
      }),
  }));
  if (options.json) return printJson({ topics: described });
  for (const [index, topic] of described.entries()) {
    const heading = `${index === 0 ? '' : '\n'}${topic.name}  id ${topic.id}${topic.internal ? '  internal' : ''}\n`;
    const settings = topic.configs?.map(({ name, value, source }) => `  ${name}=${value}  (${source})\n`);
    const rows = topic.partitions.map((each) => [
      each.partition,
      each.leader,
      each.replicas.join(','),
      each.isr.join(','),
      each.startOffset,
      each.endOffset,
    ]);
    const partitions = table(['PARTITION', 'LEADER', 'REPLICAS', 'IN SYNC', 'START', 'END'], rows);
    await print(`${heading}${settings?.join('') ?? ''}${partitions}`);
  }
}

/** Undefined where the broker has no such request. */
async function configsOf(
  client: Client,
  topics: readonly MetadataResponseTopic[],
): Promise<ConfigsOf[] | undefined> {
  if (topics.length === 0) return [];
  try {
    return await describeConfigs(
      client,
      topics.map(({ name }) => ({ type: ResourceType.TOPIC, name: name! })),
    );
  } catch (error) {
    if (error instanceof BroadsheetError && error.code === 'UNSUPPORTED') return undefined;
    throw error;
  }
}

const SOURCE_TOPIC = 1;

function chosen(configs: ConfigsOf | undefined, all: boolean) {
  return (
    configs?.configs
      .filter(({ configSource }) => all || configSource === SOURCE_TOPIC)
      .map(({ name, value, configSource }) => ({
        name,
        value,
        source: CONFIG_SOURCES[configSource] ?? 'unknown',
      }))
      .sort((a, b) => (a.name < b.name ? -1 : 1)) ?? null
  );
}

/** Of the partitions that have a leader, by name. */
async function offsetsOf(
  client: Client,
  topics: readonly MetadataResponseTopic[],
): Promise<Map<string, Offsets>> {
  const led: PartitionOf[] = topics.flatMap(({ name, partitions }) =>
    partitions
      .filter(({ leaderId }) => leaderId >= 0)
      .map(({ partitionIndex }) => ({ topic: name!, partition: partitionIndex })),
  );
  const ask = (timestamp: number) =>
    listOffsets(
      client,
      led.map((each) => ({ ...each, timestamp })),
    );
  const starts = await ask(EARLIEST);
  const ends = await ask(LATEST);
  const value = (answer: { errorCode: number; offset: number } | undefined) =>
    answer?.errorCode === 0 ? answer.offset : null;
  return new Map(
    led.map((each, index) => [partitionName(each), { start: value(starts[index]), end: value(ends[index]) }]),
  );
}

interface CreateOptions extends SessionOptions {
  readonly partitions?: number;
  readonly replicationFactor?: number;
  readonly config?: ReadonlyMap<string, string>;
  readonly ifNotExists?: boolean;
  readonly validateOnly?: boolean;
}

async function create(client: Client, names: readonly string[], options: CreateOptions): Promise<void> {
  const { partitions, replicationFactor, validateOnly = false } = options;
  const configs = Object.fromEntries(options.config ?? []);
  const created: { name: string; id: string | null; partitions: number; created: boolean }[] = [];
  for (const name of names) {
    try {
      const topics = [{ name, partitions, replicationFactor, configs }];
      for (const topic of await client.createTopics(topics, validateOnly)) {
        // What is only judged gets no id, though an answer may have one.
        const id = validateOnly ? null : topic.topicId;
        created.push({ name, id, partitions: topic.numPartitions, created: !validateOnly });
      }
    } catch (error) {
      const exists = error instanceof BrokerRefusal && error.kafkaCode === KafkaError.TOPIC_ALREADY_EXISTS;
      if (!exists || !options.ifNotExists) throw error;
      const topic = await client.topic(name);
      created.push({ name, id: topic.topicId, partitions: topic.partitions.length, created: false });
    }
  }
  if (options.json) return printJson({ topics: created });
  for (const topic of created) {
    const what = topic.created ? 'created' : validateOnly ? 'could be created' : 'exists already';
    await print(`topic ${topic.name} ${what}\n`);
  }
}

async function alter(
  client: Client,
  name: string,
  options: SessionOptions & { readonly partitions: number },
): Promise<void> {
  await createPartitions(client, name, options.partitions);
  if (options.json) return printJson({ name, partitions: options.partitions });
  await print(`topic ${name} has ${options.partitions} partitions now\n`);
}

async function remove(
  client: Client,
  names: readonly string[],
  options: SessionOptions & { readonly ifExists?: boolean },
): Promise<void> {
  const deleted: { name: string; deleted: boolean }[] = [];
  for (const name of names) {
    try {
      await client.deleteTopics([name]);
      deleted.push({ name, deleted: true });
    } catch (error) {
      const missing =
        error instanceof BrokerRefusal && error.kafkaCode === KafkaError.UNKNOWN_TOPIC_OR_PARTITION;
      if (!missing || !options.ifExists) throw error;
      deleted.push({ name, deleted: false });
    }
  }
  if (options.json) return printJson({ topics: deleted });
  for (const topic of deleted) {
    await print(`topic ${topic.name} ${topic.deleted ? 'deleted' : 'does not exist'}\n`);
  }
}

interface TrimOptions extends SessionOptions {
  readonly before: Position;
}

const ALL_RECORDS = -1;

async function trim(client: Client, given: readonly TopicPartitions[], options: TrimOptions): Promise<void> {
  const partitions = await resolvePartitions(client, given);
  const places = await resolvePositions(client, partitions, options.before);
  const targets = places.map(({ topic, partition, offset }) => ({
    topic,
    partition,
    offset: options.before.kind === 'latest' ? ALL_RECORDS : offset,
  }));
  const deleted = (await deleteRecords(client, targets))
    .map(({ topic, partition, lowWatermark, errorCode }) => ({
      topic,
      partition,
      startOffset: errorCode === 0 ? lowWatermark : null,
      error: errorCode === 0 ? null : errorName(errorCode),
    }))
    .sort((a, b) => (a.topic === b.topic ? a.partition - b.partition : a.topic < b.topic ? -1 : 1));
  if (options.json) await printJson({ partitions: deleted });
  else {
    const rows = deleted.map(({ topic, partition, startOffset, error }) => [
      topic,
      partition,
      startOffset,
      error ?? 'ok',
    ]);
    await print(table(['TOPIC', 'PARTITION', 'START NOW', 'RESULT'], rows));
  }
  const failed = deleted.filter(({ error }) => error !== null).length;
  if (failed > 0)
    throw new BroadsheetError('BROKER_REFUSED', `${failed} of ${deleted.length} partitions failed`);
}

export function define(command: Command): void {
  const add = (name: string, description: string) =>
    overTheWire(command.command(name).description(description));
  add('list', 'list topics')
    .option('--internal', 'with the internal ones')
    .action((options: ListOptions) => withClient(options, (client) => list(client, options)));
  add('describe', 'show configs and partitions: leader, replicas, first offset and end')
    .argument('[topic...]', 'default: all but internal ones')
    .option('--all-configs', 'with configs that have their default')
    .action((names: string[], options: DescribeOptions) =>
      withClient(options, (client) => describe(client, names, options)),
    );
  add('create', 'create topics')
    .argument('<topic...>')
    .option('-p, --partitions <n>', "default: the broker's", positive)
    .option('--replication-factor <n>', "default: the broker's", positive)
    .option('-c, --config <key=value>', 'a topic config; may be repeated', keyValue)
    .option('--if-not-exists', 'no error when it exists')
    .option('--validate-only', 'only say whether it could be created')
    .action((names: string[], options: CreateOptions) =>
      withClient(options, (client) => create(client, names, options)),
    );
  add('alter', 'add partitions to a topic; `broadsheet config set` changes its configs')
    .argument('<topic>')
    .requiredOption('-p, --partitions <n>', 'how many it has then', positive)
    .action((name: string, options: SessionOptions & { partitions: number }) =>
      withClient(options, (client) => alter(client, name, options)),
    );
  add('delete', 'delete topics, records and all')
    .argument('<topic...>')
    .option('--if-exists', 'no error when there is none')
    .action((names: string[], options: SessionOptions & { ifExists?: boolean }) =>
      withClient(options, (client) => remove(client, names, options)),
    );
  add('delete-records', 'delete the oldest records')
    .alias('trim')
    .argument('<topic[:partitions]...>', 'as in orders, orders:0, orders:0,2-4', eachTopicPartitions)
    .requiredOption(
      '--before <position>',
      'an offset, latest (all records), or a time (2026-01-31T12:00:00Z, @ms, 10m)',
      (text) => position(text),
    )
    .action((given: TopicPartitions[], options: TrimOptions) =>
      withClient(options, (client) => trim(client, given, options)),
    );
}

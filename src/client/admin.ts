/** Requests of an administrator about topics and configurations, in units of what is asked rather than of requests. */

import { ApiKey } from '../protocol/generated/api-keys.ts';
import {
  readCreatePartitionsResponse,
  writeCreatePartitionsRequest,
} from '../protocol/generated/CreatePartitions.ts';
import { readDeleteRecordsResponse, writeDeleteRecordsRequest } from '../protocol/generated/DeleteRecords.ts';
import {
  type DescribeConfigsResponseDescribeConfigsResult,
  readDescribeConfigsResponse,
  writeDescribeConfigsRequest,
} from '../protocol/generated/DescribeConfigs.ts';
import {
  readIncrementalAlterConfigsResponse,
  writeIncrementalAlterConfigsRequest,
} from '../protocol/generated/IncrementalAlterConfigs.ts';
import {
  readListConfigResourcesResponse,
  writeListConfigResourcesRequest,
} from '../protocol/generated/ListConfigResources.ts';
import { api } from './apis.ts';
import { BrokerRefusal, type Client } from './client.ts';
import { byLeader, byTopic, type PartitionOf } from './offsets.ts';

const TIMEOUT_MS = 30_000;

const APIS = {
  createPartitions: api(ApiKey.CreatePartitions, writeCreatePartitionsRequest, readCreatePartitionsResponse),
  deleteRecords: api(ApiKey.DeleteRecords, writeDeleteRecordsRequest, readDeleteRecordsResponse),
  describeConfigs: api(ApiKey.DescribeConfigs, writeDescribeConfigsRequest, readDescribeConfigsResponse),
  incrementalAlterConfigs: api(
    ApiKey.IncrementalAlterConfigs,
    writeIncrementalAlterConfigsRequest,
    readIncrementalAlterConfigsResponse,
  ),
  listConfigResources: api(
    ApiKey.ListConfigResources,
    writeListConfigResourcesRequest,
    readListConfigResourcesResponse,
  ),
} as const;

/** Kinds of resources that have configurations, as in requests. */
export const ResourceType = { TOPIC: 2, BROKER: 4, BROKER_LOGGER: 8, CLIENT_METRICS: 16, GROUP: 32 } as const;
export type ResourceType = (typeof ResourceType)[keyof typeof ResourceType];

export interface Resource {
  readonly type: ResourceType;
  /** Of a broker its id, empty for the default of all. */
  readonly name: string;
}

/** Where a value comes from, by its number in responses. */
export const CONFIG_SOURCES: Readonly<Record<number, string>> = {
  1: 'topic',
  2: 'broker',
  3: 'all brokers',
  4: 'start',
  5: 'default',
  6: 'broker logger',
  7: 'client metrics',
  8: 'group',
};

export type ConfigsOf = DescribeConfigsResponseDescribeConfigsResult;

/** Gives a topic more partitions. Throws BROKER_REFUSED. */
export async function createPartitions(client: Client, topic: string, count: number): Promise<void> {
  const response = await client.request(
    APIS.createPartitions,
    { topics: [{ name: topic, count, assignments: null }], timeoutMs: TIMEOUT_MS, validateOnly: false },
    { to: await client.controller() },
  );
  for (const { errorCode, errorMessage } of response.results) {
    if (errorCode !== 0) throw new BrokerRefusal(errorCode, `topic ${topic} was not altered`, errorMessage);
  }
  client.forget(topic);
}

export interface Deleted extends PartitionOf {
  /** Where the partition begins now; -1 with an error. */
  readonly lowWatermark: number;
  readonly errorCode: number;
}

/** Deletes the records below an offset (-1: all) of each partition. Error codes are left in. */
export async function deleteRecords(
  client: Client,
  partitions: readonly (PartitionOf & { readonly offset: number })[],
): Promise<Deleted[]> {
  const deleted: Deleted[] = [];
  for (const [leader, mine] of await byLeader(client, partitions)) {
    const topics = [...byTopic(mine)].map(([name, each]) => ({
      name,
      partitions: each.map(({ partition, offset }) => ({ partitionIndex: partition, offset })),
    }));
    const response = await client.request(
      APIS.deleteRecords,
      { topics, timeoutMs: TIMEOUT_MS },
      { to: await client.broker(leader) },
    );
    for (const { name, partitions: answers } of response.topics) {
      for (const { partitionIndex, lowWatermark, errorCode } of answers) {
        deleted.push({ topic: name, partition: partitionIndex, lowWatermark, errorCode });
      }
    }
  }
  return deleted;
}

/** The configurations of resources, in their order. Throws BROKER_REFUSED for the first that has none. */
export async function describeConfigs(
  client: Client,
  resources: readonly Resource[],
  options: { readonly synonyms?: boolean; readonly documentation?: boolean } = {},
): Promise<ConfigsOf[]> {
  const results = new Map<string, ConfigsOf>();
  for (const [node, mine] of byNode(resources)) {
    const response = await client.request(
      APIS.describeConfigs,
      {
        resources: mine.map(({ type, name }) => ({
          resourceType: type,
          resourceName: name,
          configurationKeys: null,
        })),
        includeSynonyms: options.synonyms,
        includeDocumentation: options.documentation,
      },
      { to: await nodeOf(client, node) },
    );
    for (const result of response.results) {
      if (result.errorCode !== 0) {
        throw new BrokerRefusal(
          result.errorCode,
          `configs of ${resourceText({ type: result.resourceType as ResourceType, name: result.resourceName })}`,
          result.errorMessage,
        );
      }
      results.set(`${result.resourceType} ${result.resourceName}`, result);
    }
  }
  return resources.flatMap(({ type, name }) => results.get(`${type} ${name}`) ?? []);
}

/** Everything that can have configs: topics, brokers, loggers, groups, client metrics. Throws BROKER_REFUSED, and
 * UNSUPPORTED below Kafka 4.1. */
export async function listConfigResources(client: Client): Promise<Resource[]> {
  const response = await client.request(APIS.listConfigResources, {});
  if (response.errorCode !== 0) throw new BrokerRefusal(response.errorCode, 'resources');
  return response.configResources.map(({ resourceType, resourceName }) => ({
    type: resourceType as ResourceType,
    name: resourceName,
  }));
}

export interface ConfigChange {
  readonly name: string;
  /** Null takes the value of the resource back. */
  readonly value: string | null;
  /** Default: `set`. `append` and `subtract` are for lists. */
  readonly operation?: 'set' | 'append' | 'subtract';
}

const OPERATIONS = { set: 0, append: 2, subtract: 3 } as const;
const DELETE = 1;

/** Changes some configurations of a resource; the others stay. Throws BROKER_REFUSED. */
export async function alterConfigs(
  client: Client,
  resource: Resource,
  changes: readonly ConfigChange[],
  validateOnly = false,
): Promise<void> {
  const response = await client.request(
    APIS.incrementalAlterConfigs,
    {
      resources: [
        {
          resourceType: resource.type,
          resourceName: resource.name,
          configs: changes.map(({ name, value, operation = 'set' }) => ({
            name,
            configOperation: value === null ? DELETE : OPERATIONS[operation],
            value,
          })),
        },
      ],
      validateOnly,
    },
    { to: await nodeOf(client, nodeFor(resource)) },
  );
  for (const { errorCode, errorMessage } of response.responses) {
    if (errorCode !== 0)
      throw new BrokerRefusal(errorCode, `configs of ${resourceText(resource)}`, errorMessage);
  }
}

export function resourceText({ type, name }: Resource): string {
  const kind = Object.entries(ResourceType).find(([, number]) => number === type)?.[0] ?? `type ${type}`;
  return `${kind.toLowerCase().replace('_', ' ')} ${name === '' ? '(default)' : name}`;
}

/** What a broker is asked about itself only it can answer. */
function nodeFor({ type, name }: Resource): number | undefined {
  const own = type === ResourceType.BROKER || type === ResourceType.BROKER_LOGGER;
  return own && /^\d+$/.test(name) ? Number(name) : undefined;
}

function byNode(resources: readonly Resource[]): Map<number | undefined, Resource[]> {
  const nodes = new Map<number | undefined, Resource[]>();
  for (const resource of resources) {
    const node = nodeFor(resource);
    nodes.set(node, [...(nodes.get(node) ?? []), resource]);
  }
  return nodes;
}

async function nodeOf(client: Client, node: number | undefined) {
  if (node === undefined) return client.controller();
  await client.metadata([]);
  return client.broker(node);
}

/**
 * CreateTopics (key 19), versions 2-7: makes topics, or only checks that they could be made. The answer comes when the
 * topics can be used.
 *
 * - v5 adds the number of partitions, the replication factor and all configs to the answer.
 * - v7 adds the topic id to the answer.
 *
 * Errors, per topic and with a text: INVALID_REQUEST (a name twice in the request), TOPIC_ALREADY_EXISTS,
 * INVALID_TOPIC_EXCEPTION, INVALID_PARTITIONS, INVALID_REPLICATION_FACTOR, INVALID_REPLICA_ASSIGNMENT, INVALID_CONFIG,
 * POLICY_VIOLATION, KAFKA_STORAGE_ERROR. A timeout of 0 or less does not cut the request short.
 */
import { KafkaError } from '../../protocol/errors.ts';
import {
  type CreateTopicsRequestCreatableTopic,
  type CreateTopicsResponseCreatableTopicResultInput,
  readCreateTopicsRequest,
  writeCreateTopicsResponse,
} from '../../protocol/generated/CreateTopics.ts';
import type { BrokerContext } from '../context.ts';
import type { Request } from '../request.ts';
import type { HandlerRow } from './handler.ts';

const VERSIONS = [2, 7] as const;

type TopicResult = CreateTopicsResponseCreatableTopicResultInput;

async function create(
  spec: CreateTopicsRequestCreatableTopic,
  validateOnly: boolean,
  broker: BrokerContext,
): Promise<TopicResult> {
  const made = await broker.topics.create(spec, validateOnly);
  if (!made.ok) {
    return { name: spec.name, errorCode: made.errorCode, errorMessage: made.message, configs: [] };
  }
  return {
    name: spec.name,
    topicId: made.topicId,
    errorCode: KafkaError.NONE,
    errorMessage: null,
    numPartitions: made.numPartitions,
    replicationFactor: made.replicationFactor,
    configs: broker.topics.configEntries(
      new Map(spec.configs.map((config) => [config.name, config.value ?? ''])),
    ),
  };
}

async function handle(request: Request, broker: BrokerContext): Promise<void> {
  const { version } = request;
  const message = readCreateTopicsRequest(request.body(), version);
  const times = new Map<string, number>();
  for (const { name } of message.topics) times.set(name, (times.get(name) ?? 0) + 1);
  const results: (TopicResult | Promise<TopicResult>)[] = [];
  for (const spec of message.topics) {
    const count = times.get(spec.name) ?? 0;
    if (count === 1) results.push(create(spec, message.validateOnly, broker));
    // Named more than once: one refusal for all of them.
    else if (count > 1) {
      times.set(spec.name, 0);
      const errorMessage = 'Duplicate topic name.';
      results.push({ name: spec.name, errorCode: KafkaError.INVALID_REQUEST, errorMessage, configs: [] });
    }
  }
  const topics = await Promise.all(results);
  request.reply((writer) => writeCreateTopicsResponse(writer, version, { topics }));
}

export const createTopics: HandlerRow = {
  key: 19,
  name: 'CreateTopics',
  served: VERSIONS,
  advertised: VERSIONS,
  overlaps: false,
  authorisation: { operation: 'CREATE', resource: 'TOPIC' },
  handle,
};

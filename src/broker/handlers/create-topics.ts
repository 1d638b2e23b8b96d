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
  type CreateTopicsResponseCreatableTopicResultInput,
  readCreateTopicsRequest,
  writeCreateTopicsResponse,
} from '../../protocol/generated/CreateTopics.ts';
import type { BrokerContext } from '../context.ts';
import type { Request } from '../request.ts';
import type { HandlerRow } from './handler.ts';

const VERSIONS = [2, 7] as const;

type TopicResult = CreateTopicsResponseCreatableTopicResultInput;

async function handle(request: Request, broker: BrokerContext): Promise<void> {
  const { version } = request;
  const message = readCreateTopicsRequest(request.body(), version);
  const configs = new Map(message.topics.map((topic) => [topic.name, topic.configs]));
  const made = await broker.topics.create(message.topics, message.validateOnly);
  const topics = made.map((result): TopicResult => {
    const { name } = result;
    if (!result.ok) return { name, errorCode: result.errorCode, errorMessage: result.message, configs: [] };
    const own = (configs.get(name) ?? []).map((config) => [config.name, config.value ?? ''] as const);
    return {
      name,
      topicId: result.topicId,
      errorCode: KafkaError.NONE,
      errorMessage: null,
      numPartitions: result.numPartitions,
      replicationFactor: result.replicationFactor,
      configs: broker.topics.configEntries(new Map(own)),
    };
  });
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

/**
 * DeleteTopics (key 20), versions 1-6: deletes topics and their data. When the answer arrives the names are free, and
 * fetches that waited on the topics have ended.
 *
 * - v5 adds a text to each error.
 * - v6 takes topics by id as well as by name.
 *
 * Errors, per topic: UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, INVALID_REQUEST (named twice, by name and id at once,
 * or by neither), TOPIC_DELETION_DISABLED (delete.topic.enable=false; INVALID_REQUEST before v3), KAFKA_STORAGE_ERROR.
 */
import { KafkaError } from '../../protocol/errors.ts';
import {
  type DeleteTopicsResponseDeletableTopicResultInput,
  readDeleteTopicsRequest,
  writeDeleteTopicsResponse,
} from '../../protocol/generated/DeleteTopics.ts';
import type { BrokerContext } from '../context.ts';
import type { Request } from '../request.ts';
import type { HandlerRow } from './handler.ts';

const VERSIONS = [1, 6] as const;
const ZERO_ID = 'AAAAAAAAAAAAAAAAAAAAAA';

type TopicResult = DeleteTopicsResponseDeletableTopicResultInput;

interface Reference {
  readonly name: string | null;
  readonly topicId: string;
}

async function remove(reference: Reference, version: number, broker: BrokerContext): Promise<TopicResult> {
  if (!broker.config.boolean('delete.topic.enable')) {
    const errorCode = version < 3 ? KafkaError.INVALID_REQUEST : KafkaError.TOPIC_DELETION_DISABLED;
    return { ...reference, errorCode, errorMessage: 'delete.topic.enable is false' };
  }
  const deleted = await broker.topics.delete(reference);
  return deleted.ok
    ? { name: deleted.name, topicId: deleted.topicId, errorCode: KafkaError.NONE }
    : { ...reference, errorCode: deleted.errorCode, errorMessage: deleted.message };
}

async function handle(request: Request, broker: BrokerContext): Promise<void> {
  const { version } = request;
  const message = readDeleteTopicsRequest(request.body(), version);
  const references: Reference[] =
    version >= 6
      ? message.topics.map(({ name, topicId }) => ({ name, topicId }))
      : message.topicNames.map((name) => ({ name, topicId: ZERO_ID }));
  const keys = references.map(({ name, topicId }) => `${topicId} ${name}`);
  const times = new Map<string, number>();
  for (const key of keys) times.set(key, (times.get(key) ?? 0) + 1);
  const results: (TopicResult | Promise<TopicResult>)[] = [];
  for (const [index, reference] of references.entries()) {
    const count = times.get(keys[index]!) ?? 0;
    if (count === 1) results.push(remove(reference, version, broker));
    else if (count > 1) {
      times.set(keys[index]!, 0);
      results.push({
        ...reference,
        errorCode: KafkaError.INVALID_REQUEST,
        errorMessage: reference.name === null ? 'Duplicate topic id.' : 'Duplicate topic name.',
      });
    }
  }
  const responses = await Promise.all(results);
  request.reply((writer) => writeDeleteTopicsResponse(writer, version, { responses }));
}

export const deleteTopics: HandlerRow = {
  key: 20,
  name: 'DeleteTopics',
  served: VERSIONS,
  advertised: VERSIONS,
  overlaps: false,
  authorisation: { operation: 'DELETE', resource: 'TOPIC' },
  handle,
};

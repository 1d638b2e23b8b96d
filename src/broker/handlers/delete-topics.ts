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

import type { TopicReference } from '../../metadata/controller.ts';
import type { ClusterImage, TopicState } from '../../metadata/image.ts';
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

/** What is asked for once, and what several times: by name, by id, or by both. */
function divide(
  references: readonly TopicReference[],
  image: ClusterImage,
): { once: TopicReference[]; repeated: TopicReference[] } {
  const asked = new Map<string, { reference: TopicReference; times: number }>();
  for (const reference of references) {
    const { name, topicId } = reference;
    let topic: TopicState | undefined;
    if (name === null) topic = image.topicsById.get(topicId);
    else if (topicId === ZERO_ID) topic = image.topicsByName.get(name);
    const key = topic?.id ?? `${topicId} ${name}`;
    const known = asked.get(key);
    if (known === undefined) {
      asked.set(key, { reference, times: 1 });
      continue;
    }
    known.times++;
    if (topic !== undefined && known.reference.name !== name) {
      known.reference = { name: topic.name, topicId: topic.id };
    }
  }
  const all = [...asked.values()];
  return {
    once: all.filter(({ times }) => times === 1).map(({ reference }) => reference),
    repeated: all.filter(({ times }) => times > 1).map(({ reference }) => reference),
  };
}

async function handle(request: Request, broker: BrokerContext): Promise<void> {
  const { version } = request;
  const message = readDeleteTopicsRequest(request.body(), version);
  const references: TopicReference[] =
    version >= 6
      ? message.topics.map(({ name, topicId }) => ({ name, topicId }))
      : message.topicNames.map((name) => ({ name, topicId: ZERO_ID }));
  const reply = (responses: TopicResult[]) =>
    request.reply((writer) => writeDeleteTopicsResponse(writer, version, { responses }));
  if (!broker.config.boolean('delete.topic.enable')) {
    const errorCode = version < 3 ? KafkaError.INVALID_REQUEST : KafkaError.TOPIC_DELETION_DISABLED;
    const errorMessage = 'delete.topic.enable is false';
    return reply(references.map((reference) => ({ ...reference, errorCode, errorMessage })));
  }
  const { once, repeated } = divide(references, broker.image);
  const deleted = once.length === 0 ? [] : await broker.topics.delete(once);
  reply([
    ...deleted.map((result) =>
      result.ok
        ? { name: result.name, topicId: result.topicId, errorCode: KafkaError.NONE }
        : {
            name: result.name,
            topicId: result.topicId,
            errorCode: result.errorCode,
            errorMessage: result.message,
          },
    ),
    ...repeated.map(({ name, topicId }) => {
      const errorMessage = `topic ${name ?? topicId} is in the request more than once`;
      return { name, topicId, errorCode: KafkaError.INVALID_REQUEST, errorMessage };
    }),
  ]);
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

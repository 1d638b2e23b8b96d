/**
 * OffsetDelete (key 47), version 0: removes what a group has committed for topics that it does not subscribe to.
 *
 * Errors: GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP (a group in use that is not of consumers), COORDINATOR_NOT_AVAILABLE,
 * NOT_COORDINATOR; per partition GROUP_SUBSCRIBED_TO_TOPIC, UNKNOWN_TOPIC_OR_PARTITION.
 */
import type { TopicPartition } from '../../group/offset-manager.ts';
import { KafkaError } from '../../protocol/errors.ts';
import {
  type OffsetDeleteResponseInput,
  readOffsetDeleteRequest,
  writeOffsetDeleteResponse,
} from '../../protocol/generated/OffsetDelete.ts';
import type { BrokerContext } from '../context.ts';
import type { Request } from '../request.ts';
import type { HandlerRow } from './handler.ts';

const VERSIONS = [0, 0] as const;

function handle(request: Request, broker: BrokerContext): void {
  const { version } = request;
  const { groupId, topics } = readOffsetDeleteRequest(request.body(), version);
  const reply = (answer: OffsetDeleteResponseInput) =>
    request.reply((writer) => writeOffsetDeleteResponse(writer, version, answer));
  const unavailable = broker.groups.availability(groupId);
  if (unavailable !== KafkaError.NONE) {
    reply({ errorCode: unavailable, topics: [] });
    return;
  }
  const wanted: TopicPartition[] = [];
  const exists = (topic: string, partition: number) =>
    broker.image.topicsByName.get(topic)?.partitions.has(partition) === true;
  const codeAt = new Map<string, number>();
  for (const { name, partitions } of topics) {
    for (const { partitionIndex } of partitions) {
      if (!exists(name, partitionIndex)) continue;
      codeAt.set(`${partitionIndex} ${name}`, wanted.length);
      wanted.push({ topic: name, partition: partitionIndex });
    }
  }
  broker.groups.offsets.delete(groupId, wanted, (errorCode, codes) => {
    if (errorCode !== KafkaError.NONE) return reply({ errorCode, topics: [] });
    const codeOf = (topic: string, partition: number) => {
      const at = codeAt.get(`${partition} ${topic}`);
      return at === undefined ? KafkaError.UNKNOWN_TOPIC_OR_PARTITION : codes[at]!;
    };
    reply({
      errorCode,
      topics: topics.map(({ name, partitions }) => ({
        name,
        partitions: partitions.map(({ partitionIndex }) => ({
          partitionIndex,
          errorCode: codeOf(name, partitionIndex),
        })),
      })),
    });
  });
}

export const offsetDelete: HandlerRow = {
  key: 47,
  name: 'OffsetDelete',
  served: VERSIONS,
  advertised: VERSIONS,
  overlaps: false,
  authorisation: { operation: 'DELETE', resource: 'GROUP' },
  handle,
  failure: (writer, version, errorCode) =>
    writeOffsetDeleteResponse(writer, version, { errorCode, topics: [] }),
};

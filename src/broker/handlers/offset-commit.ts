/**
 * OffsetCommit (key 8), versions 2-10: a group's members, or a consumer that assigns its partitions by itself, note how
 * far they have read. Answered when it can be read back.
 *
 * - v2 to v4 carry a retention time of their own. v6 adds leader epochs, v7 group.instance.id. From v9 on a missing group
 *   is GROUP_ID_NOT_FOUND instead of ILLEGAL_GENERATION. v10 names topics by id.
 *
 * Errors, per partition: UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, OFFSET_METADATA_TOO_LARGE, UNKNOWN_MEMBER_ID,
 * FENCED_INSTANCE_ID, ILLEGAL_GENERATION, GROUP_ID_NOT_FOUND, REBALANCE_IN_PROGRESS, INVALID_COMMIT_OFFSET_SIZE,
 * COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR.
 */
import type { OffsetToCommit } from '../../group/offset-manager.ts';
import type { TopicState } from '../../metadata/image.ts';
import { KafkaError } from '../../protocol/errors.ts';
import {
  type OffsetCommitRequest,
  readOffsetCommitRequest,
  writeOffsetCommitResponse,
} from '../../protocol/generated/OffsetCommit.ts';
import type { BrokerContext } from '../context.ts';
import type { Request } from '../request.ts';
import type { HandlerRow } from './handler.ts';

const VERSIONS = [2, 10] as const;
const FIRST_WITH_TOPIC_ID = 10;

interface Asked {
  readonly topic: OffsetCommitRequest['topics'][number];
  /** Codes of the partitions, in order; filled in as they become known. */
  readonly codes: number[];
}

function handle(request: Request, broker: BrokerContext): void | Promise<void> {
  const { version } = request;
  const message = readOffsetCommitRequest(request.body(), version);
  const asked: Asked[] = message.topics.map((topic) => ({ topic, codes: [] }));
  const creation = message.topics.length === 0 ? undefined : broker.groups.prepare();
  if (creation === undefined) return commit(request, broker, message, asked);
  return creation.then((code) => {
    if (code === KafkaError.NONE) return commit(request, broker, message, asked);
    refuse(asked, code);
    answer(request, asked);
  });
}

function refuse(asked: readonly Asked[], code: number): void {
  for (const { topic, codes } of asked) for (const _ of topic.partitions) codes.push(code);
}

function commit(
  request: Request,
  broker: BrokerContext,
  message: OffsetCommitRequest,
  asked: readonly Asked[],
): void {
  if (!request.open) return;
  const { version } = request;
  const { groupId, memberId, groupInstanceId, generationIdOrMemberEpoch, retentionTimeMs } = message;
  const unavailable = broker.groups.availability(groupId);
  if (unavailable !== KafkaError.NONE) {
    refuse(asked, unavailable);
    answer(request, asked);
    return;
  }
  const offsets: OffsetToCommit[] = [];
  const places: { readonly codes: number[]; readonly at: number }[] = [];
  for (const { topic, codes } of asked) {
    const known: TopicState | undefined =
      version >= FIRST_WITH_TOPIC_ID
        ? broker.image.topicsById.get(topic.topicId)
        : broker.image.topicsByName.get(topic.name);
    const unknown =
      version >= FIRST_WITH_TOPIC_ID ? KafkaError.UNKNOWN_TOPIC_ID : KafkaError.UNKNOWN_TOPIC_OR_PARTITION;
    topic.partitions.forEach((partition, at) => {
      codes.push(KafkaError.NONE);
      const { partitionIndex } = partition;
      if (known === undefined) codes[at] = unknown;
      else if (!known.partitions.has(partitionIndex)) codes[at] = KafkaError.UNKNOWN_TOPIC_OR_PARTITION;
      else {
        places.push({ codes, at });
        offsets.push({
          topic: known.name,
          topicId: known.id,
          partition: partitionIndex,
          offset: partition.committedOffset,
          leaderEpoch: partition.committedLeaderEpoch,
          metadata: partition.committedMetadata,
        });
      }
    });
  }
  if (offsets.length === 0) {
    answer(request, asked);
    return;
  }
  broker.groups.offsets.commit(
    {
      groupId,
      memberId,
      groupInstanceId,
      generationId: generationIdOrMemberEpoch,
      retentionTimeMs,
      version,
      offsets,
    },
    (results) => {
      results.forEach((code, index) => {
        const { codes, at } = places[index]!;
        codes[at] = code;
      });
      answer(request, asked);
    },
  );
}

function answer(request: Request, asked: readonly Asked[]): void {
  const { version } = request;
  request.reply((writer) =>
    writeOffsetCommitResponse(writer, version, {
      topics: asked.map(({ topic, codes }) => ({
        ...(version >= FIRST_WITH_TOPIC_ID ? { topicId: topic.topicId } : { name: topic.name }),
        partitions: topic.partitions.map(({ partitionIndex }, at) => ({
          partitionIndex,
          errorCode: codes[at]!,
        })),
      })),
    }),
  );
}

export const offsetCommit: HandlerRow = {
  key: 8,
  name: 'OffsetCommit',
  served: VERSIONS,
  advertised: VERSIONS,
  overlaps: false,
  authorisation: { operation: 'READ', resource: 'GROUP' },
  handle,
};

/**
 * OffsetFetch (key 9), versions 1-10: what groups have committed; offset -1 where they have not.
 *
 * - v2 lets a client ask for all topics, and adds an error for the whole; v5 adds leader epochs; v7 `requireStable`: an
 *   offset of which a transaction that is open has committed another is UNSTABLE_OFFSET_COMMIT; v8 asks about many groups; v9 adds member id and epoch, which concern groups
 *   of the consumer protocol; v10 names topics by id.
 *
 * Errors: COORDINATOR_NOT_AVAILABLE; per partition UNKNOWN_TOPIC_ID, UNSTABLE_OFFSET_COMMIT.
 */
import { ZERO_ID } from '../../group/group-records.ts';
import { KafkaError } from '../../protocol/errors.ts';
import {
  type OffsetFetchResponseGroupInput,
  type OffsetFetchResponsePartitionsInput,
  type OffsetFetchResponseTopicsInput,
  readOffsetFetchRequest,
  writeOffsetFetchResponse,
} from '../../protocol/generated/OffsetFetch.ts';
import type { BrokerContext } from '../context.ts';
import type { Request } from '../request.ts';
import type { HandlerRow } from './handler.ts';

const VERSIONS = [1, 10] as const;
const FIRST_WITH_ERROR = 2;
const FIRST_WITH_GROUPS = 8;
const FIRST_WITH_TOPIC_ID = 10;

interface AskedTopic {
  readonly name: string;
  readonly topicId: string;
  readonly partitionIndexes: readonly number[];
}

function none(partitionIndex: number, errorCode: number): OffsetFetchResponsePartitionsInput {
  return { partitionIndex, committedOffset: -1, committedLeaderEpoch: -1, metadata: '', errorCode };
}

function fetchTopic(
  groupId: string,
  { name, topicId, partitionIndexes }: AskedTopic,
  version: number,
  requireStable: boolean,
  broker: BrokerContext,
): OffsetFetchResponseTopicsInput {
  const byId = version >= FIRST_WITH_TOPIC_ID;
  const known = byId ? broker.image.topicsById.get(topicId)?.name : name;
  const partitions = partitionIndexes.map((partition) => {
    if (known === undefined) return none(partition, KafkaError.UNKNOWN_TOPIC_ID);
    if (requireStable && broker.groups.offsets.isUnstable(groupId, known, partition))
      return none(partition, KafkaError.UNSTABLE_OFFSET_COMMIT);
    const id = byId ? topicId : ZERO_ID;
    const committed = broker.groups.offsets.fetch(groupId, known, partition, id);
    if (committed === undefined) return none(partition, KafkaError.NONE);
    return {
      partitionIndex: partition,
      committedOffset: committed.offset,
      committedLeaderEpoch: committed.leaderEpoch,
      metadata: committed.metadata,
      errorCode: KafkaError.NONE,
    };
  });
  return { ...(byId ? { topicId } : { name }), partitions };
}

/** Everything that a group has committed; by id only what topics exist for. */
function allTopics(groupId: string, version: number, broker: BrokerContext): AskedTopic[] {
  const topics: AskedTopic[] = [];
  for (const [name, partitions] of broker.groups.get(groupId)?.offsets.topics() ?? []) {
    const topicId = broker.image.topicsByName.get(name)?.id;
    if (version >= FIRST_WITH_TOPIC_ID && topicId === undefined) continue;
    topics.push({ name, topicId: topicId ?? ZERO_ID, partitionIndexes: [...partitions.keys()] });
  }
  return topics;
}

interface AskingMember {
  readonly groupId: string;
  readonly memberId: string | null;
  readonly memberEpoch: number;
}

function fetchGroup(
  group: AskingMember,
  asked: readonly AskedTopic[] | null,
  version: number,
  requireStable: boolean,
  broker: BrokerContext,
): OffsetFetchResponseGroupInput {
  const { groupId, memberId, memberEpoch } = group;
  const errorCode =
    broker.groups.availability(groupId) || broker.groups.offsets.judgeFetch(groupId, memberId, memberEpoch);
  if (errorCode !== KafkaError.NONE) return { groupId, topics: [], errorCode };
  const topics = asked ?? allTopics(groupId, version, broker);
  const found = topics.map((topic) => fetchTopic(groupId, topic, version, requireStable, broker));
  return { groupId, topics: found, errorCode };
}

function handle(request: Request, broker: BrokerContext): void {
  const { version } = request;
  const message = readOffsetFetchRequest(request.body(), version);
  const { requireStable } = message;
  if (version >= FIRST_WITH_GROUPS) {
    const groups = message.groups.map((group) =>
      fetchGroup(group, group.topics, version, requireStable, broker),
    );
    request.reply((writer) => writeOffsetFetchResponse(writer, version, { groups }));
    return;
  }
  const asked = message.topics?.map((topic) => ({ ...topic, topicId: ZERO_ID })) ?? null;
  const nobody = { groupId: message.groupId, memberId: null, memberEpoch: -1 };
  const { topics, errorCode = 0 } = fetchGroup(nobody, asked, version, requireStable, broker);
  // Without a place for the whole's error it is every partition's.
  const failed = version < FIRST_WITH_ERROR && errorCode !== KafkaError.NONE;
  const answered = failed
    ? (asked ?? []).map(({ name, partitionIndexes }) => ({
        name,
        partitions: partitionIndexes.map((partition) => none(partition, errorCode)),
      }))
    : topics.map(({ name = '', partitions }) => ({ name, partitions }));
  request.reply((writer) =>
    writeOffsetFetchResponse(writer, version, {
      topics: answered,
      ...(version >= FIRST_WITH_ERROR ? { errorCode } : {}),
    }),
  );
}

export const offsetFetch: HandlerRow = {
  key: 9,
  name: 'OffsetFetch',
  served: VERSIONS,
  advertised: VERSIONS,
  overlaps: false,
  authorisation: { operation: 'DESCRIBE', resource: 'GROUP' },
  handle,
};

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
import { KafkaError } from '../../protocol/errors.ts';
import {
  type OffsetCommitRequest,
  readOffsetCommitRequest,
  writeOffsetCommitResponse,
} from '../../protocol/generated/OffsetCommit.ts';
import type { BrokerContext } from '../context.ts';
import type { Request } from '../request.ts';
import { AskedOffsets } from './asked-offsets.ts';
import type { HandlerRow } from './handler.ts';

const VERSIONS = [2, 10] as const;
const FIRST_WITH_TOPIC_ID = 10;

function handle(request: Request, broker: BrokerContext): void | Promise<void> {
  const { version } = request;
  const message = readOffsetCommitRequest(request.body(), version);
  const creation = message.topics.length === 0 ? undefined : broker.groups.prepare();
  if (creation === undefined) return commit(request, broker, message);
  return creation.then((code) => commit(request, broker, message, code));
}

/** `refusal`: why there is nothing to commit to. */
function commit(
  request: Request,
  broker: BrokerContext,
  message: OffsetCommitRequest,
  refusal: number = KafkaError.NONE,
): void {
  if (!request.open) return;
  const { version } = request;
  const { groupId, memberId, groupInstanceId, generationIdOrMemberEpoch, retentionTimeMs, topics } = message;
  const asked = new AskedOffsets(topics, version >= FIRST_WITH_TOPIC_ID, broker);
  const unavailable = refusal || broker.groups.availability(groupId);
  const { offsets } = asked;
  if (unavailable !== KafkaError.NONE) asked.refuseAll(unavailable);
  if (unavailable !== KafkaError.NONE || offsets.length === 0) {
    answer(request, asked);
    return;
  }
  const generationId = generationIdOrMemberEpoch;
  broker.groups.offsets.commit(
    { groupId, memberId, groupInstanceId, generationId, retentionTimeMs, version, offsets },
    (codes) => {
      asked.judge(codes);
      answer(request, asked);
    },
  );
}

function answer(request: Request, asked: AskedOffsets): void {
  request.reply((writer) => writeOffsetCommitResponse(writer, request.version, { topics: asked.answers() }));
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

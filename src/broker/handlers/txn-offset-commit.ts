/**
 * TxnOffsetCommit (key 28), versions 0-6: notes offsets of a group within a producer's transaction. They can be read once
 * that is committed.
 *
 * - v2 adds leader epochs, v3 the group member that read, which is judged. From v5 on (transaction.version 2) the request makes the
 *   group's partition part of the transaction; before it AddOffsetsToTxn has to. v6 names topics by id.
 *
 * Errors, per partition: UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, OFFSET_METADATA_TOO_LARGE, UNKNOWN_MEMBER_ID,
 * FENCED_INSTANCE_ID, ILLEGAL_GENERATION, INVALID_PRODUCER_EPOCH, INVALID_PRODUCER_ID_MAPPING, INVALID_TXN_STATE, from v4 on
 * TRANSACTION_ABORTABLE, CONCURRENT_TRANSACTIONS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR.
 */
import { OFFSETS_TOPIC } from '../../group/group-log.ts';
import type { OffsetToCommit } from '../../group/offset-manager.ts';
import { KafkaError } from '../../protocol/errors.ts';
import {
  readTxnOffsetCommitRequest,
  type TxnOffsetCommitRequest,
  writeTxnOffsetCommitResponse,
} from '../../protocol/generated/TxnOffsetCommit.ts';
import type { BrokerContext } from '../context.ts';
import { isForCoordinator, verifyTransactional } from '../produce-verification.ts';
import type { Request } from '../request.ts';
import { AskedOffsets } from './asked-offsets.ts';
import type { HandlerRow } from './handler.ts';

const VERSIONS = [0, 6] as const;
const FIRST_WITH_ABORTABLE = 4;
const FIRST_THAT_ADDS_PARTITION = 5;
const FIRST_WITH_TOPIC_ID = 6;
const CLIENT_VERSION = 2;

function handle(request: Request, broker: BrokerContext): void | Promise<void> {
  const { version } = request;
  const message = readTxnOffsetCommitRequest(request.body(), version);
  const asked = new AskedOffsets(message.topics, version >= FIRST_WITH_TOPIC_ID, broker);
  const { offsets } = asked;
  const refuse = (code: number) => {
    asked.refuse(code);
    answer(request, asked);
  };
  if (offsets.length === 0) return answer(request, asked);
  if (message.groupId === '') return refuse(KafkaError.INVALID_GROUP_ID);
  const finish = (codes: readonly number[]) => {
    asked.judge(codes);
    answer(request, asked);
  };
  const begin = () =>
    joinTransaction(message, version, broker, refuse, () => commit(message, offsets, broker, finish));
  const creation = broker.groups.prepare();
  if (creation === undefined) return begin();
  return creation.then((code) => (code === KafkaError.NONE ? begin() : refuse(code)));
}

/** Sees that the group's partition is part of the producer's transaction, or refuses. */
function joinTransaction(
  { groupId, transactionalId, producerId, producerEpoch }: TxnOffsetCommitRequest,
  version: number,
  broker: BrokerContext,
  refuse: (code: number) => void,
  then: () => void,
): void {
  const adds = version >= FIRST_THAT_ADDS_PARTITION;
  const support = adds ? 'adds-partitions' : version >= FIRST_WITH_ABORTABLE ? 'knows-abortable' : 'none';
  const index = broker.groups.offsets.partitionOf(groupId);
  const partition = broker.partition(OFFSETS_TOPIC, index);
  const unavailable = broker.groups.availability(groupId);
  if (partition === undefined || unavailable !== KafkaError.NONE) {
    refuse(unavailable || KafkaError.COORDINATOR_NOT_AVAILABLE);
    return;
  }
  const producer = { producerId, producerEpoch };
  const { transactions } = broker;
  const verify = (added: number) => {
    const fault = verifyTransactional(transactions, transactionalId, producer, partition, support, added);
    if (fault === undefined) then();
    else refuse(fault.code);
  };
  if (!adds || !isForCoordinator(partition, producer)) {
    verify(KafkaError.NONE);
    return;
  }
  const place = [OFFSETS_TOPIC, index] as const;
  transactions.addPartitions(transactionalId, producer, [place], CLIENT_VERSION, verify);
}

function commit(
  message: TxnOffsetCommitRequest,
  offsets: readonly OffsetToCommit[],
  broker: BrokerContext,
  finish: (codes: readonly number[]) => void,
): void {
  const { groupId, memberId, groupInstanceId, generationIdOrMemberEpoch, producerId, producerEpoch } =
    message;
  const generationId = generationIdOrMemberEpoch;
  broker.groups.offsets.commitInTransaction(
    { groupId, memberId, groupInstanceId, generationId, producerId, producerEpoch, offsets },
    finish,
  );
}

function answer(request: Request, asked: AskedOffsets): void {
  request.reply((writer) =>
    writeTxnOffsetCommitResponse(writer, request.version, { throttleTimeMs: 0, topics: asked.answers() }),
  );
}

export const txnOffsetCommit: HandlerRow = {
  key: 28,
  name: 'TxnOffsetCommit',
  served: VERSIONS,
  advertised: VERSIONS,
  overlaps: false,
  authorisation: { operation: 'WRITE', resource: 'TRANSACTIONAL_ID' },
  handle,
};

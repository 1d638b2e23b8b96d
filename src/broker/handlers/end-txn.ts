/**
 * EndTxn (key 26), versions 0-5: commits or aborts a producer's transaction. Answered when its records can be read, or
 * never will be.
 *
 * - From v2 on a fenced producer hears PRODUCER_FENCED, before it INVALID_PRODUCER_EPOCH. v5 (transaction.version 2) gives the
 *   producer a new epoch, and a new id where its epochs are used up; a transaction without partitions can be aborted.
 *
 * Errors: INVALID_REQUEST (an empty transactional id), INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, INVALID_TXN_STATE,
 * CONCURRENT_TRANSACTIONS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR.
 */
import { KafkaError } from '../../protocol/errors.ts';
import { readEndTxnRequest, writeEndTxnResponse } from '../../protocol/generated/EndTxn.ts';
import type { BrokerContext } from '../context.ts';
import type { Request } from '../request.ts';
import type { HandlerRow } from './handler.ts';

const VERSIONS = [0, 5] as const;
const FIRST_WITH_FENCED = 2;
const FIRST_WITH_BUMP = 5;

function handle(request: Request, broker: BrokerContext): void {
  const { version } = request;
  const { transactionalId, producerId, producerEpoch, committed } = readEndTxnRequest(
    request.body(),
    version,
  );
  const clientVersion = version >= FIRST_WITH_BUMP ? 2 : 0;
  const end = { producerId, producerEpoch, commit: committed, clientVersion };
  broker.transactions.endTransaction(transactionalId, end, (answer) => {
    const fenced = answer.errorCode === KafkaError.PRODUCER_FENCED && version < FIRST_WITH_FENCED;
    const errorCode = fenced ? KafkaError.INVALID_PRODUCER_EPOCH : answer.errorCode;
    const bumped = version >= FIRST_WITH_BUMP ? answer : {};
    request.reply((writer) =>
      writeEndTxnResponse(writer, version, { throttleTimeMs: 0, ...bumped, errorCode }),
    );
  });
}

export const endTxn: HandlerRow = {
  key: 26,
  name: 'EndTxn',
  served: VERSIONS,
  advertised: VERSIONS,
  overlaps: false,
  authorisation: { operation: 'WRITE', resource: 'TRANSACTIONAL_ID' },
  handle,
  failure: (writer, version, errorCode) =>
    writeEndTxnResponse(writer, version, { throttleTimeMs: 0, errorCode }),
};

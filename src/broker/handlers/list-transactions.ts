/**
 * ListTransactions (key 66), versions 0-2: transactional ids with their producer ids and states, all or those that every
 * filter takes.
 *
 * - v1 adds the time for which the transaction was open, ms, which must be exceeded; v2 a pattern (RE2) for the whole id.
 *
 * Errors: INVALID_REGULAR_EXPRESSION.
 */
import { compileTopicRegex } from '../../group/topic-regex.ts';
import { KafkaError, kafkaCodeOf } from '../../protocol/errors.ts';
import {
  type ListTransactionsRequest,
  readListTransactionsRequest,
  writeListTransactionsResponse,
} from '../../protocol/generated/ListTransactions.ts';
import { BroadsheetError } from '../../runtime/errors.ts';
import { statusName, type TransactionState, TransactionStatus } from '../../transaction/transaction-state.ts';
import type { BrokerContext } from '../context.ts';
import type { Request } from '../request.ts';
import type { HandlerRow } from './handler.ts';

const VERSIONS = [0, 2] as const;

/** Throws INVALID_REGULAR_EXPRESSION. */
function filterOf(
  { stateFilters, producerIdFilters, durationFilter, transactionalIdPattern }: ListTransactionsRequest,
  now: number,
): (state: TransactionState) => boolean {
  const states = new Set(stateFilters);
  const producerIds = new Set(producerIdFilters);
  const pattern = transactionalIdPattern ? compileTopicRegex(transactionalIdPattern) : undefined;
  return ({ transactionalId, status, producerId, startTimestamp }) =>
    (producerIds.size === 0 || producerIds.has(producerId)) &&
    (states.size === 0 || states.has(statusName(status))) &&
    (durationFilter < 0 || now - startTimestamp > durationFilter) &&
    (pattern === undefined || pattern.matches(transactionalId));
}

function handle(request: Request, broker: BrokerContext): void {
  const { version } = request;
  const message = readListTransactionsRequest(request.body(), version);
  const unknownStateFilters = message.stateFilters.filter((name) => !(name in TransactionStatus));
  let filter: (state: TransactionState) => boolean;
  try {
    filter = filterOf(message, broker.clock.now());
  } catch (error) {
    if (!(error instanceof BroadsheetError)) throw error;
    const refusal = {
      throttleTimeMs: 0,
      errorCode: kafkaCodeOf(error),
      unknownStateFilters: [],
      transactionStates: [],
    };
    request.reply((writer) => writeListTransactionsResponse(writer, version, refusal));
    return;
  }
  const transactionStates = [...broker.transactions.states()]
    .filter(filter)
    .map(({ transactionalId, producerId, status }) => ({
      transactionalId,
      producerId,
      transactionState: statusName(status),
    }));
  const answer = { throttleTimeMs: 0, errorCode: KafkaError.NONE, unknownStateFilters, transactionStates };
  request.reply((writer) => writeListTransactionsResponse(writer, version, answer));
}

export const listTransactions: HandlerRow = {
  key: 66,
  name: 'ListTransactions',
  served: VERSIONS,
  advertised: VERSIONS,
  overlaps: false,
  authorisation: { operation: 'DESCRIBE', resource: 'TRANSACTIONAL_ID' },
  handle,
};

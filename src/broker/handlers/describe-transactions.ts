/**
 * DescribeTransactions (key 65), version 0: the state of transactional ids, and the partitions of an open transaction.
 *
 * Errors, per id: INVALID_REQUEST (an empty one), TRANSACTIONAL_ID_NOT_FOUND, COORDINATOR_NOT_AVAILABLE.
 */
import { KafkaError } from '../../protocol/errors.ts';
import {
  type DescribeTransactionsResponseTransactionStateInput,
  readDescribeTransactionsRequest,
  writeDescribeTransactionsResponse,
} from '../../protocol/generated/DescribeTransactions.ts';
import { statusName } from '../../transaction/transaction-state.ts';
import type { BrokerContext } from '../context.ts';
import type { Request } from '../request.ts';
import type { HandlerRow } from './handler.ts';

const VERSIONS = [0, 0] as const;

const NOTHING = {
  transactionState: '',
  transactionTimeoutMs: 0,
  transactionStartTimeMs: 0,
  producerId: 0,
  producerEpoch: 0,
  topics: [],
};

function describe(
  transactionalId: string,
  broker: BrokerContext,
): DescribeTransactionsResponseTransactionStateInput {
  const refuse = (errorCode: number) => ({ ...NOTHING, transactionalId, errorCode });
  if (transactionalId === '') return refuse(KafkaError.INVALID_REQUEST);
  const unavailable = broker.transactions.availability(transactionalId);
  if (unavailable !== KafkaError.NONE) return refuse(unavailable);
  const state = broker.transactions.state(transactionalId);
  if (state === undefined) return refuse(KafkaError.TRANSACTIONAL_ID_NOT_FOUND);
  return {
    errorCode: KafkaError.NONE,
    transactionalId,
    transactionState: statusName(state.status),
    transactionTimeoutMs: state.timeoutMs,
    transactionStartTimeMs: state.startTimestamp,
    producerId: state.producerId,
    producerEpoch: state.producerEpoch,
    topics: Array.from(state.partitions, ([topic, partitions]) => ({ topic, partitions: [...partitions] })),
  };
}

function handle(request: Request, broker: BrokerContext): void {
  const { version } = request;
  const { transactionalIds } = readDescribeTransactionsRequest(request.body(), version);
  const transactionStates = transactionalIds.map((id) => describe(id, broker));
  request.reply((writer) =>
    writeDescribeTransactionsResponse(writer, version, { throttleTimeMs: 0, transactionStates }),
  );
}

export const describeTransactions: HandlerRow = {
  key: 65,
  name: 'DescribeTransactions',
  served: VERSIONS,
  advertised: VERSIONS,
  overlaps: false,
  authorisation: { operation: 'DESCRIBE', resource: 'TRANSACTIONAL_ID' },
  handle,
};

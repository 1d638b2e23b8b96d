/**
 * InitProducerId (key 22), versions 0-5: gives a producer its id and epoch. Ids come from blocks whose record is durable
 * before the first id of the block is handed out, so that no id is given twice. With a transactional id the epoch is bumped,
 * which fences whoever had the id before; a transaction of his that is open is aborted first.
 *
 * - v3 adds the id and epoch that the client has had (KIP-360), both set or both -1; without a transactional id they change
 *   nothing. From v4 on a fenced producer hears PRODUCER_FENCED, before it INVALID_PRODUCER_EPOCH.
 *
 * Errors: INVALID_REQUEST for an empty transactional id, or an id without an epoch and the other way round;
 * INVALID_TRANSACTION_TIMEOUT, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS, COORDINATOR_NOT_AVAILABLE; KAFKA_STORAGE_ERROR.
 */
import { KafkaError } from '../../protocol/errors.ts';
import {
  readInitProducerIdRequest,
  writeInitProducerIdResponse,
} from '../../protocol/generated/InitProducerId.ts';
import type { BrokerContext } from '../context.ts';
import type { Request } from '../request.ts';
import type { HandlerRow } from './handler.ts';

const VERSIONS = [0, 5] as const;
const FIRST_WITH_FENCED = 4;
const NONE = -1;

function handle(request: Request, broker: BrokerContext): void | Promise<void> {
  const { version } = request;
  const message = readInitProducerIdRequest(request.body(), version);
  const refuse = (errorCode: number) =>
    request.reply((writer) =>
      writeInitProducerIdResponse(writer, version, { errorCode, producerId: NONE, producerEpoch: NONE }),
    );
  if (message.transactionalId === '') return refuse(KafkaError.INVALID_REQUEST);
  if ((message.producerId === NONE) !== (message.producerEpoch === NONE))
    return refuse(KafkaError.INVALID_REQUEST);
  if (message.transactionalId !== null) {
    const { producerId, producerEpoch, transactionTimeoutMs: timeoutMs } = message;
    const expected = producerId === NONE ? undefined : { producerId, producerEpoch };
    return broker.transactions
      .initProducerId(message.transactionalId, { timeoutMs, expected })
      .then((answer) => {
        const fenced = answer.errorCode === KafkaError.PRODUCER_FENCED && version < FIRST_WITH_FENCED;
        const errorCode = fenced ? KafkaError.INVALID_PRODUCER_EPOCH : answer.errorCode;
        request.reply((writer) => writeInitProducerIdResponse(writer, version, { ...answer, errorCode }));
      });
  }
  return broker.producerIds.next().then((producerId) =>
    request.reply((writer) =>
      writeInitProducerIdResponse(writer, version, {
        errorCode: KafkaError.NONE,
        producerId,
        producerEpoch: 0,
      }),
    ),
  );
}

export const initProducerId: HandlerRow = {
  key: 22,
  name: 'InitProducerId',
  served: VERSIONS,
  advertised: VERSIONS,
  overlaps: false,
  authorisation: { operation: 'IDEMPOTENT_WRITE', resource: 'CLUSTER' },
  handle,
  failure: (writer, version, errorCode) =>
    writeInitProducerIdResponse(writer, version, { errorCode, producerId: NONE, producerEpoch: NONE }),
};

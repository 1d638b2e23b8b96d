/**
 * InitProducerId (key 22), versions 0-5: gives an idempotent producer its id. Ids come from blocks whose record is
 * durable before the first id of the block is handed out, so that no id is given twice.
 *
 * - v3 adds the id and epoch that the client has had; without a transactional id they change nothing, but must be both
 *   set or both -1.
 *
 * Errors: UNSUPPORTED_VERSION for a transactional id, since this broker has no transactions yet; INVALID_REQUEST for an
 * empty one, or an id without an epoch and the other way round; KAFKA_STORAGE_ERROR.
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
    broker.log.warn(
      {
        peer: request.connection.peerName,
        clientId: request.clientId,
        transactionalId: message.transactionalId,
      },
      'a transactional producer was refused: this version of broadsheet has no transactions',
    );
    return refuse(KafkaError.UNSUPPORTED_VERSION);
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

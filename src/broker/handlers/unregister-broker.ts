/**
 * UnregisterBroker (key 64), version 0: forgets the registration of a broker that a Kafka has left in the directory.
 *
 * Errors: BROKER_ID_NOT_REGISTERED, INVALID_REQUEST for this broker itself, KAFKA_STORAGE_ERROR.
 */
import { KafkaError } from '../../protocol/errors.ts';
import {
  readUnregisterBrokerRequest,
  writeUnregisterBrokerResponse,
} from '../../protocol/generated/UnregisterBroker.ts';
import type { Writer } from '../../protocol/writer.ts';
import type { BrokerContext } from '../context.ts';
import type { Request } from '../request.ts';
import type { HandlerRow } from './handler.ts';

const VERSIONS = [0, 0] as const;

function answer(writer: Writer, version: number, errorCode: number, errorMessage: string): void {
  writeUnregisterBrokerResponse(writer, version, { throttleTimeMs: 0, errorCode, errorMessage });
}

async function handle(request: Request, broker: BrokerContext): Promise<void> {
  const { version } = request;
  const { brokerId } = readUnregisterBrokerRequest(request.body(), version);
  const refusal = await broker.cluster.unregisterBroker(brokerId);
  request.reply((writer) =>
    answer(writer, version, refusal?.errorCode ?? KafkaError.NONE, refusal?.message ?? ''),
  );
}

export const unregisterBroker: HandlerRow = {
  key: 64,
  name: 'UnregisterBroker',
  served: VERSIONS,
  advertised: VERSIONS,
  overlaps: false,
  authorisation: { operation: 'ALTER', resource: 'CLUSTER' },
  handle,
  failure: answer,
};

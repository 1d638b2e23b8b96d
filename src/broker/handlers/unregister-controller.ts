/**
 * UnregisterController (key 94), version 0: forgets the registration of a controller that a Kafka has left in the directory.
 *
 * Errors: CONTROLLER_ID_NOT_REGISTERED, INVALID_REQUEST for the active controller, which is this node,
 * UNSUPPORTED_VERSION (a metadata.version that cannot hold it), KAFKA_STORAGE_ERROR.
 */
import { KafkaError } from '../../protocol/errors.ts';
import {
  readUnregisterControllerRequest,
  writeUnregisterControllerResponse,
} from '../../protocol/generated/UnregisterController.ts';
import type { Writer } from '../../protocol/writer.ts';
import type { BrokerContext } from '../context.ts';
import type { Request } from '../request.ts';
import type { HandlerRow } from './handler.ts';

const VERSIONS = [0, 0] as const;

function answer(writer: Writer, version: number, errorCode: number, errorMessage: string): void {
  writeUnregisterControllerResponse(writer, version, { throttleTimeMs: 0, errorCode, errorMessage });
}

async function handle(request: Request, broker: BrokerContext): Promise<void> {
  const { version } = request;
  const { controllerId } = readUnregisterControllerRequest(request.body(), version);
  const refusal = await broker.cluster.unregisterController(controllerId);
  request.reply((writer) =>
    answer(writer, version, refusal?.errorCode ?? KafkaError.NONE, refusal?.message ?? ''),
  );
}

export const unregisterController: HandlerRow = {
  key: 94,
  name: 'UnregisterController',
  served: VERSIONS,
  advertised: VERSIONS,
  overlaps: false,
  authorisation: { operation: 'ALTER', resource: 'CLUSTER' },
  handle,
  failure: answer,
};

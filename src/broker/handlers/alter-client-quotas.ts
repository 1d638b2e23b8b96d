/**
 * AlterClientQuotas (key 49), versions 0-1 (KIP-546, ip quotas KIP-612): sets and removes quotas of users, client ids and
 * addresses, or only checks that it could. They are stored, and not enforced yet. v1 has compact types, nothing else.
 *
 * Errors, per entity, which is left as it is then: INVALID_REQUEST (an entity that is none or comes twice, an address that
 * does not resolve, a key that such an entity does not have, a value out of its range), KAFKA_STORAGE_ERROR.
 */
import type { QuotaResult } from '../../metadata/controller-quotas.ts';
import { kafkaCodeOf } from '../../protocol/errors.ts';
import {
  type AlterClientQuotasRequest,
  readAlterClientQuotasRequest,
  writeAlterClientQuotasResponse,
} from '../../protocol/generated/AlterClientQuotas.ts';
import type { BrokerContext } from '../context.ts';
import type { Request } from '../request.ts';
import type { HandlerRow } from './handler.ts';

const VERSIONS = [0, 1] as const;

function failed({ entries }: AlterClientQuotasRequest, error: unknown): QuotaResult[] {
  const message = error instanceof Error ? error.message : String(error);
  return entries.map(({ entity }) => ({ entity, errorCode: kafkaCodeOf(error), message }));
}

async function handle(request: Request, broker: BrokerContext): Promise<void> {
  const { version } = request;
  const message = readAlterClientQuotasRequest(request.body(), version);
  const results = await broker.cluster
    .alterQuotas(message.entries, message.validateOnly)
    .catch((error: unknown) => failed(message, error));
  request.reply((writer) =>
    writeAlterClientQuotasResponse(writer, version, {
      throttleTimeMs: 0,
      entries: results.map(({ entity, errorCode, message: errorMessage }) => ({
        errorCode,
        errorMessage,
        entity,
      })),
    }),
  );
}

export const alterClientQuotas: HandlerRow = {
  key: 49,
  name: 'AlterClientQuotas',
  served: VERSIONS,
  advertised: VERSIONS,
  overlaps: false,
  authorisation: { operation: 'ALTER_CONFIGS', resource: 'CLUSTER' },
  handle,
};

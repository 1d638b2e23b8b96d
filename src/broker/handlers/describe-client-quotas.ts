/**
 * DescribeClientQuotas (key 48), versions 0-1 (KIP-546): the quotas of users, client ids and addresses that match. v1 has
 * compact types, nothing else.
 *
 * Errors, for the whole request: INVALID_REQUEST (a component that can match nothing, a type twice, an ip beside a user or
 * client id), UNSUPPORTED_VERSION for a type of entity that is none.
 */
import { findQuotas } from '../../metadata/quota-filter.ts';
import { KafkaError } from '../../protocol/errors.ts';
import {
  readDescribeClientQuotasRequest,
  writeDescribeClientQuotasResponse,
} from '../../protocol/generated/DescribeClientQuotas.ts';
import type { Writer } from '../../protocol/writer.ts';
import type { BrokerContext } from '../context.ts';
import type { Request } from '../request.ts';
import type { HandlerRow } from './handler.ts';

const VERSIONS = [0, 1] as const;

function failure(writer: Writer, version: number, errorCode: number, errorMessage: string): void {
  writeDescribeClientQuotasResponse(writer, version, {
    throttleTimeMs: 0,
    errorCode,
    errorMessage,
    entries: null,
  });
}

function handle(request: Request, broker: BrokerContext): void {
  const { version } = request;
  const { components, strict } = readDescribeClientQuotasRequest(request.body(), version);
  const found = findQuotas(broker.image.security.quotas(), components, strict);
  request.reply((writer) => {
    if (!Array.isArray(found)) return failure(writer, version, found.errorCode, found.message);
    writeDescribeClientQuotasResponse(writer, version, {
      throttleTimeMs: 0,
      errorCode: KafkaError.NONE,
      // Kafka's, for success.
      errorMessage: '',
      entries: found.map(({ entity, values }) => ({
        entity,
        values: [...values].map(([key, value]) => ({ key, value })),
      })),
    });
  });
}

export const describeClientQuotas: HandlerRow = {
  key: 48,
  name: 'DescribeClientQuotas',
  served: VERSIONS,
  advertised: VERSIONS,
  overlaps: false,
  authorisation: { operation: 'DESCRIBE_CONFIGS', resource: 'CLUSTER' },
  handle,
  failure,
};

/**
 * ListConfigResources (key 74), versions 0-1: which resources have configs. v0, once ListClientMetricsResources, tells of client
 * metrics only; v1 of the types asked for, or of all: client metrics and groups that have values set, this broker, its loggers,
 * and all topics.
 *
 * Errors, of the whole request: UNSUPPORTED_VERSION for a type that has no configs.
 */
import { ConfigResource } from '../../metadata/image.ts';
import { KafkaError } from '../../protocol/errors.ts';
import {
  readListConfigResourcesRequest,
  writeListConfigResourcesResponse,
} from '../../protocol/generated/ListConfigResources.ts';
import type { BrokerContext } from '../context.ts';
import type { Request } from '../request.ts';
import type { HandlerRow } from './handler.ts';

const VERSIONS = [0, 1] as const;
const ALL_TYPES: readonly number[] = Object.values(ConfigResource);

function handle(request: Request, broker: BrokerContext): void {
  const { version } = request;
  const { resourceTypes } = readListConfigResourcesRequest(request.body(), version);
  const asked = version === 0 ? [ConfigResource.CLIENT_METRICS] : [...new Set(resourceTypes)];
  const types = asked.length === 0 ? ALL_TYPES : asked;
  const known = types.every((type) => ALL_TYPES.includes(type));
  const configResources = (known ? types : []).flatMap((resourceType) =>
    broker.configs.list(resourceType).map((resourceName) => ({ resourceName, resourceType })),
  );
  const errorCode = known ? KafkaError.NONE : KafkaError.UNSUPPORTED_VERSION;
  request.reply((writer) =>
    writeListConfigResourcesResponse(writer, version, { throttleTimeMs: 0, errorCode, configResources }),
  );
}

export const listConfigResources: HandlerRow = {
  key: 74,
  name: 'ListConfigResources',
  served: VERSIONS,
  advertised: VERSIONS,
  overlaps: false,
  authorisation: { operation: 'DESCRIBE_CONFIGS', resource: 'CLUSTER' },
  handle,
  failure: (writer, version, errorCode) =>
    writeListConfigResourcesResponse(writer, version, { throttleTimeMs: 0, errorCode, configResources: [] }),
};

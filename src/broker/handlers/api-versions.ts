/**
 * ApiVersions (key 18), versions 0-5: which APIs and versions this broker serves, and its feature levels.
 *
 * - v1 adds the throttle time.
 * - v3 adds the client's name and version to the request, and features to the answer. Supported features whose minimum
 *   is 0 are hidden from v3: its readers take 0 for an error.
 * - v4 shows all features.
 * - v5 (KIP-1242) adds the cluster and node that the client means to talk to: both or neither.
 *
 * Errors: UNSUPPORTED_VERSION for any other version, answered as v0 with the one entry that the client needs to try
 * again; INVALID_REQUEST for a client name or version that is not one, or a cluster id without a node id and the other
 * way round; REBOOTSTRAP_REQUIRED when the client means another cluster or node.
 */
import { KafkaError } from '../../protocol/errors.ts';
import {
  type ApiVersionsRequest,
  type ApiVersionsResponseInput,
  readApiVersionsRequest,
  writeApiVersionsResponse,
} from '../../protocol/generated/ApiVersions.ts';
import type { BrokerContext } from '../context.ts';
import type { Request } from '../request.ts';
import type { HandlerRow } from './handler.ts';

const KEY = 18;
const VERSIONS = [0, 5] as const;

/** What a client may call itself (KIP-511). */
const SOFTWARE = /^[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?$/;

function faultOf(message: ApiVersionsRequest, version: number, broker: BrokerContext): number {
  if (
    version >= 3 &&
    !(SOFTWARE.test(message.clientSoftwareName) && SOFTWARE.test(message.clientSoftwareVersion))
  ) {
    return KafkaError.INVALID_REQUEST;
  }
  const { clusterId, nodeId } = message;
  if (version < 5 || (clusterId === null && nodeId === -1)) return KafkaError.NONE;
  if (clusterId === null || nodeId === -1) return KafkaError.INVALID_REQUEST;
  return clusterId === broker.clusterId && nodeId === broker.nodeId
    ? KafkaError.NONE
    : KafkaError.REBOOTSTRAP_REQUIRED;
}

function answer(broker: BrokerContext, version: number): ApiVersionsResponseInput {
  const { supportedFeatures, finalizedFeatures, finalizedFeaturesEpoch } = broker.features();
  return {
    errorCode: KafkaError.NONE,
    apiKeys: [...broker.handlers.values()].map((row) => ({
      apiKey: row.key,
      minVersion: row.advertised[0],
      maxVersion: row.advertised[1],
    })),
    supportedFeatures: supportedFeatures.filter((feature) => version >= 4 || feature.minVersion > 0),
    finalizedFeatures,
    finalizedFeaturesEpoch,
  };
}

function handle(request: Request, broker: BrokerContext): void {
  const { version } = request;
  if (version < VERSIONS[0] || version > VERSIONS[1]) {
    const only = { apiKey: KEY, minVersion: VERSIONS[0], maxVersion: VERSIONS[1] };
    request.reply((writer) =>
      writeApiVersionsResponse(writer, 0, { errorCode: KafkaError.UNSUPPORTED_VERSION, apiKeys: [only] }),
    );
    return;
  }
  const message = readApiVersionsRequest(request.body(), version);
  const errorCode = faultOf(message, version, broker);
  const response = errorCode === KafkaError.NONE ? answer(broker, version) : { errorCode, apiKeys: [] };
  request.reply((writer) => writeApiVersionsResponse(writer, version, response));
}

export const apiVersions: HandlerRow = {
  key: KEY,
  name: 'ApiVersions',
  served: VERSIONS,
  advertised: VERSIONS,
  overlaps: false,
  authorisation: { operation: 'NONE', resource: 'NONE' },
  handle,
  failure: (writer, version, errorCode) =>
    writeApiVersionsResponse(writer, version, { errorCode, apiKeys: [] }),
};

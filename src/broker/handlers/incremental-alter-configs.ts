/**
 * IncrementalAlterConfigs (key 44), versions 0-1: sets and removes single values of topics, brokers, this broker's loggers, groups
 * and client metrics, and adds to or takes from lists. A resource changes as a whole or not at all. v1 is flexible.
 *
 * Errors, per resource: INVALID_CONFIG, INVALID_REQUEST (also what a broker cannot change while it runs),
 * UNKNOWN_TOPIC_OR_PARTITION, KAFKA_STORAGE_ERROR.
 */
import {
  readIncrementalAlterConfigsRequest,
  writeIncrementalAlterConfigsResponse,
} from '../../protocol/generated/IncrementalAlterConfigs.ts';
import type { BrokerContext } from '../context.ts';
import type { Request } from '../request.ts';
import { alterResources } from './alter-resources.ts';
import type { HandlerRow } from './handler.ts';

const VERSIONS = [0, 1] as const;

async function handle(request: Request, broker: BrokerContext): Promise<void> {
  const { version } = request;
  const { resources, validateOnly } = readIncrementalAlterConfigsRequest(request.body(), version);
  const changes = resources.map(({ resourceType, resourceName, configs }) => ({
    type: resourceType,
    name: resourceName,
    changes: configs.map(({ name, configOperation, value }) => ({ name, operation: configOperation, value })),
    replaces: false,
  }));
  const responses = await alterResources(changes, validateOnly, broker);
  request.reply((writer) =>
    writeIncrementalAlterConfigsResponse(writer, version, { throttleTimeMs: 0, responses }),
  );
}

export const incrementalAlterConfigs: HandlerRow = {
  key: 44,
  name: 'IncrementalAlterConfigs',
  served: VERSIONS,
  advertised: VERSIONS,
  overlaps: false,
  authorisation: { operation: 'ALTER_CONFIGS', resource: 'CLUSTER' },
  handle,
};

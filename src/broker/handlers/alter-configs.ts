/**
 * AlterConfigs (key 33), versions 0-2: gives topics, brokers, groups and client metrics exactly these values; what a resource had
 * besides is removed. Clients since 2.3 use IncrementalAlterConfigs. v2 is flexible.
 *
 * Errors, per resource: as of IncrementalAlterConfigs.
 */
import { ConfigOperation } from '../../metadata/controller-configs.ts';
import { readAlterConfigsRequest, writeAlterConfigsResponse } from '../../protocol/generated/AlterConfigs.ts';
import type { BrokerContext } from '../context.ts';
import type { Request } from '../request.ts';
import { alterResources } from './alter-resources.ts';
import type { HandlerRow } from './handler.ts';

const VERSIONS = [0, 2] as const;

async function handle(request: Request, broker: BrokerContext): Promise<void> {
  const { version } = request;
  const { resources, validateOnly } = readAlterConfigsRequest(request.body(), version);
  const changes = resources.map(({ resourceType, resourceName, configs }) => ({
    type: resourceType,
    name: resourceName,
    changes: configs.map(({ name, value }) => ({ name, operation: ConfigOperation.SET, value })),
    replaces: true,
  }));
  const responses = await alterResources(changes, validateOnly, broker);
  request.reply((writer) => writeAlterConfigsResponse(writer, version, { throttleTimeMs: 0, responses }));
}

export const alterConfigs: HandlerRow = {
  key: 33,
  name: 'AlterConfigs',
  served: VERSIONS,
  advertised: VERSIONS,
  overlaps: false,
  authorisation: { operation: 'ALTER_CONFIGS', resource: 'CLUSTER' },
  handle,
};

/**
 * StreamsGroupTopologyDescriptionUpdate (key 93), version 0: a member gives a description of its topology, for a plugin
 * (`group.streams.topology.description.plugin.class`) to keep. There are no plugins, and no member is asked for one.
 *
 * Errors: UNSUPPORTED_VERSION, as Apache Kafka answers without a plugin.
 */
import { KafkaError } from '../../protocol/errors.ts';
import {
  readStreamsGroupTopologyDescriptionUpdateRequest,
  writeStreamsGroupTopologyDescriptionUpdateResponse,
} from '../../protocol/generated/StreamsGroupTopologyDescriptionUpdate.ts';
import type { Request } from '../request.ts';
import type { HandlerRow } from './handler.ts';

const VERSIONS = [0, 0] as const;

function handle(request: Request): void {
  const { version } = request;
  readStreamsGroupTopologyDescriptionUpdateRequest(request.body(), version);
  request.reply((writer) =>
    writeStreamsGroupTopologyDescriptionUpdateResponse(writer, version, {
      throttleTimeMs: 0,
      errorCode: KafkaError.UNSUPPORTED_VERSION,
      errorMessage: 'there is no plugin that keeps descriptions of topologies',
    }),
  );
}

export const streamsGroupTopologyDescriptionUpdate: HandlerRow = {
  key: 93,
  name: 'StreamsGroupTopologyDescriptionUpdate',
  served: VERSIONS,
  advertised: VERSIONS,
  overlaps: false,
  authorisation: { operation: 'READ', resource: 'GROUP' },
  handle,
};

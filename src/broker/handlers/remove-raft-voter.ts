/**
 * RemoveRaftVoter (key 81), version 0 (KIP-853): would remove a voter from the quorum of the metadata log. The last one
 * cannot go, so every request is refused, with what is wrong with it first.
 *
 * Errors: INCONSISTENT_CLUSTER_ID, INVALID_REQUEST (no valid voter), UNSUPPORTED_VERSION with kraft.version 0,
 * VOTER_NOT_FOUND, as in Kafka also for the last voter.
 */
import { removeVoter } from '../../metadata/controller-nodes.ts';
import {
  readRemoveRaftVoterRequest,
  writeRemoveRaftVoterResponse,
} from '../../protocol/generated/RemoveRaftVoter.ts';
import type { Writer } from '../../protocol/writer.ts';
import type { BrokerContext } from '../context.ts';
import type { Request } from '../request.ts';
import type { HandlerRow } from './handler.ts';

const VERSIONS = [0, 0] as const;

function answer(writer: Writer, version: number, errorCode: number, errorMessage: string): void {
  writeRemoveRaftVoterResponse(writer, version, { throttleTimeMs: 0, errorCode, errorMessage });
}

function handle(request: Request, broker: BrokerContext): void {
  const { version } = request;
  const message = readRemoveRaftVoterRequest(request.body(), version);
  const refusal = removeVoter(broker.cluster.quorum, message);
  request.reply((writer) => answer(writer, version, refusal.errorCode, refusal.message));
}

export const removeRaftVoter: HandlerRow = {
  key: 81,
  name: 'RemoveRaftVoter',
  served: VERSIONS,
  advertised: VERSIONS,
  overlaps: false,
  authorisation: { operation: 'ALTER', resource: 'CLUSTER' },
  handle,
  failure: answer,
};

/**
 * AddRaftVoter (key 80), versions 0-1 (KIP-853): would add a voter to the quorum of the metadata log. The quorum here is
 * this node, so every request is refused, with what is wrong with it first. v1 lets the client ask for an answer before
 * the change is committed.
 *
 * Errors: INCONSISTENT_CLUSTER_ID, INVALID_REQUEST (no valid voter, no listener, or a node that would be the second one),
 * UNSUPPORTED_VERSION with kraft.version 0, DUPLICATE_VOTER.
 */
import { addVoter } from '../../metadata/controller-nodes.ts';
import { readAddRaftVoterRequest, writeAddRaftVoterResponse } from '../../protocol/generated/AddRaftVoter.ts';
import type { Writer } from '../../protocol/writer.ts';
import type { BrokerContext } from '../context.ts';
import type { Request } from '../request.ts';
import type { HandlerRow } from './handler.ts';

const VERSIONS = [0, 1] as const;

function answer(writer: Writer, version: number, errorCode: number, errorMessage: string): void {
  writeAddRaftVoterResponse(writer, version, { throttleTimeMs: 0, errorCode, errorMessage });
}

function handle(request: Request, broker: BrokerContext): void {
  const { version } = request;
  const message = readAddRaftVoterRequest(request.body(), version);
  const refusal = addVoter(broker.cluster.quorum, message, message.listeners.length > 0);
  request.reply((writer) => answer(writer, version, refusal.errorCode, refusal.message));
}

export const addRaftVoter: HandlerRow = {
  key: 80,
  name: 'AddRaftVoter',
  served: VERSIONS,
  advertised: VERSIONS,
  overlaps: false,
  authorisation: { operation: 'ALTER', resource: 'CLUSTER' },
  handle,
  failure: answer,
};

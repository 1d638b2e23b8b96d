/** Which nodes a cluster knows: registrations that are taken back, and voters of the quorum, as pure functions. */
import { KafkaError } from '../protocol/errors.ts';
import type { Refusal } from './controller.ts';
import { FIRST_WITH_CONTROLLERS_UNREGISTERED } from './features.ts';
import type { ClusterImage } from './image.ts';
import type { MetadataRecordInput } from './records.ts';

export interface NodesDecision {
  readonly ok: true;
  readonly records: readonly MetadataRecordInput[];
}

function refuse(errorCode: number, message: string): Refusal {
  return { ok: false, errorCode, message };
}

/** Forgets a broker that a Kafka has left in the directory. This one stays: its registration is what leads. */
export function unregisterBroker(
  image: ClusterImage,
  nodeId: number,
  brokerId: number,
): NodesDecision | Refusal {
  const broker = image.brokers.get(brokerId);
  if (broker === undefined) {
    return refuse(KafkaError.BROKER_ID_NOT_REGISTERED, `broker ${brokerId} is not registered`);
  }
  if (brokerId === nodeId) {
    return refuse(
      KafkaError.INVALID_REQUEST,
      `broker ${brokerId} is running and the only one: it cannot be unregistered`,
    );
  }
  return {
    ok: true,
    records: [{ type: 'UnregisterBroker', version: 0, data: { brokerId, brokerEpoch: broker.epoch } }],
  };
}

/** Forgets a controller that a Kafka has left in the directory. */
export function unregisterController(
  image: ClusterImage,
  nodeId: number,
  controllerId: number,
): NodesDecision | Refusal {
  if (controllerId === nodeId) {
    return refuse(
      KafkaError.INVALID_REQUEST,
      `controller ${controllerId} is the active one: it cannot be unregistered`,
    );
  }
  if (image.metadataVersion < FIRST_WITH_CONTROLLERS_UNREGISTERED) {
    return refuse(
      KafkaError.UNSUPPORTED_VERSION,
      `controllers are unregistered from metadata.version ${FIRST_WITH_CONTROLLERS_UNREGISTERED} on, it is ${image.metadataVersion}`,
    );
  }
  if (!image.controllers.has(controllerId)) {
    return refuse(KafkaError.CONTROLLER_ID_NOT_REGISTERED, `controller ${controllerId} is not registered`);
  }
  return { ok: true, records: [{ type: 'UnregisterController', version: 0, data: { controllerId } }] };
}

/** The quorum as a change of its voters meets it. */
export interface VotersView {
  readonly clusterId: string;
  /** The one voter. */
  readonly nodeId: number;
  readonly directoryId: string;
  /** With 0 the voters are named by configuration alone. */
  readonly kraftVersion: number;
}

/** A voter as a request names it. */
export interface VoterKey {
  readonly clusterId: string | null;
  readonly voterId: number;
  readonly voterDirectoryId: string;
}

const NO_DIRECTORY = 'AAAAAAAAAAAAAAAAAAAAAA';

function voterFault(quorum: VotersView, voter: VoterKey): Refusal | undefined {
  if (voter.clusterId !== null && voter.clusterId !== quorum.clusterId) {
    return refuse(
      KafkaError.INCONSISTENT_CLUSTER_ID,
      `this is cluster ${quorum.clusterId}, not ${voter.clusterId}`,
    );
  }
  if (voter.voterId < 0 || voter.voterDirectoryId === NO_DIRECTORY) {
    return refuse(KafkaError.INVALID_REQUEST, 'a voter has an id of at least 0 and a directory id');
  }
  return undefined;
}

function staticVoters(): Refusal {
  return refuse(
    KafkaError.UNSUPPORTED_VERSION,
    'the voters are named by configuration (kraft.version 0): update kraft.version to 1 first',
  );
}

/** Why a voter cannot be added: there is one, always. */
export function addVoter(quorum: VotersView, voter: VoterKey, hasEndpoint: boolean): Refusal {
  const fault = voterFault(quorum, voter);
  if (fault !== undefined) return fault;
  if (!hasEndpoint) return refuse(KafkaError.INVALID_REQUEST, 'no listener of the voter is given');
  if (quorum.kraftVersion === 0) return staticVoters();
  if (voter.voterId === quorum.nodeId) {
    return refuse(KafkaError.DUPLICATE_VOTER, `node ${voter.voterId} is a voter already`);
  }
  return refuse(KafkaError.INVALID_REQUEST, 'the quorum has one voter, this node; it takes no other');
}

/** Why a voter cannot be removed: the last one stays. */
export function removeVoter(quorum: VotersView, voter: VoterKey): Refusal {
  const fault = voterFault(quorum, voter);
  if (fault !== undefined) return fault;
  if (quorum.kraftVersion === 0) return staticVoters();
  return refuse(
    KafkaError.VOTER_NOT_FOUND,
    voter.voterId === quorum.nodeId && voter.voterDirectoryId === quorum.directoryId
      ? 'the last voter cannot be removed'
      : `node ${voter.voterId} with directory ${voter.voterDirectoryId} is no voter`,
  );
}

/**
 * ElectLeaders (key 43), versions 0-2: elects the preferred (KIP-183) or, from v1, an unclean leader (KIP-460) of some or
 * all partitions. A partition has one replica, which leads it already.
 *
 * - v1 adds the type of election, and an error for the whole request.
 *
 * Errors, per partition and with a text: ELECTION_NOT_NEEDED (where all partitions are meant, these are left out),
 * ELIGIBLE_LEADERS_NOT_AVAILABLE, UNKNOWN_TOPIC_OR_PARTITION; INVALID_REQUEST for a type that does not exist.
 */
import { electLeader } from '../../metadata/controller-partitions.ts';
import { KafkaError } from '../../protocol/errors.ts';
import {
  type ElectLeadersResponseReplicaElectionResultInput,
  readElectLeadersRequest,
  writeElectLeadersResponse,
} from '../../protocol/generated/ElectLeaders.ts';
import type { BrokerContext } from '../context.ts';
import type { Request } from '../request.ts';
import type { HandlerRow } from './handler.ts';

const VERSIONS = [0, 2] as const;
const PREFERRED = 0;
const UNCLEAN = 1;

function* allPartitions(broker: BrokerContext): Generator<{ topic: string; partitions: number[] }> {
  for (const { name, partitions } of broker.image.topicsByName.values()) {
    yield { topic: name, partitions: [...partitions.keys()] };
  }
}

function handle(request: Request, broker: BrokerContext): void {
  const { version } = request;
  const { electionType, topicPartitions } = readElectLeadersRequest(request.body(), version);
  if (electionType !== PREFERRED && electionType !== UNCLEAN) {
    const errorCode = KafkaError.INVALID_REQUEST;
    const errorMessage = `there is no election of type ${electionType}`;
    const replicaElectionResults = (topicPartitions ?? []).map(({ topic, partitions }) => ({
      topic,
      partitionResult: partitions.map((partitionId) => ({ partitionId, errorCode, errorMessage })),
    }));
    request.reply((writer) =>
      writeElectLeadersResponse(writer, version, { throttleTimeMs: 0, errorCode, replicaElectionResults }),
    );
    return;
  }
  const replicaElectionResults: ElectLeadersResponseReplicaElectionResultInput[] = [];
  for (const { topic, partitions } of topicPartitions ?? allPartitions(broker)) {
    const partitionResult = partitions
      .map((partitionId) => {
        const { errorCode, message } = electLeader(broker.image, topic, partitionId);
        return { partitionId, errorCode, errorMessage: message };
      })
      .filter(({ errorCode }) => topicPartitions !== null || errorCode !== KafkaError.ELECTION_NOT_NEEDED);
    replicaElectionResults.push({ topic, partitionResult });
  }
  const errorCode = KafkaError.NONE;
  request.reply((writer) =>
    writeElectLeadersResponse(writer, version, { throttleTimeMs: 0, errorCode, replicaElectionResults }),
  );
}

export const electLeaders: HandlerRow = {
  key: 43,
  name: 'ElectLeaders',
  served: VERSIONS,
  advertised: VERSIONS,
  overlaps: false,
  authorisation: { operation: 'ALTER', resource: 'CLUSTER' },
  handle,
};

/**
 * DescribeCluster (key 60), versions 0-2: the cluster's id, its brokers and controller, and on demand what the client may
 * do.
 *
 * - v1 adds the type of endpoints asked for: a broker's listener tells of brokers only.
 * - v2 adds brokers that are fenced, on demand: here those are the ones that a Kafka has left in the directory.
 *
 * Errors: MISMATCHED_ENDPOINT_TYPE for controllers, UNSUPPORTED_ENDPOINT_TYPE for what is neither.
 */
import { KafkaError } from '../../protocol/errors.ts';
import {
  type DescribeClusterResponseDescribeClusterBrokerInput,
  readDescribeClusterRequest,
  writeDescribeClusterResponse,
} from '../../protocol/generated/DescribeCluster.ts';
import type { Writer } from '../../protocol/writer.ts';
import { CLUSTER_OPERATIONS } from '../authorised-operations.ts';
import type { BrokerContext } from '../context.ts';
import type { Request } from '../request.ts';
import type { HandlerRow } from './handler.ts';

const VERSIONS = [0, 2] as const;
const EndpointType = { BROKER: 1, CONTROLLER: 2 } as const;

type Broker = DescribeClusterResponseDescribeClusterBrokerInput;

function brokers(request: Request, broker: BrokerContext, withFenced: boolean): Broker[] {
  const { peer } = request.connection;
  const { host, port } = broker.listeners.advertisedTo(peer);
  const listed: Broker[] = [{ brokerId: broker.nodeId, host, port, rack: broker.rack, isFenced: false }];
  if (!withFenced) return listed;
  const listener = broker.listeners.name(peer.listener);
  for (const { id, endPoints, rack } of broker.image.brokers.values()) {
    const endPoint = endPoints.find(({ name }) => name === listener);
    if (id === broker.nodeId || endPoint === undefined) continue;
    listed.push({ brokerId: id, host: endPoint.host, port: endPoint.port, rack, isFenced: true });
  }
  return listed;
}

function failure(writer: Writer, version: number, errorCode: number, errorMessage: string): void {
  writeDescribeClusterResponse(writer, version, {
    throttleTimeMs: 0,
    errorCode,
    errorMessage,
    clusterId: '',
    brokers: [],
  });
}

function handle(request: Request, broker: BrokerContext): void {
  const { version } = request;
  const message = readDescribeClusterRequest(request.body(), version);
  const { endpointType } = message;
  if (endpointType !== EndpointType.BROKER) {
    request.reply((writer) =>
      endpointType === EndpointType.CONTROLLER
        ? failure(
            writer,
            version,
            KafkaError.MISMATCHED_ENDPOINT_TYPE,
            'a listener of a broker was asked for controllers',
          )
        : failure(
            writer,
            version,
            KafkaError.UNSUPPORTED_ENDPOINT_TYPE,
            `endpoint type ${endpointType} is neither 1 (broker) nor 2 (controller)`,
          ),
    );
    return;
  }
  request.reply((writer) =>
    writeDescribeClusterResponse(writer, version, {
      throttleTimeMs: 0,
      errorCode: KafkaError.NONE,
      errorMessage: null,
      clusterId: broker.clusterId,
      controllerId: broker.nodeId,
      brokers: brokers(request, broker, message.includeFencedBrokers),
      ...(message.includeClusterAuthorizedOperations
        ? { clusterAuthorizedOperations: CLUSTER_OPERATIONS }
        : {}),
    }),
  );
}

export const describeCluster: HandlerRow = {
  key: 60,
  name: 'DescribeCluster',
  served: VERSIONS,
  advertised: VERSIONS,
  overlaps: false,
  authorisation: { operation: 'NONE', resource: 'NONE' },
  handle,
  failure,
};

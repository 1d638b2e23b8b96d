/**
 * AlterReplicaLogDirs (key 34), versions 1-2: moves partitions to another log directory. There is one: a partition that is
 * to go where it lies stays, and no other directory exists. Both versions mean the same.
 *
 * Errors, per partition: LOG_DIR_NOT_FOUND, UNKNOWN_TOPIC_OR_PARTITION, KAFKA_STORAGE_ERROR.
 */
import { KafkaError } from '../../protocol/errors.ts';
import {
  readAlterReplicaLogDirsRequest,
  writeAlterReplicaLogDirsResponse,
} from '../../protocol/generated/AlterReplicaLogDirs.ts';
import type { BrokerContext } from '../context.ts';
import type { Request } from '../request.ts';
import type { HandlerRow } from './handler.ts';

const VERSIONS = [1, 2] as const;

function move(path: string, topic: string, index: number, broker: BrokerContext): number {
  if (path !== broker.dataDir) return KafkaError.LOG_DIR_NOT_FOUND;
  return broker.partition(topic, index) === undefined ? broker.missingCode(topic, index) : KafkaError.NONE;
}

function handle(request: Request, broker: BrokerContext): void {
  const { version } = request;
  const { dirs } = readAlterReplicaLogDirsRequest(request.body(), version);
  // Of a partition that comes twice, the last directory counts, as in Kafka.
  const paths = new Map<string, Map<number, string>>();
  for (const { path, topics } of dirs) {
    for (const { name, partitions } of topics) {
      const byIndex = paths.get(name) ?? new Map<number, string>();
      for (const index of partitions) byIndex.set(index, path);
      if (byIndex.size > 0) paths.set(name, byIndex);
    }
  }
  const results = [...paths].map(([topicName, byIndex]) => ({
    topicName,
    partitions: [...byIndex].map(([partitionIndex, path]) => ({
      partitionIndex,
      errorCode: move(path, topicName, partitionIndex, broker),
    })),
  }));
  request.reply((writer) =>
    writeAlterReplicaLogDirsResponse(writer, version, { throttleTimeMs: 0, results }),
  );
}

export const alterReplicaLogDirs: HandlerRow = {
  key: 34,
  name: 'AlterReplicaLogDirs',
  served: VERSIONS,
  advertised: VERSIONS,
  overlaps: false,
  authorisation: { operation: 'ALTER', resource: 'CLUSTER' },
  handle,
};

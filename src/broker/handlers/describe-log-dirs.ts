/**
 * DescribeLogDirs (key 35), versions 1-5: the log directory, how large each partition in it is, and how much room is left.
 * There is one directory; of partitions that are asked for and not in it nothing is said. No partition lags or is on its
 * way to another directory.
 *
 * - v3 adds an error for the whole request.
 * - v4 adds the size of the file system and what is left of it, bytes (KIP-827).
 * - v5 adds whether the directory takes new partitions (KIP-1066); it does.
 *
 * Errors, of the directory: KAFKA_STORAGE_ERROR.
 */
import type { Partition } from '../../log/partition.ts';
import { KafkaError, kafkaCodeOf } from '../../protocol/errors.ts';
import {
  type DescribeLogDirsRequest,
  type DescribeLogDirsResponseDescribeLogDirsResultInput,
  readDescribeLogDirsRequest,
  writeDescribeLogDirsResponse,
} from '../../protocol/generated/DescribeLogDirs.ts';
import type { BrokerContext } from '../context.ts';
import type { Request } from '../request.ts';
import type { HandlerRow } from './handler.ts';

const VERSIONS = [1, 5] as const;

function* wanted(message: DescribeLogDirsRequest, broker: BrokerContext): Generator<Partition> {
  if (message.topics === null) {
    yield* broker.partitions();
    return;
  }
  const seen = new Set<Partition>();
  for (const { topic, partitions } of message.topics) {
    for (const index of partitions) {
      const partition = broker.partition(topic, index);
      if (partition === undefined || seen.has(partition)) continue;
      seen.add(partition);
      yield partition;
    }
  }
}

async function describe(
  message: DescribeLogDirsRequest,
  broker: BrokerContext,
): Promise<DescribeLogDirsResponseDescribeLogDirsResultInput> {
  const logDir = broker.dataDir;
  let space: { totalBytes: number; usableBytes: number };
  try {
    space = await broker.space();
  } catch (error) {
    broker.log.warn({ error: String(error) }, 'the room in the log directory cannot be told');
    return { errorCode: kafkaCodeOf(error), logDir, topics: [] };
  }
  const topics = new Map<
    string,
    { partitionIndex: number; partitionSize: number; offsetLag: number; isFutureKey: boolean }[]
  >();
  for (const { topic, index, log } of wanted(message, broker)) {
    const partitions = topics.get(topic) ?? [];
    topics.set(topic, partitions);
    partitions.push({
      partitionIndex: index,
      partitionSize: log.sizeInBytes,
      offsetLag: 0,
      isFutureKey: false,
    });
  }
  return {
    errorCode: KafkaError.NONE,
    logDir,
    topics: [...topics].map(([name, partitions]) => ({ name, partitions })),
    ...space,
    isCordoned: false,
  };
}

async function handle(request: Request, broker: BrokerContext): Promise<void> {
  const { version } = request;
  const message = readDescribeLogDirsRequest(request.body(), version);
  const results = [await describe(message, broker)];
  request.reply((writer) =>
    writeDescribeLogDirsResponse(writer, version, { throttleTimeMs: 0, errorCode: KafkaError.NONE, results }),
  );
}

export const describeLogDirs: HandlerRow = {
  key: 35,
  name: 'DescribeLogDirs',
  served: VERSIONS,
  advertised: VERSIONS,
  overlaps: false,
  authorisation: { operation: 'DESCRIBE', resource: 'CLUSTER' },
  handle,
  failure: (writer, version, errorCode) =>
    writeDescribeLogDirsResponse(writer, version, { throttleTimeMs: 0, errorCode, results: [] }),
};

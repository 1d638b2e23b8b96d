/** Partitions and places in them that were named on the command line, looked up. */
import { BrokerRefusal, type Client, EARLIEST, LATEST } from '../client/client.ts';
import { listOffsets, type PartitionOf, partitionName } from '../client/offsets.ts';
import { BroadsheetError } from '../runtime/errors.ts';
import type { Position, TopicPartitions } from './arguments.ts';

/** Every partition that is meant, once. Throws BROKER_REFUSED, NOT_FOUND. */
export async function resolvePartitions(
  client: Client,
  given: readonly TopicPartitions[],
): Promise<PartitionOf[]> {
  const found = new Map<string, PartitionOf>();
  for (const { topic, partitions } of given) {
    const all = (await client.topic(topic)).partitions.map(({ partitionIndex }) => partitionIndex);
    for (const partition of partitions ?? all.sort((a, b) => a - b)) {
      if (!all.includes(partition)) {
        throw new BroadsheetError(
          'NOT_FOUND',
          `topic ${topic} has no partition ${partition}: it has ${all.length}, from 0 to ${all.length - 1}`,
        );
      }
      found.set(partitionName({ topic, partition }), { topic, partition });
    }
  }
  return [...found.values()];
}

export interface Place extends PartitionOf {
  readonly offset: number;
}

/** Offsets by a special timestamp or a time; -1 where nothing is so new. Throws BROKER_REFUSED for the first that has
 * none. */
export async function offsetsAt(
  client: Client,
  partitions: readonly PartitionOf[],
  timestamp: number,
  committedOnly = false,
): Promise<number[]> {
  const answers = await listOffsets(
    client,
    partitions.map((each) => ({ ...each, timestamp })),
    committedOnly,
  );
  return answers.map(({ errorCode, offset }, index) => {
    if (errorCode !== 0)
      throw new BrokerRefusal(errorCode, `offsets of ${partitionName(partitions[index]!)}`);
    return offset;
  });
}

/** The offset of a position in each partition. A time after the last record is the end; the last n of fewer are all.
 * Offsets are taken as they are. */
export async function resolvePositions(
  client: Client,
  partitions: readonly PartitionOf[],
  position: Position,
): Promise<Place[]> {
  const at = (offsets: readonly number[]) =>
    partitions.map(({ topic, partition }, index) => ({ topic, partition, offset: offsets[index]! }));
  const ask = (timestamp: number) => offsetsAt(client, partitions, timestamp);
  switch (position.kind) {
    case 'offset':
      return at(partitions.map(() => position.offset));
    case 'earliest':
      return at(await ask(EARLIEST));
    case 'latest':
      return at(await ask(LATEST));
    case 'last': {
      const starts = await ask(EARLIEST);
      const ends = await ask(LATEST);
      return at(ends.map((end, index) => Math.max(starts[index]!, end - position.count)));
    }
    case 'time': {
      const found = await ask(position.timestamp);
      const ends = await ask(LATEST);
      return at(found.map((offset, index) => (offset < 0 ? ends[index]! : offset)));
    }
  }
}

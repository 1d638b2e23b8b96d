/** ListOffsets for many partitions: one request to each leader. */
import type { ListOffsetsResponseListOffsetsPartitionResponse } from '../protocol/generated/ListOffsets.ts';
import { BroadsheetError } from '../runtime/errors.ts';
import { APIS } from './apis.ts';
import type { Client } from './client.ts';

export interface PartitionOf {
  readonly topic: string;
  readonly partition: number;
}

export interface OffsetQuery extends PartitionOf {
  /** ms since the epoch, or LATEST, EARLIEST, MAX_TIMESTAMP. */
  readonly timestamp: number;
}

/** `topic-partition`: how a partition is called in maps and in messages. */
export function partitionName({ topic, partition }: PartitionOf): string {
  return `${topic}-${partition}`;
}

/** Groups partitions by their leader's node id. Throws BROKER_REFUSED, NOT_FOUND. */
export async function byLeader<Each extends PartitionOf>(
  client: Client,
  partitions: readonly Each[],
): Promise<Map<number, Each[]>> {
  const groups = new Map<number, Each[]>();
  for (const each of partitions) {
    const leader = await client.leaderId(each.topic, each.partition);
    const group = groups.get(leader);
    if (group === undefined) groups.set(leader, [each]);
    else group.push(each);
  }
  return groups;
}

/** The partitions as requests name them: by topic, in the order in which topics first come. */
export function byTopic<Each extends PartitionOf>(partitions: readonly Each[]): Map<string, Each[]> {
  const topics = new Map<string, Each[]>();
  for (const each of partitions) {
    const list = topics.get(each.topic);
    if (list === undefined) topics.set(each.topic, [each]);
    else list.push(each);
  }
  return topics;
}

/** The answer for each query, error codes left in, in the order of the queries. A partition without a leader fails all:
 * throws BROKER_REFUSED, NOT_FOUND. */
export async function listOffsets(
  client: Client,
  queries: readonly OffsetQuery[],
  committedOnly = false,
): Promise<ListOffsetsResponseListOffsetsPartitionResponse[]> {
  const answers = new Map<string, ListOffsetsResponseListOffsetsPartitionResponse>();
  for (const [leader, mine] of await byLeader(client, queries)) {
    const topics = [...byTopic(mine)].map(([name, each]) => ({
      name,
      partitions: each.map(({ partition, timestamp }) => ({ partitionIndex: partition, timestamp })),
    }));
    const response = await client.request(
      APIS.listOffsets,
      { replicaId: -1, isolationLevel: committedOnly ? 1 : 0, topics },
      { to: await client.broker(leader) },
    );
    for (const { name, partitions } of response.topics) {
      for (const answer of partitions) {
        answers.set(partitionName({ topic: name, partition: answer.partitionIndex }), answer);
      }
    }
  }
  return queries.map((query) => {
    const answer = answers.get(partitionName(query));
    if (answer === undefined) {
      throw new BroadsheetError('MALFORMED', `the response lacks ${partitionName(query)}`);
    }
    return answer;
  });
}

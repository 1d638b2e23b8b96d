/** Makes the topics in which coordinators keep their state. */
import { KafkaError } from '../protocol/errors.ts';
import type { Topics } from './topics.ts';

/** As Apache Kafka makes it: one replica, and these configs. A Kafka error code. */
export async function createCoordinatorTopic(
  topics: Topics,
  name: string,
  numPartitions: number,
  configs: Readonly<Record<string, string>>,
): Promise<number> {
  const wanted = {
    name,
    numPartitions,
    replicationFactor: -1,
    assignments: [],
    configs: Object.entries(configs).map(([key, value]) => ({ name: key, value })),
  };
  const [result] = await topics.create([wanted], false);
  if (result === undefined || result.ok) return KafkaError.NONE;
  return result.errorCode === KafkaError.TOPIC_ALREADY_EXISTS
    ? KafkaError.NONE
    : KafkaError.COORDINATOR_NOT_AVAILABLE;
}

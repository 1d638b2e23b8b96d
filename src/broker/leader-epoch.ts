/** Whether a client's idea of the leader epoch is ours (KIP-320). */
import type { Partition } from '../log/partition.ts';
import { KafkaError } from '../protocol/errors.ts';

/** NONE, FENCED_LEADER_EPOCH for a client that is behind, UNKNOWN_LEADER_EPOCH for one that is ahead. A negative epoch
 * asks for no check. */
export function leaderEpochFault(partition: Pick<Partition, 'leaderEpoch'>, clientEpoch: number): number {
  if (clientEpoch < 0 || clientEpoch === partition.leaderEpoch) return KafkaError.NONE;
  return clientEpoch < partition.leaderEpoch
    ? KafkaError.FENCED_LEADER_EPOCH
    : KafkaError.UNKNOWN_LEADER_EPOCH;
}

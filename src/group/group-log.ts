/** The log that the coordinator keeps its groups in, as it sees it; CoordinatorTopic is the one that lasts. */
import type { AppendDone, TopicVisitor, TransactionalProducer } from '../log/coordinator-topic.ts';
import type { JournalRecord } from '../metadata/journal.ts';
import { KafkaError } from '../protocol/errors.ts';

export type { AppendDone } from '../log/coordinator-topic.ts';

export const OFFSETS_TOPIC = '__consumer_offsets';

export interface GroupLog {
  /** Sees that there is something to append to, and resolves with an error code; undefined when there is. */
  prepare(): Promise<number> | undefined;
  /** Whether what is known of a group is all that there is, and can be added to. A missing log holds no group. */
  isAvailable(groupId: string): boolean;
  /** Appends records of one group as one batch. `done` is called when they can be read, or have failed and left nothing;
   * never before this returns, and in the order of the appends. With a producer, they are part of its transaction. */
  append(
    groupId: string,
    records: readonly JournalRecord[],
    done: AppendDone,
    producer?: TransactionalProducer,
  ): void;
  /** Appends records of one group that need not be in one batch; `done` hears the first error. */
  appendMany(groupId: string, records: readonly JournalRecord[], done: AppendDone): void;
  /** Visits all records that count, each group's in order, and those of open transactions. */
  load(visitor: TopicVisitor): Promise<void>;
  /** The number of a group's partition; -1 while there is none. */
  indexOf(groupId: string): number;
}

/** What a failed append of a group's record is called to members. */
export function groupCode(code: number): number {
  switch (code) {
    case KafkaError.UNKNOWN_TOPIC_OR_PARTITION:
      return KafkaError.COORDINATOR_NOT_AVAILABLE;
    case KafkaError.KAFKA_STORAGE_ERROR:
      return KafkaError.NOT_COORDINATOR;
    case KafkaError.MESSAGE_TOO_LARGE:
      return KafkaError.UNKNOWN_SERVER_ERROR;
    default:
      return code;
  }
}

/** The log that the coordinator keeps its groups in, as it sees it; CoordinatorTopic is the one that lasts. */
import type { AppendDone, TopicVisitor, TransactionalProducer } from '../log/coordinator-topic.ts';
import type { JournalRecord } from '../metadata/journal.ts';

export { type AppendDone, coordinatorCode as groupCode } from '../log/coordinator-topic.ts';

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
  /** Appends records of one group, in their order, that need not be in one batch and may be of any size; `done` hears the first
   * error, when all are written or not. */
  appendMany(groupId: string, records: readonly JournalRecord[], done: AppendDone): void;
  /** Visits all records that count, each group's in order, and those of open transactions. */
  load(visitor: TopicVisitor): Promise<void>;
  /** The number of a group's partition; -1 while there is none. */
  indexOf(groupId: string): number;
}

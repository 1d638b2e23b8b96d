/** The log that the coordinator keeps its groups in, as it sees it; OffsetsTopic is the one that lasts. */
import type { JournalRecord } from '../metadata/journal.ts';
import { KafkaError } from '../protocol/errors.ts';

/** Hears a Kafka error code. */
export type AppendDone = (errorCode: number) => void;

export interface GroupLog {
  /** Sees that there is something to append to, and resolves with an error code; undefined when there is. */
  prepare(): Promise<number> | undefined;
  /** Whether what is known of a group is all that there is, and can be added to. A missing log holds no group. */
  isAvailable(groupId: string): boolean;
  /** Appends records of one group as one batch. `done` is called when they can be read, or have failed and left nothing;
   * never before this returns, and in the order of the appends. */
  append(groupId: string, records: readonly JournalRecord[], done: AppendDone): void;
  /** Appends records of one group that need not be in one batch; `done` hears the first error. */
  appendMany(groupId: string, records: readonly JournalRecord[], done: AppendDone): void;
  /** Visits all records that count, each group's in order. */
  load(visit: (key: Uint8Array, value: Uint8Array | null) => void): Promise<void>;
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

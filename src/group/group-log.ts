/** The log that the coordinator keeps its groups in, as it sees it; OffsetsTopic is the one that lasts. */
import type { JournalRecord } from '../metadata/journal.ts';

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

/** What one compaction did: part of the package's own types, and so apart from log-cleaner.ts. */
export interface Compaction {
  readonly topic: string;
  readonly partition: number;
  /** Of the segments that were looked at. */
  readonly bytesBefore: number;
  readonly bytesAfter: number;
}

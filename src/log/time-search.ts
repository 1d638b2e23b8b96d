/**
 * Which record belongs to a time (ListOffsets). The log finds batches by their headers; a header says what its batch held when it
 * was written, and the log's start, or a foreign compaction, may have taken the record that it speaks of. So the records of each
 * batch that was found are looked at, and where they hold less than was claimed, the search goes on beside it: the answer is
 * that of a scan over all records.
 */
import { RecordBatch, readBatches } from '../protocol/records/reader.ts';
import { BroadsheetError } from '../runtime/errors.ts';
import type { Log } from './log.ts';

export interface TimedOffset {
  readonly offset: number;
  /** Of the record, ms since the epoch. */
  readonly timestamp: number;
}

/** Logs hold batches of the current format only. */
function batchOf(bytes: Uint8Array): RecordBatch {
  for (const batch of readBatches(bytes)) if (batch instanceof RecordBatch) return batch;
  throw new BroadsheetError('CORRUPT', 'a message of an old format');
}

/** The first record in [from, upTo) with a timestamp of at least `target`; undefined: there is none. Rejects with CORRUPT, IO ... */
export async function findByTime(
  log: Log,
  target: number,
  from: number,
  upTo: number,
): Promise<TimedOffset | undefined> {
  for (let at = from; at < upTo; ) {
    const bytes = await log.findBatchByTimestamp(target, at, upTo);
    if (bytes === undefined) return undefined;
    const batch = batchOf(bytes);
    for (const { offset, timestamp } of batch.records())
      if (offset >= at && offset < upTo && timestamp >= target) return { offset, timestamp };
    if (batch.lastOffset < at) return undefined;
    at = batch.lastOffset + 1;
  }
  return undefined;
}

/** The first of the records in [from, upTo) that have the largest timestamp; undefined: there are no records. Rejects with
 * CORRUPT, IO ... */
export async function findMaxTimestamp(
  log: Log,
  from: number,
  upTo: number,
): Promise<TimedOffset | undefined> {
  let best: TimedOffset | undefined;
  // What has still to be searched, the first offsets last.
  const ranges: [from: number, upTo: number][] = [[from, upTo]];
  for (let range = ranges.pop(); range !== undefined; range = ranges.pop()) {
    const [begin, end] = range;
    const bytes = begin < end ? await log.findBatchByMaxTimestamp(begin, end) : undefined;
    if (bytes === undefined) continue;
    const batch = batchOf(bytes);
    const isBetter = (record: TimedOffset) =>
      best === undefined ||
      record.timestamp > best.timestamp ||
      (record.timestamp === best.timestamp && record.offset < best.offset);
    // No record of the range is later than this claim.
    if (!isBetter({ offset: begin, timestamp: batch.maxTimestamp })) continue;
    let held = Number.NEGATIVE_INFINITY;
    for (const { offset, timestamp } of batch.records()) {
      if (offset < begin || offset >= end) continue;
      held = Math.max(held, timestamp);
      if (isBetter({ offset, timestamp })) best = { offset, timestamp };
    }
    // It is the first batch of the range with this claim: where the claim is true, nothing before or behind is better.
    if (held >= batch.maxTimestamp) continue;
    ranges.push([batch.lastOffset + 1, end], [begin, batch.baseOffset]);
  }
  return best;
}

/** What a consumer makes of the records in a fetch response. */
import type { FetchResponsePartitionData } from '../protocol/generated/Fetch.ts';
import type { RecordView } from '../protocol/records/batch.ts';
import { controlTypeName } from '../protocol/records/control.ts';
import { LegacyBatch } from '../protocol/records/legacy.ts';
import { type RecordBatch, readBatches } from '../protocol/records/reader.ts';

/**
 * The data records from `offset` on, and the offset after the last whole batch. With `committedOnly`, those of aborted
 * transactions are left out, as the response lists them. Throws BATCH_CORRUPT, BATCH_INVALID.
 */
export function decodeFetched(
  partition: Pick<FetchResponsePartitionData, 'records' | 'abortedTransactions'>,
  offset: number,
  committedOnly: boolean,
): { readonly records: RecordView[]; readonly nextOffset: number } {
  const records: RecordView[] = [];
  let nextOffset = offset;
  const toAbort = [...(partition.abortedTransactions ?? [])].sort((a, b) => b.firstOffset - a.firstOffset);
  const aborting = new Set<number>();
  for (const batch of readBatches(partition.records ?? new Uint8Array(0))) {
    batch.ensureValid();
    const lastOffset = batch instanceof LegacyBatch ? batch.offset : batch.lastOffset;
    nextOffset = Math.max(nextOffset, lastOffset + 1);
    if (committedOnly && batch instanceof LegacyBatch === false) {
      while (toAbort.length > 0 && toAbort.at(-1)!.firstOffset <= lastOffset)
        aborting.add(toAbort.pop()!.producerId);
    }
    if (skipped(batch, aborting)) continue;
    for (const record of batch.records()) if (record.offset >= offset) records.push(record);
  }
  return { records, nextOffset };
}

function skipped(batch: RecordBatch | LegacyBatch, aborting: Set<number>): boolean {
  if (batch instanceof LegacyBatch) return false;
  if (!batch.isControl) return batch.isTransactional && aborting.has(batch.producerId);
  for (const record of batch.records()) {
    if (controlTypeName(record) === 'ABORT') aborting.delete(batch.producerId);
  }
  return true;
}

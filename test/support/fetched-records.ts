/** What a consumer makes of fetched batches. */
import { readSync } from 'node:fs';
import { expect } from 'vitest';
import type { TimedOffset } from '../../src/log/time-search.ts';
import type { AbortedTransaction } from '../../src/log/txn-index.ts';
import type { Part } from '../../src/protocol/part.ts';
import { controlTypeName } from '../../src/protocol/records/control.ts';
import type { RecordBatch } from '../../src/protocol/records/reader.ts';

export interface ModelRecord extends TimedOffset {
  readonly key: string | null;
  readonly value: string | null;
}

const text = (bytes: Uint8Array | null) => (bytes === null ? null : Buffer.from(bytes).toString());

export function bytesOf(records: Part): Uint8Array {
  if (records instanceof Uint8Array) return records;
  const file = records.source.hold(records.segment);
  try {
    const bytes = Buffer.alloc(records.length);
    expect(readSync(file.fd, bytes, 0, records.length, records.position)).toBe(records.length);
    return bytes;
  } finally {
    file.release();
  }
}

export function dataOf(batches: readonly RecordBatch[], from: number): ModelRecord[] {
  return batches
    .filter((batch) => !batch.isControl)
    .flatMap((batch) => [...batch.records()])
    .filter(({ offset }) => offset >= from)
    .map(({ offset, timestamp, key, value }) => ({
      ...{ offset, timestamp },
      key: text(key),
      value: text(value),
    }));
}

/** What a consumer makes of records and of the aborted transactions that it was told of. */
export function committedOf(
  batches: readonly RecordBatch[],
  told: readonly AbortedTransaction[],
  from: number,
): ModelRecord[] {
  const waiting = [...new Map(told.map((each) => [each.lastOffset, each])).values()];
  waiting.sort((a, b) => a.firstOffset - b.firstOffset);
  const aborting = new Set<number>();
  return dataOf(
    batches.filter((batch) => {
      while (waiting.length > 0 && waiting[0]!.firstOffset <= batch.lastOffset)
        aborting.add(waiting.shift()!.producerId);
      const [record] = batch.isControl ? [...batch.records()] : [];
      if (record !== undefined && controlTypeName(record) === 'ABORT') aborting.delete(batch.producerId);
      return !(batch.isTransactional && aborting.has(batch.producerId));
    }),
    from,
  );
}

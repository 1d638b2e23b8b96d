/** Record batches of an exact size. */
import { BatchBuilder } from '../src/protocol/records/writer.ts';

const RECORD_BYTES = 1024;

/** Records of about 1 KiB each; one where the batch is smaller. */
export function recordsIn(batchBytes: number): number {
  return Math.max(1, Math.floor(batchBytes / RECORD_BYTES));
}

/** One uncompressed batch of exactly `size` bytes, its records without keys. */
export function batchOf(size: number): Uint8Array {
  const count = recordsIn(size);
  const timestamp = Date.now();
  const value = Buffer.alloc(Math.max(1, Math.floor(size / count) - 80), 'broadsheet ');
  // The last record takes what the others leave; varints make it a matter of trying.
  let last = 1;
  for (let attempt = 0; attempt < 8 && last >= 0; attempt++) {
    const builder = new BatchBuilder();
    for (let i = 1; i < count; i++) builder.append({ timestamp, value });
    builder.append({ timestamp, value: Buffer.alloc(last, 'last ') });
    const missing = size - builder.uncompressedBytes;
    if (missing === 0) return builder.build();
    last += missing;
  }
  throw new Error(`no batch has ${size} bytes`);
}

/** A segment file read from its start to its end, batch by batch, by whoever looks into a closed directory. */
import { type FileHandle, open } from 'node:fs/promises';
import { BATCH_LENGTH_AT, LOG_OVERHEAD_BYTES } from '../protocol/records/batch.ts';
import type { LegacyBatch } from '../protocol/records/legacy.ts';
import { frameBytes, type RecordBatch, readBatches } from '../protocol/records/reader.ts';
import { BroadsheetError } from '../runtime/errors.ts';

export interface PlacedBatch {
  /** Byte position in the file. */
  readonly position: number;
  readonly batch: RecordBatch | LegacyBatch;
}

const CHUNK_BYTES = 4 * 1024 * 1024;

export class SegmentFile {
  readonly size: number;
  /** Position after the last whole batch that batches() gave. */
  end = 0;
  /** Why it gave no more before the end of the file. */
  fault: string | undefined;
  readonly #file: FileHandle;

  private constructor(file: FileHandle, size: number) {
    this.#file = file;
    this.size = size;
  }

  /** Throws NOT_FOUND, IO. */
  static async open(path: string): Promise<SegmentFile> {
    try {
      const file = await open(path, 'r');
      return new SegmentFile(file, (await file.stat()).size);
    } catch (error) {
      throw fileError(path, error);
    }
  }

  /** All whole batches, some at a time; they are not checked. Where no frame can be told it ends, and `fault` says why. */
  async *batches(): AsyncGenerator<readonly PlacedBatch[]> {
    let wanted = CHUNK_BYTES;
    while (this.end < this.size) {
      const bytes = await this.#read(this.end, Math.min(wanted, this.size - this.end));
      const batches: PlacedBatch[] = [];
      let at = 0;
      try {
        for (let size = frameBytes(bytes, 0, bytes.length); size !== undefined; ) {
          batches.push({ position: this.end + at, batch: onlyBatch(bytes, at, at + size) });
          at += size;
          size = frameBytes(bytes, at, bytes.length);
        }
      } catch (error) {
        if (!(error instanceof BroadsheetError)) throw error;
        this.fault = error.message;
      }
      this.end += at;
      if (batches.length > 0) yield batches;
      if (this.fault !== undefined) return;
      wanted = CHUNK_BYTES;
      if (at > 0) continue;
      // Not one whole batch: it is larger than what was read, or the file ends within it.
      const claimed = bytes.length < LOG_OVERHEAD_BYTES ? 0 : bytes.readInt32BE(BATCH_LENGTH_AT);
      wanted = LOG_OVERHEAD_BYTES + claimed;
      if (bytes.length >= this.size - this.end || wanted > this.size - this.end) {
        this.fault = `the file ends within a batch: ${this.size - this.end} bytes are left`;
        return;
      }
    }
  }

  close(): Promise<void> {
    return this.#file.close();
  }

  async #read(position: number, length: number): Promise<Buffer> {
    const bytes = Buffer.allocUnsafeSlow(length);
    let at = 0;
    while (at < length) {
      const { bytesRead } = await this.#file.read(bytes, at, length - at, position + at);
      if (bytesRead === 0) break;
      at += bytesRead;
    }
    return bytes.subarray(0, at);
  }
}

function onlyBatch(bytes: Buffer, start: number, end: number): RecordBatch | LegacyBatch {
  for (const batch of readBatches(bytes, start, end)) return batch;
  throw new BroadsheetError('BATCH_CORRUPT', 'a batch ends early');
}

/** What the operating system says of a file, as the product's error. */
export function fileError(path: string, error: unknown): BroadsheetError {
  const { code, message } = error as NodeJS.ErrnoException;
  const known = code === 'ENOENT' || code === 'ENOTDIR' ? 'NOT_FOUND' : 'IO';
  return new BroadsheetError(
    known,
    known === 'NOT_FOUND' ? `there is no ${path}` : `${path}: ${message}`,
    0,
    {
      cause: error,
    },
  );
}

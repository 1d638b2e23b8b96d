/** The header of a v2 record batch as it lies in a segment, and walks over the batches of a segment. */
import { crc32c } from '../protocol/crc32c.ts';
import { ATTRIBUTES_AT, BATCH_HEADER_BYTES, LOG_OVERHEAD_BYTES } from '../protocol/records/batch.ts';
import { readInt64 } from '../protocol/records/int64.ts';
import { BroadsheetError } from '../runtime/errors.ts';
import type { JsFile } from './js-file.ts';
import { type Int64, int64At } from './js-records.ts';
import type { BatchInfo } from './log.ts';

const MAX_INT32 = 2 ** 31 - 1;
const CONTROL = 0x20;

export const corrupt = (message: string) => new BroadsheetError('CORRUPT', message);

/** May be anything before fault() says that it is sound. */
export class StoredBatch {
  /** In the segment. */
  readonly position: number;
  readonly baseOffset: number;
  /** Whole batch. */
  readonly bytes: number;
  readonly leaderEpoch: number;
  readonly magic: number;
  readonly crc: number;
  readonly attributes: number;
  readonly lastOffsetDelta: number;
  readonly maxTimestamp: Int64;
  readonly producerId: number;
  readonly producerEpoch: number;
  readonly baseSequence: number;
  readonly recordCount: number;

  /** Reads 61 bytes at `at`. */
  constructor(view: DataView, at: number, position: number) {
    this.position = position;
    this.baseOffset = readInt64(view, at);
    this.bytes = view.getInt32(at + 8) + LOG_OVERHEAD_BYTES;
    this.leaderEpoch = view.getInt32(at + 12);
    this.magic = view.getInt8(at + 16);
    this.crc = view.getUint32(at + 17);
    this.attributes = view.getUint16(at + 21);
    this.lastOffsetDelta = view.getInt32(at + 23);
    this.maxTimestamp = int64At(view, at + 35);
    this.producerId = readInt64(view, at + 43);
    this.producerEpoch = view.getInt16(at + 51);
    this.baseSequence = view.getInt32(at + 53);
    this.recordCount = view.getInt32(at + 57);
  }

  get lastOffset(): number {
    return this.baseOffset + this.lastOffsetDelta;
  }
  get end(): number {
    return this.position + this.bytes;
  }
  get control(): boolean {
    return (this.attributes & CONTROL) !== 0;
  }

  get info(): BatchInfo {
    return {
      baseOffset: this.baseOffset,
      lastOffset: this.lastOffset,
      maxTimestamp: Number(this.maxTimestamp),
      producerId: this.producerId,
      producerEpoch: this.producerEpoch,
      baseSequence: this.baseSequence,
      recordCount: this.recordCount,
      attributes: this.attributes,
      leaderEpoch: this.leaderEpoch,
      sizeInBytes: this.bytes,
    };
  }

  /** Why it cannot be a batch at its position. `limit` is where the segment's bytes end. */
  fault(segmentBaseOffset: number, limit: number): string | undefined {
    const fault = this.#fault(segmentBaseOffset, limit);
    return fault === undefined ? undefined : `the batch at position ${this.position} has ${fault}`;
  }

  #fault(segmentBaseOffset: number, limit: number): string | undefined {
    const { magic, bytes, lastOffsetDelta, baseOffset } = this;
    if (magic === 0 || magic === 1)
      return 'a message set of an old format (magic 0 or 1), which no directory of Kafka 4 holds';
    if (magic !== 2) return 'an unknown magic';
    if (bytes < BATCH_HEADER_BYTES) return 'a length that is too small';
    if (bytes > limit - this.position) return 'a length that reaches past the end';
    if (
      lastOffsetDelta < 0 ||
      baseOffset < segmentBaseOffset ||
      baseOffset - segmentBaseOffset > MAX_INT32 - lastOffsetDelta
    )
      return 'an offset outside of the segment';
    return this.recordCount < 0 ? 'a negative record count' : undefined;
  }
}

export function parseBatch(bytes: Uint8Array, at: number, position: number): StoredBatch {
  return new StoredBatch(new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength), at, position);
}

const FIRST_CHUNK = 4096;
const CHUNK = 64 * 1024;

/**
 * Walks over the headers of a segment from a batch's beginning on. take() gives the next batch of what was read;
 * undefined: fill() reads on, or says that the limit is reached. Both throw CORRUPT at the first header that cannot be one, or where
 * offsets do not ascend: no checksum covers them.
 */
export class BatchWalker {
  readonly #file: JsFile;
  readonly #baseOffset: number;
  readonly #limit: number;
  /** Where the next batch begins. */
  position: number;
  #view: DataView = new DataView(new ArrayBuffer(0));
  #begins = 0;
  #ends = 0;
  #lastBytes = 0;
  #lastOffset = -1;
  /** Offsets did not ascend: this batch's, or the one's before it, was altered. */
  descends = false;
  #chunk = FIRST_CHUNK;

  constructor(file: JsFile, segmentBaseOffset: number, position: number, limit: number) {
    this.#file = file;
    this.#baseOffset = segmentBaseOffset;
    this.position = position;
    this.#limit = limit;
  }

  take(): StoredBatch | undefined {
    const { position } = this;
    if (position >= this.#limit || position < this.#begins || position + BATCH_HEADER_BYTES > this.#ends)
      return undefined;
    const batch = new StoredBatch(this.#view, position - this.#begins, position);
    const fault = batch.fault(this.#baseOffset, this.#limit);
    if (fault !== undefined) throw corrupt(`${this.#file.path}: ${fault}`);
    if (batch.baseOffset <= this.#lastOffset) {
      this.descends = true;
      throw corrupt(
        `${this.#file.path}: the batch at position ${position} does not come after the one before it`,
      );
    }
    this.#lastOffset = batch.lastOffset;
    this.#lastBytes = batch.bytes;
    this.position += batch.bytes;
    return batch;
  }

  async fill(): Promise<boolean> {
    const left = this.#limit - this.position;
    if (left <= 0) return false;
    if (left < BATCH_HEADER_BYTES)
      throw corrupt(`the segment ends within the header at position ${this.position}`);
    // Behind big batches only headers are worth reading.
    const want = this.#lastBytes > CHUNK / 2 ? BATCH_HEADER_BYTES : this.#chunk;
    const bytes = Buffer.allocUnsafeSlow(Math.min(want, left));
    const got = await this.#file.read(bytes, 0, bytes.length, this.position);
    if (got < BATCH_HEADER_BYTES) throw corrupt(`${this.#file.path} is shorter than it was`);
    this.#chunk = CHUNK;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, got);
    this.#begins = this.position;
    this.#ends = this.position + got;
    return true;
  }
}

const WHOLE_CHUNK = 1 << 20;

/** Offsets from which on more is known of batches. */
interface WalkBounds {
  readonly denseFrom: number;
  readonly epochsFrom: number;
  readonly latestEpoch: number;
}

/** Reads a segment through a buffer and checks each batch whole: header, checksum, from `epochsFrom` on leader epochs that do not
 * descend nor pass `latestEpoch`, offsets that ascend, and from `denseFrom` on leave none out (a walk that begins in the middle
 * can't tell of its first batch). As BatchWalker. */
export class CheckedWalker {
  readonly #file: JsFile;
  readonly #baseOffset: number;
  readonly #limit: number;
  position: number;
  #lastOffset: number;
  readonly #from: WalkBounds;
  #epoch = -1;
  #knowsLast: boolean;
  #begins = 0;
  #bytes: Buffer = Buffer.alloc(0);
  #view: DataView = new DataView(new ArrayBuffer(0));
  /** Bytes from `position` on that the next batch takes. */
  #wanted = BATCH_HEADER_BYTES;

  constructor(file: JsFile, segmentBaseOffset: number, position: number, limit: number, from: WalkBounds) {
    this.#file = file;
    this.#baseOffset = segmentBaseOffset;
    this.position = position;
    this.#limit = limit;
    this.#lastOffset = segmentBaseOffset - 1;
    this.#from = from;
    this.#knowsLast = position === 0;
  }

  take(): StoredBatch | undefined {
    if (this.position >= this.#limit || !this.#has(BATCH_HEADER_BYTES)) return undefined;
    const at = this.position - this.#begins;
    const batch = new StoredBatch(this.#view, at, this.position);
    const fault = batch.fault(this.#baseOffset, this.#limit);
    if (fault !== undefined) throw corrupt(fault);
    if (batch.baseOffset <= this.#lastOffset) throw this.#fault('does not come after the one before it');
    // No checksum covers the base offset, nor the leader epoch.
    const next = this.#lastOffset + 1;
    if (this.#knowsLast && batch.baseOffset > next && batch.baseOffset > this.#from.denseFrom)
      throw this.#fault(`leaves out offsets from ${next} on`);
    if (batch.baseOffset >= this.#from.epochsFrom) {
      if (batch.leaderEpoch < this.#epoch)
        throw this.#fault('is of an earlier leader epoch than the one before it');
      if (batch.leaderEpoch > this.#from.latestEpoch)
        throw this.#fault('is of a leader epoch that has not begun');
      this.#epoch = batch.leaderEpoch;
    }
    this.#wanted = batch.bytes;
    if (!this.#has(batch.bytes)) return undefined;
    if (crc32c(this.#bytes, at + ATTRIBUTES_AT, at + batch.bytes) !== batch.crc)
      throw this.#fault('has a wrong checksum');
    this.#lastOffset = batch.lastOffset;
    this.#knowsLast = true;
    this.position += batch.bytes;
    this.#wanted = BATCH_HEADER_BYTES;
    return batch;
  }

  async fill(): Promise<boolean> {
    const left = this.#limit - this.position;
    if (left <= 0) return false;
    if (left < BATCH_HEADER_BYTES) throw this.#fault('is cut off within its header');
    const length = Math.min(Math.max(this.#wanted, WHOLE_CHUNK), left);
    this.#bytes = await this.#file.readAll(length, this.position);
    this.#view = new DataView(this.#bytes.buffer, this.#bytes.byteOffset, length);
    this.#begins = this.position;
    return true;
  }

  #has(length: number): boolean {
    return this.position >= this.#begins && this.position + length <= this.#begins + this.#bytes.length;
  }

  #fault(what: string): BroadsheetError {
    return corrupt(`the batch at position ${this.position} ${what}`);
  }
}

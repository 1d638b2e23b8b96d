/**
 * What is asked of the bytes of one produced batch: whether they are sound, and what they say. Each engine has its own
 * (LogEngine.inspector); all answer alike, to the letter.
 */
import type { BroadsheetError } from '../runtime/errors.ts';
import type { BatchInfo } from './log.ts';

export type Mutable<T> = { -readonly [K in keyof T]: T[K] };

/** The object is used again by the next call of any inspector: read it at once. */
export interface BatchFacts extends Mutable<BatchInfo> {
  baseTimestamp: number;
  /** Codec id: attribute bits 0 to 2. */
  compression: number;
  /** Whether the records were walked: what follows is of the last walk. */
  walked: boolean;
  recordsMaxTimestamp: number;
  /** The first record that has it. */
  recordsMaxIndex: number;
  /** The first record without a key, -1: none. */
  nullKeyIndex: number;
  /** The first record that is refused, -1: none is to blame. */
  invalidIndex: number;
  /** Of the first record outside the bounds, ms; -1: none is. */
  invalidTimestamp: number;
  /** BATCH_CORRUPT (Kafka's CORRUPT_MESSAGE), BATCH_INVALID (INVALID_RECORD), BATCH_TOO_LARGE or TIMESTAMP_INVALID. */
  fault: BroadsheetError | undefined;
}

export interface BatchInspector {
  /**
   * Checks what a producer sent for one partition: exactly one whole v2 batch (an incomplete one behind it is left
   * alone), in Kafka's order: frame, one batch, base offset 0, size, CRC, counts; then the records, unless they are
   * compressed. Timestamps must lie in [oldest, newest] (ms; -Infinity and Infinity: no bound). The header's facts hold
   * after a fault too, unless sizeInBytes is 0. Control and transactional batches pass: the caller judges them.
   */
  inspectBatch(
    bytes: Uint8Array,
    start: number,
    end: number,
    maxMessageBytes: number,
    oldest: number,
    newest: number,
  ): BatchFacts;
  /** The same walk over the decompressed records of a batch; only the facts of records and the fault are of this call.
   * BATCH_INVALID or TIMESTAMP_INVALID. */
  walkRecords(
    records: Uint8Array,
    start: number,
    end: number,
    count: number,
    baseTimestamp: number,
    oldest: number,
    newest: number,
  ): BatchFacts;
  /** Sets the timestamp type and maxTimestamp of the one batch in [start, end), and makes its CRC fit. Throws
   * INVALID_ARGUMENT when it holds no single batch. */
  patchBatch(
    bytes: Uint8Array,
    start: number,
    end: number,
    logAppendTime: boolean,
    maxTimestamp: number,
  ): void;
}

export function noFacts(): BatchFacts {
  return {
    baseOffset: 0,
    lastOffset: 0,
    maxTimestamp: 0,
    producerId: 0,
    producerEpoch: 0,
    baseSequence: 0,
    recordCount: 0,
    attributes: 0,
    leaderEpoch: 0,
    sizeInBytes: 0,
    baseTimestamp: 0,
    compression: 0,
    walked: false,
    recordsMaxTimestamp: 0,
    recordsMaxIndex: 0,
    nullKeyIndex: 0,
    invalidIndex: 0,
    invalidTimestamp: 0,
    fault: undefined,
  };
}

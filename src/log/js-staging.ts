/** Batches that were taken and wait to be written: one group per segment file that they go to. */
import { BATCH_HEADER_BYTES, LOG_OVERHEAD_BYTES } from '../protocol/records/batch.ts';
import { writeInt64 } from '../protocol/records/int64.ts';
import { BroadsheetError } from '../runtime/errors.ts';
import type { OffsetEntry, TimeEntry } from './js-index.ts';
import { type Int64, int64At } from './js-records.ts';
import { emptyTail, extendTail, type JsSegment, type MutableTail, type SegmentTail } from './js-segment.ts';
import type { LogOptions } from './log.ts';

const MAX_INT32 = 2 ** 31 - 1;
const OFFSET_ENTRY_BYTES = 8;
const TIME_ENTRY_BYTES = 12;

export interface StagedSegment {
  readonly baseOffset: number;
  readonly isNew: boolean;
  /** Of the first byte. */
  readonly position: number;
  /** After them. */
  readonly tail: MutableTail;
  readonly parts: Uint8Array[];
  /** Last offset and end of each, in a row. */
  readonly ends: number[];
  readonly offsets: OffsetEntry[];
  readonly times: TimeEntry[];
  /** Once it is written. */
  segment: JsSegment | undefined;
}

function begin(baseOffset: number, isNew: boolean, tail: SegmentTail): StagedSegment {
  return {
    baseOffset,
    isNew,
    position: tail.size,
    tail: { ...tail },
    parts: [],
    ends: [],
    offsets: [],
    times: [],
    segment: undefined,
  };
}

function minus(a: Int64, b: Int64): number {
  return typeof a === 'number' && typeof b === 'number' ? a - b : Number(BigInt(a) - BigInt(b));
}

export class Staging {
  #options!: LogOptions;
  #groups: StagedSegment[] = [];
  endOffset: number;

  constructor(options: LogOptions, endOffset: number) {
    this.setOptions(options);
    this.endOffset = endOffset;
  }

  get empty(): boolean {
    return this.#groups.length === 0;
  }

  /** Base offset of the segment that the last batch goes to. */
  get lastSegment(): number | undefined {
    return this.#groups.at(-1)?.baseOffset;
  }

  setOptions(options: LogOptions): void {
    this.#options = { ...options, segmentBytes: Math.min(options.segmentBytes, MAX_INT32) };
  }

  /** Begins a segment at the end. */
  roll(now: number): void {
    this.#groups.push(begin(this.endOffset, true, emptyTail(now)));
  }

  /** Takes one checked v2 batch behind the segment that begins at activeBase and ends with `tail`; whether a segment begins
   * with it. */
  add(
    bytes: Uint8Array,
    start: number,
    end: number,
    leaderEpoch: number,
    now: number,
    activeBase: number,
    tail: SegmentTail,
  ): boolean {
    if (start < 0 || start > end || end > bytes.length)
      throw new BroadsheetError('INVALID_ARGUMENT', 'start and end must lie within the bytes');
    if (end - start < BATCH_HEADER_BYTES)
      throw new BroadsheetError('INVALID_ARGUMENT', "less than a batch's header");
    const view = new DataView(bytes.buffer, bytes.byteOffset + start, end - start);
    const size = view.getInt32(8) + LOG_OVERHEAD_BYTES;
    const lastOffsetDelta = view.getInt32(23);
    if (view.getInt8(16) !== 2 || size < BATCH_HEADER_BYTES || size > end - start || lastOffsetDelta < 0)
      throw new BroadsheetError('INVALID_ARGUMENT', 'not a checked batch');
    const { segmentBytes, indexIntervalBytes } = this.#options;
    if (size > segmentBytes) {
      throw new BroadsheetError(
        'BATCH_TOO_LARGE',
        `${size} bytes do not fit into a segment of ${segmentBytes}`,
      );
    }
    let group = this.#groups.at(-1);
    if (group === undefined) {
      group = begin(activeBase, false, tail);
      this.#groups.push(group);
    }
    const { endOffset } = this;
    const lastOffset = endOffset + lastOffsetDelta;
    const maxTimestamp = int64At(view, 35);
    const rolled = this.#mustRoll(group, lastOffset, size, maxTimestamp, now);
    if (rolled) {
      group = begin(endOffset, true, emptyTail(now));
      this.#groups.push(group);
    }
    writeInt64(view, 0, endOffset);
    view.setInt32(12, leaderEpoch);
    extendTail(group.tail, lastOffset, size, maxTimestamp, indexIntervalBytes, group.offsets, group.times);
    group.parts.push(
      end - start === size && start === 0 && bytes.length === size
        ? bytes
        : bytes.subarray(start, start + size),
    );
    group.ends.push(lastOffset, group.tail.size);
    this.endOffset = lastOffset + 1;
    return rolled;
  }

  #mustRoll(
    { tail, baseOffset }: StagedSegment,
    lastOffset: number,
    size: number,
    maxTimestamp: Int64,
    now: number,
  ): boolean {
    const { segmentBytes, segmentMs, indexBytes } = this.#options;
    if (lastOffset - baseOffset > MAX_INT32) return true;
    if (tail.size === 0) return false;
    if (tail.size > segmentBytes - size) return true;
    const waited = tail.firstTimestamp >= 0 ? minus(maxTimestamp, tail.firstTimestamp) : now - tail.createdAt;
    if (waited > segmentMs) return true;
    // The last slot of the time index is for the entry that a roll adds.
    return (
      tail.offsetEntries >= Math.floor(indexBytes / OFFSET_ENTRY_BYTES) ||
      tail.timeEntries >= Math.floor(indexBytes / TIME_ENTRY_BYTES) - 1
    );
  }

  /** Hands over what is staged, and has none any more. */
  take(): StagedSegment[] {
    const groups = this.#groups;
    this.#groups = [];
    return groups;
  }
}

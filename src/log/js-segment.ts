/**
 * One segment of a log: `%020d.log` and its two indexes. Knows where an offset lies and what a run of batches holds; the
 * log decides what is written. What may wait for a disk is a promise, and is told how many bytes of the segment are to
 * be believed. What native/segment.* is.
 */
import { BATCH_HEADER_BYTES } from '../protocol/records/batch.ts';
import { BroadsheetError } from '../runtime/errors.ts';
import { BatchWalker, corrupt, parseBatch, type StoredBatch } from './js-batch.ts';
import { CachedFile, descriptors, type Folder } from './js-descriptors.ts';
import { type JsFile, statPath } from './js-file.ts';
import { type OffsetEntry, OffsetIndex, type TimeEntry, TimeIndex } from './js-index.ts';
import { Positions } from './js-positions.ts';
import type { Int64 } from './js-records.ts';
import { segmentFileName } from './segment-names.ts';

const MAX_INT32 = 2 ** 31 - 1;
/** Of reading a range for the page cache, bytes at a time. */
const SCRATCH_BYTES = 256 * 1024;

/** Whether a log goes on after a failure: nothing was damaged, there was only too little of something. */
export function passes({ code }: BroadsheetError): boolean {
  return code === 'NO_SPACE' || code === 'LIMIT';
}

/** Waits for what may fail so. */
export async function unlessShort(work: Promise<void>): Promise<void> {
  await work.catch((error: unknown) => {
    if (!(error instanceof BroadsheetError) || !passes(error)) throw error;
  });
}

/** What is known about the end of a segment that is written to. A value: a failed tick is undone by taking the old one. */
export interface SegmentTail {
  readonly size: number;
  readonly bytesSinceIndexEntry: number;
  /** Of all batches. */
  readonly maxTimestamp: Int64;
  /** Last offset of the first batch that has it. */
  readonly maxTimestampOffset: number;
  /** maxTimestamp of the first batch; segment.ms counts from it. */
  readonly firstTimestamp: Int64;
  /** ms; segment.ms counts from here when firstTimestamp is < 0. */
  readonly createdAt: number;
  readonly offsetEntries: number;
  readonly timeEntries: number;
  /** Its timestamp. */
  readonly lastTimeEntry: Int64;
}

export function emptyTail(createdAt = 0): SegmentTail {
  return {
    size: 0,
    bytesSinceIndexEntry: 0,
    maxTimestamp: -1,
    maxTimestampOffset: -1,
    firstTimestamp: -1,
    createdAt,
    offsetEntries: 0,
    timeEntries: 0,
    lastTimeEntry: -1,
  };
}

export type MutableTail = { -readonly [K in keyof SegmentTail]: SegmentTail[K] };

/** Adds a batch at the tail's end: gives the index entries that it brings, Kafka's way. */
export function extendTail(
  tail: MutableTail,
  lastOffset: number,
  bytes: number,
  maxTimestamp: Int64,
  indexInterval: number,
  offsets: OffsetEntry[],
  times: TimeEntry[],
): void {
  if (tail.size === 0) tail.firstTimestamp = maxTimestamp;
  if (maxTimestamp > tail.maxTimestamp) {
    tail.maxTimestamp = maxTimestamp;
    tail.maxTimestampOffset = lastOffset;
  }
  if (tail.bytesSinceIndexEntry > indexInterval) {
    offsets.push({ offset: lastOffset, position: tail.size });
    tail.offsetEntries++;
    if (tail.maxTimestamp > tail.lastTimeEntry) {
      times.push({ timestamp: tail.maxTimestamp, offset: tail.maxTimestampOffset });
      tail.timeEntries++;
      tail.lastTimeEntry = tail.maxTimestamp;
    }
    tail.bytesSinceIndexEntry = 0;
  }
  tail.bytesSinceIndexEntry += bytes;
  tail.size += bytes;
}

export class JsSegment {
  readonly baseOffset: number;
  readonly log: CachedFile;
  readonly offsets: OffsetIndex;
  readonly times: TimeIndex;
  readonly positions = new Positions();
  active = false;
  /** Bytes, once it is closed. */
  closedSize = 0;
  readonly #indexInterval: number;
  #indexBroken = false;
  #rebuild: Promise<void> | undefined;
  #largest: { readonly size: number; readonly batch: StoredBatch | undefined } | undefined;

  /** `suffix` follows the names of its files: `.cleaned` for one that waits to be put into a log. */
  constructor(folder: Folder, baseOffset: number, indexInterval: number, suffix = '') {
    const named = (kind: string) => segmentFileName(baseOffset, kind) + suffix;
    this.baseOffset = baseOffset;
    this.log = new CachedFile(folder, named('.log'));
    this.offsets = new OffsetIndex(folder, named('.index'), baseOffset);
    this.times = new TimeIndex(folder, named('.timeindex'), baseOffset);
    this.#indexInterval = indexInterval;
  }

  /** Takes the files of a closed segment as they are found. */
  async adopt(): Promise<void> {
    const { offsets, times } = this;
    this.closedSize = (await statPath(this.log.path)).size;
    if (this.closedSize > MAX_INT32) throw corrupt(`${this.log.path} is larger than a segment can be`);
    for (const { entries } of [offsets, times]) entries.adoptClosed((await statPath(entries.file.path)).size);
  }

  /** Gives its files, the transaction index with them, names that end in `to` instead of `from`; the segment itself comes last.
   * Who reads it goes on. Gives the new names of those that there are. */
  renameNow(from: string, to: string): string[] {
    const transactions = new CachedFile(
      this.log.folder,
      segmentFileName(this.baseOffset, '.txnindex') + from,
    );
    const files = [transactions, this.offsets.entries.file, this.times.entries.file, this.log];
    return files
      .filter((file) => file.renameNow(file.name.slice(0, file.name.length - from.length) + to))
      .map((file) => file.name);
  }

  get #cached(): CachedFile[] {
    return [this.log, this.offsets.entries.file, this.times.entries.file];
  }

  /** Ends the files of its indexes. Short of space they stay short, which is allowed: what is missing is kept in memory and
   * written later. */
  async finishIndexes(): Promise<void> {
    await unlessShort(this.offsets.entries.finish());
    await unlessShort(this.times.entries.finish());
  }

  /** Closes its files for good. */
  release(): void {
    for (const file of this.#cached) file.release();
    this.positions.clear();
  }

  /** Closes its files: they are opened again when they are needed. */
  closeFiles(): void {
    for (const file of this.#cached) descriptors.drop(file);
  }

  /** Reads the bytes from one position to another, and leaves the file open, so that a read on the loop finds both. Throws IO,
   * and CORRUPT where the file is shorter. */
  async readThrough(from: number, to: number): Promise<void> {
    await this.withFile(async (file) => {
      if (from >= to) return;
      const scratch = Buffer.allocUnsafeSlow(Math.min(SCRATCH_BYTES, to - from));
      try {
        for (let at = from; at < to; at += scratch.length)
          await file.readInto(scratch.subarray(0, Math.min(scratch.length, to - at)), at);
        file.suspect = false;
      } catch (error) {
        file.failed();
        throw error;
      }
    });
  }

  /** Runs `work` with the open file. */
  async withFile<T>(work: (file: JsFile) => Promise<T>): Promise<T> {
    const file = await this.log.open();
    try {
      return await work(file);
    } finally {
      file.release();
    }
  }

  /** The first batch whose last offset is >= offset, among those in the first `size` bytes. An index that does not check out
   * is made again. Throws CORRUPT. */
  async locate(offset: number, size: number): Promise<StoredBatch | undefined> {
    let position = 0;
    if (!this.#indexBroken) position = await this.#positionBelow(offset, size);
    // The index of the segment that is written to was checked when it was opened: without it, the search is only long.
    if (this.#indexBroken && !this.active) {
      await this.rebuildIndexes(size);
      position = await this.#positionBelow(offset, size);
    }
    return this.withFile(async (file) => {
      const walker = new BatchWalker(file, this.baseOffset, position, size);
      const walked: StoredBatch[] = [];
      let hit: StoredBatch | undefined;
      // Behind a gap, as compaction leaves one, or altered: what comes next tells.
      const isCertain = () => hit !== undefined && (hit.baseOffset <= offset || walked.at(-1) !== hit);
      try {
        do {
          for (let batch = walker.take(); batch !== undefined; batch = walker.take()) {
            walked.push(batch);
            // What else was read is worth remembering.
            if (hit === undefined && batch.lastOffset >= offset) hit = batch;
          }
          if (walked.length > MOST_REMEMBERED) walked.splice(0, walked.length - MOST_REMEMBERED);
        } while (!isCertain() && (await walker.fill()));
      } catch (error) {
        const isDoubtful = walker.descends && !isCertain();
        if (walker.descends) walked.pop();
        if (hit === undefined || isDoubtful) throw error;
      } finally {
        this.positions.learn(walked);
      }
      return hit;
    });
  }

  /** Where to begin the search for an offset: the position of a batch that begins at or before it. */
  async #positionBelow(offset: number, size: number): Promise<number> {
    let entry: OffsetEntry | undefined;
    try {
      entry = await this.offsets.lookup(offset);
    } catch (error) {
      if ((error as BroadsheetError).code === 'LIMIT') throw error;
    }
    if (entry !== undefined) {
      const { position } = entry;
      if (position === 0) return 0;
      if (position > 0 && position <= size - BATCH_HEADER_BYTES) {
        const header = Buffer.allocUnsafe(BATCH_HEADER_BYTES);
        const got = await this.withFile((file) => file.read(header, 0, header.length, position));
        const batch = parseBatch(header, 0, position);
        if (
          got === header.length &&
          batch.fault(this.baseOffset, size) === undefined &&
          batch.baseOffset <= entry.offset
        )
          return position;
      } else if (this.active && position > 0) {
        // A snapshot of the segment that is older than its index.
        return 0;
      }
    }
    this.#indexBroken = true;
    return 0;
  }

  distrustIndexes(): void {
    this.#indexBroken = true;
  }

  /** Makes both indexes again, when they do not check out, from the headers in the first `size` bytes. */
  rebuildIndexes(size: number): Promise<void> {
    this.#rebuild ??= this.#rebuildIndexes(size).finally(() => {
      this.#rebuild = undefined;
    });
    return this.#rebuild;
  }

  async #rebuildIndexes(size: number): Promise<void> {
    if (!this.#indexBroken) return;
    const tail: MutableTail = emptyTail();
    const offsets: OffsetEntry[] = [];
    const times: TimeEntry[] = [];
    await this.walk(0, size, ({ lastOffset, bytes, maxTimestamp }) => {
      extendTail(tail, lastOffset, bytes, maxTimestamp, this.#indexInterval, offsets, times);
      return true;
    }).catch((error: unknown) => {
      // What cannot be read now will not be found later either: the index ends before it.
      if ((error as BroadsheetError).code !== 'CORRUPT') throw error;
    });
    if (tail.maxTimestamp > tail.lastTimeEntry)
      times.push({ timestamp: tail.maxTimestamp, offset: tail.maxTimestampOffset });
    await this.offsets.replace(offsets);
    await this.times.replace(times);
    this.#indexBroken = false;
  }

  /** Calls `visit` with the batches from `position` on, until it gives false. Throws CORRUPT at what is none. */
  walk(position: number, size: number, visit: (batch: StoredBatch) => boolean): Promise<void> {
    return this.withFile(async (file) => {
      const walker = new BatchWalker(file, this.baseOffset, position, size);
      do {
        for (let batch = walker.take(); batch !== undefined; batch = walker.take()) if (!visit(batch)) return;
      } while (await walker.fill());
    });
  }

  /** The first batch, among those in the first `size` bytes that hold records, that has their largest timestamp. Closed
   * segments remember the answer. */
  async largestTimestamp(size: number): Promise<StoredBatch | undefined> {
    if (this.#largest?.size === size) return this.#largest.batch;
    let best: StoredBatch | undefined;
    let position = 0;
    // The time index names the batch; whether it is right is seen at the batch, and what came after the last entry is read.
    // When it is not right all headers are read.
    const named = await this.#lastNamed(size);
    if (named !== undefined) {
      best = named;
      position = named.position;
    }
    await this.walk(position, size, (batch) => {
      if (batch.recordCount > 0 && (best === undefined || batch.maxTimestamp > best.maxTimestamp))
        best = batch;
      return true;
    });
    this.#largest = { size, batch: best };
    return best;
  }

  async #lastNamed(size: number): Promise<StoredBatch | undefined> {
    try {
      const entry = await this.times.last();
      if (entry.timestamp < 0) return undefined;
      const batch = await this.locate(entry.offset, size);
      return batch !== undefined && batch.maxTimestamp === entry.timestamp && batch.recordCount > 0
        ? batch
        : undefined;
    } catch (error) {
      if (error instanceof BroadsheetError) return undefined;
      throw error;
    }
  }
}

/** Batches of one walk: enough for a read and what follows it. */
const MOST_REMEMBERED = 4096;

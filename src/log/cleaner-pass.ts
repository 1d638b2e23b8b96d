/**
 * One cleaning of one log, over the files of its closed segments: learns the last offset of each key in the dirty part, then writes
 * what is left of all segments up to there beside them, under names that end in `.cleaned`. Changes nothing else: the log
 * takes them in (Log.replaceSegments). Runs in the cleaner's thread.
 */
import { crc32c } from '../protocol/crc32c.ts';
import {
  ATTRIBUTES_AT,
  BATCH_HEADER_BYTES,
  BatchHeader,
  LOG_OVERHEAD_BYTES,
} from '../protocol/records/batch.ts';
import { BroadsheetError } from '../runtime/errors.ts';
import { type CleanerEngine, loadCleanerEngine } from './cleaner-engine.ts';
import { BatchFilter, controlTypeOf, type LastRecord, recordsOf } from './cleaner-filter.ts';
import { OffsetMap } from './cleaner-map.ts';
import { CleanedTransactions } from './cleaner-transactions.ts';
import { corrupt } from './js-batch.ts';
import { JsFile, removeFile, setModified } from './js-file.ts';
import type { OffsetEntry, TimeEntry } from './js-index.ts';
import { CLEANED_SUFFIX } from './js-replace.ts';
import { emptyTail, extendTail, type MutableTail } from './js-segment.ts';
import type { LogEngine } from './log.ts';
import { segmentFileName } from './segment-names.ts';
import { type AbortedTransaction, encodeEntries } from './txn-index.ts';

const CHUNK_BYTES = 1 << 20;
const MAX_INT32 = 2 ** 31 - 1;
const OFFSET_ENTRY_BYTES = 8;
const TIME_ENTRY_BYTES = 12;

export interface SegmentToClean {
  readonly baseOffset: number;
  /** Where the next one begins. */
  readonly endOffset: number;
  readonly sizeInBytes: number;
  /** ms since the epoch. */
  readonly lastModified: number;
}

export interface CleanJob {
  /** Whose CleanerEngine works. */
  readonly engine: LogEngine['name'];
  readonly dir: string;
  /** Closed segments from the first on; the last one ends at or below what may be cleaned. */
  readonly segments: readonly SegmentToClean[];
  readonly firstDirtyOffset: number;
  readonly segmentBytes: number;
  readonly indexBytes: number;
  readonly indexIntervalBytes: number;
  /** ms since the epoch. */
  readonly now: number;
  readonly deleteRetentionMs: number;
  /** Memory of the key map, bytes. */
  readonly mapBytes: number;
  readonly mapLoadFactor: number;
  readonly aborted: readonly AbortedTransaction[];
  readonly lastRecords: readonly LastRecord[];
  /** Of the partition. */
  readonly highWatermark: number;
  /** Read and written together, on average. */
  readonly bytesPerSecond: number;
}

/** Segments, and the one that takes their place. */
export interface CleanedGroup {
  readonly old: readonly number[];
  readonly cleaned: number;
  /** CRC-32C of its transaction index; undefined if it has none. */
  readonly abortedChecksum: number | undefined;
  /** Offsets of markers of aborted transactions that are gone. */
  readonly goneMarkers: readonly number[];
}

export interface CleanResult {
  /** All below is clean. */
  readonly endOffset: number;
  readonly groups: readonly CleanedGroup[];
  readonly bytesBefore: number;
  readonly bytesAfter: number;
  readonly recordsRead: number;
  readonly recordsKept: number;
}

/** Waits as long as it takes to move so many bytes. */
export type Throttle = (bytes: number) => void;

/** Calls visit with each batch of a segment file, until it gives false. Throws CORRUPT. */
async function forEachBatch(
  engine: CleanerEngine,
  path: string,
  size: number,
  throttle: Throttle,
  visit: (batch: BatchHeader) => unknown,
  write?: () => void,
): Promise<void> {
  const file = await JsFile.open(path, 'read');
  try {
    let buffer = Buffer.allocUnsafeSlow(Math.min(CHUNK_BYTES, Math.max(size, 1)));
    let position = 0;
    /** Of the buffer: what is left of the read before, the beginning of a batch. */
    let begun = 0;
    while (position + begun < size) {
      const held = Math.min(buffer.length, size - position);
      await file.readInto(buffer.subarray(begun, held), position + begun);
      throttle(held - begun);
      let at = 0;
      let need = BATCH_HEADER_BYTES;
      while (at + BATCH_HEADER_BYTES <= held) {
        const batch = new BatchHeader(buffer, at);
        const bytes = batch.batchLength + LOG_OVERHEAD_BYTES;
        if (bytes < BATCH_HEADER_BYTES || position + at + bytes > size || batch.magic !== 2)
          throw corrupt(`${path}: no batch at position ${position + at}`);
        if (at + bytes > held) {
          need = bytes;
          break;
        }
        if (batch.crc !== engine.crc32c(buffer, at + ATTRIBUTES_AT, at + bytes))
          throw corrupt(`${path}: a wrong checksum at position ${position + at}`);
        if (visit(batch) === false) return;
        at += bytes;
      }
      // What was kept of this chunk is views of it.
      write?.();
      position += at;
      begun = held - at;
      if (begun > 0 && position + begun === size) throw corrupt(`${path} ends within a batch`);
      const next = need > buffer.length ? Buffer.allocUnsafeSlow(need) : buffer;
      buffer.copy(next, 0, at, held);
      buffer = next;
    }
  } finally {
    file.release();
  }
}

/** Learns keys from the dirty part until the map is full: its latestOffset says how far it came. */
async function buildMap(engine: CleanerEngine, job: CleanJob, throttle: Throttle): Promise<OffsetMap> {
  const { segments, firstDirtyOffset } = job;
  const end = segments[segments.length - 1]!.endOffset;
  const map = new OffsetMap(job.mapBytes, end - firstDirtyOffset, job.mapLoadFactor);
  map.latestOffset = firstDirtyOffset - 1;
  // Of one that ended before, the marker would not be met.
  const transactions = new CleanedTransactions(
    job.aborted.filter(({ lastOffset }) => lastOffset >= firstDirtyOffset),
  );
  let isFull = false;
  for (const { baseOffset, endOffset, sizeInBytes } of segments) {
    if (endOffset <= firstDirtyOffset) continue;
    if (isFull) break;
    await forEachBatch(
      engine,
      `${job.dir}/${segmentFileName(baseOffset, '.log')}`,
      sizeInBytes,
      throttle,
      (batch) => {
        if (batch.isControl) {
          if (batch.recordCount > 0) transactions.endsEmpty(batch, controlTypeOf(batch));
        } else if (
          !transactions.isAborted(batch) &&
          batch.recordCount > 0 &&
          batch.lastOffset >= firstDirtyOffset
        ) {
          // A batch is learned whole, so that the end of what is clean lies between batches.
          const { bytes, start, end } = recordsOf(batch);
          const { recordCount, baseOffset } = batch;
          isFull = !engine.learn(map, bytes, start, end, recordCount, baseOffset, firstDirtyOffset);
          if (isFull) return false;
        }
        if (batch.lastOffset >= firstDirtyOffset) map.latestOffset = batch.lastOffset;
        return true;
      },
    );
    if (!isFull && endOffset - 1 > map.latestOffset) map.latestOffset = endOffset - 1;
  }
  return map;
}

/** Runs of segments that fit into one, by size, index sizes and offsets. */
export function groupSegments(
  segments: readonly (SegmentToClean & { readonly indexBytes: number })[],
  segmentBytes: number,
  indexBytes: number,
): SegmentToClean[][] {
  const groups: SegmentToClean[][] = [];
  let size = 0;
  let index = 0;
  for (const segment of segments) {
    const group = groups[groups.length - 1];
    size += segment.sizeInBytes;
    index += segment.indexBytes;
    if (
      group !== undefined &&
      size <= segmentBytes &&
      index <= indexBytes &&
      segment.endOffset - group[0]!.baseOffset <= MAX_INT32
    ) {
      group.push(segment);
      continue;
    }
    groups.push([segment]);
    size = segment.sizeInBytes;
    index = segment.indexBytes;
  }
  return groups;
}

/** Writes one `.cleaned` segment with its indexes. */
class CleanedSegment {
  readonly #job: CleanJob;
  readonly #base: number;
  readonly #file: JsFile;
  readonly #throttle: Throttle;
  readonly #tail: MutableTail = emptyTail();
  readonly #offsets: OffsetEntry[] = [];
  readonly #times: TimeEntry[] = [];
  #parts: Uint8Array[] = [];
  #written = 0;

  private constructor(job: CleanJob, base: number, file: JsFile, throttle: Throttle) {
    this.#job = job;
    this.#base = base;
    this.#file = file;
    this.#throttle = throttle;
  }

  static path(job: CleanJob, base: number, suffix: string): string {
    return `${job.dir}/${segmentFileName(base, suffix)}${CLEANED_SUFFIX}`;
  }

  static async make(job: CleanJob, base: number, throttle: Throttle): Promise<CleanedSegment> {
    // What a kill or a full disk left.
    await CleanedSegment.remove(job, base);
    const file = await JsFile.open(CleanedSegment.path(job, base, '.log'), 'create-new');
    return new CleanedSegment(job, base, file, throttle);
  }

  static async remove(job: CleanJob, base: number): Promise<void> {
    for (const suffix of ['.log', '.index', '.timeindex', '.txnindex'])
      await removeFile(CleanedSegment.path(job, base, suffix)).catch(() => {});
  }

  get size(): number {
    return this.#tail.size;
  }

  append(bytes: Uint8Array): void {
    const header = new BatchHeader(bytes as Buffer);
    const { lastOffset, maxTimestamp } = header;
    const { indexIntervalBytes } = this.#job;
    extendTail(
      this.#tail,
      lastOffset,
      bytes.length,
      maxTimestamp,
      indexIntervalBytes,
      this.#offsets,
      this.#times,
    );
    this.#parts.push(bytes);
  }

  write(): void {
    this.#file.writeNow(this.#parts, this.#written);
    this.#throttle(this.#tail.size - this.#written);
    this.#written = this.#tail.size;
    this.#parts = [];
  }

  /** Gives the CRC-32C of the transaction index that it wrote, if any. */
  async finish(lastModified: number, aborted: readonly AbortedTransaction[]): Promise<number | undefined> {
    const job = this.#job;
    const { maxTimestamp, maxTimestampOffset, lastTimeEntry } = this.#tail;
    if (maxTimestamp > lastTimeEntry)
      this.#times.push({ timestamp: maxTimestamp, offset: maxTimestampOffset });
    this.write();
    await this.#file.fdatasync();
    await setModified(this.#file.path, lastModified);
    const offsets = Buffer.alloc(this.#offsets.length * OFFSET_ENTRY_BYTES);
    for (const [i, { offset, position }] of this.#offsets.entries()) {
      offsets.writeInt32BE(offset - this.#base, i * OFFSET_ENTRY_BYTES);
      offsets.writeInt32BE(position, i * OFFSET_ENTRY_BYTES + 4);
    }
    const times = Buffer.alloc(this.#times.length * TIME_ENTRY_BYTES);
    for (const [i, { timestamp, offset }] of this.#times.entries()) {
      times.writeBigInt64BE(BigInt(timestamp), i * TIME_ENTRY_BYTES);
      times.writeInt32BE(offset - this.#base, i * TIME_ENTRY_BYTES + 8);
    }
    await writeSynced(CleanedSegment.path(job, this.#base, '.index'), offsets);
    await writeSynced(CleanedSegment.path(job, this.#base, '.timeindex'), times);
    if (aborted.length === 0) return undefined;
    const entries = encodeEntries(aborted);
    await writeSynced(CleanedSegment.path(job, this.#base, '.txnindex'), entries);
    return crc32c(entries);
  }

  release(): void {
    this.#file.release();
  }
}

async function writeSynced(path: string, bytes: Uint8Array): Promise<void> {
  const file = await JsFile.open(path, 'create-new');
  try {
    if (bytes.length > 0) file.writeNow([bytes], 0);
    await file.fdatasync();
  } finally {
    file.release();
  }
}

/** Rejects with CORRUPT, NOT_FOUND, NO_SPACE, IO ...; what was written is removed then: it may be what fills the disk. */
export async function cleanSegments(job: CleanJob, throttle: Throttle): Promise<CleanResult> {
  const engine = await loadCleanerEngine(job.engine);
  const map = await buildMap(engine, job, throttle);
  const endOffset = map.latestOffset + 1;
  if (endOffset <= job.firstDirtyOffset)
    throw new BroadsheetError(
      'LIMIT',
      'one batch has more keys than log.cleaner.dedupe.buffer.size has room for',
    );
  const covered = job.segments.filter(({ baseOffset }) => baseOffset < endOffset);
  // About the entries that an index will have.
  const sized = covered.map((segment) => ({
    ...segment,
    indexBytes: Math.ceil(segment.sizeInBytes / Math.max(job.indexIntervalBytes, 1)) * TIME_ENTRY_BYTES,
  }));
  const transactions = new CleanedTransactions(job.aborted);
  const filter = new BatchFilter({
    engine,
    map,
    transactions,
    lastRecords: new Map(job.lastRecords.map((record) => [record.producerId, record])),
    now: job.now,
    deleteRetentionMs: job.deleteRetentionMs,
    highWatermark: job.highWatermark,
  });
  const groups: CleanedGroup[] = [];
  let bytesBefore = 0;
  let bytesAfter = 0;
  for (const group of groupSegments(sized, job.segmentBytes, job.indexBytes)) {
    const base = group[0]!.baseOffset;
    const cleaned = await CleanedSegment.make(job, base, throttle);
    /** Offsets of control batches that stay. */
    const markers = new Set<number>();
    let ended: readonly AbortedTransaction[];
    let abortedChecksum: number | undefined;
    try {
      for (const { baseOffset, sizeInBytes } of group) {
        bytesBefore += sizeInBytes;
        await forEachBatch(
          engine,
          `${job.dir}/${segmentFileName(baseOffset, '.log')}`,
          sizeInBytes,
          throttle,
          (batch) => {
            const kept = filter.clean(batch);
            if (kept === undefined) return;
            cleaned.append(kept);
            // One that stays empty ends nothing any more.
            if (batch.isControl && kept.length > BATCH_HEADER_BYTES) markers.add(batch.lastOffset);
          },
          () => {
            cleaned.write();
            filter.written();
          },
        );
      }
      const { lastModified, endOffset: groupEnd } = group[group.length - 1]!;
      ended = job.aborted.filter(({ lastOffset }) => lastOffset >= base && lastOffset < groupEnd);
      const aborted = ended.filter(({ lastOffset }) => markers.has(lastOffset));
      abortedChecksum = await cleaned.finish(lastModified, aborted);
    } catch (error) {
      for (const each of [...groups.map((made) => made.cleaned), base])
        await CleanedSegment.remove(job, each);
      throw error;
    } finally {
      cleaned.release();
    }
    bytesAfter += cleaned.size;
    groups.push({
      old: group.map((each) => each.baseOffset),
      cleaned: base,
      abortedChecksum,
      goneMarkers: ended.flatMap(({ lastOffset }) => (markers.has(lastOffset) ? [] : lastOffset)),
    });
  }
  const { recordsRead, recordsKept } = filter;
  return { endOffset, groups, bytesBefore, bytesAfter, recordsRead, recordsKept };
}

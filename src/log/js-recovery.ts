/**
 * Opening a log: what a crash, a compaction or Apache Kafka left in its folder is put in order, what may be torn is
 * scanned, and the end is found. What native/log_open.cc does, step by step.
 */
import { BATCH_HEADER_BYTES } from '../protocol/records/batch.ts';
import { BroadsheetError } from '../runtime/errors.ts';
import { parentOf } from './folder-names.ts';
import { BatchWalker, CheckedWalker, corrupt, parseBatch } from './js-batch.ts';
import { Folder } from './js-descriptors.ts';
import {
  type FolderEntry,
  JsFile,
  listFolder,
  makeFolder,
  removeFile,
  renamePath,
  statPath,
  syncFolder,
} from './js-file.ts';
import type { OffsetEntry, TimeEntry } from './js-index.ts';
import { Quarantine } from './js-quarantine.ts';
import { emptyTail, extendTail, JsSegment, type MutableTail, unlessShort } from './js-segment.ts';
import type { OpenOptions, RecoveryReport } from './log.ts';
import { offsetOfFileName, SEGMENT_SUFFIXES, segmentFileName } from './segment-names.ts';

const MAX_INT32 = 2 ** 31 - 1;
const INDEX_SUFFIXES = SEGMENT_SUFFIXES.filter((suffix) => suffix !== '.log');

/** Bytes of the files of a segment. */
interface SegmentFiles {
  log?: number;
  index?: number;
  timeindex?: number;
}

/** A log that was put in order. */
export interface OpenedLog {
  readonly folder: Folder;
  /** Ascending, never empty. */
  readonly segments: JsSegment[];
  /** Of the last one. */
  readonly tail: MutableTail;
  /** Of all but the last one. */
  readonly closedBytes: number;
  /** Closed segments whose indexes are not known to be on disk. */
  readonly unfinished: JsSegment[];
  readonly logStartOffset: number;
  readonly endOffset: number;
  readonly flushedOffset: number;
  readonly folderDirty: boolean;
  readonly recovery: RecoveryReport;
}

/** Opens or makes the log in a folder, which is made if missing. */
export async function openLog(dir: string, options: OpenOptions): Promise<OpenedLog> {
  const opener = new LogOpener(dir, options);
  try {
    return await opener.run();
  } catch (error) {
    opener.release();
    throw error;
  }
}

function codeOf(error: unknown): string {
  if (!(error instanceof BroadsheetError)) throw error;
  return error.code;
}

class LogOpener {
  readonly #dir: string;
  readonly #options: OpenOptions;
  readonly #folder: Folder;
  #recoveryPoint: number;
  #clean: boolean;
  #segments: JsSegment[] = [];
  readonly #files = new Map<number, SegmentFiles>();
  #tail: MutableTail = emptyTail();
  #closedBytes = 0;
  #unfinished: JsSegment[] = [];
  #endOffset = 0;
  #changed = false;
  #lastLoaded = false;
  #folderDirty = false;
  #bytesScanned = 0;
  #bytesTruncated = 0;
  #indexesRebuilt = 0;
  #fault: string | undefined;
  readonly #quarantine: Quarantine;

  constructor(dir: string, options: OpenOptions) {
    this.#dir = dir;
    this.#options = options;
    this.#folder = new Folder(dir);
    this.#quarantine = new Quarantine(dir);
    this.#recoveryPoint = options.recoveryPoint;
    this.#clean = options.cleanShutdown;
  }

  release(): void {
    for (const segment of this.#segments) segment.release();
  }

  async run(): Promise<OpenedLog> {
    const { logStartOffset, now } = this.#options;
    await this.#makeFolder();
    const entries = await listFolder(this.#dir);
    await this.#clearLeftovers(entries);
    await this.#list(this.#changed ? await listFolder(this.#dir) : entries);
    await this.#loadClosed();
    await this.#loadLast();
    if (this.#endOffset < logStartOffset) {
      // What is left lies before what readers may see: a power cut took the rest.
      this.#fault ??= `the log ends at offset ${this.#endOffset}, before its start at ${logStartOffset}`;
      await this.#removeFrom(0);
    }
    if (this.#segments.length === 0) this.#makeFirst();
    const active = this.#segments.at(-1)!;
    active.active = true;
    this.#tail.createdAt = now;
    return {
      folder: this.#folder,
      segments: this.#segments,
      tail: this.#tail,
      closedBytes: this.#closedBytes,
      unfinished: this.#unfinished,
      logStartOffset: Math.max(logStartOffset, this.#segments[0]!.baseOffset),
      endOffset: this.#endOffset,
      flushedOffset: this.#clean ? this.#endOffset : Math.min(this.#recoveryPoint, this.#endOffset),
      folderDirty: this.#folderDirty,
      recovery: {
        bytesScanned: this.#bytesScanned,
        bytesTruncated: this.#bytesTruncated,
        indexesRebuilt: this.#indexesRebuilt,
        ...(this.#fault === undefined ? {} : { fault: this.#fault + this.#quarantine.text() }),
      },
    };
  }

  #path(name: string): string {
    return `${this.#dir}/${name}`;
  }

  async #remove(name: string): Promise<void> {
    this.#changed = true;
    try {
      await removeFile(this.#path(name));
    } catch (error) {
      if (codeOf(error) !== 'NOT_FOUND') throw error;
    }
  }

  async #makeFolder(): Promise<void> {
    try {
      const facts = await statPath(this.#dir);
      if (!facts.isDirectory()) throw new BroadsheetError('IO', `${this.#dir} is not a folder`);
    } catch (error) {
      if (codeOf(error) !== 'NOT_FOUND') throw error;
      await makeFolder(this.#dir);
      await syncFolder(parentOf(this.#dir));
    }
  }

  /** .deleted: waited for its deletion. .cleaned: an unfinished compaction. .swap: a finished one that was about to replace
   * the segments that it covers. */
  async #clearLeftovers(entries: readonly FolderEntry[]): Promise<void> {
    let firstCleaned = Number.POSITIVE_INFINITY;
    const swaps: string[] = [];
    for (const { name, directory } of entries) {
      if (directory) continue;
      const offset = offsetOfFileName(name);
      if (name.endsWith('.deleted') && !name.endsWith('.checkpoint.deleted')) {
        await this.#remove(name);
      } else if (name.endsWith('.cleaned')) {
        if (offset !== undefined) firstCleaned = Math.min(firstCleaned, offset);
        await this.#remove(name);
      } else if (name.endsWith('.swap') && offset !== undefined) {
        swaps.push(name);
      }
    }
    // A swap file at or behind a .cleaned one belongs to a split that did not finish.
    const valid: string[] = [];
    for (const name of swaps) {
      if (offsetOfFileName(name)! < firstCleaned) valid.push(name);
      else await this.#remove(name);
    }
    for (const name of valid.filter((each) => each.endsWith('.log.swap'))) {
      const first = offsetOfFileName(name)!;
      const last = await this.#lastOffsetOf(name);
      for (const { name: other, directory } of entries) {
        const offset = offsetOfFileName(other);
        const covered = offset !== undefined && offset >= first && (offset === first || offset <= last);
        const ofSegment = SEGMENT_SUFFIXES.some((suffix) => other.endsWith(suffix));
        if (!directory && ofSegment && covered) await this.#remove(other);
      }
    }
    for (const name of valid) {
      this.#changed = true;
      await renamePath(this.#path(name), this.#path(name.slice(0, -'.swap'.length)));
    }
    if (this.#changed) await syncFolder(this.#dir);
  }

  async #lastOffsetOf(name: string): Promise<number> {
    let last = -1;
    const file = await JsFile.open(this.#path(name), 'read');
    try {
      const walker = new BatchWalker(file, offsetOfFileName(name)!, 0, await file.size());
      do {
        for (let batch = walker.take(); batch !== undefined; batch = walker.take()) last = batch.lastOffset;
      } while (await walker.fill());
    } catch (error) {
      if (codeOf(error) !== 'CORRUPT') throw error;
    } finally {
      file.release();
    }
    return last;
  }

  async #list(entries: readonly FolderEntry[]): Promise<void> {
    for (const { name, directory, size } of entries) {
      const offset = offsetOfFileName(name);
      if (directory || offset === undefined) continue;
      const files = this.#files.get(offset) ?? {};
      if (name === segmentFileName(offset, '.log')) {
        if (size > MAX_INT32) throw corrupt(`${this.#path(name)} is larger than a segment can be`);
        files.log = size;
      } else if (name === segmentFileName(offset, '.index')) {
        files.index = size;
      } else if (name === segmentFileName(offset, '.timeindex')) {
        files.timeindex = size;
      } else {
        continue;
      }
      this.#files.set(offset, files);
    }
    const offsets = [...this.#files.keys()].sort((a, b) => a - b);
    for (const offset of offsets) {
      const { log, index, timeindex } = this.#files.get(offset)!;
      if (log !== undefined) {
        const { indexIntervalBytes } = this.#options;
        this.#segments.push(new JsSegment(this.#folder, offset, indexIntervalBytes));
        continue;
      }
      // Indexes whose segment is gone.
      if (index !== undefined) await this.#remove(segmentFileName(offset, '.index'));
      if (timeindex !== undefined) await this.#remove(segmentFileName(offset, '.timeindex'));
    }
  }

  #filesOf(segment: JsSegment): SegmentFiles & { readonly log: number } {
    return this.#files.get(segment.baseOffset) as SegmentFiles & { readonly log: number };
  }

  /** All but the last segment; the last one too, and so those behind it, is left to loadLast when a cut is made. */
  async #loadClosed(): Promise<void> {
    for (let i = 0; i + 1 < this.#segments.length; i++) {
      const segment = this.#segments[i]!;
      const files = this.#filesOf(segment);
      segment.closedSize = files.log;
      // Flushed as a whole when the next one begins at or below the recovery point.
      if (this.#clean || this.#segments[i + 1]!.baseOffset <= this.#recoveryPoint) {
        await this.#adoptIndexes(segment, files);
      } else {
        const { tail, cut } = await this.#scan(segment, files);
        segment.closedSize = tail.size;
        if (cut || this.#lacksEnd(i)) {
          this.#ensureKnownEnd(segment, tail);
          // First those behind it: a kill in between leaves the damage for the next start to find.
          await this.#removeFrom(i + 1);
          await this.#cutTail(segment, files, tail);
          this.#tail = tail;
          this.#lastLoaded = true;
          break;
        }
        await segment.finishIndexes();
        this.#unfinished.push(segment);
      }
      this.#closedBytes += segment.closedSize;
    }
  }

  /** Whether the end of a segment that was scanned is missing, though what is there checks out: a power cut may take the last
   * writes and leave the name of the next segment. What lies behind must not be taken for what comes next. */
  #lacksEnd(i: number): boolean {
    const { dense = false, logStartOffset } = this.#options;
    const next = this.#segments[i + 1]!.baseOffset;
    if (!dense || this.#endOffset >= next || next <= logStartOffset) return false;
    this.#fault ??=
      `${this.#segments[i]!.log.name}: it ends at offset ${this.#endOffset}, ` +
      `and the next segment begins at ${next}`;
    return true;
  }

  /** Before anything is cut. */
  #ensureKnownEnd(segment: JsSegment, { size }: MutableTail): void {
    const { knownEnd = 0 } = this.#options;
    if (this.#endOffset >= knownEnd) return;
    const fault = this.#fault ?? `${segment.log.name}: it ends at position ${size}`;
    throw corrupt(
      `${this.#dir} is damaged: its log ends at offset ${this.#endOffset}, and is known to reach offset ${knownEnd} (${fault})`,
    );
  }

  async #adoptIndexes(segment: JsSegment, { log, index, timeindex }: SegmentFiles): Promise<void> {
    if (index !== undefined && timeindex !== undefined) {
      try {
        segment.offsets.entries.adoptClosed(index);
        segment.times.entries.adoptClosed(timeindex);
        return;
      } catch (error) {
        if (codeOf(error) !== 'CORRUPT') throw error;
      }
    }
    this.#indexesRebuilt++;
    segment.distrustIndexes();
    // Short of space it is tried again when somebody looks for something in that segment.
    await unlessShort(segment.rebuildIndexes(log!));
  }

  async #loadLast(): Promise<void> {
    const segment = this.#segments.at(-1);
    if (segment === undefined || this.#lastLoaded) return;
    const files = this.#filesOf(segment);
    if (this.#clean) {
      const { tail, cut } = await this.#walk(segment, files, false, Number.POSITIVE_INFINITY);
      this.#tail = tail;
      const { knownEnd = 0 } = this.#options;
      if (!cut && (knownEnd === 0 || this.#endOffset === knownEnd)) return;
      // Not so clean: the end does not check out.
      this.#clean = false;
      this.#recoveryPoint = Math.min(this.#recoveryPoint, segment.baseOffset);
    }
    this.#tail = (await this.#scan(segment, files)).tail;
    this.#ensureKnownEnd(segment, this.#tail);
    await this.#cutTail(segment, files, this.#tail);
  }

  /** Checks a segment from the recovery point on, finds the first bad batch and makes its indexes again. */
  #scan(
    segment: JsSegment,
    files: SegmentFiles & { readonly log: number },
  ): Promise<{ readonly tail: MutableTail; readonly cut: boolean }> {
    return this.#walk(segment, files, true, this.#recoveryPoint);
  }

  /** Cuts off what lies behind the last good batch. */
  async #cutTail(
    segment: JsSegment,
    files: SegmentFiles & { readonly log: number },
    { size }: MutableTail,
  ): Promise<void> {
    if (size === files.log) return;
    await segment.withFile(async (file) => {
      await this.#quarantine.keepTail(segmentFileName(segment.baseOffset, '.log'), file, size, files.log);
      await file.truncate(size);
    });
    this.#bytesTruncated += files.log - size;
  }

  /** Finds a segment's end: takes its indexes as far as they check out and lie below `trusted`, and reads on from there.
   * `cut` tells that it ends before its file does. */
  async #walk(
    segment: JsSegment,
    files: SegmentFiles & { readonly log: number },
    checked: boolean,
    trusted: number,
  ): Promise<{ readonly tail: MutableTail; readonly cut: boolean }> {
    const { indexIntervalBytes } = this.#options;
    const { baseOffset } = segment;
    this.#endOffset = baseOffset;
    const file = await segment.log.open();
    try {
      const begun =
        files.index !== undefined && files.timeindex !== undefined && trusted > baseOffset
          ? await this.#beginAtIndex(segment, files, file, checked, trusted)
          : undefined;
      const tail: MutableTail = begun ?? emptyTail();
      if (begun === undefined) {
        // A short segment has no entries, and nothing is lost by reading it again.
        const hadNone = files.index === 0 && files.timeindex !== undefined && trusted > baseOffset;
        if (files.log > 0 && !hadNone) this.#indexesRebuilt++;
        await segment.offsets.entries.truncate(0);
        await segment.times.entries.truncate(0);
      }
      const offsets: OffsetEntry[] = [];
      const times: TimeEntry[] = [];
      const begins = tail.size;
      const { firstTimestamp } = tail;
      const { dense, logStartOffset, latestLeaderEpoch } = this.#options;
      const bounds = {
        denseFrom: dense ? logStartOffset : Number.POSITIVE_INFINITY,
        epochsFrom: this.#recoveryPoint,
        latestEpoch: latestLeaderEpoch ?? Number.POSITIVE_INFINITY,
      };
      const walker = checked
        ? new CheckedWalker(file, baseOffset, begins, files.log, bounds)
        : new BatchWalker(file, baseOffset, begins, files.log);
      let cut = false;
      try {
        do {
          for (let batch = walker.take(); batch !== undefined; batch = walker.take()) {
            const { lastOffset, bytes, maxTimestamp } = batch;
            extendTail(tail, lastOffset, bytes, maxTimestamp, indexIntervalBytes, offsets, times);
            this.#endOffset = lastOffset + 1;
          }
        } while (await walker.fill());
      } catch (error) {
        if (codeOf(error) !== 'CORRUPT') throw error;
        cut = true;
        this.#fault ??= `${segment.log.name}: ${(error as Error).message}`;
      }
      if (begins !== 0) tail.firstTimestamp = firstTimestamp;
      if (checked) this.#bytesScanned += tail.size - begins;
      segment.offsets.append(offsets);
      segment.times.append(times);
      if (checked) {
        if (tail.maxTimestamp > tail.lastTimeEntry) {
          segment.times.append([{ timestamp: tail.maxTimestamp, offset: tail.maxTimestampOffset }]);
          tail.lastTimeEntry = tail.maxTimestamp;
          tail.timeEntries++;
        }
        await segment.finishIndexes();
      }
      return { tail, cut };
    } finally {
      file.release();
    }
  }

  /** The tail at the last index entry that can be trusted. Undefined when the walk has to begin at the start. */
  async #beginAtIndex(
    segment: JsSegment,
    files: SegmentFiles & { readonly log: number },
    file: JsFile,
    checked: boolean,
    trusted: number,
  ): Promise<MutableTail | undefined> {
    const { offsets, times, baseOffset } = segment;
    try {
      await offsets.adopt(files.index!, files.log, trusted);
      let entry = await offsets.last();
      // Nothing was dropped but perhaps a tail of zeros: there is just little in the segment. With the whole of it read
      // again, the time index is made again.
      if (offsets.count === 0) return undefined;
      await times.adopt(files.timeindex!, entry.offset);
      const time = await times.last();
      if (times.count === 0) return undefined;
      if (checked) {
        // A crash may have taken the end of the time index alone: what came behind its last entry is read again.
        await offsets.adopt(files.index!, files.log, time.offset + 1);
        entry = await offsets.last();
        if (offsets.count === 0) return undefined;
      }
      const { position } = entry;
      if (position > files.log - BATCH_HEADER_BYTES) return undefined;
      const batch = parseBatch(await file.readAll(BATCH_HEADER_BYTES, position), 0, position);
      if (batch.fault(baseOffset, files.log) !== undefined || batch.baseOffset > entry.offset)
        return undefined;
      const first = parseBatch(await file.readAll(BATCH_HEADER_BYTES, 0), 0, 0);
      if (first.fault(baseOffset, files.log) !== undefined) return undefined;
      return {
        ...emptyTail(),
        size: position,
        firstTimestamp: first.maxTimestamp,
        offsetEntries: offsets.count,
        timeEntries: times.count,
        maxTimestamp: time.timestamp,
        maxTimestampOffset: time.offset,
        lastTimeEntry: time.timestamp,
      };
    } catch (error) {
      codeOf(error);
      return undefined;
    }
  }

  /** The newest first: a kill leaves a beginning of the log. */
  async #removeFrom(first: number): Promise<void> {
    for (const segment of this.#segments.splice(first).reverse()) {
      segment.release();
      await this.#quarantine.keepWhole(segmentFileName(segment.baseOffset, '.log'));
      for (const suffix of INDEX_SUFFIXES) await this.#remove(segmentFileName(segment.baseOffset, suffix));
      this.#bytesTruncated += this.#filesOf(segment).log;
    }
    await syncFolder(this.#dir);
  }

  #makeFirst(): void {
    const { logStartOffset, indexIntervalBytes } = this.#options;
    this.#endOffset = logStartOffset;
    this.#tail = emptyTail();
    this.#closedBytes = 0;
    this.#unfinished = [];
    const segment = new JsSegment(this.#folder, logStartOffset, indexIntervalBytes);
    this.#segments.push(segment);
    this.#folderDirty = true;
    segment.log.openNow('create-new');
  }
}

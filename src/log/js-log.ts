/**
 * A log over node:fs: segments in a row, written at their end. stage() and commit() work on the loop, as those of
 * native/log.* do; reads on the loop answer from what is in memory (js-positions.ts), and cold for the rest.
 */
import { BroadsheetError } from '../runtime/errors.ts';
import { descriptors, type Folder } from './js-descriptors.ts';
import { type JsFile, removeNow, statPath } from './js-file.ts';
import type { OpenedLog } from './js-recovery.ts';
import { beginReplace, CLEANED_SUFFIX, exchange } from './js-replace.ts';
import { JsSegment, type MutableTail, passes } from './js-segment.ts';
import { type StagedSegment, Staging } from './js-staging.ts';
import { indexOf, LogView } from './js-view.ts';
import type {
  BatchInfo,
  Log,
  LogOptions,
  OpenOptions,
  ReadResult,
  RecoveryReport,
  SegmentFacts,
  Staged,
} from './log.ts';

const EMPTY: ReadResult = { kind: 'empty' };
const COLD: ReadResult = { kind: 'cold' };
const OUT_OF_RANGE: ReadResult = { kind: 'out-of-range' };
/** Look-ups that found nothing in memory, until somebody waits for them. */
const MOST_MISSES = 64;

/** Objects that every call on this thread uses again; see log.ts. */
const staged = { baseOffset: 0, rolled: false };

/** What a log asks of its engine. */
export interface LogHost {
  /** Something waits for commit(). */
  staged(log: JsLog): void;
  closed(log: JsLog): void;
  /** Keeps a file open until the turn ends; false when as many are kept as may be. */
  keep(file: JsFile): boolean;
}

/** What one flush does. */
interface FlushJob {
  /** To be synced. */
  readonly segments: readonly JsSegment[];
  /** Whose indexes get their last entries and are synced. */
  readonly closed: readonly JsSegment[];
  readonly syncFolder: Folder | undefined;
  /** Flushed offset when it succeeds. */
  readonly target: number;
}

function known(error: unknown): BroadsheetError {
  if (error instanceof BroadsheetError) return error;
  throw error;
}

async function runFlush(job: FlushJob): Promise<void> {
  for (const segment of job.segments) await segment.log.sync();
  for (const segment of job.closed) {
    await segment.finishIndexes();
    await segment.offsets.entries.sync();
    await segment.times.entries.sync();
  }
  await job.syncFolder?.sync();
}

export class JsLog implements Log {
  readonly recovery: RecoveryReport;
  logStartOffset: number;
  writtenOffset: number;
  flushedOffset: number;
  offline: BroadsheetError | undefined;
  failedFlushAt: number | undefined;
  readonly #host: LogHost;
  readonly #folder: Folder;
  readonly #indexInterval: number;
  readonly #openedAt: number;
  readonly #staging: Staging;
  #segments: JsSegment[];
  #tail: MutableTail;
  #closedBytes: number;
  #announced = false;
  /** Closed since the last flush began. */
  #unfinished: JsSegment[];
  #replacing = false;
  #wantsFlush = false;
  #folderDirty: boolean;
  /** The next flush begins at this segment, if flushedOffset does not lie before it: it was cut shorter, now or by a process that
   * was killed, and a power cut could bring back what was cut off. */
  #cutSegment: number;
  #flushing = false;
  #flushWaits: { resolve(): void; reject(error: BroadsheetError): void }[] = [];
  #closing: Promise<void> | undefined;
  /** Ends the wait of close() for the flush that runs. */
  #closeNow: (() => void) | undefined;
  readonly #misses = new Map<number, BroadsheetError | undefined>();

  constructor(host: LogHost, opened: OpenedLog, options: OpenOptions) {
    this.#host = host;
    this.#folder = opened.folder;
    this.#segments = opened.segments;
    this.#tail = opened.tail;
    this.#closedBytes = opened.closedBytes;
    this.#unfinished = opened.unfinished;
    this.#folderDirty = opened.folderDirty;
    this.#cutSegment = opened.segments.at(-1)!.baseOffset;
    this.logStartOffset = opened.logStartOffset;
    this.writtenOffset = opened.endOffset;
    this.#openedAt = opened.endOffset;
    this.flushedOffset = opened.flushedOffset;
    this.recovery = opened.recovery;
    this.#indexInterval = options.indexIntervalBytes;
    this.#staging = new Staging(options, opened.endOffset);
  }

  get dir(): string {
    return this.#folder.path;
  }
  get logEndOffset(): number {
    return this.#staging.endOffset;
  }
  get activeSegmentBaseOffset(): number {
    return this.#staging.lastSegment ?? this.#active.baseOffset;
  }
  get sizeInBytes(): number {
    return this.#closedBytes + this.#tail.size;
  }
  get #active(): JsSegment {
    return this.#segments[this.#segments.length - 1]!;
  }

  stage(bytes: Uint8Array, start: number, end: number, leaderEpoch: number, now: number): Staged {
    this.#writable();
    const baseOffset = this.#staging.endOffset;
    staged.rolled = this.#staging.add(
      bytes,
      start,
      end,
      leaderEpoch,
      now,
      this.#active.baseOffset,
      this.#tail,
    );
    staged.baseOffset = baseOffset;
    if (!this.#announced) {
      this.#announced = true;
      this.#host.staged(this);
    }
    return staged;
  }

  /** For the engine: writes what was staged. */
  commit(): BroadsheetError | undefined {
    this.#announced = false;
    const groups = this.#staging.take();
    try {
      for (const group of groups) this.#write(group);
    } catch (error) {
      const failure = known(error);
      if (!passes(failure)) this.offline = failure;
      this.#cutBack(groups);
      return failure;
    }
    for (const group of groups) this.#take(group);
    this.writtenOffset = this.#staging.endOffset;
    // Many dirty files would soon have to be synced in place, one by one.
    if (this.#wantsFlush || descriptors.crowded) this.#startFlush();
    return undefined;
  }

  #write(group: StagedSegment): void {
    let segment = this.#active;
    let file: JsFile;
    if (group.isNew) {
      segment = new JsSegment(this.#folder, group.baseOffset, this.#indexInterval);
      group.segment = segment;
      file = segment.log.openNow('create-new');
    } else {
      group.segment = segment;
      file = segment.log.openNow();
    }
    if (group.parts.length === 0) return;
    segment.log.markDirty();
    file.writeNow(group.parts, group.position);
  }

  #take(group: StagedSegment): void {
    if (group.isNew) this.#takeSegment(group.segment!);
    const segment = this.#active;
    if (group.offsets.length > 0) segment.offsets.append(group.offsets);
    if (group.times.length > 0) segment.times.append(group.times);
    let baseOffset = group.isNew ? group.baseOffset : this.writtenOffset;
    let { position } = group;
    for (let i = 0; i < group.ends.length; i += 2) {
      const lastOffset = group.ends[i]!;
      const end = group.ends[i + 1]!;
      segment.positions.append(baseOffset, lastOffset, position, end);
      baseOffset = lastOffset + 1;
      position = end;
    }
    this.#tail = group.tail;
  }

  #cutBack(groups: readonly StagedSegment[]): void {
    for (const { segment, isNew } of groups.toReversed()) {
      if (segment === undefined) continue;
      try {
        if (isNew) {
          const { path } = segment.log;
          segment.release();
          removeNow(path);
        } else {
          this.#truncateActive();
        }
      } catch (error) {
        const failure = known(error);
        if (!isNew || failure.code !== 'NOT_FOUND') this.offline ??= failure;
      }
    }
    this.#staging.endOffset = this.writtenOffset;
  }

  #truncateActive(): void {
    this.#cutSegment = Math.min(this.#cutSegment, this.#active.baseOffset);
    let file: JsFile;
    try {
      file = this.#active.log.openNow();
    } catch {
      // Without a descriptor nothing was written.
      return;
    }
    file.truncateNow(this.#tail.size);
  }

  /** Ends the active segment and takes another; both are written. */
  #takeSegment(segment: JsSegment): void {
    const closed = this.#active;
    const { maxTimestamp, maxTimestampOffset, lastTimeEntry, size } = this.#tail;
    if (maxTimestamp > lastTimeEntry)
      closed.times.append([{ timestamp: maxTimestamp, offset: maxTimestampOffset }]);
    closed.active = false;
    closed.closedSize = size;
    this.#closedBytes += size;
    this.#unfinished.push(closed);
    segment.active = true;
    this.#segments.push(segment);
    this.#folderDirty = true;
    this.#wantsFlush = true;
  }

  roll(now: number): void {
    this.#writable();
    if (!this.#staging.empty) throw new BroadsheetError('INVALID_ARGUMENT', 'roll with staged batches');
    if (this.#active.baseOffset === this.#staging.endOffset) return;
    this.#staging.roll(now);
    const failure = this.commit();
    if (failure !== undefined) throw failure;
  }

  setOptions(options: LogOptions): void {
    this.#open();
    this.#staging.setOptions(options);
  }

  setLogStartOffset(offset: number): void {
    this.#open();
    if (offset > this.writtenOffset)
      throw new BroadsheetError('OFFSET_OUT_OF_RANGE', `${offset} is past the end, ${this.writtenOffset}`);
    this.logStartOffset = Math.max(this.logStartOffset, offset);
  }

  read(offset: number, maxBytes: number, upTo: number, minOneMessage: boolean): ReadResult {
    this.#open();
    if (offset < this.logStartOffset || offset > this.#staging.endOffset) return OUT_OF_RANGE;
    upTo = Math.min(upTo, this.writtenOffset);
    if (offset >= upTo) return EMPTY;
    for (let i = indexOf(this.#segments, offset); i < this.#segments.length; i++) {
      const segment = this.#segments[i]!;
      if (segment.baseOffset >= upTo) return EMPTY;
      const last = i + 1 === this.#segments.length;
      const size = last ? this.#tail.size : segment.closedSize;
      const first = segment.positions.find(offset, size);
      if (first === undefined) return this.#miss(offset);
      if (first === 'none') continue; // the offsets up to the next segment are gone
      const { lastOffset, position, bytes } = first;
      if (lastOffset >= upTo) return EMPTY;
      let end = size;
      if (upTo < (last ? this.writtenOffset : this.#segments[i + 1]!.baseOffset)) {
        const bound = segment.positions.find(upTo, size);
        if (bound === undefined) return this.#miss(upTo);
        if (bound !== 'none') end = bound.position;
      }
      let length = Math.min(maxBytes, end - position);
      if (minOneMessage) length = Math.max(length, bytes);
      if (length <= 0) return EMPTY;
      const file = segment.log.now;
      // Out of descriptors, or as good as: read again in a later turn, when those of this one are free.
      if (file === undefined || file.suspect || !this.#host.keep(file)) return this.#miss(offset);
      return { kind: 'range', range: { source: file, segment: file.fd, position, length } };
    }
    return EMPTY;
  }

  /** Says cold, and remembers what for; or why it can't be read, if that was found out meanwhile. */
  #miss(offset: number): ReadResult {
    const failure = this.#misses.get(offset);
    this.#misses.delete(offset);
    if (failure !== undefined) throw failure;
    if (this.#misses.size >= MOST_MISSES) this.#misses.clear();
    this.#misses.set(offset, undefined);
    return COLD;
  }

  async warm(offset: number, maxBytes: number): Promise<void> {
    this.#open();
    const view = this.#view();
    const wanted = new Set([offset, ...this.#misses.keys()]);
    this.#misses.clear();
    for (const each of wanted) {
      try {
        await view.warm(each, each === offset ? maxBytes : 0);
      } catch (error) {
        // The next read finds out.
        this.#misses.set(each, known(error));
      }
    }
    const failure = this.#misses.get(offset);
    if (failure !== undefined) throw failure;
  }

  async readBatches(offset: number, maxBytes: number, upTo: number): Promise<Uint8Array> {
    this.#open();
    return this.#view().readBatches(offset, maxBytes, upTo);
  }

  async findBatchByTimestamp(
    target: number,
    startOffset: number,
    upTo: number,
  ): Promise<Uint8Array | undefined> {
    this.#open();
    return this.#view().findByTimestamp(target, startOffset, upTo);
  }

  async findBatchByMaxTimestamp(startOffset: number, upTo: number): Promise<Uint8Array | undefined> {
    this.#open();
    return this.#view().findByMaxTimestamp(startOffset, upTo);
  }

  async scanBatches(from: number, upTo: number, producersOnly: boolean): Promise<BatchInfo[]> {
    this.#open();
    const batches = await this.#view().scan(from, upTo, producersOnly);
    return batches.map((batch) => batch.info);
  }

  segmentBaseOffsets(): number[] {
    return this.#closing === undefined ? this.#segments.map((segment) => segment.baseOffset) : [];
  }

  async segmentFacts(): Promise<SegmentFacts[]> {
    this.#open();
    const segments = [...this.#segments];
    const { size, firstTimestamp, createdAt } = this.#tail;
    const beganAt = size === 0 ? -1 : Number(firstTimestamp) >= 0 ? Number(firstTimestamp) : createdAt;
    return Promise.all(
      segments.map(async (segment, i): Promise<SegmentFacts> => {
        const last = i + 1 === segments.length;
        const sizeInBytes = last ? size : segment.closedSize;
        const { mtimeMs } = await statPath(segment.log.path);
        const largest = await segment.largestTimestamp(sizeInBytes).catch((error: unknown) => {
          // What cannot be read has no time of its own.
          if (known(error).code !== 'CORRUPT') throw error;
        });
        return {
          baseOffset: segment.baseOffset,
          sizeInBytes,
          largestTimestamp: largest === undefined ? -1 : Number(largest.maxTimestamp),
          lastModified: Math.floor(mtimeMs),
          beganAt: last ? beganAt : -1,
        };
      }),
    );
  }

  async replaceSegments(old: readonly number[], cleaned: readonly number[]): Promise<readonly string[]> {
    this.#writable();
    const job = beginReplace(this.#segments, this.flushedOffset, old, cleaned);
    if (this.#replacing) throw new BroadsheetError('INVALID_ARGUMENT', 'segments are being replaced already');
    this.#replacing = true;
    const incoming = cleaned.map(
      (base) => new JsSegment(this.#folder, base, this.#indexInterval, CLEANED_SUFFIX),
    );
    const left = new Set<JsSegment>();
    const take = () => {
      for (const segment of left) this.#closedBytes -= segment.closedSize;
      for (const segment of incoming) this.#closedBytes += segment.closedSize;
      const at = this.#segments.indexOf(job[0]!);
      const kept = this.#segments.filter((segment) => !left.has(segment));
      kept.splice(at, 0, ...incoming);
      this.#segments = kept;
      this.logStartOffset = Math.max(this.logStartOffset, kept[0]!.baseOffset);
    };
    try {
      const gone = await exchange(this.#folder, job, incoming, left);
      take();
      return gone;
    } catch (error) {
      // What comes in the place of others comes whole or not at all.
      if (incoming.length === 0 && left.size > 0) take();
      throw error;
    } finally {
      this.#replacing = false;
    }
  }

  async flush(): Promise<void> {
    this.#open();
    if (this.offline !== undefined) throw new BroadsheetError('OFFLINE', this.offline.message);
    await new Promise<void>((resolve, reject) => {
      this.#flushWaits.push({ resolve, reject });
      this.#startFlush();
    });
  }

  async rename(dir: string): Promise<void> {
    this.#open();
    // Windows renames no folder in which a file is open.
    if (process.platform === 'win32') for (const segment of this.#segments) segment.closeFiles();
    await this.#folder.rename(dir);
  }

  close(): Promise<void> {
    if (this.#closing === undefined) {
      this.#closing = this.#close();
      this.#host.closed(this);
    }
    return this.#closing;
  }

  #view(): LogView {
    const last = this.#segments.length - 1;
    return new LogView(
      this.#segments.map((segment, i) => ({
        segment,
        size: i === last ? this.#tail.size : segment.closedSize,
      })),
      this.writtenOffset,
    );
  }

  #open(): void {
    if (this.#closing !== undefined) throw new BroadsheetError('CLOSED', 'the log is closed');
  }

  #writable(): void {
    this.#open();
    if (this.offline !== undefined) throw new BroadsheetError('OFFLINE', this.offline.message);
  }

  #beginFlush(): FlushJob {
    const job: FlushJob = {
      segments: this.#segments.slice(indexOf(this.#segments, Math.min(this.flushedOffset, this.#cutSegment))),
      closed: this.#unfinished,
      syncFolder: this.#folderDirty ? this.#folder : undefined,
      target: this.writtenOffset,
    };
    this.#unfinished = [];
    this.#folderDirty = false;
    this.#wantsFlush = false;
    this.#cutSegment = Number.POSITIVE_INFINITY;
    return job;
  }

  async #runFlush(job: FlushJob): Promise<BroadsheetError | undefined> {
    try {
      await runFlush(job);
    } catch (error) {
      if (this.offline === undefined) this.failedFlushAt = Math.max(this.flushedOffset, this.#openedAt);
      this.offline ??= known(error);
      return known(error);
    }
    if (this.offline === undefined) this.flushedOffset = Math.max(this.flushedOffset, job.target);
    return undefined;
  }

  /** One at a time; what asks meanwhile is in the next one. */
  #startFlush(): void {
    if (this.#flushing || this.offline !== undefined) return;
    this.#flushing = true;
    const waits = this.#flushWaits;
    this.#flushWaits = [];
    void this.#runFlush(this.#beginFlush()).then((failure) => {
      this.#flushing = false;
      for (const wait of waits) {
        if (failure === undefined) wait.resolve();
        else wait.reject(failure);
      }
      this.#flushMore();
    });
  }

  /** What came while a flush ran. */
  #flushMore(): void {
    if (this.#flushing) return;
    if (this.offline !== undefined) {
      for (const wait of this.#flushWaits.splice(0)) wait.reject(this.offline);
    }
    const asked = this.#flushWaits.length > 0;
    if (asked || (this.#closing === undefined && this.#wantsFlush)) this.#startFlush();
    if (!this.#flushing) this.#closeNow?.();
  }

  async #close(): Promise<void> {
    if (this.#flushing) {
      await new Promise<void>((resolve) => {
        this.#closeNow = resolve;
      });
    }
    this.#staging.take();
    try {
      if (this.offline !== undefined) return;
      const failure = await this.#runFlush(this.#beginFlush());
      if (failure !== undefined) throw failure;
      await this.#finishIndexes();
    } finally {
      for (const segment of this.#segments) segment.release();
    }
  }

  /** Ends the indexes of the active segment as a clean stop does. */
  async #finishIndexes(): Promise<void> {
    const { offsets, times } = this.#active;
    const { maxTimestamp, maxTimestampOffset, lastTimeEntry } = this.#tail;
    if (maxTimestamp > lastTimeEntry) {
      times.append([{ timestamp: maxTimestamp, offset: maxTimestampOffset }]);
      this.#tail.lastTimeEntry = maxTimestamp;
      this.#tail.timeEntries++;
    }
    const finished = await Promise.allSettled([offsets.entries.finish(), times.entries.finish()]);
    for (const each of finished) if (each.status === 'rejected') throw each.reason;
    await offsets.entries.sync();
    await times.entries.sync();
  }
}

/**
 * Log, LogEngine and Files in memory, after the contract of src/log/log.ts: the oracle of model tests, and the engine
 * of tests that need no disk. One segment per array of batches; nothing is ever cold. Faults are injected with
 * MemoryEngine.failNextCommit and MemoryLog.failNextFlush.
 */
import { jsInspector } from '../../src/log/js-inspector.ts';
import type {
  BatchInfo,
  Files,
  Log,
  LogEngine,
  LogOptions,
  OpenOptions,
  ReadResult,
  RecoveryReport,
  SegmentFacts,
  Staged,
} from '../../src/log/log.ts';
import type { HeldFile, RangeSource } from '../../src/protocol/part.ts';
import { BroadsheetError } from '../../src/runtime/errors.ts';

/** Fields of a v2 batch header, at their offsets from the batch's start. */
const HEADER_BYTES = 61;

export function batchInfoOf(bytes: Uint8Array, start: number): BatchInfo {
  const view = new DataView(bytes.buffer, bytes.byteOffset + start);
  const baseOffset = Number(view.getBigInt64(0));
  return {
    baseOffset,
    lastOffset: baseOffset + view.getInt32(23),
    maxTimestamp: Number(view.getBigInt64(35)),
    producerId: Number(view.getBigInt64(43)),
    producerEpoch: view.getInt16(51),
    baseSequence: view.getInt32(53),
    recordCount: view.getInt32(57),
    attributes: view.getInt16(21),
    leaderEpoch: view.getInt32(12),
    sizeInBytes: view.getInt32(8) + 12,
  };
}

interface StoredBatch {
  readonly info: BatchInfo;
  readonly bytes: Uint8Array;
}

interface MemorySegment {
  readonly handle: number;
  readonly baseOffset: number;
  batches: StoredBatch[];
  bytes: number;
  firstTimestamp: number;
}

/** What a closed log leaves behind, found again when its folder is opened. */
interface Remains {
  readonly segments: MemorySegment[];
  readonly endOffset: number;
}

export class MemoryLog implements Log {
  dir: string;
  logStartOffset: number;
  logEndOffset: number;
  writtenOffset: number;
  flushedOffset: number;
  offline: BroadsheetError | undefined;
  failedFlushAt: number | undefined;
  readonly recovery: RecoveryReport = { bytesScanned: 0, bytesTruncated: 0, indexesRebuilt: 0 };
  /** The next flush() rejects with this and takes the log offline. */
  failNextFlush: BroadsheetError | undefined;
  /** Flushes wait for releaseFlushes() while this is set. */
  holdFlushes = false;
  flushes = 0;

  readonly #engine: MemoryEngine;
  #segments: MemorySegment[];
  #staged: StoredBatch[] = [];
  #options: LogOptions;
  #closed = false;
  #held: (() => void)[] = [];
  /** A roll asked for since the last commit, and where. */
  #rolls = new Set<number>();
  #activeBytes = 0;
  #activeSince: number;

  constructor(engine: MemoryEngine, dir: string, options: OpenOptions, remains: Remains | undefined) {
    this.#engine = engine;
    this.dir = dir;
    this.#options = options;
    this.#segments = remains?.segments ?? [engine.newSegment(options.logStartOffset)];
    const end = remains?.endOffset ?? options.logStartOffset;
    this.logStartOffset = Math.max(options.logStartOffset, this.#segments[0]?.baseOffset ?? 0);
    this.logEndOffset = end;
    this.writtenOffset = end;
    this.flushedOffset = end;
    this.#activeBytes = this.#active().bytes;
    this.#activeSince = this.#active().firstTimestamp;
  }

  get activeSegmentBaseOffset(): number {
    return this.#active().baseOffset;
  }

  get sizeInBytes(): number {
    return this.#segments.reduce((sum, segment) => sum + segment.bytes, 0);
  }

  get hasStaged(): boolean {
    return this.#staged.length > 0;
  }

  stage(bytes: Uint8Array, start: number, end: number, leaderEpoch: number, now: number): Staged {
    this.#assertUsable();
    const view = new DataView(bytes.buffer, bytes.byteOffset + start, end - start);
    if (end - start < HEADER_BYTES || view.getInt32(8) + 12 !== end - start)
      throw new BroadsheetError('INVALID_ARGUMENT', 'stage() takes exactly one batch');
    const baseOffset = this.logEndOffset;
    const rolled =
      this.#activeBytes > 0 &&
      (this.#activeBytes + (end - start) > this.#options.segmentBytes ||
        now - this.#activeSince >= this.#options.segmentMs);
    if (rolled) {
      this.#rolls.add(baseOffset);
      this.#activeBytes = 0;
    }
    if (this.#activeBytes === 0) this.#activeSince = now;
    this.#activeBytes += end - start;
    view.setBigInt64(0, BigInt(baseOffset));
    view.setInt32(12, leaderEpoch);
    const info = batchInfoOf(bytes, start);
    this.#staged.push({ info, bytes: bytes.subarray(start, end) });
    this.logEndOffset = info.lastOffset + 1;
    return { baseOffset, rolled };
  }

  /** Called by the engine. */
  commitStaged(now: number): void {
    for (const { info, bytes } of this.#staged) {
      if (this.#rolls.has(info.baseOffset))
        this.#segments.push(this.#engine.newSegment(info.baseOffset, now));
      const active = this.#active();
      active.batches.push({ info, bytes: Uint8Array.from(bytes) });
      active.bytes += info.sizeInBytes;
    }
    this.#staged = [];
    this.#rolls.clear();
    this.writtenOffset = this.logEndOffset;
  }

  /** Called by the engine when a commit is made to fail. */
  dropStaged(): void {
    this.#staged = [];
    this.#rolls.clear();
    this.logEndOffset = this.writtenOffset;
    this.#activeBytes = this.#active().bytes;
  }

  read(offset: number, maxBytes: number, upTo: number, minOneMessage: boolean): ReadResult {
    if (offset < this.logStartOffset || offset > this.writtenOffset) return { kind: 'out-of-range' };
    const segment = this.#segmentOf(offset, upTo);
    if (segment === undefined) return { kind: 'empty' };
    let position = 0;
    let from = -1;
    let length = 0;
    for (const { info } of segment.batches) {
      if (info.lastOffset >= offset) {
        if (info.baseOffset >= upTo) break;
        if (from < 0) {
          from = position;
          if (info.sizeInBytes > maxBytes && minOneMessage) maxBytes = info.sizeInBytes;
        }
        length += info.sizeInBytes;
        if (length >= maxBytes) break;
      }
      position += info.sizeInBytes;
    }
    length = Math.min(length, maxBytes);
    if (from < 0 || length <= 0) return { kind: 'empty' };
    return {
      kind: 'range',
      range: { source: this.#engine, segment: segment.handle, position: from, length },
    };
  }

  async warm(): Promise<void> {}

  async readBatches(offset: number, maxBytes: number, upTo: number): Promise<Uint8Array> {
    this.#assertOpen();
    const taken: Uint8Array[] = [];
    let bytes = 0;
    for (const batch of this.#from(offset, upTo)) {
      if (taken.length > 0 && bytes + batch.info.sizeInBytes > maxBytes) break;
      taken.push(batch.bytes);
      bytes += batch.info.sizeInBytes;
    }
    return Buffer.concat(taken);
  }

  async findBatchByTimestamp(
    target: number,
    startOffset: number,
    upTo: number,
  ): Promise<Uint8Array | undefined> {
    for (const batch of this.#from(startOffset, upTo)) {
      if (batch.info.maxTimestamp >= target) return Uint8Array.from(batch.bytes);
    }
    return undefined;
  }

  async findBatchByMaxTimestamp(startOffset: number, upTo: number): Promise<Uint8Array | undefined> {
    let best: StoredBatch | undefined;
    for (const batch of this.#from(startOffset, upTo)) {
      if (best === undefined || batch.info.maxTimestamp > best.info.maxTimestamp) best = batch;
    }
    return best === undefined ? undefined : Uint8Array.from(best.bytes);
  }

  async scanBatches(from: number, upTo: number, producersOnly: boolean): Promise<BatchInfo[]> {
    this.#assertOpen();
    const infos: BatchInfo[] = [];
    for (const { info } of this.#from(from, upTo)) {
      if (!producersOnly || info.producerId >= 0 || (info.attributes & 0x20) !== 0) infos.push(info);
    }
    return infos;
  }

  segmentBaseOffsets(): number[] {
    return this.#segments.map((segment) => segment.baseOffset);
  }

  async segmentFacts(): Promise<SegmentFacts[]> {
    this.#assertOpen();
    return this.#segments.map((segment, i) => {
      const filled = segment.batches.filter(({ info }) => info.recordCount > 0);
      const active = i === this.#segments.length - 1 && segment.bytes > 0;
      return {
        baseOffset: segment.baseOffset,
        sizeInBytes: segment.bytes,
        largestTimestamp: Math.max(-1, ...filled.map(({ info }) => info.maxTimestamp)),
        lastModified: this.#engine.lastModified,
        beganAt: active ? (segment.batches[0]?.info.maxTimestamp ?? -1) : -1,
      };
    });
  }

  /** Knows no cleaned segments: they would be files. */
  async replaceSegments(old: readonly number[]): Promise<readonly string[]> {
    this.#assertUsable();
    for (const base of old) {
      if (this.#segments.length < 2 || this.#segments[0]?.baseOffset !== base)
        throw new BroadsheetError('INVALID_ARGUMENT', `segment ${base} does not begin the log`);
      this.#segments.shift();
    }
    this.logStartOffset = Math.max(this.logStartOffset, this.#segments[0]!.baseOffset);
    return old.map((base) => `${String(base).padStart(20, '0')}.log.deleted`);
  }

  async flush(): Promise<void> {
    this.#assertUsable();
    const to = this.writtenOffset;
    this.flushes++;
    if (this.holdFlushes) await new Promise<void>((resolve) => this.#held.push(resolve));
    if (this.failNextFlush !== undefined) {
      this.offline = this.failNextFlush;
      this.failedFlushAt = this.flushedOffset;
      this.failNextFlush = undefined;
      throw this.offline;
    }
    if (to > this.flushedOffset) this.flushedOffset = to;
  }

  releaseFlushes(): void {
    this.holdFlushes = false;
    for (const release of this.#held.splice(0)) release();
  }

  roll(now: number): void {
    this.#assertUsable();
    if (this.#active().bytes === 0) return;
    this.#segments.push(this.#engine.newSegment(this.logEndOffset, now));
    this.#activeBytes = 0;
  }

  setOptions(options: LogOptions): void {
    this.#options = options;
  }

  setLogStartOffset(offset: number): void {
    if (offset > this.writtenOffset)
      throw new BroadsheetError('OFFSET_OUT_OF_RANGE', `${offset} is past the end`);
    if (offset > this.logStartOffset) this.logStartOffset = offset;
  }

  async rename(dir: string): Promise<void> {
    this.#assertOpen();
    await this.#engine.files.rename(this.dir, dir);
    this.dir = dir;
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.dropStaged();
    this.#closed = true;
    this.#engine.closed(this, { segments: this.#segments, endOffset: this.writtenOffset });
  }

  bytesOf(handle: number, position: number, length: number): Uint8Array | undefined {
    const segment = this.#segments.find((candidate) => candidate.handle === handle);
    if (segment === undefined) return undefined;
    return Buffer.concat(segment.batches.map((batch) => batch.bytes)).subarray(position, position + length);
  }

  #active(): MemorySegment {
    return this.#segments[this.#segments.length - 1] as MemorySegment;
  }

  #segmentOf(offset: number, upTo: number): MemorySegment | undefined {
    return this.#segments.find((segment) =>
      segment.batches.some(({ info }) => info.lastOffset >= offset && info.baseOffset < upTo),
    );
  }

  *#from(offset: number, upTo: number): Generator<StoredBatch> {
    for (const segment of this.#segments) {
      for (const batch of segment.batches) {
        if (batch.info.baseOffset >= upTo) return;
        if (batch.info.lastOffset >= offset) yield batch;
      }
    }
  }

  #assertOpen(): void {
    if (this.#closed) throw new BroadsheetError('CLOSED', `${this.dir} is closed`);
  }

  #assertUsable(): void {
    this.#assertOpen();
    if (this.offline !== undefined) throw new BroadsheetError('OFFLINE', this.offline.message);
  }
}

export class MemoryEngine implements LogEngine, RangeSource {
  readonly name = 'js';
  readonly inspector = jsInspector;
  readonly files: MemoryFiles;
  readonly logs = new Set<MemoryLog>();
  /** What every segment's file is said to be written at. */
  lastModified = Number.MAX_SAFE_INTEGER;
  /** Logs whose next commit fails, by folder. */
  readonly failNextCommit = new Map<string, BroadsheetError>();
  #nextHandle = 1;
  #remains = new Map<string, Remains>();

  constructor(files = new MemoryFiles()) {
    this.files = files;
    files.onRename = (from, to) => {
      const remains = this.#remains.get(from);
      if (remains === undefined) return;
      this.#remains.delete(from);
      this.#remains.set(to, remains);
    };
    files.onRemoveTree = (path) => {
      this.#remains.delete(path);
    };
  }

  /** Gives a folder a log, as if closed earlier: the bytes of each segment file by its base offset. */
  preload(dir: string, segments: ReadonlyMap<number, Uint8Array>): void {
    let endOffset = 0;
    const loaded = [...segments].map(([baseOffset, bytes]) => {
      const segment = this.newSegment(baseOffset);
      endOffset = Math.max(endOffset, baseOffset);
      for (let at = 0; at < bytes.length; ) {
        const info = batchInfoOf(bytes, at);
        segment.batches.push({ info, bytes: bytes.slice(at, at + info.sizeInBytes) });
        segment.bytes += info.sizeInBytes;
        at += info.sizeInBytes;
        endOffset = info.lastOffset + 1;
      }
      return segment;
    });
    this.#remains.set(dir, { segments: loaded, endOffset });
  }

  async open(dir: string, options: OpenOptions): Promise<Log> {
    if (!(await this.files.exists(dir))) await this.files.mkdir(dir);
    const log = new MemoryLog(this, dir, options, this.#remains.get(dir));
    this.#remains.delete(dir);
    this.logs.add(log);
    return log;
  }

  commit(done: (log: Log, error: BroadsheetError | undefined) => void): void {
    for (const log of this.logs) {
      if (!log.hasStaged) continue;
      const error = this.failNextCommit.get(log.dir);
      if (error === undefined) {
        log.commitStaged(0);
      } else {
        this.failNextCommit.delete(log.dir);
        log.dropStaged();
      }
      done(log, error);
    }
  }

  async flushAll(logs: readonly Log[]): Promise<void> {
    await Promise.all(logs.map((log) => log.flush()));
  }

  /** The bytes of a range that read() gave. */
  bytesOf(range: { segment: number; position: number; length: number }): Uint8Array {
    for (const log of this.logs) {
      const bytes = log.bytesOf(range.segment, range.position, range.length);
      if (bytes !== undefined) return bytes;
    }
    throw new BroadsheetError('NOT_FOUND', `no segment ${range.segment}`);
  }

  /** Nothing reads these from a descriptor. */
  hold(segment: number): HeldFile {
    throw new BroadsheetError('CLOSED', `segment ${segment} is in memory`);
  }

  async close(): Promise<void> {
    for (const log of this.logs) await log.close();
  }

  newSegment(baseOffset: number, now = 0): MemorySegment {
    return { handle: this.#nextHandle++, baseOffset, batches: [], bytes: 0, firstTimestamp: now };
  }

  closed(log: MemoryLog, remains: Remains): void {
    this.logs.delete(log);
    this.#remains.set(log.dir, remains);
  }
}

/** Files in a Map from path to content; folders are entries of their own. */
export class MemoryFiles implements Files {
  readonly content = new Map<string, Buffer>();
  readonly folders = new Set<string>(['/']);
  /** Paths whose next write fails. */
  readonly failNextWrite = new Map<string, BroadsheetError>();
  onRename: (from: string, to: string) => void = () => {};
  onRemoveTree: (path: string) => void = () => {};
  #locks = new Set<string>();

  async read(path: string, maxBytes = 64 * 1024 * 1024): Promise<Buffer> {
    const content = this.content.get(path);
    if (content === undefined) throw new BroadsheetError('NOT_FOUND', `${path} does not exist`, 2);
    if (content.length > maxBytes)
      throw new BroadsheetError('LIMIT', `${path} is larger than ${maxBytes} bytes`);
    return Buffer.from(content);
  }

  async writeAtomic(path: string, data: Uint8Array | string): Promise<void> {
    const failure = this.failNextWrite.get(path);
    if (failure !== undefined) {
      this.failNextWrite.delete(path);
      throw failure;
    }
    if (!this.folders.has(parentOf(path)))
      throw new BroadsheetError('NOT_FOUND', `${parentOf(path)} does not exist`, 2);
    this.content.set(path, Buffer.from(data as Uint8Array));
  }

  async createDurable(path: string, data: Uint8Array | string): Promise<void> {
    if (this.content.has(path)) throw new BroadsheetError('IO', `${path} exists`, 17);
    await this.mkdir(parentOf(path));
    await this.writeAtomic(path, data);
  }

  async list(path: string): Promise<{ name: string; directory: boolean; size: number }[]> {
    if (!this.folders.has(path)) throw new BroadsheetError('NOT_FOUND', `${path} does not exist`, 2);
    const entries: { name: string; directory: boolean; size: number }[] = [];
    for (const folder of this.folders) {
      if (folder !== path && parentOf(folder) === path)
        entries.push({ name: folder.slice(folder.lastIndexOf('/') + 1), directory: true, size: 0 });
    }
    for (const [file, data] of this.content) {
      if (parentOf(file) === path)
        entries.push({ name: file.slice(file.lastIndexOf('/') + 1), directory: false, size: data.length });
    }
    return entries;
  }

  async exists(path: string): Promise<boolean> {
    return this.content.has(path) || this.folders.has(path);
  }

  async space(): Promise<{ totalBytes: number; usableBytes: number }> {
    return { totalBytes: 1_000_000, usableBytes: 600_000 };
  }

  async mkdir(path: string): Promise<void> {
    for (let at = path; !this.folders.has(at); at = parentOf(at)) this.folders.add(at);
  }

  async rename(from: string, to: string): Promise<void> {
    if (!(await this.exists(from))) throw new BroadsheetError('NOT_FOUND', `${from} does not exist`, 2);
    for (const folder of [...this.folders]) {
      if (folder !== from && !folder.startsWith(`${from}/`)) continue;
      this.folders.delete(folder);
      this.folders.add(to + folder.slice(from.length));
      this.onRename(folder, to + folder.slice(from.length));
    }
    for (const [file, data] of [...this.content]) {
      if (file !== from && !file.startsWith(`${from}/`)) continue;
      this.content.delete(file);
      this.content.set(to + file.slice(from.length), data);
    }
  }

  async remove(path: string): Promise<void> {
    this.content.delete(path);
  }

  async removeTree(path: string): Promise<void> {
    for (const folder of [...this.folders]) {
      if (folder === path || folder.startsWith(`${path}/`)) {
        this.folders.delete(folder);
        this.onRemoveTree(folder);
      }
    }
    for (const file of [...this.content.keys()]) {
      if (file.startsWith(`${path}/`)) this.content.delete(file);
    }
  }

  /** Their holder was killed. */
  forgetLocks(): void {
    this.#locks.clear();
  }

  async lock(path: string, content: string): Promise<{ release(): Promise<void> }> {
    if (this.#locks.has(path))
      throw new BroadsheetError('LOCKED', `${path} is held by pid ${this.content.get(path)}`);
    this.#locks.add(path);
    await this.writeAtomic(path, content);
    return {
      release: async () => {
        this.#locks.delete(path);
      },
    };
  }
}

function parentOf(path: string): string {
  return path.slice(0, path.lastIndexOf('/')) || '/';
}

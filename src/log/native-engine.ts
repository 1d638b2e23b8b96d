/**
 * Logs over the addon. A log's offsets lie in memory that both sides share; stage, commit and read are one call each
 * and make no objects but the range that is sent.
 */

import { addon, check, type Done, type LogSlotName, type StatusObject, toError } from '../native.ts';
import { BroadsheetError } from '../runtime/errors.ts';
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
} from './log.ts';
import { NativeFiles } from './native-files.ts';
import { nativeInspector } from './native-inspector.ts';
import { nativeRanges } from './native-ranges.ts';

const NUMBERS_PER_BATCH = 10;
const NUMBERS_PER_SEGMENT = 5;
const MAX_LEADER_EPOCH = 2 ** 31 - 1;

const EMPTY: ReadResult = { kind: 'empty' };
const COLD: ReadResult = { kind: 'cold' };
const OUT_OF_RANGE: ReadResult = { kind: 'out-of-range' };

/** Objects that every call on this thread uses again; see log.ts. */
const staged = { baseOffset: 0, rolled: false };
const ranged = {
  kind: 'range' as const,
  range: { source: nativeRanges, segment: 0, position: 0, length: 1 },
};

/** Whether segment handles are out that the end of this turn takes back. */
let turnEnds = false;

function endTurn(): void {
  turnEnds = false;
  addon().logEndTurn();
}

/** One cold call; `call` gets the callback and returns what the addon returned. */
function ask<T>(call: (done: Done<T>) => number): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    check(
      call((...[status, result]: [StatusObject] | [undefined, T]) => {
        if (status !== undefined) reject(toError(status));
        else resolve(result as T);
      }),
    );
  });
}

function found(bytes: Uint8Array): Uint8Array | undefined {
  return bytes.length === 0 ? undefined : bytes;
}

class NativeLog implements Log {
  readonly recovery: RecoveryReport;
  readonly #engine: NativeEngine;
  readonly #handle: number;
  readonly #state: Float64Array;
  readonly #slots: Readonly<Record<LogSlotName, number>>;
  #dir: string;
  #offline: BroadsheetError | undefined;
  #closing: Promise<void> | undefined;
  #staged = false;
  readonly #openedAt: number;
  /** Offline for another reason than a flush. */
  #writeFailed = false;

  constructor(
    engine: NativeEngine,
    dir: string,
    handle: number,
    state: Float64Array,
    fault: string | undefined,
  ) {
    const slots = addon().logSlots;
    this.#engine = engine;
    this.#dir = dir;
    this.#handle = handle;
    this.#state = state;
    this.#slots = slots;
    this.#openedAt = state[slots.writtenOffset]!;
    this.recovery = {
      bytesScanned: state[slots.bytesScanned]!,
      bytesTruncated: state[slots.bytesTruncated]!,
      indexesRebuilt: state[slots.indexesRebuilt]!,
      ...(fault === undefined ? {} : { fault }),
    };
  }

  get dir(): string {
    return this.#dir;
  }
  get logStartOffset(): number {
    return this.#state[this.#slots.logStartOffset]!;
  }
  get logEndOffset(): number {
    return this.#state[this.#slots.logEndOffset]!;
  }
  get writtenOffset(): number {
    return this.#state[this.#slots.writtenOffset]!;
  }
  get flushedOffset(): number {
    return this.#state[this.#slots.flushedOffset]!;
  }
  get activeSegmentBaseOffset(): number {
    return this.#state[this.#slots.activeSegmentBaseOffset]!;
  }
  get sizeInBytes(): number {
    return this.#state[this.#slots.sizeInBytes]!;
  }
  get offline(): BroadsheetError | undefined {
    if (this.#state[this.#slots.offline] === 0) return undefined;
    if (this.#offline === undefined) {
      const status = addon().logOffline(this.#handle);
      this.#offline =
        status === undefined ? new BroadsheetError('OFFLINE', `${this.#dir} failed`) : toError(status);
    }
    return this.#offline;
  }

  get failedFlushAt(): number | undefined {
    if (this.#state[this.#slots.offline] === 0 || this.#writeFailed) return undefined;
    return Math.max(this.flushedOffset, this.#openedAt);
  }

  /** For the engine: the addon's number for this log, undefined once it closes. */
  get handle(): number | undefined {
    return this.#closing === undefined ? this.#handle : undefined;
  }

  stage(bytes: Uint8Array, start: number, end: number, leaderEpoch: number, now: number): Staged {
    const baseOffset = this.#state[this.#slots.logEndOffset]!;
    staged.rolled = check(addon().logStage(this.#handle, bytes, start, end, leaderEpoch, now)) === 1;
    staged.baseOffset = baseOffset;
    if (!this.#staged) {
      this.#staged = true;
      this.#engine.staged(this);
    }
    this.#engine.pin(bytes);
    return staged;
  }

  /** For the engine: writes what was staged. */
  commit(): BroadsheetError | undefined {
    this.#staged = false;
    const native = addon();
    const sound = this.#state[this.#slots.offline] === 0;
    const result = native.logCommit(this.#handle);
    if (result >= 0) return undefined;
    this.#writeFailed ||= sound && this.#state[this.#slots.offline] !== 0;
    return toError(native.lastStatus());
  }

  read(offset: number, maxBytes: number, upTo: number, minOneMessage: boolean): ReadResult {
    const native = addon();
    const kind = check(native.logRead(this.#handle, offset, maxBytes, upTo, minOneMessage));
    if (kind === 1) return EMPTY;
    if (kind === 2) return COLD;
    if (kind === 3) return OUT_OF_RANGE;
    if (!turnEnds) {
      turnEnds = true;
      setImmediate(endTurn);
    }
    const { results, slots } = native;
    ranged.range = {
      source: nativeRanges,
      segment: results[slots.segment]!,
      position: results[slots.position]!,
      length: results[slots.length]!,
    };
    return ranged;
  }

  warm(offset: number, maxBytes: number): Promise<void> {
    return ask((done: Done<undefined>) => addon().logWarm(this.#handle, offset, maxBytes, done));
  }

  readBatches(offset: number, maxBytes: number, upTo: number): Promise<Uint8Array> {
    return ask((done: Done<Buffer>) => addon().logReadBatches(this.#handle, offset, maxBytes, upTo, done));
  }

  async findBatchByTimestamp(
    target: number,
    startOffset: number,
    upTo: number,
  ): Promise<Uint8Array | undefined> {
    return found(
      await ask((done: Done<Buffer>) =>
        addon().logFindByTimestamp(this.#handle, target, startOffset, upTo, done),
      ),
    );
  }

  async findBatchByMaxTimestamp(startOffset: number, upTo: number): Promise<Uint8Array | undefined> {
    return found(
      await ask((done: Done<Buffer>) => addon().logFindByMaxTimestamp(this.#handle, startOffset, upTo, done)),
    );
  }

  async scanBatches(from: number, upTo: number, producersOnly: boolean): Promise<BatchInfo[]> {
    const numbers = await ask((done: Done<Float64Array>) =>
      addon().logScan(this.#handle, from, upTo, producersOnly, done),
    );
    const infos: BatchInfo[] = [];
    for (let at = 0; at < numbers.length; at += NUMBERS_PER_BATCH) {
      infos.push({
        baseOffset: numbers[at]!,
        lastOffset: numbers[at + 1]!,
        maxTimestamp: numbers[at + 2]!,
        producerId: numbers[at + 3]!,
        producerEpoch: numbers[at + 4]!,
        baseSequence: numbers[at + 5]!,
        recordCount: numbers[at + 6]!,
        attributes: numbers[at + 7]!,
        leaderEpoch: numbers[at + 8]!,
        sizeInBytes: numbers[at + 9]!,
      });
    }
    return infos;
  }

  segmentBaseOffsets(): number[] {
    return addon().logSegments(this.#handle);
  }

  async segmentFacts(): Promise<SegmentFacts[]> {
    const numbers = await ask((done: Done<Float64Array>) => addon().logFacts(this.#handle, done));
    const facts: SegmentFacts[] = [];
    for (let at = 0; at < numbers.length; at += NUMBERS_PER_SEGMENT) {
      facts.push({
        baseOffset: numbers[at]!,
        sizeInBytes: numbers[at + 1]!,
        largestTimestamp: numbers[at + 2]!,
        lastModified: numbers[at + 3]!,
        beganAt: numbers[at + 4]!,
      });
    }
    return facts;
  }

  replaceSegments(old: readonly number[], cleaned: readonly number[]): Promise<readonly string[]> {
    return ask((done: Done<string[]>) => addon().logReplaceSegments(this.#handle, old, cleaned, done));
  }

  flush(): Promise<void> {
    return ask((done: Done<undefined>) => addon().logFlush(this.#handle, done));
  }

  roll(now: number): void {
    const sound = this.#state[this.#slots.offline] === 0;
    const result = addon().logRoll(this.#handle, now);
    this.#writeFailed ||= sound && this.#state[this.#slots.offline] !== 0;
    check(result);
  }

  setOptions(options: LogOptions): void {
    check(
      addon().logSetOptions(
        this.#handle,
        options.segmentBytes,
        options.segmentMs,
        options.indexBytes,
        options.indexIntervalBytes,
      ),
    );
  }

  setLogStartOffset(offset: number): void {
    check(addon().logSetStartOffset(this.#handle, offset));
  }

  async rename(dir: string): Promise<void> {
    await ask((done: Done<undefined>) => addon().logRename(this.#handle, dir, done));
    this.#dir = dir;
  }

  close(): Promise<void> {
    if (this.#closing === undefined) {
      // Known before the addon forgets it.
      void this.offline;
      this.#closing = ask((done: Done<undefined>) => addon().logClose(this.#handle, done));
      this.#engine.closed(this);
    }
    return this.#closing;
  }
}

export class NativeEngine implements LogEngine {
  readonly name = 'native';
  readonly inspector = nativeInspector;
  readonly files: Files = new NativeFiles();
  readonly #open = new Set<NativeLog>();
  #staged: NativeLog[] = [];
  /** Staged bytes are used by the addon until they are written: they must not be collected. */
  #pinned: Uint8Array[] = [];
  #lastPinned: Uint8Array | undefined;

  async open(dir: string, options: OpenOptions): Promise<Log> {
    const native = addon();
    const state = new Float64Array(Object.keys(native.logSlots).length);
    const { handle, fault } = await new Promise<{ handle: number; fault: string | undefined }>(
      (resolve, reject) => {
        check(
          native.logOpen(
            dir,
            state,
            options.segmentBytes,
            options.segmentMs,
            options.indexBytes,
            options.indexIntervalBytes,
            options.logStartOffset,
            options.recoveryPoint,
            options.cleanShutdown,
            options.dense ?? false,
            options.knownEnd ?? 0,
            options.latestLeaderEpoch ?? MAX_LEADER_EPOCH,
            options.now,
            (status, handle, fault) => {
              if (status !== undefined) reject(toError(status));
              else resolve({ handle, fault });
            },
          ),
        );
      },
    );
    const log = new NativeLog(this, dir, handle, state, fault);
    this.#open.add(log);
    return log;
  }

  commit(done: (log: Log, error: BroadsheetError | undefined) => void): void {
    if (this.#staged.length === 0) return;
    const logs = this.#staged;
    this.#staged = [];
    this.#pinned = [];
    this.#lastPinned = undefined;
    // All are written before anyone hears of it: a listener may stage again.
    const errors = logs.map((log) => log.commit());
    for (const [i, log] of logs.entries()) done(log, errors[i]);
  }

  async flushAll(logs: readonly Log[]): Promise<void> {
    const handles = logs.map((log) => (log as NativeLog).handle).filter((handle) => handle !== undefined);
    await ask((done: Done<undefined>) => addon().logStartWriteback(handles, done));
    const results = await Promise.allSettled(logs.map((log) => log.flush()));
    const failed = results.find((result) => result.status === 'rejected');
    if (failed !== undefined) throw failed.reason;
  }

  async close(): Promise<void> {
    await Promise.all([...this.#open].map((log) => log.close()));
  }

  /** For its logs: something waits for commit(). */
  staged(log: NativeLog): void {
    this.#staged.push(log);
  }

  /** For its logs: keeps bytes until commit(). Frames of a tick mostly lie in one buffer. */
  pin(bytes: Uint8Array): void {
    if (bytes === this.#lastPinned) return;
    this.#lastPinned = bytes;
    this.#pinned.push(bytes);
  }

  /** For its logs. What a closing log had staged is gone. */
  closed(log: NativeLog): void {
    this.#open.delete(log);
    this.#staged = this.#staged.filter((other) => other !== log);
  }
}

/**
 * The interfaces of a log, its engine and the files around it. `engine=native` implements them over the addon;
 * everything above this folder uses these types only.
 *
 * Offsets, positions, sizes and timestamps (ms since the epoch) are numbers, exact up to 2^53.
 */
import type { FileRange } from '../protocol/part.ts';
import type { BroadsheetError } from '../runtime/errors.ts';
import type { BatchInspector } from './batch-inspector.ts';

export interface LogOptions {
  readonly segmentBytes: number;
  readonly segmentMs: number;
  /** Maximum size in bytes of each index file (segment.index.bytes). */
  readonly indexBytes: number;
  /** Bytes of log between two index entries (index.interval.bytes). */
  readonly indexIntervalBytes: number;
}

export interface OpenOptions extends LogOptions {
  /** First offset that readers may see; from log-start-offset-checkpoint. */
  readonly logStartOffset: number;
  /** Everything below was flushed; from recovery-point-offset-checkpoint. */
  readonly recoveryPoint: number;
  /** After a clean stop nothing is scanned. */
  readonly cleanShutdown: boolean;
  /** Compaction took no offset out of what is scanned: where batches or segments above the recovery point do not meet, records
   * were lost or an offset was altered, and the log is cut there. Default: no. */
  readonly dense?: boolean;
  /** The log is known to reach this offset, a batch's border: after a clean stop it ends there, else at or past it. Where it does
   * not, the opening rejects with CORRUPT before anything is cut. Default: 0, nothing is known. */
  readonly knownEnd?: number;
  /** The latest leader epoch that the partition has had. A batch above the recovery point that claims a later one, or an earlier one
   * than the batch before it, was altered (no checksum covers the field), and the log is cut there. Default: it is not known. */
  readonly latestLeaderEpoch?: number;
  /** Now, ms since the epoch: the base of segment.ms for an empty segment. */
  readonly now: number;
}

/** What recovery did. */
export interface RecoveryReport {
  readonly bytesScanned: number;
  /** Bytes cut off the end because they did not check out. */
  readonly bytesTruncated: number;
  readonly indexesRebuilt: number;
  /** What was wrong with the first batch that did not check out. */
  readonly fault?: string;
}

/** Header facts of one stored batch. */
export interface BatchInfo {
  readonly baseOffset: number;
  readonly lastOffset: number;
  readonly maxTimestamp: number;
  readonly producerId: number;
  readonly producerEpoch: number;
  readonly baseSequence: number;
  readonly recordCount: number;
  /** Attribute bits of the batch (compression 0-2, timestamp type 3, transactional 4, control 5). */
  readonly attributes: number;
  readonly leaderEpoch: number;
  /** Whole batch, header included. */
  readonly sizeInBytes: number;
}

/** What retention and compaction decide by. */
export interface SegmentFacts {
  readonly baseOffset: number;
  readonly sizeInBytes: number;
  /** Of its batches that hold records, ms; -1 when none does, or when the headers can't be read. */
  readonly largestTimestamp: number;
  /** Of its file, ms since the epoch. */
  readonly lastModified: number;
  /** Of the active segment, unless it is empty: what segment.ms counts from (the timestamp of its first batch, or when it was
   * made or opened where that has none), ms; else -1. */
  readonly beganAt: number;
}

/** What stage() says of the batch that it took. The object is used again by the next call on any log: read it at once. */
export interface Staged {
  readonly baseOffset: number;
  /** A new segment begins at baseOffset: whoever keeps state per segment takes its snapshot now, before applying
   * this batch. */
  readonly rolled: boolean;
}

/** The object is used again by the next read of any log: read it at once. The range in it is not, and is valid for the
 * turn of the event loop in which it was read: hand it to the transport before returning to the loop. */
export type ReadResult =
  | { readonly kind: 'range'; readonly range: FileRange }
  /** Nothing to read between offset and upTo. */
  | { readonly kind: 'empty' }
  /** Not in the page cache, or too many files were read from in this turn: call warm(), then read again. */
  | { readonly kind: 'cold' }
  | { readonly kind: 'out-of-range' };

/** An append-only log of record batches: segments, their indexes, recovery. Knows no producer, topic or client. */
export interface Log {
  readonly dir: string;
  readonly logStartOffset: number;
  /** Offset of the next record: all that is written, or staged and not yet written. */
  readonly logEndOffset: number;
  /** Offset of the next record on disk; readers are bounded by it. */
  readonly writtenOffset: number;
  /** All below is known to be on stable storage: the recovery point. */
  readonly flushedOffset: number;
  readonly activeSegmentBaseOffset: number;
  readonly sizeInBytes: number;
  /** Set by a failed write or flush; the log takes nothing any more. */
  readonly offline: BroadsheetError | undefined;
  /** Set by a failed flush: nothing from here on may be trusted to be on disk, whatever the page cache shows. flushedOffset, or
   * where the log ended when it was opened if that is more: what lay there had outlived a stop. */
  readonly failedFlushAt: number | undefined;
  readonly recovery: RecoveryReport;

  /**
   * Takes one v2 batch that was already validated (inspectBatch), gives it the next offset and patches base
   * offset and leader epoch in place; it is written by the engine's next commit(). The bytes must stay unchanged
   * until then. Throws OFFLINE, CLOSED, and BATCH_TOO_LARGE for a batch larger than a segment.
   */
  stage(bytes: Uint8Array, start: number, end: number, leaderEpoch: number, now: number): Staged;

  /** Locates offset. length is at most maxBytes, or the whole first batch if that is larger and
   * minOneMessage is set; no record at or past upTo begins in it (upTo <= writtenOffset). The range may end in
   * the middle of a batch, as in Kafka. Throws CORRUPT when what lies there cannot be read. */
  read(offset: number, maxBytes: number, upTo: number, minOneMessage: boolean): ReadResult;
  /** Brings what read(offset, maxBytes) needs into the page cache, on an I/O thread. Throws IO and CORRUPT, and COLD where no read
   * can tell that it is there: the file system can't say, or lost it again. */
  warm(offset: number, maxBytes: number): Promise<void>;
  /** Whole batches from the one that holds offset on, copied; at least one batch if there is one below upTo. Runs
   * on an I/O thread. */
  readBatches(offset: number, maxBytes: number, upTo: number): Promise<Uint8Array>;
  /** The first batch at or after startOffset and below upTo that holds a record with timestamp >= target, judged by
   * batch headers; its bytes, or undefined. I/O thread. */
  findBatchByTimestamp(target: number, startOffset: number, upTo: number): Promise<Uint8Array | undefined>;
  /** The first batch below upTo whose maxTimestamp is the log's largest; undefined if the log is empty. */
  findBatchByMaxTimestamp(startOffset: number, upTo: number): Promise<Uint8Array | undefined>;
  /** Headers of the batches in [from, upTo), in offset order. I/O thread. With producersOnly, just those that carry a
   * producer id or are control batches. */
  scanBatches(from: number, upTo: number, producersOnly: boolean): Promise<BatchInfo[]>;
  /** Base offsets of all segments, ascending. */
  segmentBaseOffsets(): number[];
  /** Facts of all segments, ascending; the last one is the active one. I/O thread. */
  segmentFacts(): Promise<SegmentFacts[]>;
  /**
   * Takes the segments that begin at `old` out of the log: closed ones in a row, and flushed; one call at a time. Those that
   * begin at `cleaned` come in their place: their files lie ready, synced, under names that end in `.cleaned`; the first begins
   * where the first old one does. Without any, the first segments of the log leave, and the log start offset moves up if
   * need be.
   *
   * The exchange is atomic for readers and for a crash (through `.swap`), durable when resolved. Files of what left,
   * `.txnindex` too, then have names that end in `.deleted`, which are given for the caller to remove; ranges and
   * questions that began before go on reading them. Throws INVALID_ARGUMENT, OFFLINE, CLOSED; rejects with IO ..., and what was
   * not taken out stays readable; nothing may be cleaned in that log until it is opened again.
   */
  replaceSegments(old: readonly number[], cleaned: readonly number[]): Promise<readonly string[]>;

  /** fdatasync of all that is written at the call; moves flushedOffset. A failure takes the log offline. */
  flush(): Promise<void>;
  /** Closes the active segment, unless it is empty, and begins a new one at the end. Nothing may be staged. */
  roll(now: number): void;
  setOptions(options: LogOptions): void;
  /** Moves the log start offset up; never back. Deletes nothing. Throws OFFSET_OUT_OF_RANGE past writtenOffset. */
  setLogStartOffset(offset: number): void;
  /** Renames the folder (to `-delete`, say); open ranges stay readable. Durable when resolved. */
  rename(dir: string): Promise<void>;
  /** Writes what is staged nowhere: it must be committed before. Flushes, then closes; every other method answers CLOSED
   * from the call on. An offline log is closed without a flush. Idempotent. */
  close(): Promise<void>;
}

/** Opens logs and writes all that was staged. One per broker. */
export interface LogEngine {
  readonly name: 'native' | 'js';
  readonly inspector: BatchInspector;
  open(dir: string, options: OpenOptions): Promise<Log>;
  /**
   * Writes what is staged, one writev per log and segment. `done` is called once per log that had something staged,
   * perhaps before commit returns and perhaps later; with an error, that log was cut back to where it was at the last
   * commit and all that was staged on it is gone.
   */
  commit(done: (log: Log, error: BroadsheetError | undefined) => void): void;
  /** Starts write-back on all, then flushes each, on the I/O threads. */
  flushAll(logs: readonly Log[]): Promise<void>;
  readonly files: Files;
  close(): Promise<void>;
}

/** Whole-file operations, in order and durable when they resolve; each runs on an I/O thread. Errors are
 * BroadsheetErrors (NOT_FOUND, NO_SPACE, IO ...) that name the path. */
export interface Files {
  /** Rejects with LIMIT if the file is larger than maxBytes (default 64 MiB). */
  read(path: string, maxBytes?: number): Promise<Buffer>;
  /** Writes a temporary file beside it, syncs, renames over it, syncs the folder. */
  writeAtomic(path: string, data: Uint8Array | string): Promise<void>;
  /** Creates the file and its folder, and with them an empty file beside it if a path is given, all durable: one thread hop for a
   * new partition. Fails if the file exists. */
  createDurable(path: string, data: Uint8Array | string, empty?: string): Promise<void>;
  list(path: string): Promise<{ name: string; directory: boolean; size: number }[]>;
  exists(path: string): Promise<boolean>;
  mkdir(path: string): Promise<void>;
  rename(from: string, to: string): Promise<void>;
  /** Removes a file; missing is no error. */
  remove(path: string): Promise<void>;
  removeTree(path: string): Promise<void>;
  /** Of the file system that holds the path, bytes: its size, and what a user may still write. */
  space(path: string): Promise<{ readonly totalBytes: number; readonly usableBytes: number }>;
  /** Takes an exclusive F_OFD_SETLK lock and writes content into the file. Rejects with LOCKED; the message names the
   * holder's pid where it can be told. */
  lock(path: string, content: string): Promise<{ release(): Promise<void> }>;
}

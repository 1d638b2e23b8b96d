/**
 * The one file that loads the addon. It declares all that crosses the border and turns each Status into a
 * BroadsheetError.
 *
 * Rules of the border: a call that can fail returns a negative status code (hot calls; details by lastStatus()) or a
 * StatusObject (cold calls), or hands one to its callback. Nothing throws across. Offsets, positions and ids are doubles.
 * Results of hot calls lie in a Float64Array that both sides share; its slots are named by the addon itself (`slots`), so
 * no number is written down twice.
 */
import { closeSync, openSync, readSync } from 'node:fs';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';
import { BroadsheetError, type ErrorCode } from './runtime/errors.ts';
import { namingLimit } from './runtime/limits.ts';

/** A Status that is not OK, as the addon hands it over. */
export interface StatusObject {
  readonly code: ErrorCode;
  readonly errno: number;
  readonly context: string;
}

/** What a hot call leaves in `results`; each call says which. Meanings: native/slots.h. */
const SLOTS = [
  'baseOffset',
  'lastOffset',
  'baseTimestamp',
  'maxTimestamp',
  'producerId',
  'producerEpoch',
  'baseSequence',
  'recordCount',
  'attributes',
  'leaderEpoch',
  'sizeInBytes',
  'compression',
  'walked',
  'recordsMaxTimestamp',
  'recordsMaxIndex',
  'nullKeyIndex',
  'invalidIndex',
  'invalidTimestamp',
  'tombstones',
  'segment',
  'position',
  'length',
] as const;
export type SlotName = (typeof SLOTS)[number];

/** Ends a cold call: with a Status that is not OK, or with undefined and the result. */
export type Done<T> = (...outcome: [status: StatusObject] | [status: undefined, result: T]) => void;

export interface FolderEntry {
  name: string;
  directory: boolean;
  /** Bytes; 0 for a folder. */
  size: number;
}

/** The sockets of one transport as both sides see them. Opaque handle `transport`; the rest is memory. */
export interface SocketShared {
  readonly transport: object;
  /** Where frames of a tick lie: number 0 is the slab, others hold one large frame each. */
  readonly buffers: Uint8Array[];
  /** Records of socketLayout.event, as many as the tick's call says. */
  readonly events: Float64Array;
  /** Small answers, and whose they are: records of socketLayout.entry. A negative segment means bytes of the outbox. */
  readonly outbox: Uint8Array;
  readonly entries: Float64Array;
  /** ticking: 1 from a tick's beginning until what it left to send was taken. cursor: the next event to handle. entries:
   * how many wait in the outbox; the addon sets it to 0 when it takes them. */
  readonly control: Float64Array;
}

/** Sockets: native/socket_binding.cc. Calls on a closed transport, or on a connection that is gone, do nothing. */
export interface SocketAddon {
  /** Numbers of kinds and reasons, and the place of each field in its record, counted in doubles. */
  readonly socketLayout: {
    readonly events: Readonly<
      Record<'accepted' | 'frame' | 'badFrame' | 'ended' | 'closed' | 'acceptFailed' | 'drained', number>
    >;
    readonly reasons: Readonly<
      Record<'peer' | 'reset' | 'idle' | 'local' | 'bad-frame' | 'send-overflow' | 'error', number>
    >;
    readonly control: Readonly<Record<'ticking' | 'cursor' | 'entries', number>>;
    readonly event: Readonly<Record<'kind' | 'connection' | 'buffer' | 'start' | 'end' | 'stride', number>>;
    readonly entry: Readonly<Record<'connection' | 'segment' | 'start' | 'length' | 'stride', number>>;
  };
  socketOpen(
    maxFrameBytes: number,
    maxQueuedBytes: number,
    fetchPath: 'auto' | 'sendfile' | 'copy',
    sendBufferBytes: number,
    receiveBufferBytes: number,
  ): SocketShared | StatusObject;
  /** Begins to accept and receive. onEvents is called once per tick; it moves control's cursor past each event before it
   * handles it, since after an exception it is called again. */
  socketStart(transport: object, onEvents: (count: number) => void): StatusObject | undefined;
  /** Resolves the host's name while the caller waits. */
  socketListen(
    transport: object,
    host: string,
    port: number,
  ): { listener: number; port: number } | StatusObject;
  socketSetAccepting(transport: object, listener: number, accepting: boolean): number;
  socketCloseListener(transport: object, listener: number): number;
  /** After acceptFailed. */
  socketResumeAccepting(transport: object): number;
  /** Moves what lies in the outbox to the connections' queues. */
  socketTake(transport: object): number;
  /** The same, then queues bytes, which are copied. */
  socketSend(transport: object, connection: number, bytes: Uint8Array): number;
  /** socketTake, then writes as far as the sockets take it. */
  socketFlush(transport: object): number;
  /** Whether more than `mark` bytes of answers in memory wait; if so, a `drained` event follows. */
  socketBackedUp(transport: object, connection: number, mark: number): boolean;
  socketSetReading(transport: object, connection: number, reading: boolean): number;
  socketCloseConnection(transport: object, connection: number, drain: boolean): number;
  socketCloseIdle(transport: object, idleMs: number): number;
  /** closeConnection with drain for all. */
  socketDrainAll(transport: object): number;
  socketPeer(
    transport: object,
    connection: number,
  ):
    | {
        listener: number;
        remoteAddress: string;
        remotePort: number;
        localAddress: string;
        localPort: number;
      }
    | undefined;
  socketStats(transport: object):
    | {
        connections: number;
        bytesReceived: number;
        bytesSent: number;
        bytesBySendfile: number;
        bytesByCopy: number;
        bytesQueued: number;
        bytesPartial: number;
        buffersAllocated: number;
      }
    | undefined;
  /** Closes all at once; the events of that are still handed out, then `closed` is called: no handle is left. */
  socketClose(transport: object, closed: () => void): number;
}

/** What a log's own Float64Array holds; the last three are of its recovery. */
export type LogSlotName =
  | 'logStartOffset'
  | 'logEndOffset'
  | 'writtenOffset'
  | 'flushedOffset'
  | 'activeSegmentBaseOffset'
  | 'sizeInBytes'
  | 'offline'
  | 'bytesScanned'
  | 'bytesTruncated'
  | 'indexesRebuilt';

/** Logs, by handle. What takes `done` runs on an I/O thread and returns 0, or a negative code: done() is then not called.
 * A log that is closed, or about to be, answers CLOSED. */
export interface LogAddon {
  readonly logSlots: Readonly<Record<LogSlotName, number>>;
  /** Keeps `state` (a Float64Array of logSlots) up to date from done(undefined, handle, fault) on; fault names the first
   * batch that did not check out. */
  logOpen(
    dir: string,
    state: Float64Array,
    segmentBytes: number,
    segmentMs: number,
    indexBytes: number,
    indexIntervalBytes: number,
    logStartOffset: number,
    recoveryPoint: number,
    cleanShutdown: boolean,
    dense: boolean,
    knownEnd: number,
    latestLeaderEpoch: number,
    now: number,
    done: (status: StatusObject | undefined, handle: number, fault: string | undefined) => void,
  ): number;
  /** Returns 1 when a segment begins with the batch, else 0. The bytes are used until logCommit. */
  logStage(
    log: number,
    bytes: Uint8Array,
    start: number,
    end: number,
    leaderEpoch: number,
    now: number,
  ): number;
  logCommit(log: number): number;
  /** Returns 0: a range, in results segment, position, length; 1: empty; 2: cold; 3: out of range; or CORRUPT ... */
  logRead(log: number, offset: number, maxBytes: number, upTo: number, minOneMessage: boolean): number;
  /** Another handle for the file of a segment handle, good until fileRelease; or CLOSED. */
  fileHold(segment: number): number;
  /** The file's descriptor: whoever uses it holds the handle. */
  fileDescriptor(file: number): number;
  /** Returns 0, or CLOSED when it was released before. */
  fileRelease(file: number): number;
  /** Takes back the segment handles that reads gave out since the last call. */
  logEndTurn(): void;
  logRoll(log: number, now: number): number;
  logSetOptions(
    log: number,
    segmentBytes: number,
    segmentMs: number,
    indexBytes: number,
    indexIntervalBytes: number,
  ): number;
  logSetStartOffset(log: number, offset: number): number;
  logSegments(log: number): number[];
  logOffline(log: number): StatusObject | undefined;
  logFlush(log: number, done: Done<undefined>): number;
  logStartWriteback(logs: readonly number[], done: Done<undefined>): number;
  logWarm(log: number, offset: number, maxBytes: number, done: Done<undefined>): number;
  logReadBatches(log: number, offset: number, maxBytes: number, upTo: number, done: Done<Buffer>): number;
  /** No bytes: none found. */
  logFindByTimestamp(
    log: number,
    timestamp: number,
    startOffset: number,
    upTo: number,
    done: Done<Buffer>,
  ): number;
  logFindByMaxTimestamp(log: number, startOffset: number, upTo: number, done: Done<Buffer>): number;
  /** Ten numbers per batch, in the order of BatchInfo. */
  logScan(log: number, from: number, upTo: number, producersOnly: boolean, done: Done<Float64Array>): number;
  /** Five numbers per segment, in the order of SegmentFacts. */
  logFacts(log: number, done: Done<Float64Array>): number;
  logReplaceSegments(
    log: number,
    old: readonly number[],
    cleaned: readonly number[],
    done: Done<string[]>,
  ): number;
  logRename(log: number, dir: string, done: Done<undefined>): number;
  logClose(log: number, done: Done<undefined>): number;
  /** Open files of all logs of the process. With an argument, sets their limit; 0: by the process's own. */
  descriptorCache(files?: number): { openFiles: number; forcedSyncs: number };
}

export interface Addon extends SocketAddon, LogAddon {
  /** Name of each status code by its number (native/status.h). */
  readonly codes: readonly ErrorCode[];
  /** Where each result lies in `results`. */
  readonly slots: Readonly<Record<SlotName, number>>;
  /** Shared by all hot calls of this thread: read it before the next call. */
  readonly results: Float64Array;
  /** The Status behind the last negative result on this thread. */
  lastStatus(): StatusObject;

  /**
   * Checks what a producer sent for one partition: exactly one whole v2 batch (an incomplete one behind it is left
   * alone), in Kafka's order: frame, base offset 0, size, CRC, counts; then the records, unless they are compressed.
   * Timestamps must lie in [oldest, newest] (ms; -Infinity and Infinity: no bound). Returns the batch's size in bytes,
   * or BATCH_CORRUPT (CORRUPT_MESSAGE), BATCH_INVALID (INVALID_RECORD), BATCH_TOO_LARGE, TIMESTAMP_INVALID.
   *
   * results: the header's facts, also after a failure unless sizeInBytes is 0; walked; if it is 1, recordsMaxTimestamp,
   * recordsMaxIndex, nullKeyIndex, invalidIndex, invalidTimestamp. Control and transactional batches pass: the caller judges them.
   */
  inspectBatch(
    bytes: Uint8Array,
    start: number,
    end: number,
    maxMessageBytes: number,
    oldest: number,
    newest: number,
  ): number;
  /** The same walk over the decompressed records of a batch. Returns 0, BATCH_INVALID or TIMESTAMP_INVALID; results:
   * recordsMaxTimestamp, recordsMaxIndex, nullKeyIndex, invalidIndex, invalidTimestamp. */
  walkRecords(
    records: Uint8Array,
    start: number,
    end: number,
    count: number,
    baseTimestamp: number,
    oldest: number,
    newest: number,
  ): number;
  /** Sets the timestamp type and maxTimestamp of the one batch in [start, end), and makes its CRC fit. Returns 0. */
  patchBatch(
    bytes: Uint8Array,
    start: number,
    end: number,
    logAppendTime: boolean,
    maxTimestamp: number,
  ): number;
  /** CleanerEngine.learn, into the memory of an OffsetMap that has room for so many more keys. Returns how many came to it, or
   * CORRUPT; results: walked, 1 if all were learned. */
  learnKeys(
    map: Uint8Array,
    secret: Int32Array,
    room: number,
    bytes: Uint8Array,
    start: number,
    end: number,
    count: number,
    baseOffset: number,
    from: number,
  ): number;
  /** CleanerEngine.sift. Returns how many records stay, or CORRUPT; results: length (copied), tombstones, recordsMaxTimestamp (a
   * delta). */
  siftRecords(
    map: Uint8Array,
    secret: Int32Array,
    bytes: Uint8Array,
    start: number,
    end: number,
    count: number,
    baseOffset: number,
    upTo: number,
    dropsTombstones: boolean,
    into: Uint8Array,
    at: number,
  ): number;
  /** CRC32C of [start, end). */
  crc32c(bytes: Uint8Array, start: number, end: number): number;
  /** By one path, for tests and benchmarks; INVALID_ARGUMENT where this machine lacks it. */
  crc32cBy(bytes: Uint8Array, start: number, end: number, path: 'portable' | 'hardware'): number;

  // Whole-file operations, each on an I/O thread; durable when done() is called. They return 0, or INVALID_ARGUMENT:
  // done() is then not called.
  readFile(path: string, maxBytes: number, done: Done<Buffer>): number;
  writeAtomic(path: string, data: Uint8Array | string, done: Done<undefined>): number;
  /** `empty`: a path, or nothing. Gives whether the folder was made: its name is not durable then. */
  createInFolder(path: string, data: Uint8Array | string, empty: string, done: Done<boolean>): number;
  syncFolder(path: string, done: Done<undefined>): number;
  listFolder(path: string, done: Done<FolderEntry[]>): number;
  pathExists(path: string, done: Done<boolean>): number;
  makeFolder(path: string, done: Done<undefined>): number;
  renamePath(from: string, to: string, done: Done<undefined>): number;
  removeFile(path: string, done: Done<undefined>): number;
  removeTree(path: string, done: Done<undefined>): number;
  /** The result is a handle for releaseLock. */
  lockFile(path: string, content: string, done: Done<number>): number;
  /** Returns 0, or CLOSED when it was released before. */
  releaseLock(lock: number): number;
}

let loaded: Addon | undefined;

/** Why the addon is not even tried. Bun has N-API, but not the functions of libuv that the transport needs. */
function obstacle(): string | undefined {
  return process.versions.bun === undefined ? undefined : 'Bun lacks the libuv functions that it needs';
}

/** Type, of an ELF file's program headers, of the one that says where the dynamic loader is named. */
const PT_INTERP = 3;

/** Whether the running Node is linked against musl: by the name of its dynamic loader (System V ABI, chapter 5). */
function onMusl(): boolean {
  if (process.platform !== 'linux') return false;
  const file = openSync(process.execPath, 'r');
  try {
    const read = (position: number, length: number) => {
      const bytes = Buffer.alloc(length);
      return bytes.subarray(0, readSync(file, bytes, 0, length, position));
    };
    const header = read(0, 64);
    const [size, count] = [header.readUInt16LE(54), header.readUInt16LE(56)];
    const table = read(Number(header.readBigUInt64LE(32)), size * count);
    for (let at = 0; at < table.length; at += size) {
      if (table.readUInt32LE(at) !== PT_INTERP) continue;
      const length = Math.min(4_096, Number(table.readBigUInt64LE(at + 32)));
      return read(Number(table.readBigUInt64LE(at + 8)), length).includes('/ld-musl-');
    }
    return false;
  } finally {
    closeSync(file);
  }
}

/** What onMusl() says where it can say something: a 32-bit Node, or one that can't be read, is as node-gyp-build sees it. */
function seemsOnMusl(): boolean {
  try {
    return onMusl();
  } catch {
    return false;
  }
}

/** Requires what was compiled here, else the package's binary for this machine. */
function requireBinary(require: NodeJS.Require, root: string): unknown {
  // node-gyp-build takes this name from the environment, or looks whether the system is Alpine.
  const given = process.env.LIBC;
  if (given === undefined && seemsOnMusl()) process.env.LIBC = 'musl';
  try {
    return require('node-gyp-build')(root);
  } finally {
    if (given === undefined) delete process.env.LIBC;
  }
}

/** Loads the addon once. Throws ADDON_UNAVAILABLE, naming what was tried. */
export function addon(): Addon {
  if (loaded === undefined) {
    const require = createRequire(import.meta.url);
    // src/native.ts and the files of dist lie at the same depth.
    const root = fileURLToPath(new URL('..', import.meta.url));
    // For development: another build of the addon, such as the one with sanitizers.
    const path = process.env.BROADSHEET_ADDON;
    try {
      const why = obstacle();
      if (why !== undefined) throw new Error(why);
      loaded = checked((path ? require(path) : requireBinary(require, root)) as Addon);
    } catch (error) {
      throw new BroadsheetError(
        'ADDON_UNAVAILABLE',
        `the native addon does not load on ${process.platform}-${process.arch}: ${(error as Error).message}`,
        0,
        { cause: error },
      );
    }
  }
  return loaded;
}

/** A binary of another version must not be read wrongly. */
function checked(candidate: Addon): Addon {
  const missing = SLOTS.filter((name) => candidate.slots?.[name] === undefined);
  if (missing.length > 0) throw new Error(`it was built from other sources: no slot ${missing.join(', ')}`);
  // To V8 an object with so many properties that were set one by one is a dictionary, which every access searches. Copies
  // have a shape.
  return { ...candidate, slots: { ...candidate.slots } };
}

export function toError(status: StatusObject): BroadsheetError {
  return new BroadsheetError(status.code, namingLimit(status.context, status.errno), status.errno);
}

/** Passes a hot call's result on, or throws its Status. */
export function check(result: number): number {
  if (result < 0) throw toError(addon().lastStatus());
  return result;
}

/**
 * A log that is replayed into state and appended to in order to change it. An append is written in the call that makes
 * it, so that the next event already sees the changed state; it is durable once flushed() resolves, and no answer that
 * tells of it may leave earlier.
 */
import type { LogCommitter } from '../log/committer.ts';
import { noteFailedFlush } from '../log/failed-flush.ts';
import type { Files, Log } from '../log/log.ts';
import { RecordBatch, readBatches } from '../protocol/records/reader.ts';
import { BatchBuilder } from '../protocol/records/writer.ts';
import type { Clock, Timer } from '../runtime/clock.ts';
import { BroadsheetError } from '../runtime/errors.ts';
import { writeKnownEnd } from './kraft-files.ts';

export interface JournalRecord {
  readonly key: Uint8Array | null;
  readonly value: Uint8Array | null;
}

export interface AppendOptions {
  readonly leaderEpoch: number;
  /** Control batch: its records are the log's own marks. */
  readonly control: boolean;
  /** Timestamp of the records, ms since the epoch. */
  readonly now: number;
}

/** The batches of bytes, each checked. Throws CORRUPT. */
export function* recordBatches(bytes: Uint8Array): Generator<RecordBatch> {
  for (const batch of readBatches(bytes)) {
    if (!(batch instanceof RecordBatch)) throw new BroadsheetError('CORRUPT', 'a batch older than magic 2');
    if (!batch.checksOut()) {
      throw new BroadsheetError(
        'CORRUPT',
        `the checksum of the batch at offset ${batch.baseOffset} is wrong`,
      );
    }
    yield batch;
  }
}

function encode(records: readonly JournalRecord[], { control, now }: AppendOptions): Uint8Array {
  const builder = new BatchBuilder({ control });
  for (const { key, value } of records) builder.append({ timestamp: now, key, value });
  return builder.build();
}

/** Bytes read at a time in a replay. */
const REPLAY_CHUNK_BYTES = 1024 * 1024;

export class Journal {
  readonly log: Log;
  /** Told of each batch that was appended: its bytes, and its timestamp in ms since the epoch. */
  onAppended: ((bytes: number, timestamp: number) => void) | undefined;
  readonly #committer: LogCommitter;
  readonly #files: Files;
  /** Tells the append that is being committed what became of it. */
  #outcome: ((error: BroadsheetError | undefined) => void) | undefined;
  /** A write that failed after its append had returned. */
  #failure: BroadsheetError | undefined;
  /** Appends handed to the engine that are not known to be written. */
  #unwritten = 0;
  #whenWritten: (() => void)[] = [];
  #flushing: Promise<void> | undefined;
  /** A flush that has not begun: whatever is appended until then shares it. */
  #nextFlush: Promise<void> | undefined;
  /** Since it was opened. */
  #hasAppended = false;
  #notedEnd = 0;
  #noting: Promise<void> = Promise.resolve();
  #noteTimer: Timer | undefined;
  #armNote = () => {};

  /** Through `files` a failed flush is noted for the next start. */
  constructor(log: Log, committer: LogCommitter, files: Files) {
    this.log = log;
    this.#files = files;
    this.#committer = committer;
    committer.register(log, (_, error) => this.#written(error));
  }

  /** Visits every batch from `from` to the end, in order. Throws what visit throws, and CORRUPT. */
  async replay(from: number, visit: (batch: RecordBatch) => void): Promise<void> {
    let offset = from;
    while (offset < this.log.writtenOffset) {
      const bytes = await this.log.readBatches(offset, REPLAY_CHUNK_BYTES, this.log.writtenOffset);
      const before = offset;
      for (const batch of recordBatches(bytes)) {
        visit(batch);
        offset = batch.lastOffset + 1;
      }
      if (offset <= before)
        throw new BroadsheetError('CORRUPT', `${this.log.dir}: no batch holds offset ${offset}`);
    }
  }

  /**
   * Appends records as one batch and returns the offset of the first. When the write fails before the call returns,
   * nothing was appended and the error is thrown (NO_SPACE, IO ...). A write that fails later takes the log offline, as
   * a failed flush does: the state is then ahead of the log, and only a restart replays it. Throws OFFLINE, CLOSED.
   */
  append(records: readonly JournalRecord[], options: AppendOptions): number {
    this.#assertWhole();
    const bytes = encode(records, options);
    const { baseOffset } = this.log.stage(bytes, 0, bytes.length, options.leaderEpoch, options.now);
    let failure: BroadsheetError | undefined;
    this.#unwritten++;
    this.#outcome = (error) => {
      failure = error;
    };
    this.#committer.commit();
    this.#outcome = undefined;
    if (failure !== undefined) throw failure;
    this.#hasAppended = true;
    this.onAppended?.(bytes.length, options.now);
    return baseOffset;
  }

  #written(error: BroadsheetError | undefined): void {
    if (this.#outcome !== undefined) {
      this.#unwritten--;
      this.#outcome(error);
      return;
    }
    // One write may hold several appends.
    this.#unwritten = 0;
    this.#failure ??= error;
    for (const resume of this.#whenWritten.splice(0)) resume();
  }

  /** Resolves when all that was appended so far is durable. One flush runs at a time and the next one covers all that
   * was appended in between. Rejects when the flush fails; the log is offline then. */
  flushed(): Promise<void> {
    if (this.#nextFlush !== undefined) return this.#nextFlush;
    if (this.#unwritten === 0 && this.log.flushedOffset >= this.log.logEndOffset) return Promise.resolve();
    this.#nextFlush = this.#flush();
    return this.#nextFlush;
  }

  async #flush(): Promise<void> {
    const before = this.#flushing;
    // One that failed has taken the log offline: the flush below says so.
    await before?.catch(() => {});
    if (this.#unwritten > 0) await new Promise<void>((resolve) => this.#whenWritten.push(resolve));
    this.#nextFlush = undefined;
    this.#assertWhole();
    this.#flushing = this.#sync();
    await this.#flushing;
  }

  async #sync(): Promise<void> {
    try {
      await this.log.flush();
    } catch (error) {
      // It is the flush that the caller has to hear of.
      await noteFailedFlush(this.#files, this.log).catch(() => {});
      throw error;
    }
    this.#armNote();
  }

  /** From now on writes down how far the log is on disk, so that a start knows damage below from a torn end: some time after a flush,
   * without which it is done by close() alone. */
  noteEnds(clock: Clock, afterMs: number): void {
    this.#armNote = () => {
      this.#noteTimer ??= clock.setTimer(afterMs, () => {
        this.#noteTimer = undefined;
        this.#noting = this.#noteEnd();
      });
    };
    this.#armNote();
  }

  async #noteEnd(): Promise<void> {
    const { flushedOffset, dir } = this.log;
    if (flushedOffset <= this.#notedEnd) return;
    try {
      await writeKnownEnd(this.#files, dir, flushedOffset);
      this.#notedEnd = flushedOffset;
    } catch (error) {
      // What was noted before is still true.
      if (!(error instanceof BroadsheetError)) throw error;
    }
  }

  #assertWhole(): void {
    if (this.#failure !== undefined) throw new BroadsheetError('OFFLINE', this.#failure.message);
  }

  /** Begins a new segment at the end, where all that was appended is written; else does nothing. */
  roll(now: number): void {
    if (this.#unwritten === 0) this.log.roll(now);
  }

  /** Flushes and closes the log. Idempotent. */
  async close(): Promise<void> {
    this.#committer.unregister(this.log);
    const { log } = this;
    this.#armNote = () => {};
    this.#noteTimer?.cancel();
    let flushed = false;
    try {
      if (log.offline === undefined && log.flushedOffset < log.writtenOffset) await this.#sync();
      flushed = log.flushedOffset >= log.writtenOffset;
      await this.#noting;
      if (this.#hasAppended) await this.#noteEnd();
    } finally {
      await log.close().catch((error: unknown) => {
        // With all records on disk, what has no space is the end of an index, and the next start makes that again.
        if (!flushed || !(error instanceof BroadsheetError) || error.code !== 'NO_SPACE') throw error;
      });
    }
  }
}

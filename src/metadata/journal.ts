/**
 * A log that is replayed into state and appended to in order to change it. An append is written in the call that makes
 * it, so that the next event already sees the changed state; it is durable once flushed() resolves, and no answer that
 * tells of it may leave earlier.
 */
import type { Log } from '../log/log.ts';
import { ATTRIBUTE_CONTROL } from '../protocol/records/batch.ts';
import { RecordBatch, readBatches } from '../protocol/records/reader.ts';
import { writeBatch } from '../protocol/records/writer.ts';
import { BroadsheetError } from '../runtime/errors.ts';

/**
 * Writes what is staged (LogEngine.commit). `done` is called for this journal's log, before the call returns or later,
 * with the error if nothing was written. An engine that is shared with others' logs needs a commit that tells each
 * owner of its own.
 */
export type Commit = (done: (log: Log, error: BroadsheetError | undefined) => void) => void;

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
    batch.ensureValid();
    yield batch;
  }
}

function encode(records: readonly JournalRecord[], { control, leaderEpoch, now }: AppendOptions): Uint8Array {
  return writeBatch(
    {
      // Given by the log.
      baseOffset: 0,
      leaderEpoch,
      attributes: control ? ATTRIBUTE_CONTROL : 0,
      lastOffsetDelta: records.length - 1,
      baseTimestamp: now,
      maxTimestamp: now,
      producerId: -1,
      producerEpoch: -1,
      baseSequence: -1,
    },
    records.map(({ key, value }, offsetDelta) => ({
      attributes: 0,
      timestampDelta: 0,
      offsetDelta,
      key,
      value,
      headers: [],
    })),
  );
}

/** Bytes read at a time in a replay. */
const REPLAY_CHUNK_BYTES = 1024 * 1024;

export class Journal {
  readonly log: Log;
  readonly #commit: Commit;
  /** A write that failed after its append had returned. */
  #failure: BroadsheetError | undefined;
  /** Appends handed to the engine that are not known to be written. */
  #unwritten = 0;
  #whenWritten: (() => void)[] = [];
  #flushing: Promise<void> | undefined;
  /** A flush that has not begun: whatever is appended until then shares it. */
  #nextFlush: Promise<void> | undefined;

  constructor(log: Log, commit: Commit) {
    this.log = log;
    this.#commit = commit;
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
    let returned = false;
    this.#unwritten++;
    this.#commit((log, error) => {
      if (log !== this.log) return;
      this.#unwritten--;
      if (returned) this.#failure ??= error;
      else failure = error;
      if (returned && this.#unwritten === 0) for (const resume of this.#whenWritten.splice(0)) resume();
    });
    returned = true;
    if (failure !== undefined) throw failure;
    return baseOffset;
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
    this.#flushing = this.log.flush();
    await this.#flushing;
  }

  #assertWhole(): void {
    if (this.#failure !== undefined) throw new BroadsheetError('OFFLINE', this.#failure.message);
  }

  /** Flushes and closes the log. Idempotent. */
  async close(): Promise<void> {
    await this.log.close();
  }
}

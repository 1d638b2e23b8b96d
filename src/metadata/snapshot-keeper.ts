/**
 * Makes snapshots of the metadata log while it grows, and deletes what they replace (KIP-630): after
 * metadata.log.max.record.bytes.between.snapshots of records, or metadata.log.max.snapshot.interval.ms after the last one if
 * anything has come since.
 *
 * A snapshot is put together between other work, a batch at a time, and gets its name once what it holds is durable and it
 * is itself. Old ones go by metadata.max.retention.bytes and .ms, and the log's segments below the oldest with them. The
 * two newest stay, with the log behind the older one: a start can do without the newest.
 */
import type { Files } from '../log/log.ts';
import { segmentFileName } from '../log/segment-names.ts';
import type { Clock, Timer } from '../runtime/clock.ts';
import { BroadsheetError } from '../runtime/errors.ts';
import type { Logger } from '../runtime/logging.ts';
import { FrozenImage } from './frozen-image.ts';
import type { ClusterImage } from './image.ts';
import type { Journal, JournalRecord } from './journal.ts';
import { type SnapshotName, snapshotName, snapshotNames } from './kraft-files.ts';
import { readLastTimestamp, snapshotBatches } from './snapshot.ts';

export interface SnapshotSettings {
  readonly clock: Clock;
  readonly logger: Logger;
  /** metadata.log.max.record.bytes.between.snapshots. */
  readonly maxRecordBytes: number;
  /** metadata.log.max.snapshot.interval.ms; 0: never by time. */
  readonly maxIntervalMs: number;
  /** metadata.max.retention.bytes, of the log and its snapshots; below 0: no limit. */
  readonly retentionBytes: number;
  /** metadata.max.retention.ms; below 0: no limit. */
  readonly retentionMs: number;
  /** Time between two looks at what is too old, ms. */
  readonly checkIntervalMs: number;
  /** log.flush.offset.checkpoint.interval.ms: after what time it is written down how far the log is on disk, ms. */
  readonly recoveryPointMs: number;
}

export interface SnapshotSource {
  readonly folder: string;
  readonly files: Files;
  readonly journal: Journal;
  readonly image: ClusterImage;
  /** Undefined while a transaction of the metadata is open: no snapshot can be made then. */
  now(): { readonly epoch: number; readonly control: readonly JournalRecord[] } | undefined;
  /** The log's segments below an offset are gone. */
  onPrefixDeleted(startOffset: number): Promise<void>;
}

export interface SnapshotState {
  /** Bytes of the log that no snapshot holds. */
  readonly bytesSince: number;
  /** Of the last batch in the log, ms since the epoch. */
  readonly lastTimestamp: number;
}

/** Snapshots that are never deleted. */
const KEPT = 2;
/** Time until another try at a snapshot that could not be written, ms. */
const RETRY_MS = 60_000;
const LEFTOVER = /\.checkpoint\.(tmp|part|deleted)$/;

interface Kept extends SnapshotName {
  readonly sizeInBytes: number;
  /** Undefined until it is asked for. */
  lastTimestamp: number | undefined;
}

/** The loop goes on with what came meanwhile. */
const otherWork = () => new Promise<void>((resolve) => setImmediate(resolve));

export class SnapshotKeeper {
  readonly #source: SnapshotSource;
  readonly #settings: SnapshotSettings;
  /** Ascending. */
  #kept: Kept[] = [];
  #bytesSince: number;
  #lastTimestamp: number;
  #lastMadeAt: number;
  /** After a failure. */
  #notBefore = Number.NEGATIVE_INFINITY;
  #nextTry: Timer | undefined;
  #check: Timer | undefined;
  /** What changes files, one thing after the other. */
  #work: Promise<void> = Promise.resolve();
  #making = false;
  #closed = false;

  constructor(source: SnapshotSource, settings: SnapshotSettings, state: SnapshotState) {
    this.#source = source;
    this.#settings = settings;
    this.#bytesSince = state.bytesSince;
    this.#lastTimestamp = state.lastTimestamp;
    this.#lastMadeAt = settings.clock.monotonic();
  }

  /** Removes what a kill has left, sets aside what is damaged, and keeps snapshots from now on. */
  async start(damaged: readonly SnapshotName[]): Promise<void> {
    const { files, folder, journal } = this.#source;
    const entries = await files.list(folder);
    const sizes = new Map(entries.map(({ name, size }) => [name, size]));
    for (const { name } of entries) if (LEFTOVER.test(name)) await files.remove(`${folder}/${name}`);
    for (const { name } of damaged) {
      await files.rename(`${folder}/${name}`, `${folder}/${name}.quarantine`);
      sizes.delete(name);
    }
    for (const found of snapshotNames([...sizes.keys()]).reverse()) {
      // The log that it would need has gone.
      const isUseless = found.endOffset < journal.log.logStartOffset;
      if (isUseless) await files.remove(`${folder}/${found.name}`);
      else this.#kept.push({ ...found, sizeInBytes: sizes.get(found.name)!, lastTimestamp: undefined });
    }
    journal.onAppended = (bytes, timestamp) => {
      this.#bytesSince += bytes;
      this.#lastTimestamp = timestamp;
      this.#plan();
    };
    this.#armCheck();
    if (damaged.length > 0) this.#lastMadeAt = Number.NEGATIVE_INFINITY;
    this.#plan();
  }

  /** Waits for what is under way. Idempotent. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#source.journal.onAppended = undefined;
    this.#nextTry?.cancel();
    this.#check?.cancel();
    await this.#work;
  }

  /** Resolves when what is under way is done. */
  idle(): Promise<void> {
    return this.#work;
  }

  /** Resolves when nothing is under way; no file is made or deleted until the function that is given is called. */
  hold(): Promise<() => void> {
    return new Promise((held) => {
      this.#work = this.#work.then(() => new Promise<void>((release) => held(release)));
    });
  }

  /** Names of the snapshots that hold no more than what lies below an offset. */
  namesUpTo(offset: number): string[] {
    return this.#kept.filter(({ endOffset }) => endOffset <= offset).map(({ name }) => name);
  }

  get #isLarge(): boolean {
    return this.#bytesSince >= this.#settings.maxRecordBytes;
  }

  /** Arms the timer for the next snapshot. It never begins in the call that appends: that is applied behind the append. */
  #plan(): void {
    const { clock, maxIntervalMs } = this.#settings;
    if (this.#closed || this.#making || this.#bytesSince === 0) return;
    if (!this.#isLarge && (maxIntervalMs === 0 || this.#nextTry !== undefined)) return;
    this.#nextTry?.cancel();
    const due = Math.max(this.#isLarge ? 0 : this.#lastMadeAt + maxIntervalMs, this.#notBefore);
    this.#nextTry = clock.setTimer(due - clock.monotonic(), () => {
      this.#nextTry = undefined;
      this.#making = true;
      this.#alone('a snapshot of the metadata log could not be made', () => this.#make());
    });
  }

  #armCheck(): void {
    const { clock, checkIntervalMs } = this.#settings;
    this.#check = clock.setTimer(checkIntervalMs, () => {
      this.#alone('old snapshots of the metadata log could not be deleted', () => this.#clean());
      this.#armCheck();
    });
  }

  #alone(failure: string, work: () => Promise<void>): void {
    this.#work = this.#work.then(work).catch((error: unknown) => {
      const reason = error instanceof BroadsheetError ? error.message : String((error as Error).stack);
      this.#settings.logger.error({ reason }, failure);
    });
  }

  async #make(): Promise<void> {
    let isMade = false;
    try {
      isMade = await this.#write();
    } finally {
      this.#making = false;
      if (!isMade) this.#notBefore = this.#settings.clock.monotonic() + RETRY_MS;
      this.#plan();
    }
    await this.#clean();
  }

  /** False if it is not the time for one. */
  async #write(): Promise<boolean> {
    const { folder, files, journal, image } = this.#source;
    const { clock, logger } = this.#settings;
    const facts = this.#source.now();
    const { log } = journal;
    const name = snapshotName(log.logEndOffset, facts?.epoch ?? 0);
    if (this.#closed || facts === undefined) return false;
    const lastTimestamp = this.#lastTimestamp;
    const bytesSince = this.#bytesSince;
    const isLarge = this.#isLarge;
    const frozen = new FrozenImage(image);
    this.#bytesSince = 0;
    this.#lastMadeAt = clock.monotonic();
    try {
      // What a snapshot holds can go as whole segments.
      if (isLarge) journal.roll(clock.now());
      const parts: Uint8Array[] = [];
      for (const part of snapshotBatches(frozen.records(), { ...facts, lastTimestamp, now: clock.now() })) {
        parts.push(part);
        await otherWork();
        if (this.#closed) return false;
      }
      await journal.flushed();
      const bytes = Buffer.concat(parts);
      await files.writeAtomic(`${folder}/${name.name}`, bytes);
      this.#kept.push({ ...name, sizeInBytes: bytes.length, lastTimestamp });
      logger.info({ snapshot: name.name, bytes: bytes.length }, 'made a snapshot of the metadata log');
      return true;
    } catch (error) {
      this.#bytesSince += bytesSince;
      throw error;
    } finally {
      frozen.release();
    }
  }

  /** Deletes the oldest, as long as there is too much or it is too old: first the log below a snapshot, then that. */
  async #clean(): Promise<void> {
    const { journal, folder, files } = this.#source;
    const { logger } = this.#settings;
    while (!this.#closed && this.#kept.length >= KEPT) {
      const oldest = this.#kept[0]!;
      if (!(await this.#mustGo(oldest))) return;
      if (await this.#deletePrefix(oldest.endOffset)) continue;
      if (this.#kept.length === KEPT) return;
      await files.remove(`${folder}/${oldest.name}`);
      this.#kept.shift();
      logger.info({ snapshot: oldest.name, startsAt: journal.log.logStartOffset }, 'deleted an old snapshot');
    }
  }

  async #mustGo(oldest: Kept): Promise<boolean> {
    const { journal, folder, files } = this.#source;
    const { clock, retentionBytes, retentionMs, logger } = this.#settings;
    let bytes = journal.log.sizeInBytes;
    for (const { sizeInBytes } of this.#kept) bytes += sizeInBytes;
    if (retentionBytes >= 0 && bytes > retentionBytes) return true;
    if (retentionMs < 0) return false;
    try {
      oldest.lastTimestamp ??= await readLastTimestamp(files, folder, oldest);
    } catch (error) {
      if (!(error instanceof BroadsheetError) || error.code !== 'CORRUPT') throw error;
      logger.warn({ reason: error.message }, 'an old snapshot is damaged');
      oldest.lastTimestamp = Number.MAX_SAFE_INTEGER;
    }
    return clock.now() - oldest.lastTimestamp > retentionMs;
  }

  /** Deletes the segments that lie below an offset; false if there are none. */
  async #deletePrefix(offset: number): Promise<boolean> {
    const { journal, folder, files } = this.#source;
    const { log } = journal;
    const bases = log.segmentBaseOffsets();
    const gone = bases.filter((_, i) => i + 1 < bases.length && bases[i + 1]! <= offset);
    if (gone.length === 0) return false;
    await journal.flushed();
    log.setLogStartOffset(offset);
    for (const name of await log.replaceSegments(gone, [])) await files.remove(`${folder}/${name}`);
    const { logStartOffset } = log;
    for (const base of gone) await files.remove(`${folder}/${segmentFileName(base, '.snapshot')}`);
    this.#settings.logger.info({ segments: gone.length, logStartOffset }, 'deleted the old metadata log');
    await this.#source.onPrefixDeleted(logStartOffset);
    return true;
  }
}

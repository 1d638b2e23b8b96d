/**
 * Keeps the last of the disk for what has to go on when it is full: commits, transactions, metadata, deletes, a clean stop.
 * Records of producers are refused below a reserve, and after a write that found no space, until there is more again.
 *
 * How much is left is asked by a timer, on a thread; between two looks what producers send is taken off. Others may fill the disk
 * all the same: a file of BALLAST_BYTES lies in the directory, and goes when hardly anything else is left.
 */
import { randomBytes } from 'node:crypto';
import type { Clock, Timer } from '../runtime/clock.ts';
import { BroadsheetError } from '../runtime/errors.ts';
import type { Logger } from '../runtime/logging.ts';
import type { Files } from './log.ts';

export const BALLAST_FILE = '.ballast';
const BALLAST_BYTES = 1 << 20;
const LEAST_BALLAST_BYTES = 64 << 10;
/** The reserve, unless one is set: no more than a twentieth of the file system. */
const DEFAULT_RESERVE_BYTES = 64 << 20;
const LOOK_MS = 5000;
/** Without a reserve: with less, once the ballast went, records are refused, or they would take its place. */
const LEAST_BYTES = 2 * BALLAST_BYTES;
/** When the disk is full, or the ballast is missing. */
const LOOK_SOON_MS = 1000;
/** A write that found no space where the file system says that there is some (a quota): how long nothing is tried. */
const HOLD_MS = 5000;

export interface DiskReserveOptions {
  /** Absolute path. */
  readonly dataDir: string;
  readonly files: Files;
  readonly clock: Clock;
  readonly logger: Logger;
  /** 0: none but the ballast; negative: the default. */
  readonly reserveBytes: number;
  /** Default: yes. */
  readonly keepsBallast?: boolean;
}

export class DiskReserve {
  readonly #options: DiskReserveOptions;
  readonly #ballast: string;
  #hasBallast = false;
  /** Of one that lay there: it may have been cut short. */
  #isMeasured = false;
  #reserve = 0;
  /** At the last look; infinite where the file system does not tell. */
  #usable = Number.POSITIVE_INFINITY;
  /** What producers sent since. */
  #sent = 0;
  /** Of that, what came before the last look began, and was perhaps not written yet when it looked. */
  #unseen = 0;
  /** Sent bytes after which it is time for a look. */
  #stride = Number.POSITIVE_INFINITY;
  #full = false;
  #heldUntil = 0;
  #looking: Promise<void> | undefined;
  #timer: Timer | undefined;
  #closed = false;

  constructor(options: DiskReserveOptions) {
    this.#options = options;
    this.#ballast = `${options.dataDir}/${BALLAST_FILE}`;
  }

  /** Does the first thing that writes into the directory; where it finds no space the ballast makes some. */
  async first<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof BroadsheetError) || error.code !== 'NO_SPACE') throw error;
      await this.#options.files.remove(this.#ballast);
      return work();
    }
  }

  /** To be called when the directory is locked and before anything else is written. */
  async open(): Promise<void> {
    this.#hasBallast = await this.#options.files.exists(this.#ballast);
    await this.#look();
    this.#arm();
  }

  /** Why `bytes` more of records may not be appended now, or undefined. */
  refusal(bytes: number): string | undefined {
    this.#sent += bytes;
    if (this.#sent >= this.#stride) void this.look();
    if (this.#full) return this.#fullText();
    const left = this.#usable - this.#sent;
    if (this.#reserve === 0 || left >= this.#reserve) return undefined;
    return `${this.#options.dataDir} has about ${Math.max(0, left + bytes)} bytes left, and ${bytes} more do not fit: ${this.#kept()}`;
  }

  #fullText(): string {
    const { dataDir, clock } = this.#options;
    if (this.#usable >= this.#enough || clock.monotonic() < this.#heldUntil)
      return `a write to ${dataDir} found no space, where ${this.#usable} bytes were left: nothing is appended for a moment`;
    const text = `${dataDir} has ${this.#usable} bytes left, and nothing is appended until there are ${this.#enough}`;
    return this.#reserve === 0 ? text : `${text}: ${this.#kept()}`;
  }

  #kept(): string {
    return `the last ${this.#reserve} are kept for commits and deletes (log.disk.reserve.bytes)`;
  }

  /** When records are taken again: more than what made it full, so that it does not change with every file. */
  get #enough(): number {
    return this.#reserve === 0 ? LEAST_BYTES : this.#reserve + Math.ceil(this.#reserve / 8);
  }

  /** Has producers refused after a write that found no space. Gives the error to tell. */
  onNoSpace(error: BroadsheetError): BroadsheetError {
    this.#heldUntil = this.#options.clock.monotonic() + HOLD_MS;
    const wasFull = this.#full;
    this.#full = true;
    const left = Number.isFinite(this.#usable) ? `${this.#usable} bytes` : 'an unknown number of bytes';
    const looked = this.look();
    // Others took what was left since the last look: the log is to say what there is.
    if (!wasFull) void looked.then(() => this.#tellFull(error.message));
    const message = `no space in ${this.#options.dataDir}, which had ${left} left at the last look: ${error.message}`;
    return new BroadsheetError('NO_SPACE', message, error.errno, { cause: error });
  }

  #tellFull(reason: string): void {
    const fields = { usableBytes: this.#usable, reserveBytes: this.#reserve, reason };
    this.#options.logger.error(fields, 'the disk is full: records are refused until there is space');
  }

  /** Asks how much is left. One look at a time. */
  look(): Promise<void> {
    this.#looking ??= this.#look()
      .then(() => this.#restoreBallast())
      .finally(() => {
        this.#looking = undefined;
        this.#arm();
      });
    return this.#looking;
  }

  async #look(): Promise<void> {
    const { files, dataDir, logger, reserveBytes } = this.#options;
    const recent = this.#sent - this.#unseen;
    try {
      const { totalBytes, usableBytes } = await files.space(dataDir);
      // Some file systems do not say.
      if (totalBytes > 0) {
        const most = Math.floor(totalBytes / 20);
        this.#reserve = reserveBytes < 0 ? Math.min(DEFAULT_RESERVE_BYTES, most) : reserveBytes;
        this.#usable = usableBytes;
        this.#sent -= this.#unseen;
        this.#unseen = recent;
        this.#stride = Math.max((usableBytes - this.#reserve) / 2, 1 << 20);
        if (this.#hasBallast && this.#isBallastNeeded()) {
          this.#hasBallast = false;
          await files.remove(this.#ballast);
        }
        this.#judge();
      } else if (this.#full && this.#options.clock.monotonic() >= this.#heldUntil) this.#full = false;
    } catch (error) {
      logger.warn({ reason: (error as Error).message }, 'it is not known how much space is left');
    }
  }

  #judge(): void {
    if (!this.#full) {
      // A little above, where single requests do not fit any more.
      const least = this.#reserve + this.#reserve / 16;
      if (this.#usable >= (this.#reserve === 0 && this.#lacksBallast() ? LEAST_BYTES : least)) return;
      this.#full = true;
      this.#tellFull(this.#fullText());
      return;
    }
    if (this.#usable < this.#enough || this.#options.clock.monotonic() < this.#heldUntil) return;
    this.#full = false;
    this.#options.logger.info({ usableBytes: this.#usable }, 'there is space again: records are taken');
  }

  /** Without a reserve producers may take all the rest but what is left for a start. */
  #isBallastNeeded(): boolean {
    const isShort = this.#reserve > 0 || this.#full || this.#usable < LEAST_BALLAST_BYTES;
    return this.#usable < BALLAST_BYTES && isShort;
  }

  /** Where there is plenty. Not in a start, which has no time for it. */
  async #restoreBallast(): Promise<void> {
    if (this.#hasBallast && !this.#isMeasured) {
      this.#isMeasured = true;
      const bytes = await this.#options.files.read(this.#ballast, BALLAST_BYTES).catch(() => undefined);
      this.#hasBallast = bytes?.length === BALLAST_BYTES;
    }
    if (!this.#lacksBallast() || this.#usable < this.#reserve + LEAST_BYTES) return;
    await this.#makeBallast(BALLAST_BYTES).catch((error: Error) => {
      this.#options.logger.warn({ reason: error.message }, 'no space is kept for the next start');
    });
  }

  #lacksBallast(): boolean {
    const { keepsBallast = true } = this.#options;
    return keepsBallast && !this.#hasBallast && Number.isFinite(this.#usable);
  }

  async #makeBallast(bytes: number): Promise<void> {
    // Of what no file system can make smaller.
    await this.#options.files.writeAtomic(this.#ballast, randomBytes(bytes));
    this.#hasBallast = true;
    this.#isMeasured = true;
  }

  #arm(): void {
    this.#timer?.cancel();
    if (this.#closed) return;
    const soon = this.#full || this.#lacksBallast();
    this.#timer = this.#options.clock.setTimer(soon ? LOOK_SOON_MS : LOOK_MS, () => {
      void this.look();
    });
  }

  /** To be called last, while the directory is locked: where the ballast is gone, what is left makes one for the next start. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#timer?.cancel();
    await this.#looking;
    if (!this.#lacksBallast()) return;
    await this.#look();
    const bytes = Math.min(BALLAST_BYTES, this.#usable - LEAST_BALLAST_BYTES);
    if (bytes < LEAST_BALLAST_BYTES) return;
    await this.#makeBallast(bytes).catch(() => {});
  }
}

/**
 * The aborted transactions of one partition: what a read_committed reader has to leave out. Held in memory, and kept on
 * disk in one `.txnindex` beside each segment that has any (schema AbortedTxn, 34 bytes an entry, as Apache Kafka's).
 *
 * An entry is in the file of the segment that holds its marker. Files are written behind the appends; the recovery point
 * of a partition never passes an entry that is in no file, so that what a kill loses is found again by the scan that follows
 * it, Kafka's as well as ours.
 */
import { writeAbortedTxn } from '../protocol/generated/files.ts';
import { Writer } from '../protocol/writer.ts';
import type { BroadsheetError } from '../runtime/errors.ts';
import type { Logger } from '../runtime/logging.ts';
import { parseTransactionIndex } from './index-file.ts';
import type { Files, Log } from './log.ts';
import { segmentFileName } from './segment-names.ts';

const VERSION = 0;
const ENTRY_BYTES = 34;
const INDEX_NAME = /^(\d{20})\.txnindex$/;

export interface AbortedTransaction {
  readonly producerId: number;
  /** Of its first record. */
  readonly firstOffset: number;
  /** Of the abort marker. */
  readonly lastOffset: number;
  /** Below it no transaction was open once the marker was written. */
  readonly lastStableOffset: number;
}

export function transactionIndexName(baseOffset: number): string {
  return segmentFileName(baseOffset, '.txnindex');
}

export class TransactionIndex {
  /** Ascending by lastOffset: in the order of the markers. */
  #entries: AbortedTransaction[] = [];
  /** Entries from this lastOffset on may be in no file. */
  #unsavedFrom = Number.POSITIVE_INFINITY;
  /** Base offsets of the segments that have a file. */
  readonly #files = new Set<number>();
  #saving: Promise<void> = Promise.resolve();

  get size(): number {
    return this.#entries.length;
  }

  /** Where the first entry lies that no file has; Infinity if there is none. */
  get unsavedFrom(): number {
    return this.#unsavedFrom;
  }

  /** Entries come in the order of their markers; one that is known already is left out. */
  add(entry: AbortedTransaction): void {
    const last = this.#entries[this.#entries.length - 1];
    if (last === undefined || last.lastOffset < entry.lastOffset) this.#entries.push(entry);
    else {
      const at = this.#firstEndingAt(entry.lastOffset);
      if (this.#entries[at]!.lastOffset === entry.lastOffset) return;
      this.#entries.splice(at, 0, entry);
    }
    this.#unsavedFrom = Math.min(this.#unsavedFrom, entry.lastOffset);
  }

  /** Takes back the entries of markers at or past an offset. */
  truncate(offset: number): void {
    this.#entries.length = this.#firstEndingAt(offset);
    if (this.#unsavedFrom >= offset) this.#unsavedFrom = Number.POSITIVE_INFINITY;
  }

  /** Forgets what nobody can read any more: entries whose markers lie below the log's start. */
  truncateFromStart(offset: number): void {
    const gone = this.#firstEndingAt(offset);
    if (gone > 0) this.#entries.splice(0, gone);
  }

  /** Forgets transactions whose markers compaction took: to readers, and to the next cleaning, an entry without its marker would
   * go on through the next transactions of its producer. */
  forgetMarkers(offsets: readonly number[]): void {
    if (offsets.length === 0) return;
    const gone = new Set(offsets);
    this.#entries = this.#entries.filter(({ lastOffset }) => !gone.has(lastOffset));
  }

  /** The files of these segments are gone; `made`, if given, has one. */
  forgetFiles(bases: readonly number[], made?: number): void {
    for (const base of bases) this.#files.delete(base);
    if (made !== undefined) this.#files.add(made);
  }

  /** Entries whose markers lie in [from, upTo). */
  entriesIn(from: number, upTo: number): readonly AbortedTransaction[] {
    return this.#entries.slice(this.#firstEndingAt(from), this.#firstEndingAt(upTo));
  }

  /** Aborted transactions that have records or their marker in [from, upTo). */
  collect(from: number, upTo: number): AbortedTransaction[] {
    const found: AbortedTransaction[] = [];
    for (let at = this.#firstEndingAt(from); at < this.#entries.length; at++) {
      const entry = this.#entries[at]!;
      if (entry.firstOffset < upTo) found.push(entry);
      // What was aborted after this began at or past its last stable offset.
      if (entry.lastStableOffset >= upTo) break;
    }
    return found;
  }

  /** An offset past `from` before which at most `count` transactions that end at or past `from` begin, or `upTo`. */
  boundFor(from: number, upTo: number, count: number): number {
    let bound = upTo;
    let seen = 0;
    for (let at = this.#firstEndingAt(from); at < this.#entries.length; at++) {
      const { firstOffset, lastStableOffset } = this.#entries[at]!;
      if (firstOffset >= upTo) break;
      if (firstOffset > from && ++seen > count) {
        bound = firstOffset;
        break;
      }
      if (lastStableOffset >= upTo) break;
    }
    return bound;
  }

  /** The first entry whose marker is at or past an offset. */
  #firstEndingAt(offset: number): number {
    let low = 0;
    let high = this.#entries.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.#entries[middle]!.lastOffset < offset) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  // --- files ---

  /** Writes the files of segments that have entries which are in none. Durable when resolved. */
  save(files: Files, log: Log): Promise<void> {
    const saved = this.#saving.then(() => this.#save(files, log));
    this.#saving = saved.catch(() => {});
    return saved;
  }

  async #save(files: Files, log: Log): Promise<void> {
    const from = this.#unsavedFrom;
    const end = log.writtenOffset;
    if (from >= end) return;
    this.#unsavedFrom = Number.POSITIVE_INFINITY;
    try {
      const bases = log.segmentBaseOffsets();
      for (const [i, base] of bases.entries()) {
        const next = Math.min(bases[i + 1] ?? end, end);
        if (next <= from) continue;
        const entries = this.entriesIn(base, next);
        const path = `${log.dir}/${transactionIndexName(base)}`;
        if (entries.length > 0) {
          await files.writeAtomic(path, encodeEntries(entries));
          this.#files.add(base);
        } else if (this.#files.delete(base)) await files.remove(path);
      }
      const staged = this.#entries[this.#firstEndingAt(end)];
      if (staged !== undefined) this.#unsavedFrom = Math.min(this.#unsavedFrom, staged.lastOffset);
    } catch (error) {
      this.#unsavedFrom = Math.min(this.#unsavedFrom, from);
      throw error;
    }
  }

  /**
   * Reads the files of a log's segments. What lies in segments from `trustedBelow` on is not taken (after an unclean stop),
   * nor what is in a file that does not check out. Gives the first offset from which entries have to be found again by a
   * scan; Infinity if there is nothing to find.
   */
  async load(
    files: Files,
    log: Log,
    names: readonly string[],
    trustedBelow: number,
    logger: Logger,
  ): Promise<number> {
    const bases = log.segmentBaseOffsets();
    const known = new Set(names);
    let rebuildFrom = Number.POSITIVE_INFINITY;
    let staleFrom = Number.POSITIVE_INFINITY;
    for (const [i, base] of bases.entries()) {
      const name = transactionIndexName(base);
      const next = Math.min(bases[i + 1] ?? Number.POSITIVE_INFINITY, log.writtenOffset);
      if (next > trustedBelow) rebuildFrom = Math.min(rebuildFrom, base);
      if (!known.has(name)) continue;
      this.#files.add(base);
      if (next > trustedBelow) continue;
      try {
        const entries = parseTransactionIndex(await files.read(`${log.dir}/${name}`));
        for (const entry of entries) {
          if (entry.lastOffset >= base && entry.lastOffset < next) this.add(entry);
          // Its marker was cut off. Left there, it would take the marker's place once the log has grown past it.
          else staleFrom = Math.min(staleFrom, base);
        }
      } catch (error) {
        const { code, message } = error as BroadsheetError;
        if (!['CORRUPT', 'MALFORMED', 'LIMIT', 'NOT_FOUND'].includes(code)) throw error;
        logger.warn({ path: `${log.dir}/${name}`, reason: message }, 'transaction index is rebuilt');
        rebuildFrom = Math.min(rebuildFrom, base);
      }
    }
    this.truncate(rebuildFrom);
    this.#unsavedFrom = Math.min(rebuildFrom, staleFrom);
    return rebuildFrom;
  }
}

/** The base offset in a file's name, or undefined for any file that is no transaction index. */
export function transactionIndexBase(name: string): number | undefined {
  const base = Number(INDEX_NAME.exec(name)?.[1] ?? Number.NaN);
  return Number.isSafeInteger(base) ? base : undefined;
}

export function encodeEntries(entries: readonly AbortedTransaction[]): Uint8Array {
  const writer = new Writer(entries.length * ENTRY_BYTES);
  for (const entry of entries) {
    writer.int16(VERSION);
    writeAbortedTxn(writer, VERSION, entry);
  }
  return writer.bytes();
}

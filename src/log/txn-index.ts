/**
 * The aborted transactions of one partition: what a read_committed reader has to leave out. Held in memory, and kept on
 * disk in one `.txnindex` beside each segment that has any (schema AbortedTxn, 34 bytes an entry, as Apache Kafka's).
 *
 * An entry is in the file of the segment that holds its marker. Files are written behind the appends; the recovery point
 * of a partition never passes an entry that is in no file, so that what a kill loses is found again by the scan that follows
 * it, Kafka's as well as ours.
 *
 * The files have no checksum, and one that lost its last entries looks whole. So a file of our own has the checksums of all of
 * them. Where the two do not agree, damaged, missing, or changed by Apache Kafka, entries are found again by a scan.
 */
import { crc32c } from '../protocol/crc32c.ts';
import { writeAbortedTxn } from '../protocol/generated/files.ts';
import { Writer } from '../protocol/writer.ts';
import { BroadsheetError } from '../runtime/errors.ts';
import type { Logger } from '../runtime/logging.ts';
import { formatCheckpoint, parseCheckpoint } from './checkpoints.ts';
import { parseTransactionIndex } from './index-file.ts';
import type { Files, Log } from './log.ts';
import { segmentFileName } from './segment-names.ts';

const VERSION = 0;
const ENTRY_BYTES = 34;
/** In the form of Kafka's checkpoints: a segment's base offset and the CRC-32C of its transaction index, a line each. */
export const TRANSACTION_INDEX_CHECKPOINT = 'transaction-index-checkpoint';
/** Of a file that has to be written again. */
const UNKNOWN_CHECKSUM = -1;
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
  /** As #unsavedFrom, of the save under way: until it is done its entries are in no file that can be trusted. */
  #savingFrom = Number.POSITIVE_INFINITY;
  /** Of the segments that have a file: base offset, and the file's checksum. */
  readonly #files = new Map<number, number>();
  /** Whether the checksums on disk are those of #files. */
  #checksumsSaved = true;
  #saving: Promise<void> = Promise.resolve();

  get size(): number {
    return this.#entries.length;
  }

  /** Where the first entry lies that no file has; Infinity if there is none. */
  get unsavedFrom(): number {
    return Math.min(this.#unsavedFrom, this.#savingFrom);
  }

  /** Whether save() has nothing to do for entries below an offset. */
  isSaved(upTo: number): boolean {
    return this.unsavedFrom >= upTo && this.#checksumsSaved;
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

  /** Within alone(): the files of these segments are gone; a compaction may have `made` one in their place. */
  forgetFiles(
    bases: readonly number[],
    made?: { readonly baseOffset: number; readonly checksum: number },
  ): void {
    for (const base of bases) if (this.#files.delete(base)) this.#checksumsSaved = false;
    if (made === undefined) return;
    this.#files.set(made.baseOffset, made.checksum);
    this.#checksumsSaved = false;
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
    return this.alone(() => this.#save(files, log));
  }

  /** Runs what takes files of segments away or puts others in their place, and forgets them, while none is written. */
  alone<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#saving.then(work);
    this.#saving = done.then(
      () => {},
      () => {},
    );
    return done;
  }

  async #save(files: Files, log: Log): Promise<void> {
    const from = this.#unsavedFrom;
    const end = log.writtenOffset;
    this.#savingFrom = from;
    this.#unsavedFrom = Number.POSITIVE_INFINITY;
    let unsavedFrom = from;
    try {
      if (from < end) await this.#saveEntries(files, log, from, end);
      // Those that are still staged.
      unsavedFrom =
        this.#entries[this.#firstEndingAt(Math.max(from, end))]?.lastOffset ?? Number.POSITIVE_INFINITY;
      if (!this.#checksumsSaved) await this.#saveChecksums(files, log);
    } finally {
      this.#unsavedFrom = Math.min(this.#unsavedFrom, unsavedFrom);
      this.#savingFrom = Number.POSITIVE_INFINITY;
    }
  }

  async #saveEntries(files: Files, log: Log, from: number, end: number): Promise<void> {
    const bases = log.segmentBaseOffsets();
    for (const [i, base] of bases.entries()) {
      const next = Math.min(bases[i + 1] ?? end, end);
      if (next <= from) continue;
      const entries = this.entriesIn(base, next);
      const path = `${log.dir}/${transactionIndexName(base)}`;
      if (entries.length > 0) {
        const bytes = encodeEntries(entries);
        await files.writeAtomic(path, bytes);
        this.#files.set(base, crc32c(bytes));
      } else if (this.#files.delete(base)) await files.remove(path);
      else continue;
      this.#checksumsSaved = false;
    }
  }

  async #saveChecksums(files: Files, log: Log): Promise<void> {
    this.#checksumsSaved = true;
    const path = `${log.dir}/${TRANSACTION_INDEX_CHECKPOINT}`;
    const known = [...this.#files].filter(([, checksum]) => checksum !== UNKNOWN_CHECKSUM);
    try {
      if (known.length === 0) await files.remove(path);
      else await files.writeAtomic(path, formatCheckpoint(known.map((line) => line.join(' '))));
    } catch (error) {
      this.#checksumsSaved = false;
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
    const checksums = known.has(TRANSACTION_INDEX_CHECKPOINT)
      ? await readChecksums(files, log.dir, logger)
      : new Map<number, number>();
    let rebuildFrom = Number.POSITIVE_INFINITY;
    let staleFrom = Number.POSITIVE_INFINITY;
    for (const [i, base] of bases.entries()) {
      const name = transactionIndexName(base);
      const next = Math.min(bases[i + 1] ?? Number.POSITIVE_INFINITY, log.writtenOffset);
      // In an empty one there is nothing that a file could be of.
      const isTrusted = next <= trustedBelow && next > base;
      if (!isTrusted) rebuildFrom = Math.min(rebuildFrom, base);
      const checksum = checksums.get(base);
      checksums.delete(base);
      if (!known.has(name) && checksum === undefined) continue;
      this.#files.set(base, UNKNOWN_CHECKSUM);
      if (!isTrusted) continue;
      try {
        for (const entry of await readEntries(files, `${log.dir}/${name}`, checksum)) {
          if (entry.lastOffset >= base && entry.lastOffset < next) this.add(entry);
          // Its marker was cut off. Left there, it would take the marker's place once the log has grown past it.
          else staleFrom = Math.min(staleFrom, base);
        }
        this.#files.set(base, checksum!);
      } catch (error) {
        const { code, message } = error as BroadsheetError;
        if (!['CORRUPT', 'MALFORMED', 'LIMIT', 'NOT_FOUND'].includes(code)) throw error;
        logger.warn({ path: `${log.dir}/${name}`, reason: message }, 'transaction index is rebuilt');
        rebuildFrom = Math.min(rebuildFrom, base);
      }
    }
    // Of segments that Apache Kafka removed.
    if (checksums.size > 0) this.#checksumsSaved = false;
    this.truncate(rebuildFrom);
    this.#unsavedFrom = Math.min(rebuildFrom, staleFrom);
    return rebuildFrom;
  }
}

/** By base offset. A damaged line agrees with no file, so that the file has no need of a checksum itself. */
async function readChecksums(files: Files, dir: string, logger: Logger): Promise<Map<number, number>> {
  const path = `${dir}/${TRANSACTION_INDEX_CHECKPOINT}`;
  try {
    const lines = parseCheckpoint((await files.read(path)).toString('latin1'), 2);
    return new Map(lines as [number, number][]);
  } catch (error) {
    const { code, message } = error as BroadsheetError;
    if (!['CORRUPT', 'LIMIT', 'NOT_FOUND'].includes(code)) throw error;
    logger.warn({ path, reason: message }, 'checkpoint is corrupt and is rebuilt');
    return new Map();
  }
}

/** Whether a segment has a file in a folder, or its checksum is there. Rejects with IO. */
export async function hasTransactionIndex(files: Files, dir: string, base: number): Promise<boolean> {
  if (await files.exists(`${dir}/${transactionIndexName(base)}`)) return true;
  const path = `${dir}/${TRANSACTION_INDEX_CHECKPOINT}`;
  return (await files.exists(path)) && (await files.read(path)).includes(`\n${base} `);
}

/** The entries of a file whose checksum is known. Rejects with CORRUPT, MALFORMED, LIMIT, NOT_FOUND, IO. */
async function readEntries(files: Files, path: string, checksum: number | undefined) {
  if (checksum === undefined)
    throw new BroadsheetError('CORRUPT', `${TRANSACTION_INDEX_CHECKPOINT} does not have its checksum`);
  const bytes = await files.read(path);
  if (crc32c(bytes) !== checksum) throw new BroadsheetError('CORRUPT', 'the checksum does not match');
  return parseTransactionIndex(bytes);
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

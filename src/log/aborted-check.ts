/** Compares the transaction indexes of a log with its markers while it is read batch by batch, and finds what they ought to hold. */
import type { RecordBatch } from '../protocol/records/reader.ts';
import { parseMarker } from './transaction-marker.ts';
import type { AbortedTransaction } from './txn-index.ts';

interface Tell {
  /** What is wrong. */
  fault(what: string): void;
  /** An entry that is not there: files are written behind the log. */
  missing(what: string): void;
}

export class AbortedCheck {
  /** First offset of each producer's open transaction, as far as the log still has it. */
  readonly #open = new Map<number, number>();
  /** Whether nothing was taken out of the log up to here: then first offsets are those that the broker saw. */
  #isWhole: boolean;
  #end: number;
  /** Of the segment's file, ascending; #at is the next one to be met. */
  #entries: readonly AbortedTransaction[] = [];
  #at = 0;
  #tell: Tell = { fault() {}, missing() {} };
  #isRight = true;
  #expected: AbortedTransaction[] = [];

  /** `startOffset`: of the first segment. */
  constructor(startOffset: number) {
    this.#end = startOffset;
    this.#isWhole = startOffset === 0;
  }

  begin(entries: readonly AbortedTransaction[], tell: Tell): void {
    this.#tell = tell;
    this.#isRight = true;
    this.#expected = [];
    this.#entries = entries.toSorted((a, b) => a.lastOffset - b.lastOffset);
    this.#at = 0;
    if (entries.some((entry, i) => i > 0 && entry.lastOffset <= entries[i - 1]!.lastOffset))
      this.#fault('its entries are not in the order of their markers');
  }

  /** Batches that check out, in their order. */
  next(batch: RecordBatch): void {
    const { baseOffset, lastOffset, producerId } = batch;
    if (baseOffset !== this.#end || batch.recordCount !== lastOffset - baseOffset + 1) this.#isWhole = false;
    this.#end = lastOffset + 1;
    const aborted = this.#follow(batch);
    let isTold = false;
    for (; this.#at < this.#entries.length && this.#entries[this.#at]!.lastOffset <= lastOffset; this.#at++) {
      const entry = this.#entries[this.#at]!;
      // In a hole it is all that is left of its marker.
      if (entry.lastOffset < baseOffset || batch.recordCount === 0) this.#expected.push(entry);
      else if (aborted === undefined || entry.producerId !== producerId)
        this.#fault(`offset ${entry.lastOffset} is no marker that aborts producer ${entry.producerId}`);
      else if (this.#agrees(entry, aborted)) this.#expected.push(entry);
      else {
        const found = `${aborted.firstOffset} (stable below ${aborted.lastStableOffset})`;
        const said = `${entry.firstOffset} (stable below ${entry.lastStableOffset})`;
        isTold = true;
        this.#fault(`producer ${producerId} aborted at ${lastOffset} what began at ${found}, not at ${said}`);
      }
    }
    if (aborted === undefined || this.#expected.at(-1)?.lastOffset === lastOffset) return;
    const { firstOffset } = aborted;
    // Of a transaction without data nothing need be told.
    if (firstOffset === undefined) return;
    this.#expected.push({ ...aborted, firstOffset });
    this.#isRight = false;
    if (!isTold)
      this.#tell.missing(
        `producer ${producerId} aborted from offset ${firstOffset} to ${lastOffset}: there is no such entry`,
      );
  }

  /** At the segment's end: what its file ought to hold, undefined if that is what it holds. */
  finish(): readonly AbortedTransaction[] | undefined {
    for (; this.#at < this.#entries.length; this.#at++)
      this.#fault(`offset ${this.#entries[this.#at]!.lastOffset} lies past the segment's end`);
    return this.#isRight ? undefined : this.#expected;
  }

  #fault(what: string): void {
    this.#isRight = false;
    this.#tell.fault(what);
  }

  /** The transaction that a marker aborts; its first offset is unknown if its data is gone. */
  #follow(batch: RecordBatch) {
    const { baseOffset, lastOffset, producerId } = batch;
    if (!batch.isTransactional || batch.recordCount === 0) return undefined;
    if (!batch.isControl) {
      if (!this.#open.has(producerId)) this.#open.set(producerId, baseOffset);
      return undefined;
    }
    const marker = parseMarker(batch.bytes.subarray(batch.start, batch.start + batch.sizeInBytes));
    if (marker === undefined) return undefined;
    const firstOffset = this.#open.get(producerId);
    this.#open.delete(producerId);
    let lastStableOffset = lastOffset + 1;
    for (const first of this.#open.values()) lastStableOffset = Math.min(lastStableOffset, first);
    return marker.commit ? undefined : { producerId, firstOffset, lastOffset, lastStableOffset };
  }

  #agrees(
    entry: AbortedTransaction,
    found: Omit<AbortedTransaction, 'firstOffset'> & { firstOffset: number | undefined },
  ) {
    const { firstOffset = entry.firstOffset, lastStableOffset } = found;
    if (this.#isWhole)
      return entry.firstOffset === firstOffset && entry.lastStableOffset === lastStableOffset;
    return (
      entry.firstOffset <= Math.min(firstOffset, entry.lastOffset) &&
      entry.lastStableOffset <= lastStableOffset
    );
  }
}

/**
 * A log as it was at one moment: what questions that may wait for a disk are asked of, while the log goes on. What
 * native/log_view.* is.
 */
import { BroadsheetError } from '../runtime/errors.ts';
import type { StoredBatch } from './js-batch.ts';
import type { TimeEntry } from './js-index.ts';
import type { JsSegment } from './js-segment.ts';

export interface Part {
  readonly segment: JsSegment;
  /** Bytes written. */
  readonly size: number;
}

/** The last of ascending segments that begins at or before offset; the first one if there is none. */
export function indexOf(parts: readonly { readonly baseOffset: number }[], offset: number): number {
  let low = 0;
  let high = parts.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (parts[middle]!.baseOffset <= offset) low = middle + 1;
    else high = middle;
  }
  return Math.max(0, low - 1);
}

type Visit = (batch: StoredBatch, part: Part) => boolean;

export class LogView {
  /** Ascending. */
  readonly #parts: readonly Part[];
  /** Written. */
  readonly #endOffset: number;

  constructor(parts: readonly Part[], endOffset: number) {
    this.#parts = parts;
    this.#endOffset = endOffset;
  }

  /** The parts that may hold something in [from, upTo). */
  *#between(from: number, upTo: number): Generator<[Part, number]> {
    const bases = this.#parts.map(({ segment }) => segment);
    for (let i = indexOf(bases, from); i < bases.length && bases[i]!.baseOffset < upTo; i++)
      yield [this.#parts[i]!, bases[i + 1]?.baseOffset ?? this.#endOffset];
  }

  /** Calls visit from the batch that holds `from` on, until it gives false or a batch begins at upTo or past it. */
  async #walk(from: number, upTo: number, visit: Visit): Promise<void> {
    for (const [part] of this.#between(from, upTo)) {
      const { segment, size } = part;
      const first = await segment.locate(from, size);
      if (first === undefined) continue;
      let goesOn = true;
      await segment.walk(first.position, size, (batch) => {
        goesOn = batch.baseOffset < upTo && visit(batch, part);
        return goesOn;
      });
      if (!goesOn) return;
    }
  }

  /** Finds out where the first batch that reaches to `offset` lies, and reads up to maxBytes from there on, the batch at least:
   * its segment remembers the one, the page cache has the other. With maxBytes 0 only the first. */
  async warm(offset: number, maxBytes: number): Promise<void> {
    for (const [{ segment, size }] of this.#between(offset, Number.POSITIVE_INFINITY)) {
      const batch = await segment.locate(offset, size);
      if (batch === undefined) continue;
      const last = maxBytes === 0 ? 0 : Math.min(size, batch.position + Math.max(maxBytes, batch.bytes));
      return segment.readThrough(batch.position, last);
    }
  }

  /** Whole batches from the one that holds `offset` on, below upTo, at least one if there is one. */
  async readBatches(offset: number, maxBytes: number, upTo: number): Promise<Buffer> {
    // Runs of neighbouring batches are read in one go.
    const runs: { readonly segment: JsSegment; readonly begins: number; ends: number }[] = [];
    let total = 0;
    try {
      await this.#walk(offset, upTo, (batch, { segment }) => {
        if (batch.lastOffset >= upTo) return false;
        if (total !== 0 && total + batch.bytes > maxBytes) return false;
        if (runs.at(-1)?.segment !== segment) runs.push({ segment, begins: batch.position, ends: 0 });
        runs.at(-1)!.ends = batch.end;
        total += batch.bytes;
        return total < maxBytes;
      });
    } catch (error) {
      // Else what comes before the fault is handed out.
      if (total === 0 || !(error instanceof BroadsheetError)) throw error;
    }
    const out = Buffer.allocUnsafeSlow(runs.reduce((sum, run) => sum + run.ends - run.begins, 0));
    let at = 0;
    try {
      for (const { segment, begins, ends } of runs) {
        const part = out.subarray(at, at + ends - begins);
        await segment.withFile((file) => file.readInto(part, begins));
        at += part.length;
      }
    } catch (error) {
      // What lies before the fault is found one batch at a time.
      if (maxBytes <= 1 || !(error instanceof BroadsheetError)) throw error;
      return this.readBatches(offset, 1, upTo);
    }
    return out;
  }

  /** The bytes of the first batch that holds a record with a timestamp >= target, among those that reach to startOffset or
   * past it and end below upTo. */
  async findByTimestamp(target: number, startOffset: number, upTo: number): Promise<Buffer | undefined> {
    for (const [part] of this.#between(startOffset, upTo)) {
      const { segment, size } = part;
      const largest = await segment.largestTimestamp(size);
      if (largest === undefined || largest.maxTimestamp < target) continue;
      // All records later than the entry's timestamp lie behind its batch.
      let begins = segment.baseOffset;
      const entry = await trueEntry(part, target);
      if (entry === undefined) segment.distrustIndexes();
      else begins = entry.offset;
      let from = Math.max(startOffset, begins);
      const only = new LogView([part], this.#endOffset);
      for (;;) {
        let hit: StoredBatch | undefined;
        await only.#walk(from, upTo, (batch) => {
          const matched = batch.recordCount > 0 && batch.maxTimestamp >= target && batch.lastOffset < upTo;
          if (matched) hit = batch;
          return !matched;
        });
        if (hit !== undefined) return copyOf(segment, hit);
        // Nothing behind the entry though the segment has one: it lies before startOffset or past upTo, or the time index is
        // wrong. Once more without it.
        if (from === Math.max(startOffset, segment.baseOffset)) break;
        from = Math.max(startOffset, segment.baseOffset);
      }
    }
    return undefined;
  }

  /** The first of those batches whose largest timestamp is the largest of all. */
  async findByMaxTimestamp(startOffset: number, upTo: number): Promise<Buffer | undefined> {
    let best: { readonly segment: JsSegment; readonly batch: StoredBatch } | undefined;
    for (const [part, end] of this.#between(startOffset, upTo)) {
      const { segment, size } = part;
      let largest: StoredBatch | undefined;
      if (segment.baseOffset >= startOffset && end <= upTo) {
        largest = await segment.largestTimestamp(size);
      } else {
        const only = new LogView([part], this.#endOffset);
        await only.#walk(startOffset, upTo, (batch) => {
          if (
            batch.recordCount > 0 &&
            batch.lastOffset < upTo &&
            (largest === undefined || batch.maxTimestamp > largest.maxTimestamp)
          )
            largest = batch;
          return true;
        });
      }
      if (largest !== undefined && (best === undefined || largest.maxTimestamp > best.batch.maxTimestamp))
        best = { segment, batch: largest };
    }
    return best === undefined ? undefined : copyOf(best.segment, best.batch);
  }

  /** Headers of the batches that reach to `from` or past it and begin below upTo. */
  async scan(from: number, upTo: number, producersOnly: boolean): Promise<StoredBatch[]> {
    const out: StoredBatch[] = [];
    await this.#walk(from, upTo, (batch) => {
      if (!producersOnly || batch.producerId >= 0 || batch.control) out.push(batch);
      return true;
    });
    return out;
  }
}

/** The time index's last entry at or before a timestamp, if it is true: its batch has its timestamp. */
async function trueEntry({ segment, size }: Part, target: number): Promise<TimeEntry | undefined> {
  try {
    const entry = await segment.times.lookup(target);
    if (entry.timestamp < 0) return entry.offset === segment.baseOffset ? entry : undefined;
    const batch = await segment.locate(entry.offset, size);
    return batch?.maxTimestamp === entry.timestamp ? entry : undefined;
  } catch (error) {
    if (error instanceof BroadsheetError) return undefined;
    throw error;
  }
}

function copyOf(segment: JsSegment, batch: StoredBatch): Promise<Buffer> {
  return segment.withFile((file) => file.readAll(batch.bytes, batch.position));
}

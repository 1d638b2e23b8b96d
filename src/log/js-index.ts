/**
 * Kafka's two sparse indexes of a segment. Big-endian entries, ascending, one per index.interval.bytes of log:
 *   .index      8 bytes: relative offset (int32), position (int32)
 *   .timeindex 12 bytes: timestamp (int64), relative offset (int32)
 *
 * An index may be shorter than its segment; it must never point where no batch begins, which its user checks.
 */
import { corrupt } from './js-batch.ts';
import type { Folder } from './js-descriptors.ts';
import { EntryFile, type EntryView } from './js-entries.ts';
import { type Int64, int64At } from './js-records.ts';

export interface OffsetEntry {
  /** The last offset of the batch (or run of batches) that begins at ... */
  readonly offset: number;
  /** ... this position. */
  readonly position: number;
}

export interface TimeEntry {
  /** The largest up to here. */
  readonly timestamp: Int64;
  /** Last offset of the first batch that has it. */
  readonly offset: number;
}

/** An int32 that wraps around. */
function setRelative(view: DataView, at: number, offset: number, baseOffset: number): void {
  view.setInt32(at, offset - baseOffset);
}

/** The number of entries at the front for which holds() is true; it must be true, then false. */
async function partitionPoint<T>(
  view: EntryView,
  decode: (view: DataView, at: number) => T,
  holds: (entry: T) => boolean,
): Promise<number> {
  let low = 0;
  let { count } = view;
  while (low < count) {
    const middle = low + Math.floor((count - low) / 2);
    if (holds(await view.entry(middle, decode))) low = middle + 1;
    else count = middle;
  }
  return low;
}

abstract class SparseIndex<Entry> {
  readonly entries: EntryFile;
  protected readonly baseOffset: number;
  readonly #entryBytes: number;

  constructor(folder: Folder, name: string, baseOffset: number, entryBytes: number) {
    this.entries = new EntryFile(folder, name, entryBytes);
    this.baseOffset = baseOffset;
    this.#entryBytes = entryBytes;
  }

  protected abstract readonly decode: (view: DataView, at: number) => Entry;
  protected abstract encode(view: DataView, at: number, entry: Entry): void;
  /** When there is none. */
  protected abstract readonly none: Entry;
  protected abstract key(entry: Entry): Int64;

  get name(): string {
    return this.entries.file.name;
  }

  get count(): number {
    return this.entries.count;
  }

  /** Adds entries in one go and writes when enough have come together. */
  append(entries: readonly Entry[]): void {
    for (const entry of entries) {
      const { view, at } = this.entries.append();
      this.encode(view, at, entry);
    }
    if (!this.entries.wantsWrite) return;
    try {
      this.entries.writePending();
    } catch {
      // They stay in memory: an index is made again from its segment if need be.
    }
  }

  /** The last entry whose key is <= key. */
  async lookup(key: Int64): Promise<Entry> {
    const view = await this.entries.view();
    try {
      const found = await partitionPoint(view, this.decode, (entry) => this.key(entry) <= key);
      return found === 0 ? this.none : await view.entry(found - 1, this.decode);
    } finally {
      view.release();
    }
  }

  last(): Promise<Entry> {
    return this.lookup(Number.POSITIVE_INFINITY);
  }

  replace(entries: readonly Entry[]): Promise<void> {
    const bytes = Buffer.allocUnsafeSlow(entries.length * this.#entryBytes);
    const view = new DataView(bytes.buffer);
    for (const [i, entry] of entries.entries()) this.encode(view, i * this.#entryBytes, entry);
    return this.entries.replace(bytes);
  }

  /** Takes the file of the last segment, whose size is `bytes`: the entries at the front for which `take(entry, before)`
   * holds. */
  protected async adoptWhile(
    bytes: number,
    before: Entry,
    take: (entry: Entry, before: Entry, index: number) => boolean,
  ): Promise<void> {
    this.entries.adoptClosed(bytes);
    const view = await this.entries.view();
    try {
      let count = 0;
      for (; count < view.count; count++) {
        const found = view.entry(count, this.decode);
        const entry = found instanceof Promise ? await found : found;
        if (!take(entry, before, count)) break;
        before = entry;
      }
      this.entries.adopt(count);
    } finally {
      view.release();
    }
  }
}

export class OffsetIndex extends SparseIndex<OffsetEntry> {
  protected readonly none: OffsetEntry;
  protected readonly decode = (view: DataView, at: number): OffsetEntry => ({
    offset: this.baseOffset + view.getInt32(at),
    position: view.getInt32(at + 4),
  });

  constructor(folder: Folder, name: string, baseOffset: number) {
    super(folder, name, baseOffset, 8);
    this.none = { offset: baseOffset, position: 0 };
  }

  protected encode(view: DataView, at: number, { offset, position }: OffsetEntry): void {
    setRelative(view, at, offset, this.baseOffset);
    view.setInt32(at + 4, position);
  }

  protected key(entry: OffsetEntry): number {
    return entry.offset;
  }

  /** Entries from the first on that does not ascend, or whose offset is >= below, are dropped. CORRUPT when an index cannot
   * have that size. */
  adopt(bytes: number, segmentBytes: number, below: number): Promise<void> {
    const before = { offset: this.baseOffset - 1, position: 0 };
    return this.adoptWhile(
      bytes,
      before,
      (entry, last) =>
        entry.offset < below &&
        entry.offset > last.offset &&
        entry.position > last.position &&
        entry.position < segmentBytes,
    );
  }
}

export class TimeIndex extends SparseIndex<TimeEntry> {
  protected readonly none: TimeEntry;
  protected readonly decode = (view: DataView, at: number): TimeEntry => ({
    timestamp: int64At(view, at),
    offset: this.baseOffset + view.getInt32(at + 8),
  });

  constructor(folder: Folder, name: string, baseOffset: number) {
    super(folder, name, baseOffset, 12);
    this.none = { timestamp: -1, offset: baseOffset };
  }

  protected encode(view: DataView, at: number, { timestamp, offset }: TimeEntry): void {
    view.setBigInt64(at, BigInt(timestamp));
    setRelative(view, at + 8, offset, this.baseOffset);
  }

  protected key(entry: TimeEntry): Int64 {
    return entry.timestamp;
  }

  /** As OffsetIndex.adopt; entries with an offset > upTo are dropped. CORRUPT too when they do not ascend, since what is the
   * largest timestamp is not known then. */
  adopt(bytes: number, upTo: number): Promise<void> {
    const before = { timestamp: -1, offset: this.baseOffset };
    return this.adoptWhile(bytes, before, (entry, last, index) => {
      if (entry.timestamp <= last.timestamp || entry.offset < last.offset)
        throw corrupt(`${this.name}: entry ${index} does not come after the one before it`);
      return entry.offset <= upTo;
    });
  }
}

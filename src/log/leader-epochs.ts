/**
 * The history of a partition's leader epochs: at which offset each began (KIP-101). Kept in `leader-epoch-checkpoint`,
 * whose text is `0`, the number of lines, then `epoch startOffset` on a line. We write each line twice, so that an altered byte
 * is noticed; Apache Kafka reads that, and writes them once.
 */
import { BroadsheetError } from '../runtime/errors.ts';
import { formatCheckpoint, parseCheckpoint } from './checkpoints.ts';

export interface EpochEntry {
  readonly epoch: number;
  readonly startOffset: number;
}

/** Answer for an epoch that the log knows nothing of. */
const UNDEFINED = { epoch: -1, endOffset: -1 };

export class LeaderEpochs {
  /** Ascending in both fields. */
  #entries: EpochEntry[] = [];
  /** Whether the entries changed since text() was last taken. */
  dirty = false;
  #checked = false;

  /** Reads a checkpoint's text. Throws CORRUPT. */
  static parse(text: string): LeaderEpochs {
    const epochs = new LeaderEpochs();
    const lines = parseCheckpoint(text, 2);
    for (const fields of lines) {
      const [epoch, startOffset] = fields as [number, number];
      const last = epochs.latest;
      if (last?.epoch === epoch && last.startOffset === startOffset) continue;
      if (last !== undefined && (epoch <= last.epoch || startOffset <= last.startOffset)) {
        throw new BroadsheetError('CORRUPT', `epoch ${epoch} does not follow epoch ${last.epoch}`);
      }
      epochs.#entries.push({ epoch, startOffset });
    }
    const twins = epochs.#entries.flatMap((entry) => [entry, entry]);
    epochs.#checked =
      lines.length === twins.length &&
      twins.every(({ epoch, startOffset }, i) => lines[i]![0] === epoch && lines[i]![1] === startOffset);
    return epochs;
  }

  /** Whether each line of the text was there twice. */
  get checked(): boolean {
    return this.#checked;
  }

  /** The checkpoint's text; clears `dirty`. */
  text(): string {
    this.dirty = false;
    const lines = this.#entries.map((entry) => `${entry.epoch} ${entry.startOffset}`);
    return formatCheckpoint(lines.flatMap((line) => [line, line]));
  }

  get entries(): readonly EpochEntry[] {
    return this.#entries;
  }

  get latest(): EpochEntry | undefined {
    return this.#entries[this.#entries.length - 1];
  }

  /** Notes that an epoch begins at an offset. Entries that this contradicts, or that were left empty, go. */
  assign(epoch: number, startOffset: number): void {
    const latest = this.latest;
    if (latest !== undefined && latest.epoch === epoch && startOffset >= latest.startOffset) return;
    while (this.latest !== undefined) {
      if (this.latest.epoch < epoch && this.latest.startOffset < startOffset) break;
      this.#entries.pop();
    }
    this.#entries.push({ epoch, startOffset });
    this.dirty = true;
  }

  /** Drops entries that begin at or past the log's end. */
  truncateFromEnd(endOffset: number): void {
    while (this.latest !== undefined && this.latest.startOffset >= endOffset) {
      this.#entries.pop();
      this.dirty = true;
    }
  }

  /** Drops entries that end at or before the log's start; the one that holds it begins there. */
  truncateFromStart(startOffset: number): void {
    let first = -1;
    for (const entry of this.#entries) {
      if (entry.startOffset > startOffset) break;
      first++;
    }
    const holder = this.#entries[first];
    if (holder === undefined || (first === 0 && holder.startOffset === startOffset)) return;
    this.#entries = [{ epoch: holder.epoch, startOffset }, ...this.#entries.slice(first + 1)];
    this.dirty = true;
  }

  /** The largest epoch <= the asked one and where it ends: what OffsetForLeaderEpoch answers, and what a fetch with an
   * older last epoch is told. {-1, -1} if the epoch is above all that are known. */
  endOffsetFor(epoch: number, logEndOffset: number): { epoch: number; endOffset: number } {
    const latest = this.latest;
    if (epoch === -1 || latest === undefined) return UNDEFINED;
    if (epoch === latest.epoch) return { epoch, endOffset: logEndOffset };
    let floor: EpochEntry | undefined;
    for (const entry of this.#entries) {
      if (entry.epoch > epoch) return { epoch: floor?.epoch ?? epoch, endOffset: entry.startOffset };
      floor = entry;
    }
    return UNDEFINED;
  }

  /** Whether any record was written in an epoch. */
  has(epoch: number): boolean {
    return this.#entries.some((entry) => entry.epoch === epoch);
  }

  /** The epoch in which the record at an offset was written, or -1. */
  epochOf(offset: number): number {
    let epoch = -1;
    for (const entry of this.#entries) {
      if (entry.startOffset > offset) break;
      epoch = entry.epoch;
    }
    return epoch;
  }
}

/** What a workload knows of one partition, by how many events the journal had when it came to know it; and what a partition found
 * after a power cut must be like. */

import type { RecordView } from '../../../src/protocol/records/batch.ts';
import type { NewRecord } from '../../../src/protocol/records/writer.ts';
import { fillerOf } from '../content.ts';

/** A number that only grows, by position in the journal. */
export class Steps {
  readonly #positions: number[] = [];
  readonly #values: number[] = [];

  note(position: number, value: number): void {
    if (value <= (this.#values.at(-1) ?? Number.NEGATIVE_INFINITY)) return;
    this.#positions.push(position);
    this.#values.push(value);
  }

  /** What was known when the journal had so many events. */
  at(position: number, otherwise = 0): number {
    let low = 0;
    let high = this.#positions.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.#positions[middle]! <= position) low = middle + 1;
      else high = middle;
    }
    return low === 0 ? otherwise : this.#values[low - 1]!;
  }
}

interface Sent {
  readonly key: string;
  readonly tombstone: boolean;
}

export interface SentBatch {
  /** Number of its first record. */
  readonly first: number;
  readonly count: number;
  /** Of the partition's one idempotent producer; -1: without. */
  readonly sequence: number;
  readonly bytes: Uint8Array;
}

export interface Found {
  readonly start: number;
  readonly end: number;
  readonly records: readonly RecordView[];
}

/** Of records; recent, or their producers would be forgotten. */
export const BEGINNING = Date.now();

/** Records are numbered as they are sent; as long as nothing fails, that is their offset. */
export class Ledger {
  readonly name: string;
  readonly compacted: boolean;
  readonly #sent: Sent[] = [];
  readonly batches: SentBatch[] = [];
  /** Ends of the log: sent, acknowledged, and on disk after a clean stop. */
  readonly asked = new Steps();
  readonly acked = new Steps();
  readonly durable = new Steps();
  /** Log starts: asked for, and promised to last. */
  readonly startAsked = new Steps();
  readonly start = new Steps();
  nextSequence = 0;
  /** Batches that are not answered. */
  waiting = 0;
  /** Where batches are, by what was answered: base offset, number of the first record, count. */
  readonly #answered: { readonly base: number; readonly first: number; readonly count: number }[] = [];

  constructor(name: string, compacted = false) {
    this.name = name;
    this.compacted = compacted;
  }

  get end(): number {
    return this.#sent.length;
  }

  answered(base: number, first: number, count: number, position: number): void {
    this.#answered.push({ base, first, count });
    this.acked.note(position, base + count);
  }

  /** The record that is sent next. */
  next(key: string | undefined, tombstone: boolean): NewRecord {
    const number = this.#sent.length;
    this.#sent.push({ key: key ?? `k${number}`, tombstone });
    return this.#record(number);
  }

  #record(number: number): NewRecord {
    const { key, tombstone } = this.#sent[number]!;
    return {
      timestamp: BEGINNING + number,
      key,
      value: tombstone ? null : fillerOf(this.name, number),
      headers: [{ key: 'number', value: `${this.name}#${number}` }],
    };
  }

  /** Its number, or undefined if it is not just as it was sent. */
  #numberOf(record: RecordView): number | undefined {
    const text = Buffer.from(record.headers[0]?.value ?? []).toString();
    const number = Number(text.slice(text.lastIndexOf('#') + 1));
    return number < this.#sent.length && isSame(record, this.#record(number)) ? number : undefined;
  }

  /** What is wrong with what was found where `asked` offsets had been sent and `must` were promised to be there. */
  faults({ start, end, records }: Found, asked: number, must: number, startMust: number): string[] {
    const faults: string[] = [];
    if (end < must) faults.push(`ends at ${end}, and ${must} was promised`);
    if (end > asked) faults.push(`ends at ${end}, and ${asked} records were sent`);
    if (start < startMust) faults.push(`starts at ${start}, and ${startMust} was promised`);
    // Where records were deleted that a power cut took as well, the log begins anew.
    if (end > start && end < this.end && !this.batches.some(({ first }) => first === end))
      faults.push(`ends at ${end}, within a batch`);
    let due = start;
    const here = new Map<string, number>();
    for (const record of records) {
      const { offset } = record;
      if (this.compacted ? offset < due : offset !== due)
        faults.push(`offset ${offset} where ${due} was due`);
      due = offset + 1;
      if (this.#numberOf(record) !== offset)
        faults.push(`offset ${offset} is not what was sent: ${String(record.headers[0]?.value)}`);
      here.set(Buffer.from(record.key ?? []).toString(), offset);
      if (faults.length > 5) return faults;
    }
    if (!this.compacted) {
      if (due !== end) faults.push(`records end at ${due}, the log at ${end}`);
      return faults;
    }
    // The last one of each key stays, unless it says that the key is gone. Of what was not promised there may be less: where
    // compaction leaves gaps, one that a power cut made can't be told from them.
    const last = new Map<string, number>();
    for (let offset = start; offset < end; offset++) last.set(this.#sent[offset]!.key, offset);
    for (const [key, offset] of last) {
      if (offset >= must) continue;
      if (here.get(key) !== offset && !(this.#sent[offset]!.tombstone && here.get(key) === undefined))
        faults.push(`key ${key} is found at ${here.get(key)}, was last written at ${offset}`);
    }
    return faults;
  }

  /** The same where some of what was sent was refused: each record is one that was sent, none is there twice, and what was
   * answered is where the answer said. */
  faultsAfterErrors({ start, end, records }: Found): string[] {
    const faults: string[] = [];
    const numbers = new Map<number, number>();
    const seen = new Set<number>();
    /** Last offset of each key. */
    const last = new Map<string, number>();
    let due = start;
    for (const record of records) {
      const { offset } = record;
      if (this.compacted ? offset < due : offset !== due)
        faults.push(`offset ${offset} where ${due} was due`);
      due = offset + 1;
      const number = this.#numberOf(record);
      if (number === undefined) faults.push(`offset ${offset} is not what was sent`);
      else {
        if (seen.has(number)) faults.push(`record ${number} is at ${offset}, and a second time`);
        seen.add(number);
        numbers.set(offset, number);
        last.set(this.#sent[number]!.key, offset);
      }
      if (faults.length > 5) return faults;
    }
    if (due !== end && !this.compacted) faults.push(`records end at ${due}, the log at ${end}`);
    for (const { base, first, count } of this.#answered) {
      for (let i = 0; i < count; i++) {
        const offset = base + i;
        const { key } = this.#sent[first + i]!;
        if (offset < start || numbers.get(offset) === first + i) continue;
        if (this.compacted && offset < (last.get(key) ?? -1)) continue;
        faults.push(
          `record ${first + i} was acknowledged at ${offset}, where ${numbers.get(offset)} is; the end is ${end}`,
        );
        break;
      }
    }
    return faults;
  }
}

function isSame(record: RecordView, sent: NewRecord): boolean {
  const same = (a: Uint8Array | null, b: Uint8Array | string | null | undefined) =>
    a === null || b === null || b === undefined ? a === (b ?? null) : Buffer.compare(a, Buffer.from(b)) === 0;
  return (
    record.timestamp === sent.timestamp &&
    same(record.key, sent.key) &&
    same(record.value, sent.value) &&
    record.headers.length === 1 &&
    same(record.headers[0]!.value, sent.headers![0]!.value)
  );
}

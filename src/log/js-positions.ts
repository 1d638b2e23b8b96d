/**
 * Where batches lie, as far as it is in memory: what a read on the loop, which may not wait for a disk, finds its range by.
 * Filled by appends and by reads that did wait (Log.warm); the least recently used is forgotten first.
 */
import type { StoredBatch } from './js-batch.ts';

/** Base offset, last offset, position. */
const NUMBERS = 3;
const RUN_BATCHES = 256;
const RUNS_PER_SEGMENT = 64;
/** Of all logs of the process: 12 MB. */
const MOST_BATCHES = 512 * 1024;

/** Batches that lie one behind the other. */
class Run {
  readonly owner: Positions;
  count = 0;
  /** Position behind the last one. */
  end = 0;
  #numbers = new Float64Array(4 * NUMBERS);

  constructor(owner: Positions) {
    this.owner = owner;
  }

  add(baseOffset: number, lastOffset: number, position: number, end: number): void {
    const at = this.count * NUMBERS;
    if (at === this.#numbers.length) {
      const grown = new Float64Array(2 * at);
      grown.set(this.#numbers);
      this.#numbers = grown;
    }
    this.#numbers[at] = baseOffset;
    this.#numbers[at + 1] = lastOffset;
    this.#numbers[at + 2] = position;
    this.count++;
    this.end = end;
  }

  baseOffset(index: number): number {
    return this.#numbers[index * NUMBERS]!;
  }
  lastOffset(index: number): number {
    return this.#numbers[index * NUMBERS + 1]!;
  }
  position(index: number): number {
    return this.#numbers[index * NUMBERS + 2]!;
  }
  bytes(index: number): number {
    return (index + 1 === this.count ? this.end : this.position(index + 1)) - this.position(index);
  }

  /** Whether it tells which batch is the first whose last offset is >= offset. */
  covers(offset: number): boolean {
    return (
      this.count > 0 &&
      offset <= this.lastOffset(this.count - 1) &&
      (offset >= this.baseOffset(0) || this.position(0) === 0)
    );
  }

  find(offset: number): number {
    let low = 0;
    let high = this.count - 1;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.lastOffset(middle) >= offset) high = middle;
      else low = middle + 1;
    }
    return low;
  }
}

const recent = new Set<Run>();
let batches = 0;

function touch(run: Run): void {
  recent.delete(run);
  recent.add(run);
}

function forget(run: Run): void {
  if (recent.delete(run)) batches -= run.count;
}

function count(run: Run, added: number): void {
  touch(run);
  batches += added;
  for (const oldest of recent) {
    if (batches <= MOST_BATCHES || oldest === run) return;
    oldest.owner.drop(oldest);
  }
}

/** The answer of Positions.find; used again by the next one. */
export interface Found {
  lastOffset: number;
  position: number;
  bytes: number;
}

const found: Found = { lastOffset: 0, position: 0, bytes: 0 };

/** Those of one segment. */
export class Positions {
  /** Oldest first. */
  #runs: Run[] = [];

  /** The first batch whose last offset is >= offset among those in the first `size` bytes; 'none' when all come before it.
   * Undefined: it is not known. */
  find(offset: number, size: number): Found | 'none' | undefined {
    if (size === 0) return 'none';
    for (let i = this.#runs.length - 1; i >= 0; i--) {
      const run = this.#runs[i]!;
      if (run.covers(offset)) {
        touch(run);
        const index = run.find(offset);
        found.lastOffset = run.lastOffset(index);
        found.position = run.position(index);
        found.bytes = run.bytes(index);
        return found.position >= size ? 'none' : found;
      }
      if (run.count > 0 && run.end === size && offset > run.lastOffset(run.count - 1)) return 'none';
    }
    return undefined;
  }

  /** Behind those that were appended before. */
  append(baseOffset: number, lastOffset: number, position: number, end: number): void {
    let run = this.#runs.at(-1);
    if (run === undefined || run.end !== position || run.count >= RUN_BATCHES) run = this.#begin();
    run.add(baseOffset, lastOffset, position, end);
    count(run, 1);
  }

  /** What a walk met, in a row. */
  learn(walked: readonly StoredBatch[]): void {
    let run: Run | undefined;
    for (const { baseOffset, lastOffset, position, end } of walked) {
      // Offsets ascend, but for what is damaged and was not found out.
      const follows =
        run !== undefined && run.count < RUN_BATCHES && baseOffset > run.lastOffset(run.count - 1);
      if (run === undefined || !follows) {
        // The run that appends go on with stays the last one.
        run = new Run(this);
        this.#runs.splice(Math.max(0, this.#runs.length - 1), 0, run);
      }
      run.add(baseOffset, lastOffset, position, end);
      count(run, 1);
    }
    this.#bound();
  }

  clear(): void {
    for (const run of this.#runs) forget(run);
    this.#runs = [];
  }

  /** For the bound on all. */
  drop(run: Run): void {
    forget(run);
    this.#runs = this.#runs.filter((other) => other !== run);
  }

  #begin(): Run {
    const run = new Run(this);
    this.#runs.push(run);
    this.#bound();
    return run;
  }

  #bound(): void {
    while (this.#runs.length > RUNS_PER_SEGMENT) this.drop(this.#runs[0]!);
  }
}

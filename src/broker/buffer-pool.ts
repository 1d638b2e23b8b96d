/** Buffers whose sizes are powers of two. What comes back is kept, up to a bound, so that steady traffic allocates none. */

interface SizeClass {
  readonly free: Buffer[];
  /** The fewest that were free since the last trim. */
  least: number;
}

export class BufferPool {
  readonly #smallest: number;
  readonly #keptBytes: number;
  readonly #classes: SizeClass[] = [];
  #kept = 0;
  #allocated = 0;

  /** Buffers have at least 2^smallest bytes; of all that are free, keptBytes are kept. */
  constructor(smallest: number, keptBytes: number) {
    this.#smallest = smallest;
    this.#keptBytes = keptBytes;
  }

  /** How many were not to be had from what is kept, since the start. */
  get allocated(): number {
    return this.#allocated;
  }

  #class(bytes: number): number {
    return Math.max(32 - Math.clz32(bytes - 1) - this.#smallest, 0);
  }

  /** A buffer of at least `want` bytes, 1 to 2^30, with anything in it. */
  take(want: number): Buffer {
    const which = this.#class(want);
    const own = this.#classes[which];
    const buffer = own?.free.pop();
    if (own === undefined || buffer === undefined) {
      this.#allocated++;
      return Buffer.allocUnsafeSlow(2 ** (which + this.#smallest));
    }
    own.least = Math.min(own.least, own.free.length);
    this.#kept -= buffer.length;
    return buffer;
  }

  /** Takes back a buffer that take() gave. */
  give(buffer: Buffer): void {
    if (this.#kept + buffer.length > this.#keptBytes) return;
    this.#kept += buffer.length;
    const which = this.#class(buffer.length);
    for (let at = this.#classes.length; at <= which; at++) this.#classes.push({ free: [], least: 0 });
    this.#classes[which]!.free.push(buffer);
  }

  /** Gives up what was not needed since the last trim. */
  trim(): void {
    for (const own of this.#classes) {
      // The ones at the front were idle longest.
      for (const buffer of own.free.splice(0, own.least)) this.#kept -= buffer.length;
      own.least = own.free.length;
    }
  }
}

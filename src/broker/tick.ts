/**
 * The end of a tick: write what was staged, complete what waited for it, wake fetches, send. Inside a pass over the
 * connections the transport calls end(); whatever happens outside of one (a timer, a promise) calls request() and the
 * end follows in the same turn of the event loop.
 */

/** One step of a tick's end. Returns true when it did something that may give earlier steps new work. */
export type TickStep = () => boolean;

/** How long one pass works on requests before it sends what it has and hears others, ms. */
const PASS_MS = 50;
/** Requests between two looks at the clock: one look costs a thirtieth of a small request. */
const REQUESTS_PER_LOOK = 8;

export class Tick {
  readonly #steps: readonly TickStep[];
  readonly #flush: () => void;
  readonly #onError: (error: unknown) => void;
  readonly #monotonic: () => number;
  /** When this pass was first asked whether it is over. */
  #begun: number | undefined;
  /** Requests until the clock is looked at. */
  #unlooked = 0;
  readonly #postponed = new Set<() => void>();
  #resuming: NodeJS.Immediate | undefined;
  #scheduled: NodeJS.Immediate | undefined;
  #ending = false;
  #passing = false;
  #closed = false;

  /** Steps run in order, again and again until none did anything; then `flush` sends. */
  constructor(
    steps: readonly TickStep[],
    flush: () => void,
    onError: (error: unknown) => void,
    monotonic: () => number,
  ) {
    this.#steps = steps;
    this.#flush = flush;
    this.#onError = onError;
    this.#monotonic = monotonic;
  }

  /** A pass over the connections has begun: end() follows without being asked for. */
  pass(): void {
    this.#passing = true;
  }

  /** Whether the pass has lasted long enough; asked before a request is begun. */
  passIsOver(): boolean {
    if (this.#unlooked > 0) {
      this.#unlooked--;
      return false;
    }
    return this.#timeIsOver();
  }

  #timeIsOver(): boolean {
    const now = this.#monotonic();
    this.#begun ??= now;
    if (now - this.#begun > PASS_MS) return true;
    this.#unlooked = REQUESTS_PER_LOOK - 1;
    return false;
  }

  /** Runs `resume` in a pass of its own, after sockets were heard again. Those for which that pass has no time come first
   * in the next one. */
  postpone(resume: () => void): void {
    if (this.#closed) return;
    this.#postponed.add(resume);
    this.#resuming ??= setImmediate(() => {
      this.#resuming = undefined;
      const due = [...this.#postponed];
      this.#postponed.clear();
      this.#begun = this.#monotonic();
      this.#unlooked = 0;
      let ran = 0;
      while (ran < due.length && (ran === 0 || !this.#timeIsOver())) due[ran++]!();
      const again = [...this.#postponed];
      this.#postponed.clear();
      for (const each of [...due.slice(ran), ...again]) this.postpone(each);
      this.end();
      this.#flush();
    });
  }

  /** Asks for an end of tick; many requests make one. */
  request(): void {
    if (this.#passing || this.#ending || this.#closed || this.#scheduled !== undefined) return;
    this.#scheduled = setImmediate(() => {
      this.#scheduled = undefined;
      this.end();
      this.#flush();
    });
  }

  /** Runs the steps until nothing is left to do. A step that throws is reported; the others still run. */
  end(): void {
    this.#passing = false;
    this.#begun = undefined;
    this.#unlooked = 0;
    if (this.#ending || this.#closed) return;
    if (this.#scheduled !== undefined) {
      clearImmediate(this.#scheduled);
      this.#scheduled = undefined;
    }
    this.#ending = true;
    try {
      for (let again = true; again; ) {
        again = false;
        for (const step of this.#steps) {
          try {
            if (step()) again = true;
          } catch (error) {
            this.#onError(error);
          }
        }
      }
    } finally {
      this.#ending = false;
    }
  }

  close(): void {
    this.#closed = true;
    if (this.#scheduled !== undefined) clearImmediate(this.#scheduled);
    if (this.#resuming !== undefined) clearImmediate(this.#resuming);
    this.#scheduled = undefined;
    this.#resuming = undefined;
    this.#postponed.clear();
  }
}

import type { Clock, Timer } from './clock.ts';

/** Timers of one owner, which end together. */
export class Timers {
  readonly #clock: Clock;
  readonly #pending = new Set<Timer>();
  #closed = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Calls fn once after ms, unless closed by then. */
  after(ms: number, fn: () => void): void {
    if (this.#closed) return;
    const timer = this.#clock.setTimer(ms, () => {
      this.#pending.delete(timer);
      fn();
    });
    this.#pending.add(timer);
  }

  /** Runs the task after `first` ms, then each time ms after it has ended. It must not fail. */
  every(ms: number, task: () => Promise<void>, first = ms): void {
    this.after(first, () => void task().then(() => this.every(ms, task)));
  }

  /** What is pending is cancelled, and what is asked for later is not done. */
  close(): void {
    this.#closed = true;
    for (const timer of this.#pending) timer.cancel();
    this.#pending.clear();
  }
}

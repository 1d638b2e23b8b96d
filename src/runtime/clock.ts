/** Time is handed to whatever needs it, so that tests run hours in milliseconds. */

export interface Timer {
  /** Idempotent. */
  cancel(): void;
}

export interface Clock {
  /** Milliseconds since the epoch; may jump. */
  now(): number;
  /** Milliseconds from an arbitrary start; never goes back. */
  monotonic(): number;
  /** Calls fn once after ms (at least 0). A pending timer does not keep the process alive. */
  setTimer(ms: number, fn: () => void): Timer;
}

/** The longest delay that setTimeout takes; longer timers are re-armed. */
const LONGEST_TIMEOUT_MS = 2 ** 31 - 1;

export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  setTimer(ms, fn) {
    let handle: NodeJS.Timeout;
    const arm = (left: number) => {
      const step = Math.min(Math.max(left, 0), LONGEST_TIMEOUT_MS);
      handle = setTimeout(() => (left > step ? arm(left - step) : fn()), step);
      handle.unref();
    };
    arm(ms);
    return { cancel: () => clearTimeout(handle) };
  },
};

interface Entry {
  at: number;
  order: number;
  fn: () => void;
}

/** A clock that moves only when told to. */
export class VirtualClock implements Clock {
  #now: number;
  readonly #start: number;
  #order = 0;
  readonly #timers = new Set<Entry>();

  /** Starts at `now`, milliseconds since the epoch. */
  constructor(now = 1_700_000_000_000) {
    this.#now = now;
    this.#start = now;
  }

  now(): number {
    return this.#now;
  }

  monotonic(): number {
    return this.#now - this.#start;
  }

  setTimer(ms: number, fn: () => void): Timer {
    const entry = { at: this.#now + Math.max(ms, 0), order: this.#order++, fn };
    this.#timers.add(entry);
    return { cancel: () => this.#timers.delete(entry) };
  }

  /** Moves on by ms and runs what falls due on the way, in order of time and then of arming. */
  advance(ms: number): void {
    const until = this.#now + ms;
    for (;;) {
      let next: Entry | undefined;
      for (const entry of this.#timers) {
        if (entry.at > until) continue;
        if (!next || entry.at < next.at || (entry.at === next.at && entry.order < next.order)) next = entry;
      }
      if (!next) break;
      this.#timers.delete(next);
      this.#now = next.at;
      next.fn();
    }
    this.#now = until;
  }

  get pendingTimers(): number {
    return this.#timers.size;
  }
}

import type { Clock } from './clock.ts';

const EVERY_MS = 60_000;
const MOST = 100;

/** Which errors are worth a line in the log: the same one is told once a minute, however often clients try again. */
export class ToldErrors {
  readonly #clock: Clock;
  /** When each may be told again, oldest first. */
  readonly #until = new Map<string, number>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  isNew(text: string): boolean {
    const now = this.#clock.monotonic();
    if ((this.#until.get(text) ?? 0) > now) return false;
    this.#until.delete(text);
    this.#until.set(text, now + EVERY_MS);
    if (this.#until.size > MOST) this.#until.delete(this.#until.keys().next().value!);
    return true;
  }
}

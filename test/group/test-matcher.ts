/** Matches patterns in the call, or when the test says so. */
import type { MatcherEvents, PatternMatcher } from '../../src/group/pattern-matcher.ts';
import { compileTopicRegex } from '../../src/group/topic-regex.ts';

export class TestMatcher implements PatternMatcher {
  readonly #events: MatcherEvents;
  readonly #names: string[] = [];
  readonly #asked = new Map<string, { readonly from: number; readonly to: number }>();
  /** Answers come with deliver(). */
  holds = false;
  /** How many names it was asked to match, with all patterns. */
  work = 0;
  closed = false;

  constructor(events: MatcherEvents) {
    this.#events = events;
  }

  /** Patterns that wait. */
  get waiting(): string[] {
    return [...this.#asked.keys()];
  }

  add(names: readonly string[]): void {
    this.#names.push(...names);
  }

  match(pattern: string, from: number): void {
    this.#asked.set(pattern, { from, to: this.#names.length });
    if (!this.holds) this.deliver();
  }

  /** Says that what waits are patterns. */
  compile(): void {
    for (const pattern of this.waiting) this.#events.compiled(pattern);
  }

  deliver(): void {
    for (const [pattern, { from, to }] of [...this.#asked]) {
      this.#asked.delete(pattern);
      this.work += to - from;
      try {
        const regex = compileTopicRegex(pattern);
        const numbers: number[] = [];
        for (let n = from; n < to; n++) if (regex.matches(this.#names[n]!)) numbers.push(n);
        this.#events.matched(pattern, numbers);
      } catch (error) {
        this.#events.failed(pattern, (error as Error).message);
      }
    }
  }

  fail(pattern: string, reason: string): void {
    this.#asked.delete(pattern);
    this.#events.failed(pattern, reason);
  }

  forget(pattern: string): void {
    this.#asked.delete(pattern);
  }

  reset(): void {
    this.#asked.clear();
    this.#names.length = 0;
  }

  async close(): Promise<void> {
    this.closed = true;
    this.reset();
  }
}

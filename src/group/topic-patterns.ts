/**
 * The patterns that consumer groups subscribe to, and the topics that each matches. A matcher finds them, off the event loop; what
 * it found is kept, and a new topic is matched alone. Groups read what is known with their heartbeats.
 */
import { KafkaError } from '../protocol/errors.ts';
import type { Clock, Timer } from '../runtime/clock.ts';
import type { Logger } from '../runtime/logging.ts';
import {
  type ConsumerFault,
  fault,
  type PatternsView,
  type ResolvedPattern,
  type TopicsView,
} from './consumer-types.ts';
import type { MatcherEvents, PatternMatcher } from './pattern-matcher.ts';

/** How long a newcomer's heartbeat waits for the topics of its pattern: then it joins, and gets them later. */
const MAX_WAIT_MS = 1_000;
/** And for whether it is one at all. */
const MAX_COMPILE_WAIT_MS = 10_000;
/** Topics of all patterns together that are kept. */
const MAX_MATCHES = 2_000_000;
/** Patterns that no group has any more are dropped when there are so many, or twice those in use. */
const MANY = 256;

export interface TopicPatternsParts {
  readonly topics: TopicsView;
  readonly clock: Clock;
  readonly log: Logger;
  readonly matcher: (events: MatcherEvents) => PatternMatcher;
  /** Patterns that members of any group have. */
  readonly inUse: () => ReadonlySet<string>;
}

/** Hears what is wrong with a pattern, or nothing. */
type Answered = (failed: ConsumerFault | undefined) => void;

interface Waiting {
  readonly answered: Answered;
  timer: Timer;
  readonly sinceMs: number;
}

class Entry {
  readonly pattern: string;
  resolved: ResolvedPattern | undefined;
  isCompiled = false;
  /** Why it can't be matched. */
  fault: string | undefined;
  /** Names below this number have been asked about; below the other one they are matched. */
  asked = 0;
  matched = 0;
  isRunning = false;
  readonly waiting = new Set<Waiting>();

  constructor(pattern: string) {
    this.pattern = pattern;
  }
}

export class TopicPatterns implements PatternsView, MatcherEvents {
  readonly #parts: TopicPatternsParts;
  readonly #matcher: PatternMatcher;
  readonly #entries = new Map<string, Entry>();
  /** By number; undefined where a topic is gone. A topic that comes again gets another number. */
  #names: (string | undefined)[] = [];
  readonly #numbers = new Map<string, number>();
  #isStarted = false;
  #most = MANY;
  #matches = 0;
  #closed = false;
  version = 0;

  constructor(parts: TopicPatternsParts) {
    this.#parts = parts;
    this.#matcher = parts.matcher(this);
  }

  // --- what groups ask ---

  latest(pattern: string): ResolvedPattern | undefined {
    return this.#entry(pattern).resolved;
  }

  fault(pattern: string): ConsumerFault | undefined {
    const entry = this.#entries.get(pattern);
    if (entry?.fault === undefined || entry.resolved !== undefined) return undefined;
    return fault(KafkaError.INVALID_REGULAR_EXPRESSION, entry.fault);
  }

  /** Hears what is wrong with a pattern, or nothing: when latest() knows its topics, or it takes long to know them. May hear it
   * at once. */
  whenResolved(pattern: string, answered: Answered): void {
    if (this.#closed) {
      answered(unavailable());
      return;
    }
    const entry = this.#entry(pattern);
    const failed = this.fault(pattern);
    if (failed !== undefined || entry.resolved !== undefined) {
      answered(failed);
      return;
    }
    const { clock } = this.#parts;
    const waiting: Waiting = {
      answered,
      timer: clock.setTimer(MAX_WAIT_MS, () => this.#isLate(entry, waiting)),
      sinceMs: clock.monotonic(),
    };
    entry.waiting.add(waiting);
  }

  #isLate(entry: Entry, waiting: Waiting): void {
    const { clock } = this.#parts;
    const isOver = clock.monotonic() - waiting.sinceMs >= MAX_COMPILE_WAIT_MS;
    if (!entry.isCompiled && !isOver) {
      waiting.timer = clock.setTimer(MAX_WAIT_MS, () => this.#isLate(entry, waiting));
      return;
    }
    entry.waiting.delete(waiting);
    waiting.answered(entry.isCompiled ? undefined : unavailable());
  }

  #entry(pattern: string): Entry {
    const known = this.#entries.get(pattern);
    if (known !== undefined) return known;
    if (this.#entries.size >= this.#most) this.#prune();
    const entry = new Entry(pattern);
    this.#entries.set(pattern, entry);
    if (!this.#isStarted) {
      this.#isStarted = true;
      this.#addNames([...this.#parts.topics.names()]);
    }
    this.#match(entry);
    return entry;
  }

  #prune(): void {
    const inUse = this.#parts.inUse();
    for (const [pattern, entry] of this.#entries) {
      if (inUse.has(pattern) || entry.waiting.size > 0) continue;
      this.#entries.delete(pattern);
      this.#matches -= entry.resolved?.topics.length ?? 0;
      this.#matcher.forget(pattern);
    }
    this.#most = Math.max(MANY, 2 * this.#entries.size);
  }

  // --- topics ---

  /** A topic was made or deleted. */
  topicChanged(name: string): void {
    if (!this.#isStarted || this.#closed) return;
    const number = this.#numbers.get(name);
    const isThere = this.#parts.topics.idOf(name) !== undefined;
    if (isThere === (number !== undefined)) return;
    if (number === undefined) this.#addNames([name]);
    else this.#removeName(name, number);
    for (const entry of this.#entries.values()) this.#match(entry);
  }

  #addNames(names: readonly string[]): void {
    for (const name of names) this.#numbers.set(name, this.#names.push(name) - 1);
    this.#matcher.add(names);
  }

  #removeName(name: string, number: number): void {
    this.#names[number] = undefined;
    this.#numbers.delete(name);
    for (const entry of this.#entries.values()) {
      const { resolved } = entry;
      if (resolved === undefined || !includes(resolved.topics, name)) continue;
      this.#resolve(
        entry,
        resolved.topics.filter((topic) => topic !== name),
      );
    }
    if (this.#names.length > 2 * this.#numbers.size + MANY) this.#renumber();
  }

  #renumber(): void {
    const isMatched = new Set<Entry>();
    for (const entry of this.#entries.values()) if (this.#isUpToDate(entry)) isMatched.add(entry);
    this.#matcher.reset();
    this.#names = [];
    this.#addNames([...this.#numbers.keys()]);
    for (const entry of this.#entries.values()) {
      entry.isRunning = false;
      entry.matched = isMatched.has(entry) ? this.#names.length : 0;
    }
  }

  #isUpToDate({ isRunning, resolved, matched }: Entry): boolean {
    return !isRunning && resolved !== undefined && matched === this.#names.length;
  }

  // --- matching ---

  #match(entry: Entry): void {
    if (entry.isRunning || entry.fault !== undefined || this.#closed || this.#isUpToDate(entry)) return;
    entry.isRunning = true;
    entry.asked = this.#names.length;
    this.#matcher.match(entry.pattern, entry.matched);
  }

  #resolve(entry: Entry, topics: readonly string[]): void {
    this.#matches += topics.length - (entry.resolved?.topics.length ?? 0);
    entry.resolved = { topics, version: 0, timestamp: this.#parts.clock.now() };
    this.version++;
  }

  compiled(pattern: string): void {
    const entry = this.#entries.get(pattern);
    if (entry !== undefined) entry.isCompiled = true;
  }

  matched(pattern: string, numbers: readonly number[]): void {
    const entry = this.#entries.get(pattern);
    if (entry === undefined) return;
    const names = new Set(entry.resolved?.topics);
    const before = names.size;
    for (const number of numbers) {
      const name = this.#names[number];
      if (name !== undefined) names.add(name);
    }
    if (this.#matches + names.size - before > MAX_MATCHES) {
      this.failed(pattern, `the patterns of all groups match more than ${MAX_MATCHES} topics together`);
      return;
    }
    entry.isCompiled = true;
    entry.isRunning = false;
    entry.matched = entry.asked;
    if (entry.resolved === undefined || names.size > before) this.#resolve(entry, [...names].sort());
    this.#answer(entry, undefined);
    this.#match(entry);
  }

  failed(pattern: string, reason: string): void {
    const entry = this.#entries.get(pattern);
    if (entry === undefined) return;
    entry.isRunning = false;
    entry.fault = reason;
    if (entry.waiting.size === 0) {
      this.#parts.log.warn({ pattern, reason }, 'a subscription pattern finds no more topics');
    }
    this.#answer(entry, this.fault(pattern));
  }

  unavailable(patterns: readonly string[]): void {
    for (const pattern of patterns) {
      const entry = this.#entries.get(pattern);
      if (entry === undefined) continue;
      entry.isRunning = false;
      this.#answer(entry, unavailable());
      // Who asks again has it tried again.
      if (entry.resolved === undefined) this.#entries.delete(pattern);
    }
  }

  #answer(entry: Entry, failed: ConsumerFault | undefined): void {
    for (const waiting of entry.waiting) {
      entry.waiting.delete(waiting);
      waiting.timer.cancel();
      waiting.answered(failed);
    }
  }

  /** Whoever waits is sent to look for the coordinator anew. Resolves when nothing is left of the matcher. */
  close(): Promise<void> {
    this.#closed = true;
    for (const entry of this.#entries.values()) {
      this.#answer(entry, fault(KafkaError.NOT_COORDINATOR, 'the broker stops'));
    }
    this.#entries.clear();
    return this.#matcher.close();
  }
}

function unavailable(): ConsumerFault {
  return fault(KafkaError.COORDINATOR_NOT_AVAILABLE, 'subscription patterns cannot be resolved now');
}

/** Of ascending names. */
function includes(names: readonly string[], name: string): boolean {
  let low = 0;
  let high = names.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (names[middle]! < name) low = middle + 1;
    else high = middle;
  }
  return names[low] === name;
}

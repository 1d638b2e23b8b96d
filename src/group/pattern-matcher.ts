/**
 * Matches subscription patterns with topics' names in a thread of its own: a pattern can take as long as it likes, and nobody
 * waits for it but who asked. The thread (pattern-worker.ts) is made for the first pattern. It works on all patterns by turns;
 * one that takes too long, or too much memory, fails alone. It does not keep the process alive.
 */
import { extname } from 'node:path';
import { Worker } from 'node:worker_threads';
import type { Clock, Timer } from '../runtime/clock.ts';
import type { Logger } from '../runtime/logging.ts';

export interface MatcherEvents {
  /** A pattern is one; its topics come later. */
  compiled(pattern: string): void;
  /** What was asked last of a pattern: the numbers of the names that it matches. */
  matched(pattern: string, numbers: readonly number[]): void;
  /** `reason` is a sentence. */
  failed(pattern: string, reason: string): void;
  /** Nothing can be matched now, through no fault of these patterns. */
  unavailable(patterns: readonly string[]): void;
}

/** Names have numbers, in the order in which they were added, from 0. Events may come within a call. */
export interface PatternMatcher {
  add(names: readonly string[]): void;
  /** Matches names from a number on. A pattern is asked about one thing at a time. */
  match(pattern: string, from: number): void;
  /** What was asked about a pattern is no longer of interest. */
  forget(pattern: string): void;
  /** Forgets all patterns and all names. */
  reset(): void;
  /** Resolves when nothing of it is left. */
  close(): Promise<void>;
}

export interface MatchJob {
  readonly id: number;
  readonly pattern: string;
  /** Numbers of the first name, and of the one behind the last. */
  readonly from: number;
  readonly to: number;
}

export type ToWorker =
  | { readonly type: 'names'; readonly names: readonly string[] }
  | { readonly type: 'match'; readonly job: MatchJob }
  | { readonly type: 'forget'; readonly id: number }
  | { readonly type: 'reset' };

export type FromWorker =
  | { readonly type: 'compiled'; readonly id: number }
  | { readonly type: 'matched'; readonly id: number; readonly numbers: readonly number[] }
  | { readonly type: 'failed'; readonly id: number; readonly reason: string };

/** Shared with the worker: the job that it works on (0: none), and a count that grows with each step that ended. */
export const CELL_JOB = 0;
export const CELL_STEPS = 1;

const MEGABYTES = { maxOldGenerationSizeMb: 256, stackSizeMb: 4 };
/** One step (a pattern compiled, or matched with one name) takes a fraction of a second; a worker that is so many checks behind
 * one is ended. */
/** How long what the worker says is listened to at a time. */
const DRAIN_MS = 20;
const CHECK_MS = 2_000;
const STUCK_CHECKS = 5;

export class ThreadMatcher implements PatternMatcher {
  readonly #events: MatcherEvents;
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #names: string[] = [];
  readonly #jobs = new Map<number, MatchJob>();
  readonly #byPattern = new Map<string, number>();
  #inbox: FromWorker[] = [];
  #draining: NodeJS.Immediate | undefined;
  #worker: Worker | undefined;
  #cells = new Int32Array(new SharedArrayBuffer(0));
  #lastId = 0;
  #watch: Timer | undefined;
  #checks = 0;
  #seen = '';
  #closed = false;
  readonly #ending = new Set<Promise<unknown>>();

  constructor(events: MatcherEvents, clock: Clock, log: Logger) {
    this.#events = events;
    this.#clock = clock;
    this.#log = log;
  }

  add(names: readonly string[]): void {
    for (const name of names) this.#names.push(name);
    this.#post({ type: 'names', names });
  }

  match(pattern: string, from: number): void {
    if (this.#closed) return;
    this.forget(pattern);
    const job: MatchJob = { id: ++this.#lastId, pattern, from, to: this.#names.length };
    this.#jobs.set(job.id, job);
    this.#byPattern.set(pattern, job.id);
    if (this.#worker === undefined) this.#start();
    else this.#post({ type: 'match', job });
    this.#watchOver();
  }

  forget(pattern: string): void {
    const id = this.#byPattern.get(pattern);
    if (id === undefined) return;
    this.#take(id);
    this.#post({ type: 'forget', id });
  }

  reset(): void {
    this.#jobs.clear();
    this.#byPattern.clear();
    this.#names.length = 0;
    this.#post({ type: 'reset' });
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.reset();
    this.#watch?.cancel();
    this.#end();
    await Promise.all(this.#ending);
  }

  #take(id: number): MatchJob | undefined {
    const job = this.#jobs.get(id);
    if (job === undefined) return undefined;
    this.#jobs.delete(id);
    this.#byPattern.delete(job.pattern);
    return job;
  }

  #post(message: ToWorker): void {
    this.#worker?.postMessage(message);
  }

  /** Starts a worker with all that is asked. */
  #start(): void {
    this.#cells = new Int32Array(new SharedArrayBuffer(2 * Int32Array.BYTES_PER_ELEMENT));
    // The source beside this file, or what was built of it.
    const file = new URL(`./pattern-worker${extname(import.meta.url)}`, import.meta.url);
    const worker = new Worker(file, {
      name: 'broadsheet-patterns',
      workerData: this.#cells,
      resourceLimits: MEGABYTES,
    });
    this.#worker = worker;
    worker.unref();
    worker.on('message', (message: FromWorker) => {
      if (this.#worker !== worker) return;
      this.#inbox.push(message);
      this.#draining ??= setImmediate(() => this.#drain());
    });
    worker.on('error', (error) => {
      if (this.#worker === worker) this.#failed(error);
    });
    this.#post({ type: 'names', names: this.#names });
    for (const job of this.#jobs.values()) this.#post({ type: 'match', job });
  }

  #end(): void {
    const worker = this.#worker;
    if (worker === undefined) return;
    this.#worker = undefined;
    if (this.#draining !== undefined) clearImmediate(this.#draining);
    this.#draining = undefined;
    this.#inbox = [];
    const ending = worker.terminate().finally(() => this.#ending.delete(ending));
    this.#ending.add(ending);
  }

  /** What was heard may have members join that wait for it: others are served in between. */
  #drain(): void {
    const until = this.#clock.monotonic() + DRAIN_MS;
    let heard = 0;
    do this.#hear(this.#inbox[heard++]!);
    while (heard < this.#inbox.length && this.#clock.monotonic() < until);
    this.#inbox.splice(0, heard);
    this.#draining = this.#inbox.length > 0 ? setImmediate(() => this.#drain()) : undefined;
  }

  #hear(message: FromWorker): void {
    if (message.type === 'compiled') {
      const job = this.#jobs.get(message.id);
      if (job !== undefined) this.#events.compiled(job.pattern);
      return;
    }
    const job = this.#take(message.id);
    if (job === undefined) return;
    if (message.type === 'matched') this.#events.matched(job.pattern, message.numbers);
    else this.#events.failed(job.pattern, message.reason);
  }

  /** The worker ended by itself, or has to: the pattern that it worked on is at fault, and another one does the rest. */
  #failed(error: Error): void {
    this.#end();
    const job = this.#take(Atomics.load(this.#cells, CELL_JOB));
    if (job === undefined) {
      const patterns = [...this.#byPattern.keys()];
      this.#jobs.clear();
      this.#byPattern.clear();
      this.#log.error({ reason: error.message }, 'the thread that matches subscription patterns failed');
      if (patterns.length > 0) this.#events.unavailable(patterns);
      return;
    }
    this.#log.warn({ pattern: job.pattern, reason: error.message }, 'a subscription pattern was given up');
    this.#events.failed(job.pattern, `it cannot be matched: ${error.message}`);
    if (this.#jobs.size > 0 && this.#worker === undefined) this.#start();
  }

  #watchOver(): void {
    if (this.#watch !== undefined || this.#closed) return;
    this.#watch = this.#clock.setTimer(CHECK_MS, () => {
      this.#watch = undefined;
      if (this.#jobs.size === 0) return;
      const job = Atomics.load(this.#cells, CELL_JOB);
      const seen = `${job} ${Atomics.load(this.#cells, CELL_STEPS)}`;
      this.#checks = job !== 0 && seen === this.#seen ? this.#checks + 1 : 0;
      this.#seen = seen;
      if (this.#checks >= STUCK_CHECKS) {
        this.#checks = 0;
        this.#failed(new Error('it takes too long'));
      }
      this.#watchOver();
    });
  }
}

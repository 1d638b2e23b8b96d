/**
 * The thread that matches subscription patterns with topics' names: see pattern-matcher.ts. It works a moment at a time: first it
 * sees what is a pattern at all, then it goes on with what is likely to cost the least in all, so that a slow pattern delays
 * the others by a moment; but every few turns with what has waited longest. What has had too much time is given up.
 */
import { parentPort, workerData } from 'node:worker_threads';
import { CELL_JOB, CELL_STEPS, type FromWorker, type MatchJob, type ToWorker } from './pattern-matcher.ts';
import { compileTopicRegex, guessedSize, type TopicRegex } from './topic-regex.ts';

const TURN_MS = 10;
/** One turn of so many goes to the oldest. */
const OLDEST_EVERY = 4;
/** What a step of a pattern's program is thought to cost with each name, before it has had a turn. */
const STEP_MS = 0.001;
/** What matching one pattern may take in all. */
const MAX_MS = 30_000;
/** Compiled patterns that are kept, by the instructions of all their programs. */
const MAX_KEPT = 200_000;

interface Running {
  readonly job: MatchJob;
  /** The name that comes next. */
  next: number;
  readonly numbers: number[];
  /** Of its program, as guessed. */
  readonly size: number;
  spentMs: number;
  isCompiled: boolean;
}

const port = parentPort!;
const cells = workerData as Int32Array;
let names: string[] = [];
let running: Running[] = [];
let isWorking = false;
let turns = 0;
const kept = new Map<string, TopicRegex>();
let keptSize = 0;

/** Throws INVALID_REGULAR_EXPRESSION. */
function regexOf(pattern: string): TopicRegex {
  const known = kept.get(pattern);
  const regex = known ?? compileTopicRegex(pattern);
  kept.delete(pattern);
  kept.set(pattern, regex);
  if (known === undefined) keptSize += regex.size;
  for (const [other, { size }] of kept) {
    if (keptSize <= MAX_KEPT || other === pattern) break;
    kept.delete(other);
    keptSize -= size;
  }
  return regex;
}

function say(message: FromWorker): void {
  port.postMessage(message);
}

/** True when there is nothing left to do for it. */
function advance(one: Running): boolean {
  const { id, pattern, to } = one.job;
  try {
    const regex = regexOf(pattern);
    if (!one.isCompiled) {
      // That was a turn of its own: all hear whether theirs is a pattern before any large one is matched.
      one.isCompiled = true;
      say({ type: 'compiled', id });
      if (one.next < to) return false;
    }
    const until = performance.now() + TURN_MS;
    while (one.next < to && performance.now() < until) {
      if (regex.matches(names[one.next]!)) one.numbers.push(one.next);
      one.next++;
      Atomics.add(cells, CELL_STEPS, 1);
    }
  } catch (error) {
    say({ type: 'failed', id, reason: (error as Error).message });
    return true;
  }
  if (one.next === to) {
    say({ type: 'matched', id, numbers: one.numbers });
    return true;
  }
  return false;
}

/** What it is going to take in all, ms. */
function cost({ job, next, size, spentMs, isCompiled }: Running): number {
  if (!isCompiled) return size * STEP_MS;
  const { from, to } = job;
  return next === from ? size * STEP_MS * (to - from) : (spentMs * (to - from)) / (next - from);
}

function choose(): Running | undefined {
  if (++turns % OLDEST_EVERY === 0) return running[0];
  let best: Running | undefined;
  let least = Number.POSITIVE_INFINITY;
  for (const one of running) {
    const own = cost(one);
    if (own < least) {
      best = one;
      least = own;
    }
  }
  return best;
}

function turn(): void {
  const one = choose();
  if (one === undefined) {
    isWorking = false;
    return;
  }
  const began = performance.now();
  Atomics.store(cells, CELL_JOB, one.job.id);
  const isDone = advance(one);
  Atomics.store(cells, CELL_JOB, 0);
  one.spentMs += performance.now() - began;
  if (!isDone && one.spentMs > MAX_MS) {
    const reason = `it takes more than ${MAX_MS / 1000} s to match it with ${one.job.to - one.job.from} topics`;
    say({ type: 'failed', id: one.job.id, reason });
    running = running.filter((other) => other !== one);
  } else if (isDone) running = running.filter((other) => other !== one);
  // Messages are heard in between.
  setImmediate(turn);
}

port.on('message', (message: ToWorker) => {
  switch (message.type) {
    case 'names':
      for (const name of message.names) names.push(name);
      return;
    case 'match':
      running.push({
        job: message.job,
        next: message.job.from,
        numbers: [],
        size: guessedSize(message.job.pattern),
        spentMs: 0,
        isCompiled: false,
      });
      if (!isWorking) setImmediate(turn);
      isWorking = true;
      return;
    case 'forget':
      running = running.filter(({ job }) => job.id !== message.id);
      return;
    case 'reset':
      running = [];
      names = [];
  }
});

/**
 * The thread that matches subscription patterns with topics' names: see pattern-matcher.ts. Of all that is asked it goes on with
 * what has had the least time, a moment at a time, so that a slow pattern delays the others by that moment; and gives up what has
 * had too much.
 */
import { parentPort, workerData } from 'node:worker_threads';
import { CELL_JOB, CELL_STEPS, type FromWorker, type MatchJob, type ToWorker } from './pattern-matcher.ts';
import { compileTopicRegex, type TopicRegex } from './topic-regex.ts';

const TURN_MS = 10;
/** What matching one pattern may take in all. */
const MAX_MS = 30_000;
/** Compiled patterns that are kept, by the instructions of all their programs. */
const MAX_KEPT = 200_000;

interface Running {
  readonly job: MatchJob;
  /** The name that comes next. */
  next: number;
  readonly numbers: number[];
  spentMs: number;
  isCompiled: boolean;
}

const port = parentPort!;
const cells = workerData as Int32Array;
let names: string[] = [];
let running: Running[] = [];
let isWorking = false;
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
      one.isCompiled = true;
      say({ type: 'compiled', id });
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

function turn(): void {
  let least = running[0];
  for (const one of running) if (one.spentMs < least!.spentMs) least = one;
  if (least === undefined) {
    isWorking = false;
    return;
  }
  const one = least;
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
      running.push({ job: message.job, next: message.job.from, numbers: [], spentMs: 0, isCompiled: false });
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

/**
 * Subscription patterns of the consumer protocol: RE2 syntax, as in Apache Kafka, which uses RE2J; re2js is its port. Matching
 * takes time in proportion to pattern and text, so that no pattern can hang the broker. The package is loaded with the first
 * pattern.
 */
import { createRequire } from 'node:module';
import type * as Re2 from 're2js';
import { BroadsheetError } from '../runtime/errors.ts';

/** Characters of a pattern, and instructions of its program: what takes a fraction of a second to compile. */
const MAX_PATTERN_LENGTH = 4096;
const MAX_PROGRAM_SIZE = 10_000;

/** Patterns come again with every member and every change of topics: so many of the last ones are kept. */
const MAX_KEPT = 64;
const kept = new Map<string, TopicRegex>();

let loaded: typeof Re2 | undefined;

function re2(): typeof Re2 {
  loaded ??= createRequire(import.meta.url)('re2js') as typeof Re2;
  return loaded;
}

function refusal(pattern: string, why: string): BroadsheetError {
  const shown = pattern.length <= 100 ? pattern : `${pattern.slice(0, 100)}...`;
  return new BroadsheetError('INVALID_REGULAR_EXPRESSION', `${shown} is not a valid pattern: ${why}`);
}

export interface TopicRegex {
  /** Whether the pattern matches all of a topic's name. */
  matches(topic: string): boolean;
}

/** Throws INVALID_REGULAR_EXPRESSION for a pattern that is not RE2 syntax, or too large. */
export function compileTopicRegex(pattern: string): TopicRegex {
  const regex = kept.get(pattern) ?? compile(pattern);
  kept.delete(pattern);
  kept.set(pattern, regex);
  if (kept.size > MAX_KEPT) kept.delete(kept.keys().next().value!);
  return regex;
}

function compile(pattern: string): TopicRegex {
  if (pattern.length > MAX_PATTERN_LENGTH) {
    throw refusal(pattern, `it has more than ${MAX_PATTERN_LENGTH} characters`);
  }
  const { RE2JS, RE2JSSyntaxException } = re2();
  try {
    const compiled = RE2JS.compile(pattern);
    if (compiled.programSize() > MAX_PROGRAM_SIZE) throw refusal(pattern, 'it is too large');
    return { matches: (topic) => compiled.matches(topic) };
  } catch (error) {
    if (error instanceof RE2JSSyntaxException) throw refusal(pattern, error.message);
    throw error;
  }
}

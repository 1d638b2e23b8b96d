/**
 * Subscription patterns of the consumer protocol: RE2 syntax, as in Apache Kafka, which uses RE2J; re2js is its port. Matching
 * takes time in proportion to pattern and text. The package is loaded with the first pattern.
 */
import { createRequire } from 'node:module';
import type * as Re2 from 're2js';
import { BroadsheetError } from '../runtime/errors.ts';

/** Characters of a pattern, and instructions of its program: what takes a fraction of a second to compile, and to match. */
const MAX_PATTERN_LENGTH = 4096;
const MAX_PROGRAM_SIZE = 10_000;
/** Of a program as it is guessed before it is compiled: guesses are a few times too high at most. */
const MAX_GUESSED_SIZE = 4 * MAX_PROGRAM_SIZE;

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
  /** Instructions of its program. */
  readonly size: number;
  /** Whether the pattern matches all of a topic's name. */
  matches(topic: string): boolean;
}

/** Throws INVALID_REGULAR_EXPRESSION for a pattern that is not RE2 syntax, or too large. */
export function compileTopicRegex(pattern: string): TopicRegex {
  if (pattern.length > MAX_PATTERN_LENGTH) {
    throw refusal(pattern, `it has more than ${MAX_PATTERN_LENGTH} characters`);
  }
  // Repetitions are written out: a few hundred characters could make a program of gigabytes.
  if (guessedSize(pattern) > MAX_GUESSED_SIZE) throw refusal(pattern, 'it is too large');
  const { RE2JS, RE2JSSyntaxException } = re2();
  try {
    const compiled = RE2JS.compile(pattern);
    const size = compiled.programSize();
    if (size > MAX_PROGRAM_SIZE) throw refusal(pattern, 'it is too large');
    return { size, matches: (topic) => compiled.matches(topic) };
  } catch (error) {
    if (error instanceof RE2JSSyntaxException) throw refusal(pattern, error.message);
    // Of the stack, say: whatever a pattern makes the compiler do is that pattern's fault.
    if (error instanceof RangeError) throw refusal(pattern, error.message);
    throw error;
  }
}

const REPETITION = /\{(\d{1,9})(?:,(\d{0,9}))?\}/y;
const GROUP_HEAD = /\(\?(?:P?<[^>]*>|[A-Za-z-]*:?)/y;
const ESCAPED = /\\(?:[pPx]\{[^}]*\}|[pP].|.)/sy;
const CHARACTER_CLASS = /\[\^?\]?(?:\\.|\[:[^\]]*:\]|[^\]\\])*\]/sy;

function at(sticky: RegExp, text: string, index: number): RegExpExecArray | null {
  sticky.lastIndex = index;
  return sticky.exec(text);
}

/** Characters, classes and escapes of a pattern, each as often as the repetitions around it say. */
export function guessedSize(pattern: string): number {
  const enclosing: number[] = [];
  let sum = 0;
  /** Of what a repetition that follows would repeat. */
  let last = 0;
  const atom = (size: number) => {
    sum += last;
    last = size;
  };
  for (let i = 0; i < pattern.length; ) {
    let taken = 1;
    switch (pattern[i]) {
      case '\\':
        if (pattern[i + 1] === 'Q') {
          const end = pattern.indexOf('\\E', i + 2);
          taken = (end === -1 ? pattern.length : end + 2) - i;
          atom(taken);
        } else {
          taken = at(ESCAPED, pattern, i)?.[0].length ?? 1;
          atom(1);
        }
        break;
      case '[':
        taken = at(CHARACTER_CLASS, pattern, i)?.[0].length ?? 1;
        atom(1);
        break;
      case '(':
        taken = at(GROUP_HEAD, pattern, i)?.[0].length ?? 1;
        enclosing.push(sum + last);
        sum = 0;
        last = 0;
        break;
      case ')':
        last += sum;
        sum = enclosing.pop() ?? 0;
        break;
      case '{': {
        const repetition = at(REPETITION, pattern, i);
        if (repetition === null) {
          atom(1);
          break;
        }
        taken = repetition[0].length;
        last *= Math.max(Number(repetition[1]), Number(repetition[2] ?? 0));
        break;
      }
      case '*':
      case '+':
      case '?':
      case '|':
        break;
      default:
        atom(1);
    }
    i += taken;
  }
  for (const size of enclosing) sum += size;
  return sum + last;
}

import { describe, expect, it } from 'vitest';
import { compileTopicRegex, guessedSize } from '../../src/group/topic-regex.ts';
import { KafkaError, kafkaCodeOf } from '../../src/protocol/errors.ts';

function refusal(pattern: string): unknown {
  try {
    compileTopicRegex(pattern);
  } catch (error) {
    return error;
  }
  return undefined;
}

describe('a subscription pattern', () => {
  it('matches whole names only', () => {
    const regex = compileTopicRegex('orders[.-]\\w+');
    const names = ['orders.eu', 'orders-us', 'orders', 'my.orders.eu', 'orders.eu.1', 'orders.eu\n'];
    expect(names.filter((name) => regex.matches(name))).toEqual(['orders.eu', 'orders-us']);
    expect(compileTopicRegex('a|ab').matches('ab')).toBe(true);
    expect(compileTopicRegex('').matches('')).toBe(true);
    expect(compileTopicRegex('(?i)^ORDERS$').matches('orders')).toBe(true);
  });

  it.each(['(', '[', '*', 'a**', '(?=a)', '(?<=a)b', '(a)\\1', 'a{1001}', '((a{99}){99}){99}', '\\'])(
    'is refused: %s',
    (pattern) => {
      const error = refusal(pattern);
      expect(error).toMatchObject({ code: 'INVALID_REGULAR_EXPRESSION' });
      expect(String(error)).toContain(pattern);
      expect(kafkaCodeOf(error)).toBe(KafkaError.INVALID_REGULAR_EXPRESSION);
    },
  );

  it('is refused when it is too large', () => {
    expect(refusal('a'.repeat(4096))).toBeUndefined();
    expect(refusal('a'.repeat(4097))).toMatchObject({ code: 'INVALID_REGULAR_EXPRESSION' });
    const program = '(?:[a-c]x?y?z?){800}';
    expect(refusal(program)).toBeUndefined();
    expect(refusal(program.repeat(4))).toMatchObject({ code: 'INVALID_REGULAR_EXPRESSION' });
  });

  it.each([
    ['abc', 3],
    ['a|b*c+?d?', 4],
    ['a{3}b{2,}c{1,4}d{', 11],
    ['(ab){10}(?:c(?<n>d)){5}', 30],
    ['((?:ab){10}c){10}', 210],
    ['[^]a{9}]{2}[[:alpha:]\\]]{3}', 5],
    ['\\pL{2}\\p{Greek}{3}\\x{10FFFF}\\.{4}', 10],
    ['\\Qa{9}\\E', 8],
    ['((((', 0],
    ['))((', 0],
    ['\\', 1],
    ['[a', 2],
  ])('is guessed to need, before it is compiled: %s', (pattern, size) => {
    expect(guessedSize(pattern)).toBe(size);
  });

  it('is not compiled when its repetitions make a few characters gigabytes', () => {
    for (const pattern of ['a{0,1000}'.repeat(450), '(?:[^\\pL\\pN]{1000})'.repeat(200)]) {
      expect(guessedSize(pattern)).toBeGreaterThan(100_000);
      expect(refusal(pattern)).toMatchObject({ code: 'INVALID_REGULAR_EXPRESSION' });
    }
  });

  it('is refused when it nests too deeply, whatever the stack', () => {
    for (const depth of [1_001, 2_000]) {
      const pattern = `${'('.repeat(depth)}a${')'.repeat(depth)}`;
      expect(refusal(pattern)).toMatchObject({ code: 'INVALID_REGULAR_EXPRESSION' });
    }
  });

  it('needs no more steps for a pattern that makes others try again and again', () => {
    // An engine that backtracks takes 2^240 steps.
    expect(compileTopicRegex('(x+x+)+y').matches('x'.repeat(240))).toBe(false);
    expect(compileTopicRegex('(a|aa)+').matches(`${'a'.repeat(240)}b`)).toBe(false);
  });
});

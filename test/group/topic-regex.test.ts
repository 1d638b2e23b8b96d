import { describe, expect, it } from 'vitest';
import { compileTopicRegex } from '../../src/group/topic-regex.ts';
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

  it('needs no more steps for a pattern that makes others try again and again', () => {
    // An engine that backtracks takes 2^240 steps.
    expect(compileTopicRegex('(x+x+)+y').matches('x'.repeat(240))).toBe(false);
    expect(compileTopicRegex('(a|aa)+').matches(`${'a'.repeat(240)}b`)).toBe(false);
  });
});

import { beforeEach, describe, expect, it } from 'vitest';
import type { ConsumerFault } from '../../src/group/consumer-types.ts';
import { TopicPatterns } from '../../src/group/topic-patterns.ts';
import { KafkaError } from '../../src/protocol/errors.ts';
import { VirtualClock } from '../../src/runtime/clock.ts';
import { silentLogger } from '../../src/runtime/logging.ts';
import { TestTopics } from './consumer-run.ts';
import { TestMatcher } from './test-matcher.ts';

let clock: VirtualClock;
let topics: TestTopics;
let matcher: TestMatcher;
let patterns: TopicPatterns;
let inUse: Set<string>;

beforeEach(() => {
  clock = new VirtualClock();
  topics = new TestTopics();
  for (let i = 0; i < 100; i++) topics.set(`t${i}`, 1);
  inUse = new Set();
  patterns = new TopicPatterns({
    topics,
    clock,
    log: silentLogger,
    inUse: () => inUse,
    matcher: (events) => {
      matcher = new TestMatcher(events);
      return matcher;
    },
  });
});

function topic(name: string, there: boolean): void {
  if (there) topics.set(name, 1);
  else topics.delete(name);
  patterns.topicChanged(name);
}

/** What was answered, if anything. */
function ask(pattern: string): { answers: (ConsumerFault | undefined)[] } {
  const answers: (ConsumerFault | undefined)[] = [];
  patterns.whenResolved(pattern, (failed) => answers.push(failed));
  return { answers };
}

describe('patterns of topics', () => {
  it('are matched once, and then with new topics alone', () => {
    expect(ask('t.*5').answers).toEqual([undefined]);
    expect(patterns.latest('t.*5')!.topics).toHaveLength(10);
    expect(ask('t.*5').answers).toEqual([undefined]);
    expect(matcher.work).toBe(100);
    const { version } = patterns;
    topic('u5', true);
    expect(patterns.version).toBe(version);
    topic('t115', true);
    expect(patterns.latest('t.*5')!.topics).toContain('t115');
    expect(patterns.version).toBe(version + 1);
    topic('t115', true);
    expect(matcher.work).toBe(102);
  });

  it('lose topics that are deleted, and find those that are made again', () => {
    patterns.latest('t1.?');
    const before = patterns.latest('t1.?')!.topics;
    topic('t15', false);
    expect(patterns.latest('t1.?')!.topics).toEqual(before.filter((name) => name !== 't15'));
    topic('t15', true);
    expect(patterns.latest('t1.?')!.topics).toEqual(before);
    expect(patterns.latest('t1.?')!.topics).toEqual([...before].sort());
  });

  it('take no notice of a topic that goes while it is matched', () => {
    matcher.holds = true;
    patterns.latest('t1.?');
    topic('t15', false);
    topic('t16', false);
    topic('t16', true);
    matcher.deliver();
    expect(patterns.latest('t1.?')!.topics).not.toContain('t15');
    expect(patterns.latest('t1.?')!.topics).not.toContain('t16');
    matcher.deliver();
    expect(patterns.latest('t1.?')!.topics).toContain('t16');
  });

  it('know what they should after any changes', () => {
    const all = ['.*', 't.*', '.*[05]', 'v1?'];
    matcher.holds = true;
    for (let i = 0; i < 3_000; i++) {
      const name = `${'tuv'[i % 3]}${(i * 7) % 50}`;
      topic(name, topics.idOf(name) === undefined);
      if (i % 5 === 0) patterns.latest(all[(i / 5) % 4]!);
      if (i % 11 === 0) matcher.deliver();
    }
    for (let i = 0; i < 3; i++) matcher.deliver();
    for (const pattern of all) {
      const regex = new RegExp(`^(?:${pattern})$`);
      const expected = [...topics.names()].filter((name) => regex.test(name)).sort();
      expect(patterns.latest(pattern)!.topics).toEqual(expected);
    }
    expect(matcher.waiting).toEqual([]);
  });

  it('make who asks wait for a second, if they are patterns at all', () => {
    matcher.holds = true;
    const good = ask('t.*').answers;
    matcher.compile();
    const unknown = ask('.*').answers;
    clock.advance(999);
    expect(good).toEqual([]);
    clock.advance(1);
    expect(good).toEqual([undefined]);
    expect(patterns.latest('t.*')).toBeUndefined();
    clock.advance(8_999);
    expect(unknown).toEqual([]);
    clock.advance(1);
    expect(unknown.map((failed) => failed!.errorCode)).toEqual([KafkaError.COORDINATOR_NOT_AVAILABLE]);
    matcher.deliver();
    expect(patterns.latest('t.*')!.topics).toHaveLength(100);
    expect(clock.pendingTimers).toBe(0);
  });

  it('that fail say so to all who ask', () => {
    matcher.holds = true;
    const first = ask('(').answers;
    matcher.deliver();
    const second = ask('(').answers;
    for (const [failed] of [first, second]) {
      expect(failed).toMatchObject({ errorCode: KafkaError.INVALID_REGULAR_EXPRESSION });
    }
    expect(matcher.waiting).toEqual([]);
  });

  it('keep what they have when matching more fails', () => {
    patterns.latest('t.*');
    matcher.holds = true;
    topic('t100', true);
    matcher.fail('t.*', 'it takes too long');
    expect(patterns.latest('t.*')!.topics).toHaveLength(100);
    expect(ask('t.*').answers).toEqual([undefined]);
  });

  it('are forgotten when nobody has them and there are many', () => {
    inUse.add('t1').add('t2');
    for (let i = 0; i < 2_000; i++) patterns.latest(`t${i}`);
    const { work } = matcher;
    topic('x', true);
    expect(matcher.work - work).toBeLessThanOrEqual(256);
    patterns.latest('t1');
    patterns.latest('t2');
    expect(matcher.work - work).toBeLessThanOrEqual(256);
  });

  it('are told from one another by what they match together', () => {
    for (let i = 0; i < 30_000; i++) topics.set(`n${i}`, 1);
    const refused = Array.from({ length: 70 }, (_, i) => ask(`.*|${i}`).answers[0]);
    expect(refused.slice(0, 66)).toEqual(Array(66).fill(undefined));
    expect(refused[69]!.errorCode).toBe(KafkaError.INVALID_REGULAR_EXPRESSION);
  });

  it('answer whoever waits when the broker stops', async () => {
    matcher.holds = true;
    const { answers } = ask('t.*');
    await patterns.close();
    expect(answers.map((failed) => failed!.errorCode)).toEqual([KafkaError.NOT_COORDINATOR]);
    expect(ask('t.*').answers).toHaveLength(1);
    expect(matcher.closed).toBe(true);
    expect(clock.pendingTimers).toBe(0);
  });
});

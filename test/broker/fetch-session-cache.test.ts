import { describe, expect, it } from 'vitest';
import type { SessionUpdate } from '../../src/broker/fetch-session.ts';
import { FetchSessionCache } from '../../src/broker/fetch-session-cache.ts';

const MINUTE = 60_000;

function asking(count: number, topic = 't', forgotten = 0): SessionUpdate {
  const one = { topic, fetchOffset: 0, maxBytes: 1, currentLeaderEpoch: -1, lastFetchedEpoch: -1 };
  return {
    asked: Array.from({ length: count }, (_, index) => ({ ...one, index })),
    forgotten: Array.from({ length: forgotten }, (_, index) => [topic, index] as const),
    isolation: 'read_uncommitted',
  };
}

function setUp(options: { slots?: number; maxPartitions?: number } = {}) {
  const state = { now: 0, slots: options.slots ?? 2 };
  const cache = new FetchSessionCache({
    slots: () => state.slots,
    monotonic: () => state.now,
    ...(options.maxPartitions === undefined ? {} : { maxPartitions: options.maxPartitions }),
  });
  const open = (size: number, privileged = false, topic = 't') =>
    cache.create(false, privileged, () => ({ partition: undefined, missingCode: 3 }), asking(size, topic));
  return { cache, state, open };
}

describe('the fetch sessions of a broker', () => {
  it('have ids of their own, and are gone when they are removed', () => {
    const { cache, open } = setUp();
    const [a, b] = [open(1)!, open(2)!];
    expect(a.id).not.toBe(b.id);
    expect([cache.get(a.id), cache.size, cache.partitions]).toEqual([a, 2, 3]);
    cache.remove(a.id);
    cache.remove(a.id);
    expect([cache.get(a.id), cache.size, cache.partitions]).toEqual([undefined, 1, 2]);
  });

  it('keep their places for two minutes, whatever is worth more', () => {
    const { state, open } = setUp();
    open(1);
    open(1);
    state.now = 2 * MINUTE;
    expect(open(100)).toBeUndefined();
    expect(open(100, true)).toBeDefined();
  });

  it('lose them when they were idle for longer, the one idle longest first', () => {
    const { cache, state, open } = setUp();
    const [a, b] = [open(50)!, open(50)!];
    state.now = MINUTE;
    cache.update(a, asking(0));
    state.now = 2 * MINUTE + 1;
    expect(open(1)).toBeDefined();
    expect([cache.get(a.id), cache.get(b.id)]).toEqual([a, undefined]);
  });

  it('lose them to larger ones when they are older than two minutes, the smallest first', () => {
    const { cache, state, open } = setUp();
    const [small, large] = [open(2)!, open(5)!];
    state.now = 2 * MINUTE + 1;
    cache.update(small, asking(0));
    cache.update(large, asking(0));
    expect(open(2)).toBeUndefined();
    expect(open(3)).toBeDefined();
    expect([cache.get(small.id), cache.get(large.id)]).toEqual([undefined, large]);
    // The newcomer is safe in its turn, the other is not.
    expect(open(4)).toBeUndefined();
    expect(open(6)).toBeDefined();
    expect(cache.get(large.id)).toBeUndefined();
  });

  it("give a replica's the place of any consumer's, and not the reverse", () => {
    const { cache, state, open } = setUp();
    const [replica, consumer] = [open(1, true)!, open(500)!];
    expect(open(1, true)).toBeDefined();
    expect([cache.get(replica.id), cache.get(consumer.id)]).toEqual([replica, undefined]);
    state.now = 2 * MINUTE + 1;
    cache.update(replica, asking(0));
    expect(open(500)).toBeDefined();
    expect(cache.get(replica.id)).toBe(replica);
    expect(open(500)).toBeUndefined();
    expect(open(2, true)).toBeDefined();
  });

  it('are none without slots, and as many as there are slots now', () => {
    const { cache, state, open } = setUp({ slots: 0 });
    expect(open(1)).toBeUndefined();
    state.slots = 3;
    for (let n = 0; n < 5; n++) open(1);
    expect(cache.size).toBe(3);
    state.slots = 1;
    expect(open(9)).toBeUndefined();
    state.now = 2 * MINUTE + 1;
    expect(open(9)).toBeDefined();
    expect(cache.size).toBe(1);
  });

  it('are bounded in partitions together, long names counting for more', () => {
    const { cache, open } = setUp({ slots: 100, maxPartitions: 10 });
    expect(open(11)).toBeUndefined();
    const first = open(6)!;
    expect(open(5)).toBeUndefined();
    const second = open(3)!;
    expect(cache.update(second, asking(5))).toBe('too-large');
    expect([cache.get(second.id), cache.partitions]).toEqual([undefined, 6]);
    expect(cache.update(first, asking(7))).toBe('open');
    expect(open(1, false, 'x'.repeat(1000))).toBeUndefined();
    expect(cache.partitions).toBe(7);
    expect(cache.update(first, asking(0, 't', 6))).toBe('open');
    expect(cache.partitions).toBe(1);
    expect(open(1, false, 'x'.repeat(1000))).toBeDefined();
    expect(cache.partitions).toBe(9);
  });

  it('are closed when they have no partitions left', () => {
    const { cache, open } = setUp();
    const session = open(2)!;
    expect(cache.update(session, asking(3, 't', 3))).toBe('empty');
    expect([cache.get(session.id), cache.size, cache.partitions]).toEqual([undefined, 0, 0]);
  });
});

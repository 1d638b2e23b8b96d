import { describe, expect, it } from 'vitest';
import {
  DelayedFetches,
  type FetchWatcher,
  type WakeReason,
  type Watched,
} from '../../src/broker/delayed-fetch.ts';
import { VirtualClock } from '../../src/runtime/clock.ts';

class FakePartition implements Watched {
  readonly watchers = new Set<FetchWatcher>();

  watch(watcher: FetchWatcher): void {
    this.watchers.add(watcher);
  }
  unwatch(watcher: FetchWatcher): void {
    this.watchers.delete(watcher);
  }
  appended(bytes: number): void {
    for (const watcher of this.watchers) watcher.onVisible(this, bytes);
  }
  changed(): void {
    for (const watcher of this.watchers) watcher.onChanged(this);
  }
}

function setUp() {
  const clock = new VirtualClock();
  let requests = 0;
  const fetches = new DelayedFetches(clock, () => {
    requests++;
  });
  const reasons: WakeReason[] = [];
  return {
    clock,
    fetches,
    reasons,
    note: (reason: WakeReason) => reasons.push(reason),
    requests: () => requests,
  };
}

describe('a delayed fetch', () => {
  it('wakes once its partitions together have gained the bytes that it lacks', () => {
    const { fetches, reasons, note, requests } = setUp();
    const [a, b] = [new FakePartition(), new FakePartition()];
    fetches.watch([a, b], 100, 500, note);
    a.appended(60);
    expect(fetches.wakeReady()).toBe(false);
    b.appended(40);
    expect(requests()).toBe(1);
    expect(reasons).toEqual([]);
    expect(fetches.wakeReady()).toBe(true);
    expect(reasons).toEqual(['data']);
    expect(a.watchers.size + b.watchers.size).toBe(0);
    expect(fetches.waiting).toBe(0);
  });

  it('wakes when the time is up, and leaves no timer behind in any case', () => {
    const { clock, fetches, reasons, note } = setUp();
    const a = new FakePartition();
    fetches.watch([a], 1, 500, note);
    clock.advance(499);
    expect(reasons).toEqual([]);
    clock.advance(1);
    expect(reasons).toEqual(['timeout']);
    fetches.watch([a], 1, 500, note);
    a.appended(1);
    fetches.wakeReady();
    expect(clock.pendingTimers).toBe(0);
  });

  it('wakes when a partition changes, whatever it lacks', () => {
    const { fetches, reasons, note } = setUp();
    const a = new FakePartition();
    fetches.watch([a], 1_000_000, 500, note);
    a.changed();
    fetches.wakeReady();
    expect(reasons).toEqual(['changed']);
  });

  it('calls back once, however often it is woken', () => {
    const { clock, fetches, reasons, note } = setUp();
    const a = new FakePartition();
    const fetch = fetches.watch([a], 1, 500, note);
    a.appended(5);
    a.appended(5);
    a.changed();
    fetch.wake('hurried');
    fetches.wakeReady();
    clock.advance(1000);
    expect(reasons).toEqual(['hurried']);
  });

  it('may be watched again from within its own callback', () => {
    const { fetches, reasons, note } = setUp();
    const a = new FakePartition();
    fetches.watch([a], 1, 500, (reason) => {
      note(reason);
      fetches.watch([a], 1, 500, note);
    });
    a.appended(1);
    fetches.wakeReady();
    expect(fetches.waiting).toBe(1);
    a.appended(1);
    fetches.wakeReady();
    expect(reasons).toEqual(['data', 'data']);
  });

  it('lets go of everything on close, without calling back', () => {
    const { clock, fetches, reasons, note } = setUp();
    const a = new FakePartition();
    fetches.watch([a], 1, 500, note);
    fetches.watch([a], 1, 500, note);
    fetches.close();
    expect([fetches.waiting, a.watchers.size, clock.pendingTimers]).toEqual([0, 0, 0]);
    expect(reasons).toEqual([]);
  });
});

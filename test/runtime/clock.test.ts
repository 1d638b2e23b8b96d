import { expect, it } from 'vitest';
import { systemClock, VirtualClock } from '../../src/runtime/clock.ts';

it('runs virtual timers in order of time, then of arming, and sees the time they fell due', () => {
  const clock = new VirtualClock(1000);
  const seen: string[] = [];
  clock.setTimer(20, () => seen.push(`late@${clock.now()}`));
  clock.setTimer(10, () => {
    seen.push(`first@${clock.now()}`);
    clock.setTimer(5, () => seen.push(`nested@${clock.now()}`));
  });
  clock.setTimer(10, () => seen.push(`second@${clock.now()}`));
  clock.setTimer(10, () => seen.push('cancelled')).cancel();
  clock.advance(30);
  expect(seen).toEqual(['first@1010', 'second@1010', 'nested@1015', 'late@1020']);
  expect(clock.now()).toBe(1030);
  expect(clock.monotonic()).toBe(30);
  expect(clock.pendingTimers).toBe(0);
});

it('fires system timers once and not after a cancel', async () => {
  let fired = 0;
  systemClock.setTimer(1, () => fired++);
  systemClock.setTimer(1, () => fired--).cancel();
  systemClock.setTimer(2 ** 40, () => fired--).cancel();
  while (fired === 0) await new Promise((resolve) => setTimeout(resolve, 1));
  expect(fired).toBe(1);
});

import { expect, it } from 'vitest';
import { VirtualClock } from '../../src/runtime/clock.ts';
import { Timers } from '../../src/runtime/timers.ts';

it('run once or again and again, and none after they are closed', async () => {
  const clock = new VirtualClock();
  const timers = new Timers(clock);
  const ran: string[] = [];
  timers.after(5, () => ran.push('once'));
  timers.every(10, async () => void ran.push('every'), 1);
  for (let ms = 0; ms < 25; ms++) {
    clock.advance(1);
    await Promise.resolve();
    await Promise.resolve();
  }
  expect(ran).toEqual(['every', 'once', 'every', 'every']);
  timers.after(1, () => ran.push('never'));
  timers.close();
  timers.after(1, () => ran.push('never'));
  clock.advance(100);
  expect(ran).toHaveLength(4);
});

it('wait for a task before they run it again', async () => {
  const clock = new VirtualClock();
  const timers = new Timers(clock);
  let runs = 0;
  let end: () => void = () => {};
  timers.every(10, () => {
    runs++;
    return new Promise((resolve) => {
      end = resolve;
    });
  });
  clock.advance(50);
  expect(runs).toBe(1);
  timers.close();
  end();
  await Promise.resolve();
  clock.advance(50);
  expect(runs).toBe(1);
});

import { describe, expect, it } from 'vitest';
import { Tick } from '../../src/broker/tick.ts';

const turn = () => new Promise((resolve) => setImmediate(resolve));

describe('the end of a tick', () => {
  it('runs its steps again until none has anything to do', () => {
    let work = 3;
    const calls: string[] = [];
    const tick = new Tick(
      [
        () => {
          calls.push('commit');
          return false;
        },
        () => {
          calls.push('wake');
          return work-- > 0;
        },
      ],
      () => calls.push('flush'),
      () => {},
      () => 0,
    );
    tick.end();
    expect(calls).toEqual(['commit', 'wake', 'commit', 'wake', 'commit', 'wake', 'commit', 'wake']);
  });

  it('follows many requests once, and then sends', async () => {
    const calls: string[] = [];
    const tick = new Tick(
      [
        () => {
          calls.push('step');
          return false;
        },
      ],
      () => calls.push('flush'),
      () => {},
      () => 0,
    );
    tick.request();
    tick.request();
    await turn();
    await turn();
    expect(calls).toEqual(['step', 'flush']);
    tick.request();
    tick.end();
    await turn();
    expect(calls).toEqual(['step', 'flush', 'step']);
  });

  it('reports a step that throws and runs the others', () => {
    const errors: unknown[] = [];
    let ran = false;
    const tick = new Tick(
      [
        () => {
          throw new Error('broken');
        },
        () => {
          ran = true;
          return false;
        },
      ],
      () => {},
      (error) => errors.push(error),
      () => 0,
    );
    tick.end();
    expect([String(errors[0]), ran]).toEqual(['Error: broken', true]);
  });

  it('does nothing any more once closed', async () => {
    let steps = 0;
    const tick = new Tick(
      [
        () => {
          steps++;
          return false;
        },
      ],
      () => {},
      () => {},
      () => 0,
    );
    tick.request();
    tick.close();
    tick.request();
    tick.end();
    await turn();
    expect(steps).toBe(0);
  });

  it('is over after a while, and what is postponed runs in a pass of its own, once', async () => {
    let now = 0;
    const calls: string[] = [];
    const tick = new Tick(
      [],
      () => calls.push('flush'),
      () => {},
      () => now,
    );
    const resume = () => calls.push(tick.passIsOver() ? 'over' : 'resumed');
    expect(tick.passIsOver()).toBe(false);
    now += 1000;
    // The clock is looked at before each eighth request.
    expect(Array.from({ length: 8 }, () => tick.passIsOver())).toEqual([...Array(7).fill(false), true]);
    expect(tick.passIsOver()).toBe(true);
    tick.postpone(resume);
    tick.postpone(resume);
    tick.end();
    expect(tick.passIsOver()).toBe(false);
    tick.end();
    expect(calls).toEqual([]);
    await turn();
    expect(calls).toEqual(['resumed', 'flush']);
    tick.postpone(resume);
    tick.close();
    await turn();
    expect(calls).toHaveLength(2);
  });

  it('resumes first whom the last pass had no time for', async () => {
    let now = 0;
    const calls: string[] = [];
    const tick = new Tick(
      [],
      () => {},
      () => {},
      () => now,
    );
    const greedy = () => {
      calls.push('greedy');
      now += 1000;
      tick.postpone(greedy);
    };
    const other = () => {
      if (tick.passIsOver()) tick.postpone(other);
      else calls.push('other');
    };
    tick.postpone(greedy);
    tick.postpone(other);
    for (let i = 0; i < 4; i++) await turn();
    tick.close();
    expect(calls.slice(0, 3)).toEqual(['greedy', 'other', 'greedy']);
  });
});

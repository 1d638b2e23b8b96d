import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ThreadMatcher } from '../../src/group/pattern-matcher.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import { silentLogger } from '../../src/runtime/logging.ts';

/** Takes a tenth of a second with each of these names, and matches none. */
const SLOW = '(?:(?:(?:a?){0,10}){0,10}){0,10}b';
const NAMES = Array.from({ length: 500 }, (_, i) => `${'a'.repeat(200)}${i}`);

let matcher: ThreadMatcher;
let events: string[];
let heard: () => void;

beforeEach(() => {
  events = [];
  heard = () => {};
  const note = (event: string) => {
    events.push(event);
    heard();
  };
  matcher = new ThreadMatcher(
    {
      compiled: (pattern) => note(`compiled ${pattern}`),
      matched: (pattern, numbers) => note(`matched ${pattern}: ${numbers.join()}`),
      failed: (pattern, reason) => note(`failed ${pattern}: ${reason}`),
      unavailable: (patterns) => note(`unavailable ${patterns.join()}`),
    },
    systemClock,
    silentLogger,
  );
});
afterEach(() => matcher.close());

async function until(event: RegExp): Promise<void> {
  while (!events.some((each) => event.test(each))) {
    await new Promise<void>((resolve) => {
      heard = resolve;
    });
  }
}

describe('the thread that matches', () => {
  it('finds names, and later ones', async () => {
    matcher.add(['a', 'b', 'ab']);
    matcher.match('a.*', 0);
    await until(/^matched/);
    matcher.add(['c', 'ac']);
    matcher.match('a.*', 3);
    await until(/^matched a.\*: 4$/);
    expect(events).toEqual(['compiled a.*', 'matched a.*: 0,2', 'compiled a.*', 'matched a.*: 4']);
  });

  it('refuses what is no pattern', async () => {
    matcher.match('(', 0);
    await until(/^failed \(: .*missing/);
  });

  it('goes on with others while it is busy with slow patterns', async () => {
    matcher.add(NAMES);
    for (let i = 0; i < 20; i++) matcher.match(`(?:${SLOW}){${i + 1}}`, 0);
    matcher.match('a*1', 0);
    matcher.match('[', 0);
    await until(/^matched a\*1: 1$/);
    await until(/^failed \[/);
    // There is an hour's work left.
    expect(events.filter((event) => event.startsWith('matched')).length).toBeLessThan(20);
  });

  it('drops what nobody asks for any more', async () => {
    matcher.add(NAMES);
    matcher.match(SLOW, 0);
    await until(/^compiled/);
    matcher.forget(SLOW);
    matcher.reset();
    matcher.add(['x']);
    matcher.match('x', 0);
    await until(/^matched x: 0$/);
    expect(events).toHaveLength(3);
  });

  it('can be closed at work, and never having worked', async () => {
    matcher.add(NAMES);
    matcher.match(SLOW, 0);
    await until(/^compiled/);
    await matcher.close();
    matcher.match('x', 0);
    expect(events).toHaveLength(1);
  });
});

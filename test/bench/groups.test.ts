/** The suites about groups, starts and the cleaner at the smallest scale, against a second broker of our own: that they run and measure. */
import { describe, expect, test } from 'vitest';
import { idleConsumers } from '../../bench/groups/idle.ts';
import { groupLoads } from '../../bench/groups/load.ts';
import { groupRestarts } from '../../bench/groups/rolling.ts';
import { cleanings } from '../../bench/log/cleaner.ts';
import { recoveries } from '../../bench/start/recovery.ts';
import { starts } from '../../bench/start/start.ts';
import type { Comparison } from '../../bench/support.ts';

const SCALE = { rounds: 1, seconds: 0.1, bytes: 1 << 20, members: 2 };

describe('benchmarks beside a second broker', () => {
  test.each([
    ['groups', groupRestarts, 6],
    ['idle', idleConsumers, 3],
    ['load', groupLoads, 2],
    ['start', starts, 12],
    ['recovery', recoveries, 8],
    ['cleaner', cleanings, 12],
  ] as const)('%s measures', async (_, suite, results) => {
    const comparisons: Comparison[] = await suite(SCALE, 'broadsheet');
    expect(comparisons).toHaveLength(results);
    for (const { ours, theirs, ratio } of comparisons) {
      for (const number of [ours, theirs, ratio.median]) expect(number).toBeGreaterThan(0);
    }
  });
});

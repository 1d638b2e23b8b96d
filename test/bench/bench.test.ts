/** The benchmarks at the smallest scale: that they run and measure, not what they measure. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test, vi } from 'vitest';
import { bench } from '../../bench/suites.ts';
import type { Comparison } from '../../bench/support.ts';

const dir = mkdtempSync(join(tmpdir(), 'broadsheet-bench-test-'));
afterAll(() => rmSync(dir, { recursive: true }));

const SCALE = ['--rounds', '1', '--seconds', '0.02', '--mebibytes', '8'];

async function run(...args: string[]): Promise<{ code: number; lines: string[] }> {
  const lines: string[] = [];
  const code = await bench(args, (text) => lines.push(text));
  return { code, lines };
}

describe('benchmarks', () => {
  test.each(['append', 'parts', 'requests', 'fetch', 'broker', 'sessions'])(
    '%s measures and tells',
    async (suite) => {
      const out = join(dir, `${suite}.json`);
      const { code, lines } = await run(suite, ...SCALE, '--out', out);
      expect(code).toBe(0);
      const results = JSON.parse(readFileSync(out, 'utf8')) as (Comparison & { suite: string })[];
      expect(JSON.parse(lines.at(-1)!)).toEqual(results);
      expect(lines.length).toBe(results.length + 1);
      expect(results.length).toBeGreaterThanOrEqual(suite === 'sessions' ? 2 : 4);
      for (const result of results) {
        expect(result.suite).toBe(suite);
        for (const number of [result.ours, result.theirs, result.ratio.median])
          expect(number).toBeGreaterThan(0);
      }
    },
  );

  test('durability has each mode beside the default', async () => {
    vi.stubEnv('BROADSHEET_KAFKA', undefined);
    const { code, lines } = await run('durability', ...SCALE);
    vi.unstubAllEnvs();
    expect(code).toBe(0);
    const results = JSON.parse(lines.at(-1)!) as Comparison[];
    for (const mode of ['flush.messages=1', 'in memory'])
      expect(results.filter(({ name }) => name.includes(mode)).length).toBeGreaterThanOrEqual(2);
    for (const { ours, theirs } of results) expect(Math.min(ours, theirs)).toBeGreaterThan(0);
  });

  test.each([
    [['no-such-suite'], 'no suite no-such-suite'],
    [['--rounds', '0'], '--rounds 0'],
    [['--seconds', 'long'], '--seconds long'],
    [['--mebibytes', '12'], '--mebibytes 12'],
    [['--fast'], '--fast'],
  ])('%j is answered with the usage', async (args, complaint) => {
    const { code, lines } = await run(...args);
    expect(code).toBe(2);
    expect(lines.join('\n')).toContain(complaint);
    expect(lines.join('\n')).toContain('usage: npm run bench');
  });
});

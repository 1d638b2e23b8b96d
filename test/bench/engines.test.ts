/** The comparison of engines at the smallest scale: that it runs, measures and reports, not what it measures. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { FULL } from '../../bench/engines/engines.ts';
import { benchEngines } from '../../bench/engines/run.ts';
import { SIDES } from '../../bench/engines/sides.ts';

const dir = mkdtempSync(join(tmpdir(), 'broadsheet-engines-test-'));
afterAll(() => rmSync(dir, { recursive: true }));

test('all engines are measured side by side, and told of as a table, JSON and a chart', async () => {
  const lines: string[] = [];
  const out = join(dir, 'engines');
  const scale = {
    ...FULL,
    rounds: 1,
    seconds: 0.05,
    batchBytes: [64 * 1024],
    connections: { produce: [1], fetch: [2] },
    storedBytes: 1 << 20,
  };
  const rows = await benchEngines(['--out', out], (text) => lines.push(text), scale);
  // Loopback, and the namespaces where they can be had.
  const networks = new Set(rows.map(({ network }) => network));
  expect(rows.length).toBe(networks.size * 2 * SIDES.length);
  expect(JSON.parse(readFileSync(`${out}.json`, 'utf8'))).toEqual(rows);
  expect(readFileSync(`${out}.svg`, 'utf8')).toMatch(/^<svg.*fetch, loopback.*<\/svg>/s);
  expect(lines.length).toBe(1 + rows.length + (networks.size === 1 ? 1 : 0));
  for (const row of rows) {
    for (const number of [row.mebibytesPerSecond, row.cpuSecondsPerGibibyte, row.p50, ...row.toBare])
      expect(number).toBeGreaterThan(0);
    expect(row.p999).toBeGreaterThanOrEqual(row.p50);
  }
  const path = (side: string) =>
    rows.find((row) => row.side === side && row.what === 'fetch' && row.batchBytes === 64 * 1024)!;
  expect(path('native sendfile').bySendfile).toBeGreaterThan(0.9);
  expect(path('native copy').byCopy).toBeGreaterThan(0.9);
  expect(path('JS engine').byCopy).toBeGreaterThan(0.9);
});

/** createLogger: pino's lines on stderr, and pino loaded for the first of them. */
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';

const root = fileURLToPath(new URL('../..', import.meta.url));

const SCRIPT = `
  import { createRequire } from 'node:module';
  import { createLogger } from './src/runtime/logging.ts';
  const { cache } = createRequire(import.meta.url);
  const loaded = () => Object.keys(cache).some((path) => path.includes('/node_modules/pino/'));
  const logger = createLogger('warn');
  const child = logger.child({ part: 'log' }).child({ topic: 't' });
  logger.info({}, 'below the level');
  console.log('before', loaded());
  child.warn({ offset: 7 }, 'of a child');
  console.log('after', loaded());
  child.level = 'debug';
  child.debug({}, 'lowered');
  logger.debug({}, 'of the parent, which keeps its level');
  child.level = 'error';
  child.warn({}, 'raised');
  logger.child({}).error({}, 'again');
`;

it('loads pino for the first line that is written, and writes what pino does', () => {
  const args = ['--import', './scripts/typescript.js', '--input-type=module', '--eval', SCRIPT];
  const { stdout, stderr } = spawnSync(process.execPath, args, { cwd: root, encoding: 'utf8' });
  expect(stdout).toBe('before false\nafter true\n');
  const lines = stderr
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Record<string, unknown>);
  for (const line of lines) expect(line.time).toMatch(/^\d{4}-\d\d-\d\dT.*Z$/);
  expect(lines.map(({ time: _, ...rest }) => rest)).toEqual([
    { level: 40, part: 'log', topic: 't', offset: 7, msg: 'of a child' },
    { level: 20, part: 'log', topic: 't', msg: 'lowered' },
    { level: 50, msg: 'again' },
  ]);
});

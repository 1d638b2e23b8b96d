/** The package without any script run, on each Node major, compiled from its sources, and on Bun. The runtimes are packages of
 * npm. docs/DEPENDENCIES.md says what else it was run on. */
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { HAS_PREBUILT, install, pack, root, run, serving } from '../support/packed.ts';

const NODES = ['20.20.2', '22.23.3', '24.21.0', '26.10.0'];
const BUN = '1.4.5';
const RECORDS = 2000;

let scratch = '';
let tarball = '';

const installed = (project: string) => join(scratch, project, 'node_modules/broadsheet');

beforeAll(async () => {
  scratch = mkdtempSync(join(tmpdir(), 'broadsheet-matrix-'));
  tarball = await pack(scratch);
  await install(join(scratch, 'project'), [tarball], ['--ignore-scripts']);
});

afterAll(() => rmSync(scratch, { recursive: true, force: true }));

/** Produces and consumes by the command line under `runtime`, against a broker under it. */
async function roundTrip(runtime: string, project: string, engine: string): Promise<void> {
  const cli = join(installed(project), 'dist/cli.js');
  const data = mkdtempSync(join(scratch, 'data-'));
  const start = ['start', '--engine', engine, '--data', data, '--host', '127.0.0.1', '--port', '0'];
  const expected = Array.from({ length: RECORDS }, (_, n) => `record ${n}\n`).join('');
  await serving([runtime, cli, ...start], scratch, async (address) => {
    const command = async (text: string, input = '') => {
      const running = run(runtime, [cli, ...text.split(' '), '-b', address], { maxBuffer: 1 << 24 });
      running.child.stdin!.end(input);
      return (await running).stdout;
    };
    await command('produce matrix', expected);
    expect(await command('consume matrix')).toBe(expected);
  });
}

const BINARY = HAS_PREBUILT ? 'the prebuilt binary' : 'the binary that was compiled here';

describe(`without any script run, engine=native, ${BINARY}`, () => {
  it.each(NODES)('takes records and gives them back on Node %s', async (version) => {
    await install(join(scratch, `node-${version}`), [`node@${version}`]);
    const node = join(scratch, `node-${version}`, 'node_modules/node/bin/node');
    expect((await run(node, ['--version'])).stdout).toBe(`v${version}\n`);
    await roundTrip(node, 'project', 'native');
  });
});

it('compiles from its sources where it has no binary', async () => {
  await install(join(scratch, 'source'), [tarball], ['--ignore-scripts']);
  rmSync(join(installed('source'), 'prebuilds'), { recursive: true });
  const env = { ...process.env, npm_config_node_gyp: `${root}node_modules/node-gyp/bin/node-gyp.js` };
  await run(process.execPath, ['scripts/install.js'], { cwd: installed('source'), env, maxBuffer: 1 << 26 });
  expect(readdirSync(join(installed('source'), 'build/Release'))).toContain('broadsheet.node');
  await roundTrip(process.execPath, 'source', 'native');
});

describe(`on Bun ${BUN}`, () => {
  let bun = '';
  beforeAll(async () => {
    await install(join(scratch, 'bun'), [`bun@${BUN}`]);
    bun = join(scratch, 'bun/node_modules/.bin/bun');
  });

  it('the JS engine takes records and gives them back', async () => {
    await roundTrip(bun, 'project', 'js');
  });

  it('engine=native is refused with the reason', async () => {
    const cli = join(installed('project'), 'dist/cli.js');
    const args = [cli, 'start', '--engine', 'native', '--data', join(scratch, 'refused'), '--port', '0'];
    const failed = await run(bun, args).then(
      () => undefined,
      (error: { code: number; stderr: string }) => error,
    );
    expect(failed?.code).toBe(1);
    expect(failed?.stderr).toContain('Bun lacks the libuv functions that it needs');
  });
});

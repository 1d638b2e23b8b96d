/** The package as users have it: packed, installed into empty projects without any script, run, embedded, compiled against. */
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { install, pack, root, run, serving } from '../support/packed.ts';

let scratch = '';
let project = '';

const file = (name: string, text: string) => writeFileSync(join(project, name), text);

beforeAll(async () => {
  scratch = mkdtempSync(join(tmpdir(), 'broadsheet-tarball-'));
  project = join(scratch, 'project');
  await install(project, [await pack(scratch)], ['--ignore-scripts']);
});

afterAll(() => rmSync(scratch, { recursive: true, force: true }));

const EMBED = `
  const broker = await createBroker({ dataDir: 'data-' + process.argv[2], port: 0, host: '127.0.0.1' });
  console.log(/^127\\.0\\.0\\.1:\\d+$/.test(broker.bootstrapServers));
  await broker.close();
`;

describe('the installed package', () => {
  it('compiled nothing, and its own install script would not either', async () => {
    const installed = join(project, 'node_modules/broadsheet');
    const { stdout, stderr } = await run(process.execPath, ['scripts/install.js'], {
      cwd: installed,
      env: { ...process.env, PATH: '/nonexistent' },
    });
    expect(stdout + stderr).toBe('');
    expect(readdirSync(installed)).not.toContain('build');
  });

  it('embeds by require and by import', async () => {
    file('embed.cjs', `const { createBroker } = require('broadsheet');\n(async () => {${EMBED}})();`);
    file('embed.mjs', `import { createBroker } from 'broadsheet';\n${EMBED}`);
    for (const name of ['embed.cjs', 'embed.mjs']) {
      const { stdout } = await run(process.execPath, [name, name], { cwd: project });
      expect({ [name]: stdout }).toEqual({ [name]: 'true\n' });
    }
  });

  it('embeds as README prints it', async () => {
    const readme = readFileSync(`${root}README.md`, 'utf8');
    file('readme.mjs', /## Embed\n+```js\n(.*?)```/s.exec(readme)![1]!);
    expect((await run(process.execPath, ['readme.mjs'], { cwd: project })).stdout).toMatch(/^\S+:\d+\n$/);
  });

  it('starts by npx, takes records and gives them back', async () => {
    const start = [
      'npx',
      'broadsheet',
      'start',
      '--data',
      'data',
      '--host',
      '127.0.0.1',
      '--port',
      '0',
    ] as const;
    await serving(start, project, async (address) => {
      const command = (text: string) => run('sh', ['-c', `${text} -b ${address}`], { cwd: project });
      await command('printf "a\\nb\\n" | npx broadsheet produce greetings');
      expect((await command('npx broadsheet consume greetings')).stdout).toBe('a\nb\n');
    });
  });

  it('compiles under TypeScript, strictly, with each way to resolve modules', async () => {
    mkdirSync(join(project, 'ts'));
    const source = `import { BroadsheetError, type Broker, type CreateBrokerOptions, createBroker, createLogger, type Logger } from 'broadsheet';
const logger: Logger = createLogger('silent');
const options: CreateBrokerOptions = { dataDir: 'x', port: 0, config: { 'num.partitions': '3' }, logger };
export async function main(): Promise<string> {
  const broker: Broker = await createBroker(options);
  try {
    return broker.listeners.map(({ host, port }) => \`\${host}:\${port}\`).join();
  } catch (error) {
    return error instanceof BroadsheetError && error.code === 'LOCKED' ? 'locked' : '';
  } finally {
    await broker.close();
  }
}
`;
    for (const name of ['main.ts', 'main.mts', 'main.cts']) file(`ts/${name}`, source);
    file('ts/wrong.mts', "import { createBroker } from 'broadsheet';\ncreateBroker({ port: 'nine' });\n");
    const compile = (module: string, moduleResolution: string, files: string[]) =>
      run(
        process.execPath,
        [
          `${root}node_modules/typescript/bin/tsc`,
          ...['--noEmit', '--strict', '--target', 'es2022', '--types', ''],
          ...[
            '--module',
            module,
            '--moduleResolution',
            moduleResolution,
            ...files.map((name) => `ts/${name}`),
          ],
        ],
        { cwd: project },
      ).then(
        () => '',
        (error) => String(error.stdout || error),
      );
    const all = ['main.ts', 'main.mts', 'main.cts'];
    expect(await compile('nodenext', 'nodenext', all)).toBe('');
    expect(await compile('node16', 'node16', all)).toBe('');
    expect(await compile('esnext', 'bundler', ['main.ts'])).toBe('');
    expect(await compile('nodenext', 'nodenext', ['wrong.mts'])).toContain('TS2322');
  });
});

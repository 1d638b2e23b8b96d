/** What `npm pack` puts into the package: all that is needed, and nothing else. */
import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';

const root = fileURLToPath(new URL('../..', import.meta.url));
const PREBUILDS = ['linux-arm64', 'linux-x64'].flatMap((platform) =>
  ['glibc', 'musl'].map((libc) => `prebuilds/${platform}/broadsheet.${libc}.node`),
);

const under = (folder: string) =>
  readdirSync(root + folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => `${entry.parentPath}/${entry.name}`.slice(root.length).replace(/^\//, ''));

const packed = (): string[] => {
  const text = execFileSync('npm', ['pack', '--dry-run', '--json', '--ignore-scripts'], { cwd: root });
  const [{ files }] = JSON.parse(text.toString()) as [{ files: { path: string }[] }];
  return files.map(({ path }) => path).sort();
};

describe('the package', () => {
  it('holds exactly the code, its types, the sources and binaries of the addon, and what installs it', () => {
    const expected = [
      'LICENSE',
      'README.md',
      'binding.gyp',
      'package.json',
      'scripts/install.js',
      ...under('dist'),
      ...under('native').filter((path) => /\.(cc|h)$/.test(path)),
      // A release has all four: scripts/prebuild-checks.js, before `npm publish`.
      ...PREBUILDS.filter((path) => existsSync(root + path)),
    ];
    expect(packed()).toEqual(expected.sort());
  });

  it('has of dist the entries, their types and the code they share', () => {
    const files = under('dist').map((path) => path.slice('dist/'.length));
    const types = [
      'broker/engine-names',
      'index',
      'log/compaction',
      'log/copy-report',
      'runtime/errors',
      'runtime/logging',
    ].flatMap((name) => [`${name}.d.mts`, `${name}.d.ts`]);
    expect(files.filter((path) => !path.endsWith('.js')).sort()).toEqual(
      [...types, 'LICENSES.txt', 'index.mjs', 'package.json'].sort(),
    );
    expect(files).toEqual(
      expect.arrayContaining(['cleaner-worker.js', 'cli.js', 'index.js', 'load.js', 'pattern-worker.js']),
    );
    // The addon and the worker are found from where the code lies: all of it in one folder.
    expect(files.filter((path) => path.endsWith('.js') && path.includes('/'))).toEqual([]);
  });

  it('names entries that are there, for import and for require, with types', () => {
    const { bin, exports, main, types } = JSON.parse(readFileSync(`${root}package.json`, 'utf8'));
    const paths = (value: unknown): string[] =>
      typeof value === 'string' ? [value] : Object.values(value as object).flatMap(paths);
    const named = [bin.broadsheet, main, types, ...paths(exports)];
    expect(named.filter((path) => !existsSync(root + path))).toEqual([]);
    expect(exports['.'].import).toEqual({ types: './dist/index.d.mts', default: './dist/index.mjs' });
    expect(exports['.'].require).toEqual({ types: types, default: main });
  });

  it('is one copy of the code, imported or required', () => {
    const script = `
      const required = require('broadsheet');
      import('broadsheet').then((imported) => {
        const names = Object.keys(required).sort();
        const same = names.every((name) => imported[name] === required[name]);
        console.log(JSON.stringify({ names, same, imported: Object.keys(imported).sort() }));
      });`;
    const text = execFileSync(process.execPath, ['--input-type=commonjs', '-e', script], { cwd: root });
    const names = ['BroadsheetError', 'createBroker', 'createLogger'];
    expect(JSON.parse(text.toString())).toEqual({ names, same: true, imported: names });
  });
});

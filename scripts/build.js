// Makes dist/, what the package runs. All code is bundled into CommonJS, so that a start reads few files and `require` and
// `import` share one copy of it: dist/index.mjs only names what dist/index.js exports. Types come from tsc.
import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { rolldown } from 'rolldown';

const root = fileURLToPath(new URL('..', import.meta.url));
const dist = join(root, 'dist');
const types = join(root, '.cache/types');

/** Bundles; returns the names that the library exports. */
async function bundle() {
  const { dependencies } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  const build = await rolldown({
    input: {
      index: 'src/index.ts',
      cli: 'src/cli.ts',
      'pattern-worker': 'src/group/pattern-worker.ts',
      'cleaner-worker': 'src/log/cleaner-worker.ts',
    },
    cwd: root,
    platform: 'node',
    external: (id) =>
      id.startsWith('node:') ||
      Object.keys(dependencies).some((name) => id === name || id.startsWith(`${name}/`)),
    onLog(level, log) {
      if (level === 'warn') throw new Error(log.message);
    },
  });
  // One level: files of the package are found from where the code lies.
  const { output } = await build.write({
    dir: dist,
    format: 'cjs',
    entryFileNames: '[name].js',
    chunkFileNames: '[name].js',
    comments: false,
  });
  await build.close();
  return output.find(({ name, isEntry }) => isEntry && name === 'index').exports;
}

/** The declarations that index.ts reaches, for CommonJS and for ES modules. */
function declare() {
  rmSync(types, { recursive: true, force: true });
  const tsc = join(root, 'node_modules/typescript/bin/tsc');
  const { status } = spawnSync(process.execPath, [tsc, '-p', 'tsconfig.build.json'], {
    cwd: root,
    stdio: 'inherit',
  });
  if (status !== 0) process.exit(1);
  const reached = new Set([join(types, 'index.d.ts')]);
  for (const path of reached) {
    const text = readFileSync(path, 'utf8');
    const specifiers = /(from '|import\(['"])(\.[^'"]+)\.ts(?=['"])/g;
    for (const [, , imported] of text.matchAll(specifiers))
      reached.add(join(dirname(path), `${imported}.d.ts`));
    const target = join(dist, relative(types, path));
    mkdirSync(dirname(target), { recursive: true });
    writeFileSync(target, text.replace(specifiers, '$1$2.js'));
    writeFileSync(target.replace(/ts$/, 'mts'), text.replace(specifiers, '$1$2.mjs'));
  }
}

rmSync(dist, { recursive: true, force: true });
const exported = await bundle();
writeFileSync(join(dist, 'package.json'), '{ "type": "commonjs" }\n');
writeFileSync(
  join(dist, 'index.mjs'),
  `import broadsheet from './index.js';\n\nexport const { ${exported.sort().join(', ')} } = broadsheet;\n`,
);
declare();

// Makes dist/, what the package runs. All code is one CommonJS file that src/load.ts loads, so that a start reads few files, V8 can
// keep what it compiled of it, and `require` and `import` share one copy: dist/index.mjs only names what dist/index.js exports.
// Types come from tsc.
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { rolldown } from 'rolldown';

const root = fileURLToPath(new URL('..', import.meta.url));
const dist = join(root, 'dist');
const types = join(root, '.cache/types');

/** What src/main.ts exports for the loader, beside the library. */
const LOADERS = ['keepCompiledCodeBy', 'runCommand'];

/** What `input` reaches, in one file; packages of `external` are required where they are used. */
async function bundle(input, external) {
  const build = await rolldown({
    input: join(root, input),
    cwd: root,
    platform: 'node',
    external: (id) =>
      id.startsWith('node:') || external.some((name) => id === name || id.startsWith(`${name}/`)),
    onLog(level, log) {
      if (level === 'warn') throw new Error(log.message);
    },
  });
  const { output } = await build.generate({
    format: 'cjs',
    comments: false,
    codeSplitting: false,
    // The loader's script knows `require` only.
    dynamicImportInCjs: false,
  });
  await build.close();
  const [{ code, exports, moduleIds }] = output;
  // A character above U+00FF would double the memory that V8 needs for the code.
  const ascii = code.replace(/[^\0-\x7f]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`);
  return { code: ascii, exports: exports.sort(), moduleIds };
}

/** The licences of the packages that are bundled, which ask to go with each copy. */
function licences(moduleIds) {
  const packages = new Set();
  for (const id of moduleIds) {
    const inside = /^.*\/node_modules\/(?:@[^/]+\/)?[^/]+\//.exec(id);
    if (inside !== null) packages.add(inside[0]);
  }
  const texts = [...packages].sort().map((folder) => {
    const { name, version } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
    const file = readdirSync(folder).find((each) => /^licen[cs]e/i.test(each));
    if (file === undefined) throw new Error(`${name} has no licence`);
    return `${name} ${version}\n\n${readFileSync(join(folder, file), 'utf8').trim()}\n`;
  });
  return `Packages that are part of dist/main-*.js.\n\n${texts.join('\n---\n\n')}`;
}

async function writeCode() {
  const { dependencies } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  const external = Object.keys(dependencies);
  const write = (name, text) => writeFileSync(join(dist, name), text);
  mkdirSync(dist, { recursive: true });
  write('package.json', '{ "type": "commonjs" }\n');
  // One level: files of the package are found from where the code lies.
  for (const [name, input] of [
    ['load', 'src/load.ts'],
    ['pattern-worker', 'src/group/pattern-worker.ts'],
    ['cleaner-worker', 'src/log/cleaner-worker.ts'],
  ]) {
    write(`${name}.js`, (await bundle(input, external)).code);
  }
  const main = await bundle('src/main.ts', external);
  const library = main.exports.filter((name) => !LOADERS.includes(name)).join(', ');
  const file = `main-${createHash('sha256').update(main.code).digest('hex').slice(0, 16)}.js`;
  write(file, main.code);
  write('LICENSES.txt', licences(main.moduleIds));
  write(
    'index.js',
    `const { ${library} } = require('./load.js').load('${file}', 'library');\n\nmodule.exports = { ${library} };\n`,
  );
  write('index.mjs', `import broadsheet from './index.js';\n\nexport const { ${library} } = broadsheet;\n`);
  const kind = `process.argv[2] === 'start' ? 'start' : 'command'`;
  write('cli.js', `#!/usr/bin/env node\nrequire('./load.js').load('${file}', ${kind}).runCommand();\n`);
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
rmSync(join(root, '.cache/code'), { recursive: true, force: true });
await writeCode();
declare();

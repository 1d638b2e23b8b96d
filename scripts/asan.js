// `node scripts/asan.js build`: compiles the addon with AddressSanitizer and UndefinedBehaviorSanitizer into build-asan/,
// beside the ordinary build. `node scripts/asan.js test [FILTER...]`: first checks that they see planted errors, then runs
// the native and log suites on that addon.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, symlinkSync } from 'node:fs';
import { createRequire } from 'node:module';
import { fileURLToPath, pathToFileURL } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const folder = `${root}build-asan`;
const addon = `${folder}/build/Release/broadsheet.node`;

function run(command, args, options = {}) {
  return spawnSync(command, args, { cwd: root, stdio: 'inherit', ...options });
}

function build() {
  // A tree of links, since node-gyp builds in the folder of binding.gyp only.
  mkdirSync(folder, { recursive: true });
  for (const name of ['binding.gyp', 'native', 'node_modules', 'package.json']) {
    if (!existsSync(`${folder}/${name}`)) symlinkSync(`../${name}`, `${folder}/${name}`);
  }
  const gyp = createRequire(import.meta.url).resolve('node-gyp/bin/node-gyp.js');
  // Headers that lie beside this Node spare node-gyp its download; npm's own setting goes before.
  const prefix = fileURLToPath(new URL('..', pathToFileURL(process.execPath)));
  const env = { ...process.env };
  if (existsSync(`${prefix}include/node/node_api.h`)) env.npm_config_nodedir ??= prefix;
  const configure = [gyp, 'configure', '-C', folder, '--', '-Dsanitize=address,undefined'];
  const status = run(process.execPath, configure, { env }).status ?? 1;
  return status !== 0 ? status : (run(process.execPath, [gyp, 'build', '-C', folder], { env }).status ?? 1);
}

/** Node itself is built without sanitizers, so their runtimes have to be loaded before it. */
function environment() {
  const runtime = (name) => {
    const found = spawnSync('gcc', [`-print-file-name=${name}`], { encoding: 'utf8' }).stdout?.trim();
    if (!found?.startsWith('/')) throw new Error(`gcc has no ${name}`);
    return found;
  };
  return {
    ...process.env,
    BROADSHEET_ADDON: addon,
    LD_PRELOAD: `${runtime('libasan.so')} ${runtime('libubsan.so')}`,
    // Leaks: Node frees little at its exit, so none can be told from its own.
    ASAN_OPTIONS: 'detect_leaks=0:abort_on_error=0:exitcode=99',
    UBSAN_OPTIONS: 'print_stacktrace=1:halt_on_error=1:exitcode=99',
  };
}

/** Each planted error must end the process with the sanitizer's report; the same call with a good number must not. */
function canariesAreSeen(env) {
  for (const [kind, bad, report] of [
    ['address', 10_000, 'heap-buffer-overflow'],
    ['undefined', 2 ** 31 - 1, 'signed integer overflow'],
  ]) {
    const script = (number) => `require(process.env.BROADSHEET_ADDON).testing.canary('${kind}', ${number})`;
    const options = { env, encoding: 'utf8', stdio: 'pipe' };
    const caught = run(process.execPath, ['-e', script(bad)], options);
    if (caught.status === 0 || !caught.stderr.includes(report)) {
      console.error(`the sanitizers miss a planted error: ${report}\n${caught.stderr}`);
      return false;
    }
  }
  const fine = run(
    process.execPath,
    ['-e', `require(process.env.BROADSHEET_ADDON).testing.canary('undefined', 1)`],
    {
      env,
    },
  );
  if (fine.status !== 0) return false;
  console.log('the sanitizers see planted errors');
  return true;
}

function test(filters) {
  if (!existsSync(addon)) {
    const status = build();
    if (status !== 0) return status;
  }
  const env = environment();
  if (!canariesAreSeen(env)) return 1;
  const vitest = fileURLToPath(new URL('../node_modules/vitest/vitest.mjs', import.meta.url));
  const args = ['run', '--project', 'unit', ...(filters.length > 0 ? filters : ['test/native', 'test/log'])];
  return run(process.execPath, [vitest, ...args], { env }).status ?? 1;
}

const [command, ...rest] = process.argv.slice(2);
if (command !== 'build' && command !== 'test') {
  console.error('usage: node scripts/asan.js build | test [FILTER...]');
  process.exit(2);
}
process.exit(command === 'build' ? build() : test(rest));

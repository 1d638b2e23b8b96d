// Builds the binaries that the package carries: `npm run build:prebuilds [-- TARGET...]`, without arguments all of them.
//
// prebuildify compiles, zig (a package of PyPI, put into .cache/zig) is the compiler and brings the C libraries of all
// targets: the C++ library is linked in, and glibc's symbols are those of 2.28. Needs python3 and the headers that came
// with the running Node (or npm_config_nodedir). Each binary is checked as it is made: see prebuild-checks.js.
import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { GLIBC_FLOOR, PREBUILTS, problemsOf } from './prebuild-checks.js';

const ZIG = 'ziglang==0.17.1';
const root = fileURLToPath(new URL('..', import.meta.url));

function run(command, args, options = {}) {
  const { status, error } = spawnSync(command, args, { stdio: 'inherit', ...options });
  if (status !== 0)
    throw new Error(`${command} ${args.join(' ')}: ${error?.message ?? `exit code ${status}`}`);
}

/** The path of zig's driver in a virtual environment of its own. */
function zig() {
  const venv = join(root, '.cache/zig');
  const python = join(venv, 'bin/python');
  if (!existsSync(python)) run('python3', ['-m', 'venv', venv]);
  run(python, ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', ZIG]);
  const { stdout } = spawnSync(python, ['-c', 'import ziglang; print(ziglang.__path__[0])'], {
    encoding: 'utf8',
  });
  return join(stdout.trim(), 'zig');
}

/** A directory with what prebuildify needs: it works in build/, which in a checkout holds the developer's own. */
function stage() {
  const directory = mkdtempSync(join(tmpdir(), 'broadsheet-prebuild-'));
  for (const name of ['native', 'binding.gyp', 'package.json'])
    cpSync(join(root, name), join(directory, name), { recursive: true });
  symlinkSync(join(root, 'node_modules'), join(directory, 'node_modules'));
  return directory;
}

function build(compiler, { name, arch, libc, triple }) {
  const directory = stage();
  try {
    const wrapper = (driver) => {
      const path = join(directory, driver);
      writeFileSync(path, `#!/bin/sh\nexec "${compiler}" ${driver} -target ${triple} "$@"\n`);
      chmodSync(path, 0o755);
      return path;
    };
    const nodedir = process.env.npm_config_nodedir ?? dirname(dirname(process.execPath));
    run(
      process.execPath,
      [
        join(root, 'node_modules/prebuildify/bin.js'),
        '--napi',
        '--tag-libc',
        '--platform=linux',
        `--arch=${arch}`,
        `--out=${root}`,
      ],
      {
        cwd: directory,
        env: {
          ...process.env,
          CC: wrapper('cc'),
          CXX: wrapper('c++'),
          // -s: stripped. -z now: where a symbol is missing the binary does not load, instead of failing later.
          LDFLAGS: '-s -Wl,-z,now',
          npm_config_nodedir: nodedir,
          PREBUILD_LIBC: libc,
          JOBS: process.env.JOBS ?? 'max',
        },
      },
    );
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
  const problems = problemsOf(root, name);
  if (problems.length > 0) throw new Error(`${name}: ${problems.join('; ')}`);
  console.log(`${name}: fits glibc ${GLIBC_FLOOR} or musl, carries its C++ library`);
}

const wanted = process.argv.slice(2);
const targets = PREBUILTS.filter(({ name }) => wanted.length === 0 || wanted.includes(name));
if (targets.length < Math.max(wanted.length, 1)) {
  console.error(
    `usage: npm run build:prebuilds [-- TARGET...]\ntargets: ${PREBUILTS.map(({ name }) => name).join(', ')}`,
  );
  process.exit(2);
}
mkdirSync(join(root, 'prebuilds'), { recursive: true });
const compiler = zig();
for (const target of targets) build(compiler, target);

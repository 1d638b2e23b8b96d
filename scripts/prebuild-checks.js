// Which binaries the package carries, and what each must be. Run by itself it checks that all are there and fit; `npm
// publish` runs that first.
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { readElf } from './elf.js';

export const GLIBC_FLOOR = '2.28';

const X64 = 62;
const ARM64 = 183;

/** name is also the argument of prebuilds.js; triple is zig's. */
export const PREBUILTS = [
  {
    name: 'linux-x64-glibc',
    arch: 'x64',
    libc: 'glibc',
    machine: X64,
    triple: `x86_64-linux-gnu.${GLIBC_FLOOR}`,
  },
  { name: 'linux-x64-musl', arch: 'x64', libc: 'musl', machine: X64, triple: 'x86_64-linux-musl' },
  {
    name: 'linux-arm64-glibc',
    arch: 'arm64',
    libc: 'glibc',
    machine: ARM64,
    triple: `aarch64-linux-gnu.${GLIBC_FLOOR}`,
  },
  { name: 'linux-arm64-musl', arch: 'arm64', libc: 'musl', machine: ARM64, triple: 'aarch64-linux-musl' },
];

/** Where node-gyp-build looks for it, from the package's root. */
export function pathOf({ arch, libc }) {
  return `prebuilds/linux-${arch}/broadsheet.${libc}.node`;
}

function newer(version, floor) {
  const [a, b] = [version, floor].map((text) => text.split('.').map(Number));
  for (let i = 0; i < Math.max(a.length, b.length); i++) {
    const difference = (a[i] ?? 0) - (b[i] ?? 0);
    if (difference !== 0) return difference > 0;
  }
  return false;
}

/** What keeps a binary from running where it should; empty if nothing does. */
export function problemsOf(root, name) {
  const target = PREBUILTS.find((candidate) => candidate.name === name);
  const path = join(root, pathOf(target));
  if (!existsSync(path)) return [`${pathOf(target)} is missing`];
  return problemsIn(readElf(readFileSync(path)), target);
}

/** The same of what readElf gave. */
export function problemsIn({ machine, needed, versions, bindNow }, target) {
  const problems = [];
  if (machine !== target.machine) problems.push(`is for machine ${machine}, not ${target.machine}`);
  for (const library of needed) {
    if (/stdc\+\+|libc\+\+|libgcc|libunwind/.test(library)) problems.push(`needs ${library}`);
    if (/musl|^libc\.so$/.test(library) !== (target.libc === 'musl') && /^(libc\.|ld-)/.test(library)) {
      problems.push(`needs ${library}, of another C library`);
    }
  }
  for (const version of versions) {
    const glibc = /^GLIBC_(\d[\d.]*)$/.exec(version)?.[1];
    if (glibc === undefined || target.libc === 'musl') problems.push(`needs ${version}`);
    else if (newer(glibc, GLIBC_FLOOR)) problems.push(`needs glibc ${glibc}, newer than ${GLIBC_FLOOR}`);
  }
  if (!bindNow) problems.push('binds symbols when they are used');
  return problems;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const root = fileURLToPath(new URL('..', import.meta.url));
  const problems = PREBUILTS.flatMap(({ name }) =>
    problemsOf(root, name).map((problem) => `${name}: ${problem}`),
  );
  for (const problem of problems) console.error(problem);
  if (problems.length > 0) {
    console.error('`npm run build:prebuilds` makes these binaries');
    process.exit(1);
  }
}

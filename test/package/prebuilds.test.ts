/** The binaries that the package carries: what scripts/prebuild-checks.js says of them, and that it would say more. */
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { binary, HAS_PREBUILT } from '../support/packed.ts';

interface Elf {
  machine: number;
  needed: string[];
  versions: string[];
  bindNow: boolean;
}
interface Target {
  name: string;
  libc: string;
  machine: number;
}
interface Checks {
  PREBUILTS: Target[];
  pathOf(target: Target): string;
  problemsIn(elf: Elf, target: Target): string[];
}

const root = fileURLToPath(new URL('../..', import.meta.url));
const { readElf } = (await import(`${root}scripts/elf.js`)) as { readElf(bytes: Uint8Array): Elf };
const { PREBUILTS, pathOf, problemsIn } = (await import(`${root}scripts/prebuild-checks.js`)) as Checks;

const glibc = PREBUILTS.find(({ name }) => name === 'linux-x64-glibc')!;
const musl = PREBUILTS.find(({ name }) => name === 'linux-x64-musl')!;
const good: Elf = {
  machine: glibc.machine,
  needed: ['libpthread.so.0', 'libc.so.6', 'ld-linux-x86-64.so.2'],
  versions: ['GLIBC_2.17', 'GLIBC_2.2.5', 'GLIBC_2.28'],
  bindNow: true,
};

describe('a binary of the package', () => {
  it('may need glibc 2.28 and no newer one', () => {
    expect(problemsIn(good, glibc)).toEqual([]);
    expect(problemsIn({ ...good, versions: ['GLIBC_2.28', 'GLIBC_2.29'] }, glibc)).toEqual([
      'needs glibc 2.29, newer than 2.28',
    ]);
    expect(problemsIn({ ...good, versions: ['GLIBC_2.4', 'GLIBC_3'] }, glibc)).toHaveLength(1);
  });

  it('carries its C++ library', () => {
    for (const library of ['libstdc++.so.6', 'libgcc_s.so.1', 'libc++.so.1']) {
      expect(problemsIn({ ...good, needed: [...good.needed, library] }, glibc)).toEqual([`needs ${library}`]);
    }
    expect(problemsIn({ ...good, versions: [...good.versions, 'GLIBCXX_3.4'] }, glibc)).toHaveLength(1);
  });

  it('is of its machine and C library, and loads whole or not at all', () => {
    expect(problemsIn({ ...good, machine: musl.machine + 1 }, glibc)).toHaveLength(1);
    expect(problemsIn({ ...good, needed: ['libc.so'], versions: [] }, musl)).toEqual([]);
    expect(problemsIn({ ...good, needed: ['libc.so'], versions: [] }, glibc)).toHaveLength(1);
    expect(problemsIn(good, musl).length).toBeGreaterThan(0);
    expect(problemsIn({ ...good, bindNow: false }, glibc)).toHaveLength(1);
  });

  it('is what it must be where it has been built', () => {
    const built = PREBUILTS.filter((target) => existsSync(root + pathOf(target)));
    for (const target of built) {
      expect({ [target.name]: problemsIn(readElf(readFileSync(root + pathOf(target))), target) }).toEqual({
        [target.name]: [],
      });
    }
  });

  it.runIf(HAS_PREBUILT && process.arch === 'x64')('has the processor do checksums', () => {
    const script = `console.log(require('${root + binary}').crc32cBy(Buffer.from('123456789'), 0, 9, 'hardware'))`;
    expect(execFileSync(process.execPath, ['-e', script]).toString()).toBe(`${0xe3069283}\n`);
  });
});

describe('readElf', () => {
  it('reads the addon that was compiled here', () => {
    const elf = readElf(readFileSync(`${root}build/Release/broadsheet.node`));
    expect(elf.machine).toBe(process.arch === 'arm64' ? 183 : 62);
    expect(elf.needed.filter((name) => name.includes('libc.'))).toHaveLength(1);
    // The compiler's library is linked in, whatever the C library here.
    expect(elf.needed.filter((name) => name.includes('stdc++'))).toEqual([]);
  });

  it('reads what versions of symbols a program needs', () => {
    const { versions, needed } = readElf(readFileSync(process.execPath));
    if (needed.includes('libc.so.6')) expect(versions).toContain('GLIBC_2.17');
    else expect(versions).toEqual([]);
  });

  it('refuses other files', () => {
    expect(() => readElf(readFileSync(`${root}package.json`))).toThrow('ELF');
    expect(() => readElf(Buffer.alloc(3))).toThrow('ELF');
    expect(() => readElf(readFileSync(process.execPath).subarray(0, 200))).toThrow();
  });
});

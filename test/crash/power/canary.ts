/** A copy of the product with a fault planted in it, to see that power cuts find it. */
import { execFile } from 'node:child_process';
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { Outcome } from './rounds.ts';

const run = promisify(execFile);
const ROOT = fileURLToPath(new URL('../../..', import.meta.url));
const OBJECTS = join(ROOT, 'build/Release/obj.target/broadsheet/native');
const CFLAGS = ['-std=c++20', '-O1', '-fPIC', '-fno-exceptions', '-fno-rtti', '-fvisibility=hidden'];

/** A text in a source, and what stands there instead. */
export interface Edit {
  readonly file: string;
  readonly from: string;
  readonly to: string;
}

export class Canary {
  readonly #folder = mkdtempSync(join(tmpdir(), 'broadsheet-canary-'));
  #addon: string | undefined;

  /** Edits are of TypeScript and of C++: the addon is linked anew from the objects of the build. */
  static async make(edits: readonly Edit[]): Promise<Canary> {
    const canary = new Canary();
    try {
      await canary.#make(edits);
      return canary;
    } catch (error) {
      canary.remove();
      throw error;
    }
  }

  async #make(edits: readonly Edit[]): Promise<void> {
    const folder = this.#folder;
    for (const name of ['src', 'test', 'scripts', 'native'])
      cpSync(join(ROOT, name), join(folder, name), { recursive: true });
    for (const name of ['node_modules', 'package.json']) symlinkSync(join(ROOT, name), join(folder, name));
    for (const { file, from, to } of edits) {
      const path = join(folder, file);
      const text = readFileSync(path, 'utf8');
      if (text.split(from).length !== 2) throw new Error(`${file} does not have once: ${from}`);
      writeFileSync(
        path,
        text.replace(from, () => to),
      );
    }
    const changed = new Set(edits.map(({ file }) => file).filter((file) => file.endsWith('.cc')));
    if (changed.size > 0) this.#addon = await this.#link([...changed]);
  }

  async #link(changed: readonly string[]): Promise<string> {
    const folder = join(this.#folder, 'objects');
    mkdirSync(folder);
    const made = changed.map((file) => file.replace(/^native\/(.*)\.cc$/, '$1.o'));
    await Promise.all(
      changed.map((file, i) =>
        run('g++', [
          ...CFLAGS,
          '-D_FILE_OFFSET_BITS=64',
          '-c',
          join(this.#folder, file),
          '-o',
          join(folder, made[i]!),
        ]),
      ),
    );
    const kept = readdirSync(OBJECTS).filter((name) => name.endsWith('.o') && !made.includes(name));
    const objects = [...kept.map((name) => join(OBJECTS, name)), ...made.map((name) => join(folder, name))];
    const addon = join(folder, 'broadsheet.node');
    await run('g++', ['-shared', '-pthread', '-static-libstdc++', '-static-libgcc', '-o', addon, ...objects]);
    return addon;
  }

  /** Power cuts of a broker that is made of the copy. */
  async powerCuts(engine: string, seed: number, cuts: number): Promise<Outcome> {
    const { stdout } = await run(
      process.execPath,
      ['--import', './scripts/typescript.js', 'test/crash/power/main.ts', engine, `${seed}`, `${cuts}`],
      {
        cwd: this.#folder,
        env: { ...process.env, BROADSHEET_ADDON: this.#addon ?? join(ROOT, 'build/Release/broadsheet.node') },
      },
    );
    return JSON.parse(stdout.trim().split('\n').at(-1)!) as Outcome;
  }

  remove(): void {
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

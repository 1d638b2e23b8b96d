/**
 * Loads the package's code: one file, and what V8 compiled of it in an earlier process (its code cache), which takes a small part
 * of the time of compiling it again. Built as a file of its own, beside the code.
 *
 * The first process of a kind that gets as far as it wants to keeps what it compiled in `.cache` of the package. Whoever may write
 * there may write the code as well, so it is trusted like the code. Where the package can't be written to, each start compiles.
 */
import { createHash } from 'node:crypto';
import { readFileSync, statSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { runInThisContext, Script } from 'node:vm';
import type * as Main from './main.ts';

const DIGEST_BYTES = 32;
const digestOf = (bytes: Uint8Array): Buffer => createHash('sha256').update(bytes).digest();

/** What write() wrote; undefined where that can't be read, or is damaged: V8 trusts what it is given. */
function read(path: string): Buffer | undefined {
  try {
    const bytes = readFileSync(path);
    const body = bytes.subarray(DIGEST_BYTES);
    return digestOf(body).equals(bytes.subarray(0, DIGEST_BYTES)) ? body : undefined;
  } catch {
    return undefined;
  }
}

/** The digest of the bytes and the bytes; whole or not at all. */
async function write(folder: string, name: string, bytes: Uint8Array): Promise<void> {
  const { mkdir, open, rename, rm } = await import('node:fs/promises');
  await mkdir(folder, { recursive: true });
  const temporary = join(folder, `${name}.${process.pid}-${Math.random().toString(36).slice(2)}`);
  try {
    const file = await open(temporary, 'wx', 0o644);
    try {
      await file.writeFile(Buffer.concat([digestOf(bytes), bytes]));
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(temporary, join(folder, name));
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
}

/**
 * `file`: in the folder of this one, of ASCII only, its name says what is in it. `kind`: of processes, those of one kind use the same
 * functions.
 */
export function load(file: string, kind: 'library' | 'start' | 'command'): typeof Main {
  const here = fileURLToPath(new URL('.', import.meta.url));
  const path = join(here, file);
  const require = createRequire(path);
  // Test runners have contexts of their own, where code must be loaded by their `require`; Bun has no such cache.
  if (process.versions.bun !== undefined || runInThisContext('globalThis') !== globalThis)
    return require(path);
  const folder = join(here, '../.cache/code');
  // V8 looks at its version, its flags and the length of the code. The time is for those who change the code where it lies.
  const name = `${file}-${statSync(path).mtimeMs}-${kind}-${process.version}-${process.arch}`;
  const cachedData = read(join(folder, name));
  const code = `(function (exports, require, module, __filename, __dirname) {${readFileSync(path, 'latin1')}\n})`;
  const script = new Script(code, { filename: path, cachedData });
  const module = { exports: {} as typeof Main };
  script.runInThisContext().call(module.exports, module.exports, require, module, path, here);
  if (cachedData === undefined || script.cachedDataRejected === true) {
    module.exports.keepCompiledCodeBy(async () => {
      // No broker and no command fails for want of a cache.
      await Promise.resolve()
        .then(() => write(folder, name, script.createCachedData()))
        .catch(() => {});
    });
  }
  return module.exports;
}

import { statfs } from 'node:fs/promises';
import { addon, check, type Done, type FolderEntry, toError } from '../native.ts';
import { BroadsheetError } from '../runtime/errors.ts';
import type { Files } from './log.ts';

const DEFAULT_MAX_BYTES = 64 * 1024 * 1024;

/** Files over the addon. Calls on the same path run in the order in which they were made; others side by side, on up to
 * 16 threads. A folder and what lies in it are different paths: await the one before the other. */
export class NativeFiles implements Files {
  /** The last call on each path that has one in flight. */
  readonly #last = new Map<string, Promise<unknown>>();

  read(path: string, maxBytes = DEFAULT_MAX_BYTES): Promise<Buffer> {
    return this.#inOrder([path], (done: Done<Buffer>) => addon().readFile(path, maxBytes, done));
  }

  writeAtomic(path: string, data: Uint8Array | string): Promise<void> {
    const bytes = snapshot(data);
    return this.#inOrder([path], (done: Done<undefined>) => addon().writeAtomic(path, bytes, done));
  }

  createDurable(path: string, data: Uint8Array | string): Promise<void> {
    const bytes = snapshot(data);
    return this.#inOrder([path], (done: Done<undefined>) => addon().createDurable(path, bytes, done));
  }

  list(path: string): Promise<FolderEntry[]> {
    return this.#inOrder([path], (done: Done<FolderEntry[]>) => addon().listFolder(path, done));
  }

  exists(path: string): Promise<boolean> {
    return this.#inOrder([path], (done: Done<boolean>) => addon().pathExists(path, done));
  }

  mkdir(path: string): Promise<void> {
    return this.#inOrder([path], (done: Done<undefined>) => addon().makeFolder(path, done));
  }

  rename(from: string, to: string): Promise<void> {
    return this.#inOrder([from, to], (done: Done<undefined>) => addon().renamePath(from, to, done));
  }

  remove(path: string): Promise<void> {
    return this.#inOrder([path], (done: Done<undefined>) => addon().removeFile(path, done));
  }

  removeTree(path: string): Promise<void> {
    return this.#inOrder([path], (done: Done<undefined>) => addon().removeTree(path, done));
  }

  async space(path: string): Promise<{ totalBytes: number; usableBytes: number }> {
    try {
      const { bsize, blocks, bavail } = await statfs(path);
      return { totalBytes: bsize * blocks, usableBytes: bsize * bavail };
    } catch (error) {
      throw new BroadsheetError('IO', (error as Error).message, 0, { cause: error });
    }
  }

  async lock(path: string, content: string): Promise<{ release(): Promise<void> }> {
    const handle = await this.#inOrder([path], (done: Done<number>) => addon().lockFile(path, content, done));
    let held = true;
    return {
      release: async () => {
        if (held) check(addon().releaseLock(handle));
        held = false;
      },
    };
  }

  #inOrder<T>(paths: readonly string[], begin: (done: Done<T>) => number): Promise<T> {
    const before = paths.map((path) => this.#last.get(path)).filter((promise) => promise !== undefined);
    const mine = before.length === 0 ? call(begin) : Promise.allSettled(before).then(() => call(begin));
    for (const path of paths) this.#last.set(path, mine);
    const forget = () => {
      for (const path of paths) if (this.#last.get(path) === mine) this.#last.delete(path);
    };
    mine.then(forget, forget);
    return mine;
  }
}

/** The caller may reuse its bytes while the call waits for its turn. */
function snapshot(data: Uint8Array | string): Uint8Array | string {
  return typeof data === 'string' ? data : Uint8Array.from(data);
}

function call<T>(begin: (done: Done<T>) => number): Promise<T> {
  return new Promise((resolve, reject) => {
    check(
      begin((...outcome) => {
        if (outcome[0] !== undefined) reject(toError(outcome[0]));
        else resolve(outcome[1]);
      }),
    );
  });
}

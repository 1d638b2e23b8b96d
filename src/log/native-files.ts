import { addon, check, type Done, type FolderEntry, toError } from '../native.ts';
import { diskSpace } from './disk-space.ts';
import { FolderNames, parentOf } from './folder-names.ts';
import { refuseHeld } from './js-lock.ts';
import type { Files } from './log.ts';
import { PathOrder } from './path-order.ts';

const DEFAULT_MAX_BYTES = 64 * 1024 * 1024;

/** Files over the addon, in order by path, on up to 16 threads. */
export class NativeFiles implements Files {
  readonly #order = new PathOrder();
  readonly #names = new FolderNames({
    sync: (path) => call((done: Done<undefined>) => addon().syncFolder(path, done)),
    removeTree: (path) => call((done: Done<undefined>) => addon().removeTree(path, done)),
  });

  read(path: string, maxBytes = DEFAULT_MAX_BYTES): Promise<Buffer> {
    return this.#inOrder([path], (done: Done<Buffer>) => addon().readFile(path, maxBytes, done));
  }

  writeAtomic(path: string, data: Uint8Array | string): Promise<void> {
    const bytes = snapshot(data);
    return this.#inOrder([path], (done: Done<undefined>) => addon().writeAtomic(path, bytes, done));
  }

  createDurable(path: string, data: Uint8Array | string, empty = ''): Promise<void> {
    const bytes = snapshot(data);
    return this.#order.run([path], async () => {
      const made = await call((done: Done<boolean>) => addon().createInFolder(path, bytes, empty, done));
      if (made) await this.#names.sync(parentOf(path));
    });
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

  space(path: string): Promise<{ totalBytes: number; usableBytes: number }> {
    return diskSpace(path);
  }

  async lock(path: string, content: string): Promise<{ release(): Promise<void> }> {
    const handle = await this.#order.run([path], async () => {
      // The lock of a broker with the JS engine is one that the addon's does not meet.
      await refuseHeld(path);
      return call((done: Done<number>) => addon().lockFile(path, content, done));
    });
    let held = true;
    return {
      release: async () => {
        if (held) check(addon().releaseLock(handle));
        held = false;
      },
    };
  }

  #inOrder<T>(paths: readonly string[], begin: (done: Done<T>) => number): Promise<T> {
    return this.#order.run(paths, () => call(begin));
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

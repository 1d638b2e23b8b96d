/** Whole files over node:fs, durable as those of native/whole_files.cc, in order by path. */
import { constants } from 'node:os';
import { BroadsheetError } from '../runtime/errors.ts';
import { diskSpace } from './disk-space.ts';
import { FolderNames, parentOf } from './folder-names.ts';
import {
  type FolderEntry,
  listFolder,
  makeFolder,
  removeFile,
  removeFolder,
  renamePath,
  statPath,
  syncFolder,
  withFile,
} from './js-file.ts';
import { takeLock } from './js-lock.ts';
import type { Files } from './log.ts';
import { PathOrder } from './path-order.ts';

const DEFAULT_MAX_BYTES = 64 * 1024 * 1024;

export class JsFiles implements Files {
  readonly #order = new PathOrder();
  readonly #names = new FolderNames({ sync: syncFolder, removeTree: removeWithin });

  read(path: string, maxBytes = DEFAULT_MAX_BYTES): Promise<Buffer> {
    return this.#inOrder([path], () =>
      withFile(path, 'read', async (file) => {
        const size = await file.size();
        if (size > maxBytes) {
          throw new BroadsheetError('LIMIT', `read ${path}: it has ${size} bytes, more than ${maxBytes}`);
        }
        const bytes = Buffer.allocUnsafeSlow(size);
        return bytes.subarray(0, await file.read(bytes, 0, size, 0));
      }),
    );
  }

  writeAtomic(path: string, data: Uint8Array | string): Promise<void> {
    const bytes = Buffer.from(data);
    return this.#inOrder([path], async () => {
      const temporary = `${path}.tmp`;
      await withFile(temporary, 'create', async (file) => {
        try {
          await file.truncate(0);
          file.writeNow([bytes], 0);
          await file.fdatasync();
        } catch (error) {
          await ignore(removeFile(temporary));
          throw error;
        }
      });
      try {
        await renamePath(temporary, path);
      } catch (error) {
        await ignore(removeFile(temporary));
        throw error;
      }
      await syncFolder(parentOf(path));
    });
  }

  createDurable(path: string, data: Uint8Array | string, empty = ''): Promise<void> {
    const bytes = Buffer.from(data);
    return this.#inOrder([path], async () => {
      const folder = parentOf(path);
      const made = await makeOne(folder);
      let created = false;
      let emptied = false;
      try {
        await withFile(path, 'create-new', async (file) => {
          created = true;
          file.writeNow([bytes], 0);
          await file.fsync();
        });
        if (empty !== '') {
          await withFile(empty, 'create-new', async () => {
            emptied = true;
          });
        }
        await syncFolder(folder);
      } catch (error) {
        if (emptied) await ignore(removeFile(empty));
        if (created) await ignore(removeFile(path));
        if (made) await ignore(removeFolder(folder));
        throw error;
      }
      if (made) await this.#names.sync(folder);
    });
  }

  list(path: string): Promise<FolderEntry[]> {
    return this.#inOrder([path], () => listFolder(path));
  }

  exists(path: string): Promise<boolean> {
    return this.#inOrder([path], () => exists(path));
  }

  mkdir(path: string): Promise<void> {
    return this.#inOrder([path], () => makeFolders(path));
  }

  rename(from: string, to: string): Promise<void> {
    return this.#inOrder([from, to], async () => {
      await renamePath(from, to);
      await syncFolder(parentOf(to));
      if (parentOf(from) !== parentOf(to)) await syncFolder(parentOf(from));
    });
  }

  remove(path: string): Promise<void> {
    return this.#inOrder([path], async () => {
      if (await removeIfThere(path)) await syncFolder(parentOf(path));
    });
  }

  removeTree(path: string): Promise<void> {
    return this.#inOrder([path], async () => {
      await removeWithin(path);
      try {
        await syncFolder(parentOf(path));
      } catch (error) {
        // Nothing was there, not even the folder around it.
        if (codeOf(error) !== 'NOT_FOUND') throw error;
      }
    });
  }

  space(path: string): Promise<{ totalBytes: number; usableBytes: number }> {
    return diskSpace(path);
  }

  async lock(path: string, content: string): Promise<{ release(): Promise<void> }> {
    const lock = await this.#inOrder([path], () => takeLock(path, content));
    let released: Promise<void> | undefined;
    return {
      release: () => {
        released ??= this.#inOrder([path], () => lock.release());
        return released;
      },
    };
  }

  #inOrder<T>(paths: readonly string[], work: () => Promise<T>): Promise<T> {
    return this.#order.run(paths, async () => {
      if (paths.includes('')) throw new BroadsheetError('INVALID_ARGUMENT', 'a path may not be empty');
      return work();
    });
  }
}

function codeOf(error: unknown): string | undefined {
  return error instanceof BroadsheetError ? error.code : undefined;
}

/** What the operating system called the failure. */
function systemCode(error: unknown): string | undefined {
  return ((error as Error).cause as NodeJS.ErrnoException | undefined)?.code;
}

/** What is tidied up after a failure may fail as well; the first failure is the one to tell. */
async function ignore(work: Promise<void>): Promise<void> {
  await work.catch(() => {});
}

async function exists(path: string): Promise<boolean> {
  try {
    await statPath(path);
    return true;
  } catch (error) {
    if (codeOf(error) === 'NOT_FOUND') return false;
    throw error;
  }
}

/** Whether it was made, and not there before; its name is not durable yet. */
async function makeOne(path: string): Promise<boolean> {
  try {
    await makeFolder(path);
    return true;
  } catch (error) {
    if (systemCode(error) !== 'EEXIST') throw error;
    if ((await statPath(path)).isDirectory()) return false;
    throw new BroadsheetError('IO', `mkdir ${path}: it is no folder`, constants.errno.ENOTDIR);
  }
}

async function makeFolders(path: string): Promise<void> {
  const parent = parentOf(path);
  const made = await makeOne(path).catch(async (error: unknown) => {
    if (codeOf(error) !== 'NOT_FOUND' || parent === path) throw error;
    await makeFolders(parent);
    return makeOne(path);
  });
  if (made) await syncFolder(parent);
}

async function removeIfThere(path: string): Promise<boolean> {
  try {
    await removeFile(path);
    return true;
  } catch (error) {
    if (codeOf(error) === 'NOT_FOUND') return false;
    throw error;
  }
}

async function removeWithin(path: string): Promise<void> {
  // A folder is the one thing that unlink refuses (EISDIR; EPERM by POSIX); a link to one it removes.
  try {
    await removeIfThere(path);
    return;
  } catch (error) {
    if (!['EISDIR', 'EPERM'].includes(systemCode(error) ?? '')) throw error;
    let entries: FolderEntry[];
    try {
      entries = await listFolder(path);
    } catch (listing) {
      throw systemCode(listing) === 'ENOTDIR' ? error : listing;
    }
    for (const { name } of entries) await removeWithin(`${path}/${name}`);
  }
  await removeFolder(path);
}

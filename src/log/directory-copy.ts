/**
 * A copy of a data directory that is made file by file: by hard links where both names may share the bytes for good, else by
 * copying. Durable when it is done, and no broker opens it before: `meta.properties` comes last.
 */
import { isAbsolute, relative } from 'node:path';
import { BroadsheetError } from '../runtime/errors.ts';
import { Turns } from '../runtime/turns.ts';
import { forEachConcurrently } from './concurrency.ts';
import type { CopyReport } from './copy-report.ts';
import {
  copyPath,
  type FolderEntry,
  linkPath,
  listFolder,
  makeFolder,
  setModified,
  statPath,
  syncFolder,
  withFile,
} from './js-file.ts';
import { JsFiles } from './js-files.ts';

/** Of libuv's threads, which the broker needs too. */
const copying = new Turns(2);
const META_PROPERTIES = 'meta.properties';

export interface CopyOptions {
  /** Each ends the work with its reason; what was made is removed. */
  readonly signals?: readonly AbortSignal[];
  /** Default: hard links where they are safe and the file system has them. */
  readonly link?: boolean;
}

const codeOf = (error: unknown) => (error instanceof BroadsheetError ? error.code : undefined);
const systemCode = (error: unknown) =>
  ((error as Error).cause as NodeJS.ErrnoException | undefined)?.code ?? '';

/** Undefined where the folder does not exist. */
async function entriesOf(path: string): Promise<FolderEntry[] | undefined> {
  try {
    return await listFolder(path);
  } catch (error) {
    if (codeOf(error) === 'NOT_FOUND') return undefined;
    throw error;
  }
}

export class DirectoryCopy {
  readonly #target: string;
  readonly #options: CopyOptions;
  readonly #counts = { partitions: 0, linkedFiles: 0, linkedBytes: 0, copiedFiles: 0, copiedBytes: 0 };
  /** Of the files and folders that were made, those that are not durable yet. */
  readonly #unsynced: string[] = [];
  readonly #folders: string[] = [];
  readonly #running = new Set<Promise<void>>();
  #failed = false;
  #mayLink: boolean;

  private constructor(target: string, options: CopyOptions) {
    this.#target = target;
    this.#options = options;
    this.#mayLink = options.link ?? true;
  }

  /**
   * Makes `target` (absolute) and has `fill` put everything there but meta.properties, which is copied last. The target must not
   * exist, or be an empty folder: INVALID_ARGUMENT. When anything fails, what was made is removed.
   */
  static async make(
    source: string,
    target: string,
    options: CopyOptions,
    fill: (copy: DirectoryCopy) => Promise<void>,
  ): Promise<CopyReport> {
    const inside = relative(source, target);
    if (inside === '' || !(inside.startsWith('..') || isAbsolute(inside)))
      throw new BroadsheetError('INVALID_ARGUMENT', `${target} lies in ${source}, which is to be copied`);
    const found = await entriesOf(target);
    if (found !== undefined && found.length > 0)
      throw new BroadsheetError('INVALID_ARGUMENT', `${target} is not empty`);
    const files = new JsFiles();
    await files.mkdir(target);
    const copy = new DirectoryCopy(target, options);
    try {
      await fill(copy);
      await copy.#sync();
      await copy.file(`${source}/${META_PROPERTIES}`, META_PROPERTIES);
      await copy.#sync();
    } catch (error) {
      // What goes on beside it would make more while that is removed.
      copy.#failed = true;
      await Promise.allSettled(copy.#running);
      // What made it fail is what to tell.
      const made = found === undefined ? [target] : ((await entriesOf(target).catch(() => [])) ?? []);
      for (const each of made)
        await files.removeTree(typeof each === 'string' ? each : `${target}/${each.name}`).catch(() => {});
      throw error;
    }
    return { ...copy.#counts };
  }

  /** Makes a partition's folder and has it filled. */
  async partition(name: string, fill: () => Promise<void>): Promise<void> {
    const running = this.#partition(name, fill);
    this.#running.add(running);
    await running.finally(() => this.#running.delete(running));
  }

  async #partition(name: string, fill: () => Promise<void>): Promise<void> {
    this.#goOn();
    await makeFolder(`${this.#target}/${name}`);
    await fill();
    this.#folders.push(`${this.#target}/${name}`);
    this.#counts.partitions++;
  }

  /** All at the end: a file system writes many at once for little more than one. */
  async #sync(): Promise<void> {
    await forEachConcurrently(this.#unsynced.splice(0), async (path) => {
      this.#goOn();
      await withFile(path, 'read', (file) => file.fsync());
    });
    for (const folder of [...this.#folders.splice(0), this.#target]) await syncFolder(folder);
  }

  #goOn(): void {
    if (this.#failed) throw new BroadsheetError('CLOSED', 'another part of the copy failed');
    for (const signal of this.#options.signals ?? []) signal.throwIfAborted();
  }

  /** Takes back a folder that was begun. */
  async forget(name: string): Promise<void> {
    const path = `${this.#target}/${name}`;
    await new JsFiles().removeTree(path);
    const kept = this.#unsynced.filter((file) => !file.startsWith(`${path}/`));
    this.#unsynced.splice(0, this.#unsynced.length, ...kept);
  }

  async text(name: string, text: string): Promise<void> {
    await new JsFiles().writeAtomic(`${this.#target}/${name}`, text);
  }

  /** Copies a file, or its first `bytes` bytes, which may depend on what is in it; CORRUPT if it has fewer. */
  async file(from: string, name: string, bytes?: number | ((content: Uint8Array) => number)): Promise<void> {
    const to = `${this.#target}/${name}`;
    await copying.run(async () => {
      this.#goOn();
      const { mtimeMs } = await statPath(from);
      await copyPath(from, to);
      const size = await withFile(to, 'read-write', async (file) => {
        const copied = await file.size();
        const wanted = typeof bytes === 'function' ? bytes(await file.readAll(copied, 0)) : (bytes ?? copied);
        if (copied < wanted)
          throw new BroadsheetError('CORRUPT', `${from} has ${copied} bytes, not ${wanted}`);
        if (copied > wanted) await file.truncate(wanted);
        return wanted;
      });
      await setModified(to, mtimeMs);
      this.#unsynced.push(to);
      this.#counts.copiedFiles++;
      this.#counts.copiedBytes += size;
    });
  }

  /** Copies a file of which nobody writes a byte any more, by a link where that is possible. */
  async finished(from: string, name: string, bytes: number): Promise<void> {
    this.#goOn();
    if (this.#mayLink) {
      try {
        await linkPath(from, `${this.#target}/${name}`);
        this.#counts.linkedFiles++;
        this.#counts.linkedBytes += bytes;
        return;
      } catch (error) {
        // Another file system, one without links, or one that has no room for one more.
        if (!['EXDEV', 'EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS', 'EMLINK'].includes(systemCode(error)))
          throw error;
        if (systemCode(error) !== 'EMLINK') this.#mayLink = false;
      }
    }
    await this.file(from, name, bytes);
  }
}

/**
 * The budget of descriptors of the JS engine: files of logs that are opened when needed and closed, least recently used
 * first, when too many are open. One per process, since the limit is the process's; the rules are those of
 * native/descriptor_cache.*.
 */
import { readFileSync } from 'node:fs';
import type { BroadsheetError } from '../runtime/errors.ts';
import { Turns } from '../runtime/turns.ts';
import { parentOf } from './folder-names.ts';
import { JsFile, type OpenMode, renameNow, syncFolder } from './js-file.ts';

const MOST_FILES = 1 << 20;
/** Where the limit can't be told. */
const USUAL_LIMIT = 1024;

/** Files that are held open for a sync, which the budget cannot close: a thousand logs may be flushed at once. */
const beingSynced = new Turns(32);

/** A log's folder, shared by its files: a rename reaches those that are opened later. */
export class Folder {
  path: string;

  constructor(path: string) {
    this.path = path;
  }

  /** Makes its entries durable. */
  async sync(): Promise<void> {
    for (;;) {
      const { path } = this;
      try {
        await syncFolder(path);
        return;
      } catch (error) {
        // It was renamed meanwhile.
        if ((error as BroadsheetError).code !== 'NOT_FOUND' || path === this.path) throw error;
      }
    }
  }

  async rename(to: string): Promise<void> {
    const from = this.path;
    // On the loop, so that whoever opens a file finds it under the one name or the other.
    renameNow(from, to);
    this.path = to;
    await syncFolder(parentOf(to));
    if (parentOf(from) !== parentOf(to)) await syncFolder(parentOf(from));
  }
}

/** A file of a log whose descriptor comes and goes. */
export class CachedFile {
  name: string;
  readonly folder: Folder;
  /** For the cache. */
  file: JsFile | undefined;
  dirty = false;
  released = false;
  /** Of a sync that the cache did by itself. */
  syncFailure: BroadsheetError | undefined;

  constructor(folder: Folder, name: string) {
    this.folder = folder;
    this.name = name;
  }

  get path(): string {
    return `${this.folder.path}/${this.name}`;
  }

  /** Gives the file another name; who has it open goes on. False when there is none: it has the name then too. On the loop, so
   * that whoever opens it finds it under the one name or the other. */
  renameNow(to: string): boolean {
    const from = this.path;
    this.name = to;
    try {
      renameNow(from, this.path);
      return true;
    } catch (error) {
      if ((error as BroadsheetError).code === 'NOT_FOUND') return false;
      this.name = from.slice(this.folder.path.length + 1);
      throw error;
    }
  }

  /** The open file if its descriptor is there: valid until something else is opened; retain it to keep it. */
  get now(): JsFile | undefined {
    if (this.file !== undefined) descriptors.touch(this);
    return this.file;
  }

  /** Opens it if need be, on the loop. The file must exist. */
  openNow(mode: OpenMode = 'read-write'): JsFile {
    return this.now ?? descriptors.openNow(this, mode);
  }

  /** Opens it if need be. The caller has a reference, and releases it. */
  async open(): Promise<JsFile> {
    return this.now?.retain() ?? (await descriptors.open(this));
  }

  /** A descriptor with unsynced data is kept open: an error of its write-back could be lost with it. */
  markDirty(): void {
    descriptors.markDirty(this);
  }

  /** fdatasync, whether marked or not: what a killed process wrote is not marked. Clears the mark before it begins, so that
   * what is written meanwhile marks it again. */
  async sync(): Promise<void> {
    await beingSynced.run(async () => {
      if (this.syncFailure !== undefined) throw this.syncFailure;
      const file = await this.open();
      try {
        descriptors.markClean(this);
        await file.fdatasync();
      } finally {
        file.release();
      }
    });
  }

  /** Closes the descriptor for good: work that is still under way opens its own. */
  release(): void {
    this.released = true;
    descriptors.drop(this);
    this.dirty = false;
  }
}

class Descriptors {
  /** Open files, least recently used first. */
  readonly #clean = new Set<CachedFile>();
  readonly #dirty = new Set<CachedFile>();
  #limit = 0;
  #hardLimit = 0;
  forcedSyncs = 0;

  constructor() {
    this.setLimit(0);
  }

  /** Of descriptors of log files; 0 chooses by the process's limit. */
  setLimit(files: number): void {
    const available = Math.min(processLimit(), MOST_FILES);
    // Half is for log files, the rest for sockets and the host; dirty ones may take half of that rest.
    this.#limit = files === 0 ? Math.max(Math.floor(available / 2), 16) : files;
    this.#hardLimit =
      files === 0 ? Math.max(Math.floor(available / 4) * 3, 24) : files + Math.floor(files / 2);
    this.#shrink(this.#limit);
  }

  get limit(): number {
    return this.#limit;
  }

  get openFiles(): number {
    return this.#clean.size + this.#dirty.size;
  }

  /** Whether most of what may be open waits for a sync. */
  get crowded(): boolean {
    return this.#dirty.size > Math.floor(this.#limit / 4) * 3;
  }

  touch(cached: CachedFile): void {
    const list = cached.dirty ? this.#dirty : this.#clean;
    list.delete(cached);
    list.add(cached);
  }

  openNow(cached: CachedFile, mode: OpenMode): JsFile {
    for (;;) {
      try {
        return this.#admit(cached, JsFile.openNow(cached.path, mode));
      } catch (error) {
        if ((error as BroadsheetError).code !== 'LIMIT' || !this.#giveBack()) throw error;
      }
    }
  }

  /** The caller has a reference. */
  async open(cached: CachedFile): Promise<JsFile> {
    for (;;) {
      const { path } = cached;
      try {
        const file = await JsFile.open(path, 'read-write');
        if (path !== cached.path && cached.file === undefined) {
          // Renamed meanwhile: another file may have had that name.
          file.release();
          continue;
        }
        if (cached.released) return file;
        if (cached.file === undefined) return this.#admit(cached, file).retain();
        // Another one was faster; its descriptor is the one to keep.
        file.release();
        return cached.file.retain();
      } catch (error) {
        const { code } = error as BroadsheetError;
        // The file or its folder was renamed meanwhile.
        if (code === 'NOT_FOUND' && path !== cached.path) continue;
        if (code !== 'LIMIT' || !this.#giveBack()) throw error;
      }
    }
  }

  markDirty(cached: CachedFile): void {
    if (cached.dirty) return;
    if (cached.file !== undefined) this.#clean.delete(cached);
    cached.dirty = true;
    if (cached.file !== undefined) this.#dirty.add(cached);
  }

  markClean(cached: CachedFile): void {
    if (!cached.dirty) return;
    if (cached.file !== undefined) this.#dirty.delete(cached);
    cached.dirty = false;
    if (cached.file !== undefined) this.#clean.add(cached);
  }

  drop(cached: CachedFile): void {
    this.#clean.delete(cached);
    this.#dirty.delete(cached);
    cached.file?.release();
    cached.file = undefined;
  }

  #admit(cached: CachedFile, file: JsFile): JsFile {
    // Keep what is about to be used out of the way of the eviction below.
    this.#shrink(this.#limit - 1);
    while (this.openFiles >= this.#hardLimit && this.#dirty.size > 0) this.#forceOldest();
    cached.file = file;
    (cached.dirty ? this.#dirty : this.#clean).add(cached);
    return file;
  }

  /** Only dirty ones are left: the oldest is synced here and now. Slow, and right. */
  #forceOldest(): void {
    const [oldest] = this.#dirty as Set<CachedFile> & Iterable<CachedFile>;
    this.markClean(oldest!);
    try {
      oldest!.file!.fdatasyncNow();
    } catch (error) {
      oldest!.syncFailure = error as BroadsheetError;
    }
    this.forcedSyncs++;
    this.drop(oldest!);
  }

  /** Something else took the process's descriptors: gives back what can be given. False if nothing could be. */
  #giveBack(): boolean {
    if (this.#clean.size > 0) this.#shrink(0);
    else if (this.#dirty.size > 0) this.#forceOldest();
    else return false;
    return true;
  }

  #shrink(target: number): void {
    for (const cached of this.#clean) {
      if (this.openFiles <= target) return;
      this.drop(cached);
    }
  }
}

/** How many descriptors the process may have; Node raises its soft limit to the hard one when it starts. */
function processLimit(): number {
  try {
    const found = /^Max open files +(\d+|unlimited)/m.exec(readFileSync('/proc/self/limits', 'utf8'));
    if (found !== null) return found[1] === 'unlimited' ? MOST_FILES : Number(found[1]);
  } catch {
    // Not on Linux.
  }
  return USUAL_LIMIT;
}

export const descriptors = new Descriptors();

/**
 * The one place of the JS engine that calls the operating system about files: descriptors that are counted, errors with the
 * product's codes, and a way for tests to make any call fail or fall short. What may wait for a disk is a promise, on
 * libuv's pool; what is synchronous works on the page cache or on names, as the native engine's calls on the loop do.
 */
import fs from 'node:fs';
import { getSystemErrorName } from 'node:util';
import type { HeldFile, RangeSource } from '../protocol/part.ts';
import { BroadsheetError, type ErrorCode } from '../runtime/errors.ts';
import { namingLimit } from '../runtime/limits.ts';
import { Turns } from '../runtime/turns.ts';

/** Named as the native engine's calls are. */
export type FileCall =
  | 'open'
  | 'pread'
  | 'pwritev'
  | 'fdatasync'
  | 'fsync'
  | 'ftruncate'
  | 'fstat'
  | 'stat'
  | 'mkdir'
  | 'rename'
  | 'unlink'
  | 'rmdir'
  | 'list'
  | 'link'
  | 'copy';

export interface FileFault {
  /** 0: the call moves at most `limit` bytes. */
  readonly errno: number;
  readonly limit: number;
}

let faultOf: ((call: FileCall) => FileFault | undefined) | undefined;

/** For tests: asked before each call; undefined takes it away. */
export function injectFileFaults(plan: typeof faultOf): void {
  faultOf = plan;
}

/** Throws as planned, or gives how many bytes the call may move. */
function strike(call: FileCall): number {
  const fault = faultOf?.(call);
  if (fault === undefined) return Number.POSITIVE_INFINITY;
  if (fault.errno === 0) return fault.limit;
  const code = getSystemErrorName(-fault.errno);
  throw Object.assign(new Error(`${code}: injected`), { code, errno: -fault.errno });
}

const CODES: Readonly<Record<string, ErrorCode>> = {
  ENOENT: 'NOT_FOUND',
  ENOSPC: 'NO_SPACE',
  EDQUOT: 'NO_SPACE',
  EMFILE: 'LIMIT',
  ENFILE: 'LIMIT',
  ENOMEM: 'LIMIT',
  // Of Node: a path with a NUL in it.
  ERR_INVALID_ARG_VALUE: 'INVALID_ARGUMENT',
};

/** What the operating system said, as the product's error. */
export function osError(what: string, path: string, error: unknown): BroadsheetError {
  if (error instanceof BroadsheetError) return error;
  const { code = '', errno = 0, message } = error as NodeJS.ErrnoException;
  const text = namingLimit(`${what} ${path}: ${message}`, errno);
  return new BroadsheetError(CODES[code] ?? 'IO', text, Math.abs(errno), { cause: error });
}

type Answer<T> = (error: NodeJS.ErrnoException | null, result: T) => void;

/** One asynchronous call. */
export function call<T>(
  name: FileCall,
  what: string,
  path: string,
  start: (answer: Answer<T>) => void,
): Promise<T> {
  return new Promise((resolve, reject) => {
    try {
      if (faultOf !== undefined) strike(name);
      start((error, result) => {
        if (error === null) resolve(result);
        else reject(osError(what, path, error));
      });
    } catch (error) {
      reject(osError(what, path, error));
    }
  });
}

function callNow<T>(name: FileCall, what: string, path: string, run: () => T): T {
  try {
    if (faultOf !== undefined) strike(name);
    return run();
  } catch (error) {
    throw osError(what, path, error);
  }
}

/** Threads of libuv's pool. */
const POOL = Number(process.env.UV_THREADPOOL_SIZE) || 4;
/** Half of them: a slow disk's syncs must leave threads to those that read. */
const syncs = new Turns(Math.max(1, Math.floor(POOL / 2)));
/** Files that are open for one operation only: a thousand new partitions have one each. */
const brieflyOpen = new Turns(32);

const { O_RDONLY, O_RDWR, O_CREAT, O_EXCL } = fs.constants;
const FLAGS = {
  read: O_RDONLY,
  'read-write': O_RDWR,
  create: O_RDWR | O_CREAT,
  'create-new': O_RDWR | O_CREAT | O_EXCL,
} as const;
export type OpenMode = keyof typeof FLAGS;

const FILE_MODE = 0o644;

/** An open file, closed with its last reference. Whoever has a work on it under way has a reference. */
export class JsFile implements RangeSource, HeldFile {
  readonly fd: number;
  /** As opened; for error texts. */
  readonly path: string;
  /** A range of it could not be read, though it was known where it lies: each is to be read before it is handed out. */
  suspect = false;
  #references = 1;

  private constructor(fd: number, path: string) {
    this.fd = fd;
    this.path = path;
  }

  static openNow(path: string, mode: OpenMode): JsFile {
    return new JsFile(
      callNow('open', 'open', path, () => fs.openSync(path, FLAGS[mode], FILE_MODE)),
      path,
    );
  }

  static async open(path: string, mode: OpenMode): Promise<JsFile> {
    const fd = await call<number>('open', 'open', path, (done) =>
      fs.open(path, FLAGS[mode], FILE_MODE, done),
    );
    return new JsFile(fd, path);
  }

  retain(): this {
    this.#references++;
    return this;
  }

  release(): void {
    if (--this.#references > 0) return;
    // What was written is made durable by fdatasync; an error of close would tell nothing new.
    fs.close(this.fd, () => {});
  }

  failed(): void {
    this.suspect = true;
  }

  hold(): HeldFile {
    if (this.#references <= 0) throw new BroadsheetError('CLOSED', `${this.path} is not open any more`);
    return this.retain();
  }

  /** Up to `length` bytes into `into` at `at`; fewer only at the end of the file. */
  async read(into: Uint8Array, at: number, length: number, position: number): Promise<number> {
    this.retain();
    try {
      let got = 0;
      while (got < length) {
        const limit = faultOf === undefined ? length : strike('pread');
        const n = await new Promise<number>((resolve, reject) => {
          const want = Math.min(length - got, limit);
          fs.read(this.fd, into, at + got, want, position + got, (error, count) => {
            if (error === null) resolve(count);
            else reject(error);
          });
        });
        if (n === 0) break;
        got += n;
      }
      return got;
    } catch (error) {
      throw osError('read', this.path, error);
    } finally {
      this.release();
    }
  }

  /** All of it; an end of file within is CORRUPT. */
  async readAll(length: number, position: number): Promise<Buffer> {
    const into = Buffer.allocUnsafe(length);
    await this.readInto(into, position);
    return into;
  }

  async readInto(into: Uint8Array, position: number): Promise<void> {
    const { length } = into;
    const got = await this.read(into, 0, length, position);
    if (got === length) return;
    throw new BroadsheetError(
      'CORRUPT',
      `read ${this.path}: it ends at ${position + got}, expected ${length} bytes at ${position}`,
    );
  }

  /** All parts at `position`, one after the other, into the page cache; resumes after short writes. On failure part of it
   * may be written. */
  writeNow(parts: readonly Uint8Array[], position: number): void {
    try {
      let left = parts.length === 1 ? parts : parts.filter((part) => part.length > 0);
      while (left.length > 0 && left[0]!.length > 0) {
        const cut = faultOf === undefined ? left : shorten(left, strike('pwritev'));
        const n =
          cut.length === 1
            ? fs.writeSync(this.fd, cut[0]!, 0, cut[0]!.length, position)
            : fs.writevSync(this.fd, cut, position);
        if (n === 0) throw Object.assign(new Error('EIO: nothing is written'), { code: 'EIO', errno: -5 });
        position += n;
        left = rest(left, n);
      }
    } catch (error) {
      throw osError('write', this.path, error);
    }
  }

  async size(): Promise<number> {
    const { size } = await this.#async<fs.Stats>('fstat', 'stat', (done) => fs.fstat(this.fd, done));
    return size;
  }

  fdatasync(): Promise<void> {
    return syncs.run(() =>
      this.#async('fdatasync', 'fdatasync', (done) => fs.fdatasync(this.fd, (e) => done(e, undefined))),
    );
  }

  /** Waits for the disk on the loop: for the last resort. */
  fdatasyncNow(): void {
    callNow('fdatasync', 'fdatasync', this.path, () => fs.fdatasyncSync(this.fd));
  }

  fsync(): Promise<void> {
    return syncs.run(() =>
      this.#async('fsync', 'fsync', (done) => fs.fsync(this.fd, (e) => done(e, undefined))),
    );
  }

  truncate(length: number): Promise<void> {
    return this.#async('ftruncate', 'truncate', (done) =>
      fs.ftruncate(this.fd, length, (e) => done(e, undefined)),
    );
  }

  truncateNow(length: number): void {
    callNow('ftruncate', 'truncate', this.path, () => fs.ftruncateSync(this.fd, length));
  }

  async #async<T>(name: FileCall, what: string, start: (answer: Answer<T>) => void): Promise<T> {
    this.retain();
    try {
      return await call(name, what, this.path, start);
    } finally {
      this.release();
    }
  }
}

/** The first `limit` bytes of parts. */
function shorten(parts: readonly Uint8Array[], limit: number): readonly Uint8Array[] {
  if (limit === Number.POSITIVE_INFINITY) return parts;
  const cut: Uint8Array[] = [];
  for (const part of parts) {
    if (limit <= 0) break;
    cut.push(part.subarray(0, Math.min(part.length, limit)));
    limit -= part.length;
  }
  return cut;
}

/** Parts without their first `bytes` bytes. */
function rest(parts: readonly Uint8Array[], bytes: number): readonly Uint8Array[] {
  let index = 0;
  while (index < parts.length && bytes >= parts[index]!.length) bytes -= parts[index++]!.length;
  if (index === parts.length) return [];
  return [parts[index]!.subarray(bytes), ...parts.slice(index + 1)];
}

export function removeNow(path: string): void {
  callNow('unlink', 'remove', path, () => fs.unlinkSync(path));
}

export function removeFile(path: string): Promise<void> {
  return call('unlink', 'remove', path, (done) => fs.unlink(path, (e) => done(e, undefined)));
}

export function removeFolder(path: string): Promise<void> {
  return call('rmdir', 'remove folder', path, (done) => fs.rmdir(path, (e) => done(e, undefined)));
}

export function makeFolder(path: string): Promise<void> {
  return call('mkdir', 'mkdir', path, (done) => fs.mkdir(path, 0o755, (e) => done(e, undefined)));
}

export function renameNow(from: string, to: string): void {
  callNow('rename', 'rename', `${from} to ${to}`, () => fs.renameSync(from, to));
}

export function renamePath(from: string, to: string): Promise<void> {
  return call('rename', 'rename', `${from} to ${to}`, (done) =>
    fs.rename(from, to, (e) => done(e, undefined)),
  );
}

/** A second name for a file; fails where there is one already, and on another file system (EXDEV). */
export function linkPath(from: string, to: string): Promise<void> {
  return call('link', 'link', `${from} to ${to}`, (done) => fs.link(from, to, (e) => done(e, undefined)));
}

/** A copy of what the file holds now, not yet durable, and without a second set of blocks where the file system can do that. */
export function copyPath(from: string, to: string): Promise<void> {
  const { COPYFILE_EXCL, COPYFILE_FICLONE } = fs.constants;
  return call('copy', 'copy', `${from} to ${to}`, (done) =>
    fs.copyFile(from, to, COPYFILE_EXCL | COPYFILE_FICLONE, (e) => done(e, undefined)),
  );
}

export function statPath(path: string): Promise<fs.Stats> {
  return call<fs.Stats>('stat', 'stat', path, (done) => fs.stat(path, done));
}

/** When a file is said to be written to, ms since the epoch. */
export function setModified(path: string, ms: number): Promise<void> {
  return call('stat', 'set the time of', path, (done) =>
    fs.utimes(path, ms / 1000, ms / 1000, (e) => done(e, undefined)),
  );
}

export interface FolderEntry {
  readonly name: string;
  readonly directory: boolean;
  /** Bytes; 0 for a folder. */
  readonly size: number;
}

/** By name, links followed; what goes away meanwhile is left out. */
export async function listFolder(path: string): Promise<FolderEntry[]> {
  const names = await call<string[]>('list', 'list', path, (done) => fs.readdir(path, done));
  const entries = await Promise.all(
    names.sort().map(async (name): Promise<FolderEntry | undefined> => {
      try {
        const facts = await new Promise<fs.Stats>((resolve, reject) => {
          fs.stat(`${path}/${name}`, (error, found) => (error === null ? resolve(found) : reject(error)));
        });
        const directory = facts.isDirectory();
        return { name, directory, size: directory ? 0 : facts.size };
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
        throw osError('list', path, error);
      }
    }),
  );
  return entries.filter((entry) => entry !== undefined);
}

/** Opens a file for the time of `work`, which must not open another one in this way. */
export function withFile<T>(path: string, mode: OpenMode, work: (file: JsFile) => Promise<T>): Promise<T> {
  return brieflyOpen.run(async () => {
    const file = await JsFile.open(path, mode);
    try {
      return await work(file);
    } finally {
      file.release();
    }
  });
}

/** Makes a folder's entries durable. Windows has no such call: there it does nothing. */
export async function syncFolder(path: string): Promise<void> {
  if (process.platform === 'win32') return;
  await withFile(path, 'read', (folder) => folder.fsync());
}

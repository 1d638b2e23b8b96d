/**
 * Writes down what a process does to the files of one folder, and has its asynchronous file work wait until it is told to run:
 * so that one run gives every state that a power cut may find, and the same seed the same run. Both ways to the kernel are
 * covered: the addon's (native/file_journal.h, IoThreads::step) and node:fs, whose functions are put in place of their own.
 */
import fs from 'node:fs';
import { nativeTesting } from '../../support/native-testing.ts';
import type { Random } from '../../support/random.ts';

export type FileEvent =
  | { readonly kind: 'open'; readonly fd: number; readonly creates: boolean; readonly path: string }
  | { readonly kind: 'close'; readonly fd: number }
  | { readonly kind: 'write'; readonly fd: number; readonly position: number; readonly bytes: Buffer }
  | { readonly kind: 'truncate'; readonly fd: number; readonly length: number }
  /** A sync begins; `number` is its own. */
  | { readonly kind: 'sync'; readonly fd: number; readonly number: number }
  | { readonly kind: 'synced' | 'failed'; readonly fd: number; readonly number: number }
  | { readonly kind: 'mkdir' | 'unlink' | 'rmdir'; readonly path: string }
  | { readonly kind: 'rename'; readonly path: string; readonly to: string };

/** In the order of native/file_journal.h. */
const KINDS = [
  'open',
  'close',
  'write',
  'truncate',
  'sync',
  'synced',
  'mkdir',
  'rename',
  'unlink',
  'rmdir',
  'failed',
] as const;
const HEADER_BYTES = 32;

function parseNative(journal: Buffer): FileEvent[] {
  const events: FileEvent[] = [];
  for (let at = 0; at < journal.length; ) {
    const kind = KINDS[journal.readDoubleLE(at)]!;
    const fd = journal.readDoubleLE(at + 8);
    const number = journal.readDoubleLE(at + 16);
    const length = journal.readDoubleLE(at + 24);
    const bytes = journal.subarray(at + HEADER_BYTES, at + HEADER_BYTES + length);
    at += HEADER_BYTES + length;
    if (kind === 'open') {
      events.push({ kind, fd, creates: (number & fs.constants.O_CREAT) !== 0, path: bytes.toString() });
    } else if (kind === 'close') events.push({ kind, fd });
    else if (kind === 'write') events.push({ kind, fd, position: number, bytes });
    else if (kind === 'truncate') events.push({ kind, fd, length: number });
    else if (kind === 'sync' || kind === 'synced' || kind === 'failed') events.push({ kind, fd, number });
    else if (kind === 'rename') {
      const [path, to] = bytes.toString().split('\0') as [string, string];
      events.push({ kind, path, to });
    } else events.push({ kind, path: bytes.toString() });
  }
  return events;
}

interface Work {
  run(): void;
}

type Call = (...parameters: never[]) => unknown;
type Functions = Record<string, Call>;

/** Asynchronous functions of node:fs that wait for their turn, by what their first parameter is. */
const BY_PATH = ['open', 'unlink', 'rmdir', 'mkdir', 'rename', 'stat', 'utimes', 'readdir'];
const BY_DESCRIPTOR = ['close', 'read', 'fdatasync', 'fsync', 'ftruncate', 'fstat'];
/** Synchronous ones that change something. */
const CHANGES = [
  'openSync',
  'unlinkSync',
  'renameSync',
  'writeSync',
  'writevSync',
  'ftruncateSync',
  'fdatasyncSync',
];

/** Works of one kind that may run at once: libuv's pool has so many threads, our own a few more. */
const THREADS = 4;
/** So many turns without a work. */
const IDLE_LONG = 1100;

export class FileJournal {
  readonly #root: string;
  readonly #random: Random;
  readonly #events: FileEvent[] = [];
  readonly #descriptors = new Set<number>();
  readonly #waiting: Work[] = [];
  readonly #own: Functions = {};
  #syncs = 0;

  /** Begins: one at a time in a process, and no work may be under way. */
  constructor(root: string, random: Random) {
    this.#root = root;
    this.#random = random;
    nativeTesting().setStepped(1);
    nativeTesting().beginJournal();
    const functions = fs as unknown as Functions;
    for (const name of [...BY_PATH, ...BY_DESCRIPTOR, ...CHANGES]) {
      this.#own[name] = functions[name]!;
      functions[name] = ((...parameters: unknown[]) => this.#called(name, parameters)) as Call;
    }
  }

  /** Work goes its own way again, and nothing is written down any more. */
  end(): void {
    this.#takeNative();
    Object.assign(fs, this.#own);
    nativeTesting().endJournal();
    nativeTesting().setStepped(0);
  }

  /** All events so far. */
  get events(): readonly FileEvent[] {
    this.#takeNative();
    return this.#events;
  }

  /** How many events there were. */
  get position(): number {
    return this.events.length;
  }

  /** Called when nothing has happened for long: what goes on may wait for a virtual clock. */
  whenIdle: () => void = () => {};

  /** Runs what waits, in an order that the seed gives, until the promise is settled. */
  async until<T>(promise: Promise<T>): Promise<T> {
    let settled = false;
    const settle = () => {
      settled = true;
    };
    promise.then(settle, settle);
    for (let idle = 0; !settled; ) {
      // What is done beside the files seen here (the lock of the JS engine) takes its own time.
      await new Promise((resolve) => (idle < 1000 ? setImmediate(resolve) : setTimeout(resolve, 1)));
      if (settled) break;
      idle = this.stepOne() ? 0 : idle + 1;
      if (idle === IDLE_LONG) this.whenIdle();
      if (idle > 3000) throw new Error('nothing happens any more');
    }
    return promise;
  }

  /** Runs one of the works that wait. */
  stepOne(): boolean {
    const testing = nativeTesting();
    const native = Math.min(testing.waiting(), THREADS);
    const count = native + Math.min(this.#waiting.length, THREADS);
    if (count === 0) return false;
    const chosen = this.#random.int(count);
    if (chosen < native) testing.step(chosen);
    else this.#waiting.splice(chosen - native, 1)[0]!.run();
    return true;
  }

  #takeNative(): void {
    this.#events.push(...parseNative(nativeTesting().takeJournal()));
  }

  #note(event: FileEvent): void {
    this.#takeNative();
    this.#events.push(event);
  }

  #isOurs(target: unknown): boolean {
    return typeof target === 'number'
      ? this.#descriptors.has(target)
      : typeof target === 'string' && target.startsWith(this.#root);
  }

  #called(name: string, parameters: unknown[]): unknown {
    if (!this.#isOurs(parameters[0])) return this.#call(name, parameters);
    if (CHANGES.includes(name)) return this.#change(name.slice(0, -'Sync'.length), parameters);
    const done = parameters[parameters.length - 1] as (error: unknown, result?: unknown) => void;
    const given = parameters.slice(0, -1);
    const fd = given[0] as number;
    const isSync = name === 'fdatasync' || name === 'fsync';
    const number = -++this.#syncs;
    if (isSync) this.#note({ kind: 'sync', fd, number });
    this.#waiting.push({
      run: () => {
        let result: unknown;
        try {
          if (isSync) this.#note({ kind: 'synced', fd, number });
          else result = this.#change(name, given);
        } catch (error) {
          done(error);
          return;
        }
        done(null, result);
      },
    });
    return undefined;
  }

  #call(name: string, parameters: unknown[]): unknown {
    const own = this.#own[name] ?? (fs as unknown as Functions)[name]!;
    return (own as (...parameters: unknown[]) => unknown).apply(fs, parameters);
  }

  /** Does it at once, and writes it down. */
  #change(name: string, parameters: unknown[]): unknown {
    const [target, second, , , last] = parameters as [never, never, never, never, never];
    if (name === 'close') {
      this.#note({ kind: 'close', fd: target });
      this.#descriptors.delete(target);
    }
    if (name === 'fdatasync') {
      const number = -++this.#syncs;
      this.#note({ kind: 'sync', fd: target, number });
      this.#note({ kind: 'synced', fd: target, number });
      return undefined;
    }
    const result = this.#call(`${name}Sync`, parameters);
    switch (name) {
      case 'open':
        this.#descriptors.add(result as number);
        this.#note({
          kind: 'open',
          fd: result as number,
          creates: ((second as number) & fs.constants.O_CREAT) !== 0,
          path: target,
        });
        break;
      case 'write':
        this.#noteWrite(target, [second], last, result as number);
        break;
      case 'writev':
        this.#noteWrite(target, second, parameters[2] as number, result as number);
        break;
      case 'ftruncate':
        this.#note({ kind: 'truncate', fd: target, length: second });
        break;
      case 'unlink':
      case 'rmdir':
      case 'mkdir':
        this.#note({ kind: name, path: target });
        break;
      case 'rename':
        this.#note({ kind: 'rename', path: target, to: second });
        break;
    }
    return result;
  }

  #noteWrite(fd: number, parts: readonly Uint8Array[], position: number, written: number): void {
    this.#note({ kind: 'write', fd, position, bytes: Buffer.concat(parts).subarray(0, written) });
  }
}

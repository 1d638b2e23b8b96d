/**
 * The lock on a data directory for whoever has no fcntl locks, as Node has none: a file with the holder's pid, and what
 * tells that process from a later one with the same pid. What it excludes, and what it can't: docs/DIFFERENCES.md,
 * "Engines".
 */
import { randomUUID } from 'node:crypto';
import { promises as fs, readFileSync } from 'node:fs';
import { BroadsheetError } from '../runtime/errors.ts';
import { osError } from './js-file.ts';

/** Begins the line, behind the pid's, that such a holder writes. */
const MARK = 'held by process ';
const ATTEMPTS = 5;

/** What a process has that none with the same pid had before it; empty where the system does not tell. */
async function startOf(pid: number): Promise<string> {
  try {
    const [facts, boot] = await Promise.all([
      fs.readFile(`/proc/${pid}/stat`, 'utf8'),
      fs.readFile('/proc/sys/kernel/random/boot_id', 'utf8'),
    ]);
    // Behind the name, which may hold anything, field 22 is the time of the start.
    const fields = facts.slice(facts.lastIndexOf(')') + 2).split(' ');
    return `${boot.trim()}:${fields[19]}`;
  } catch {
    return '';
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

async function content(path: string): Promise<string> {
  try {
    // Every start comes by here, and node:fs/promises takes 6 ms to load: it is loaded where it is used.
    return readFileSync(path, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return '';
    throw osError('read', path, error);
  }
}

/** What a holder writes into the file of that inode: a copy of it, in a copy of the directory, holds nothing. */
async function mark(inode: bigint): Promise<string> {
  return `${MARK}${process.pid} ${inode} ${await startOf(process.pid)}\n`;
}

/** The pid of the living process that marked a file as its own. */
async function markedBy(path: string): Promise<number | undefined> {
  const found = new RegExp(`^${MARK}(\\d+) (\\d+) (\\S*)$`, 'm').exec(await content(path));
  if (found === null) return undefined;
  const pid = Number(found[1]);
  if (!isAlive(pid) || found[2] !== String(await inodeOf(path))) return undefined;
  const start = await startOf(pid);
  return start === found[3] || start === '' ? pid : undefined;
}

async function inodeOf(path: string): Promise<bigint | undefined> {
  return fs.stat(path, { bigint: true }).then(
    ({ ino }) => ino,
    () => undefined,
  );
}

/** Opens a file, writes `text` and the mark into it. */
async function writeMarked(path: string, flags: 'r+' | 'wx', text: string): Promise<string> {
  const file = await fs.open(path, flags);
  try {
    const held = text + (await mark((await file.stat({ bigint: true })).ino));
    await file.truncate(0);
    await file.write(held, 0);
    return held;
  } finally {
    await file.close();
  }
}

/** The pid of a process that has a lock of the kernel's on the file: a broker with the native engine, or a Kafka. -1 where
 * that is not told, 0 when there is none, undefined where the system does not tell. */
async function lockerOf(path: string): Promise<number | undefined> {
  try {
    const [locks, { dev, ino }] = await Promise.all([
      fs.readFile('/proc/locks', 'utf8'),
      fs.stat(path, { bigint: true }),
    ]);
    const major = ((dev >> 8n) & 0xfffn) | ((dev >> 32n) & ~0xfffn);
    const minor = (dev & 0xffn) | ((dev >> 12n) & ~0xffn);
    const hex = (value: bigint) => value.toString(16).padStart(2, '0');
    const mine = locks.split('\n').find((line) => line.includes(` ${hex(major)}:${hex(minor)}:${ino} `));
    // 1: POSIX  ADVISORY  WRITE 4711 08:01:131107 0 EOF
    return mine === undefined ? 0 : Number(mine.trim().split(/\s+/)[4]);
  } catch {
    return undefined;
  }
}

function locked(path: string, pid: number | undefined): BroadsheetError {
  const who =
    pid === undefined
      ? 'another process'
      : pid === process.pid
        ? `this process (pid ${pid})`
        : `process ${pid}`;
  return new BroadsheetError('LOCKED', `${path} is locked by ${who}`);
}

/** Rejects with LOCKED if a living process holds the file this way. */
export async function refuseHeld(path: string): Promise<void> {
  const pid = await markedBy(path);
  if (pid !== undefined) throw locked(path, pid);
}

async function refuseLockedByKernel(path: string): Promise<void> {
  const text = await content(path);
  const written = Number.parseInt(text, 10) || undefined;
  const locker = await lockerOf(path);
  if (locker !== undefined && locker !== 0) throw locked(path, locker > 0 ? locker : written);
  // Where it can't be told, a living process whose pid stands there is taken for the holder.
  if (locker === undefined && written !== undefined && written !== process.pid && isAlive(written))
    throw locked(path, written);
}

/** Whoever has this file looks at the lock and takes it; it exists for that moment only. */
class Turn {
  readonly #path: string;
  readonly #inode: bigint | undefined;

  private constructor(path: string, inode: bigint | undefined) {
    this.#path = path;
    this.#inode = inode;
  }

  static async take(lockPath: string): Promise<Turn> {
    const path = `${lockPath}.taking`;
    // Linked in its place with the mark in it: nobody sees it without.
    const own = `${path}.${randomUUID()}`;
    await writeMarked(own, 'wx', '');
    try {
      for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
        try {
          await fs.link(own, path);
          return new Turn(path, await inodeOf(own));
        } catch (error) {
          if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
        }
        const pid = await markedBy(path);
        if (pid !== undefined) throw locked(lockPath, pid);
        // Its process died within the moment.
        await fs.unlink(path).catch(() => {});
      }
      throw locked(lockPath, undefined);
    } finally {
      await fs.unlink(own);
    }
  }

  /** Whether it was not taken for a dead process's meanwhile. */
  async isOurs(): Promise<boolean> {
    return (await inodeOf(this.#path)) === this.#inode;
  }

  async end(): Promise<void> {
    if (await this.isOurs()) await fs.unlink(this.#path).catch(() => {});
  }
}

/** Takes the lock: `text`, which begins with the pid, and the mark are the file's content. Rejects with LOCKED. */
export async function takeLock(path: string, text: string): Promise<{ release(): Promise<void> }> {
  let turn: Turn | undefined;
  try {
    turn = await Turn.take(path);
    await refuseHeld(path);
    await refuseLockedByKernel(path);
    await fs.writeFile(path, '', { flag: 'a' });
    if (!(await turn.isOurs())) throw locked(path, undefined);
    const held = await writeMarked(path, 'r+', text);
    return {
      release: async () => {
        if ((await content(path)) === held) await fs.writeFile(path, '');
      },
    };
  } catch (error) {
    throw osError('lock', path, error);
  } finally {
    await turn?.end();
  }
}

/** A directory that lasts as long as who uses it: in memory where the machine has a roomy file system there, else on disk. */
import { rmSync } from 'node:fs';
import { mkdtemp, rm, statfs } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** Linux: a tmpfs for everyone. Containers often have one of 64 MiB only, where a broker would soon be stuck. */
const MEMORY_FILES = '/dev/shm';
const ROOMY_BYTES = 1 << 30;
const TMPFS_MAGIC = 0x0102_1994;

export interface TemporaryDirectory {
  /** Absolute path. */
  readonly path: string;
  /** Removes it with all that is in it. Idempotent. */
  remove(): Promise<void>;
}

async function isRoomyMemory(): Promise<boolean> {
  try {
    const { type, bsize, bavail } = await statfs(MEMORY_FILES);
    return type === TMPFS_MAGIC && bsize * bavail >= ROOMY_BYTES;
  } catch {
    return false;
  }
}

/** Makes an empty one. It also goes when the process exits, unless it is killed. */
export async function temporaryDirectory(): Promise<TemporaryDirectory> {
  const make = (parent: string) => mkdtemp(join(parent, 'broadsheet-memory-'));
  const path = (await isRoomyMemory())
    ? await make(MEMORY_FILES).catch(() => make(tmpdir()))
    : await make(tmpdir());
  const atExit = () => rmSync(path, { recursive: true, force: true });
  process.once('exit', atExit);
  return {
    path,
    remove: async () => {
      await rm(path, { recursive: true, force: true });
      process.removeListener('exit', atExit);
    },
  };
}

/** Real file systems that fill up: ext4 on a loop device, and tmpfs. Only root may mount them. */
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, statfsSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export const FILE_SYSTEMS = ['ext4', 'tmpfs'] as const;

export interface SmallDisk {
  /** Where it is mounted. */
  readonly path: string;
  /** What a user may still write. */
  usableBytes(): number;
  /** Takes all that is left. */
  fill(): void;
  /** Gives back what fill() took. */
  empty(): void;
  unmount(): void;
}

function run(command: string, ...args: string[]): void {
  execFileSync(command, args, { stdio: ['ignore', 'ignore', 'pipe'] });
}

/** Throws with what the system says where it may not be mounted. */
export function smallDisk(kind: (typeof FILE_SYSTEMS)[number], mebibytes: number): SmallDisk {
  const root = mkdtempSync(join(tmpdir(), 'broadsheet-disk-'));
  const path = join(root, 'mounted');
  mkdirSync(path);
  try {
    if (kind === 'tmpfs') run('mount', '-t', 'tmpfs', '-o', `size=${mebibytes}m`, 'broadsheet', path);
    else {
      const image = join(root, 'image');
      run('truncate', '-s', `${mebibytes}M`, image);
      // No blocks for root alone: the tests are root.
      run('mkfs.ext4', '-q', '-F', '-m', '0', image);
      run('mount', '-o', 'loop', image, path);
    }
  } catch (error) {
    rmSync(root, { recursive: true });
    throw error;
  }
  const usableBytes = () => {
    const { bsize, bavail } = statfsSync(path);
    return bsize * bavail;
  };
  const hogs: string[] = [];
  return {
    path,
    usableBytes,
    fill() {
      for (let bytes = 1 << 20; bytes >= 512; ) {
        const hog = join(path, `hog-${hogs.length}`);
        hogs.push(hog);
        try {
          writeFileSync(hog, Buffer.alloc(bytes), { flush: true });
        } catch (error) {
          if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error;
          if (bytes > 512) rmSync(hog, { force: true });
          bytes /= 2;
        }
      }
    },
    empty() {
      for (const hog of hogs.splice(0)) rmSync(hog, { force: true });
    },
    unmount() {
      run('umount', path);
      rmSync(root, { recursive: true });
    },
  };
}

/** Why small file systems cannot be had here, or undefined. */
export function noSmallDisks(): string | undefined {
  if (process.platform !== 'linux') return 'not Linux';
  for (const kind of FILE_SYSTEMS) {
    try {
      smallDisk(kind, 4).unmount();
    } catch (error) {
      const { message, stderr } = error as Error & { stderr?: Buffer };
      return `${kind}: ${String(stderr ?? message).trim()}`;
    }
  }
  return undefined;
}

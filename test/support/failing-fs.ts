/** A file system of our own (test/crash/failing-fs/failing-fs.c, by libfuse) that hands on to a folder and fails on demand. Only root
 * may mount it; needs gcc and libfuse 3. */
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const SOURCE = fileURLToPath(new URL('../crash/failing-fs/failing-fs.c', import.meta.url));

export interface FailingRule {
  readonly call: 'read' | 'write' | 'sync';
  /** 0: moves half of the bytes. */
  readonly errno: number;
  /** What a path must contain. */
  readonly path: string;
}

export class FailingFs {
  readonly path: string;
  readonly #root = mkdtempSync(join(tmpdir(), 'broadsheet-failing-'));
  readonly #rules = join(this.#root, 'rules');

  /** What this machine lacks for one, if anything. */
  static missing(): string | undefined {
    if (!existsSync('/dev/fuse')) return 'there is no /dev/fuse';
    if (process.getuid?.() !== 0) return 'only root may mount a file system';
    if (spawnSync('gcc', ['--version']).status !== 0) return 'there is no gcc';
    if (spawnSync('pkg-config', ['--exists', 'fuse3']).status !== 0)
      return 'there is no libfuse 3 to build with (Debian: apt-get install pkg-config libfuse3-dev fuse3)';
    return undefined;
  }

  /** Mounts one. With `direct` nothing is kept in the page cache, and shared
   * mappings are refused. */
  constructor(direct: boolean) {
    this.path = join(this.#root, 'mounted');
    const folder = join(this.#root, 'folder');
    for (const each of [this.path, folder]) mkdirSync(each);
    this.rule();
    try {
      const flags = execFileSync('pkg-config', ['--cflags', '--libs', 'fuse3'], { encoding: 'utf8' });
      const program = join(this.#root, 'failing-fs');
      execFileSync('gcc', ['-O1', '-o', program, SOURCE, ...flags.trim().split(/\s+/)]);
      const env = { ...process.env, ...(direct ? { FAILING_FS_DIRECT_IO: '1' } : {}) };
      execFileSync(program, [this.#rules, folder, this.path], { env, stdio: ['ignore', 'ignore', 'pipe'] });
    } catch (error) {
      rmSync(this.#root, { recursive: true });
      throw error;
    }
  }

  /** What fails from now on, instead of what did. */
  rule(...rules: readonly FailingRule[]): void {
    writeFileSync(this.#rules, rules.map(({ call, errno, path }) => `${call} ${errno} ${path}\n`).join(''));
  }

  unmount(): void {
    execFileSync('umount', [this.path]);
    rmSync(this.#root, { recursive: true });
  }
}

/** A disk whose pace is in our hands: ext4 on a loop device of its own, which the block layer throttles for whoever writes, write-back
 * with it. Needs root and the block controller of cgroups version 1, whose root group has limits too. */
import { execFileSync } from 'node:child_process';
import { existsSync, statSync, writeFileSync } from 'node:fs';
import { type SmallDisk, smallDisk } from '../../test/support/small-disk.ts';

const LIMITS = ['read', 'write'].map(
  (way) => `/sys/fs/cgroup/blkio/blkio.throttle.${way}_bps_device`,
) as readonly string[];
/** Far more than a run writes: a file system that may fill up writes back in the call that writes. */
const MEBIBYTES = 16 * 1024;

export class SlowDevice {
  readonly #disk: SmallDisk;
  /** As the kernel numbers it. */
  readonly #number: string;

  /** What this machine lacks for one, if anything. */
  static missing(): string | undefined {
    if (process.getuid?.() !== 0) return 'only root may mount a file system';
    if (!LIMITS.every((path) => existsSync(path))) return 'there is no block controller of cgroups version 1';
    return undefined;
  }

  constructor() {
    this.#disk = smallDisk('ext4', MEBIBYTES);
    const source = execFileSync('findmnt', ['-n', '-o', 'SOURCE', this.path], { encoding: 'utf8' }).trim();
    const { rdev } = statSync(source);
    this.#number = `${(rdev >> 8) & 0xfff}:${rdev & 0xff}`;
  }

  get path(): string {
    return this.#disk.path;
  }

  /** Bytes per second, each way; 1 is a stall, 0 no limit. */
  limit(bytesPerSecond: number): void {
    for (const path of LIMITS) writeFileSync(path, `${this.#number} ${bytesPerSecond}\n`);
  }

  /** From so many bytes that wait to be written back, writers wait too; undefined: what the kernel finds right. */
  limitDirty(bytes: number | undefined): void {
    const set = (name: string, value: number) =>
      writeFileSync(`/sys/class/bdi/${this.#number}/${name}`, `${value}\n`);
    set('strict_limit', bytes === undefined ? 0 : 1);
    if (bytes === undefined) set('max_ratio', 100);
    else set('max_bytes', bytes);
  }

  close(): void {
    this.limit(0);
    this.limitDirty(undefined);
    this.#disk.unmount();
  }
}

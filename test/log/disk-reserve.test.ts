import { beforeEach, describe, expect, it } from 'vitest';
import { BALLAST_FILE, DiskReserve } from '../../src/log/disk-reserve.ts';
import { VirtualClock } from '../../src/runtime/clock.ts';
import { BroadsheetError } from '../../src/runtime/errors.ts';
import { TestLogger } from '../broker/test-broker.ts';
import { MemoryFiles } from '../support/memory-log.ts';

const MEBIBYTE = 1 << 20;
const BALLAST = `/d/${BALLAST_FILE}`;

let files: MemoryFiles;
let clock: VirtualClock;
let logger: TestLogger;
let disk: DiskReserve;
let looks: number;

const settle = () => new Promise((resolve) => setImmediate(resolve));
const has = (usableBytes: number, totalBytes = 100 * 1024 * MEBIBYTE) => {
  files.space = async () => {
    looks++;
    return { totalBytes, usableBytes };
  };
};

async function opened(reserveBytes: number, keepsBallast = true): Promise<void> {
  disk = new DiskReserve({ dataDir: '/d', files, clock, logger, reserveBytes, keepsBallast });
  await disk.open();
}

async function later(ms: number): Promise<void> {
  clock.advance(ms);
  await settle();
}

beforeEach(async () => {
  files = new MemoryFiles();
  await files.mkdir('/d');
  clock = new VirtualClock();
  logger = new TestLogger();
  looks = 0;
});

describe('a reserve of the disk', () => {
  it.each([
    ['of the default is 64 MiB', -1, 100 * 1024, 64],
    ['of the default is a twentieth of a small file system', -1, 100, 5],
    ['is what it is set to', 10, 100, 10],
    ['may be none', 0, 100, 0],
  ])('%s', async (_, reserve, total, mebibytes) => {
    has(Math.max(mebibytes * 1.07, 2) * MEBIBYTE, total * MEBIBYTE);
    await opened(reserve < 0 ? reserve : reserve * MEBIBYTE);
    expect(disk.refusal(0)).toBeUndefined();
    await later(1000);
    has(Math.max(mebibytes * MEBIBYTE - 1, 100_000), total * MEBIBYTE);
    await later(5000);
    // Nothing is refused for a reserve of no byte.
    expect(disk.refusal(0) !== undefined).toBe(mebibytes > 0);
  });

  it('says where, and what is left, and takes records again by itself', async () => {
    has(20 * MEBIBYTE);
    await opened(10 * MEBIBYTE);
    expect(disk.refusal(1000)).toBeUndefined();
    // By then the ballast is there, and it looks less often.
    await later(1000);
    has(9 * MEBIBYTE);
    await later(4999);
    expect(disk.refusal(1000)).toBeUndefined();
    await later(1);
    expect(disk.refusal(1000)).toBe(
      '/d has 9437184 bytes left, and nothing is appended until there are 11796480: the last 10485760 are kept for commits and deletes (log.disk.reserve.bytes)',
    );
    expect(logger.of('error')).toEqual(['the disk is full: records are refused until there is space']);
    // Just above is not enough to begin again, and what is said shows it.
    has(11 * MEBIBYTE);
    await later(1000);
    expect(disk.refusal(1000)).toMatch(/ has 11534336 bytes left, .* until there are 11796480: /);
    has(12 * MEBIBYTE);
    await later(1000);
    expect(disk.refusal(1000)).toBeUndefined();
    expect(logger.of('info')).toEqual(['there is space again: records are taken']);
    expect(logger.of('error')).toHaveLength(1);
  });

  it('is not touched between two looks, whatever is sent', async () => {
    has(20 * MEBIBYTE);
    await opened(10 * MEBIBYTE);
    let sent = 0;
    for (; disk.refusal(100_000) === undefined; sent += 100_000);
    expect([sent > 9.9 * MEBIBYTE, sent <= 10 * MEBIBYTE]).toEqual([true, true]);
    // Little of it took space: duplicates, or records that were no good.
    has(19 * MEBIBYTE);
    await settle();
    for (let look = 0; look < 2; look++) {
      disk.refusal(1);
      await settle();
    }
    expect(disk.refusal(1000)).toBeUndefined();
    expect(looks).toBeGreaterThan(1);
    // One request that does not fit is refused alone.
    expect(disk.refusal(9.5 * MEBIBYTE)).toMatch(
      /^\/d has about 199\d{5} bytes left, and 9961472 more do not fit: the last 10485760 are kept /,
    );
  });

  it('refuses after a write that found no space, though the file system says there is some', async () => {
    has(20 * MEBIBYTE);
    await opened(0);
    has(5_000_000);
    const quota = new BroadsheetError('NO_SPACE', 'write x: Disk quota exceeded', 122);
    const error = disk.onNoSpace(quota);
    disk.onNoSpace(quota);
    expect([error.code, error.errno]).toEqual(['NO_SPACE', 122]);
    expect(error.message).toBe(
      'no space in /d, which had 20971520 bytes left at the last look: write x: Disk quota exceeded',
    );
    await settle();
    expect(disk.refusal(1)).toMatch(/^a write to \/d found no space, where 5000000 bytes were left/);
    // Once, with what is left by now.
    const full = { usableBytes: 5_000_000, reserveBytes: 0, reason: quota.message };
    expect(logger.lines.map(({ fields }) => fields)).toEqual([full]);
    for (let second = 1; second < 5; second++) await later(1000);
    expect(disk.refusal(1)).toBeDefined();
    await later(1000);
    expect(disk.refusal(1)).toBeUndefined();
  });

  it('without a reserve keeps the ballast, which is not for records', async () => {
    has(20 * MEBIBYTE);
    await opened(0);
    await later(1000);
    expect(files.content.get(BALLAST)?.length).toBe(MEBIBYTE);
    has(100_000);
    await later(5000);
    expect([files.content.has(BALLAST), disk.refusal(1)]).toEqual([true, undefined]);
    // It goes after a write that found no space, and where others took the rest.
    disk.onNoSpace(new BroadsheetError('NO_SPACE', 'write'));
    await settle();
    expect(files.content.has(BALLAST)).toBe(false);
    has(1.1 * MEBIBYTE);
    for (let second = 0; second < 10; second++) await later(1000);
    expect(disk.refusal(1)).toBe(
      `/d has ${1.1 * MEBIBYTE} bytes left, and nothing is appended until there are 2097152`,
    );
    await disk.close();
    await opened(0);
    expect(disk.refusal(1)).toBeUndefined();
    has(4096);
    await later(5000);
    expect(files.content.has(BALLAST)).toBe(false);
    has(MEBIBYTE + 4096);
    await opened(0);
    expect(disk.refusal(1)).toContain('until there are 2097152');
    has(2 * MEBIBYTE);
    await later(1000);
    expect(disk.refusal(1)).toBeUndefined();
    expect(files.content.get(BALLAST)?.length).toBe(MEBIBYTE);
  });

  it('has no ballast in a directory that goes with the broker', async () => {
    has(20 * MEBIBYTE);
    await opened(0, false);
    await later(5000);
    has(MEBIBYTE);
    await later(5000);
    expect([files.content.has(BALLAST), disk.refusal(1)]).toEqual([false, undefined]);
    await disk.close();
    expect(files.content.has(BALLAST)).toBe(false);
  });

  it('lets records through where nobody can tell', async () => {
    has(0, 0);
    await opened(-1);
    expect(disk.refusal(1e12)).toBeUndefined();
    files.space = async () => {
      throw new BroadsheetError('IO', 'statfs');
    };
    await later(5000);
    expect(disk.refusal(1e12)).toBeUndefined();
    disk.onNoSpace(new BroadsheetError('NO_SPACE', 'write'));
    await settle();
    expect(disk.refusal(1)).toBeDefined();
    has(0, 0);
    for (let second = 0; second < 6; second++) await later(1000);
    expect(disk.refusal(1)).toBeUndefined();
  });

  it('has a ballast that goes when hardly anything is left, and comes again', async () => {
    has(20 * MEBIBYTE);
    await opened(10 * MEBIBYTE);
    // A start does not wait for it.
    expect(files.content.has(BALLAST)).toBe(false);
    await later(1000);
    expect(files.content.get(BALLAST)?.length).toBe(MEBIBYTE);
    has(MEBIBYTE / 2);
    await later(5000);
    expect(files.content.has(BALLAST)).toBe(false);
    has(11 * MEBIBYTE);
    await later(1000);
    expect(files.content.has(BALLAST)).toBe(false);
    has(20 * MEBIBYTE);
    await later(1000);
    expect(files.content.get(BALLAST)?.length).toBe(MEBIBYTE);
    // A stop leaves one of what there is.
    has(MEBIBYTE / 2);
    await later(5000);
    await disk.close();
    expect(files.content.get(BALLAST)?.length).toBe(MEBIBYTE / 2 - 65536);
    await opened(10 * MEBIBYTE);
    expect(files.content.has(BALLAST)).toBe(false);
  });

  it('makes a ballast again that is missing or was cut short, and takes any bytes for one', async () => {
    const whole = Buffer.alloc(MEBIBYTE, 7);
    for (const found of [undefined, Buffer.alloc(0), whole.subarray(1), Buffer.alloc(MEBIBYTE + 1), whole]) {
      if (found === undefined) await files.remove(BALLAST);
      else await files.writeAtomic(BALLAST, found);
      has(20 * MEBIBYTE);
      await opened(10 * MEBIBYTE);
      await later(5000);
      expect(files.content.get(BALLAST)?.length).toBe(MEBIBYTE);
      expect(Buffer.from(files.content.get(BALLAST)!).equals(whole)).toBe(found === whole);
      await disk.close();
    }
  });

  it('gives the ballast to the first thing that finds no space, and to nothing else', async () => {
    has(20 * MEBIBYTE);
    await opened(10 * MEBIBYTE);
    await later(1000);
    let tries = 0;
    const failing = (code: 'NO_SPACE' | 'LOCKED') => async () => {
      tries++;
      if (code === 'LOCKED' || files.content.has(BALLAST)) throw new BroadsheetError(code, 'no');
      return 'done';
    };
    await expect(disk.first(failing('LOCKED'))).rejects.toMatchObject({ code: 'LOCKED' });
    expect([tries, files.content.has(BALLAST)]).toEqual([1, true]);
    expect(await disk.first(failing('NO_SPACE'))).toBe('done');
    expect(tries).toBe(3);
  });

  it('stops looking when it is closed', async () => {
    has(20 * MEBIBYTE);
    await opened(10 * MEBIBYTE);
    await disk.close();
    const before = looks;
    await later(3_600_000);
    expect(looks).toBe(before);
  });
});

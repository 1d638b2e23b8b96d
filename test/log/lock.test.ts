/** The lock on a data directory between brokers of either engine. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync, existsSync, linkSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { ENGINES } from '../support/engines.ts';
import { scratch } from '../support/logs.ts';

const [native, js] = ENGINES.map(({ make }) => make().files);
const mine = `${process.pid}\n`;
const locked = { code: 'LOCKED', message: expect.stringContaining('this process') };

/** A process that holds the lock and can be killed. */
async function holder(path: string) {
  const script = `
    const { takeLock } = await import(${JSON.stringify(fileURLToPath(new URL('../../src/log/js-lock.ts', import.meta.url)))});
    await takeLock(process.argv[1], process.pid + '\\n');
    console.log('held');
    setInterval(() => {}, 1000);`;
  const hooks = fileURLToPath(new URL('../../scripts/typescript.js', import.meta.url));
  const child = spawn(process.execPath, ['--import', hooks, '--input-type=module', '-e', script, path], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  await once(child.stdout, 'data');
  return child;
}

describe('the lock', () => {
  it('is held against the other engine too', async () => {
    const path = join(scratch(), '.lock');
    const first = await js!.lock(path, mine);
    await expect(native!.lock(path, mine)).rejects.toMatchObject(locked);
    await first.release();
    const second = await native!.lock(path, mine);
    await expect(js!.lock(path, mine)).rejects.toMatchObject(locked);
    await second.release();
    await (await js!.lock(path, mine)).release();
  });

  it('is taken by one of many that want it at once', async () => {
    const path = join(scratch(), '.lock');
    for (let round = 0; round < 20; round++) {
      const wishes = await Promise.allSettled(
        ENGINES.flatMap(() => [1, 2, 3, 4]).map(() => ENGINES[1]!.make().files.lock(path, mine)),
      );
      const held = wishes.filter((wish) => wish.status === 'fulfilled');
      expect(held.length).toBe(1);
      await held[0]!.value.release();
    }
    expect(existsSync(`${path}.taking`)).toBe(false);
  });

  it('outlives no process', async () => {
    const path = join(scratch(), '.lock');
    const child = await holder(path);
    for (const files of [js!, native!]) {
      await expect(files.lock(path, mine)).rejects.toMatchObject({
        code: 'LOCKED',
        message: expect.stringContaining(`process ${child.pid}`),
      });
    }
    child.kill('SIGKILL');
    await once(child, 'exit');
    expect(readFileSync(path, 'utf8')).toContain(`held by process ${child.pid} `);
    // As if it had died within the moment in which it took the lock.
    linkSync(path, `${path}.taking`);
    await (await js!.lock(path, mine)).release();
    await (await native!.lock(path, mine)).release();
  });

  it('is free whatever is left of the file of one that died', async () => {
    const path = join(scratch(true), '.lock');
    const child = await holder(path);
    child.kill('SIGKILL');
    await once(child, 'exit');
    const left = readFileSync(path);
    const harms: (Buffer | undefined)[] = [undefined, Buffer.alloc(1 << 20, 255)];
    for (let at = 0; at < left.length; at++) {
      const flipped = Buffer.from(left);
      flipped[at]! ^= 1 << (at % 8);
      harms.push(flipped, left.subarray(0, at));
    }
    const files = ENGINES.map(({ make }) => make().files);
    for (const harmed of harms) {
      for (const [i, each] of files.entries()) {
        if (harmed === undefined) rmSync(path, { force: true });
        else writeFileSync(path, harmed);
        const lock = await each.lock(path, mine);
        await expect(files[1 - i]!.lock(path, mine)).rejects.toMatchObject(locked);
        await lock.release();
      }
    }
  });

  it('is not that of another process with the same pid, nor that of a copy', async () => {
    const path = join(scratch(), '.lock');
    writeFileSync(path, '');
    const { ino } = statSync(path, { bigint: true });
    writeFileSync(path, `${process.pid}\nheld by process ${process.pid} ${ino} another-boot:123\n`);
    const lock = await js!.lock(path, mine);
    for (const files of [js!, native!]) {
      copyFileSync(path, `${path}-copy`);
      await (await files.lock(`${path}-copy`, mine)).release();
      await expect(files.lock(path, mine)).rejects.toMatchObject(locked);
    }
    await lock.release();
  });
});

import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';
import { afterAll, describe, expect, it } from 'vitest';
import { addon, check, toError } from '../../src/native.ts';
import { BroadsheetError } from '../../src/runtime/errors.ts';
import { codeOf, nativeTesting } from '../support/native-testing.ts';

const native = nativeTesting();
const root = fileURLToPath(new URL('../..', import.meta.url));
const dir = mkdtempSync(join(tmpdir(), 'broadsheet-border-'));
afterAll(() => rmSync(dir, { recursive: true, force: true }));

/** How scripts outside of the test's module graph get hold of the addon. */
const LOAD = `const native = process.env.BROADSHEET_ADDON
  ? require(process.env.BROADSHEET_ADDON)
  : require(${JSON.stringify(`${root}node_modules/node-gyp-build`)})(${JSON.stringify(root)});`;

function runScript(script: string) {
  return spawnSync(process.execPath, ['-e', LOAD + script], { encoding: 'utf8' });
}

function worker(script: string): Promise<{ instance: Worker; message: unknown }> {
  const instance = new Worker(`const { parentPort } = require('node:worker_threads');${LOAD}${script}`, {
    eval: true,
  });
  return new Promise((resolve, reject) => {
    instance.once('message', (message) => resolve({ instance, message }));
    instance.once('error', reject);
  });
}

const ioThreads = () =>
  readdirSync('/proc/self/task').filter((id) => {
    try {
      return readFileSync(`/proc/self/task/${id}/comm`, 'utf8').trim() === 'broadsheet-io';
    } catch {
      return false;
    }
  }).length;
const descriptors = () => readdirSync('/proc/self/fd').length;

describe('the border', () => {
  it('numbers every code and slot once', () => {
    const { codes, slots, results } = addon();
    expect(codes[0]).toBe('OK');
    expect(new Set(codes).size).toBe(codes.length);
    const places = Object.values(slots);
    expect(new Set(places).size).toBe(places.length);
    expect(Math.max(...places)).toBe(results.length - 1);
  });

  it('turns a negative result into an error with code, errno and context', () => {
    const result = native.openFile(join(dir, 'missing'), 'read');
    expect(() => check(result)).toThrow(BroadsheetError);
    expect(toError(addon().lastStatus())).toMatchObject({ code: 'NOT_FOUND', errno: 2 });
    expect(toError(addon().lastStatus()).message).toContain(join(dir, 'missing'));
    expect(check(7)).toBe(7);
  });

  it('refuses a binary that lacks a slot, and names what it cannot load', () => {
    const path = join(dir, 'old.cjs');
    writeFileSync(path, 'module.exports = { slots: { baseOffset: 0 } };');
    for (const [where, text] of [
      [path, 'no slot lastOffset'],
      [join(dir, 'nowhere.node'), 'nowhere.node'],
    ] as const) {
      const script = `import('./src/native.ts').then((m) => m.addon()).catch((e) => console.log(e.code, e.message));`;
      const child = spawnSync(process.execPath, ['--import', './scripts/typescript.js', '-e', script], {
        cwd: root,
        encoding: 'utf8',
        env: { ...process.env, BROADSHEET_ADDON: where },
      });
      expect(child.stdout).toContain('ADDON_UNAVAILABLE');
      expect(child.stdout).toContain(text);
    }
  });
});

describe('I/O threads', () => {
  it('run works side by side, never more than 16, and call back once each', async () => {
    const done: number[] = [];
    await new Promise<void>((resolve) => {
      for (let i = 0; i < 100; i++) {
        native.work(1, () => {
          done.push(i);
          if (done.length === 100) resolve();
        });
      }
      expect(native.inFlight()).toBe(100);
    });
    expect(done.toSorted((a, b) => a - b)).toEqual(Array.from({ length: 100 }, (_, i) => i));
    expect(native.inFlight()).toBe(0);
    expect(ioThreads()).toBeGreaterThan(1);
    expect(ioThreads()).toBeLessThanOrEqual(16);
  });

  it('take work from within a callback', async () => {
    await new Promise<void>((resolve) => native.work(0, () => native.work(0, () => native.work(0, resolve))));
    expect(native.inFlight()).toBe(0);
  });

  it('run microtasks after callbacks', async () => {
    const order: string[] = [];
    await new Promise<void>((resolve) => {
      native.work(0, () => {
        Promise.resolve().then(() => order.push('microtask'));
        process.nextTick(() => order.push('tick'));
        setImmediate(resolve);
      });
    });
    expect(order.toSorted()).toEqual(['microtask', 'tick']);
  });

  it('do not keep an idle process alive, but one with work in flight', () => {
    const idle = runScript(`native.testing.inFlight(); console.log('loaded');`);
    expect([idle.status, idle.stdout]).toEqual([0, 'loaded\n']);
    const busy = runScript(`native.testing.work(100, () => console.log('done'));`);
    expect([busy.status, busy.stdout]).toEqual([0, 'done\n']);
    const after = runScript(
      `native.testing.work(1, () => native.testing.work(50, () => console.log('second')));`,
    );
    expect([after.status, after.stdout]).toEqual([0, 'second\n']);
  });

  it('let a process exit that has work in flight', () => {
    const script = `for (let i = 0; i < 50; i++) native.testing.work(200, () => console.log('never'));`;
    for (const end of ['process.exit(7);', `setImmediate(() => process.exit(7));`]) {
      const child = runScript(script + end);
      expect([child.status, child.stdout]).toEqual([7, '']);
    }
    const inside = runScript(
      `native.testing.work(1, () => process.exit(7)); native.testing.work(30, () => {});`,
    );
    expect(inside.status).toBe(7);
  });

  it('hand an exception of a callback to the host, and go on', () => {
    const child = runScript(`
      process.on('uncaughtException', (error) => console.log('caught', error.message));
      native.testing.work(1, () => { throw new Error('mine'); });
      native.testing.work(20, () => console.log('next'));
      native.readFile('/nonexistent', 10, (status) => { throw new Error(status.code); });`);
    expect(child.status).toBe(0);
    expect(child.stdout.split('\n').toSorted()).toEqual(['', 'caught NOT_FOUND', 'caught mine', 'next']);
    const fatal = runScript(`native.testing.work(1, () => { throw new Error('mine'); });`);
    expect(fatal.status).not.toBe(0);
    expect(fatal.signal).toBe(null);
    expect(fatal.stderr).toContain('mine');
  });
});

describe('in workers', () => {
  it('each has an instance of its own', async () => {
    const file = native.openFile(join(dir, 'a'), 'create');
    expect(file).toBeGreaterThan(0);
    native.openFile(join(dir, 'missing'), 'read');
    const { instance, message } = await worker(`
      parentPort.postMessage([native.testing.act(${file}, 'size', 0, 0), native.lastStatus().code]);`);
    expect([codeOf((message as number[])[0]!), (message as string[])[1]]).toEqual(['CLOSED', 'CLOSED']);
    expect(addon().lastStatus().code).toBe('NOT_FOUND');
    await instance.terminate();
    expect(native.act(file, 'size', 0, 0)).toBe(0);
  });

  it('end by themselves when idle', async () => {
    const { instance } = await worker(`native.testing.work(5, () => parentPort.postMessage('done'));`);
    expect(await new Promise((resolve) => instance.once('exit', resolve))).toBe(0);
  });

  it('can be terminated in every state, and leave nothing behind', async () => {
    const states = [
      // idle
      `parentPort.postMessage(1); setInterval(() => {}, 1000);`,
      // works running and waiting
      `for (let i = 0; i < 40; i++) native.testing.work(10, () => {}); parentPort.postMessage(1);`,
      // callbacks coming in without end
      `const again = () => native.testing.work(0, again); for (let i = 0; i < 20; i++) again();
       parentPort.postMessage(1);`,
      // inside a callback that does not end
      `native.testing.work(0, () => { parentPort.postMessage(1); for (;;); });`,
      // a callback that throws
      `process.on('uncaughtException', () => {});
       const again = () => { native.testing.work(0, again); throw new Error(); };
       native.testing.work(0, again); parentPort.postMessage(1);`,
      // files open, a lock held
      `native.testing.openFile(${JSON.stringify(join(dir, 'b'))}, 'create');
       native.lockFile(${JSON.stringify(join(dir, 'lock'))}, 'x', () => parentPort.postMessage(1));
       setInterval(() => {}, 1000);`,
    ];
    const cycle = async () => {
      for (const state of states) {
        const { instance } = await worker(state);
        await instance.terminate();
      }
    };
    await cycle();
    const before = [descriptors(), ioThreads()];
    for (let round = 0; round < 2; round++) await cycle();
    expect([descriptors(), ioThreads()]).toEqual(before);
    const left = readFileSync('/proc/self/maps', 'utf8');
    expect(left).not.toContain(dir);
  });
});

describe('opening and closing', () => {
  it('leaves descriptors and mappings where they were, 20 times over', async () => {
    const path = join(dir, 'cycles');
    writeFileSync(path, 'x'.repeat(10_000));
    const cycle = async () => {
      const file = native.openFile(path, 'read-write');
      await new Promise<void>((resolve) => native.work(0, resolve));
      const lock = await new Promise<number>((resolve) =>
        addon().lockFile(join(dir, 'cycle-lock'), 'x', (...outcome) => resolve(outcome[1] ?? -1)),
      );
      expect(addon().releaseLock(lock)).toBe(0);
      native.closeFile(file);
    };
    await cycle();
    const maps = () =>
      readFileSync('/proc/self/maps', 'utf8')
        .split('\n')
        .filter((line) => line.includes(dir)).length;
    const before = [descriptors(), maps()];
    for (let round = 0; round < 20; round++) await cycle();
    expect([descriptors(), maps()]).toEqual(before);
  });
});

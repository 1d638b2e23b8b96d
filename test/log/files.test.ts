import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { constants, tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { FileCall } from '../../src/log/js-file.ts';
import { ENGINES } from '../support/engines.ts';

const { EIO, EMFILE, ENOSPC } = constants.errno;

let dir: string;
const at = (...names: string[]) => join(dir, ...names);

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'broadsheet-files-'));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

describe.each(ENGINES)('files, engine=$name', ({ make, setFault, clearFaults }) => {
  const { files } = make();

  it('writes and reads back text and bytes', async () => {
    await files.writeAtomic(at('text'), 'grün\n');
    expect((await files.read(at('text'))).toString()).toBe('grün\n');
    const bytes = Uint8Array.from([0, 255, 10, 0]);
    await files.writeAtomic(at('text'), bytes);
    expect(await files.read(at('text'))).toEqual(Buffer.from(bytes));
    await files.writeAtomic(at('empty'), '');
    expect(await files.read(at('empty'))).toHaveLength(0);
    expect(readdirSync(dir).sort()).toEqual(['empty', 'text']);
  });

  it('takes the bytes as they are at the call', async () => {
    const bytes = new Uint8Array(100_000).fill(1);
    const first = files.writeAtomic(at('f'), bytes);
    const second = files.writeAtomic(at('f'), bytes);
    bytes.fill(2);
    await Promise.all([first, second]);
    expect(readFileSync(at('f')).every((byte) => byte === 1)).toBe(true);
  });

  it('runs calls on one path in the order in which they were made', async () => {
    const writes = Array.from({ length: 50 }, (_, i) => files.writeAtomic(at('counter'), String(i)));
    const read = files.read(at('counter'));
    const later = files.writeAtomic(at('counter'), 'last');
    expect((await read).toString()).toBe('49');
    await Promise.all([...writes, later]);
    expect(readFileSync(at('counter'), 'utf8')).toBe('last');
  });

  it('goes on after a call on the same path that failed', async () => {
    const failed = files.read(at('missing'));
    const written = files.writeAtomic(at('missing'), 'x');
    await expect(failed).rejects.toMatchObject({ code: 'NOT_FOUND', errno: 2 });
    await written;
    expect((await files.read(at('missing'))).toString()).toBe('x');
  });

  it('refuses to read what is larger than allowed', async () => {
    writeFileSync(at('big'), Buffer.alloc(101));
    await expect(files.read(at('big'), 100)).rejects.toMatchObject({ code: 'LIMIT' });
    expect(await files.read(at('big'), 101)).toHaveLength(101);
  });

  it('names the path in every failure', async () => {
    for (const failing of [
      files.read(at('no', 'a')),
      files.writeAtomic(at('no', 'b'), ''),
      files.createDurable(at('no', 'deep', 'c'), ''),
      files.list(at('no')),
      files.rename(at('no', 'd'), at('e')),
    ]) {
      await expect(failing).rejects.toMatchObject({
        name: 'BroadsheetError',
        code: 'NOT_FOUND',
        errno: 2,
        message: expect.stringContaining(at('no')),
      });
    }
    writeFileSync(at('file'), '');
    await expect(files.list(at('file'))).rejects.toMatchObject({ code: 'IO', errno: 20 });
    await expect(files.read(dir)).rejects.toMatchObject({ code: 'IO', errno: 21 });
    await expect(files.mkdir(at('file'))).rejects.toMatchObject({ code: 'IO', errno: 20 });
    await expect(files.remove(dir)).rejects.toMatchObject({ code: 'IO' });
  });

  it('refuses a path with a NUL, and an empty one', async () => {
    for (const path of [`${dir}/a\0b`, '']) {
      for (const failing of [
        files.read(path),
        files.writeAtomic(path, ''),
        files.createDurable(path, ''),
        files.list(path),
        files.exists(path),
        files.mkdir(path),
        files.rename(path, at('x')),
        files.rename(dir, path),
        files.remove(path),
        files.removeTree(path),
        files.lock(path, ''),
      ]) {
        await expect(failing).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' });
      }
    }
    expect(readdirSync(dir)).toEqual([]);
  });

  it('keeps the old content when a write fails, and leaves no temporary file', async () => {
    mkdirSync(at('target'));
    writeFileSync(at('target', 'inside'), '');
    await expect(files.writeAtomic(at('target'), 'x')).rejects.toMatchObject({ code: 'IO' });
    expect(readdirSync(dir)).toEqual(['target']);
  });

  it('creates a file with its folder, once', async () => {
    await files.createDurable(at('t-0', 'partition.metadata'), 'version: 0\n');
    expect(readFileSync(at('t-0', 'partition.metadata'), 'utf8')).toBe('version: 0\n');
    await files.createDurable(at('t-0', 'other'), '');
    await expect(files.createDurable(at('t-0', 'other'), 'new')).rejects.toMatchObject({
      code: 'IO',
      errno: 17,
    });
    expect(readFileSync(at('t-0', 'other'), 'utf8')).toBe('');
  });

  it('lists by name with sizes', async () => {
    mkdirSync(at('b'));
    writeFileSync(at('a'), 'xyz');
    symlinkSync(at('nowhere'), at('dangling'));
    expect(await files.list(dir)).toEqual([
      { name: 'a', directory: false, size: 3 },
      { name: 'b', directory: true, size: 0 },
    ]);
    expect(await files.list(at('b'))).toEqual([]);
  });

  it('tells what exists', async () => {
    expect(await files.exists(dir)).toBe(true);
    expect(await files.exists(at('no'))).toBe(false);
    await expect(files.exists(at('x'.repeat(300)))).rejects.toMatchObject({ code: 'IO', errno: 36 });
  });

  it('makes folders with their parents; one that is there is no error', async () => {
    await files.mkdir(at('a', 'b', 'c'));
    await files.mkdir(at('a', 'b', 'c'));
    expect(existsSync(at('a', 'b', 'c'))).toBe(true);
  });

  it('renames within and across folders', async () => {
    await files.mkdir(at('from'));
    await files.mkdir(at('to'));
    writeFileSync(at('from', 'f'), 'x');
    await files.rename(at('from', 'f'), at('to', 'g'));
    await files.rename(at('to'), at('to-delete'));
    expect(readFileSync(at('to-delete', 'g'), 'utf8')).toBe('x');
    await expect(files.rename(at('from', 'f'), at('x'))).rejects.toMatchObject({ code: 'NOT_FOUND' });
  });

  it('removes files and trees, missing ones too, and follows no link', async () => {
    await files.mkdir(at('tree', 'a', 'b'));
    await files.mkdir(at('outside'));
    writeFileSync(at('outside', 'kept'), '');
    writeFileSync(at('tree', 'a', 'f'), '');
    symlinkSync(at('outside'), at('tree', 'link'));
    symlinkSync(at('outside'), at('link'));
    await files.removeTree(at('tree'));
    await files.removeTree(at('link'));
    await files.removeTree(at('never'));
    await files.removeTree(at('never', 'below'));
    writeFileSync(at('f'), '');
    await files.remove(at('f'));
    await files.remove(at('f'));
    expect(readdirSync(dir)).toEqual(['outside']);
    expect(readdirSync(at('outside'))).toEqual(['kept']);
  });

  it('locks against a second holder in this process, until released', async () => {
    const lock = await files.lock(at('.lock'), `${process.pid}\n`);
    const content = readFileSync(at('.lock'), 'utf8');
    expect(content.startsWith(`${process.pid}\n`)).toBe(true);
    await expect(files.lock(at('.lock'), 'x')).rejects.toMatchObject({
      code: 'LOCKED',
      message: expect.stringContaining(`this process (pid ${process.pid})`),
    });
    expect(readFileSync(at('.lock'), 'utf8')).toBe(content);
    await lock.release();
    await lock.release();
    await (await files.lock(at('.lock'), 'y')).release();
  });

  it('names the pid of another process, whichever kind of lock it holds', async () => {
    for (const kind of ['ofd', 'posix']) {
      const script = `
import fcntl, os, struct, sys
f = open(sys.argv[1], 'w+')
f.write(str(os.getpid()) if sys.argv[2] == 'ofd' else 'nonsense')
f.flush()
lock = struct.pack('hhqqixxxx', fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
fcntl.fcntl(f, 37 if sys.argv[2] == 'ofd' else fcntl.F_SETLK, lock)
print('held', flush=True)
sys.stdin.read()
`;
      const holder = spawn('python3', ['-c', script, at(kind), kind], { stdio: ['pipe', 'pipe', 'inherit'] });
      await once(holder.stdout, 'data');
      await expect(files.lock(at(kind), 'mine')).rejects.toMatchObject({
        code: 'LOCKED',
        message: expect.stringContaining(`process ${holder.pid}`),
      });
      holder.stdin.end();
      await once(holder, 'exit');
      await (await files.lock(at(kind), 'mine')).release();
    }
  });

  it('reports what the rights forbid', async () => {
    if (process.getuid?.() === 0) return;
    mkdirSync(at('locked'));
    chmodSync(at('locked'), 0o500);
    await expect(files.writeAtomic(at('locked', 'f'), '')).rejects.toMatchObject({ code: 'IO', errno: 13 });
  });

  const fail = (call: FileCall, errno: number, skip = 0) => setFault(call, skip, 1, errno, 0);
  afterEach(clearFaults);

  describe('that fail halfway', () => {
    it('leave the old content and no temporary file, whichever step fails', async () => {
      writeFileSync(at('f'), 'old');
      for (const [call, errno, code] of [
        ['open', EMFILE, 'LIMIT'],
        ['ftruncate', EIO, 'IO'],
        ['pwritev', ENOSPC, 'NO_SPACE'],
        ['fdatasync', EIO, 'IO'],
        ['rename', EIO, 'IO'],
      ] as const) {
        fail(call, errno);
        await expect(files.writeAtomic(at('f'), 'new')).rejects.toMatchObject({ code, errno });
        expect(readdirSync(dir)).toEqual(['f']);
        expect(readFileSync(at('f'), 'utf8')).toBe('old');
      }
      fail('fsync', EIO);
      await expect(files.writeAtomic(at('f'), 'new')).rejects.toMatchObject({ code: 'IO' });
      expect(readFileSync(at('f'), 'utf8')).toBe('new');
    });

    it('remove what createDurable made before the failure', async () => {
      for (const [call, skip] of [
        ['mkdir', 0],
        // The file, the folder, the folder's parent.
        ['fsync', 0],
        ['fsync', 1],
        ['fsync', 2],
        ['open', 0],
        ['open', 1],
        // The empty file, the folder to be synced, its parent.
        ['open', 2],
        ['open', 3],
        ['pwritev', 0],
      ] as const) {
        fail(call, EIO, skip);
        const made = files.createDurable(at('t-0/partition.metadata'), 'x', at('t-0/empty'));
        await expect(made).rejects.toMatchObject({
          errno: EIO,
        });
        expect([call, skip, readdirSync(dir)]).toEqual([call, skip, []]);
      }
      await files.createDurable(at('t-0/partition.metadata'), 'x', at('t-0/empty'));
      expect(readdirSync(at('t-0'))).toEqual(['empty', 'partition.metadata']);
    });

    it('report failing removals, renames, listings and looks', async () => {
      writeFileSync(at('f'), 'old');
      for (const [call, failing] of [
        ['unlink', () => files.remove(at('f'))],
        ['unlink', () => files.removeTree(at('f'))],
        ['rename', () => files.rename(at('f'), at('g'))],
        ['list', () => files.list(dir)],
        ['stat', () => files.exists(dir)],
        ['mkdir', () => files.mkdir(at('x'))],
        ['pread', () => files.read(at('f'))],
        ['fstat', () => files.read(at('f'))],
      ] as const) {
        fail(call, EIO);
        await expect(failing()).rejects.toMatchObject({ code: 'IO', errno: EIO });
      }
      await files.mkdir(at('tree/a'));
      fail('rmdir', EIO);
      await expect(files.removeTree(at('tree'))).rejects.toMatchObject({ errno: EIO });
      await files.removeTree(at('tree'));
      expect(readFileSync(at('f'), 'utf8')).toBe('old');
    });
  });
});

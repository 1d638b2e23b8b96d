import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { NativeFiles } from '../../src/log/native-files.ts';
import { addon } from '../../src/native.ts';
import { codeOf, type FileAct, nativeTesting } from '../support/native-testing.ts';

const EIO = 5;
const EINTR = 4;
const EAGAIN = 11;
const EMFILE = 24;
const ENOSPC = 28;
const EPIPE = 32;
const ENOSYS = 38;
const EOPNOTSUPP = 95;
const EDQUOT = 122;

const native = nativeTesting();
let dir: string;
const at = (name: string) => join(dir, name);

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'broadsheet-file-'));
});
afterEach(() => {
  native.clearFaults();
  rmSync(dir, { recursive: true, force: true });
});

/** Fails the next call of that name. */
function fail(call: string, errno: number, skip = 0, times = 1) {
  expect(native.setFault(call, skip, times, errno, 0)).toBe(0);
}

function opened(content: Uint8Array | string = '', name = 'f'): number {
  writeFileSync(at(name), content);
  const file = native.openFile(at(name), 'read-write');
  expect(file).toBeGreaterThan(0);
  return file;
}

function pattern(length: number): Uint8Array {
  return Uint8Array.from({ length }, (_, i) => (i * 31 + (i >> 8)) & 0xff);
}

describe('File', () => {
  it('opens in each mode', () => {
    expect(codeOf(native.openFile(at('a'), 'read'))).toBe('NOT_FOUND');
    expect(codeOf(native.openFile(at('a'), 'read-write'))).toBe('NOT_FOUND');
    expect(readdirSync(dir)).toEqual([]);
    expect(native.openFile(at('a'), 'create-new')).toBeGreaterThan(0);
    expect(codeOf(native.openFile(at('a'), 'create-new'))).toBe('IO');
    expect(addon().lastStatus()).toMatchObject({ code: 'IO', errno: 17 });
    expect(addon().lastStatus().context).toContain(at('a'));
    expect(native.openFile(at('a'), 'create')).toBeGreaterThan(0);
    expect(native.openFile(at('b'), 'create')).toBeGreaterThan(0);
    expect(statSync(at('b')).mode & 0o777).toBe(0o644);
    const readOnly = native.openFile(at('a'), 'read');
    expect(codeOf(native.write(readOnly, [Buffer.from('x')], 0))).toBe('IO');
    expect(codeOf(native.openFile(`${dir}/a\0b`, 'create'))).toBe('INVALID_ARGUMENT');
    expect(codeOf(native.openFile('', 'create'))).toBe('INVALID_ARGUMENT');
  });

  it('tells when there is no descriptor left', () => {
    fail('open', EMFILE);
    expect(codeOf(native.openFile(at('a'), 'create'))).toBe('LIMIT');
  });

  it('is gone once closed, in every call', () => {
    const file = opened('abc');
    expect(native.closeFile(file)).toBe(true);
    expect(native.closeFile(file)).toBe(false);
    const acts: FileAct[] = ['size', 'resident', 'fdatasync', 'fsync', 'truncate', 'reserve'];
    const results = [
      ...acts.map((act) => native.act(file, act, 0, 1)),
      native.read(file, new Uint8Array(1), 0, 'all'),
      native.write(file, [], 0),
      native.send(file, 0, 0, 1),
    ];
    expect(new Set(results.map(codeOf))).toEqual(new Set(['CLOSED']));
  });

  it('reads all, some, and what is cached', () => {
    const bytes = pattern(10_000);
    const file = opened(bytes);
    for (const how of ['all', 'some', 'cached'] as const) {
      const buffer = new Uint8Array(5_000);
      expect(native.read(file, buffer, 1_234, how)).toBe(5_000);
      expect(buffer).toEqual(bytes.subarray(1_234, 6_234));
    }
    const buffer = new Uint8Array(100);
    expect(native.read(file, buffer, 9_950, 'some')).toBe(50);
    expect(native.read(file, buffer, 9_950, 'cached')).toBe(50);
    expect(native.read(file, buffer, 20_000, 'some')).toBe(0);
    expect(codeOf(native.read(file, buffer, 9_950, 'all'))).toBe('CORRUPT');
    expect(addon().lastStatus().context).toContain('it ends at 10000');
  });

  it('goes on after short and interrupted reads', () => {
    const bytes = pattern(1_000);
    const file = opened(bytes);
    const buffer = new Uint8Array(1_000);
    native.setFault('pread', 0, 5, 0, 7);
    expect(native.read(file, buffer, 0, 'all')).toBe(1_000);
    expect(buffer).toEqual(bytes);
    buffer.fill(0);
    native.setFault('preadv2', 0, 5, 0, 7);
    expect(native.read(file, buffer, 0, 'cached')).toBe(1_000);
    expect(buffer).toEqual(bytes);
    fail('pread', EINTR, 0, 3);
    expect(native.read(file, buffer, 0, 'some')).toBe(1_000);
    fail('pread', EIO);
    expect(codeOf(native.read(file, buffer, 0, 'all'))).toBe('IO');
    expect(addon().lastStatus()).toMatchObject({ errno: EIO });
  });

  it('says cold instead of waiting, and where nobody can tell', () => {
    const bytes = pattern(1_000);
    const file = opened(bytes);
    const buffer = new Uint8Array(1_000);
    fail('preadv2', EAGAIN);
    expect(codeOf(native.read(file, buffer, 0, 'cached'))).toBe('COLD');
    for (const errno of [EOPNOTSUPP, ENOSYS]) {
      fail('preadv2', errno);
      fail('fstatfs', EIO);
      expect(codeOf(native.read(file, buffer, 0, 'cached'))).toBe('COLD');
    }
    native.clearFaults();
    fail('preadv2', EIO);
    expect(codeOf(native.read(file, buffer, 0, 'cached'))).toBe('IO');
  });

  it.runIf(existsSync('/dev/shm'))('reads what has no disk to wait for', () => {
    const folder = mkdtempSync('/dev/shm/broadsheet-file-');
    try {
      writeFileSync(`${folder}/f`, 'abc');
      const file = native.openFile(`${folder}/f`, 'read');
      fail('preadv2', EOPNOTSUPP);
      expect(native.read(file, new Uint8Array(3), 0, 'cached')).toBe(3);
      native.closeFile(file);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  it('tells what lies in the page cache', () => {
    const file = opened(pattern(100_000));
    expect(native.act(file, 'resident', 0, 100_000)).toBe(1);
    // Where the file ends, in the page and behind it.
    expect(native.act(file, 'resident', 99_999, 1)).toBe(1);
    expect(native.act(file, 'resident', 99_999, 2)).toBe(0);
    expect(native.act(file, 'resident', 200_000, 50)).toBe(0);
    // What cannot be read is not there.
    fail('preadv2', EIO);
    expect(native.act(file, 'resident', 0, 100_000)).toBe(0);
    // The kernel counts pages, and is asked about the last byte: each can say no.
    fail('preadv2', EAGAIN);
    expect(native.act(file, 'resident', 0, 100_000)).toBe(0);
    fail('preadv2', EAGAIN, 1);
    expect(native.act(file, 'resident', 0, 100_000)).toBe(0);
    // Without cachestat each page is asked for, the last one first.
    fail('cached_pages', ENOSYS, 0, 100);
    expect(native.act(file, 'resident', 0, 100_000)).toBe(1);
    fail('preadv2', EAGAIN, 24);
    expect(native.act(file, 'resident', 0, 100_000)).toBe(0);
    native.clearFaults();
    fail('cached_pages', ENOSYS, 0, 100);
    fail('preadv2', EAGAIN, 25);
    expect(native.act(file, 'resident', 0, 100_000)).toBe(1);
  });

  it('writes many parts, past IOV_MAX, empty ones too', () => {
    const file = opened();
    const bytes = pattern(6_000);
    const parts = Array.from({ length: 3_000 }, (_, i) => bytes.subarray(i * 2, i * 2 + 2));
    parts.splice(1_500, 0, new Uint8Array(0));
    parts.push(new Uint8Array(0));
    expect(native.write(file, parts, 10)).toBe(0);
    expect(readFileSync(at('f')).subarray(10)).toEqual(Buffer.from(bytes));
    expect(native.write(file, [], 0)).toBe(0);
    expect(native.act(file, 'size', 0, 0)).toBe(6_010);
  });

  it('goes on after short and interrupted writes, wherever they break off', () => {
    const bytes = pattern(100);
    for (let limit = 1; limit < 40; limit += 3) {
      const file = opened();
      native.setFault('pwritev', 0, 3, 0, limit);
      expect(native.write(file, [bytes.subarray(0, 10), bytes.subarray(10, 11), bytes.subarray(11)], 0)).toBe(
        0,
      );
      expect(readFileSync(at('f'))).toEqual(Buffer.from(bytes));
      native.closeFile(file);
    }
    const file = opened();
    fail('pwritev', EINTR, 0, 2);
    expect(native.write(file, [bytes], 0)).toBe(0);
    expect(readFileSync(at('f'))).toEqual(Buffer.from(bytes));
  });

  it('fails a write that moves nothing, or that the kernel refuses', () => {
    const file = opened();
    native.setFault('pwritev', 0, 1, 0, 0);
    expect(codeOf(native.write(file, [Buffer.from('x')], 0))).toBe('IO');
    for (const [errno, code] of [
      [ENOSPC, 'NO_SPACE'],
      [EDQUOT, 'NO_SPACE'],
      [EIO, 'IO'],
    ] as const) {
      fail('pwritev', errno);
      expect(codeOf(native.write(file, [Buffer.from('x')], 0))).toBe(code);
      expect(addon().lastStatus()).toMatchObject({ code, errno });
    }
  });

  it('syncs, truncates and gives hints', () => {
    const file = opened('0123456789');
    for (const act of ['fdatasync', 'fsync', 'start-writeback', 'will-need'] as const) {
      expect(native.act(file, act, 0, 10)).toBe(0);
    }
    expect(native.act(file, 'truncate', 0, 4)).toBe(0);
    expect(readFileSync(at('f'), 'utf8')).toBe('0123');
    expect(native.act(file, 'reserve', 0, 1 << 20)).toBe(0);
    expect(statSync(at('f')).size).toBe(4);
  });

  it('reports failing syncs and truncations; a hint only when it matters', () => {
    const file = opened('0123456789');
    for (const [act, call] of [
      ['fdatasync', 'fdatasync'],
      ['fsync', 'fsync'],
      ['truncate', 'ftruncate'],
      ['size', 'fstat'],
      ['start-writeback', 'sync_file_range'],
      ['will-need', 'fadvise'],
      ['reserve', 'fallocate'],
    ] as const) {
      fail(call, EIO);
      expect([act, codeOf(native.act(file, act, 0, 5))]).toEqual([act, 'IO']);
      expect(addon().lastStatus()).toMatchObject({ errno: EIO });
    }
    for (const [act, call] of [
      ['start-writeback', 'sync_file_range'],
      ['will-need', 'fadvise'],
      ['reserve', 'fallocate'],
    ] as const) {
      fail(call, EOPNOTSUPP);
      expect(native.act(file, act, 0, 5)).toBe(0);
    }
    fail('fallocate', ENOSPC);
    expect(codeOf(native.act(file, 'reserve', 0, 5))).toBe('NO_SPACE');
    expect(codeOf(native.setFault('no such call', 0, 1, EIO, 0))).toBe('INVALID_ARGUMENT');
  });
});

describe('File.send_to', () => {
  let server: Server;
  let sending: Socket;
  let receiving: Socket;

  beforeEach(async () => {
    server = createServer({ pauseOnConnect: true });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const accepted = new Promise<Socket>((resolve) => server.once('connection', resolve));
    receiving = connect((server.address() as { port: number }).port, '127.0.0.1');
    receiving.pause();
    sending = await accepted;
  });
  afterEach(() => {
    sending.destroy();
    receiving.destroy();
    server.close();
  });
  const descriptor = () => (sending as unknown as { _handle: { fd: number } })._handle.fd;

  it('sends a range, and tells when the socket takes no more', async () => {
    const bytes = pattern(8 << 20);
    const file = opened(bytes);
    let position = 1_000;
    for (;;) {
      const sent = native.send(file, descriptor(), position, bytes.length - position);
      expect(sent).toBeGreaterThanOrEqual(0);
      if (sent === 0) break;
      position += sent;
    }
    expect(position).toBeLessThan(bytes.length);
    sending.end();
    const chunks: Buffer[] = [];
    for await (const chunk of receiving) chunks.push(chunk);
    expect(Buffer.concat(chunks).equals(bytes.subarray(1_000, position))).toBe(true);
  });

  it('takes the end of the file for an error, not for a socket that takes nothing', () => {
    const file = opened('0123456789');
    expect(native.send(file, descriptor(), 5, 100)).toBe(5);
    expect(codeOf(native.send(file, descriptor(), 10, 100))).toBe('CORRUPT');
    expect(addon().lastStatus().context).toContain('ends before 10');
  });

  it('goes on when interrupted and tells a peer that is gone', () => {
    const file = opened('0123456789');
    fail('sendfile', EINTR, 0, 3);
    expect(native.send(file, descriptor(), 0, 4)).toBe(4);
    native.setFault('sendfile', 0, 1, 0, 2);
    expect(native.send(file, descriptor(), 0, 4)).toBe(2);
    fail('sendfile', EAGAIN);
    expect(native.send(file, descriptor(), 0, 4)).toBe(0);
    fail('sendfile', EPIPE);
    expect(codeOf(native.send(file, descriptor(), 0, 4))).toBe('IO');
    expect(addon().lastStatus()).toMatchObject({ errno: EPIPE });
  });
});

describe('a lock that fails', () => {
  it('is reported', async () => {
    fail('lock', EIO);
    await expect(new NativeFiles().lock(at('f'), '')).rejects.toMatchObject({ code: 'IO', errno: EIO });
  });
});

/** File ranges: both paths, mixed with bytes, cold, deleted, cut short. */
import { mkdtempSync, rmSync, truncateSync, unlinkSync, writeFileSync } from 'node:fs';
import type { Socket } from 'node:net';
import { constants, tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Transport } from '../../src/broker/transport.ts';
import { nativeRanges } from '../../src/log/native-ranges.ts';
import type { Part } from '../../src/protocol/part.ts';
import { chill, closeSegment, openSegment } from '../support/native-files.ts';
import { nativeTesting } from '../support/native-testing.ts';
import { frame, open, Recorder, read, readToEnd, until } from '../support/sockets.ts';
import { makeTransport, TRANSPORTS, type TransportName } from '../support/transports.ts';

const SIZE = 8 << 20;

let dir: string;
let path: string;
let segment: number;
let transport: Transport;
let handler: Recorder;
let socket: Socket;

function bytes(size: number, seed: number): Buffer {
  const out = Buffer.allocUnsafe(size);
  for (let i = 0; i + 4 <= size; i += 4) {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
    out.writeUInt32LE(seed, i);
  }
  return out;
}

const content = bytes(SIZE, 1);

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'broadsheet-files-'));
  path = join(dir, '00000000000000000000.log');
  writeFileSync(path, content);
  segment = openSegment(path);
});
afterEach(async () => {
  socket.destroy();
  await transport.close(0);
  closeSegment(segment);
  rmSync(dir, { recursive: true });
});

type FetchPath = 'sendfile' | 'copy' | 'auto';

async function begin(name: TransportName, fetchPath: FetchPath, maxQueuedBytes = 64 << 20): Promise<void> {
  transport = makeTransport(name, {
    maxFrameBytes: 1 << 20,
    maxQueuedBytes,
    fetchPath,
    sendBufferBytes: -1,
    receiveBufferBytes: -1,
  });
  handler = new Recorder();
  handler.transport = transport;
  const { port } = await transport.listen('127.0.0.1', 0);
  transport.start(handler);
  socket = await open(port);
}

const WAYS: [TransportName, FetchPath][] = [
  ['native', 'sendfile'],
  ['native', 'copy'],
  ['js', 'auto'],
];

describe.each(WAYS)('transport=%s: file ranges by %s', (name, fetchPath) => {
  it('arrive as they are, between bytes, in order', async () => {
    await begin(name, fetchPath);
    const parts: Part[] = [];
    const expected: Buffer[] = [];
    let seed = 7;
    for (let i = 0; i < 200; i++) {
      seed = (Math.imul(seed, 1103515245) + 12345) & 0x7fffffff;
      const length = 1 + (seed % [3, 500, 70_000, 400_000][i % 4]!);
      const position = seed % (SIZE - length);
      if (seed & 64) {
        parts.push({ source: nativeRanges, segment, position, length });
        expected.push(content.subarray(position, position + length));
      } else {
        const own = bytes(length, seed);
        parts.push(own);
        expected.push(own);
      }
    }
    handler.answer = () => parts;
    const whole = Buffer.concat(expected);
    const answer = read(socket, 2 * whole.length);
    socket.write(Buffer.concat([frame('1'), frame('2')]));
    expect((await answer).equals(Buffer.concat([whole, whole]))).toBe(true);
    const stats = transport.stats();
    expect(stats.bytesQueued).toBe(0);
    expect(stats.bytesSent).toBe(2 * whole.length);
    expect(fetchPath === 'sendfile' ? stats.bytesByCopy : stats.bytesBySendfile).toBe(0);
    expect(fetchPath === 'sendfile' ? stats.bytesBySendfile : stats.bytesByCopy).toBeGreaterThan(1 << 20);
  });

  it('are read ahead when cold', async () => {
    await begin(name, fetchPath);
    handler.answer = () => [
      Buffer.from('head'),
      { source: nativeRanges, segment, position: 1_000_001, length: 5_000_000 },
    ];
    chill(path);
    const answer = read(socket, 5_000_004);
    socket.write(frame('x'));
    expect((await answer).subarray(4).equals(content.subarray(1_000_001, 6_000_001))).toBe(true);
  });

  it('of a deleted file are sent, also once the log has closed it', async () => {
    await begin(name, fetchPath);
    handler.answer = () => {
      handler.transport!.send(handler.frames.at(-1)!.connection, [
        { source: nativeRanges, segment, position: 0, length: SIZE },
      ]);
      unlinkSync(path);
      closeSegment(segment);
      return undefined;
    };
    const answer = read(socket, SIZE);
    socket.write(frame('x'));
    expect((await answer).equals(content)).toBe(true);
  });

  it.each([0, 1_000_000])(
    'close the connection when the file was cut to %i bytes underneath',
    async (left) => {
      await begin(name, fetchPath);
      handler.answer = () => [{ source: nativeRanges, segment, position: 0, length: SIZE }];
      truncateSync(path, left);
      const answer = readToEnd(socket);
      socket.write(frame('x'));
      expect((await answer).length).toBeLessThanOrEqual(left);
      await until(() => handler.closed.length === 1);
      expect(handler.closed[0]!.reason).toBe('error');
      expect(transport.stats().bytesQueued).toBe(0);
    },
  );

  it('cost little while a peer does not read, and its reads stop', async () => {
    await begin(name, fetchPath, 16 << 20);
    handler.answer = () => [{ source: nativeRanges, segment, position: 0, length: SIZE }];
    socket.pause();
    const before = process.memoryUsage().rss;
    for (let i = 0; i < 12; i++) {
      socket.write(frame('x'));
      await new Promise((resolve) => setImmediate(resolve));
    }
    await until(() => transport.stats().bytesQueued > 16 << 20);
    const { frames } = handler;
    const rss = process.memoryUsage().rss - before;
    expect(rss).toBeLessThan(32 << 20);
    const answer = read(socket, 12 * SIZE);
    expect((await answer).length).toBe(12 * SIZE);
    expect(frames).toHaveLength(12);
  });

  it('survive a peer that goes away in the midst', async () => {
    await begin(name, fetchPath);
    handler.answer = () => [{ source: nativeRanges, segment, position: 0, length: SIZE }];
    socket.pause();
    socket.write(Buffer.concat([frame('x'), frame('y')]));
    await until(() => handler.frames.length === 2);
    socket.resetAndDestroy();
    await until(() => handler.closed.length === 1);
    expect(handler.closed[0]!.reason).toBe('reset');
  });
});

describe('sendfile of 2 MiB', () => {
  const EAGAIN = constants.errno.EAGAIN;
  const native = nativeTesting();
  const SENT = 2 << 20;
  afterEach(() => native.clearFaults());

  async function sent(): Promise<{ bySendfile: number; byCopy: number }> {
    const answer = read(socket, SENT);
    socket.write(frame('x'));
    expect((await answer).equals(content.subarray(0, SENT))).toBe(true);
    const { bytesBySendfile, bytesByCopy } = transport.stats();
    return { bySendfile: bytesBySendfile, byCopy: bytesByCopy };
  }

  beforeEach(async () => {
    await begin('native', 'sendfile');
    handler.answer = () => [{ source: nativeRanges, segment, position: 0, length: SENT }];
  });

  it('takes a shorter piece when what a tick may send is not all warm', async () => {
    native.setFault('preadv2', 0, 1, EAGAIN, 0);
    expect(await sent()).toEqual({ bySendfile: SENT, byCopy: 0 });
  });

  it('waits for a read of that piece when it is cold too, and then goes on', async () => {
    native.setFault('preadv2', 0, 2, EAGAIN, 0);
    expect(await sent()).toEqual({ bySendfile: SENT - (256 << 10), byCopy: 256 << 10 });
  });

  it('goes on behind a call that took less', async () => {
    native.setFault('sendfile', 0, 5, 0, 1_000);
    expect(await sent()).toEqual({ bySendfile: SENT, byCopy: 0 });
  });

  it('closes the connection when a call fails', async () => {
    native.setFault('sendfile', 1, 1, constants.errno.EIO, 0);
    socket.write(frame('x'));
    expect((await readToEnd(socket)).length).toBeLessThan(SENT);
    await until(() => handler.closed.length === 1);
    expect(handler.closed[0]!.reason).toBe('error');
    expect(transport.stats().bytesQueued).toBe(0);
  });
});

it('auto copies short ranges and sends long ones by sendfile', async () => {
  await begin('native', 'auto');
  handler.answer = (_connection, body) => [
    { source: nativeRanges, segment, position: 0, length: Number(body) },
  ];
  socket.write(Buffer.concat([frame('32768'), frame('32769')]));
  const answer = await read(socket, 32768 + 32769);
  expect(answer.equals(Buffer.concat([content.subarray(0, 32768), content.subarray(0, 32769)]))).toBe(true);
  expect(transport.stats()).toMatchObject({ bytesByCopy: 32768, bytesBySendfile: 32769 });
});

it.each(TRANSPORTS)('transport=%s closes a connection whose range names no open file', async (name) => {
  await begin(name, 'auto');
  handler.answer = () => [{ source: nativeRanges, segment: 999_999, position: 0, length: 10 }];
  socket.write(frame('x'));
  await readToEnd(socket);
  await until(() => handler.closed.length === 1);
  expect(handler.closed[0]!.reason).toBe('error');
});

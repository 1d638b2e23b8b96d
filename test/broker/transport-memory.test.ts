/** What a transport holds on to: for peers that take nothing, for large frames, for connections that are gone. */
import { type ChildProcess, spawn } from 'node:child_process';
import { connect, type Socket } from 'node:net';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { afterEach, describe, expect, it } from 'vitest';
import type { Transport } from '../../src/broker/transport.ts';
import { nativeTesting } from '../support/native-testing.ts';
import { FULL_SIZE, scaled } from '../support/scale.ts';
import { frame, lengthOnly, open, Recorder, read, until } from '../support/sockets.ts';
import type { Held } from '../support/transport-server.ts';
import { makeTransport, TRANSPORTS, type TransportName } from '../support/transports.ts';

const MIB = 1 << 20;
const typescript = ['--import', new URL('../../scripts/typescript.js', import.meta.url).href];
const server = fileURLToPath(new URL('../support/transport-server.ts', import.meta.url));

let child: ChildProcess | undefined;
afterEach(() => {
  child?.kill('SIGKILL');
  child = undefined;
});

/** What a process of transport-server.ts in this mode gains with each of `count` connections, bytes. */
async function gainOf(name: TransportName, mode: 'weigh' | 'leak', count: number) {
  child = spawn(process.execPath, ['--expose-gc', ...typescript, server, name, mode], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const lines = createInterface({ input: child.stdout! })[Symbol.asyncIterator]();
  const port = Number((await lines.next()).value);
  const weigh = async (): Promise<Held> => {
    for (;;) {
      child!.stdin!.write('\n');
      const held = JSON.parse((await lines.next()).value as string) as Held;
      if (held.connections === 0) return held;
    }
  };
  // In turns: a whole frame; a piece of a long one; a bad length; nothing.
  const says = [
    frame(Buffer.alloc(50_000)),
    Buffer.concat([lengthOnly(900_000), Buffer.alloc(20_000)]),
    lengthOnly(-1),
    Buffer.alloc(0),
  ];
  const visit = (bytes: Buffer) =>
    new Promise<void>((resolve) => {
      const visitor = connect(port, '127.0.0.1');
      visitor.on('error', () => {});
      visitor.on('data', () => visitor.destroy());
      visitor.on('connect', () => {
        if (bytes.length === 50_004) visitor.write(bytes);
        else visitor.end(bytes);
      });
      visitor.on('end', () => visitor.destroy());
      visitor.on('close', () => resolve());
    });
  const visits = async (times: number) => {
    for (let at = 0; at < times; at += 100) {
      await Promise.all(Array.from({ length: 100 }, (_, i) => visit(says[i % says.length]!)));
    }
  };
  await visits(2_000);
  const before = await weigh();
  await visits(count);
  const after = await weigh();
  return {
    js: (after.js - before.js) / count,
    buffers: (after.buffers - before.buffers) / count,
    native: (after.native - before.native) / count,
  };
}

describe.each(TRANSPORTS)('transport=%s', (name) => {
  let transport: Transport | undefined;
  let socket: Socket | undefined;

  afterEach(async () => {
    socket?.destroy();
    await transport?.close(0);
    transport = socket = undefined;
  });

  async function begin(): Promise<Recorder> {
    transport = makeTransport(name, {
      maxFrameBytes: 8 * MIB,
      maxQueuedBytes: MIB,
      fetchPath: 'auto',
      sendBufferBytes: -1,
      receiveBufferBytes: -1,
    });
    const handler = new Recorder();
    handler.transport = transport;
    handler.keep = false;
    const { port } = await transport.listen('127.0.0.1', 0);
    transport.start(handler);
    socket = await open(port);
    return handler;
  }

  describe('a peer that takes nothing', () => {
    it('is closed once what is sent to it anyway fills its bound and 64 MiB', async () => {
      const handler = await begin();
      socket!.pause();
      await until(() => handler.accepted.length === 1);
      const { connection } = handler.accepted[0]!;
      const part = Buffer.alloc(MIB, 1);
      // All before the first flush, so that nothing of it leaves.
      for (let i = 0; i < 66; i++) transport!.send(connection, [part]);
      expect(transport!.stats()).toMatchObject({ connections: 1, bytesQueued: 66 * MIB });
      transport!.send(connection, [part]);
      expect(transport!.stats()).toMatchObject({ connections: 0, bytesQueued: 0 });
      transport!.send(connection, [part]);
      await until(() => handler.closed.length > 0);
      expect(handler.closed).toEqual([{ connection, reason: 'send-overflow' }]);
      expect(transport!.stats().bytesQueued).toBe(0);
    });
  });

  describe('steady traffic of large frames', () => {
    it('allocates a few buffers, and then none', async () => {
      const handler = await begin();
      handler.answer = () => [Buffer.of(1)];
      const request = frame(Buffer.alloc(MIB, 2));
      const exchange = async (times: number) => {
        for (let i = 0; i < times; i++) {
          socket!.write(request);
          await read(socket!, 1);
        }
      };
      await exchange(scaled(60, 1_000));
      // One frame grows through at most 8 sizes of buffer and holds two at a time. Each frame needs at least one.
      const { buffersAllocated, bytesPartial } = transport!.stats();
      expect(buffersAllocated).toBeGreaterThan(0);
      expect(buffersAllocated).toBeLessThanOrEqual(16);
      expect(bytesPartial).toBe(0);
    });

    it('gives up what an idle time did not need', async () => {
      const handler = await begin();
      handler.answer = () => [Buffer.of(1)];
      const request = frame(Buffer.alloc(MIB, 2));
      const exchange = async () => {
        socket!.write(request);
        await read(socket!, 1);
        return transport!.stats().buffersAllocated;
      };
      for (let i = 0; i < 10; i++) await exchange();
      const before = transport!.stats().buffersAllocated;
      // The first only notes what was free all the time.
      transport!.closeIdle(1_000_000);
      transport!.closeIdle(1_000_000);
      expect(await exchange()).toBeGreaterThan(before);
    });
  });

  // In the small size test/budgets/ looks at those of the JS transport.
  describe.each(name === 'native' || FULL_SIZE ? ['connections that are gone'] : [])('%s', () => {
    it('leave no memory behind', async () => {
      const { js, buffers, native } = await gainOf(name, 'weigh', scaled(8_000, 40_000));
      // Less than any object of a connection takes.
      expect(js).toBeLessThan(100);
      expect(native).toBeLessThan(100);
      // The pool of buffers comes and goes, by 3 MiB; a kept piece of a frame would be 5,000 bytes a connection.
      expect(buffers).toBeLessThan(1_000);
    });
  });
});

it('connections that leave a little behind are noticed', async () => {
  const { js, native } = await gainOf('native', 'leak', 4_000);
  expect(js).toBeGreaterThan(100);
  // The sanitizers' malloc() does not count.
  if (nativeTesting().allocatedBytes() > 0) expect(native).toBeGreaterThan(100);
});

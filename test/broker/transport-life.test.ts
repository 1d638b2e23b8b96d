/** The life of a transport: exceptions, closing, workers, processes, descriptors that run out. */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';
import { afterEach, describe, expect, it } from 'vitest';
import type { Transport, TransportOptions } from '../../src/broker/transport.ts';
import { frame, open, Recorder, read, readToEnd, until } from '../support/sockets.ts';
import { makeTransport, TRANSPORTS } from '../support/transports.ts';

const OPTIONS: TransportOptions = {
  maxFrameBytes: 1 << 20,
  maxQueuedBytes: 1 << 20,
  fetchPath: 'auto',
  sendBufferBytes: -1,
  receiveBufferBytes: -1,
};
const typescript = ['--import', new URL('../../scripts/typescript.js', import.meta.url).href];
const server = fileURLToPath(new URL('../support/transport-server.ts', import.meta.url));

describe.each(TRANSPORTS)('transport=%s', (name) => {
  const opened: Transport[] = [];
  async function begin(): Promise<{ transport: Transport; handler: Recorder; port: number }> {
    const transport = makeTransport(name, OPTIONS);
    opened.push(transport);
    const handler = new Recorder();
    handler.transport = transport;
    handler.answer = (_connection, body) => [frame(body)];
    const { port } = await transport.listen('127.0.0.1', 0);
    transport.start(handler);
    return { transport, handler, port };
  }
  afterEach(async () => {
    for (const transport of opened.splice(0)) await transport.close(0);
  });

  const descriptors = () => readdirSync('/proc/self/fd').length;

  describe('listening', () => {
    it('names a taken port', async () => {
      const { port, transport } = await begin();
      await expect(transport.listen('127.0.0.1', port)).rejects.toThrow(
        expect.objectContaining({ code: 'ADDRESS_IN_USE' }),
      );
    });

    it('names a host that does not exist, and an address of another machine', async () => {
      const { transport } = await begin();
      await expect(transport.listen('no-such-host.invalid', 0)).rejects.toThrow(
        expect.objectContaining({ code: 'NOT_FOUND' }),
      );
      await expect(transport.listen('192.0.2.1', 0)).rejects.toThrow(expect.objectContaining({ code: 'IO' }));
    });

    it('takes several listeners, by name and address', async () => {
      const { transport, handler } = await begin();
      const named = await transport.listen('localhost', 0);
      const everywhere = await transport.listen('', 0);
      const everyAddressOfBothFamilies = await transport.listen('::', 0);
      for (const { listener, port } of [named, everywhere, everyAddressOfBothFamilies]) {
        const socket = await open(port);
        socket.write(frame('x'));
        await read(socket, 5);
        expect(handler.accepted.at(-1)!.peer.listener).toBe(listener);
        socket.destroy();
      }
    });

    it('lets a crowd in within a few passes, however much others send', async () => {
      const { handler, port } = await begin();
      const crowd: Socket[] = [];
      const passes = new Set<number>();
      handler.keep = false;
      handler.answer = () => {
        while (crowd.length < 40) crowd.push(connect(port, '127.0.0.1').on('error', () => {}));
        if (handler.accepted.length <= 40) passes.add(handler.ticks);
        return undefined;
      };
      const busy = await open(port);
      // A pass takes 256 of them.
      busy.write(Buffer.alloc(5 * 40_000, frame('x')));
      await until(() => handler.accepted.length === 41);
      expect(passes.size).toBeGreaterThan(0);
      expect(passes.size).toBeLessThan(8);
      for (const socket of [busy, ...crowd]) socket.destroy();
    });

    it('takes no connection while accepting is off, nor after closeListener', async () => {
      const { transport, handler, port } = await begin();
      transport.setAccepting(0, false);
      const socket = await open(port);
      socket.write(frame('x'));
      const other = await transport.listen('127.0.0.1', 0);
      const witness = await open(other.port);
      witness.write(frame('y'));
      await read(witness, 5);
      expect(handler.accepted).toHaveLength(1);
      transport.setAccepting(0, true);
      await read(socket, 5);
      transport.closeListener(0);
      const late = connect(port, '127.0.0.1');
      const [error] = (await once(late, 'error')) as [NodeJS.ErrnoException];
      expect(error.code).toBe('ECONNREFUSED');
      socket.destroy();
      witness.destroy();
    });
  });

  describe('a handler that throws', () => {
    it('costs its own event only: the host hears of it, the tick goes on', async () => {
      const { handler, port } = await begin();
      const errors: unknown[] = [];
      const listeners = process.listeners('uncaughtException');
      process.removeAllListeners('uncaughtException');
      process.on('uncaughtException', (error) => errors.push(error));
      try {
        handler.answer = (_connection, body) => {
          if (String(body) === 'bad') throw new Error('from the handler');
          return [frame(body)];
        };
        const socket = await open(port);
        socket.write(Buffer.concat([frame('a'), frame('bad'), frame('b'), frame('bad'), frame('c')]));
        expect(await read(socket, 15)).toEqual(Buffer.concat([frame('a'), frame('b'), frame('c')]));
        const ticks = handler.ticks;
        socket.write(frame('d'));
        await read(socket, 5);
        expect(handler.ticks).toBeGreaterThan(ticks);
        expect(errors.map(String)).toEqual(['Error: from the handler', 'Error: from the handler']);
        socket.destroy();
      } finally {
        process.removeAllListeners('uncaughtException');
        for (const listener of listeners) process.on('uncaughtException', listener);
      }
    });
  });

  describe('closing', () => {
    it('is idempotent, reports each connection, and makes every other call harmless', async () => {
      const { transport, handler, port } = await begin();
      const socket = await open(port);
      socket.write(frame('x'));
      await read(socket, 5);
      const [first, second] = [transport.close(0), transport.close(0)];
      await first;
      await second;
      expect(handler.closed.map((c) => c.reason)).toEqual(['local']);
      const { connection } = handler.accepted[0]!;
      transport.send(connection, [frame('late')]);
      transport.flush();
      transport.setReading(connection, false);
      transport.closeConnection(connection, true);
      transport.closeIdle(0);
      transport.setAccepting(0, true);
      transport.closeListener(0);
      expect(transport.stats().connections).toBe(0);
      await expect(transport.listen('127.0.0.1', 0)).rejects.toThrow(
        expect.objectContaining({ code: 'CLOSED' }),
      );
      socket.destroy();
    });

    it('lets answers leave first', async () => {
      const { transport, handler, port } = await begin();
      const body = Buffer.alloc(900_000, 1);
      handler.answer = (connection) => {
        for (let i = 0; i < 20; i++) transport.send(connection, [frame(body)]);
        void transport.close(20_000);
        return undefined;
      };
      const socket = await open(port);
      socket.pause();
      socket.write(frame('x'));
      await until(() => handler.frames.length === 1);
      expect((await readToEnd(socket.resume())).length).toBe(20 * 900_004);
      await transport.close(0);
      expect(handler.closed.map((c) => c.reason)).toEqual(['local']);
    });

    it('works without a start', async () => {
      const transport = makeTransport(name, OPTIONS);
      await transport.listen('127.0.0.1', 0);
      await transport.close(1_000);
      await transport.close(0);
    });

    it('leaves no descriptor behind over 20 lives, many at a time', async () => {
      await begin();
      const before = descriptors();
      for (let i = 0; i < 20; i++) {
        const all = [await begin(), await begin(), await begin()];
        await Promise.all(
          all.map(async ({ transport, port }) => {
            const socket = await open(port);
            socket.write(frame('x'));
            await read(socket, 5);
            await transport.close(0);
            socket.destroy();
            await until(() => socket.closed);
          }),
        );
      }
      await until(() => descriptors() <= before);
    });
  });

  describe('workers', () => {
    it('run a transport, and may be terminated in the midst of it', async () => {
      const before = descriptors();
      for (let i = 0; i < 3; i++) {
        const worker = new Worker(server, { execArgv: typescript, argv: [name] });
        const [{ port }] = (await once(worker, 'message')) as [{ port: number }];
        const socket = await open(port);
        socket.write(frame('hello'));
        expect(await read(socket, 9)).toEqual(frame('hello'));
        const ended = readToEnd(socket);
        socket.write(Buffer.concat(Array.from({ length: 1_000 }, () => frame('more'))));
        await worker.terminate();
        await ended;
        socket.destroy();
        await until(() => socket.closed);
      }
      // The first worker may leave descriptors of Node's own behind.
      await until(() => descriptors() <= before + 8);
    });

    it('end by themselves once it is closed', async () => {
      const worker = new Worker(server, { execArgv: typescript, argv: [name, 'close'] });
      const [code] = (await once(worker, 'exit')) as [number];
      expect(code).toBe(0);
    });
  });

  describe('processes', () => {
    it('end once the transport is closed, with nothing left over', () => {
      const { status, stderr } = spawnSync(process.execPath, [...typescript, server, name, 'close'], {
        encoding: 'utf8',
      });
      expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
    });

    it('live while it is open, and may exit in the midst of a tick', async () => {
      const child = spawn(process.execPath, [...typescript, server, name, 'exit'], {
        stdio: ['ignore', 'pipe', 'inherit'],
      });
      const [text] = (await once(child.stdout, 'data')) as [Buffer];
      const socket = await open(Number(text));
      socket.write(frame('hello'));
      expect(await read(socket, 9)).toEqual(frame('hello'));
      expect(child.exitCode).toBe(null);
      socket.write(frame('exit'));
      const [code] = (await once(child, 'exit')) as [number];
      expect(code).toBe(7);
      socket.destroy();
    });

    it('rest without descriptors: one event, no spinning, all are served later', async () => {
      const shell = `ulimit -n 64; exec "$0" "$@"`;
      const args = ['-c', shell, process.execPath, ...typescript, server, name, 'starve'];
      const child = spawn('bash', args, { stdio: ['ignore', 'pipe', 'inherit'] });
      let out = '';
      child.stdout.on('data', (chunk: Buffer) => {
        out += chunk;
      });
      await until(() => out.includes('\n'));
      const port = Number(out.split('\n')[0]);
      const sockets = await Promise.all(Array.from({ length: 100 }, () => open(port)));
      await until(() => out.includes('LIMIT'));
      const exchange = async (socket: Socket) => {
        if (socket.destroyed) throw new Error('turned away');
        socket.write(frame('x'));
        await read(socket, 5).finally(() => socket.destroy());
      };
      // Node turns away who comes meanwhile: those come again.
      const again = async (error: unknown) => {
        if (name === 'native') throw error;
        for (;;) {
          const served = await open(port)
            .then(exchange)
            .then(() => true)
            .catch(() => false);
          if (served) return;
        }
      };
      const waiting = sockets.map((socket) => exchange(socket).catch(again));
      await Promise.all(waiting);
      expect(out.match(/LIMIT/g)!.length).toBeLessThan(50);
      child.kill();
      await once(child, 'exit');
    });
  });
});

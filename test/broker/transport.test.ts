import { readdirSync } from 'node:fs';
import type { Socket } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Transport, TransportOptions } from '../../src/broker/transport.ts';
import { scaled } from '../support/scale.ts';
import { frame, lengthOnly, open, Recorder, read, readToEnd, unframe, until } from '../support/sockets.ts';
import { makeTransport, TRANSPORTS } from '../support/transports.ts';

const MAX = 100_000_000;
const OPTIONS: TransportOptions = {
  maxFrameBytes: MAX,
  maxQueuedBytes: 1 << 20,
  fetchPath: 'auto',
  sendBufferBytes: -1,
  receiveBufferBytes: -1,
};

describe.each(TRANSPORTS)('transport=%s', (name) => {
  let transport: Transport;
  let handler: Recorder;
  let port: number;
  let sockets: Socket[] = [];

  async function begin(options: Partial<TransportOptions> = {}): Promise<void> {
    transport = makeTransport(name, { ...OPTIONS, ...options });
    handler = new Recorder();
    handler.transport = transport;
    handler.answer = (_connection, body) => [frame(body)];
    ({ port } = await transport.listen('127.0.0.1', 0));
    transport.start(handler);
  }

  async function client(): Promise<Socket> {
    const socket = await open(port);
    sockets.push(socket);
    return socket;
  }

  async function restart(options: Partial<TransportOptions>): Promise<void> {
    await transport.close(0);
    await begin(options);
  }

  const descriptors = () => readdirSync('/proc/self/fd').length;

  beforeEach(() => begin());
  afterEach(async () => {
    for (const socket of sockets) socket.destroy();
    sockets = [];
    await transport.close(0);
  });

  describe('frames', () => {
    it('echoes one', async () => {
      const socket = await client();
      socket.write(frame('hello'));
      expect(await read(socket, 9)).toEqual(frame('hello'));
      expect(handler.accepted[0]!.peer).toMatchObject({
        listener: 0,
        remoteAddress: '127.0.0.1',
        remotePort: socket.localPort,
        localAddress: '127.0.0.1',
        localPort: port,
      });
    });

    it('finds the borders wherever the stream is cut in two', async () => {
      const stream = Buffer.concat([frame('a'), frame('bcd'), frame('efghijk')]);
      for (let cut = 1; cut < stream.length; cut++) {
        const socket = await client();
        const before = handler.frames.length;
        socket.write(stream.subarray(0, cut));
        const whole = [5, 12, 23].filter((end) => end <= cut).length;
        await until(() => handler.frames.length === before + whole && handler.accepted.length === cut);
        socket.write(stream.subarray(cut));
        expect(await read(socket, stream.length)).toEqual(stream);
        socket.destroy();
      }
      expect(transport.stats().bytesPartial).toBe(0);
    });

    it('takes a stream byte by byte', async () => {
      const socket = await client();
      const stream = Buffer.concat([frame('dribble'), frame('x'.repeat(300))]);
      const answer = read(socket, stream.length);
      for (const byte of stream) {
        await new Promise<void>((resolve) => socket.write(Buffer.of(byte), () => resolve()));
      }
      expect(await answer).toEqual(stream);
    });

    it('hands out 10,000 pipelined frames in order, at most 256 of a connection per tick', async () => {
      const socket = await client();
      const stream = Buffer.concat(Array.from({ length: 10_000 }, (_, i) => frame(`request ${i}`)));
      let inTick = 0;
      let most = 0;
      const { onFrame, onTickEnd } = handler;
      handler.onFrame = (...args) => {
        most = Math.max(most, ++inTick);
        onFrame.apply(handler, args);
      };
      handler.onTickEnd = () => {
        inTick = 0;
        onTickEnd.call(handler);
      };
      const answer = read(socket, stream.length);
      socket.write(stream);
      expect((await answer).equals(stream)).toBe(true);
      expect(most).toBe(256);
      expect(transport.stats().bytesPartial).toBe(0);
    });

    it('takes a frame of exactly the maximum', async () => {
      await restart({ maxFrameBytes: 3_000_000, maxQueuedBytes: 8 << 20 });
      const socket = await client();
      const body = Buffer.alloc(3_000_000, 7);
      const answer = read(socket, body.length + 4);
      socket.write(frame(body));
      expect((await answer).equals(frame(body))).toBe(true);
    });

    it.each([
      ['maximum + 1', lengthOnly(MAX + 1)],
      ['zero', lengthOnly(0)],
      ['-1', lengthOnly(-1)],
      ['-2^31', lengthOnly(-(2 ** 31))],
      ['2^31 - 1', lengthOnly(2 ** 31 - 1)],
      ['an HTTP request', Buffer.from('GET / HTTP/1.1\r\nHost: localhost:9092\r\n\r\n')],
      ['a TLS hello', Buffer.from('16030100c8010000c40303a1b2c3d4e5f60718293a4b5c6d7e8f', 'hex')],
    ])('refuses a length that is %s, after what came before it', async (_name, bytes) => {
      const socket = await client();
      const end = readToEnd(socket);
      socket.write(Buffer.concat([frame('good'), bytes]));
      expect(await end).toEqual(frame('good'));
      await until(() => handler.closed.length === 1);
      expect(handler.bad).toEqual([bytes.subarray(0, 64)]);
      expect(handler.closed[0]!.reason).toBe('bad-frame');
      expect(transport.stats().connections).toBe(0);
    });

    it('gives large frames whole, in any chopping, between small ones', async () => {
      handler.keep = false;
      await restart({ maxQueuedBytes: 64 << 20 });
      const socket = await client();
      const bodies = [5, 1_000_000, 17, 70_000, 3_000_000, 4_092, 4_093, 16_384, 1, 1_048_577, 9_000_000].map(
        (n, i) => Buffer.alloc(n, i + 1),
      );
      const stream = Buffer.concat(bodies.map(frame));
      const answer = read(socket, stream.length);
      socket.write(stream);
      expect((await answer).equals(stream)).toBe(true);
      expect(transport.stats()).toMatchObject({ bytesPartial: 0, bytesQueued: 0 });
    });

    it('keeps streams of large frames apart, chopped anywhere, with small ones between them', async () => {
      handler.keep = false;
      await restart({ maxQueuedBytes: 64 << 20 });
      let seed = 7;
      const random = (n: number) => {
        seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
        return Math.floor((seed / 2 ** 32) * n);
      };
      // No two places of it are alike for long, so that bytes which moved are seen.
      const pattern = Buffer.from(Array.from({ length: 251 }, () => random(256)));
      const sizes = [10, 4_000, 200_000, 300_000, 300_000, 600_000, 1_000_000, 1_100_000];
      await Promise.all(
        Array.from({ length: 4 }, async (_, c) => {
          const socket = await client();
          const bodies = Array.from({ length: scaled(16, 200) }, (_, i) => {
            // The first has nothing but large ones, back to back.
            const bytes = c === 0 ? 900_000 + i : 1 + random(sizes[random(sizes.length)]!);
            const body = Buffer.alloc(bytes, pattern);
            return body.fill(c * 16 + i, 0, Math.min(body.length, 100));
          });
          const stream = Buffer.concat(bodies.map(frame));
          const answer = read(socket, stream.length);
          for (let at = 0; at < stream.length; ) {
            const n = c === 0 ? stream.length : 1 + random([5_000, 200_000, 2_000_000][random(3)]!);
            socket.write(stream.subarray(at, at + n));
            at += n;
            if (random(2) === 0) await new Promise((resolve) => setImmediate(resolve));
          }
          expect((await answer).equals(stream)).toBe(true);
        }),
      );
      expect(transport.stats()).toMatchObject({ bytesPartial: 0, bytesQueued: 0 });
    });

    it('survives seeded chopping of many connections at once', async () => {
      let seed = 42;
      const random = (n: number) => {
        seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
        return Math.floor((seed / 2 ** 32) * n);
      };
      await Promise.all(
        Array.from({ length: 20 }, async (_, c) => {
          const socket = await client();
          const stream = Buffer.concat(
            Array.from({ length: 100 }, (_, i) =>
              frame(Buffer.alloc(1 + random([10, 300, 6_000, 120_000][random(4)]!), c + i)),
            ),
          );
          const answer = read(socket, stream.length);
          for (let at = 0; at < stream.length; ) {
            const n = 1 + random([3, 50, 5_000, 200_000][random(4)]!);
            socket.write(stream.subarray(at, at + n));
            at += n;
            if (random(3) === 0) await new Promise((resolve) => setImmediate(resolve));
          }
          expect((await answer).equals(stream)).toBe(true);
        }),
      );
      expect(transport.stats()).toMatchObject({ bytesPartial: 0, bytesQueued: 0 });
    });

    it('holds a few bytes for peers that announce much and send nothing', async () => {
      const before = process.memoryUsage().rss;
      const all = await Promise.all(Array.from({ length: 500 }, client));
      for (const socket of all) socket.write(lengthOnly(90_000_000));
      await until(() => transport.stats().bytesPartial === 2_000);
      expect(process.memoryUsage().rss - before).toBeLessThan(100 << 20);
      expect(handler.bad).toEqual([]);
    });
  });

  describe('connections', () => {
    it('answers what was received before a FIN, then closes', async () => {
      const socket = await client();
      socket.end(Buffer.concat([frame('one'), frame('two'), Buffer.of(0, 0)]));
      expect(unframe(await readToEnd(socket)).map(String)).toEqual(['one', 'two']);
      await until(() => handler.closed.length === 1);
      expect(handler.closed[0]!.reason).toBe('peer');
      expect(transport.stats()).toMatchObject({ connections: 0, bytesPartial: 0 });
    });

    it('leaves a half-closed connection to a handler that answers later', async () => {
      const ended: number[] = [];
      (handler as { onEnd?: (connection: number) => void }).onEnd = (connection) => ended.push(connection);
      await transport.close(0);
      transport = makeTransport(name, OPTIONS);
      handler.transport = transport;
      handler.answer = undefined;
      ({ port } = await transport.listen('127.0.0.1', 0));
      transport.start(handler);
      const socket = await client();
      socket.end(frame('later'));
      const answer = readToEnd(socket);
      await until(() => ended.length === 1);
      transport.send(ended[0]!, [frame('now')]);
      transport.closeConnection(ended[0]!, true);
      expect(await answer).toEqual(frame('now'));
      await until(() => handler.closed.length === 1);
      expect(handler.closed[0]!.reason).toBe('peer');
    });

    it('reports a reset', async () => {
      const socket = await client();
      socket.write(frame('x'));
      await read(socket, 5);
      socket.resetAndDestroy();
      await until(() => handler.closed.length === 1);
      expect(handler.closed[0]!.reason).toBe('reset');
    });

    it('never uses an id twice, and a late answer goes nowhere', async () => {
      const ids = new Set<number>();
      for (let i = 0; i < 50; i++) {
        const socket = await client();
        socket.write(frame('x'));
        await read(socket, 5);
        socket.destroy();
        await until(() => handler.closed.length === i + 1);
        ids.add(handler.accepted[i]!.connection);
        transport.send(handler.accepted[0]!.connection, [frame('late')]);
        transport.flush();
      }
      expect(ids.size).toBe(50);
      expect(transport.stats().bytesQueued).toBe(0);
    });

    it('stops reading on demand, and goes on', async () => {
      handler.answer = (connection, body) => {
        if (String(body) === 'stop') transport.setReading(connection, false);
        return [frame(body)];
      };
      const socket = await client();
      socket.write(frame('stop'));
      await read(socket, 8);
      const before = transport.stats().bytesReceived;
      socket.write(frame('behind'));
      for (let i = 0; i < 5; i++) {
        const other = await client();
        other.write(frame('other'));
        await read(other, 9);
      }
      expect(transport.stats().bytesReceived - before).toBe(45);
      transport.setReading(handler.accepted[0]!.connection, true);
      expect(String((await read(socket, 10)).subarray(4))).toBe('behind');
    });

    it('stops reading in the midst of a backlog, and goes on', async () => {
      const socket = await client();
      const stream = Buffer.concat(Array.from({ length: 2_000 }, (_, i) => frame(`${i}`)));
      handler.answer = (connection) => {
        if (handler.frames.length === 256) transport.setReading(connection, false);
        return undefined;
      };
      socket.write(stream);
      await until(() => handler.frames.length >= 256);
      const other = await client();
      const seen = handler.frames.length;
      expect(seen).toBeLessThan(2_000);
      other.destroy();
      await until(() => handler.closed.length === 1);
      expect(handler.frames.length).toBe(seen);
      transport.setReading(handler.accepted[0]!.connection, true);
      await until(() => handler.frames.length === 2_000);
      expect(handler.frames.map((f) => String(f.body))).toEqual(
        Array.from({ length: 2_000 }, (_, i) => `${i}`),
      );
    });

    it('closes from inside a tick: no other frame comes, onClose does', async () => {
      handler.answer = (connection, body) => {
        if (String(body) === 'bye') {
          transport.send(connection, [frame('last')]);
          transport.closeConnection(connection, true);
        }
        return undefined;
      };
      const socket = await client();
      socket.write(Buffer.concat([frame('bye'), frame('never')]));
      expect(await readToEnd(socket)).toEqual(frame('last'));
      await until(() => handler.closed.length === 1);
      expect(handler.closed[0]!.reason).toBe('local');
      expect(handler.frames).toHaveLength(1);
    });

    it('closes idle connections only', async () => {
      const socket = await client();
      socket.write(frame('x'));
      await read(socket, 5);
      transport.closeIdle(60_000);
      expect(transport.stats().connections).toBe(1);
      await new Promise((resolve) => setTimeout(resolve, 30));
      transport.closeIdle(10);
      await until(() => handler.closed.length === 1);
      expect(handler.closed[0]!.reason).toBe('idle');
    });

    it('keeps descriptors flat over many connections', async () => {
      const before = descriptors();
      const rounds = scaled(100, 1_000);
      for (let round = 0; round < rounds; round++) {
        await Promise.all(
          Array.from({ length: 10 }, async () => {
            const socket = await open(port);
            socket.end(frame('x'));
            await readToEnd(socket);
            socket.destroy();
          }),
        );
      }
      await until(() => handler.closed.length === rounds * 10 && descriptors() <= before);
      expect(transport.stats().connections).toBe(0);
    });
  });

  describe('sending', () => {
    it('bounds what waits for a peer that does not read, and sends it all once it does', async () => {
      const socket = await client();
      socket.pause();
      const body = Buffer.alloc(64 << 10, 3);
      const stream = Buffer.concat(Array.from({ length: 1_024 }, () => frame(body)));
      socket.write(stream);
      let last = -1;
      await until(() => {
        const now = transport.stats().bytesReceived;
        const still = now === last && now > 0;
        last = now;
        return still && transport.stats().bytesQueued > 1 << 20;
      });
      expect(transport.stats().bytesQueued).toBeLessThan(24 << 20);
      expect((await read(socket, stream.length)).equals(stream)).toBe(true);
      expect(transport.stats().bytesQueued).toBe(0);
    });

    it('sends from outside a tick without a flush', async () => {
      handler.answer = undefined;
      const socket = await client();
      socket.write(frame('x'));
      await until(() => handler.frames.length === 1);
      transport.send(handler.frames[0]!.connection, [frame('a'), frame('b'.repeat(2_000_000))]);
      expect((await read(socket, 5 + 2_000_004)).subarray(4, 5).toString()).toBe('a');
    });

    it('sends what microtasks of a tick add', async () => {
      handler.answer = (connection, body) => {
        void Promise.resolve().then(() => transport.send(connection, [frame(body)]));
        return undefined;
      };
      const socket = await client();
      socket.write(frame('x'));
      expect(await read(socket, 5)).toEqual(frame('x'));
    });
  });
});

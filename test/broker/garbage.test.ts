/** Peers that speak no Kafka, or speak it to do harm: what they get, what is logged, and what it costs. */
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import net from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Client } from '../../src/client/client.ts';
import { type Broker, createBroker } from '../../src/index.ts';
import { ApiKey } from '../../src/protocol/generated/api-keys.ts';
import { SOME_COMBINATIONS } from '../support/combinations.ts';
import { Random } from '../support/random.ts';
import { scaled } from '../support/scale.ts';
import { seedOf } from '../support/seed.ts';
import { until } from '../support/sockets.ts';
import { GARBAGE, request } from './garbage-cases.ts';
import { TestLogger } from './test-broker.ts';

const MIB = 1024 * 1024;

describe.each(SOME_COMBINATIONS)('$title', ({ engine, transport }) => {
  let root: string;
  let broker: Broker;
  let logger: TestLogger;
  const sockets: net.Socket[] = [];

  async function start(config: Record<string, string> = {}): Promise<void> {
    logger = new TestLogger();
    broker = await createBroker({
      dataDir: join(root, 'data'),
      host: '127.0.0.1',
      port: 0,
      engine,
      transport,
      config,
      logger,
    });
  }

  beforeEach(() => {
    root = mkdtempSync(join(tmpdir(), 'broadsheet-garbage-'));
  });
  afterEach(async () => {
    for (const socket of sockets.splice(0)) socket.destroy();
    await broker.close();
    rmSync(root, { recursive: true, force: true });
  });

  interface Dialled {
    readonly socket: net.Socket;
    /** What has come so far, bytes. */
    received: number;
    closed: boolean;
  }

  async function dial(): Promise<Dialled> {
    const { host, port } = broker.listeners[0]!;
    const socket = net.connect(port, host);
    sockets.push(socket);
    const dialled: Dialled = { socket, received: 0, closed: false };
    socket.on('error', () => {});
    socket.on('data', (bytes) => {
      dialled.received += bytes.length;
    });
    socket.on('close', () => {
      dialled.closed = true;
    });
    await new Promise<void>((resolve) => {
      socket.once('connect', resolve);
      socket.once('close', () => resolve());
    });
    return dialled;
  }

  /** The broker answers somebody else. */
  async function serves(): Promise<void> {
    const client = await Client.connect(broker.bootstrapServers);
    await client.metadata([]);
    await client.close();
  }

  const descriptors = () => readdirSync('/proc/self/fd').length;
  const residentBytes = () => process.memoryUsage.rss();

  describe('bytes that are no request', () => {
    let baseline = 0;
    beforeEach(async () => {
      await start();
      baseline = descriptors();
    });

    it.each(GARBAGE.map((each) => [each.name, each] as const))('%s', async (_, { bytes, outcome, cause }) => {
      const seen = await dial();
      const { socket } = seen;
      const peer = `127.0.0.1:${socket.localPort}`;
      socket.write(bytes);
      if (outcome === 'closed') await until(() => seen.closed);
      else if (outcome === 'answered') await until(() => seen.received > 0);
      else await serves();
      expect(seen.closed).toBe(outcome === 'closed');
      expect(seen.received > 0).toBe(outcome === 'answered');
      const lines = logger.lines.filter(({ level }) => level === 'warn' || level === 'error');
      expect(lines.map((line) => line.message)).toEqual(
        cause === undefined ? [] : [expect.stringMatching(cause)],
      );
      for (const line of lines) {
        expect(line.message).toContain(peer);
        expect(line.fields).toMatchObject({ peer });
      }
      await serves();
    });

    it('an ApiVersions too new is answered in version 0 with UNSUPPORTED_VERSION', async () => {
      const { socket } = await dial();
      const answer = new Promise<Buffer>((resolve) => socket.once('data', resolve));
      socket.write(request(ApiKey.ApiVersions, 99));
      const bytes = await answer;
      expect(bytes.readInt32BE(0)).toBe(bytes.length - 4);
      expect(bytes.readInt32BE(4)).toBe(7);
      expect(bytes.readInt16BE(8)).toBe(35);
      // One entry tells which versions there are.
      expect(bytes.readInt32BE(10)).toBe(1);
      expect(bytes.readInt16BE(14)).toBe(ApiKey.ApiVersions);
    });

    it('random bytes are refused or waited on, and nobody else notices', async () => {
      const random = new Random(seedOf('random bytes', 20261202));
      for (let round = 0; round < scaled(100, 5000); round++) {
        const dialled = await dial();
        const bytes = Buffer.from(Array.from({ length: 1 + random.int(300) }, () => random.int(256)));
        // Half of them as one frame of a right length.
        if (random.int(2) === 0 && bytes.length > 8) {
          bytes.writeInt32BE(bytes.length - 4);
          if (random.int(2) === 0) bytes.writeInt16BE(random.int(70), 4);
          if (random.int(2) === 0) bytes.writeInt16BE(random.int(14), 6);
        }
        dialled.socket.end(bytes);
        await until(() => dialled.closed);
      }
      expect(logger.of('error')).toEqual([]);
      await serves();
    });

    it('cost neither memory nor descriptors, however many come', async () => {
      const closing = GARBAGE.filter(({ outcome }) => outcome === 'closed');
      const wave = async (connections: number) => {
        for (let n = 0; n < connections; ) {
          const some = closing.slice(0, Math.min(closing.length, connections - n));
          n += some.length;
          await Promise.all(
            some.map(async ({ bytes }) => {
              const dialled = await dial();
              dialled.socket.write(bytes);
              await until(() => dialled.closed);
            }),
          );
          sockets.length = 0;
          logger.lines.length = 0;
        }
      };
      await wave(200);
      await until(() => descriptors() <= baseline + 2);
      const before = residentBytes();
      await wave(scaled(600, 10_000));
      await until(() => descriptors() <= baseline + 2);
      expect(residentBytes() - before).toBeLessThan(64 * MIB);
      await serves();
    });
  });

  describe('peers that wait and see', () => {
    it('announce 90 MB each and send nothing: the memory is not set aside', async () => {
      await start();
      await serves();
      const before = residentBytes();
      const announced = Buffer.alloc(200);
      announced.writeInt32BE(90 * MIB);
      announced.writeInt16BE(ApiKey.Produce, 4);
      announced.writeInt16BE(9, 6);
      const peers = await Promise.all(Array.from({ length: scaled(200, 500) }, dial));
      for (const { socket } of peers) socket.write(announced);
      await serves();
      expect(residentBytes() - before).toBeLessThan(128 * MIB);
      expect(peers.filter((peer) => peer.closed)).toEqual([]);
    });

    it('ask for much and never read: their reads stop, and they get it all once they read', async () => {
      await start({ 'connection.max.queued.bytes': String(MIB) });
      await serves();
      const before = residentBytes();
      const { socket } = await dial();
      socket.pause();
      const one = request(ApiKey.ApiVersions, 0);
      const count = scaled(60_000, 400_000);
      let sent = 0;
      const batch = Buffer.concat(Array.from({ length: 1000 }, () => one));
      // As much as the broker takes.
      while (sent < count && socket.writableLength < 8 * MIB) {
        socket.write(batch);
        sent += 1000;
        await new Promise((resolve) => setImmediate(resolve));
      }
      for (let i = 0; i < 20; i++) await serves();
      expect(residentBytes() - before).toBeLessThan(160 * MIB);
      let received = 0;
      let answerBytes = 0;
      socket.on('data', (bytes) => {
        if (answerBytes === 0) answerBytes = bytes.readInt32BE(0) + 4;
        received += bytes.length;
      });
      socket.resume();
      await until(() => received >= sent * (answerBytes || 1) && received > 0);
      expect(received).toBe(sent * answerBytes);
    });

    it('send a byte at a time: they are served in the end, and others meanwhile', async () => {
      await start();
      const peers = await Promise.all(Array.from({ length: scaled(100, 1000) }, dial));
      const bytes = request(ApiKey.ApiVersions, 0);
      for (let at = 0; at < bytes.length; at++) {
        for (const { socket } of peers) socket.write(bytes.subarray(at, at + 1));
        if (at % 8 === 0) await serves();
      }
      await until(() => peers.every((peer) => peer.received > 0));
      expect(peers.filter((peer) => peer.closed)).toEqual([]);
    });

    it('are closed after connections.max.idle.ms, also in the middle of a frame', async () => {
      await start({ 'connections.max.idle.ms': '100' });
      const silent = await dial();
      const halfway = await dial();
      halfway.socket.write(request(ApiKey.Metadata, 1).subarray(0, 7));
      const asked = await dial();
      asked.socket.write(request(ApiKey.ApiVersions, 0));
      await until(() => silent.closed && halfway.closed && asked.closed);
      expect(asked.received).toBeGreaterThan(0);
      await serves();
    });
  });

  describe('more peers than there is room for', () => {
    it('are closed past max.connections.per.ip, and come in when there is room', async () => {
      await start({ 'max.connections.per.ip': '20' });
      const peers = await Promise.all(Array.from({ length: scaled(200, 2000) }, dial));
      await until(() => peers.filter((peer) => peer.closed).length === peers.length - 20);
      const open = peers.filter((peer) => !peer.closed);
      for (const { socket } of open) socket.write(request(ApiKey.ApiVersions, 0));
      await until(() => open.every((peer) => peer.received > 0));
      expect(logger.of('warn')).toHaveLength(peers.length - 20);
      for (const { socket } of open) socket.destroy();
      for (;;) {
        const again = await dial();
        again.socket.write(request(ApiKey.ApiVersions, 0));
        await until(() => again.closed || again.received > 0);
        if (again.received > 0) break;
      }
    });

    it('wait past max.connections, and none is lost', async () => {
      await start({ 'max.connections': '10' });
      const ask = async () => {
        const peer = await dial();
        peer.socket.write(request(ApiKey.ApiVersions, 0));
        await until(() => peer.received > 0 || peer.closed);
        peer.socket.destroy();
        return peer.received > 0;
      };
      const answers = await Promise.all(Array.from({ length: scaled(150, 1000) }, ask));
      expect(answers.filter((answered) => !answered)).toEqual([]);
    });
  });
});

/** createBroker on each combination of engine and transport: sockets, files, and what is left behind. */
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import net from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Client } from '../../src/client/client.ts';
import { type Broker, type CreateBrokerOptions, createBroker } from '../../src/index.ts';
import { COMBINATIONS } from '../support/combinations.ts';
import { TestLogger } from './test-broker.ts';

describe.each(COMBINATIONS)('$title', ({ engine, transport }) => {
  let root: string;
  const brokers: Broker[] = [];
  const clients: Client[] = [];
  const sockets: net.Socket[] = [];

  beforeEach(() => {
    root = mkdtempSync(join(tmpdir(), 'broadsheet-broker-'));
  });
  afterEach(async () => {
    for (const socket of sockets.splice(0)) socket.destroy();
    for (const client of clients.splice(0)) await client.close();
    for (const broker of brokers.splice(0)) await broker.close();
    rmSync(root, { recursive: true, force: true });
  });

  async function start(options: CreateBrokerOptions = {}): Promise<Broker> {
    const broker = await createBroker({
      dataDir: join(root, 'data'),
      host: '127.0.0.1',
      port: 0,
      engine,
      transport,
      ...options,
    });
    brokers.push(broker);
    return broker;
  }

  async function connect(broker: Broker): Promise<Client> {
    const client = await Client.connect(broker.bootstrapServers.split(',')[0]!);
    clients.push(client);
    return client;
  }

  /** A bare connection that notes whether it was closed. */
  async function dial(broker: Broker): Promise<{ socket: net.Socket; closed: Promise<void> }> {
    const { host, port } = broker.listeners[0]!;
    const socket = net.connect(port, host);
    sockets.push(socket);
    socket.on('error', () => {});
    socket.resume();
    const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()));
    await new Promise<void>((resolve) => socket.once('connect', resolve));
    return { socket, closed };
  }

  const record = (value: string) => ({ timestamp: Date.now(), value });
  const text = (value: Uint8Array | null) => Buffer.from(value ?? []).toString();

  describe('createBroker', () => {
    it('serves a client, and gives everything back after a restart', async () => {
      const first = await start();
      const client = await connect(first);
      await client.createTopics([{ name: 't', partitions: 2 }]);
      await client.produce('t', 1, [record('a'), record('b')]);
      await first.close();
      const second = await start();
      const again = await connect(second);
      const { records } = await again.fetch('t', 1, 0);
      expect(records.map((each) => text(each.value))).toEqual(['a', 'b']);
      expect(await again.produce('t', 1, [record('c')])).toMatchObject({ baseOffset: 2 });
    });

    it('closes as often as it is asked to', async () => {
      const broker = await start();
      await Promise.all([broker.close(), broker.close()]);
      await broker.close();
      const { host, port } = broker.listeners[0]!;
      const refused = await new Promise<boolean>((resolve) => {
        const socket = net.connect(port, host);
        socket.once('connect', () => resolve(false));
        socket.once('error', () => resolve(true));
        sockets.push(socket);
      });
      expect(refused).toBe(true);
    });

    it('refuses a second broker on its directory, and names the pid', async () => {
      await start();
      await expect(start()).rejects.toMatchObject({
        code: 'LOCKED',
        message: expect.stringContaining(String(process.pid)),
      });
    });

    it('says in one line that a port is taken, and changes nothing then', async () => {
      const { port } = (await start()).listeners[0]!;
      const other = { dataDir: join(root, 'other'), port };
      await expect(start(other)).rejects.toMatchObject({
        code: 'ADDRESS_IN_USE',
        message: expect.stringMatching(new RegExp(`^[^\\n]*${port}[^\\n]*$`)),
      });
      const broker = await start({ ...other, port: 0 });
      expect(broker.listeners).toHaveLength(1);
    });

    it('in memory leaves nothing behind, not after a failed start either', async () => {
      const options = { dataDir: undefined, memory: true };
      const brokers = await Promise.all([start(options), start(options)]);
      const [{ dataDir }, other] = brokers as [Broker, Broker];
      expect(other.dataDir).not.toBe(dataDir);
      const client = await connect(brokers[0]!);
      await client.createTopics([{ name: 't', partitions: 1 }]);
      await client.produce('t', 0, [record('a')]);
      expect(readdirSync(dataDir)).toContain('t-0');
      const parent = dirname(dataDir);
      const siblings = () => readdirSync(parent).filter((name) => name.startsWith('broadsheet-memory-'));
      const before = siblings();
      const { port } = other.listeners[0]!;
      await expect(start({ ...options, port })).rejects.toMatchObject({ code: 'ADDRESS_IN_USE' });
      expect(siblings().filter((name) => !before.includes(name))).toEqual([]);
      await brokers[0]!.close();
      expect(existsSync(dataDir)).toBe(false);
      expect(existsSync(other.dataDir)).toBe(true);
      await expect(start({ memory: true })).rejects.toMatchObject({ code: 'INVALID_CONFIG' });
    });

    it('refuses what is no configuration, before it makes a directory', async () => {
      const bad = { dataDir: join(root, 'bad'), config: { 'num.partitions': '0' } };
      await expect(start(bad)).rejects.toMatchObject({ code: 'INVALID_CONFIG' });
      await expect(start({ ...bad, config: {}, port: 70_000 })).rejects.toMatchObject({
        code: 'INVALID_CONFIG',
      });
      expect(readdirSync(root)).toEqual([]);
    });

    it('runs many times in one process, side by side', async () => {
      const many = await Promise.all([1, 2, 3].map((n) => start({ dataDir: join(root, `data${n}`) })));
      for (const [n, broker] of many.entries()) {
        const client = await connect(broker);
        await client.metadata(['t'], true);
        await client.produce('t', 0, [record(`${n}`)]);
        expect((await client.fetch('t', 0, 0)).records.map((each) => text(each.value))).toEqual([`${n}`]);
      }
    });

    it('compacts when it is told to, and readers cross what is gone', async () => {
      const broker = await start();
      const client = await connect(broker);
      await client.createTopics([{ name: 'c', partitions: 1, configs: { 'cleanup.policy': 'compact' } }]);
      await client.createTopics([{ name: 'd', partitions: 1 }]);
      for (let i = 0; i < 20; i++)
        await client.produce('c', 0, [{ timestamp: Date.now(), key: `k${i % 3}`, value: `${i}` }]);
      const [done] = await broker.compact(['c']);
      expect(done).toMatchObject({ topic: 'c', partition: 0 });
      expect(done!.bytesAfter).toBeLessThan(done!.bytesBefore);
      const left: string[] = [];
      for await (const each of client.records('c', 0, 1)) left.push(`${each.offset}=${text(each.value)}`);
      expect(left).toEqual(['17=17', '18=18', '19=19']);
      await expect(broker.compact(['d'])).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' });
      await expect(broker.compact(['nowhere'])).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' });
      expect((await broker.compact()).map(({ topic }) => topic)).toEqual(['c']);
      await broker.close();
      await expect(broker.compact()).rejects.toMatchObject({ code: 'CLOSED' });
    });

    it('leaves no descriptor, mapping or handle behind over 20 lives', async () => {
      // Timers and immediates are the test runner's too.
      const handles = () =>
        process.getActiveResourcesInfo().filter((kind) => kind !== 'Timeout' && kind !== 'Immediate');
      const descriptors = () => readdirSync('/proc/self/fd').length;
      // What the runner reads, or a socket that is just closing, is there for a moment.
      const settled = async () => {
        let count = descriptors();
        for (let same = 0; same < 5; ) {
          await new Promise((resolve) => setTimeout(resolve, 10));
          const now = descriptors();
          same = now === count ? same + 1 : 0;
          count = now;
        }
        return count;
      };
      const mappings = () =>
        readFileSync('/proc/self/maps', 'utf8')
          .split('\n')
          .filter((line) => line.includes(root));
      const live = async (n: number) => {
        const broker = await createBroker({
          dataDir: join(root, 'data'),
          host: '127.0.0.1',
          port: 0,
          engine,
          transport,
        });
        const client = await Client.connect(broker.bootstrapServers);
        await client.metadata(['t'], true);
        await client.produce('t', 0, [record(`${n}`)]);
        await client.fetch('t', 0, 0);
        await client.close();
        await broker.close();
      };
      // The first life opens what the process keeps: I/O threads, the event loop's own descriptors.
      await live(0);
      const before = await settled();
      const handlesBefore = handles().sort();
      for (let n = 1; n <= 20; n++) await live(n);
      expect(await settled()).toBe(before);
      expect(handles().sort()).toEqual(handlesBefore);
      expect(mappings()).toEqual([]);
    });
  });

  describe('listeners', () => {
    it('advertise the address that the client reached, or what they are told to', async () => {
      const broker = await start({
        host: undefined,
        port: undefined,
        config: {
          listeners: 'INSIDE://127.0.0.1:0,OUTSIDE://127.0.0.1:0',
          'listener.security.protocol.map': 'INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT',
          'advertised.listeners': 'OUTSIDE://broker.example:9999',
        },
      });
      const [inside, outside] = broker.bootstrapServers.split(',');
      expect(broker.listeners.map((listener) => listener.name)).toEqual(['INSIDE', 'OUTSIDE']);
      const brokersAt = async (address: string) => {
        const client = await Client.connect(address);
        clients.push(client);
        return (await client.metadata([])).brokers;
      };
      expect(await brokersAt(inside!)).toMatchObject([
        { host: '127.0.0.1', port: broker.listeners[0]!.port },
      ]);
      expect(await brokersAt(outside!)).toMatchObject([{ host: 'broker.example', port: 9999 }]);
    });

    it('close connections that say nothing for connections.max.idle.ms', async () => {
      const broker = await start({ config: { 'connections.max.idle.ms': '50' } });
      const { closed } = await dial(broker);
      await closed;
    });

    it('close connections past max.connections.per.ip, and let later ones wait past max.connections', async () => {
      const broker = await start({ config: { 'max.connections.per.ip': '1' } });
      const first = await dial(broker);
      const second = await dial(broker);
      await second.closed;
      expect(first.socket.destroyed).toBe(false);
      const small = await start({ dataDir: join(root, 'small'), config: { 'max.connections': '1' } });
      const held = await dial(small);
      // One more may have been accepted before the limit was seen; none is answered until a place is free.
      const waiting = await dial(small);
      held.socket.destroy();
      const answered = new Promise<void>((resolve) => waiting.socket.once('data', () => resolve()));
      waiting.socket.write(Buffer.from('0000000a00120000000000010000', 'hex'));
      await answered;
    });

    it('refuse frames past socket.request.max.bytes, with a line that says so', async () => {
      const logger = new TestLogger();
      const broker = await start({ config: { 'socket.request.max.bytes': '1000' }, logger });
      const { socket, closed } = await dial(broker);
      socket.write(Buffer.from('000003e9', 'hex'));
      await closed;
      expect(logger.of('warn')).toEqual([
        expect.stringContaining('1001 bytes, more than socket.request.max.bytes'),
      ]);
    });
  });
});

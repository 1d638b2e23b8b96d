/** Brokers that come and go: in traffic, in the midst of a start, in workers, many at once; and what they leave behind. */
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import net from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Client, LATEST } from '../../src/client/client.ts';
import { type Broker, createBroker } from '../../src/index.ts';
import { NativeFiles } from '../../src/log/native-files.ts';
import { SOME_COMBINATIONS } from '../support/combinations.ts';
import { FULL_SIZE, scaled } from '../support/scale.ts';
import { until } from '../support/sockets.ts';

const TYPESCRIPT = ['--import', new URL('../../scripts/typescript.js', import.meta.url).href];
const WORKER = fileURLToPath(new URL('../support/broker-worker.ts', import.meta.url));

describe.each(SOME_COMBINATIONS)('$title', ({ engine, transport }) => {
  let root: string;
  let dataDir: string;
  const brokers: Broker[] = [];
  const clients: Client[] = [];

  beforeEach(() => {
    root = mkdtempSync(join(tmpdir(), 'broadsheet-life-'));
    dataDir = join(root, 'data');
  });
  afterEach(async () => {
    for (const client of clients.splice(0)) await client.close();
    for (const broker of brokers.splice(0)) await broker.close();
    rmSync(root, { recursive: true, force: true });
  });

  async function start(dir = dataDir, config: Record<string, string> = {}): Promise<Broker> {
    const broker = await createBroker({
      dataDir: dir,
      host: '127.0.0.1',
      port: 0,
      config,
      engine,
      transport,
    });
    brokers.push(broker);
    return broker;
  }

  async function connect(address: string): Promise<Client> {
    const client = await Client.connect(address);
    clients.push(client);
    return client;
  }

  /** What the process holds of the operating system. */
  function held(): { descriptors: number; mappings: string[]; threads: number; listening: number } {
    const tcp = readFileSync('/proc/self/net/tcp', 'utf8').split('\n').slice(1);
    const inodes = new Set(
      readdirSync('/proc/self/fd').flatMap((fd) => {
        try {
          return [readFileSync(`/proc/self/fdinfo/${fd}`, 'utf8').match(/ino:\s*(\d+)/)?.[1] ?? ''];
        } catch {
          return [];
        }
      }),
    );
    return {
      descriptors: readdirSync('/proc/self/fd').length,
      mappings: readFileSync('/proc/self/maps', 'utf8')
        .split('\n')
        .filter((line) => line.includes(root)),
      threads: readdirSync('/proc/self/task').length,
      listening: tcp.filter((line) => {
        const fields = line.trim().split(/\s+/);
        return fields[3] === '0A' && inodes.has(fields[9] ?? '');
      }).length,
    };
  }

  interface Traffic {
    over: boolean;
    sent: number;
  }

  /** Producers until it is over or the broker gone; the number of records acknowledged, by producer. */
  async function load(address: string, producers: number, traffic: Traffic): Promise<number[]> {
    return Promise.all(
      Array.from({ length: producers }, async (_, n) => {
        let acknowledged = 0;
        try {
          const client = await connect(address);
          while (!traffic.over) {
            traffic.sent++;
            const value = `${n} ${acknowledged}`;
            await client.produce('t', n % 3, [{ timestamp: Date.now(), value }]);
            acknowledged++;
          }
        } catch {
          // The broker closed: what it did not acknowledge does not count.
        }
        return acknowledged;
      }),
    );
  }

  /** Every value of the topic's partitions. */
  async function values(address: string): Promise<string[]> {
    const client = await connect(address);
    const all: string[] = [];
    for (let partition = 0; partition < 3; partition++) {
      const { offset: end } = await client.listOffset('t', partition, LATEST);
      for await (const { value } of client.records('t', partition, 0, { end }))
        all.push(`${Buffer.from(value!)}`);
    }
    return all;
  }

  async function createTopic(address: string, configs: Record<string, string> = {}): Promise<void> {
    await (await connect(address)).createTopics([{ name: 't', partitions: 3, configs }]);
  }

  const expected = (acknowledged: readonly number[]) =>
    acknowledged.flatMap((count, n) => Array.from({ length: count }, (_, i) => `${n} ${i}`)).sort();

  describe('close', () => {
    it.each([
      ['1', 'waits for the disk'],
      ['1000000', 'does not'],
    ])('in traffic answers all that it writes (flush.messages=%s)', async (flushMessages) => {
      const broker = await start();
      await createTopic(broker.bootstrapServers, { 'flush.messages': flushMessages });
      const traffic = { over: false, sent: 0 };
      const running = load(broker.bootstrapServers, 20, traffic);
      await until(() => traffic.sent > 200);
      await Promise.all([broker.close(), broker.close()]);
      traffic.over = true;
      const acknowledged = await running;
      const again = await start();
      expect((await values(again.bootstrapServers)).sort()).toEqual(expected(acknowledged));
    });

    it('ends long polls', async () => {
      const broker = await start();
      await createTopic(broker.bootstrapServers);
      const client = await connect(broker.bootstrapServers);
      const poll = client.fetch('t', 0, 0, { maxWaitMs: 600_000, minBytes: 1 });
      const failed = expect(poll).rejects.toMatchObject({ code: 'IO' });
      await (await connect(broker.bootstrapServers)).metadata([]);
      await broker.close();
      await failed;
    });

    it('of a broker that starts on the same directory leaves the first one alone', async () => {
      const first = await start();
      await expect(start()).rejects.toMatchObject({ code: 'LOCKED' });
      await (await connect(first.bootstrapServers)).metadata([]);
    });

    it('of one that could not bind leaves nothing', async () => {
      const taken = net.createServer().listen(0, '127.0.0.1');
      await once(taken, 'listening');
      const { port } = taken.address() as net.AddressInfo;
      const attempt = () =>
        createBroker({ dataDir: join(root, 'other'), host: '127.0.0.1', port, engine, transport });
      await expect(attempt()).rejects.toMatchObject({ code: 'ADDRESS_IN_USE' });
      const before = held();
      for (let i = 0; i < 5; i++) await expect(attempt()).rejects.toMatchObject({ code: 'ADDRESS_IN_USE' });
      // Something of before may have ended meanwhile.
      await until(() => held().descriptors <= before.descriptors);
      expect(held()).toEqual({ ...before, descriptors: expect.any(Number) });
      taken.close();
    });
  });

  describe('many lives', () => {
    it('in one process leak no descriptor, mapping, thread or listener', async () => {
      const live = async () => {
        const broker = await start();
        const client = await connect(broker.bootstrapServers);
        await client.metadata(['t'], true);
        for (let i = 0; i < 50; i++) await client.produce('t', 0, [{ timestamp: Date.now(), value: 'v' }]);
        await client.fetch('t', 0, 0);
        // Some connections are open and some requests wait when it closes.
        const poll = client.fetch('t', 0, 1_000_000).catch(() => undefined);
        await broker.close();
        await poll;
        await client.close();
      };
      await live();
      await live();
      // Threads for files are made when work waits, and kept: from here on most of them are there.
      const files = new NativeFiles();
      if (engine === 'native')
        await Promise.all(Array.from({ length: 200 }, (_, n) => files.exists(`${root}/${n}`)));
      const before = held();
      const lives = 20;
      for (let n = 0; n < lives; n++) await live();
      await until(() => held().descriptors <= before.descriptors);
      const after = held();
      expect(after).toEqual({ ...before, mappings: [], threads: expect.any(Number) });
      expect(after.threads).toBeLessThan(before.threads + lives / 2);
    });

    it('side by side do not know of one another', async () => {
      const many = await Promise.all(
        Array.from({ length: scaled(8, 40) }, (_, n) => start(join(root, `data${n}`))),
      );
      await Promise.all(
        many.map(async ({ bootstrapServers }, n) => {
          await createTopic(bootstrapServers);
          await (await connect(bootstrapServers)).produce('t', 0, [{ timestamp: Date.now(), value: `${n}` }]);
          expect(await values(bootstrapServers)).toEqual([`${n}`]);
        }),
      );
      await many[0]!.close();
      expect(await values(many[1]!.bootstrapServers)).toEqual(['1']);
    });
  });

  // One engine is enough for the small size: what differs is below a worker.
  if (engine === 'native' || FULL_SIZE) {
    describe('a worker', () => {
      async function worker(): Promise<{ thread: Worker; address: string }> {
        const thread = new Worker(WORKER, {
          execArgv: TYPESCRIPT,
          workerData: { dataDir, engine, transport },
        });
        const [address] = (await once(thread, 'message')) as [string];
        return { thread, address };
      }

      it('runs a broker, ends by itself once that is closed, and leaves nothing', async () => {
        const live = async () => {
          const { thread, address } = await worker();
          const client = await connect(address);
          await client.metadata(['t'], true);
          await client.produce('t', 0, [{ timestamp: Date.now(), value: 'v' }]);
          await client.close();
          const exit = once(thread, 'exit');
          thread.postMessage('close');
          expect((await exit)[0]).toBe(0);
        };
        await live();
        const before = held();
        for (let n = 0; n < scaled(2, 20); n++) await live();
        await until(() => held().descriptors <= before.descriptors);
        expect(held().mappings).toEqual([]);
        expect(held().listening).toBe(before.listening);
      });

      it('is terminated in traffic: what it acknowledged is there', async () => {
        const { thread, address } = await worker();
        await createTopic(address);
        const traffic = { over: false, sent: 0 };
        const running = load(address, 10, traffic);
        await until(() => traffic.sent > 200);
        await thread.terminate();
        traffic.over = true;
        const acknowledged = await running;
        if (engine === 'js') {
          // What Node locks stays locked until the process ends.
          await expect(start()).rejects.toMatchObject({ code: 'LOCKED' });
          rmSync(join(dataDir, '.lock'));
        }
        const again = await start();
        const found = new Set(await values(again.bootstrapServers));
        expect(expected(acknowledged).filter((value) => !found.has(value))).toEqual([]);
        expect(expected(acknowledged).length).toBeGreaterThan(100);
        expect(held().mappings.filter((line) => line.includes('(deleted)'))).toEqual([]);
      });
    });
  }
});

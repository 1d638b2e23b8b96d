/** A broker on a real file system that fails calls on one partition's files: that one answers errors, the others go on, and the
 * process lives. */
import { existsSync } from 'node:fs';
import { constants } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { APIS } from '../../src/client/apis.ts';
import { type BrokerRefusal, Client, EARLIEST, LATEST } from '../../src/client/client.ts';
import { KafkaError } from '../../src/protocol/errors.ts';
import { BatchBuilder } from '../../src/protocol/records/writer.ts';
import { BrokerProcess } from '../support/broker-process.ts';
import { ENGINES } from '../support/engines.ts';
import { FailingFs } from '../support/failing-fs.ts';
import { scaled } from '../support/scale.ts';

const { EIO, ENOSPC } = constants.errno;
const TOPICS = ['t', 'u', 'v'];
const RECORDS = 60;
const ALL = ENGINES.flatMap(({ name }) =>
  [false, true].map((direct) => ({ name, direct, cached: direct ? 'no page cache' : 'a page cache' })),
);
/** Each engine once, or with and without a page cache. */
const CASES = scaled([ALL[0]!, ALL[3]!], ALL);

const missing = FailingFs.missing();
if (missing !== undefined) process.stderr.write(`failing-fs: skipped, since ${missing}\n`);

describe.runIf(missing === undefined).each(CASES)('engine=$name, $cached', ({ name, direct }) => {
  let disk: FailingFs | undefined;
  let broker: BrokerProcess | undefined;
  let client: Client;
  /** By topic, what was acknowledged. */
  const kept = new Map<string, string[]>();

  const dataDir = () => join(disk!.path, 'data');

  async function start(): Promise<void> {
    const config = { engine: name, 'offsets.topic.num.partitions': '1' };
    broker = await BrokerProcess.start(dataDir(), { config });
    client = await Client.connect(broker.address);
  }

  async function stop(how: 'stop' | 'kill' = 'stop'): Promise<void> {
    await client.close();
    await broker?.[how]();
    broker = undefined;
  }

  async function prepare(): Promise<void> {
    disk = new FailingFs(direct);
    kept.clear();
    await start();
    const configs = {
      'internal.segment.bytes': '20000',
      'index.interval.bytes': '500',
      'flush.messages': '1',
    };
    await client.createTopics(TOPICS.map((topic) => ({ name: topic, partitions: 1, configs })));
    began = 1_000 + count;
    for (let i = 0; i < RECORDS; i++) for (const topic of TOPICS) expect(await produce(topic)).toBe(0);
  }

  afterEach(async () => {
    disk?.rule();
    await client?.close();
    await broker?.kill();
    broker = undefined;
    disk?.unmount();
    disk = undefined;
  });

  let count = 0;
  /** The timestamp of the first record. */
  let began = 0;
  /** Appends one record; the code of the answer. */
  async function produce(topic: string): Promise<number> {
    const value = `${topic} ${count++} `.repeat(100);
    const bytes = new BatchBuilder().append({ timestamp: 1_000 + count, value }).build();
    const { errorCode } = (await client.produceBytes(topic, 0, bytes))!;
    if (errorCode === 0) kept.set(topic, [...(kept.get(topic) ?? []), value]);
    return errorCode;
  }

  async function expectAll(...topics: string[]): Promise<void> {
    for (const topic of topics) {
      const { offset } = await client.listOffset(topic, 0, EARLIEST);
      const found: string[] = [];
      for await (const { value } of client.records(topic, 0, offset)) found.push(`${Buffer.from(value!)}`);
      expect(found, topic).toEqual(kept.get(topic));
    }
  }

  /** Fetches of all topics from an offset, until each has given something: the code of each that is in error, or what it gave. What is
   * not in memory comes with a later one. */
  async function fetch(fetchOffset: number): Promise<Record<string, number | 'records'>> {
    const partitions = [{ partition: 0, fetchOffset, partitionMaxBytes: 1 << 20 }];
    const body = {
      ...{ maxWaitMs: 100, minBytes: 1, maxBytes: 1 << 22 },
      topics: TOPICS.map((topic) => ({ topic, partitions })),
    };
    const seen: Record<string, number | 'records'> = {};
    for (let tries = 0; tries < 50 && Object.keys(seen).length < TOPICS.length; tries++) {
      const { responses } = await client.request(APIS.fetch, body, { maxVersion: 12 });
      for (const {
        topic,
        partitions: [only],
      } of responses) {
        if (only!.errorCode !== 0) seen[topic] ??= only!.errorCode;
        else if ((only!.records?.length ?? 0) > 0) seen[topic] ??= 'records';
      }
    }
    return seen;
  }

  /** The offsets of the records that come `offset` records after the first by time; as fetch. */
  async function lookUp(offset: number): Promise<Record<string, number | 'records'>> {
    const seen: Record<string, number | 'records'> = {};
    for (const topic of TOPICS) {
      seen[topic] = await client.listOffset(topic, 0, began + 3 * offset + 1).then(
        (found) => (found.offset === offset ? 'records' : found.offset),
        (error: BrokerRefusal) => error.kafkaCode,
      );
    }
    return seen;
  }

  const BAD = { t: KafkaError.KAFKA_STORAGE_ERROR, u: 'records', v: 'records' };
  const CUT = { ...BAD, t: KafkaError.CORRUPT_MESSAGE };
  const GOOD = { t: 'records', u: 'records', v: 'records' };

  it('a sync that fails takes its partition offline until a start, which has what was synced', async () => {
    await prepare();
    disk!.rule({ call: 'sync', errno: EIO, path: '/t-0/' });
    expect(await produce('t')).toBe(KafkaError.KAFKA_STORAGE_ERROR);
    disk!.rule();
    expect(await produce('t')).toBe(KafkaError.KAFKA_STORAGE_ERROR);
    for (const topic of ['u', 'v']) expect(await produce(topic)).toBe(0);
    expect(await fetch(0)).toEqual(BAD);
    const note = join(dataDir(), 't-0/failed-flush-checkpoint');
    await expect.poll(() => existsSync(note), { timeout: 60_000 }).toBe(true);
    await stop('kill');
    await start();
    await expectAll(...TOPICS);
    for (const topic of TOPICS) expect(await produce(topic)).toBe(0);
    await stop();
    await start();
    await expectAll(...TOPICS);
  });

  // It waits until the disk is looked at again.
  it.runIf(!scaled(direct, false))(
    'a write without space is refused and leaves nothing, a short one is gone on with, one that fails ends it',
    async () => {
      await prepare();
      disk!.rule({ call: 'write', errno: ENOSPC, path: '/t-0/' });
      expect(await produce('t')).toBe(KafkaError.KAFKA_STORAGE_ERROR);
      // All of the directory waits for space then.
      disk!.rule();
      await expect.poll(() => produce('t'), { timeout: 60_000 }).toBe(0);
      for (const topic of ['u', 'v']) expect(await produce(topic)).toBe(0);
      disk!.rule({ call: 'write', errno: 0, path: '/data/' });
      for (let i = 0; i < 30; i++) for (const topic of TOPICS) expect(await produce(topic)).toBe(0);
      disk!.rule({ call: 'write', errno: EIO, path: '/t-0/' });
      expect(await produce('t')).toBe(KafkaError.KAFKA_STORAGE_ERROR);
      disk!.rule();
      expect(await produce('t')).toBe(KafkaError.KAFKA_STORAGE_ERROR);
      for (const topic of ['u', 'v']) expect(await produce(topic)).toBe(0);
      await stop('kill');
      await start();
      await expectAll(...TOPICS);
    },
  );

  it('a read that fails is an error of its partition, records and indexes alike', async () => {
    await prepare();
    for (const path of ['/t-0/', '/t-0/00000000000000000000.log', 'index']) {
      for (const ask of [fetch, lookUp]) {
        await stop();
        await start();
        disk!.rule({
          call: 'read',
          errno: EIO,
          path: path === 'index' ? '/t-0/00000000000000000000.' : path,
        });
        const what = `${ask.name} ${path}`;
        const seen = await ask(5);
        // An index that cannot be read is made again from its segment, if that can.
        if (path === 'index') expect([BAD, GOOD], what).toContainEqual(seen);
        else expect(seen, what).toEqual(BAD);
        disk!.rule();
        await expectAll(...TOPICS);
        for (const topic of TOPICS) expect(await produce(topic)).toBe(0);
      }
    }
  });

  it('reads that come back short lose nothing', async () => {
    await prepare();
    await stop();
    await start();
    disk!.rule({ call: 'read', errno: 0, path: '/t-0/' });
    const seen = await fetch(5);
    // Where there is a page cache, the kernel takes such a file for a short one.
    if (direct) expect(seen).toEqual(GOOD);
    else expect([BAD, CUT, GOOD]).toContainEqual(seen);
    disk!.rule();
    await stop();
    await start();
    await expectAll(...TOPICS);
  });

  it('a start that cannot read one partition has the others', async () => {
    await prepare();
    await stop('kill');
    disk!.rule({ call: 'read', errno: EIO, path: '/t-0/' });
    await start();
    await expectAll('u', 'v');
    expect(await produce('t')).toBe(KafkaError.KAFKA_STORAGE_ERROR);
    await expect(client.listOffset('t', 0, LATEST)).rejects.toThrow('KAFKA_STORAGE_ERROR');
    await stop('kill');
    disk!.rule();
    await start();
    await expectAll(...TOPICS);
  });
});

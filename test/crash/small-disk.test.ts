/** A broker on real file systems of a few mebibytes that fill up: what is refused, what goes on, and that it goes on by itself. */
import { existsSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { Client } from '../../src/client/client.ts';
import { commitOffsets, committedOffsets } from '../../src/client/groups.ts';
import { type Broker, createBroker } from '../../src/index.ts';
import { BALLAST_FILE } from '../../src/log/disk-reserve.ts';
import { KafkaError } from '../../src/protocol/errors.ts';
import { BatchBuilder } from '../../src/protocol/records/writer.ts';
import { TestLogger } from '../broker/test-broker.ts';
import { ENGINES } from '../support/engines.ts';
import { scaled } from '../support/scale.ts';
import { FILE_SYSTEMS, noSmallDisks, type SmallDisk, smallDisk } from '../support/small-disk.ts';
import { CALLS } from '../support/transaction-calls.ts';

const MEBIBYTES = 64;
const PRODUCERS = 64;
/** So many that a stop takes less than the ballast, where each file has a page. */
const FEW = 8;
const RECORD_BYTES = 64 * 1024;
/** A refused producer that goes on hears it this often. */
const REFUSALS = scaled(3, 30);

const unavailable = noSmallDisks();
const CASES = scaled(
  [
    { name: 'native', disk: 'ext4' },
    { name: 'js', disk: 'tmpfs' },
  ] as const,
  ENGINES.flatMap(({ name }) => FILE_SYSTEMS.map((disk) => ({ name, disk }))),
);

function payload(producer: number, sequence: number): Buffer {
  const value = Buffer.alloc(RECORD_BYTES, sequence % 251);
  value.write(`${producer}:${sequence};`);
  return value;
}

describe.each(CASES)('engine=$name on $disk', ({ name, disk: kind }) => {
  let disk: SmallDisk | undefined;
  let broker: Broker | undefined;
  let logger = new TestLogger();
  const clients: Client[] = [];

  const dataDir = () => join(disk!.path, 'data');

  async function start(config: Record<string, string> = {}): Promise<Client> {
    logger = new TestLogger();
    broker = await createBroker({
      ...{ dataDir: dataDir(), host: '127.0.0.1', port: 0, engine: name, logger },
      config: {
        'log.segment.bytes': '1048576',
        'log.segment.delete.delay.ms': '0',
        'offsets.topic.num.partitions': '1',
        'transaction.state.log.num.partitions': '1',
        ...config,
      },
    });
    return connect();
  }

  async function connect(): Promise<Client> {
    const client = await Client.connect(broker!.bootstrapServers);
    clients.push(client);
    return client;
  }

  async function stop(): Promise<void> {
    for (const client of clients.splice(0)) await client.close();
    await broker?.close();
    broker = undefined;
  }

  afterEach(async () => {
    await stop();
    disk?.unmount();
    disk = undefined;
  });

  const batchOf = (value: Uint8Array) => new BatchBuilder().append({ timestamp: Date.now(), value }).build();

  async function eightMegabytes(client: Client, topic: string): Promise<void> {
    for (let i = 0; i < 8; i++)
      await client.produce(topic, 0, [{ timestamp: Date.now(), value: Buffer.alloc(1e6, i) }]);
  }

  interface Load {
    /** By producer: how many records were acknowledged. */
    readonly taken: number[];
    readonly texts: string[];
  }

  /** Many producers at once, each to a partition of its own, until each was refused several times in a row. */
  async function produceUntilFull(topic: string, producers = PRODUCERS): Promise<Load> {
    const taken = Array.from({ length: producers }, () => 0);
    const texts: string[] = [];
    await Promise.all(
      taken.map(async (_, producer) => {
        const client = await connect();
        for (let refused = 0; refused < REFUSALS; ) {
          const bytes = batchOf(payload(producer, taken[producer]!));
          const answer = (await client.produceBytes(topic, producer, bytes))!;
          if (answer.errorCode === 0) {
            taken[producer]!++;
            refused = 0;
          } else {
            expect(answer.errorCode).toBe(KafkaError.KAFKA_STORAGE_ERROR);
            texts.push(answer.errorMessage ?? '');
            refused++;
            // As clients do.
            await new Promise((resolve) => setTimeout(resolve, 100));
          }
        }
      }),
    );
    return { taken, texts };
  }

  /** Everything that was acknowledged, and nothing else, in order. */
  async function expectAll(client: Client, topic: string, taken: readonly number[]): Promise<void> {
    for (const [producer, count] of taken.entries()) {
      let sequence = 0;
      for await (const { value } of client.records(topic, producer, 0))
        expect(Buffer.from(value!).equals(payload(producer, sequence++))).toBe(true);
      expect([producer, sequence]).toEqual([producer, count]);
    }
  }

  async function resumes(client: Client, topic: string, taken: number[]): Promise<void> {
    await expect
      .poll(
        async () => {
          const answer = await client.produceBytes(topic, 0, batchOf(payload(0, taken[0]!)));
          if (answer!.errorCode === 0) taken[0]!++;
          return answer!.errorCode;
        },
        { timeout: 30_000, interval: 100 },
      )
      .toBe(0);
  }

  const offset = (at: number) => [{ topic: 't', partition: 0, offset: at }];
  const group = 'g';

  it('refuses records below the reserve; the rest goes on, at 0 bytes and after a restart there too', async ({
    skip,
  }) => {
    if (unavailable !== undefined) skip(`no small file systems here: ${unavailable}`);
    disk = smallDisk(kind, MEBIBYTES);
    let client = await start();
    await client.createTopics([
      { name: 't', partitions: PRODUCERS },
      ...['u', 'v', 'w'].map((topic) => ({ name: topic, partitions: 1 })),
    ]);
    for (const topic of ['u', 'v', 'w']) await eightMegabytes(client, topic);
    await commitOffsets(client, group, offset(1));
    // A transaction that is open when the disk fills up.
    const to = await client.anyBroker();
    const id = { transactionalId: 'tx', transactionTimeoutMs: 60_000 };
    const { producerId, producerEpoch } = await client.request(CALLS.init, id, { to });
    const topics = [{ name: 'u', partitions: [0] }];
    const adding = { v3AndBelowTransactionalId: 'tx', v3AndBelowProducerId: producerId };
    await client.request(
      CALLS.add,
      { ...adding, v3AndBelowProducerEpoch: producerEpoch, v3AndBelowTopics: topics },
      { to, maxVersion: 3 },
    );

    const { taken, texts } = await produceUntilFull('t');
    // Close to the reserve, a twentieth of the file system, and not below.
    expect(disk.usableBytes()).toBeGreaterThan(((MEBIBYTES << 20) / 20) * 0.5);
    for (const text of texts) {
      expect(text).toContain(dataDir());
      expect(text).toMatch(/\d+ bytes/);
    }
    await expectAll(client, 't', taken);
    await commitOffsets(client, group, offset(2));
    const end = { transactionalId: 'tx', producerId, producerEpoch, committed: true };
    expect((await client.request(CALLS.end, end, { to, maxVersion: 4 })).errorCode).toBe(0);
    await client.createTopics([{ name: 'made-while-full', partitions: 1 }]);
    await stop();
    expect(existsSync(join(dataDir(), '.kafka_cleanshutdown'))).toBe(true);
    client = await start();
    const { errorCode, errorMessage } = (await client.produceBytes('t', 0, batchOf(payload(0, taken[0]!))))!;
    // The stop gave back what deleted files held, or took a little: either is right.
    if (errorCode === 0) taken[0]!++;
    else expect(errorMessage).toContain(dataDir());
    await client.deleteTopics(['u']);
    await resumes(client, 't', taken);

    // Another program takes the rest.
    disk.fill();
    // The last block of a file may still have room.
    const code = async () => (await client.produceBytes('t', 1, batchOf(payload(1, taken[1]!))))!.errorCode;
    let refused = await code();
    for (; refused === 0; refused = await code()) taken[1]!++;
    expect(refused).toBe(KafkaError.KAFKA_STORAGE_ERROR);
    // The ballast goes for this.
    await expect.poll(() => disk!.usableBytes(), { timeout: 30_000 }).toBeGreaterThan(0);
    await commitOffsets(client, group, offset(3));
    await client.deleteTopics(['v']);
    await resumes(client, 't', taken);
    expect(logger.of('info')).toContain('there is space again: records are taken');
    await expectAll(client, 't', taken);

    // It stops where nothing is left, and starts there.
    await expect.poll(() => existsSync(join(dataDir(), BALLAST_FILE)), { timeout: 30_000 }).toBe(true);
    disk.fill();
    await stop();
    disk.fill();
    expect(disk.usableBytes()).toBeLessThan(4096);
    client = await start();
    expect(await committedOffsets(client, group)).toMatchObject(offset(3));
    await expectAll(client, 't', taken);
    await client.deleteTopics(['w']);
    await resumes(client, 't', taken);
    await stop();
    disk.empty();
    client = await start();
    await expectAll(client, 't', taken);
    await resumes(client, 't', taken);
  });

  it('without a reserve, cuts back what found no space, and goes on', async ({ skip }) => {
    if (unavailable !== undefined) skip(`no small file systems here: ${unavailable}`);
    disk = smallDisk(kind, MEBIBYTES);
    let client = await start({ 'log.disk.reserve.bytes': '0' });
    await client.createTopics([
      { name: 't', partitions: FEW },
      { name: 'u', partitions: 1 },
    ]);
    await eightMegabytes(client, 'u');
    await expect.poll(() => existsSync(join(dataDir(), BALLAST_FILE)), { timeout: 30_000 }).toBe(true);
    const { taken, texts } = await produceUntilFull('t', FEW);
    for (const text of texts) expect(text).toContain(dataDir());
    expect(texts.some((text) => /no space left|ENOSPC/i.test(text))).toBe(true);
    await expectAll(client, 't', taken);
    // As a kill would leave it, and others take what is left.
    await stop();
    rmSync(join(dataDir(), '.kafka_cleanshutdown'));
    disk.fill();
    client = await start({ 'log.disk.reserve.bytes': '0' });
    await expectAll(client, 't', taken);
    await client.deleteTopics(['u']);
    await resumes(client, 't', taken);
    await expectAll(client, 't', taken);
    await stop();
    client = await start();
    await expectAll(client, 't', taken);
  });
});

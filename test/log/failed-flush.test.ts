import { cpSync, existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { constants } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { Client, LATEST } from '../../src/client/client.ts';
import { type Broker, createBroker } from '../../src/index.ts';
import { cutFailedFlush, cutWhereSynced } from '../../src/log/failed-flush.ts';
import { silentLogger } from '../../src/runtime/logging.ts';
import { ENGINES } from '../support/engines.ts';
import { append, closedLog, OPTIONS, scratch } from '../support/logs.ts';
import { FULL_SIZE } from '../support/scale.ts';

const { EIO } = constants.errno;
const NOTE = 'failed-flush-checkpoint';

describe.each(ENGINES)('after a failed flush (engine=$name)', ({ name, make, setFault, clearFaults }) => {
  let broker: Broker | undefined;
  const clients: Client[] = [];

  async function start(dataDir: string): Promise<Client> {
    broker = await createBroker({ dataDir, host: '127.0.0.1', port: 0, engine: name });
    const client = await Client.connect(broker.bootstrapServers);
    clients.push(client);
    return client;
  }

  afterEach(async () => {
    clearFaults();
    for (const client of clients.splice(0)) await client.close();
    await broker?.close();
  });

  const record = (value: string) => [{ timestamp: 1, value }];

  async function values(client: Client, topic: string): Promise<string[]> {
    const { offset: end } = await client.listOffset(topic, 0, LATEST);
    const found: string[] = [];
    for await (const { value } of client.records(topic, 0, 0, { end })) found.push(`${Buffer.from(value!)}`);
    return found;
  }

  it('a partition is offline, others go on, and the next start has what was synced', async () => {
    const dataDir = scratch();
    const client = await start(dataDir);
    const configs = { 'flush.messages': '1' };
    await client.createTopics(['t', 'u'].map((topic) => ({ name: topic, partitions: 1, configs })));
    await client.produce('t', 0, record('synced'));
    setFault('fdatasync', 0, 1, EIO, 0);
    const refused = { message: expect.stringContaining('KAFKA_STORAGE_ERROR') };
    await expect(client.produce('t', 0, record('not synced'))).rejects.toMatchObject(refused);
    clearFaults();
    await expect(client.produce('t', 0, record('too late'))).rejects.toMatchObject(refused);
    await client.produce('u', 0, record('other'));
    const note = join(dataDir, 't-0', NOTE);
    // Not only by the stop: a kill may come.
    await expect.poll(() => existsSync(note), { timeout: 50_000 }).toBe(true);
    await broker!.close();
    expect(readFileSync(note, 'latin1')).toBe('0\n2\n1 1\n2 2\n');
    expect(existsSync(join(dataDir, 'u-0', NOTE))).toBe(false);

    const again = await start(dataDir);
    expect(existsSync(note)).toBe(false);
    expect(await values(again, 't')).toEqual(['synced']);
    await again.produce('t', 0, record('next'));
    expect(await values(again, 't')).toEqual(['synced', 'next']);
    expect(await values(again, 'u')).toEqual(['other']);
  });

  it('a damaged note costs no record', async () => {
    const dataDir = scratch();
    const client = await start(dataDir);
    await client.createTopics([{ name: 't', partitions: 1 }]);
    for (const value of ['a', 'b']) await client.produce('t', 0, record(value));
    setFault('fdatasync', 0, 1000, EIO, 0);
    await expect(broker!.close()).rejects.toThrow();
    clearFaults();
    const note = join(dataDir, 't-0', NOTE);
    writeFileSync(note, '0\n1\n0 1\n');
    const again = await start(dataDir);
    expect(existsSync(note)).toBe(false);
    expect(await values(again, 't')).toEqual(['a', 'b']);
  });

  it('a damaged byte of the note cuts nothing else than it said', async () => {
    const dir = await closedLog(make());
    const text = Buffer.from('0\n2\n20 20\n100 100\n');
    const work = join(scratch(true), 'work');
    const harms = [...text].flatMap((_, at) => [
      text.subarray(0, at),
      ...Array.from({ length: 8 }, (_, bit) => {
        const flipped = Buffer.from(text);
        flipped[at]! ^= 1 << bit;
        return flipped;
      }).filter((_, bit) => FULL_SIZE || bit === at % 8),
    ]);
    const engine = make();
    let cuts = 0;
    for (const harmed of [...harms, text]) {
      rmSync(work, { recursive: true, force: true });
      cpSync(dir, work, { recursive: true });
      writeFileSync(join(work, NOTE), harmed);
      const cut = await cutWhereSynced(engine.files, work, silentLogger);
      if (cut !== undefined) cuts++;
      const log = await engine.open(work, OPTIONS);
      expect(log.logEndOffset, JSON.stringify(harmed.toString('latin1'))).toBe(cut === undefined ? 100 : 20);
      await log.close();
    }
    expect(cuts).toBeGreaterThan(0);
    await engine.close();
  });

  it('a note that counts for nothing cuts no later start', async () => {
    const dataDir = scratch();
    let client = await start(dataDir);
    const configs = { 'flush.messages': '1' };
    await client.createTopics([{ name: 't', partitions: 1, configs }]);
    await client.produce('t', 0, record('a'));
    await broker!.close();
    const note = join(dataDir, 't-0', NOTE);
    // A broker that stopped cleanly stood behind what there is.
    writeFileSync(note, '0\n2\n0 0\n1 1\n');
    client = await start(dataDir);
    expect(existsSync(note)).toBe(false);
    expect(await values(client, 't')).toEqual(['a']);
  });

  it('a log says where, over its segments, and only then', async () => {
    const engine = make();
    const fill = (log: Parameters<typeof append>[1], count: number) => {
      for (let i = 0; i < count; i++)
        append(engine, log, { maxTimestamp: 1000 + i, payload: new Uint8Array(50) });
    };
    const dir = join(scratch(), 't-0');
    const log = await engine.open(dir, OPTIONS);
    fill(log, 20);
    await log.flush();
    const cutAt = log.sizeInBytes;
    // The flush that the first roll begins fails, and the one that is asked for with it.
    setFault('fdatasync', 0, 1, EIO, 0);
    fill(log, 80);
    await expect(log.flush()).rejects.toMatchObject({ code: expect.stringMatching(/IO|OFFLINE/) });
    clearFaults();
    expect(log.failedFlushAt).toBe(20);
    const written = log.sizeInBytes;
    expect(log.segmentBaseOffsets().length).toBeGreaterThan(2);
    await log.close();
    expect(await cutFailedFlush(engine.files, dir)).toBeUndefined();
    // Another broker went on here, and answers for what there is.
    writeFileSync(join(dir, NOTE), '0\n2\n20 20\n99 99\n');
    expect(await cutFailedFlush(engine.files, dir)).toBeUndefined();
    writeFileSync(join(dir, NOTE), '0\n2\n20 20\n100 100\n');
    expect(await cutFailedFlush(engine.files, dir)).toEqual({ offset: 20, bytesCut: written - cutAt });
    // As after a kill in the middle of it.
    expect(await cutFailedFlush(engine.files, dir)).toEqual({ offset: 20, bytesCut: 0 });
    const again = await engine.open(dir, { ...OPTIONS, recoveryPoint: 20 });
    expect([again.logEndOffset, again.recovery.bytesTruncated, again.sizeInBytes]).toEqual([20, 0, cutAt]);
    fill(again, 5);
    // A failed write is no failed flush: what was written before it is not in doubt.
    setFault('pwritev', 0, 1, EIO, 0);
    expect(() => fill(again, 1)).toThrow();
    clearFaults();
    expect([again.offline?.code, again.failedFlushAt]).toEqual(['IO', undefined]);
    await again.close();
    const third = await engine.open(dir, OPTIONS);
    // What lay there before outlives a flush that fails at once.
    setFault('fdatasync', 0, 1, EIO, 0);
    append(engine, third, { maxTimestamp: 1 });
    await expect(third.flush()).rejects.toMatchObject({ code: 'IO' });
    expect(third.failedFlushAt).toBe(25);
    await engine.close();
    const damages = [
      '',
      '0\n1\n20 20',
      '0\n1\n00 20\n',
      '0\n1\n20 2 \n',
      '0\n0\n20 20\n',
      '0\n2\n20 20\n25 26\n',
    ];
    for (const damaged of damages) {
      writeFileSync(join(dir, NOTE), damaged);
      await expect(cutFailedFlush(engine.files, dir)).rejects.toMatchObject({ code: 'CORRUPT' });
    }
  });
});

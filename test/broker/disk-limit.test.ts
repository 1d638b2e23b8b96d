/** log.disk.max.bytes as clients see it: producers never wait, a reader that is too slow hears OFFSET_OUT_OF_RANGE, the newest stays. */
import { afterEach, expect, it } from 'vitest';
import { BrokerRefusal, Client, EARLIEST } from '../../src/client/client.ts';
import { type Broker, createBroker } from '../../src/index.ts';
import { readBatches } from '../../src/protocol/records/reader.ts';
import { ENGINES } from '../support/engines.ts';
import { scratch } from '../support/logs.ts';

const MIB = 1 << 20;
const LIMIT = 4 * MIB;
const SEGMENT = MIB / 4;
const RECORD = 64 * 1024;
const RECORDS = 120;
const TOPICS = ['a', 'b'];

let broker: Broker;
const clients: Client[] = [];

afterEach(async () => {
  for (const client of clients.splice(0)) await client.close();
  await broker.close();
});

async function connect(): Promise<Client> {
  const client = await Client.connect(broker.bootstrapServers);
  clients.push(client);
  return client;
}

const pause = () => new Promise((resolve) => setTimeout(resolve, 20));
const value = (topic: string, i: number) => Buffer.alloc(RECORD, `${topic}${i};`);

it.each(ENGINES)('of all topics together, engine=$name', async ({ name }) => {
  const config = { 'log.disk.max.bytes': String(LIMIT), 'log.segment.delete.delay.ms': '0' };
  broker = await createBroker({ dataDir: scratch(true), host: '127.0.0.1', port: 0, engine: name, config });
  const producer = await connect();
  const configs = { 'internal.segment.bytes': String(SEGMENT), 'retention.ms': '-1' };
  await producer.createTopics(TOPICS.map((topic) => ({ name: topic, partitions: 1, configs })));
  const startOf = async (topic: string) => (await producer.listOffset(topic, 0, EARLIEST)).offset;
  let over = false;

  /** Reads from the start, falls behind, and begins again at the first that is left when its place is gone. */
  const read = async (topic: string) => {
    const client = await connect();
    let next = 0;
    let gone = 0;
    while (next < RECORDS) {
      try {
        const { partition } = await client.fetch(topic, 0, next, { maxBytes: 3 * RECORD, maxWaitMs: 10 });
        for (const batch of readBatches(partition.records!)) {
          for (const record of batch.records()) {
            expect(record.offset).toBe(next++);
            expect(value(topic, record.offset).equals(record.value!)).toBe(true);
          }
        }
      } catch (error) {
        if (!(error instanceof BrokerRefusal) || error.kafkaError !== 'OFFSET_OUT_OF_RANGE') throw error;
        gone++;
        const { offset } = await client.listOffset(topic, 0, EARLIEST);
        expect(offset).toBeGreaterThan(next);
        next = offset;
      }
      while (!over && (await startOf(topic)) <= next) await pause();
    }
    return gone;
  };

  const readers = Promise.all(TOPICS.map(read));
  for (let i = 0; i < RECORDS; i++) {
    for (const topic of TOPICS) {
      const records = [{ timestamp: Date.now(), value: value(topic, i) }];
      expect(await producer.produce(topic, 0, records)).toMatchObject({ errorCode: 0, baseOffset: i });
    }
  }
  const left = async () => {
    const starts = await Promise.all(TOPICS.map(startOf));
    return starts.reduce((sum, start) => sum + (RECORDS - start) * RECORD, 0);
  };
  // What was not worth a look, and the open segments.
  while ((await left()) > LIMIT + MIB + TOPICS.length * SEGMENT) await pause();
  over = true;
  for (const gone of await readers) expect(gone).toBeGreaterThan(0);
  expect(await left()).toBeGreaterThan(LIMIT / 2);
  // Both lose their oldest.
  for (const topic of TOPICS) expect(await startOf(topic)).toBeLessThan(RECORDS - LIMIT / RECORD / 4);
});

/** A disk that cannot be read: the partition that is met answers an error, the others of the same request their records. */
import { statSync, truncateSync } from 'node:fs';
import { constants } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { APIS } from '../../src/client/apis.ts';
import { Client } from '../../src/client/client.ts';
import { type Broker, createBroker } from '../../src/index.ts';
import { KafkaError } from '../../src/protocol/errors.ts';
import { ENGINES } from '../support/engines.ts';
import { scratch } from '../support/logs.ts';

const { EIO } = constants.errno;

describe.each(ENGINES)('engine=$name', ({ name, setFault, clearFaults }) => {
  let broker: Broker | undefined;
  let client: Client | undefined;

  async function start(dataDir: string): Promise<Client> {
    await stop();
    broker = await createBroker({ dataDir, host: '127.0.0.1', port: 0, engine: name });
    client = await Client.connect(broker.bootstrapServers);
    return client;
  }

  async function stop(): Promise<void> {
    await client?.close();
    await broker?.close();
  }

  afterEach(async () => {
    clearFaults();
    await stop();
  });

  /** Error code of each topic, and whether there are records. */
  async function fetch(
    from: Client,
    topics: readonly string[],
    fetchOffset = 0,
  ): Promise<[string, number, boolean][]> {
    const answer = await from.request(
      APIS.fetch,
      {
        ...{ maxWaitMs: 0, minBytes: 1, maxBytes: 1 << 20 },
        topics: topics.map((topic) => ({
          topic,
          partitions: [{ partition: 0, fetchOffset, partitionMaxBytes: 1 << 20 }],
        })),
      },
      { to: await from.anyBroker(), maxVersion: 12 },
    );
    expect(answer.errorCode).toBe(0);
    return answer.responses.map(({ topic, partitions: [only] }) => [
      topic,
      only!.errorCode,
      (only!.records?.length ?? 0) > 0,
    ]);
  }

  it('answers KAFKA_STORAGE_ERROR for the partition that cannot be read, and for no other', async () => {
    const dataDir = scratch();
    const topics = ['t', 'u', 'v'];
    let to = await start(dataDir);
    await to.createTopics(topics.map((topic) => ({ name: topic, partitions: 1 })));
    for (const topic of topics) await to.produce(topic, 0, [{ timestamp: 1, value: topic.repeat(5000) }]);
    // What was just written is known without reading.
    to = await start(dataDir);
    // Node reads by the calls that may wait, and those are tried once more: there all of them fail.
    if (name === 'native') setFault('preadv2', 0, 1, EIO, 0);
    else setFault('pread', 0, 1000, EIO, 0);
    const answers = await fetch(to, topics);
    const broken = answers.filter(([, code]) => code !== 0);
    expect(broken.length).toBe(name === 'native' ? 1 : 3);
    for (const [, ...what] of broken) expect(what).toEqual([KafkaError.KAFKA_STORAGE_ERROR, false]);
    expect(answers.filter(([, code]) => code === 0).map(([, , found]) => found)).toEqual(
      broken.length === 1 ? [true, true] : [],
    );
    clearFaults();
    // It is no failed write: what can be read again is served again, and appended to.
    expect(await fetch(to, topics)).toEqual(topics.map((topic) => [topic, 0, true]));
    for (const topic of topics)
      expect((await to.produce(topic, 0, [{ timestamp: 1, value: 'more' }]))?.errorCode).toBe(0);
  });

  it('answers what lies before the place where a file was cut short, then CORRUPT_MESSAGE', async () => {
    const dataDir = scratch();
    const topics = ['t', 'u', 'v'];
    let to = await start(dataDir);
    await to.createTopics(topics.map((topic) => ({ name: topic, partitions: 1 })));
    for (const topic of topics)
      for (let i = 0; i < 10; i++) await to.produce(topic, 0, [{ timestamp: 1, value: topic.repeat(9000) }]);
    to = await start(dataDir);
    const file = join(dataDir, 'u-0/00000000000000000000.log');
    // In the middle of the eighth batch.
    truncateSync(file, Math.floor((statSync(file).size * 3) / 4));
    const whole = topics.map((topic) => [topic, 0, true]);
    expect(await fetch(to, topics)).toEqual(whole);
    expect(await fetch(to, topics, 6)).toEqual(whole);
    const cut = [
      ['t', 0, true],
      ['u', KafkaError.CORRUPT_MESSAGE, false],
      ['v', 0, true],
    ];
    for (let again = 0; again < 3; again++) expect(await fetch(to, topics, 7)).toEqual(cut);
    for (const topic of ['t', 'v'])
      expect((await to.produce(topic, 0, [{ timestamp: 1, value: 'more' }]))?.errorCode).toBe(0);
  });
});

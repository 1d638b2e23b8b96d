import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { KafkaError } from '../../src/protocol/errors.ts';
import { BroadsheetError } from '../../src/runtime/errors.ts';
import { TestBroker } from './test-broker.ts';
import { batch, NOW, TestClient } from './test-client.ts';

let broker: TestBroker;
let client: TestClient;
beforeEach(async () => {
  broker = await TestBroker.start();
  client = new TestClient(broker);
});
afterEach(() => broker.close());

/** Sends a fetch that has to wait, and checks that it does. */
async function park(
  topic: string,
  options: Parameters<TestClient['fetchFrame']>[1],
  by = client,
): Promise<number> {
  const before = by.peer.received.length;
  broker.transport.tick([by.peer, by.fetchFrame(topic, options)]);
  await broker.settle();
  expect(by.peer.received.length).toBe(before);
  return before;
}

describe('Fetch', () => {
  it('answers every version that is served', async () => {
    const { topicId } = await client.createTopic('t');
    await client.produce('t', batch(['a', 'b']));
    for (let version = 4; version <= 18; version++) {
      const answer = await client.fetch(version < 13 ? 't' : '', {
        version,
        ...(version < 13 ? {} : { topicId }),
      });
      expect([version, answer.sessionId, answer.values]).toEqual([version, 0, ['a', 'b']]);
      expect(answer.partition).toMatchObject({ errorCode: 0, highWatermark: 2, lastStableOffset: 2 });
    }
  });

  it('waits for min bytes, and is woken by the append in the same tick', async () => {
    await client.createTopic('t');
    const size = batch(['x']).length;
    const before = await park('t', { minBytes: 2 * size, maxWaitMs: 500 });
    const producer = new TestClient(broker);
    await producer.produce('t', batch(['x']));
    expect(client.peer.received.length).toBe(before);
    broker.transport.tick([producer.peer, producer.produceFrame('t', batch(['y']))]);
    expect(client.peer.received.length).toBe(before + 1);
    expect(client.fetchAnswer(client.peer.received[before]!).values).toEqual(['x', 'y']);
  });

  it('answers with what there is when max wait has passed', async () => {
    await client.createTopic('t');
    await client.produce('t', batch(['x']));
    const before = await park('t', { minBytes: 100_000, maxWaitMs: 500 });
    broker.clock.advance(499);
    expect(client.peer.received.length).toBe(before);
    broker.clock.advance(1);
    expect(client.fetchAnswer(client.peer.received[before]!).values).toEqual(['x']);
  });

  it('ends its wait at once when another request arrives behind it', async () => {
    await client.createTopic('t');
    const before = await park('t', { maxWaitMs: 60_000 });
    broker.transport.tick([client.peer, client.fetchFrame('none')]);
    expect(client.peer.received.length).toBe(before + 2);
    expect(client.fetchAnswer(client.peer.received[before]!).values).toEqual([]);
  });

  it('answers everything in order behind a fetch that waits, within one tick', async () => {
    await client.createTopic('t');
    const before = await park('t', { maxWaitMs: 60_000 });
    broker.transport.tick(
      [client.peer, client.produceFrame('t', batch(['a']))],
      [client.peer, client.produceFrame('t', batch(['b']))],
      [client.peer, client.fetchFrame('t')],
    );
    expect(client.peer.received.length).toBe(before + 4);
    expect(client.fetchAnswer(client.peer.received[before]!).values).toEqual([]);
    expect(client.fetchAnswer(client.peer.received[before + 3]!).values).toEqual(['a', 'b']);
  });

  it('ends with an error when its topic is deleted', async () => {
    const { topicId } = await client.createTopic('t');
    const byId = new TestClient(broker);
    const before = await park('t', { maxWaitMs: 60_000 });
    const beforeById = await park('', { maxWaitMs: 60_000, version: 13, topicId }, byId);
    await new TestClient(broker).deleteTopics(['t']);
    await broker.answers(client.peer, before + 1);
    await broker.answers(byId.peer, beforeById + 1);
    expect(client.fetchAnswer(client.peer.received[before]!).partition.errorCode).toBe(
      KafkaError.UNKNOWN_TOPIC_OR_PARTITION,
    );
    expect(byId.fetchAnswer(byId.peer.received[beforeById]!, 13).partition.errorCode).toBe(
      KafkaError.UNKNOWN_TOPIC_ID,
    );
  });

  it('leaves nothing behind when its connection closes', async () => {
    await client.createTopic('t');
    await park('t', { maxWaitMs: 60_000 });
    const timers = broker.clock.pendingTimers;
    broker.transport.hangUp(client.peer);
    expect(broker.clock.pendingTimers).toBe(timers - 1);
    const other = new TestClient(broker);
    expect((await other.produce('t', batch(['x']))).errorCode).toBe(0);
  });

  it('keeps to the limits, but always sends the first batch whole', async () => {
    await client.createTopic('t', 3);
    const size = batch(['x'.repeat(100)]).length;
    for (const index of [0, 1, 2]) {
      for (let n = 0; n < 3; n++) await client.produce('t', batch(['x'.repeat(100)]), { index });
    }
    const sizes = async (options: object) =>
      (await client.fetch('t', { partitions: [0, 1, 2], ...options })).partitions.map(
        (p) => p.records!.length,
      );
    expect(await sizes({ maxBytes: 1, partitionMaxBytes: 1 })).toEqual([size, 0, 0]);
    expect(await sizes({ maxBytes: 0, partitionMaxBytes: 0 })).toEqual([size, 0, 0]);
    const split = await sizes({ maxBytes: 4 * size, partitionMaxBytes: 3 * size });
    expect(split).toEqual([3 * size, size, 0]);
    // Not even a whole batch fits behind the first partition's: nothing, rather than a part of one.
    expect(await sizes({ maxBytes: 2 * size, partitionMaxBytes: size + 10 })).toSatisfy(
      ([first, second, third]: number[]) =>
        first! <= size + 10 && (second === 0 || second! >= size) && third === 0,
    );
  });

  it('checks offsets and leader epochs', async () => {
    await client.createTopic('t');
    await client.produce('t', batch(['x']));
    const codeOf = async (options: object) => (await client.fetch('t', options)).partition.errorCode;
    expect(await codeOf({ offset: 1 })).toBe(KafkaError.NONE);
    expect(await codeOf({ offset: 2 })).toBe(KafkaError.OFFSET_OUT_OF_RANGE);
    expect(await codeOf({ offset: -1 })).toBe(KafkaError.OFFSET_OUT_OF_RANGE);
    expect(await codeOf({ currentLeaderEpoch: 0 })).toBe(KafkaError.NONE);
    expect(await codeOf({ currentLeaderEpoch: 5 })).toBe(KafkaError.UNKNOWN_LEADER_EPOCH);
    expect(await codeOf({ replicaId: 1 })).toBe(KafkaError.NOT_LEADER_OR_FOLLOWER);
    expect(await codeOf({ partitions: [9] })).toBe(KafkaError.UNKNOWN_TOPIC_OR_PARTITION);
  });

  it('tells a client where its log parts from ours', async () => {
    await client.createTopic('t');
    await client.produce('t', batch(['x']));
    const ours = await client.fetch('t', { offset: 1, lastFetchedEpoch: 0 });
    expect(ours.partition).toMatchObject({ errorCode: 0, divergingEpoch: { epoch: -1, endOffset: -1 } });
    const unknown = await client.fetch('t', { offset: 1, lastFetchedEpoch: 7 });
    expect(unknown.partition.errorCode).toBe(KafkaError.OFFSET_OUT_OF_RANGE);
  });

  it('serves read_committed where there is nothing transactional, and refuses unknown levels', async () => {
    await client.createTopic('t');
    await client.produce('t', batch(['x']));
    const committed = await client.fetch('t', { isolationLevel: 1 });
    expect([committed.values, committed.partition.abortedTransactions]).toEqual([['x'], []]);
    expect((await client.fetch('t', { isolationLevel: 7 })).errorCode).toBe(KafkaError.INVALID_REQUEST);
  });

  it('says which partition cannot be read, and gives the others', async () => {
    await client.createTopic('t', 2);
    await client.produce('t', batch(['x']), { index: 0 });
    await client.produce('t', batch(['y']), { index: 1 });
    const log = [...broker.engine.logs].find(({ dir }) => dir === '/data/t-0')!;
    log.read = () => {
      throw new BroadsheetError('CORRUPT', 'nonsense at position 0');
    };
    const { partitions } = await client.fetch('t', { partitions: [0, 1] });
    expect(partitions.map((partition) => partition.errorCode)).toEqual([KafkaError.CORRUPT_MESSAGE, 0]);
    expect(broker.logger.of('error')).toEqual(['a partition cannot be read']);
  });

  it('warms what is cold before it answers, and copies what will not stay warm', async () => {
    await client.createTopic('t');
    await client.produce('t', batch(['x', 'y']));
    const log = [...broker.engine.logs].find(({ dir }) => dir === '/data/t-0')!;
    const read = log.read.bind(log);
    let cold = 1;
    let warmed = 0;
    log.read = (...asked) => (cold-- > 0 ? { kind: 'cold' } : read(...asked));
    log.warm = async () => {
      warmed++;
    };
    expect((await client.fetch('t')).values).toEqual(['x', 'y']);
    expect(warmed).toBe(1);
    cold = Number.POSITIVE_INFINITY;
    expect((await client.fetch('t')).values).toEqual(['x', 'y']);
  });

  it('says that a partition is offline, also to a fetch that waits', async () => {
    await client.createTopic('t', 1, { 'flush.messages': '1' });
    const before = await park('t', { maxWaitMs: 60_000 });
    const log = [...broker.engine.logs].find(({ dir }) => dir === '/data/t-0')!;
    log.failNextFlush = new BroadsheetError('IO', 'the disk is gone');
    const failed = await new TestClient(broker).produce('t', batch(['x'], {}, NOW));
    expect(failed.errorCode).toBe(KafkaError.KAFKA_STORAGE_ERROR);
    await broker.answers(client.peer, before + 1);
    expect(client.fetchAnswer(client.peer.received[before]!).partition.errorCode).toBe(
      KafkaError.KAFKA_STORAGE_ERROR,
    );
  });
});

import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { nextEpoch } from '../../src/broker/fetch-session.ts';
import { Partition } from '../../src/log/partition.ts';
import { KafkaError } from '../../src/protocol/errors.ts';
import { SessionClient } from './session-client.ts';
import { TestBroker } from './test-broker.ts';
import { batch, TestClient } from './test-client.ts';

let broker: TestBroker;
let producer: TestClient;
let client: SessionClient;
beforeEach(async () => {
  broker = await TestBroker.start();
  producer = new TestClient(broker);
  client = new SessionClient(broker);
});
afterEach(() => broker.close());

function partitionsOf(topic: string, count: number, offset = 0) {
  return Array.from({ length: count }, (_, index) => ({ topic, index, offset }));
}

/** Counts the readings of logs from now on. */
function countReads(): () => number {
  let reads = 0;
  for (const log of broker.engine.logs) {
    const read = log.read.bind(log);
    log.read = (...asked) => {
      reads++;
      return read(...asked);
    };
  }
  return () => reads;
}

describe('a fetch session', () => {
  it('tells what is new and nothing else', async () => {
    await producer.createTopic('t', 3);
    expect(await client.news({ asked: partitionsOf('t', 3) })).toEqual(['t-0:', 't-1:', 't-2:']);
    expect([client.sessionId > 0, client.epoch]).toEqual([true, 1]);
    expect(await client.news()).toEqual([]);
    await producer.produce('t', batch(['x']), { index: 1 });
    expect(await client.news()).toEqual(['t-1:x']);
    expect(await client.news({ asked: [{ topic: 't', index: 1, offset: 1 }] })).toEqual([]);
    expect(await client.news({ asked: [{ topic: 't', index: 1, offset: 0 }] })).toEqual(['t-1:x']);
    expect(await client.news({ forgotten: [{ topic: 't', index: 1 }] })).toEqual([]);
    await producer.produce('t', batch(['y']), { index: 1 });
    expect(await client.news()).toEqual([]);
  });

  it('is served in every version that has them, by name or by id', async () => {
    const { topicId } = await producer.createTopic('t');
    await producer.produce('t', batch(['x']));
    for (let version = 7; version <= 18; version++) {
      const by = new SessionClient(broker);
      const topic = version < 13 ? { topic: 't' } : { topic: '', topicId };
      const first = await by.poll({ version, asked: [{ ...topic, offset: 1 }] });
      expect([version, first.errorCode, first.sessionId > 0]).toEqual([version, 0, true]);
      expect((await by.poll({ version })).partitions).toEqual([]);
      const wrong = await by.poll({ version: version < 13 ? 13 : 12 });
      expect(wrong.errorCode).toBe(KafkaError.FETCH_SESSION_TOPIC_ID_ERROR);
      const last = await by.poll({ version, asked: [topic] });
      expect(last.partitions.map(({ values }) => values)).toEqual([['x']]);
    }
    for (const version of [4, 5, 6]) {
      const answer = await client.poll({ version, asked: [{ topic: 't' }] });
      expect([answer.sessionId, answer.partitions.length]).toEqual([0, 1]);
    }
  });

  it('goes on by its epoch only', async () => {
    await producer.createTopic('t');
    await client.poll({ asked: [{ topic: 't' }] });
    const codeOf = async (epoch: number, sessionId = client.sessionId) =>
      (await client.poll({ sessionId, epoch })).errorCode;
    expect(await codeOf(2)).toBe(KafkaError.INVALID_FETCH_SESSION_EPOCH);
    expect(await codeOf(-2)).toBe(KafkaError.INVALID_FETCH_SESSION_EPOCH);
    expect(await codeOf(1, client.sessionId ^ 1)).toBe(KafkaError.FETCH_SESSION_ID_NOT_FOUND);
    expect(await codeOf(1, 0)).toBe(KafkaError.FETCH_SESSION_ID_NOT_FOUND);
    expect(await codeOf(1)).toBe(KafkaError.NONE);
    expect(await codeOf(1)).toBe(KafkaError.INVALID_FETCH_SESSION_EPOCH);
    expect(await codeOf(2)).toBe(KafkaError.NONE);
    expect([nextEpoch(0), nextEpoch(7), nextEpoch(2 ** 31 - 1)]).toEqual([1, 8, 1]);
  });

  it('ends with a full fetch that names it, and outlives its connection', async () => {
    await producer.createTopic('t');
    for (const epoch of [0, -1]) {
      await client.poll({ epoch: 0, sessionId: 0, asked: [{ topic: 't' }] });
      const { sessionId } = client;
      broker.transport.hangUp(client.peer);
      client = Object.assign(new SessionClient(broker), { sessionId, epoch: 1 });
      expect(await client.news()).toEqual([]);
      const answer = await client.poll({ epoch, asked: [{ topic: 't' }] });
      expect([answer.sessionId !== sessionId, answer.partitions.length]).toEqual([true, 1]);
      expect((await client.poll({ sessionId, epoch: 2 })).errorCode).toBe(
        KafkaError.FETCH_SESSION_ID_NOT_FOUND,
      );
    }
  });

  it('ends when all its partitions are forgotten, and answers what else is asked', async () => {
    await producer.createTopic('t', 2);
    await client.poll({ asked: [{ topic: 't' }] });
    const both = await client.poll({
      asked: [{ topic: 't', index: 1 }],
      forgotten: partitionsOf('t', 2),
    });
    expect([both.sessionId, both.partitions.map(({ partitionIndex }) => partitionIndex)]).toEqual([0, [1]]);
    expect((await client.poll()).errorCode).toBe(KafkaError.FETCH_SESSION_ID_NOT_FOUND);
  });

  it('is not opened without a slot', async () => {
    await broker.close();
    broker = await TestBroker.start({ 'max.incremental.fetch.session.cache.slots': '1' });
    producer = new TestClient(broker);
    await producer.createTopic('t');
    const [first, second] = [new SessionClient(broker), new SessionClient(broker)];
    expect((await first.poll({ asked: [{ topic: 't' }] })).sessionId).not.toBe(0);
    const without = await second.poll({ asked: [{ topic: 't' }] });
    expect([without.errorCode, without.sessionId, without.partitions.length]).toEqual([0, 0, 1]);
  });

  it('says errors until they are gone, then what it is', async () => {
    expect(await client.news({ asked: [{ topic: 'later' }] })).toEqual(['later-0!3']);
    expect(await client.news()).toEqual(['later-0!3']);
    await producer.createTopic('later');
    expect(await client.news()).toEqual(['later-0:']);
    expect(await client.news()).toEqual([]);
    expect(await client.news({ asked: [{ topic: 'later', offset: 5 }] })).toEqual(['later-0!1']);
    expect(await client.news()).toEqual(['later-0!1']);
    expect(await client.news({ asked: [{ topic: 'later', offset: 0 }] })).toEqual(['later-0:']);
  });

  it('finds the topic that takes the name of one that was deleted; by id there is none', async () => {
    const { topicId } = await producer.createTopic('t');
    const byId = new SessionClient(broker);
    await client.poll({ asked: [{ topic: 't' }] });
    await byId.poll({ version: 13, asked: [{ topic: '', topicId }] });
    await producer.deleteTopics(['t']);
    expect(await client.news()).toEqual([`t-0!${KafkaError.UNKNOWN_TOPIC_OR_PARTITION}`]);
    const codes = async () => (await byId.poll({ version: 13 })).partitions.map((each) => each.errorCode);
    expect(await codes()).toEqual([KafkaError.UNKNOWN_TOPIC_ID]);
    await producer.createTopic('t');
    await producer.produce('t', batch(['new']));
    expect(await client.news()).toEqual(['t-0:new']);
    expect(await codes()).toEqual([KafkaError.UNKNOWN_TOPIC_ID]);
  });

  it('lets no partition starve behind a busy one', async () => {
    await producer.createTopic('t', 3);
    await client.poll({ asked: partitionsOf('t', 3) });
    for (const index of [0, 1, 2]) {
      for (let n = 0; n < 4; n++) await producer.produce('t', batch([`${index}${n}`]), { index });
    }
    const offsets = [0, 0, 0];
    const seen: number[] = [];
    let asked: { topic: string; index: number; offset: number }[] = [];
    for (let round = 0; round < 12; round++) {
      const { partitions } = await client.poll({ asked, maxBytes: 1 });
      const [found] = partitions.filter(({ values }) => values.length > 0);
      const index = found!.partitionIndex;
      seen.push(index);
      asked = [{ topic: 't', index, offset: ++offsets[index]! }];
    }
    expect(seen).toEqual([0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2]);
  });

  it('reads what changed and nothing else, also when it is woken', async () => {
    await producer.createTopic('t', 100);
    await client.poll({ asked: partitionsOf('t', 100) });
    const reads = countReads();
    expect(await client.news()).toEqual([]);
    expect(reads()).toBe(0);
    const number = client.send({ maxWaitMs: 1000 });
    expect(client.peer.received.length).toBe(number);
    await producer.produce('t', batch(['x']), { index: 42 });
    expect(client.answer(number).partitions.map(({ partitionIndex }) => partitionIndex)).toEqual([42]);
    expect(reads()).toBe(1);
    expect(await client.news({ asked: [{ topic: 't', index: 42, offset: 1 }] })).toEqual([]);
    expect(reads()).toBe(1);
  });

  it('costs appends nothing when nobody polls it any more', async () => {
    await producer.createTopic('t');
    const sessions = Array.from({ length: 10 }, () => new SessionClient(broker));
    const watching = vi.spyOn(Partition.prototype, 'watch');
    for (const session of sessions) await session.poll({ asked: [{ topic: 't' }] });
    const partition = watching.mock.contexts[0] as Partition;
    watching.mockRestore();
    const others = partition.watcherCount - sessions.length;
    await producer.produce('t', batch(['x']));
    expect(partition.watcherCount).toBe(others);
    // One that comes back hears of what it missed, and watches again.
    expect(await sessions[3]!.news()).toEqual(['t-0:x']);
    await sessions[3]!.poll({ asked: [{ topic: 't', offset: 1 }] });
    expect(partition.watcherCount).toBe(others + 1);
    await sessions[3]!.poll({ epoch: -1 });
    expect(partition.watcherCount).toBe(others);
  });

  it('waits for min bytes of all its partitions together', async () => {
    await producer.createTopic('t', 3);
    const size = batch(['x']).length;
    await client.poll({ asked: partitionsOf('t', 3) });
    await producer.produce('t', batch(['x']), { index: 0 });
    const number = client.send({ maxWaitMs: 1000, minBytes: 3 * size });
    await producer.produce('t', batch(['y']), { index: 0 });
    expect(client.peer.received.length).toBe(number);
    await producer.produce('t', batch(['z']), { index: 2 });
    expect(client.answer(number).partitions.map(({ values }) => values.join())).toEqual(['x,y', 'z']);
  });

  it('does not wait for more than max bytes', async () => {
    await producer.createTopic('t');
    const number = client.send({
      asked: [{ topic: 't' }],
      minBytes: 1 << 20,
      maxBytes: 100,
      maxWaitMs: 60_000,
    });
    await producer.produce('t', batch(['x'.repeat(100)]));
    expect(client.answer(number).partitions[0]!.values).toEqual(['x'.repeat(100)]);
  });

  it('refuses a fetch that waits when it is asked again, and answers it when it ends', async () => {
    await producer.createTopic('t');
    await client.poll({ asked: [{ topic: 't' }] });
    const timers = broker.clock.pendingTimers;
    const first = client.send({ maxWaitMs: 60_000 });
    const { sessionId } = client;
    const other = Object.assign(new SessionClient(broker), { sessionId, epoch: 2 });
    const second = other.send({ maxWaitMs: 60_000 });
    await broker.answers(client.peer, first + 1);
    expect(client.answer(first)).toMatchObject({
      errorCode: KafkaError.INVALID_FETCH_SESSION_EPOCH,
      sessionId,
      responses: [],
    });
    expect(other.peer.received.length).toBe(second);
    await client.poll({ epoch: -1 });
    await broker.answers(other.peer, second + 1);
    expect(other.answer(second)).toMatchObject({ errorCode: 0, sessionId, responses: [] });
    expect(broker.clock.pendingTimers).toBe(timers);
  });

  it('reads all again under another isolation level', async () => {
    await producer.createTopic('t', 2);
    await client.poll({ asked: partitionsOf('t', 2) });
    const reads = countReads();
    expect(await client.news({ isolationLevel: 1 })).toEqual([]);
    await producer.produce('t', batch(['x']), { index: 1 });
    const before = reads();
    expect(await client.news({ isolationLevel: 1 })).toEqual(['t-1:x']);
    expect(reads()).toBe(before + 1);
  });

  it('has no partitions for a replica', async () => {
    await producer.createTopic('t');
    const answer = await client.poll({ replicaId: 1, asked: [{ topic: 't' }] });
    expect(answer.partitions[0]!.errorCode).toBe(KafkaError.NOT_LEADER_OR_FOLLOWER);
  });
});

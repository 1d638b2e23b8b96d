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

describe('Produce', () => {
  it('answers every version that is served, and closes the connection for 2', async () => {
    const { topicId } = await client.createTopic('t');
    for (let version = 3; version <= 12; version++) {
      const answer = await client.produce('t', batch(['v']), { version });
      expect([answer.errorCode, answer.baseOffset]).toEqual([KafkaError.NONE, version - 3]);
    }
    const byId = await client.produce('', batch(['v']), { version: 13, topicId });
    expect(byId).toMatchObject({ errorCode: KafkaError.NONE, baseOffset: 10 });
    broker.transport.tick([client.peer, broker.frame(0, 2, () => {})]);
    expect(client.peer.closed).toBe('local');
    expect(broker.logger.of('warn').at(-1)).toMatch(/10\.0\.0\.1:\d+: unsupported version 2 of Produce/);
  });

  it('refuses acks that are none', async () => {
    await client.createTopic('t');
    const answer = await client.produce('t', batch(['v']), { acks: 2 });
    expect(answer).toMatchObject({ errorCode: KafkaError.INVALID_REQUIRED_ACKS, baseOffset: -1 });
  });

  it('makes a missing topic for a first Produce, and not when that is switched off', async () => {
    expect(await client.produce('first', batch(['x']))).toMatchObject({ errorCode: 0, baseOffset: 0 });
    expect((await client.fetch('first')).values).toEqual(['x']);
    await broker.close();
    broker = await TestBroker.start({ 'auto.create.topics.enable': 'false' });
    client = new TestClient(broker);
    const answer = await client.produce('second', batch(['x']));
    expect(answer.errorCode).toBe(KafkaError.UNKNOWN_TOPIC_OR_PARTITION);
  });

  it('takes what follows a Produce that waits for its topic in order', async () => {
    const frames = ['a', 'b', 'c'].map(
      (value) => [client.peer, client.produceFrame('new', batch([value]))] as const,
    );
    broker.transport.tick(...frames);
    expect(client.peer.received).toEqual([]);
    await broker.answers(client.peer, 3);
    expect((await client.fetch('new')).values).toEqual(['a', 'b', 'c']);
  });

  it('names topics that cannot be', async () => {
    expect((await client.produce('a b', batch(['x']))).errorCode).toBe(KafkaError.INVALID_TOPIC_EXCEPTION);
    const unknown = { version: 13, topicId: 'EREREREREREREREREREREQ' };
    expect((await client.produce('', batch(['x']), unknown)).errorCode).toBe(KafkaError.UNKNOWN_TOPIC_ID);
    await client.createTopic('t');
    expect((await client.produce('t', batch(['x']), { index: 5 })).errorCode).toBe(
      KafkaError.UNKNOWN_TOPIC_OR_PARTITION,
    );
  });

  it('refuses acks=all where more replicas are wanted than there are', async () => {
    await client.createTopic('t', 1, { 'min.insync.replicas': '2' });
    const answer = await client.produce('t', batch(['x']));
    expect(answer.errorCode).toBe(KafkaError.NOT_ENOUGH_REPLICAS);
    expect(answer.errorMessage).toContain('min.insync.replicas is 2');
    expect((await client.produce('t', batch(['x']), { acks: 1 })).errorCode).toBe(KafkaError.NONE);
  });

  it('says per partition what is wrong with a batch', async () => {
    await client.createTopic('t', 1, { 'max.message.bytes': '1000' });
    const large = await client.produce('t', batch(['x'.repeat(2000)]));
    expect(large.errorCode).toBe(KafkaError.MESSAGE_TOO_LARGE);
    expect(large.errorMessage).toMatch(/2\d\d\d/);
    expect(large.errorMessage).toContain('1000');
    const broken = batch(['x']);
    broken[broken.length - 1]! ^= 1;
    expect((await client.produce('t', broken)).errorCode).toBe(KafkaError.CORRUPT_MESSAGE);
    const two = Buffer.concat([batch(['x']), batch(['y'])]);
    expect((await client.produce('t', two)).errorCode).toBe(KafkaError.INVALID_RECORD);
    expect((await client.produce('t', null)).errorCode).toBe(KafkaError.INVALID_RECORD);
    expect((await client.produce('t', new Uint8Array())).errorCode).toBe(KafkaError.INVALID_RECORD);
    const future = await client.produce('t', batch(['x'], {}, NOW + 2 * 3600 * 1000));
    expect(future.errorCode).toBe(KafkaError.INVALID_TIMESTAMP);
    expect(future.recordErrors).toHaveLength(1);
    expect((await client.fetch('t')).values).toEqual([]);
  });

  it('refuses a transactional batch without a transactional id', async () => {
    await client.createTopic('t');
    const bare = batch(['x'], { producerId: 1, producerEpoch: 0, baseSequence: 0, transactional: true });
    expect((await client.produce('t', bare)).errorCode).toBe(
      KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    );
  });

  it('knows duplicates and gaps of an idempotent producer', async () => {
    const { producerId, producerEpoch } = await client.initProducerId();
    const of = (baseSequence: number) => batch(['x'], { producerId, producerEpoch, baseSequence });
    expect(await client.produce('t', of(0))).toMatchObject({ errorCode: 0, baseOffset: 0 });
    expect(await client.produce('t', of(1))).toMatchObject({ errorCode: 0, baseOffset: 1 });
    expect(await client.produce('t', of(0))).toMatchObject({ errorCode: 0, baseOffset: 0 });
    expect((await client.produce('t', of(7))).errorCode).toBe(KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER);
    expect((await client.fetch('t')).values).toHaveLength(2);
  });

  it('stamps the time where the topic wants it', async () => {
    await client.createTopic('t', 1, { 'message.timestamp.type': 'LogAppendTime' });
    const answer = await client.produce('t', batch(['x'], {}, NOW - 1000));
    expect(answer.logAppendTimeMs).toBe(broker.clock.now());
  });

  it('gives acks=0 no answer, and closes the connection on its error', async () => {
    await client.createTopic('t');
    const before = client.peer.received.length;
    broker.transport.tick([client.peer, client.produceFrame('t', batch(['x']), { acks: 0 })]);
    expect((await client.fetch('t')).values).toEqual(['x']);
    expect(client.peer.received.length).toBe(before + 1);
    broker.transport.tick([client.peer, client.produceFrame('t', batch(['x']), { acks: 0, index: 3 })]);
    expect(client.peer.closed).toBe('local');
    expect(broker.logger.of('warn').at(-1)).toContain('acks=0 failed: UNKNOWN_TOPIC_OR_PARTITION');
  });

  it('answers KAFKA_STORAGE_ERROR when the write fails, and takes the next batch', async () => {
    await client.createTopic('t');
    broker.engine.failNextCommit.set('/data/t-0', new BroadsheetError('IO', 'a bad day'));
    const answer = await client.produce('t', batch(['lost']));
    expect(answer).toMatchObject({
      errorCode: KafkaError.KAFKA_STORAGE_ERROR,
      errorMessage: 'a bad day',
    });
    expect(await client.produce('t', batch(['kept']))).toMatchObject({ errorCode: 0, baseOffset: 0 });
    expect((await client.fetch('t')).values).toEqual(['kept']);
  });

  it('refuses all records after a write that found no space, makes no topic for them, and goes on by itself', async () => {
    for (const topic of ['t', 'u']) await client.createTopic(topic);
    broker.engine.failNextCommit.set('/data/t-0', new BroadsheetError('NO_SPACE', 'write x: no space'));
    const refused = (text: string) => ({
      errorCode: KafkaError.KAFKA_STORAGE_ERROR,
      errorMessage: expect.stringMatching(text),
    });
    expect(await client.produce('t', batch(['lost']))).toMatchObject(
      refused('^no space in /data, which had 600000 bytes left at the last look: write x: no space$'),
    );
    for (const topic of ['u', 'new'])
      expect(await client.produce(topic, batch(['lost']))).toMatchObject(refused('/data .*600000 bytes'));
    for (let second = 0; second < 6; second++) {
      broker.clock.advance(1000);
      await broker.settle();
    }
    expect(await client.produce('t', batch(['kept']))).toMatchObject({ errorCode: 0, baseOffset: 0 });
    expect((await client.fetch('t')).values).toEqual(['kept']);
    expect(broker.logger.of('error')).toHaveLength(1);
  });

  it('does not acknowledge before the flush with flush.messages=1', async () => {
    await client.createTopic('t', 1, { 'flush.messages': '1' });
    const log = [...broker.engine.logs].find(({ dir }) => dir === '/data/t-0')!;
    log.holdFlushes = true;
    const before = client.peer.received.length;
    broker.transport.tick([client.peer, client.produceFrame('t', batch(['x']))]);
    await broker.settle();
    expect(client.peer.received.length).toBe(before);
    log.releaseFlushes();
    await broker.answers(client.peer, before + 1);
  });
});

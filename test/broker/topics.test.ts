import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { KafkaError } from '../../src/protocol/errors.ts';
import { MemoryEngine } from '../support/memory-log.ts';
import { TestBroker } from './test-broker.ts';
import { batch, TestClient } from './test-client.ts';

let broker: TestBroker;
let client: TestClient;
beforeEach(async () => {
  broker = await TestBroker.start();
  client = new TestClient(broker);
});
afterEach(() => broker.close());

describe('Metadata', () => {
  it('answers every version that is served', async () => {
    await client.createTopic('t', 2);
    for (let version = 0; version <= 13; version++) {
      const answer = await client.metadata({ topics: [{ name: 't' }] }, version);
      expect(answer.brokers).toMatchObject([{ nodeId: 1, host: '10.0.0.9', port: 9092 }]);
      expect(answer.topics).toMatchObject([{ errorCode: 0, name: 't' }]);
      expect(answer.topics[0]!.partitions).toMatchObject([
        { errorCode: 0, partitionIndex: 0, leaderId: 1, replicaNodes: [1], isrNodes: [1] },
        { errorCode: 0, partitionIndex: 1, leaderId: 1, replicaNodes: [1], isrNodes: [1] },
      ]);
    }
  });

  it('takes null for all topics and an empty list for none; v0 takes an empty list for all', async () => {
    await client.createTopic('a');
    await client.createTopic('b');
    expect((await client.metadata({ topics: null })).topics.map((topic) => topic.name)).toEqual(['a', 'b']);
    expect((await client.metadata({ topics: [] })).topics).toEqual([]);
    expect((await client.metadata({ topics: [] }, 0)).topics.map((topic) => topic.name)).toEqual(['a', 'b']);
  });

  it('does not make the topic of the metadata log', async () => {
    const { topics } = await client.metadata({
      topics: [{ name: '__cluster_metadata' }],
      allowAutoTopicCreation: true,
    });
    expect(topics[0]!.errorCode).toBe(KafkaError.UNKNOWN_TOPIC_OR_PARTITION);
  });

  it('answers by id', async () => {
    const { topicId } = await client.createTopic('t');
    const [known] = (await client.metadata({ topics: [{ topicId, name: null }] })).topics;
    expect(known).toMatchObject({ errorCode: 0, name: 't', topicId });
    const unknownId = 'EREREREREREREREREREREQ';
    const [unknown] = (await client.metadata({ topics: [{ topicId: unknownId, name: null }] })).topics;
    expect(unknown).toMatchObject({ errorCode: KafkaError.UNKNOWN_TOPIC_ID, name: null, topicId: unknownId });
    const [neither] = (await client.metadata({ topics: [{ name: null }] })).topics;
    expect(neither!.errorCode).toBe(KafkaError.INVALID_REQUEST);
  });

  it('creates only where it may', async () => {
    const codeOf = async (name: string, allowAutoTopicCreation: boolean) =>
      (await client.metadata({ topics: [{ name }], allowAutoTopicCreation })).topics[0]!.errorCode;
    expect(await codeOf('t', false)).toBe(KafkaError.UNKNOWN_TOPIC_OR_PARTITION);
    expect(await codeOf('a b', true)).toBe(KafkaError.INVALID_TOPIC_EXCEPTION);
    expect(await codeOf('__consumer_offsets', true)).toBe(KafkaError.UNKNOWN_TOPIC_OR_PARTITION);
    expect(await codeOf('t', true)).toBe(KafkaError.NONE);
  });

  it('lets 1,000 first senders at once see no error, and makes the topic once', async () => {
    const peers = Array.from(
      { length: 1000 },
      (_, n) => new TestClient(broker, broker.transport.connect(`10.1.${n >> 8}.${n & 255}`)),
    );
    const answers = await Promise.all(
      peers.map(async (each, n) => {
        if (n % 2 === 0) return (await each.produce('hot', batch([`${n}`]))).errorCode;
        const { topics } = await each.metadata({ topics: [{ name: 'hot' }] });
        return (
          topics[0]!.errorCode ||
          topics[0]!.partitions[0]!.errorCode ||
          topics[0]!.partitions[0]!.leaderId - 1
        );
      }),
    );
    expect(answers.filter((code) => code !== 0)).toEqual([]);
    expect((await client.fetch('hot')).values).toHaveLength(500);
  });

  it('tells of authorised operations only when asked', async () => {
    await client.createTopic('t');
    const quiet = await client.metadata({ topics: [{ name: 't' }] }, 10);
    expect([quiet.clusterAuthorizedOperations, quiet.topics[0]!.topicAuthorizedOperations]).toEqual([
      -(2 ** 31),
      -(2 ** 31),
    ]);
    const asked = await client.metadata(
      {
        topics: [{ name: 't' }],
        includeClusterAuthorizedOperations: true,
        includeTopicAuthorizedOperations: true,
      },
      10,
    );
    expect(asked.topics[0]!.topicAuthorizedOperations).toBe(3576);
  });
});

describe('CreateTopics', () => {
  it('answers with what it made, and the topic can be used at once', async () => {
    const made = await client.createTopic('t', 3, { 'retention.ms': '1000' });
    expect(made).toMatchObject({ errorCode: 0, name: 't', numPartitions: 3, replicationFactor: 1 });
    const configs = new Map(made.configs!.map((config) => [config.name, config]));
    expect(configs.get('retention.ms')).toMatchObject({ value: '1000', configSource: 1 });
    expect(configs.get('segment.bytes')).toMatchObject({ value: '1073741824', configSource: 5 });
    expect([...configs.keys()]).toEqual([...configs.keys()].sort());
    expect((await client.produce('t', batch(['x']), { index: 2, acks: 1 })).errorCode).toBe(0);
  });

  it('answers every version that is served', async () => {
    for (let version = 2; version <= 7; version++) {
      expect((await client.createTopic(`t${version}`, 1, {}, { version })).errorCode).toBe(0);
    }
  });

  it('only validates when asked to', async () => {
    expect((await client.createTopic('t', 3, {}, { validateOnly: true })).errorCode).toBe(0);
    expect((await client.metadata({ topics: null })).topics).toEqual([]);
  });

  it('refuses with a reason', async () => {
    await client.createTopic('a.b');
    const codes = [
      (await client.createTopic('a.b')).errorCode,
      (await client.createTopic('a_b')).errorCode,
      (await client.createTopic('a b')).errorCode,
      (await client.createTopic('t', 0)).errorCode,
      (await client.createTopic('t', 1, {}, { replicationFactor: 3 })).errorCode,
      (await client.createTopic('t', 1, { nonsense: '1' })).errorCode,
      (await client.createTopic('t', 1, { 'segment.bytes': '10' })).errorCode,
    ];
    expect(codes).toEqual([
      KafkaError.TOPIC_ALREADY_EXISTS,
      KafkaError.INVALID_TOPIC_EXCEPTION,
      KafkaError.INVALID_TOPIC_EXCEPTION,
      KafkaError.INVALID_PARTITIONS,
      KafkaError.INVALID_REPLICATION_FACTOR,
      KafkaError.INVALID_CONFIG,
      KafkaError.INVALID_CONFIG,
    ]);
  });
});

describe('DeleteTopics', () => {
  it('frees the name when the answer arrives', async () => {
    const first = await client.createTopic('t');
    await client.produce('t', batch(['old']));
    expect(await client.deleteTopics(['t'])).toMatchObject([{ name: 't', errorCode: 0 }]);
    const second = await client.createTopic('t');
    expect(second.errorCode).toBe(0);
    expect(second.topicId).not.toBe(first.topicId);
    expect((await client.fetch('t')).values).toEqual([]);
  });

  it('deletes by id, and says what it does not find', async () => {
    const { topicId } = await client.createTopic('t');
    const unknown = 'EREREREREREREREREREREQ';
    expect(
      await client.deleteTopicsById([{ topicId }, { topicId: unknown }, { name: 'x' }, {}]),
    ).toMatchObject([
      { name: 't', topicId, errorCode: 0 },
      { name: null, errorCode: KafkaError.UNKNOWN_TOPIC_ID },
      { name: 'x', errorCode: KafkaError.UNKNOWN_TOPIC_OR_PARTITION },
      { errorCode: KafkaError.INVALID_REQUEST },
    ]);
    await client.createTopic('t');
    expect(await client.deleteTopics(['t', 't'])).toMatchObject([
      { name: 't', errorCode: KafkaError.INVALID_REQUEST },
    ]);
  });

  it('refuses a topic that is given by name and by id, in either order', async () => {
    const { topicId } = await client.createTopic('t');
    for (const asked of [
      [{ name: 't' }, { topicId }],
      [{ topicId }, { name: 't' }],
    ]) {
      expect(await client.deleteTopicsById(asked)).toMatchObject([
        { name: 't', topicId, errorCode: KafkaError.INVALID_REQUEST },
      ]);
    }
    expect(await client.deleteTopicsById([{ topicId }])).toMatchObject([{ name: 't', errorCode: 0 }]);
  });

  it('takes a hundred thousand names in one request', async () => {
    await client.createTopic('t');
    const names = Array.from({ length: 100_000 }, (_, i) => `n${i % 60_000}`);
    const answers = await client.deleteTopics([...names, 't']);
    const count = (errorCode: number) => answers.filter((answer) => answer.errorCode === errorCode).length;
    expect(answers).toHaveLength(60_001);
    expect(count(KafkaError.INVALID_REQUEST)).toBe(40_000);
    expect(count(KafkaError.UNKNOWN_TOPIC_OR_PARTITION)).toBe(20_000);
    expect(count(KafkaError.NONE)).toBe(1);
  });

  it('does nothing when deletion is switched off', async () => {
    await broker.close();
    broker = await TestBroker.start({ 'delete.topic.enable': 'false' });
    client = new TestClient(broker);
    await client.createTopic('t');
    expect((await client.deleteTopics(['t']))[0]!.errorCode).toBe(KafkaError.TOPIC_DELETION_DISABLED);
    expect((await client.metadata({ topics: null })).topics).toHaveLength(1);
  });
});

describe('InitProducerId', () => {
  it('never gives an id twice, also over a restart', async () => {
    const ids = new Set<number>();
    const engine = new MemoryEngine();
    for (let start = 0; start < 3; start++) {
      await broker.close();
      broker = await TestBroker.start({}, engine);
      client = new TestClient(broker);
      for (let n = 0; n < 1200; n++) {
        const answer = await client.initProducerId();
        expect([answer.errorCode, answer.producerEpoch, ids.has(answer.producerId)]).toEqual([0, 0, false]);
        ids.add(answer.producerId);
      }
    }
  });

  it('refuses an empty transactional id, and half of an id', async () => {
    expect((await client.initProducerId('')).errorCode).toBe(KafkaError.INVALID_REQUEST);
    expect((await client.initProducerId(null, 5, -1)).errorCode).toBe(KafkaError.INVALID_REQUEST);
    expect((await client.initProducerId(null, 0, 0)).errorCode).toBe(KafkaError.NONE);
  });
});

describe('ListOffsets', () => {
  it('finds ends and times', async () => {
    await client.createTopic('t');
    const empty = await client.listOffsets('t', -3);
    expect(empty).toMatchObject([{ errorCode: 0, offset: -1, timestamp: -1, leaderEpoch: -1 }]);
    // Offsets 0-2 at 100-102, 3-4 at 500-501, 5 at 300.
    await client.produce('t', batch(['a', 'b', 'c'], { compression: 'gzip' }, 100));
    await client.produce('t', batch(['d', 'e'], {}, 500));
    await client.produce('t', batch(['f'], {}, 300));
    const found = async (timestamp: number) => {
      const [answer] = await client.listOffsets('t', timestamp);
      return [answer!.errorCode, answer!.offset, answer!.timestamp];
    };
    expect(await found(-1)).toEqual([0, 6, -1]);
    expect(await found(-2)).toEqual([0, 0, -1]);
    expect(await found(-3)).toEqual([0, 4, 501]);
    expect(await found(-4)).toEqual([0, 0, -1]);
    expect(await found(-5)).toEqual([0, -1, -1]);
    expect(await found(-6)).toEqual([0, -1, -1]);
    expect(await found(0)).toEqual([0, 0, 100]);
    expect(await found(101)).toEqual([0, 1, 101]);
    expect(await found(103)).toEqual([0, 3, 500]);
    expect(await found(501)).toEqual([0, 4, 501]);
    expect(await found(502)).toEqual([0, -1, -1]);
  });

  it('refuses what a version does not have', async () => {
    await client.createTopic('t');
    const codeOf = async (timestamp: number, version: number) =>
      (await client.listOffsets('t', timestamp, { version }))[0]!.errorCode;
    for (const [timestamp, since] of [
      [-3, 7],
      [-4, 8],
      [-5, 9],
      [-6, 11],
    ] as const) {
      expect(await codeOf(timestamp, since - 1)).toBe(KafkaError.UNSUPPORTED_VERSION);
      expect(await codeOf(timestamp, since)).toBe(KafkaError.NONE);
    }
    expect(await codeOf(-7, 11)).toBe(KafkaError.UNSUPPORTED_VERSION);
    for (let version = 1; version <= 11; version++) expect(await codeOf(-1, version)).toBe(KafkaError.NONE);
  });

  it('checks epochs, duplicates and names', async () => {
    await client.createTopic('t');
    const codeOf = async (topic: string, options: object) =>
      (await client.listOffsets(topic, -1, options)).map((answer) => answer.errorCode);
    expect(await codeOf('t', { currentLeaderEpoch: 0 })).toEqual([KafkaError.NONE]);
    expect(await codeOf('t', { currentLeaderEpoch: 5 })).toEqual([KafkaError.UNKNOWN_LEADER_EPOCH]);
    expect(await codeOf('t', { partitions: [0, 0] })).toEqual([KafkaError.INVALID_REQUEST]);
    expect(await codeOf('t', { partitions: [1] })).toEqual([KafkaError.UNKNOWN_TOPIC_OR_PARTITION]);
    expect(await codeOf('t', { isolationLevel: 9 })).toEqual([KafkaError.INVALID_REQUEST]);
    expect(await codeOf('none', {})).toEqual([KafkaError.UNKNOWN_TOPIC_OR_PARTITION]);
  });
});

import { describe, expect, it } from 'vitest';
import { ClusterImage, ConfigResource, ImageLoader } from '../../src/metadata/image.ts';
import { randomUuid } from '../../src/metadata/meta-properties.ts';
import {
  decodeMetadataRecord,
  encodeMetadataRecord,
  type MetadataRecord,
  type MetadataRecordInput,
} from '../../src/metadata/records.ts';
import { Writer } from '../../src/protocol/writer.ts';

const TOPIC = 'AAAAAAAAAAAAAAAAAAAAAg';
const OWN = 'AAAAAAAAAAAAAAAAAAAAZQ';
const NONE = 'AAAAAAAAAAAAAAAAAAAAAA';

/** A record as it comes out of the log. */
function record(input: MetadataRecordInput): MetadataRecord {
  const writer = new Writer();
  encodeMetadataRecord(writer, input);
  return decodeMetadataRecord(writer.bytes());
}

function imageOf(...inputs: MetadataRecordInput[]): ClusterImage {
  const image = new ClusterImage();
  const loader = new ImageLoader(image);
  for (const input of inputs) loader.apply(record(input));
  return image;
}

const topic = (name: string, topicId = TOPIC): MetadataRecordInput => ({
  type: 'Topic',
  version: 0,
  data: { name, topicId },
});

const partition = (leader = 1, partitionId = 0): MetadataRecordInput => ({
  type: 'Partition',
  version: 2,
  data: {
    partitionId,
    topicId: TOPIC,
    replicas: [1],
    isr: [1],
    removingReplicas: [],
    addingReplicas: [],
    leader,
    leaderEpoch: 4,
    partitionEpoch: 7,
    directories: [OWN],
  },
});

type Change = Extract<MetadataRecordInput, { type: 'PartitionChange' }>['data'];
const change = (data: Partial<Change>): MetadataRecordInput => ({
  type: 'PartitionChange',
  version: 2,
  data: { partitionId: 0, topicId: TOPIC, ...data },
});

function changed(...changes: Partial<Change>[]) {
  const image = imageOf(topic('t'), partition(), ...changes.map(change));
  return image.topicsById.get(TOPIC)?.partitions.get(0);
}

describe('replay of partitions', () => {
  it('raises the leader epoch exactly when a leader is named, also none and also the same', () => {
    expect(changed()).toMatchObject({ leader: 1, leaderEpoch: 4, partitionEpoch: 7 });
    expect(changed({ isr: [1] })).toMatchObject({ leader: 1, leaderEpoch: 4, partitionEpoch: 8 });
    expect(changed({ leader: -1 })).toMatchObject({ leader: -1, leaderEpoch: 5, partitionEpoch: 8 });
    expect(changed({ leader: 1 })).toMatchObject({ leader: 1, leaderEpoch: 5, partitionEpoch: 8 });
    expect(changed({ leader: -1 }, { directories: [OWN] }, { leader: 1 })).toMatchObject({
      leader: 1,
      leaderEpoch: 6,
      partitionEpoch: 10,
    });
  });

  it('takes over a stop with eligible leader replicas and the start after it', () => {
    const stopped = { isr: [], leader: -1, eligibleLeaderReplicas: [1], lastKnownElr: [1] };
    expect(changed(stopped)).toMatchObject({ isr: [], eligibleLeaderReplicas: [1], lastKnownElr: [1] });
    expect(changed(stopped, { leader: 1, isr: [1], eligibleLeaderReplicas: [] })).toMatchObject({
      isr: [1],
      leader: 1,
      leaderEpoch: 6,
      eligibleLeaderReplicas: [],
      lastKnownElr: [1],
    });
  });

  it('keeps the recovery state unless it is named', () => {
    expect(changed({ leaderRecoveryState: 1 }, { isr: [1] })).toMatchObject({ leaderRecoveryState: 1 });
    expect(changed({ leaderRecoveryState: 1 }, { leaderRecoveryState: 0 })).toMatchObject({
      leaderRecoveryState: 0,
    });
  });

  it('keeps the directory of a replica that stays', () => {
    expect(changed({ replicas: [2, 1] })).toMatchObject({ replicas: [2, 1], directories: [NONE, OWN] });
  });

  it('clears eligible leader replicas of one topic or of all', () => {
    const elr = change({ eligibleLeaderReplicas: [1], lastKnownElr: [1] });
    const clear = (topicName: string): MetadataRecordInput => ({
      type: 'ClearElr',
      version: 0,
      data: { topicName },
    });
    for (const name of ['t', '']) {
      const image = imageOf(topic('t'), partition(), elr, clear(name));
      expect(image.topicsByName.get('t')?.partitions.get(0)).toMatchObject({
        eligibleLeaderReplicas: [],
        lastKnownElr: [],
        partitionEpoch: 9,
      });
    }
    const untouched = imageOf(topic('t'), partition(), clear(''));
    expect(untouched.topicsByName.get('t')?.partitions.get(0)?.partitionEpoch).toBe(7);
  });

  it('takes partitions without directories', () => {
    const image = imageOf(topic('t'), {
      type: 'Partition',
      version: 0,
      data: {
        partitionId: 0,
        topicId: TOPIC,
        replicas: [1],
        isr: [1],
        removingReplicas: [],
        addingReplicas: [],
        leader: 1,
        leaderEpoch: 0,
        partitionEpoch: 0,
      },
    });
    expect(image.topicsByName.get('t')?.partitions.get(0)?.directories).toEqual([NONE]);
  });

  it('refuses what does not fit', () => {
    expect(() => imageOf(partition())).toThrow(/does not exist/);
    expect(() => imageOf(topic('t'), topic('t', randomUuid()))).toThrow(/twice/);
    expect(() => imageOf(topic('../t'))).toThrow(/may hold only/);
    expect(() => imageOf(topic('t'), change({}))).toThrow(/t-0 changes and does not exist/);
  });
});

describe('replay of topics and configs', () => {
  const config = (resourceName: string, name: string, value: string | null): MetadataRecordInput => ({
    type: 'Config',
    version: 0,
    data: { resourceType: ConfigResource.TOPIC, resourceName, name, value },
  });

  it('forgets a removed topic, its partitions, configs and collisions', () => {
    const image = imageOf(
      topic('a.b'),
      partition(),
      partition(1, 1),
      config('a.b', 'retention.ms', '5'),
      config('other', 'retention.ms', '6'),
    );
    expect(image.partitionCount).toBe(2);
    expect(image.collidingTopic('a_b')).toBe('a.b');
    expect(image.topicConfigs('a.b').get('retention.ms')).toBe('5');
    image.apply(record({ type: 'RemoveTopic', version: 0, data: { topicId: TOPIC } }) as never);
    expect(image.topicsByName.size + image.topicsById.size + image.partitionCount).toBe(0);
    expect(image.collidingTopic('a_b')).toBeUndefined();
    expect(image.topicConfigs('a.b').size).toBe(0);
    expect(image.configuredResources(ConfigResource.TOPIC)).toEqual(['other']);
  });

  it('deletes a config whose value is null', () => {
    const image = imageOf(config('t', 'a', '1'), config('t', 'b', '2'), config('t', 'a', null));
    expect([...image.topicConfigs('t')]).toEqual([['b', '2']]);
  });
});

describe('replay of the rest', () => {
  it('keeps features, producer ids, brokers and controllers', () => {
    const image = imageOf(
      { type: 'FeatureLevel', version: 0, data: { name: 'metadata.version', featureLevel: 33 } },
      { type: 'FeatureLevel', version: 0, data: { name: 'group.version', featureLevel: 1 } },
      { type: 'FeatureLevel', version: 0, data: { name: 'group.version', featureLevel: 0 } },
      { type: 'ProducerIds', version: 0, data: { brokerId: 1, brokerEpoch: 2, nextProducerId: 3000 } },
      {
        type: 'RegisterBroker',
        version: 4,
        data: {
          brokerId: 1,
          incarnationId: OWN,
          brokerEpoch: 79,
          endPoints: [{ name: 'PLAINTEXT', host: 'h', port: 9092, securityProtocol: 0 }],
          features: [],
          rack: null,
          fenced: true,
          logDirs: [OWN],
        },
      },
      {
        type: 'BrokerRegistrationChange',
        version: 1,
        data: { brokerId: 1, brokerEpoch: 79, fenced: -1, inControlledShutdown: 1 },
      },
    );
    expect(image.metadataVersion).toBe(33);
    expect([...image.features.keys()]).toEqual(['metadata.version']);
    expect(image.nextProducerId).toBe(3000);
    expect(image.brokers.get(1)).toMatchObject({ epoch: 79, fenced: false, inControlledShutdown: true });
  });

  it('keeps and removes users, rules, quotas and tokens', () => {
    const scram: MetadataRecordInput = {
      type: 'UserScramCredential',
      version: 0,
      data: {
        name: 'alice',
        mechanism: 1,
        salt: Buffer.from('s'),
        storedKey: Buffer.from('k'),
        serverKey: Buffer.from('v'),
        iterations: 4096,
      },
    };
    const quota = (entityName: string | null, remove: boolean): MetadataRecordInput => ({
      type: 'ClientQuota',
      version: 0,
      data: {
        entity: [
          { entityType: 'user', entityName },
          { entityType: 'client-id', entityName: 'app' },
        ],
        key: 'producer_byte_rate',
        value: 1024.5,
        remove,
      },
    });
    const both = imageOf(scram, quota('alice', false), quota(null, false)).security;
    expect(both.scram.get('alice')?.get(1)?.iterations).toBe(4096);
    expect([...both.quotas()].map((q) => q.entity[0]?.entityName)).toEqual(['alice', null]);
    const gone = imageOf(
      scram,
      { type: 'RemoveUserScramCredential', version: 0, data: { name: 'alice', mechanism: 1 } },
      quota(null, false),
      quota(null, true),
    ).security;
    expect(gone.scram.size).toBe(0);
    expect([...gone.quotas()]).toEqual([]);
  });
});

describe('transactions', () => {
  const begin: MetadataRecordInput = { type: 'BeginTransaction', version: 0, data: { name: 'x' } };
  const end: MetadataRecordInput = { type: 'EndTransaction', version: 0, data: {} };
  const abort: MetadataRecordInput = { type: 'AbortTransaction', version: 0, data: { reason: 'why' } };

  it('apply at their end or not at all', () => {
    const image = new ClusterImage();
    const loader = new ImageLoader(image);
    loader.apply(record(begin));
    loader.apply(record(topic('t')));
    expect(loader.inTransaction).toBe(true);
    expect(image.topicsByName.size).toBe(0);
    loader.apply(record(end));
    expect(loader.inTransaction).toBe(false);
    expect([...image.topicsByName.keys()]).toEqual(['t']);
    loader.apply(record(begin));
    loader.apply(record(topic('u', randomUuid())));
    loader.apply(record(abort));
    expect([...image.topicsByName.keys()]).toEqual(['t']);
  });

  it('neither nest nor end twice', () => {
    expect(() => imageOf(begin, begin)).toThrow(/inside another/);
    expect(() => imageOf(end)).toThrow(/did not begin/);
    expect(() => imageOf(abort)).toThrow(/did not begin/);
  });
});

describe('record frames', () => {
  it('refuse an unknown type or version', () => {
    expect(() => decodeMetadataRecord(Buffer.from([1, 6, 0]))).toThrow(/unknown type 6/);
    expect(() => decodeMetadataRecord(Buffer.from([1, 2, 1]))).toThrow(/Topic has version 1/);
    expect(() => decodeMetadataRecord(Buffer.from([2, 2, 0]))).toThrow(/frame version 2/);
    expect(() => decodeMetadataRecord(Buffer.from([]))).toThrow();
  });
});

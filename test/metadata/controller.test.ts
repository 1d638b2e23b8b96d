import { describe, expect, it } from 'vitest';
import {
  allocateProducerIds,
  type ControllerSettings,
  createTopic,
  deleteTopic,
  electLeaders,
  MAX_PARTITIONS_PER_REQUEST,
  recordVersions,
  repeatedNames,
  type TopicSpec,
  tooManyPartitions,
} from '../../src/metadata/controller.ts';
import { ClusterImage, ImageLoader, type ImageRecord } from '../../src/metadata/image.ts';
import {
  decodeMetadataRecord,
  encodeMetadataRecord,
  type MetadataRecordInput,
} from '../../src/metadata/records.ts';
import { errorName } from '../../src/protocol/errors.ts';
import { Writer } from '../../src/protocol/writer.ts';
import { BroadsheetError } from '../../src/runtime/errors.ts';

const DIRECTORY = 'AAAAAAAAAAAAAAAAAAAAZQ';
const NO_ID = 'AAAAAAAAAAAAAAAAAAAAAA';

let ids = 0;
const settings: ControllerSettings = {
  nodeId: 3,
  directoryId: DIRECTORY,
  defaultPartitions: 2,
  maxPartitions: 20_000,
  validateTopicConfig: (values) => {
    for (const [name, value] of values) {
      if (value === 'bad') throw new BroadsheetError('INVALID_CONFIG', `Invalid value bad for ${name}`);
    }
  },
  newTopicId: () => Buffer.from(String(ids++).padStart(16, '0')).toString('base64url'),
};

const spec = (name: string, more: Partial<TopicSpec> = {}): TopicSpec => ({
  name,
  numPartitions: -1,
  replicationFactor: -1,
  assignments: [],
  configs: [],
  ...more,
});

function apply(image: ClusterImage, records: readonly MetadataRecordInput[]): void {
  const loader = new ImageLoader(image);
  for (const record of records) {
    const writer = new Writer();
    encodeMetadataRecord(writer, record);
    loader.apply(decodeMetadataRecord(writer.bytes()) as ImageRecord);
  }
}

function imageWith(...names: string[]): ClusterImage {
  const image = new ClusterImage();
  image.features.set('metadata.version', 33);
  for (const name of names) {
    const decision = createTopic(image, spec(name), settings);
    if (!decision.ok) throw new Error(decision.message);
    apply(image, decision.records);
  }
  return image;
}

/** The error's name, or the number of partitions. */
function outcome(image: ClusterImage, topic: TopicSpec, of = settings): string | number {
  const decision = createTopic(image, topic, of);
  return decision.ok ? decision.numPartitions : errorName(decision.errorCode);
}

describe('createTopic', () => {
  it('writes the topic, its configs and its partitions, led by this node', () => {
    const image = imageWith();
    const decision = createTopic(
      image,
      spec('t', { numPartitions: 2, configs: [{ name: 'retention.ms', value: '5' }] }),
      settings,
    );
    expect(decision.ok && decision.records.map(({ type, version }) => `${type} ${version}`)).toEqual([
      'Topic 0',
      'Config 0',
      'Partition 2',
      'Partition 2',
    ]);
    if (decision.ok) apply(image, decision.records);
    const topic = image.topicsByName.get('t');
    expect([...(topic?.partitions.values() ?? [])]).toMatchObject(
      [0, 1].map((id) => ({
        id,
        replicas: [3],
        isr: [3],
        leader: 3,
        leaderEpoch: 0,
        partitionEpoch: 0,
        directories: [DIRECTORY],
      })),
    );
    expect(image.topicConfigs('t').get('retention.ms')).toBe('5');
  });

  it('checks names', () => {
    const image = imageWith('taken', 'a.b');
    for (const name of ['', '.', '..', 'x'.repeat(250), 'a b', 'a/b', 'ä', 'a\u0000', 'a:b', 'a\n']) {
      expect(outcome(image, spec(name)), JSON.stringify(name)).toBe('INVALID_TOPIC_EXCEPTION');
    }
    for (const name of ['x'.repeat(249), '...', '-', '_', 'A.z_0-9', '__consumer_offsets']) {
      expect(outcome(image, spec(name)), name).toBe(2);
    }
    expect(outcome(image, spec('taken'))).toBe('TOPIC_ALREADY_EXISTS');
    expect(outcome(image, spec('a_b'))).toBe('INVALID_TOPIC_EXCEPTION');
    expect(outcome(image, spec('a.b'))).toBe('TOPIC_ALREADY_EXISTS');
    expect(outcome(image, spec('__cluster_metadata'))).toBe('INVALID_REQUEST');
  });

  it('checks numbers', () => {
    const image = imageWith();
    expect(outcome(image, spec('t', { replicationFactor: 1 }))).toBe(2);
    for (const replicationFactor of [0, -2, 2, 3, 32767]) {
      expect(outcome(image, spec('t', { replicationFactor }))).toBe('INVALID_REPLICATION_FACTOR');
    }
    for (const numPartitions of [0, -2, -(2 ** 31)]) {
      expect(outcome(image, spec('t', { numPartitions }))).toBe('INVALID_PARTITIONS');
    }
    expect(outcome(image, spec('t', { numPartitions: 7 }))).toBe(7);
    expect(outcome(imageWith('u'), spec('t', { numPartitions: 4 }), { ...settings, maxPartitions: 5 })).toBe(
      'POLICY_VIOLATION',
    );
  });

  it('checks manual assignments', () => {
    const image = imageWith();
    const assigned = (...brokerIds: [index: number, ids: number[]][]) =>
      spec('t', {
        assignments: brokerIds.map(([partitionIndex, list]) => ({ partitionIndex, brokerIds: list })),
      });
    expect(outcome(image, assigned([1, [3]], [0, [3]]))).toBe(2);
    for (const bad of [
      assigned([0, [1]]),
      assigned([0, []]),
      assigned([0, [3, 3]]),
      assigned([0, [3, 4]]),
      assigned([1, [3]]),
      assigned([0, [3]], [2, [3]]),
      assigned([0, [3]], [0, [3]]),
      assigned([-1, [3]]),
    ]) {
      expect(outcome(image, bad), JSON.stringify(bad.assignments)).toBe('INVALID_REPLICA_ASSIGNMENT');
    }
    expect(outcome(image, { ...assigned([0, [3]]), numPartitions: 1 })).toBe('INVALID_REQUEST');
    expect(outcome(image, { ...assigned([0, [3]]), replicationFactor: 1 })).toBe('INVALID_REQUEST');
  });

  it('checks configs', () => {
    const image = imageWith();
    const configs = (...pairs: [string, string | null][]) =>
      spec('t', { configs: pairs.map(([name, value]) => ({ name, value })) });
    expect(outcome(image, configs(['a', '1']))).toBe(2);
    for (const bad of [configs(['a', 'bad']), configs(['a', null]), configs(['a', '1'], ['a', '1'])]) {
      expect(outcome(image, bad)).toBe('INVALID_CONFIG');
    }
    expect(outcome(image, configs(['a', 'x'.repeat(1 << 20)]))).toBe('INVALID_CONFIG');
  });

  it('limits a request as a whole', () => {
    const most = spec('a', { numPartitions: MAX_PARTITIONS_PER_REQUEST - 2 });
    expect(tooManyPartitions([most, spec('b')], settings)).toBeUndefined();
    expect(tooManyPartitions([most, spec('b', { numPartitions: 3 })], settings)?.message).toMatch(/10001/);
    expect(tooManyPartitions([spec('b', { numPartitions: 2 ** 31 - 1 })], settings)).toBeDefined();
    expect([...repeatedNames(['a', 'b', 'a', 'a']).keys()]).toEqual(['a']);
  });

  it('writes what the metadata.version can hold', () => {
    const image = imageWith();
    image.features.set('metadata.version', 7);
    const decision = createTopic(image, spec('t'), settings);
    expect(decision.ok && decision.records[1]).toMatchObject({ version: 0, data: { directories: [] } });
    // From MetadataVersion of Apache Kafka 4.4.
    expect([7, 8, 16, 17, 22, 23, 29, 30, 33].map((level) => Object.values(recordVersions(level)))).toEqual([
      [1, 0, 0],
      [2, 0, 0],
      [2, 0, 0],
      [3, 1, 1],
      [3, 1, 1],
      [3, 2, 2],
      [3, 2, 2],
      [4, 2, 2],
      [4, 2, 2],
    ]);
  });
});

describe('deleteTopic', () => {
  it('takes a name or an id', () => {
    const image = imageWith('t');
    const topicId = image.topicsByName.get('t')?.id as string;
    for (const reference of [
      { name: 't', topicId: NO_ID },
      { name: null, topicId },
    ]) {
      expect(deleteTopic(image, reference)).toMatchObject({ ok: true, name: 't', topicId });
    }
    const refused = (name: string | null, id: string) => {
      const decision = deleteTopic(image, { name, topicId: id });
      return decision.ok ? 'ok' : errorName(decision.errorCode);
    };
    expect(refused('u', NO_ID)).toBe('UNKNOWN_TOPIC_OR_PARTITION');
    expect(refused(null, DIRECTORY)).toBe('UNKNOWN_TOPIC_ID');
    expect(refused('t', topicId)).toBe('INVALID_REQUEST');
    expect(refused(null, NO_ID)).toBe('INVALID_REQUEST');
  });
});

describe('producer ids', () => {
  it('come in blocks that follow each other', () => {
    const image = imageWith();
    const first = allocateProducerIds(image, 3, 8);
    expect(first).toMatchObject({ ok: true, firstProducerId: 0, count: 1000 });
    if (first.ok) apply(image, first.records);
    expect(allocateProducerIds(image, 3, 8)).toMatchObject({ firstProducerId: 1000 });
    image.nextProducerId = Number.MAX_SAFE_INTEGER;
    expect(allocateProducerIds(image, 3, 8).ok).toBe(false);
  });
});

describe('electLeaders', () => {
  it('leads exactly what has no leader', () => {
    const image = imageWith('t', 'u');
    expect(electLeaders(image, 3, DIRECTORY)).toEqual([]);
    const partition = image.topicsByName.get('u')?.partitions.get(1);
    Object.assign(partition ?? {}, { leader: -1, isr: [], eligibleLeaderReplicas: [3], leaderEpoch: 5 });
    const records = electLeaders(image, 3, DIRECTORY);
    expect(records).toHaveLength(1);
    apply(image, records);
    expect(image.topicsByName.get('u')?.partitions.get(1)).toMatchObject({
      leader: 3,
      isr: [3],
      eligibleLeaderReplicas: [],
      leaderEpoch: 6,
    });
  });

  it('puts the directory right, and leaves one that Kafka is to assign', () => {
    const image = imageWith('t');
    const [first, second] = [...(image.topicsByName.get('t')?.partitions.values() ?? [])];
    Object.assign(first ?? {}, { directories: ['1pyeWnivRtGJ4m5IhFcV3g'] });
    Object.assign(second ?? {}, { directories: [NO_ID] });
    const records = electLeaders(image, 3, DIRECTORY);
    expect(records).toHaveLength(1);
    apply(image, records);
    expect(first).toMatchObject({ directories: [DIRECTORY], leader: 3, leaderEpoch: 0 });
    image.features.set('metadata.version', 16);
    expect(electLeaders(image, 3, NO_ID)).toEqual([]);
  });
});

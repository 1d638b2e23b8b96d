import { describe, expect, it } from 'vitest';
import { type ControllerSettings, createTopic } from '../../src/metadata/controller.ts';
import {
  createPartitions,
  electLeader,
  type PartitionsSpec,
  reassignPartition,
  tooManyMorePartitions,
} from '../../src/metadata/controller-partitions.ts';
import { ClusterImage, ImageLoader, type ImageRecord } from '../../src/metadata/image.ts';
import {
  decodeMetadataRecord,
  encodeMetadataRecord,
  type MetadataRecordInput,
} from '../../src/metadata/records.ts';
import { errorName } from '../../src/protocol/errors.ts';
import { Writer } from '../../src/protocol/writer.ts';

const DIRECTORY = 'AAAAAAAAAAAAAAAAAAAAZQ';
let ids = 0;
const settings: ControllerSettings = {
  nodeId: 3,
  directoryId: DIRECTORY,
  defaultPartitions: 1,
  maxPartitions: 20_000,
  validateTopicConfig: () => {},
  newTopicId: () => Buffer.from(String(ids++).padStart(16, '0')).toString('base64url'),
};

function apply(image: ClusterImage, records: readonly MetadataRecordInput[]): void {
  const loader = new ImageLoader(image);
  for (const record of records) {
    const writer = new Writer();
    encodeMetadataRecord(writer, record);
    loader.apply(decodeMetadataRecord(writer.bytes()) as ImageRecord);
  }
}

function imageWith(partitions: Record<string, number>, metadataVersion = 33): ClusterImage {
  const image = new ClusterImage();
  apply(image, [
    { type: 'FeatureLevel', version: 0, data: { name: 'metadata.version', featureLevel: metadataVersion } },
  ]);
  for (const [name, numPartitions] of Object.entries(partitions)) {
    const spec = { name, numPartitions, replicationFactor: -1, assignments: [], configs: [] };
    const decision = createTopic(image, spec, settings);
    if (!decision.ok) throw new Error(decision.message);
    apply(image, decision.records);
  }
  return image;
}

function refused(image: ClusterImage, spec: Partial<PartitionsSpec>): string {
  const decision = createPartitions(image, { name: 't', count: 3, assignments: null, ...spec }, settings);
  return decision.ok ? 'ok' : errorName(decision.errorCode);
}

const assigned = (...replicas: number[][]) => replicas.map((brokerIds) => ({ brokerIds }));

describe('more partitions', () => {
  it('are led by this node, in its directory', () => {
    const image = imageWith({ t: 2, other: 1 });
    const decision = createPartitions(image, { name: 't', count: 4, assignments: null }, settings);
    if (!decision.ok) throw new Error(decision.message);
    expect(decision.firstIndex).toBe(2);
    apply(image, decision.records);
    const topic = image.topicsByName.get('t')!;
    expect([...topic.partitions.keys()]).toEqual([0, 1, 2, 3]);
    expect(topic.partitions.get(3)).toMatchObject({
      replicas: [3],
      isr: [3],
      leader: 3,
      leaderEpoch: 0,
      directories: [DIRECTORY],
    });
    expect(image.partitionCount).toBe(5);
  });

  it('are written in a version that the metadata.version knows', () => {
    const versionAt = (metadataVersion: number) => {
      const image = imageWith({ t: 1 }, metadataVersion);
      const decision = createPartitions(image, { name: 't', count: 2, assignments: null }, settings);
      return decision.ok ? decision.records[0]!.version : -1;
    };
    expect([7, 17, 33].map(versionAt)).toEqual([0, 1, 2]);
  });

  it('are refused where the topic would not grow or does not exist', () => {
    const image = imageWith({ t: 2, __consumer_offsets: 50 });
    expect(refused(image, { name: 'missing' })).toBe('UNKNOWN_TOPIC_OR_PARTITION');
    for (const count of [2, 1, 0, -1]) expect(refused(image, { count })).toBe('INVALID_PARTITIONS');
    expect(refused(image, { name: '__consumer_offsets', count: 51 })).toBe('INVALID_TOPIC_EXCEPTION');
    expect(refused(image, { count: 20_001 })).toBe('POLICY_VIOLATION');
    expect(refused(image, {})).toBe('ok');
  });

  it('may be assigned to this node only', () => {
    const image = imageWith({ t: 1 });
    expect(refused(image, { assignments: assigned([3], [3]) })).toBe('ok');
    for (const assignments of [
      [],
      [[3]],
      [[3], [3], [3]],
      [[3], [4]],
      [[3], [3, 3]],
      [[3], []],
      [[3], [-1]],
    ]) {
      expect(refused(image, { assignments: assigned(...assignments) })).toBe('INVALID_REPLICA_ASSIGNMENT');
    }
  });

  it('are at most 10,000 in a request, whatever their topics', () => {
    const image = imageWith({ a: 1, b: 5 });
    const spec = (name: string, count: number) => ({ name, count, assignments: null });
    expect(tooManyMorePartitions(image, [spec('a', 5001), spec('b', 5005)])).toBeUndefined();
    expect(tooManyMorePartitions(image, [spec('a', 5001), spec('b', 5006)])?.errorCode).toBe(44);
    // What gets none, or does not exist, does not count.
    expect(tooManyMorePartitions(image, [spec('a', 10_001), spec('b', 1), spec('c', 99)])).toBeUndefined();
  });
});

describe('reassignment', () => {
  const image = imageWith({ t: 1 });
  const result = (topic: string, index: number, replicas: number[] | null) => {
    const refusal = reassignPartition(image, topic, index, replicas, settings);
    return refusal === undefined ? 'ok' : errorName(refusal.errorCode);
  };

  it('takes the replica that is there, and none else', () => {
    expect(result('t', 0, [3])).toBe('ok');
    for (const replicas of [[], [4], [3, 4], [3, 3], [-1]]) {
      expect(result('t', 0, replicas)).toBe('INVALID_REPLICA_ASSIGNMENT');
    }
  });

  it('has nothing to cancel', () => {
    expect(result('t', 0, null)).toBe('NO_REASSIGNMENT_IN_PROGRESS');
  });

  it('knows what exists', () => {
    for (const replicas of [[3], null]) {
      expect(result('t', 1, replicas)).toBe('UNKNOWN_TOPIC_OR_PARTITION');
      expect(result('t', -1, replicas)).toBe('UNKNOWN_TOPIC_OR_PARTITION');
      expect(result('missing', 0, replicas)).toBe('UNKNOWN_TOPIC_OR_PARTITION');
    }
  });
});

describe('election', () => {
  it('is not needed where the replica leads, and has none to elect where it is lost', () => {
    const image = imageWith({ t: 2 });
    const topicId = image.topicsByName.get('t')!.id;
    apply(image, [
      { type: 'PartitionChange', version: 2, data: { partitionId: 1, topicId, leader: -1, isr: [] } },
    ]);
    const result = (topic: string, index: number) => errorName(electLeader(image, topic, index).errorCode);
    expect(result('t', 0)).toBe('ELECTION_NOT_NEEDED');
    expect(result('t', 1)).toBe('ELIGIBLE_LEADERS_NOT_AVAILABLE');
    expect(result('t', 2)).toBe('UNKNOWN_TOPIC_OR_PARTITION');
    expect(result('missing', 0)).toBe('UNKNOWN_TOPIC_OR_PARTITION');
  });
});

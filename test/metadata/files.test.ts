import { describe, expect, it } from 'vitest';
import {
  formatQuorumState,
  parseQuorumState,
  prepareMetadataFolder,
  snapshotNames,
} from '../../src/metadata/kraft-files.ts';
import {
  formatMetaProperties,
  isUuid,
  parseMetaProperties,
  randomUuid,
} from '../../src/metadata/meta-properties.ts';
import { ProducerIdAllocator } from '../../src/metadata/producer-ids.ts';
import { topicNameFault } from '../../src/metadata/topic-names.ts';
import { BroadsheetError } from '../../src/runtime/errors.ts';
import { silentLogger } from '../../src/runtime/logging.ts';
import { MemoryFiles } from '../support/memory-log.ts';

describe('meta.properties', () => {
  it("reads Kafka's own", () => {
    const text =
      '#\n#Tue Dec 01 22:49:12 UTC 2026\nnode.id=1\ndirectory.id=1pyeWnivRtGJ4m5IhFcV3g\nversion=1\ncluster.id=ZvBjzoka6JYc9eaBI2jfTw\n';
    expect(parseMetaProperties(text, 'p')).toEqual({
      clusterId: 'ZvBjzoka6JYc9eaBI2jfTw',
      nodeId: 1,
      directoryId: '1pyeWnivRtGJ4m5IhFcV3g',
    });
  });

  it('reads back what it writes', () => {
    const properties = { clusterId: randomUuid(), nodeId: 2 ** 31 - 1, directoryId: randomUuid() };
    expect(parseMetaProperties(formatMetaProperties(properties), 'p')).toEqual(properties);
  });

  it('names the file and what is wrong', () => {
    const valid = {
      version: '1',
      'cluster.id': 'c',
      'node.id': '1',
      'directory.id': '1pyeWnivRtGJ4m5IhFcV3g',
    };
    for (const [key, value, message] of [
      ['version', '2', 'version is 2'],
      ['version', undefined, 'version is missing'],
      ['cluster.id', '', 'cluster.id is missing'],
      ['node.id', '-1', 'node.id is "-1"'],
      ['node.id', '2147483648', 'node.id is "2147483648"'],
      ['node.id', undefined, 'node.id is missing'],
      ['directory.id', 'short', 'directory.id "short"'],
      ['directory.id', 'AAAAAAAAAAAAAAAAAAAAAA', 'is not a uuid'],
      ['directory.id', '1pyeWnivRtGJ4m5IhFcV3h', 'is not a uuid'],
    ] as const) {
      const entries = Object.entries({ ...valid, [key]: value }).filter(([, text]) => text !== undefined);
      const text = entries.map(([name, content]) => `${name}=${content}\n`).join('');
      expect(() => parseMetaProperties(text, '/d/meta.properties'), key).toThrow(message);
      expect(() => parseMetaProperties(text, '/d/meta.properties')).toThrow('/d/meta.properties');
    }
  });

  it('makes uuids that Kafka takes', () => {
    for (let i = 0; i < 500; i++) {
      const uuid = randomUuid();
      expect(isUuid(uuid)).toBe(true);
      expect(uuid.startsWith('-')).toBe(false);
    }
  });
});

describe('quorum-state', () => {
  it('is written for either kraft.version', () => {
    expect(parseQuorumState(formatQuorumState(1, 5, 1), 'q')).toEqual({ leaderEpoch: 5, voters: undefined });
    expect(parseQuorumState(formatQuorumState(7, 5, 0), 'q')).toEqual({ leaderEpoch: 5, voters: [7] });
    expect(formatQuorumState(1, 5, 0)).toBe(
      '{"clusterId":"","leaderId":1,"leaderEpoch":5,"votedId":-1,"appliedOffset":0,"currentVoters":[{"voterId":1}],"data_version":0}',
    );
  });

  it('is refused when it is damaged', () => {
    for (const text of ['', '{', 'null', '[]', '{}', '{"leaderEpoch":"5"}', '{"leaderEpoch":1e99}']) {
      expect(() => parseQuorumState(text, '/q'), text).toThrow(/^\/q: /);
    }
  });
});

describe('names in the folder', () => {
  it('tell the newest snapshot and the first segment', () => {
    const names = [
      '00000000000000000086-0000000001.checkpoint',
      '00000000000000000417-0000000002.checkpoint',
      '00000000000000000417-0000000001.checkpoint',
      '00000000000000000900-0000000002.checkpoint.part',
      '00000000000000000900-0000000002.checkpoint.deleted',
      'bootstrap.checkpoint',
      '00000000000000000079.log',
      '00000000000000000012.log',
      '00000000000000000003.log.deleted',
    ];
    expect(snapshotNames(names)[0]).toEqual({
      name: '00000000000000000417-0000000002.checkpoint',
      endOffset: 417,
      epoch: 2,
    });
    expect(snapshotNames([])).toEqual([]);
  });

  it('are made once', async () => {
    const files = new MemoryFiles();
    expect((await prepareMetadataFolder(files, '/d', silentLogger)).folder).toBe('/d/__cluster_metadata-0');
    expect((await prepareMetadataFolder(files, '/d', silentLogger)).folder).toBe('/d/__cluster_metadata-0');
  });
});

describe('topic names', () => {
  it('shorten a long name in the message', () => {
    expect(topicNameFault('x'.repeat(100_000))?.length).toBeLessThan(200);
  });
});

describe('ProducerIdAllocator', () => {
  it('asks for the next block before the last id is gone, one at a time', async () => {
    let asked = 0;
    const ids = new ProducerIdAllocator(async () => ({ firstProducerId: 1000 * asked++, count: 1000 }));
    const taken = new Set<number>();
    for (let i = 0; i < 899; i++) taken.add(await ids.next());
    expect(asked).toBe(1);
    taken.add(await ids.next());
    expect(asked).toBe(2);
    for (let i = 0; i < 2000; i++) taken.add(await ids.next());
    expect(taken.size).toBe(2900);
  });

  it('hands a failure to whoever needs the block, and asks again', async () => {
    let fail = true;
    const ids = new ProducerIdAllocator(async () => {
      if (fail) throw new BroadsheetError('OFFLINE', 'gone');
      return { firstProducerId: 0, count: 1000 };
    });
    await expect(ids.next()).rejects.toThrow('gone');
    fail = false;
    expect(await ids.next()).toBe(0);
    fail = true;
    for (let i = 1; i < 1000; i++) expect(await ids.next()).toBe(i);
    await expect(ids.next()).rejects.toThrow('gone');
  });
});

import { describe, expect, it } from 'vitest';
import { RECOVERY_POINT_FILE } from '../../src/log/checkpoints.ts';
import { ClusterMetadata, type ClusterMetadataOptions } from '../../src/metadata/cluster-metadata.ts';
import { UpgradeType } from '../../src/metadata/controller-features.ts';
import { SERVED_FEATURES } from '../../src/metadata/features.ts';
import { formatMetaProperties } from '../../src/metadata/meta-properties.ts';
import { decodeMetadataRecord } from '../../src/metadata/records.ts';
import { controlTypeName } from '../../src/protocol/records/control.ts';
import { RecordBatch, readBatches } from '../../src/protocol/records/reader.ts';
import { BroadsheetError } from '../../src/runtime/errors.ts';
import { epochsText } from '../support/checkpoint-text.ts';
import { MemoryEngine, type MemoryLog } from '../support/memory-log.ts';

const DIR = '/data';
const FOLDER = `${DIR}/__cluster_metadata-0`;
const END_POINTS = [{ name: 'PLAINTEXT', host: '127.0.0.1', port: 9092 }];

function open(engine: MemoryEngine, more: Partial<ClusterMetadataOptions> = {}): Promise<ClusterMetadata> {
  return ClusterMetadata.open({
    dataDir: DIR,
    engine,
    defaultPartitions: 2,
    maxPartitions: 100_000,
    validateTopicConfig: () => {},
    now: 1000,
    ...more,
  });
}

async function started(engine = new MemoryEngine()) {
  const metadata = await open(engine);
  await metadata.activate(END_POINTS, 1000);
  return { engine, metadata };
}

const topic = (name: string, numPartitions = 1) => ({
  name,
  numPartitions,
  replicationFactor: -1,
  assignments: [],
  configs: [],
});

function create(metadata: ClusterMetadata, name: string, numPartitions = 1) {
  return metadata.createTopics([topic(name, numPartitions)], 1000)[0];
}

/** What lies in the log: one line a batch. */
async function batchesOf(engine: MemoryEngine): Promise<string[]> {
  const log = [...engine.logs].find((candidate) => candidate.dir === FOLDER) as MemoryLog;
  const bytes = await log.readBatches(log.logStartOffset, 1 << 30, log.writtenOffset);
  const lines: string[] = [];
  for (const batch of readBatches(bytes)) {
    if (!(batch instanceof RecordBatch)) throw new Error('old batch');
    const names = [...batch.records()].map((record) =>
      batch.isControl ? controlTypeName(record) : decodeMetadataRecord(record.value ?? new Uint8Array()).type,
    );
    lines.push(`${batch.leaderEpoch}: ${names.join(' ')}`);
  }
  return lines;
}

describe('a new directory', () => {
  it('begins with the records that Apache Kafka needs', async () => {
    const { engine, metadata } = await started();
    expect(await batchesOf(engine)).toEqual([
      '1: LEADER_CHANGE KRAFT_VERSION KRAFT_VOTERS',
      '1: BeginTransaction FeatureLevel FeatureLevel FeatureLevel FeatureLevel EndTransaction',
      '1: RegisterBroker',
    ]);
    expect(metadata.nodeId).toBe(1);
    expect(metadata.epoch).toBe(1);
    expect(metadata.brokerEpoch).toBe(9);
    expect([...metadata.servedFeatures]).toEqual([
      ['metadata.version', 33],
      ['group.version', 1],
      ['streams.version', 1],
      ['transaction.version', 2],
      ['kraft.version', 1],
    ]);
    expect(metadata.image.brokers.get(1)).toMatchObject({
      epoch: 9,
      fenced: true,
      directories: [metadata.directoryId],
      features: SERVED_FEATURES,
    });
    const content = (name: string) => engine.files.content.get(`${DIR}/${name}`)?.toString();
    expect(content('meta.properties')).toBe(
      `version=1\ncluster.id=${metadata.clusterId}\nnode.id=1\ndirectory.id=${metadata.directoryId}\n`,
    );
    expect(content('__cluster_metadata-0/partition.metadata')).toBe(
      'version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ',
    );
    expect(content('__cluster_metadata-0/quorum-state')).toBe(
      '{"leaderId":1,"leaderEpoch":1,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}',
    );
    expect(content('__cluster_metadata-0/leader-epoch-checkpoint')).toBe(epochsText('1 0'));
  });

  it('writes the first control batch byte for byte', async () => {
    const { engine, metadata } = await started();
    const log = [...engine.logs].find((candidate) => candidate.dir === FOLDER) as MemoryLog;
    const bytes = Buffer.from(await log.readBatches(0, 1, 1));
    const directory = Buffer.from(metadata.directoryId, 'base64url').toString('hex');
    expect(bytes.subarray(16, 17).toString('hex')).toBe('02');
    expect(bytes.subarray(21, 27).toString('hex')).toBe('002000000002');
    expect(bytes.subarray(43, 61).toString('hex')).toBe(`${'ff'.repeat(14)}00000003`);
    expect(bytes.subarray(61).toString('hex')).toBe(
      [
        '3a000000080000000226', // LeaderChange: the record's frame
        '0000000000010200000001000200000001000000', // leader 1, voter 1, granted by 1
        '1e00000208000000050a',
        '000000010000', // KRaftVersion 1
        '5200000408000000063e',
        `00000200000001${directory}01000000010000`, // KRaftVoters: node 1, no endpoint, versions 0 to 1
        '0000',
      ].join(''),
    );
  });

  it('is not begun over partitions that another metadata log owns', async () => {
    const engine = new MemoryEngine();
    await engine.files.createDurable(`${DIR}/t-0/partition.metadata`, 'version: 0\ntopic_id: x');
    await expect(open(engine)).rejects.toThrow(/1 partitions \(t-0 \.\.\.\)/);
    expect(engine.files.content.has(`${DIR}/meta.properties`)).toBe(false);
  });

  it.each(['t-0', '__cluster_metadata-0'])(
    'is not begun over a log in %s, without meta.properties',
    async (folder) => {
      const engine = new MemoryEngine();
      await engine.files.createDurable(`${DIR}/${folder}/00000000000000000000.log`, 'x');
      await expect(open(engine)).rejects.toThrow(`1 partitions (${folder} ...)`);
      expect(engine.files.content.has(`${DIR}/meta.properties`)).toBe(false);
    },
  );
});

describe('a start', () => {
  it('goes on one epoch higher, whatever is higher of the log and quorum-state', async () => {
    const { engine, metadata } = await started();
    create(metadata, 't', 3);
    await metadata.close();
    const second = (await started(engine)).metadata;
    expect(second.epoch).toBe(2);
    expect(second.image.topicsByName.get('t')?.partitions.size).toBe(3);
    expect(second.brokerEpoch).toBeGreaterThan(metadata.brokerEpoch);
    await second.close();
    await engine.files.writeAtomic(`${FOLDER}/quorum-state`, '{"leaderId":1,"leaderEpoch":9,"votedId":-1}');
    const third = (await started(engine)).metadata;
    expect(third.epoch).toBe(10);
    await third.close();
    await engine.files.remove(`${FOLDER}/quorum-state`);
    const fourth = (await started(engine)).metadata;
    expect(fourth.epoch).toBe(11);
    expect((await batchesOf(engine)).filter((line) => line.includes('LEADER_CHANGE'))).toEqual([
      '1: LEADER_CHANGE KRAFT_VERSION KRAFT_VOTERS',
      '2: LEADER_CHANGE',
      '10: LEADER_CHANGE',
      '11: LEADER_CHANGE',
    ]);
    expect(engine.files.content.get(`${FOLDER}/leader-epoch-checkpoint`)?.toString()).toMatch(
      /^0\n8\n(1 0\n){2}(2 \d+\n){2}(10 \d+\n){2}(11 \d+\n){2}$/,
    );
  });

  it('writes no record before activate()', async () => {
    const { engine, metadata } = await started();
    const end = metadata.image.topicsByName.size;
    await metadata.close();
    const before = engine.files.content.get(`${FOLDER}/quorum-state`);
    const opened = await open(engine);
    expect(opened.image.topicsByName.size).toBe(end);
    expect((await batchesOf(engine)).length).toBe(3);
    expect(engine.files.content.get(`${FOLDER}/quorum-state`)).toEqual(before);
  });

  it("takes a Kafka's node id for its own", async () => {
    const engine = new MemoryEngine();
    const meta = { clusterId: 'any text', nodeId: 7, directoryId: '1pyeWnivRtGJ4m5IhFcV3g' };
    await engine.files.mkdir(DIR);
    await engine.files.writeAtomic(`${DIR}/meta.properties`, formatMetaProperties(meta));
    const { metadata } = await started(engine);
    expect(metadata).toMatchObject(meta);
    create(metadata, 't');
    expect(metadata.image.topicsByName.get('t')?.partitions.get(0)).toMatchObject({ leader: 7, isr: [7] });
    expect([...metadata.image.brokers.keys()]).toEqual([7]);
  });

  it('recovers from a crash after any number of its first writes', async () => {
    // The batches of a start are written one by one: a crash may leave any of them as the last.
    for (let left = 0; left <= 3; left++) {
      const { engine, metadata } = await started();
      await metadata.close();
      const whole = await open(engine);
      const log = [...engine.logs][0] as MemoryLog;
      const bytes = Buffer.from(await log.readBatches(0, 1 << 20, log.writtenOffset));
      await whole.close();
      const again = new MemoryEngine();
      for (const [path, content] of engine.files.content) {
        // Written by the stop.
        if (path.endsWith(RECOVERY_POINT_FILE)) continue;
        await again.files.mkdir(path.slice(0, path.lastIndexOf('/')));
        await again.files.writeAtomic(path, content);
      }
      const copy = await again.open(FOLDER, {
        segmentBytes: 1 << 30,
        segmentMs: 1e12,
        indexBytes: 1 << 20,
        indexIntervalBytes: 4096,
        logStartOffset: 0,
        recoveryPoint: 0,
        cleanShutdown: false,
        now: 0,
      });
      let count = 0;
      for (const batch of readBatches(bytes)) {
        if (count++ === left) break;
        const end = (batch as RecordBatch).start + (batch as RecordBatch).sizeInBytes;
        const one = Uint8Array.from(bytes.subarray((batch as RecordBatch).start, end));
        copy.stage(one, 0, one.length, 1, 0);
        again.commit(() => {});
      }
      await copy.close();
      const next = (await started(again)).metadata;
      expect(next.epoch).toBe(2);
      expect(next.clusterId).toBe(metadata.clusterId);
      expect([...next.servedFeatures]).toEqual([
        ['metadata.version', 33],
        ['group.version', 1],
        ['streams.version', 1],
        ['transaction.version', 2],
        ['kraft.version', 1],
      ]);
      expect(create(next, 't')?.ok).toBe(true);
    }
  });

  it('keeps a feature that was lowered where it is', async () => {
    const { engine, metadata } = await started();
    const lower = [{ feature: 'group.version', level: 0, upgradeType: UpgradeType.SAFE_DOWNGRADE }];
    expect(await metadata.updateFeatures(lower, 1000, false)).toBeUndefined();
    await metadata.close();
    for (let start = 0; start < 2; start++) {
      const { metadata: next } = await started(engine);
      expect(next.image.features.get('metadata.version')).toBe(33);
      expect(next.image.features.has('group.version')).toBe(false);
      await next.close();
    }
  });

  it('refuses damage and what it cannot lead', async () => {
    const damaged = async (path: string, content: string) => {
      const { engine, metadata } = await started();
      await metadata.close();
      await engine.files.writeAtomic(`${DIR}/${path}`, content);
      return open(engine);
    };
    // Another directory's, whatever the copy says.
    const other = 'version=1\ncluster.id=c\nnode.id=2\ndirectory.id=1pyeWnivRtGJ4m5IhFcV3g';
    await expect(damaged('meta.properties', other)).rejects.toThrow(/several controllers \(node 2 and 1\)/);
    const alone = async (content: string) => {
      const { engine, metadata } = await started();
      await metadata.close();
      await engine.files.remove(`${DIR}/meta.properties.copy`);
      await engine.files.writeAtomic(`${DIR}/meta.properties`, content);
      return open(engine);
    };
    await expect(alone('version=0\nbroker.id=1\n')).rejects.toThrow(/ZooKeeper/);
    await expect(alone('version=1\nnode.id=1\n')).rejects.toThrow(/cluster.id is missing/);
    await expect(
      alone('version=1\ncluster.id=c\nnode.id=x\ndirectory.id=1pyeWnivRtGJ4m5IhFcV3g'),
    ).rejects.toThrow(/node.id is "x"/);
    // The log ends before it.
    await expect(
      damaged('__cluster_metadata-0/00000000000000000050-0000000001.checkpoint', 'torn'),
    ).rejects.toThrow(/checkpoint/);
  });

  it('goes on when one of its files is missing, cut short or altered, and puts it right', async () => {
    const { engine, metadata } = await started();
    const { clusterId, directoryId } = metadata;
    metadata.createTopics([topic('t', 1)], 1000);
    await metadata.durable();
    await metadata.close();
    const paths = [
      'meta.properties',
      'meta.properties.copy',
      'partition.metadata',
      'quorum-state',
      'leader-epoch-checkpoint',
    ].map((name) => (name.startsWith('meta') ? `${DIR}/${name}` : `${FOLDER}/${name}`));
    const whole = new Map([...engine.files.content].map(([path, bytes]) => [path, Buffer.from(bytes)]));
    for (const path of paths) {
      const bytes = whole.get(path)!;
      const harms: (Buffer | undefined)[] = [undefined];
      for (let at = 0; at < bytes.length; at++) {
        harms.push(bytes.subarray(0, at));
        const flipped = Buffer.from(bytes);
        flipped[at]! ^= 1 << (at % 8);
        harms.push(flipped);
      }
      for (const harm of harms) {
        if (harm === undefined) engine.files.content.delete(path);
        else engine.files.content.set(path, harm);
        const again = await open(engine);
        expect([again.clusterId, again.directoryId, again.nodeId], `${path}: ${harm}`).toEqual([
          clusterId,
          directoryId,
          1,
        ]);
        expect(again.image.topicsByName.has('t')).toBe(true);
        expect(again.epoch).toBeLessThan(100);
        await again.close();
      }
      const { metadata: mended } = await started(engine);
      await mended.close();
      if (!path.startsWith(FOLDER)) expect(engine.files.content.get(path)).toEqual(bytes);
      else expect(engine.files.content.get(path)?.length).toBeGreaterThanOrEqual(bytes.length);
    }
  });

  it("adds the directory.id that Kafka before 3.7 didn't write, and keeps the rest", async () => {
    const engine = new MemoryEngine();
    await engine.files.mkdir(DIR);
    await engine.files.writeAtomic(`${DIR}/meta.properties`, '#mine\nnode.id=1\nversion=1\ncluster.id=c');
    const { metadata } = await started(engine);
    expect(engine.files.content.get(`${DIR}/meta.properties`)?.toString()).toBe(
      `#mine\nnode.id=1\nversion=1\ncluster.id=c\ndirectory.id=${metadata.directoryId}\n`,
    );
  });
});

describe('changes', () => {
  it('of one request see each other, and last', async () => {
    const { engine, metadata } = await started();
    const results = metadata.createTopics(
      [topic('a.b', 2), topic('a_b'), topic('twice'), topic('twice'), topic('c', -1)],
      1000,
    );
    expect(
      results.map((result) => (result.ok ? `${result.name} ${result.numPartitions}` : result.message)),
    ).toEqual([
      "topic 'twice' is in the request more than once",
      'a.b 2',
      "topic 'a_b' collides with existing topic 'a.b': names must differ in more than '.' and '_'",
      'c 2',
    ]);
    const c = metadata.image.topicsByName.get('c')?.id as string;
    expect(
      metadata.deleteTopics(
        [
          { name: 'a.b', topicId: 'AAAAAAAAAAAAAAAAAAAAAA' },
          { name: null, topicId: c },
          { name: null, topicId: c },
        ],
        1000,
      ),
    ).toMatchObject([{ ok: true }, { ok: true, name: 'c' }, { ok: false, errorCode: 100 }]);
    expect(create(metadata, 'a_b')?.ok).toBe(true);
    await metadata.durable();
    await metadata.close();
    expect([...(await open(engine)).image.topicsByName.keys()]).toEqual(['a_b']);
  });

  it('are only checked with validateOnly', async () => {
    const { engine, metadata } = await started();
    const before = await batchesOf(engine);
    expect(metadata.createTopics([topic('t')], 1000, true)[0]).toMatchObject({ ok: true, numPartitions: 1 });
    expect(metadata.image.topicsByName.size).toBe(0);
    expect(await batchesOf(engine)).toEqual(before);
  });

  it('are made whole or not at all', async () => {
    const { engine, metadata } = await started();
    engine.failNextCommit.set(FOLDER, new BroadsheetError('NO_SPACE', 'full'));
    expect(() => create(metadata, 't')).toThrow('full');
    expect(metadata.image.topicsByName.size).toBe(0);
    expect(create(metadata, 't')?.ok).toBe(true);
  });

  it('share flushes when 1,000 topics are made at once', async () => {
    const { engine, metadata } = await started();
    const log = [...engine.logs].find((candidate) => candidate.dir === FOLDER) as MemoryLog;
    const before = log.flushes;
    await Promise.all(
      Array.from({ length: 1000 }, async (_, i) => {
        create(metadata, `t${i}`);
        await metadata.durable();
      }),
    );
    expect(log.flushes - before).toBe(1);
    expect(metadata.image.topicsByName.size).toBe(1000);
  });

  it('hand out producer ids that never come twice, also after a restart', async () => {
    const { engine, metadata } = await started();
    const ids = metadata.producerIds(() => 1000);
    const first = await Promise.all(Array.from({ length: 1500 }, () => ids.next()));
    expect(new Set(first).size).toBe(1500);
    expect(Math.max(...first)).toBe(1499);
    await metadata.close();
    const again = (await started(engine)).metadata;
    const next = await again.producerIds(() => 1000).next();
    expect(next).toBeGreaterThan(1499);
    expect(next % 1000).toBe(0);
  });
});

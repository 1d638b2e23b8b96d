import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Files, LogEngine } from '../../src/log/log.ts';
import { ClusterMetadata } from '../../src/metadata/cluster-metadata.ts';
import { FrozenImage } from '../../src/metadata/frozen-image.ts';
import { ClusterImage, ConfigResource } from '../../src/metadata/image.ts';
import {
  decodeMetadataRecord,
  encodeMetadataRecord,
  type MetadataRecordInput,
} from '../../src/metadata/records.ts';
import type { SnapshotKeeper, SnapshotSettings } from '../../src/metadata/snapshot-keeper.ts';
import { Writer } from '../../src/protocol/writer.ts';
import { VirtualClock } from '../../src/runtime/clock.ts';
import { silentLogger } from '../../src/runtime/logging.ts';
import { epochsText } from '../support/checkpoint-text.ts';
import { describeImage } from '../support/describe-image.ts';
import { ENGINES } from '../support/engines.ts';
import { Random } from '../support/random.ts';
import { scaled } from '../support/scale.ts';
import { seedOf } from '../support/seed.ts';

const FOLDER = '__cluster_metadata-0';
const DAY_MS = 24 * 60 * 60 * 1000;

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'broadsheet-snapshots-'));
});
afterEach(() => rmSync(dir, { recursive: true, force: true, maxRetries: 5 }));

function open(engine: LogEngine, dataDir: string, now = 1000): Promise<ClusterMetadata> {
  return ClusterMetadata.open({
    dataDir,
    engine,
    defaultPartitions: 1,
    maxPartitions: 1_000_000,
    validateTopicConfig: () => {},
    now,
  });
}

/** One broker's metadata on the directory, under a clock of its own. */
class Run {
  readonly clock: VirtualClock;
  metadata!: ClusterMetadata;
  keeper!: SnapshotKeeper;
  #topics = 0;

  constructor(clock = new VirtualClock()) {
    this.clock = clock;
  }

  static async start(engine: LogEngine, settings: Partial<SnapshotSettings> = {}, clock?: VirtualClock) {
    const run = new Run(clock);
    run.metadata = await open(engine, dir, run.clock.now());
    await run.metadata.activate([{ name: 'PLAINTEXT', host: '127.0.0.1', port: 9092 }], run.clock.now());
    run.keeper = await run.metadata.keepSnapshots({
      clock: run.clock,
      logger: silentLogger,
      maxRecordBytes: 4000,
      maxIntervalMs: 0,
      retentionBytes: -1,
      retentionMs: -1,
      checkIntervalMs: 60_000,
      recoveryPointMs: 60_000,
      ...settings,
    });
    return run;
  }

  /** One change, of about 1,500 bytes. */
  change(random?: Random): void {
    const { metadata, clock } = this;
    const names = [...metadata.image.topicsByName.keys()];
    if (random !== undefined && names.length > 3 && random.int(3) === 0) {
      metadata.deleteTopics([{ name: random.pick(names), topicId: 'AAAAAAAAAAAAAAAAAAAAAA' }], clock.now());
      return;
    }
    const name = `t${this.#topics++}-${clock.now()}`;
    const configs = [{ name: 'cleanup.policy', value: 'x'.repeat(1000) }];
    const spec = { name, numPartitions: 5, replicationFactor: 1, assignments: [], configs };
    expect(metadata.createTopics([spec], clock.now())[0]).toMatchObject({ ok: true });
  }

  /** Lets what is due begin, and waits for its end. */
  async settle(ms = 0): Promise<void> {
    this.clock.advance(ms);
    await this.keeper.idle();
  }
}

const snapshots = (of = dir) =>
  readdirSync(join(of, FOLDER))
    .filter((name) => name.endsWith('.checkpoint'))
    .sort();
const segments = (of = dir) =>
  readdirSync(join(of, FOLDER))
    .filter((name) => name.endsWith('.log'))
    .sort();
const offsetOf = (name: string | undefined) => Number(name?.slice(0, 20));

describe.each(ENGINES)('snapshots of the metadata log, $name engine', ({ make }) => {
  const engine = make();
  afterAll(() => engine.close());

  /** What a start on a directory makes of it. */
  async function imageIn(dataDir: string): Promise<object> {
    const metadata = await open(engine, dataDir);
    const image = describeImage(metadata.image);
    await metadata.close();
    return image;
  }

  it('are made once enough was written, and a start needs nothing else', async () => {
    const run = await Run.start(engine);
    run.change();
    await run.settle();
    expect(snapshots()).toEqual([]);
    for (let i = 0; i < 3; i++) run.change();
    await run.settle();
    const end = run.metadata.quorum.logEndOffset;
    expect(snapshots()).toEqual([`${String(end).padStart(20, '0')}-0000000001.checkpoint`]);
    expect(segments().map(offsetOf)).toEqual([0, end]);
    run.change();
    await run.metadata.close();
    const expected = describeImage(run.metadata.image);
    expect(await imageIn(dir)).toEqual(expected);
    for (const name of segments()) if (offsetOf(name) < end) rmSync(join(dir, FOLDER, name));
    expect(await imageIn(dir)).toEqual(expected);
  });

  it('are made by time, but not of nothing', async () => {
    const run = await Run.start(engine, { maxRecordBytes: 1e9, maxIntervalMs: 3_600_000 });
    await run.settle(3_599_999);
    expect(snapshots()).toEqual([]);
    await run.settle(1);
    expect(snapshots()).toHaveLength(1);
    expect(segments()).toHaveLength(1);
    await run.settle(10 * 3_600_000);
    expect(snapshots()).toHaveLength(1);
    run.change();
    await run.settle();
    expect(snapshots()).toHaveLength(2);
    await run.metadata.close();
  });

  it('replace each other and the log below by size, and two stay', async () => {
    const run = await Run.start(engine, { retentionBytes: 50_000 });
    for (let i = 0; i < 100; i++) {
      run.change(new Random(i));
      await run.settle();
    }
    const [older, newer, ...more] = snapshots();
    expect(more).toEqual([]);
    expect(offsetOf(newer)).toBeGreaterThan(offsetOf(older));
    expect(offsetOf(segments()[0])).toBe(offsetOf(older));
    const history = readFileSync(join(dir, FOLDER, 'leader-epoch-checkpoint'), 'utf8');
    expect(history).toBe(epochsText(`1 ${offsetOf(older)}`));
    await run.metadata.close();
    const expected = describeImage(run.metadata.image);
    expect(await imageIn(dir)).toEqual(expected);

    // The next start can do without the newer one, and sets it aside.
    const path = join(dir, FOLDER, newer!);
    const whole = readFileSync(path);
    whole[whole.length >> 1]! ^= 1;
    writeFileSync(path, whole);
    expect(await imageIn(dir)).toEqual(expected);
    const next = await Run.start(engine, { maxRecordBytes: 1e9, maxIntervalMs: 3_600_000 });
    expect(snapshots()).toEqual([older]);
    expect(readFileSync(`${path}.quarantine`)).toEqual(whole);
    await next.settle();
    expect(snapshots()).toHaveLength(2);
    await next.metadata.close();

    // Without any the log is not enough, and that is said.
    for (const name of snapshots()) writeFileSync(join(dir, FOLDER, name), 'torn');
    await expect(imageIn(dir)).rejects.toThrow(/checkpoint/);
  });

  it('go by age, also those of runs before', async () => {
    const clock = new VirtualClock();
    const settings = { retentionMs: 7 * DAY_MS };
    const first = await Run.start(engine, settings, clock);
    for (let day = 0; day < 5; day++) {
      for (let i = 0; i < 4; i++) first.change();
      await first.settle();
      await first.settle(DAY_MS);
    }
    await first.metadata.close();
    const made = snapshots();
    expect(made).toHaveLength(5);
    const second = await Run.start(engine, settings, clock);
    await second.settle(60_000);
    expect(snapshots()).toEqual(made);
    await second.settle(2 * DAY_MS + 60_000);
    expect(snapshots()).toEqual(made.slice(1));
    await second.settle(60 * DAY_MS);
    expect(snapshots()).toEqual(made.slice(3));
    expect(offsetOf(segments()[0])).toBe(offsetOf(made[3]));
    await second.metadata.close();
    expect(await imageIn(dir)).toEqual(describeImage(second.metadata.image));
  });

  it('outlive a kill before and behind each change of a file', async () => {
    const random = new Random(seedOf('kills among snapshots', 4));
    const { files } = engine;
    const seen: string[] = [];
    let run: Run | undefined;
    const copies = mkdtempSync(join(tmpdir(), 'broadsheet-kills-'));
    const images: object[] = [];
    const copy = () => {
      if (run === undefined) return;
      cpSync(dir, join(copies, String(images.length)), { recursive: true });
      images.push(describeImage(run.metadata.image));
    };
    const watched: LogEngine = {
      ...{ name: engine.name, inspector: engine.inspector },
      files: new Proxy(files, {
        get: (_, name: keyof Files) => {
          const call = (files[name] as (...args: unknown[]) => Promise<unknown>).bind(files);
          if (!['writeAtomic', 'remove', 'rename'].includes(name)) return call;
          return async (...args: unknown[]) => {
            copy();
            if (name === 'writeAtomic' && random.int(2) === 0 && images.length > 0) {
              const path = String(args[0]).replace(dir, join(copies, String(images.length - 1)));
              writeFileSync(`${path}.tmp`, 'half');
            }
            const result = await call(...args);
            copy();
            seen.push(`${name} ${String(args[0]).slice(dir.length)}`);
            return result;
          };
        },
      }),
      open: (...args) => engine.open(...args),
      commit: (done) => engine.commit(done),
      flushAll: (logs) => engine.flushAll(logs),
      close: async () => {},
    };
    try {
      run = await Run.start(watched, { retentionBytes: 20_000 });
      for (let i = 0; i < scaled(16, 100); i++) {
        run.change(random);
        await run.settle();
      }
      await run.metadata.close();
      expect(seen.filter((what) => /remove .*\.checkpoint/.test(what)).length).toBeGreaterThan(0);
      expect(seen.filter((what) => /remove .*\.log/.test(what)).length).toBeGreaterThan(0);
      for (const [index, image] of images.entries()) {
        const copied = join(copies, String(index));
        expect(await imageIn(copied), `${index} of ${images.length}`).toEqual(image);
      }
    } finally {
      rmSync(copies, { recursive: true, force: true });
    }
  });

  it('try again later where there is no room, and the log goes on', async () => {
    const run = await Run.start(engine);
    const { files } = engine;
    const write = files.writeAtomic;
    files.writeAtomic = async () => {
      throw new Error('full');
    };
    for (let i = 0; i < 4; i++) run.change();
    await run.settle();
    expect(snapshots()).toEqual([]);
    files.writeAtomic = write;
    run.change();
    await run.settle();
    expect(snapshots()).toEqual([]);
    await run.settle(60_000);
    expect(snapshots()).toHaveLength(1);
    await run.metadata.close();
  });
});

/** A record as it comes out of a log. */
function read(input: MetadataRecordInput) {
  const writer = new Writer();
  encodeMetadataRecord(writer, input);
  return decodeMetadataRecord(Uint8Array.from(writer.bytes())) as Parameters<ClusterImage['apply']>[0];
}

/** Some change of an image that fits it. */
function randomChange(random: Random, image: ClusterImage, next: () => string): MetadataRecordInput {
  const topics = [...image.topicsById.values()];
  const node = () => random.int(5);
  const nodes = () => Array.from({ length: random.int(4) }, node);
  if (topics.length === 0 || random.int(8) === 0) {
    return { type: 'Topic', version: 0, data: { name: `t.${next()}`, topicId: next() } };
  }
  const topic = random.pick(topics);
  const partitions = [...topic.partitions.keys()];
  switch (random.int(12)) {
    case 0:
      return { type: 'RemoveTopic', version: 0, data: { topicId: topic.id } };
    case 1: {
      const value = random.int(3) === 0 ? null : next();
      const data = {
        resourceType: ConfigResource.TOPIC,
        resourceName: topic.name,
        name: `k${node()}`,
        value,
      };
      return { type: 'Config', version: 0, data };
    }
    case 2: {
      const entity = [{ entityType: 'user', entityName: random.int(2) === 0 ? null : `u${node()}` }];
      const data = { entity, key: `k${node()}`, value: node(), remove: random.int(3) === 0 };
      return { type: 'ClientQuota', version: 0, data };
    }
    case 3: {
      const blob = Buffer.from(next());
      const data = { name: `u${node()}`, mechanism: 1 + random.int(2), iterations: 4096 };
      return {
        type: 'UserScramCredential',
        version: 0,
        data: { ...data, salt: blob, storedKey: blob, serverKey: blob },
      };
    }
    case 4:
      return {
        type: 'ProducerIds',
        version: 0,
        data: { brokerId: 1, brokerEpoch: 1, nextProducerId: node() },
      };
    case 5:
      return { type: 'ClearElr', version: 0, data: { topicName: random.int(2) === 0 ? '' : topic.name } };
    case 6:
      return {
        type: 'RegisterBroker',
        version: 4,
        data: {
          ...{ brokerId: node(), incarnationId: topic.id, brokerEpoch: node(), endPoints: [], features: [] },
          ...{ rack: random.int(2) === 0 ? null : 'r', fenced: random.int(2) === 0, logDirs: [topic.id] },
        },
      };
    case 7:
      if (image.brokers.size > 0) {
        const brokerId = random.pick([...image.brokers.keys()]);
        const data = { brokerId, brokerEpoch: 1, fenced: random.int(3) - 1, logDirs: [] };
        return { type: 'BrokerRegistrationChange', version: 3, data };
      }
  }
  if (partitions.length === 0 || random.int(4) === 0) {
    const replicas = nodes();
    return {
      type: 'Partition',
      version: 2,
      data: {
        ...{ partitionId: random.int(20), topicId: topic.id, replicas, isr: nodes(), leader: node() },
        ...{ removingReplicas: [], addingReplicas: nodes(), leaderEpoch: node(), partitionEpoch: node() },
        directories: replicas.map(() => topic.id),
        ...(random.int(2) === 0 ? { eligibleLeaderReplicas: nodes(), lastKnownElr: nodes() } : {}),
      },
    };
  }
  const data = { partitionId: random.pick(partitions), topicId: topic.id, leader: node() - 2, isr: nodes() };
  return { type: 'PartitionChange', version: 2, data };
}

describe('a frozen image', () => {
  /** Freezes images that go on changing, and says whether what comes out is what they were. */
  function isExact(seed: number, watched: boolean): boolean {
    const random = new Random(seed);
    let ids = 0;
    const next = () => Buffer.alloc(16, `${ids++}-`).toString('base64url');
    const image = new ClusterImage();
    image.apply(
      read({ type: 'FeatureLevel', version: 0, data: { name: 'metadata.version', featureLevel: 33 } }),
    );
    for (let i = 0; i < 200; i++) image.apply(read(randomChange(random, image, next)));
    const before = describeImage(image);
    const frozen = new FrozenImage(image);
    if (!watched) image.beforeTopicChange = undefined;
    const copy = new ClusterImage();
    for (const record of frozen.records()) {
      copy.apply(read(record));
      for (let i = random.int(3); i > 0; i--) image.apply(read(randomChange(random, image, next)));
    }
    frozen.release();
    expect(image.beforeTopicChange).toBeUndefined();
    try {
      expect(describeImage(copy)).toEqual(before);
      return true;
    } catch (error) {
      if (watched) throw error;
      return false;
    }
  }

  it('is what the image was, whatever changes meanwhile', () => {
    const seed = seedOf('frozen image', 11);
    for (let round = 0; round < scaled(30, 1000); round++) expect(isExact(seed + round, true)).toBe(true);
  });

  it('would not be if topics were not copied before they change', () => {
    expect(isExact(11, false)).toBe(false);
  });
});

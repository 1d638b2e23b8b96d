/** Logs that lost their ends, which the start gave back as batches without records: Apache Kafka opens such a directory and goes on
 * with it, and so do we after it; unmodified clients read over the holes, whoever serves them. */
import {
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { deleteRecords } from '../../src/client/admin.ts';
import { Client, EARLIEST, LATEST } from '../../src/client/client.ts';
import { commitOffsets } from '../../src/client/groups.ts';
import { BrokerProcess } from '../support/broker-process.ts';
import { cli } from '../support/cli.ts';
import { ClientDriver, type Isolation } from '../support/client-driver.ts';
import { BRISK_GROUPS, chosen } from '../support/client-scene.ts';
import { CLIENTS } from '../support/clients.ts';
import { outputs } from '../support/command.ts';
import { dumpLogFaults } from '../support/dump-log.ts';
import { KafkaPeer, kafkaPort } from '../support/kafka-peer.ts';

const TOPIC = 'ends';
/** One record each, 15 to a segment: the last one begins at 30. */
const BATCHES = 40;
const LAST = 30;
const VALUE = 'v'.repeat(1000);
const SESSION_MS = 30_000;
const SETTINGS = { ...BRISK_GROUPS, 'offsets.topic.num.partitions': '1', 'log.cleaner.enable': 'false' };
const READERS = chosen(CLIENTS).filter(({ name }) =>
  ['kafka-clients-4.4', 'confluent-kafka', 'kafkajs'].includes(name),
);

interface Shape {
  readonly what: string;
  readonly gone: readonly number[];
  /** After a clean stop no checksum is looked at: it is told when it is read. */
  readonly isUnread?: true;
  /** Of the last segment. */
  harm(path: string): void;
}

const from = (first: number) => Array.from({ length: BATCHES - first }, (_, i) => first + i);

/** Changes a byte of the batch that is the n-th of the segment, n from the end. */
function alter(path: string, n: number, at: number): void {
  const bytes = readFileSync(path);
  const starts: number[] = [];
  for (let start = 0; start < bytes.length; start += 12 + bytes.readInt32BE(start + 8)) starts.push(start);
  bytes[starts.at(n)! + at]! ^= 8;
  writeFileSync(path, bytes);
}

const SHAPES: readonly Shape[] = [
  { what: 'a damaged last batch', gone: [39], isUnread: true, harm: (path) => alter(path, -1, 100) },
  { what: 'an end within a batch', gone: [39], harm: (path) => truncateSync(path, statSync(path).size - 7) },
  { what: 'a batch without its magic before the last', gone: [38], harm: (path) => alter(path, -2, 16) },
  { what: 'an empty last segment', gone: from(LAST), harm: (path) => truncateSync(path, 0) },
  { what: 'no last segment', gone: from(LAST), harm: (path) => rmSync(path) },
  { what: 'nothing', gone: [], harm: () => {} },
];
/** The hole is the end of its segment, and what comes behind it is in the next one. kafkajs learns where to go on from records alone,
 * and asks for the hole again and again, whoever serves it. */
const STUCK: Readonly<Record<string, string | undefined>> = { kafkajs: 'no last segment' };

/** Of the run, a partition each. */
let shapes: readonly Shape[];
let written: number[];
let dir: string;
let kafka: KafkaPeer;
let ours: BrokerProcess | undefined;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'broadsheet-known-end-'));
  kafka = new KafkaPeer(dir, kafkaPort());
});
afterEach(async () => {
  await ours?.kill();
  await kafka.dispose();
  rmSync(dir, { recursive: true, force: true });
});

/** What is written to each partition, at which offset; the same to all. */
async function append(address: string, count: number): Promise<void> {
  const client = await Client.connect(address);
  for (const partition of shapes.keys()) {
    for (let i = 0; i < count; i++) {
      const offset = written.length + i;
      const record = { timestamp: 1_000_000 + offset, key: `${partition}`, value: `${offset}${VALUE}` };
      const answer = await client.produce(TOPIC, partition, [record]);
      expect(answer).toMatchObject({ errorCode: 0, baseOffset: offset });
    }
  }
  await client.close();
  written.push(...Array.from({ length: count }, (_, i) => written.length + i));
}

/** The offsets that a partition has to be read with. */
const left = (partition: number) => written.filter((offset) => !shapes[partition]!.gone.includes(offset));

async function expectOffsets(address: string): Promise<void> {
  const client = await Client.connect(address);
  for (const partition of shapes.keys()) {
    const { what } = shapes[partition]!;
    expect((await client.listOffset(TOPIC, partition, EARLIEST)).offset, what).toBe(0);
    expect((await client.listOffset(TOPIC, partition, LATEST)).offset, what).toBe(written.length);
    const records: number[] = [];
    for await (const { offset } of client.records(TOPIC, partition, 0)) records.push(offset);
    expect(records, what).toEqual(left(partition));
  }
  await client.close();
}

/** kcat from the start and from each offset of the hole. */
async function expectKcatReads(address: string): Promise<void> {
  for (const partition of shapes.keys()) {
    const { what, gone } = shapes[partition]!;
    for (const begin of new Set([0, gone[0] ?? 1, gone.at(-1) ?? 1])) {
      const where = ['-b', address, '-C', '-t', TOPIC, '-p', String(partition), '-o', String(begin)];
      const { stdout } = await outputs('kcat', [...where, '-e', '-q', '-f', '%o ']);
      const seen = stdout.trim().split(' ').map(Number);
      expect(seen, `${what}, from ${begin}`).toEqual(left(partition).filter((offset) => offset >= begin));
    }
  }
}

/** Members of groups that begin at the start, at the hole and within it; each is given all that is there, and then what comes. */
async function expectClientsRead(address: string, server: string): Promise<void> {
  const isolations: readonly Isolation[] = ['read_uncommitted', 'read_committed', 'read_uncommitted'];
  const client = await Client.connect(address);
  const readers: { driver: ClientDriver; begins: number[]; stuck: string | undefined }[] = [];
  const seen = (driver: ClientDriver, partition: number) => [
    ...new Set(driver.records.filter((each) => each.partition === partition).map(({ offset }) => offset)),
  ];
  try {
    for (const kind of READERS) {
      for (const [n, isolation] of isolations.entries()) {
        const group = `${server}-${kind.name}-${n}`;
        const begins = shapes.map(({ gone }) => (n === 0 ? 0 : (gone[n === 1 ? 0 : gone.length >> 1] ?? 1)));
        await commitOffsets(
          client,
          group,
          begins.map((offset, partition) => ({ topic: TOPIC, partition, offset })),
        );
        const driver = await ClientDriver.start(kind, address);
        readers.push({ driver, begins, stuck: STUCK[kind.name] });
        await driver.join({
          ...{ group, topics: [TOPIC], protocol: 'classic', sessionTimeoutMs: SESSION_MS, isolation },
        });
      }
    }
    const given = async () => {
      for (const { driver, begins, stuck } of readers) {
        for (const partition of shapes.keys()) {
          const expected = left(partition).filter((offset) => offset >= begins[partition]!);
          if (shapes[partition]!.what === stuck) continue;
          const what = `${driver.kind.name} on ${server}, ${shapes[partition]!.what}, from ${begins[partition]}`;
          await driver.until(what, () => seen(driver, partition).length >= expected.length);
          expect(seen(driver, partition), what).toEqual(expected);
        }
      }
    };
    await given();
    await append(address, 3);
    await given();
    for (const { driver, stuck } of readers) {
      await driver.commit();
      expect(driver.errors).toEqual([]);
      for (const [partition, { what }] of shapes.entries())
        if (what === stuck) expect(Math.max(...seen(driver, partition), 0), server).toBeLessThan(LAST);
    }
  } finally {
    await Promise.all(readers.map(({ driver }) => driver.kill()));
    await client.close();
  }
}

/** Offsets that have no record are all that kafka-dump-log may tell of, as where compaction took them. */
async function expectSoundFiles(): Promise<void> {
  const faults = await dumpLogFaults(kafka.dataDir);
  expect(faults.filter((line) => !/ (37 is followed by 39|38 is followed by 40)$/.test(line))).toEqual([]);
}

const quarantined = () =>
  shapes.map(
    (_, n) =>
      readdirSync(join(kafka.dataDir, `${TOPIC}-${n}`)).filter((name) => name.endsWith('.quarantine')).length,
  );

describe.each(['native', 'js'])('ends that were given back, engine=%s', (engine) => {
  const startOurs = async () => {
    ours = await BrokerProcess.start(kafka.dataDir, { config: { ...SETTINGS, engine } });
    return ours;
  };

  it.each([true, false])('after a clean stop: %s', async (isClean) => {
    written = [];
    shapes = SHAPES.filter(({ isUnread }) => !isClean || isUnread !== true);
    let broker = await startOurs();
    const client = await Client.connect(broker.address);
    const configs = { 'internal.segment.bytes': '16384', 'retention.ms': '-1' };
    await client.createTopics([{ name: TOPIC, partitions: shapes.length, configs }]);
    await client.close();
    await append(broker.address, BATCHES);
    await broker.stop();
    for (const [partition, { harm }] of shapes.entries())
      harm(join(kafka.dataDir, `${TOPIC}-${partition}`, `${String(LAST).padStart(20, '0')}.log`));
    if (!isClean) rmSync(join(kafka.dataDir, '.kafka_cleanshutdown'));

    broker = await startOurs();
    const kept = quarantined();
    expect(kept).toEqual(isClean ? [1, 1, 0, 0, 0] : [1, 1, 1, 0, 0, 0]);
    await expectOffsets(broker.address);
    await append(broker.address, 2);
    await expectOffsets(broker.address);
    await expectKcatReads(broker.address);
    await expectClientsRead(broker.address, 'broadsheet');
    await broker.stop();
    await expectSoundFiles();

    await kafka.start(...Object.entries(SETTINGS).map(([key, value]) => `${key}=${value}`));
    await kafka.untilLeading(shapes.map((_, partition) => [TOPIC, partition] as const));
    await expectOffsets(kafka.address);
    await append(kafka.address, 2);
    await expectOffsets(kafka.address);
    await expectKcatReads(kafka.address);
    await expectClientsRead(kafka.address, 'kafka');
    const said = readFileSync(join(kafka.dir, 'log'), 'utf8');
    expect(said.split('\n').filter((line) => line.includes(TOPIC) && /WARN|ERROR|FATAL/.test(line))).toEqual(
      [],
    );
    await kafka.kill();
    await kafka.start();
    await kafka.untilLeading(shapes.map((_, partition) => [TOPIC, partition] as const));
    await expectOffsets(kafka.address);
    await kafka.stop();

    broker = await startOurs();
    await expectOffsets(broker.address);
    await append(broker.address, 2);
    await expectOffsets(broker.address);
    await expectKcatReads(broker.address);
    expect(quarantined()).toEqual(kept);
    await broker.stop();
    await expectSoundFiles();
  });

  it('a metadata log that was repaired is one that Apache Kafka goes on with', async () => {
    let broker = await startOurs();
    const topics = async (address: string) => {
      const client = await Client.connect(address);
      const found = (await client.metadata()).topics.map(({ name }) => name).sort();
      await client.close();
      return found;
    };
    const create = async (address: string, names: readonly string[]) => {
      const client = await Client.connect(address);
      for (const name of names) await client.createTopics([{ name, partitions: 2 }]);
      await client.close();
    };
    await create(broker.address, ['kept', 'lost', 'kept-too']);
    await broker.stop();
    const folder = join(kafka.dataDir, '__cluster_metadata-0');
    const path = join(folder, '00000000000000000000.log');
    const bytes = readFileSync(path);
    bytes[bytes.indexOf('lost')]! ^= 8;
    writeFileSync(path, bytes);
    const { code, stdout } = await cli(['check', kafka.dataDir, '--repair', '--json']);
    expect([code, JSON.parse(`${stdout}`).faults]).toEqual([0, []]);
    await kafka.start();
    expect(await topics(kafka.address)).toEqual(['kept', 'kept-too']);
    await create(kafka.address, ['kafkas']);
    await kafka.stop();
    for (let i = 0; i < 2; i++) {
      broker = await startOurs();
      expect(await topics(broker.address)).toEqual(['kafkas', 'kept', 'kept-too']);
      await broker.stop();
    }
    // Its records are set aside, by either.
    expect(readdirSync(kafka.dataDir).filter((name) => /^lost-.*-stray$/.test(name))).toHaveLength(2);
  });

  // Kafka writes the checkpoints once the folders of a deleted topic have other names: one that was killed between, and made the
  // topic again in its next life, leaves those of the earlier topic.
  it.each([false, true])(
    'a topic that Apache Kafka made again has its own, checkpoints left: %s',
    async (isLeft) => {
      written = [];
      shapes = SHAPES.slice(0, 2).map((shape) => ({ ...shape, gone: [] }));
      let broker = await startOurs();
      const create = async (address: string) => {
        const client = await Client.connect(address);
        await client.createTopics([{ name: TOPIC, partitions: shapes.length }]);
        await client.close();
      };
      await create(broker.address);
      await append(broker.address, BATCHES);
      let client = await Client.connect(broker.address);
      await deleteRecords(client, [{ topic: TOPIC, partition: 0, offset: LAST }]);
      await client.close();
      await broker.stop();
      const names = ['recovery-point-offset-checkpoint', 'log-start-offset-checkpoint'];
      const texts = names.map((name) => readFileSync(join(kafka.dataDir, name)));

      await kafka.start();
      client = await Client.connect(kafka.address);
      await client.deleteTopics([TOPIC]);
      await client.close();
      await create(kafka.address);
      await kafka.untilLeading(shapes.map((_, partition) => [TOPIC, partition] as const));
      written = [];
      await append(kafka.address, 5);
      await kafka.kill();
      for (const [n, name] of names.entries()) {
        const path = join(kafka.dataDir, name);
        expect(readFileSync(path).equals(texts[n]!), name).toBe(false);
        if (isLeft) writeFileSync(path, texts[n]!);
      }

      for (let i = 0; i < 2; i++) {
        broker = await startOurs();
        await expectOffsets(broker.address);
        await append(broker.address, 2);
        await expectOffsets(broker.address);
        expect(broker.output).not.toMatch(/quarantine|past the end/);
        await broker.kill();
      }
      expect(quarantined()).toEqual([0, 0]);
    },
  );
});

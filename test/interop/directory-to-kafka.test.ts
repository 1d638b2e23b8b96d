/** Apache Kafka starts on what this broker left, cleanly or by SIGKILL under load, and this broker on what Kafka wrote on
 * top. Producers live through all of it: ids and sequences go on from one to the other. */
import { cpSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Client } from '../../src/client/client.ts';
import { BrokerProcess } from '../support/broker-process.ts';
import { kcatRead, outputs } from '../support/command.ts';
import { dumpLogFaults, partitionFiles } from '../support/dump-log.ts';
import { KafkaPeer, kafkaPort } from '../support/kafka-peer.ts';
import {
  type LoadTopic,
  type PartitionContent,
  ProducerLoad,
  readContent,
} from '../support/producer-load.ts';
import { writeRealText } from '../support/real-text.ts';
import { scaled } from '../support/scale.ts';

const PORT = kafkaPort();
const SEED = 20260;
const PRODUCERS = 6;
const BATCHES = scaled(180, 1_500);
const TEXT_BYTES = scaled(2, 64) * 1024 * 1024;
const FIRST_SEGMENT = `${'0'.repeat(20)}.log`;
const TOPICS: readonly LoadTopic[] = [
  { name: 'none', partitions: 2, compression: 'none' },
  { name: 'gzip', partitions: 2, compression: 'gzip' },
  { name: 'snappy', partitions: 2, compression: 'snappy' },
  { name: 'lz4', partitions: 1, compression: 'lz4' },
  { name: 'zstd', partitions: 1, compression: 'zstd' },
  { name: 'mixed', partitions: 3 },
  { name: 'append-time', partitions: 1, logAppendTime: true },
];

let dir: string;
let kafka: KafkaPeer;
let ours: BrokerProcess | undefined;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'broadsheet-directory-'));
  kafka = new KafkaPeer(dir, PORT);
});
afterEach(async () => {
  await ours?.kill();
  await kafka.dispose();
  rmSync(dir, { recursive: true, force: true });
});

async function startOurs(): Promise<BrokerProcess> {
  ours = await BrokerProcess.start(kafka.dataDir);
  return ours;
}

async function createTopics(address: string): Promise<void> {
  const client = await Client.connect(address);
  const small = { 'segment.bytes': '1048576', 'index.interval.bytes': '1024' };
  await client.createTopics(
    TOPICS.map(({ name, partitions, logAppendTime }) => ({
      name,
      partitions,
      configs: logAppendTime === true ? { ...small, 'message.timestamp.type': 'LogAppendTime' } : small,
    })),
  );
  await client.close();
}

const digests = (content: ReadonlyMap<string, PartitionContent>) =>
  Object.fromEntries([...content].map(([partition, { digest }]) => [partition, digest]));

/** Reads everything, compares it with what was acknowledged, and returns the digests. */
async function expectAllServed(address: string, load: ProducerLoad) {
  const content = await readContent(address, TOPICS);
  expect(load.faults(content)).toEqual([]);
  return digests(content);
}

async function startKafka(): Promise<void> {
  await kafka.start();
  await kafka.untilLeading(
    TOPICS.flatMap(({ name, partitions }) =>
      Array.from({ length: partitions }, (_, n) => [name, n] as const),
    ),
  );
}

function expectNoComplaint(): void {
  expect(readdirSync(kafka.dataDir).filter((name) => name.endsWith('-stray'))).toEqual([]);
  expect(readFileSync(`${kafka.dir}/log`, 'utf8')).not.toMatch(/truncation of conflicting|FATAL|Fatal|stray/);
}

/** Beside each partition's files the ones that are ours alone, as failures and compaction leave them. Gives their paths. */
function leaveOwnFiles(): string[] {
  const paths: string[] = [];
  for (const log of partitionFiles(kafka.dataDir, FIRST_SEGMENT)) {
    const leave = (path: string, text: string) => {
      writeFileSync(path, text);
      paths.push(path);
    };
    leave(`${log}.61.quarantine`, 'what was cut');
    const folder = dirname(log);
    leave(join(folder, 'transaction-index-checkpoint'), '0\n1\n0 1\n');
    // A flush that failed at the first record: all is as good as gone, until somebody goes on with it.
    leave(join(folder, 'failed-flush-checkpoint'), '0\n2\n0 0\n1 1\n');
  }
  for (const name of ['meta.properties.copy', 'log-start-offset-checkpoint.copy'])
    paths.push(join(kafka.dataDir, name));
  return paths;
}

describe('a directory that we closed', () => {
  it('is one that Apache Kafka serves and its tools find no fault in; then we serve what Kafka added', async () => {
    const text = join(dir, 'text');
    const sent = await writeRealText(text, TEXT_BYTES);
    const load = new ProducerLoad(TOPICS, PRODUCERS, SEED);
    let broker = await startOurs();
    await createTopics(broker.address);
    await load.run(broker.address, BATCHES);
    const textTopics = ['none', 'gzip', 'snappy', 'lz4', 'zstd'].map((codec) => `text-${codec}`);
    const kcatProduce = (address: string, topic: string) =>
      outputs('kcat', [
        '-b',
        address,
        '-P',
        '-t',
        topic,
        '-p',
        '0',
        '-z',
        topic.startsWith('text-') ? topic.slice(5) : 'none',
        '-X',
        'enable.idempotence=true',
        '-l',
        text,
      ]);
    for (const topic of textTopics) await kcatProduce(broker.address, topic);
    const served = await expectAllServed(broker.address, load);
    await broker.stop();
    const segments = partitionFiles(kafka.dataDir, '.log');
    for (const { name } of TOPICS) {
      const rolled = segments.filter((path) => path.includes(`/${name}-`) && !path.endsWith(FIRST_SEGMENT));
      expect(rolled.length, `later segments of ${name}`).toBeGreaterThan(0);
    }
    expect(await dumpLogFaults(kafka.dataDir)).toEqual([]);

    const ownFiles = leaveOwnFiles();
    await startKafka();
    expect(await expectAllServed(kafka.address, load)).toEqual(served);
    for (const topic of textTopics) expect(await kcatRead(kafka.address, topic)).toEqual(sent);
    expectNoComplaint();
    // The same producers, with the sequences they had.
    await load.run(kafka.address, BATCHES / 10);
    await kcatProduce(kafka.address, 'made-by-kafka');
    const byKafka = await expectAllServed(kafka.address, load);
    await kafka.stop();
    expect(ownFiles.filter((path) => !existsSync(path))).toEqual([]);

    broker = await startOurs();
    expect(await expectAllServed(broker.address, load)).toEqual(byKafka);
    expect(ownFiles.filter((path) => path.endsWith('failed-flush-checkpoint') && existsSync(path))).toEqual(
      [],
    );
    for (const topic of textTopics) expect(await kcatRead(broker.address, topic)).toEqual(sent);
    expect(await kcatRead(broker.address, 'made-by-kafka')).toEqual(sent);
    await load.run(broker.address, BATCHES / 10);
    await expectAllServed(broker.address, load);
    await broker.stop();
    expect(await dumpLogFaults(kafka.dataDir)).toEqual([]);
  });

  it('has faults that the tools find when a byte of it is changed', async () => {
    const load = new ProducerLoad(TOPICS, 2, SEED);
    const broker = await startOurs();
    await createTopics(broker.address);
    await load.run(broker.address, 60);
    await broker.stop();
    const damaged = join(dir, 'damaged');
    cpSync(kafka.dataDir, damaged, { recursive: true });
    const damage = (partition: string, suffix: string, change: (bytes: Buffer) => Buffer) => {
      const path = partitionFiles(damaged, suffix).find((each) => each.includes(`/${partition}/`))!;
      writeFileSync(path, change(readFileSync(path)));
      return path;
    };
    const flip = (at: number) => (bytes: Buffer) => {
      expect(bytes.length).toBeGreaterThan(at);
      bytes[at]! ^= 1;
      return bytes;
    };
    damage('none-0', '.log', flip(150));
    damage('mixed-0', '.index', flip(7));
    const torn = damage('snappy-0', '.timeindex', (bytes) => bytes.subarray(0, bytes.length - 1));
    const faults = await dumpLogFaults(damaged);
    expect(faults.some((fault) => fault.includes('isvalid: false'))).toBe(true);
    expect(faults.some((fault) => fault.includes('--verify-index-only'))).toBe(true);
    expect(faults).toContain(`${torn} did not pass its sanity check`);
  });
});

describe('a directory in which we were killed under load', () => {
  it('is one that Apache Kafka serves; killed under load itself, it leaves one that we serve', async () => {
    const load = new ProducerLoad(TOPICS, PRODUCERS, SEED + 100);
    let broker = await startOurs();
    await createTopics(broker.address);
    await load.run(broker.address, BATCHES);
    for (let round = 0; round < 2; round++) {
      await load.runUntilKilled(broker.address, 2_000, () => broker.kill());
      await startKafka();
      await load.run(kafka.address, 2);
      const served = await expectAllServed(kafka.address, load);
      expectNoComplaint();
      if (round === 0) await load.runUntilKilled(kafka.address, 2_000, () => kafka.kill());
      else await kafka.stop();
      broker = await startOurs();
      if (round === 1) expect(await expectAllServed(broker.address, load)).toEqual(served);
      await load.run(broker.address, 2);
      await expectAllServed(broker.address, load);
    }
    await broker.stop();
    expect(await dumpLogFaults(kafka.dataDir)).toEqual([]);
  });
});

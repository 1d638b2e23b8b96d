/** Directories that Apache Kafka 4.4 left, by a clean stop and by SIGKILL: what this broker serves of them is what Kafka
 * says of them, and Kafka takes them back. */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Client, EARLIEST, LATEST, MAX_TIMESTAMP } from '../../src/client/client.ts';
import type { RecordView } from '../../src/protocol/records/batch.ts';
import { BrokerProcess } from '../support/broker-process.ts';
import { digestPartition, type PartitionDigest } from '../support/digest.ts';
import { command, KafkaPeer, kafkaPort, PROTOCOL } from '../support/kafka-peer.ts';

interface Found {
  readonly offset: number;
  readonly timestamp: number;
}
/** Without offsets when there is no record. */
type ExpectedDigest = Pick<PartitionDigest, 'count' | 'sha256'> & Partial<PartitionDigest>;
interface ExpectedPartition {
  readonly topic: string;
  readonly partition: number;
  readonly logStartOffset: number;
  readonly endOffset: number;
  readonly lastStableOffset: number;
  readonly readUncommitted: ExpectedDigest;
  readonly readCommitted: ExpectedDigest;
  readonly maxTimestamp?: Found;
  readonly offsetsForTimes?: readonly (Found & { readonly asked: number })[];
}
interface Expected {
  readonly partitions: readonly ExpectedPartition[];
  readonly acknowledged?: readonly {
    readonly topic: string;
    readonly partition: number;
    readonly offset: number;
  }[];
}

const PORT = kafkaPort();
/** Written in transactions. What a consumer may read of txn-open ends before its only transaction. */
const TRANSACTIONAL = ['txn', 'txn-open'];
/** Topics that were written without. */
const PLAIN = ['plain', 'codecs', 'compacted', 'compacted-swept', 'times', 'trimmed', 'grown', 'busy'];
const NONE: Found = { offset: -1, timestamp: -1 };
const whole = (digest: ExpectedDigest): PartitionDigest => ({ firstOffset: -1, lastOffset: -1, ...digest });
const documents = JSON.parse(readFileSync(`${PROTOCOL}/datadir/expected.json`, 'utf8')) as Record<
  string,
  Expected
>;

describe.each(['clean', 'killed'] as const)('the directory of a Kafka that was %s', (state) => {
  const { partitions, acknowledged = [] } = documents[state]!;
  // A Kafka that starts again after a kill writes to its coordinators' topics before it can be asked.
  const comparable = partitions.filter(({ topic }) => state === 'clean' || !topic.startsWith('__'));
  const dir = mkdtempSync(join(tmpdir(), 'broadsheet-from-kafka-'));
  const kafka = new KafkaPeer(dir, PORT);
  let broker: BrokerProcess;
  let client: Client;

  beforeAll(async () => {
    await command('tar', '-xzSf', `${PROTOCOL}/datadir/kafka-4.4-${state}.tar.gz`, '-C', dir);
    // The transaction that was left open is not to be aborted while we look.
    const patient = { 'transaction.abort.timed.out.transaction.cleanup.interval.ms': '3600000' };
    broker = await BrokerProcess.start(kafka.dataDir, { config: patient });
    client = await Client.connect(broker.address);
  });
  afterAll(async () => {
    await client?.close();
    await broker?.kill();
    await kafka.dispose();
    rmSync(dir, { recursive: true, force: true });
  });

  async function records(topic: string, partition: number): Promise<RecordView[]> {
    const { offset } = await client.listOffset(topic, partition, EARLIEST);
    const all: RecordView[] = [];
    for await (const record of client.records(topic, partition, offset)) all.push(record);
    return all;
  }

  it('has the topics that the tests tell apart', () => {
    const data = partitions.map(({ topic }) => topic).filter((topic) => !topic.startsWith('__'));
    expect([...new Set(data)].sort()).toEqual(expect.arrayContaining([...TRANSACTIONAL, ...PLAIN]));
    expect(partitions.length).toBeGreaterThan(20);
  });

  it.each(comparable)('serves $topic-$partition as Kafka does', async (expected) => {
    const { topic, partition } = expected;
    expect((await client.listOffset(topic, partition, EARLIEST)).offset).toBe(expected.logStartOffset);
    expect((await client.listOffset(topic, partition, LATEST)).offset).toBe(expected.endOffset);
    expect(await digestPartition(client, topic, partition)).toEqual(whole(expected.readUncommitted));
  });

  it('has every record of busy that its producer was told of', async () => {
    for (const { topic, partition, offset } of acknowledged) {
      const all = await records(topic, partition);
      expect(all.at(-1)!.offset).toBeGreaterThanOrEqual(offset);
      expect(all.map((record) => record.offset)).toEqual(all.map((_, index) => all[0]!.offset + index));
    }
    expect(acknowledged.length).toBe(state === 'killed' ? 2 : 0);
  });

  it.each(comparable)('finds offsets of $topic-$partition by time', async (expected) => {
    const { topic, partition, maxTimestamp, offsetsForTimes = [] } = expected;
    const all = await records(topic, partition);
    for (const asked of new Set([0, ...offsetsForTimes.map((each) => each.asked)])) {
      const first = all.find(({ timestamp }) => timestamp >= asked);
      const right = first === undefined ? NONE : { offset: first.offset, timestamp: first.timestamp };
      const { offset, timestamp } = await client.listOffset(topic, partition, asked);
      // The markers of transactions have timestamps too, but consumers do not see them.
      if (!TRANSACTIONAL.includes(topic)) {
        expect({ offset, timestamp }, `the first at ${asked} or later`).toEqual(right);
      }
      const kafkaSays = offsetsForTimes.find((each) => each.asked === asked);
      // Kafka's -1 on this topic is an accident of emptied segments: docs/DIFFERENCES.md.
      if (kafkaSays !== undefined && topic !== 'compacted') {
        expect({ offset, timestamp }).toEqual({ offset: kafkaSays.offset, timestamp: kafkaSays.timestamp });
      }
    }
    if (maxTimestamp !== undefined) {
      const { offset, timestamp } = await client.listOffset(topic, partition, MAX_TIMESTAMP);
      expect({ offset, timestamp }, 'the largest timestamp').toEqual(maxTimestamp);
    }
  });

  it('finds the first records of compacted by time, where Kafka answers that there is none', async () => {
    const first = [];
    for (const { topic, partition } of partitions.filter((each) => each.topic === 'compacted')) {
      first.push((await client.listOffset(topic, partition, 0)).offset);
    }
    expect(first).toEqual([924, 685]);
  });

  it.each(comparable)(
    'serves $topic-$partition to readers of what is committed as Kafka does',
    async (expected) => {
      const { topic, partition, readCommitted, lastStableOffset } = expected;
      expect(await digestPartition(client, topic, partition, true)).toEqual(whole(readCommitted));
      expect((await client.listOffset(topic, partition, LATEST, true)).offset).toBe(lastStableOffset);
    },
  );

  it('is taken back by Kafka', async () => {
    await client.close();
    await broker.stop();
    await kafka.start('transaction.abort.timed.out.transaction.cleanup.interval.ms=3600000');
    await kafka.untilLeading(partitions.map(({ topic, partition }) => [topic, partition]));
    client = await Client.connect(kafka.address);
    for (const expected of partitions) {
      const { topic, partition, readUncommitted, readCommitted, endOffset } = expected;
      if (topic.startsWith('__')) continue;
      expect((await client.listOffset(topic, partition, LATEST)).offset, topic).toBe(endOffset);
      expect(await digestPartition(client, topic, partition), topic).toEqual(whole(readUncommitted));
      expect(await digestPartition(client, topic, partition, true), topic).toEqual(whole(readCommitted));
    }
    expect(readdirSync(kafka.dataDir).filter((name) => name.endsWith('-stray'))).toEqual([]);
    expect(readFileSync(`${kafka.dir}/log`, 'utf8')).not.toMatch(
      /truncation of conflicting|FATAL|Fatal|stray/,
    );
  });
});

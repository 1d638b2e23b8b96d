/**
 * Backups of a directory of gigabytes while producers write to it, by the command and by the embedding call: each is clean by
 * `check --deep`, opens in this broker and in Apache Kafka, and has every batch up to where its partition ends, which is no
 * earlier than what was acknowledged before the backup began.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { Client, LATEST } from '../../src/client/client.ts';
import { createBroker } from '../../src/index.ts';
import { BatchHeader } from '../../src/protocol/records/batch.ts';
import { LegacyBatch } from '../../src/protocol/records/legacy.ts';
import { readBatches } from '../../src/protocol/records/reader.ts';
import { BatchBuilder } from '../../src/protocol/records/writer.ts';
import { BrokerProcess } from '../support/broker-process.ts';
import { cli } from '../support/cli.ts';
import { KafkaPeer, kafkaPort } from '../support/kafka-peer.ts';
import { Random } from '../support/random.ts';
import { scaled } from '../support/scale.ts';

const TOPIC = 'big';
const PARTITIONS = 8;
const RECORDS = 4;
const RECORD_BYTES = 64 * 1024;
/** Of closed and open segments together, when the first backup begins. */
const BYTES = scaled(0.25, 5) * 2 ** 30;
const SEGMENT_BYTES = scaled(4, 64) * 2 ** 20;
const FETCH_BYTES = 8 << 20;
/** Between two batches of a producer while a backup goes on: the disk is for both. */
const PAUSE_MS = 2;

/** What batch number `n` of a partition holds: none is like the one before it, nor like its neighbour's. */
const random = new Random(6);
const TEMPLATES = Array.from({ length: 17 }, () => {
  const builder = new BatchBuilder();
  for (let i = 0; i < RECORDS; i++) {
    const value = Buffer.alloc(RECORD_BYTES, Buffer.from(Array.from({ length: 61 }, () => random.int(256))));
    builder.append({ timestamp: Date.now(), value });
  }
  return builder.build();
});
const CRCS = TEMPLATES.map((bytes) => new BatchHeader(bytes).crc);
const templateOf = (partition: number, n: number) => (5 * partition + n) % TEMPLATES.length;

class Load {
  /** By partition: batches that were acknowledged. */
  readonly acknowledged = new Array<number>(PARTITIONS).fill(0);
  #over = false;

  get bytes(): number {
    return this.acknowledged.reduce((sum, n) => sum + n, 0) * TEMPLATES[0]!.length;
  }

  /** Each partition's batches one after the other, until `stop`, or until that many bytes are acknowledged. */
  async run(address: string, pauseMs: number, upTo = Number.POSITIVE_INFINITY): Promise<void> {
    this.#over = false;
    const produce = async (partition: number) => {
      const client = await Client.connect(address);
      while (!this.#over && this.bytes < upTo) {
        const n = this.acknowledged[partition]!;
        const answer = await client.produceBytes(TOPIC, partition, TEMPLATES[templateOf(partition, n)]!);
        expect(answer).toMatchObject({ errorCode: 0, baseOffset: n * RECORDS });
        this.acknowledged[partition] = n + 1;
        await new Promise((resolve) => setTimeout(resolve, pauseMs));
      }
      await client.close();
    };
    await Promise.all(this.acknowledged.map((_, partition) => produce(partition)));
  }

  stop(): void {
    this.#over = true;
  }
}

/** Batches in each partition; fails where one is missing, is another, or does not have its checksum. */
async function batchesAt(address: string): Promise<number[]> {
  const client = await Client.connect(address);
  const counts: number[] = [];
  for (let partition = 0; partition < PARTITIONS; partition++) {
    const { offset: end } = await client.listOffset(TOPIC, partition, LATEST);
    let n = 0;
    while (n * RECORDS < end) {
      const fetched = await client.fetch(TOPIC, partition, n * RECORDS, { maxBytes: FETCH_BYTES });
      const before = n;
      for (const batch of readBatches(fetched.partition.records ?? new Uint8Array(0))) {
        if (batch instanceof LegacyBatch) throw new Error('an old message');
        const found = [batch.baseOffset, batch.recordCount, batch.crc];
        const wanted = [n * RECORDS, RECORDS, CRCS[templateOf(partition, n)]];
        if (`${found}` !== `${wanted}`) throw new Error(`${TOPIC}-${partition}: ${found} and not ${wanted}`);
        n++;
      }
      if (n === before) throw new Error(`${TOPIC}-${partition} gives nothing at ${n * RECORDS} of ${end}`);
    }
    counts.push(n);
  }
  await client.close();
  return counts;
}

let dir: string;
let kafka: KafkaPeer;
const undo: (() => Promise<unknown>)[] = [];

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'broadsheet-backup-size-'));
  kafka = new KafkaPeer(dir, kafkaPort());
});
afterEach(async () => {
  for (const each of undo.splice(0).reverse()) await each();
  await kafka.dispose();
  rmSync(dir, { recursive: true, force: true });
});

it.each(['native', 'js'] as const)(
  'a backup of a large directory under load, by command and by call: %s',
  async (engine) => {
    const ours = join(dir, 'ours');
    const config = { engine, 'log.segment.bytes': String(SEGMENT_BYTES) };
    const first = await BrokerProcess.start(ours, { config });
    undo.push(() => first.kill());
    const setup = await Client.connect(first.address);
    await setup.createTopics([{ name: TOPIC, partitions: PARTITIONS }]);
    await setup.close();
    const load = new Load();
    await load.run(first.address, 0, BYTES);

    /** What was acknowledged before, and after. */
    async function during(address: string, backup: () => Promise<unknown>): Promise<[number[], number[]]> {
      const writing = load.run(address, PAUSE_MS);
      const before = [...load.acknowledged];
      const started = load.bytes;
      await Promise.race([backup(), writing]);
      expect(load.bytes).toBeGreaterThan(started);
      load.stop();
      await writing;
      return [before, [...load.acknowledged]];
    }
    function expectBetween(found: number[], [before, after]: [number[], number[]]): void {
      for (const [partition, n] of found.entries()) {
        expect(n, `${TOPIC}-${partition}`).toBeGreaterThanOrEqual(before[partition]!);
        expect(n, `${TOPIC}-${partition}`).toBeLessThanOrEqual(after[partition]!);
      }
    }

    const [byCommand, byCall] = [kafka.dataDir, join(dir, 'by-call')];
    const commanded = await during(first.address, async () => {
      const made = await cli(['backup', ours, byCommand, '--json']);
      expect(made).toMatchObject({ code: 0, stderr: '' });
      const report = JSON.parse(made.stdout.toString()) as { linkedBytes: number; copiedBytes: number };
      // Closed segments are links; copied is what the open ones have, and the small files.
      expect(report.linkedBytes).toBeGreaterThan(BYTES / 2);
      expect(report.copiedBytes).toBeLessThan(PARTITIONS * 1.5 * SEGMENT_BYTES);
    });
    await first.kill();

    const second = await createBroker({ dataDir: ours, host: '127.0.0.1', port: 0, config });
    undo.push(() => second.close());
    const called = await during(second.bootstrapServers, () => second.backup(byCall));
    await second.close();

    for (const target of [byCommand, byCall]) {
      expect(await cli(['check', '--deep', target])).toMatchObject({ code: 0 });
    }
    // By the other engine.
    const other = engine === 'native' ? 'js' : 'native';
    const restored = await BrokerProcess.start(byCall, { config: { ...config, engine: other } });
    undo.push(() => restored.kill());
    expectBetween(await batchesAt(restored.address), called);
    await restored.stop();

    await kafka.start();
    await kafka.untilLeading(load.acknowledged.map((_, partition) => [TOPIC, partition] as const));
    expectBetween(await batchesAt(kafka.address), commanded);
  },
);

/** Runs of the metadata alone on a directory of real files, with records written by hand, and what an Apache Kafka that
 * follows must serve of it. */
import { readdirSync, readFileSync, rmSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { expect } from 'vitest';
import { cleanShutdownText, partitionMetadataText } from '../../src/log/checkpoints.ts';
import { LogCommitter } from '../../src/log/committer.ts';
import { NativeEngine } from '../../src/log/native-engine.ts';
import { ClusterMetadata } from '../../src/metadata/cluster-metadata.ts';
import type { TopicState } from '../../src/metadata/image.ts';
import { Journal } from '../../src/metadata/journal.ts';
import type { KafkaPeer } from './kafka-peer.ts';

const LOG_OPTIONS = {
  segmentBytes: 1 << 30,
  segmentMs: 1e12,
  indexBytes: 10 << 20,
  indexIntervalBytes: 4096,
  logStartOffset: 0,
  recoveryPoint: 0,
  cleanShutdown: false,
};

/** Topic -> values of each partition's records, in order. */
export type Written = Map<string, string[][]>;

/** One run of this broker's metadata on the directory, with records written by hand. */
export class MetadataRun {
  readonly dataDir: string;
  readonly engine = new NativeEngine();
  metadata!: ClusterMetadata;

  constructor(dataDir: string) {
    this.dataDir = dataDir;
  }

  async start(): Promise<this> {
    this.metadata = await ClusterMetadata.open({
      dataDir: this.dataDir,
      engine: this.engine,
      defaultPartitions: 3,
      maxPartitions: 10_000,
      validateTopicConfig: () => {},
      now: Date.now(),
    });
    await this.metadata.activate([{ name: 'PLAINTEXT', host: '127.0.0.1', port: 9092 }], Date.now());
    return this;
  }

  async create(name: string, configs: Record<string, string> = {}): Promise<void> {
    const results = this.metadata.createTopics(
      [
        {
          name,
          numPartitions: -1,
          replicationFactor: 1,
          assignments: [],
          configs: Object.entries(configs).map(([key, value]) => ({ name: key, value })),
        },
      ],
      Date.now(),
    );
    expect(results[0]).toMatchObject({ ok: true });
    await this.metadata.durable();
    const topic = this.metadata.image.topicsByName.get(name) as TopicState;
    for (const id of topic.partitions.keys()) {
      const path = `${this.dataDir}/${name}-${id}/partition.metadata`;
      await this.engine.files.createDurable(path, partitionMetadataText(topic.id));
    }
  }

  /** Appends two batches to each partition of a topic, in its leader epoch. */
  async write(written: Written, name: string, stamp: string): Promise<void> {
    const topic = this.metadata.image.topicsByName.get(name) as TopicState;
    const values = written.get(name) ?? [...topic.partitions].map(() => []);
    written.set(name, values);
    for (const { id, leaderEpoch } of topic.partitions.values()) {
      const log = await this.engine.open(`${this.dataDir}/${name}-${id}`, {
        ...LOG_OPTIONS,
        now: Date.now(),
      });
      const journal = new Journal(log, new LogCommitter(this.engine), this.engine.files);
      for (let batch = 0; batch < 2; batch++) {
        const texts = [0, 1, 2].map((n) => `${stamp} ${name} ${id} ${batch} ${n}`);
        journal.append(
          texts.map((text) => ({ key: null, value: Buffer.from(text) })),
          { leaderEpoch, control: false, now: Date.now() },
        );
        values[id]?.push(...texts);
      }
      await journal.close();
    }
  }

  /** Where a partition's log ends, recovered from its start. */
  async endOffset(topic: string, partition: number): Promise<number> {
    const options = { ...LOG_OPTIONS, now: Date.now() };
    const log = await this.engine.open(`${this.dataDir}/${topic}-${partition}`, options);
    await log.close();
    return log.logEndOffset;
  }

  /** A clean stop, or one that leaves no mark. */
  async stop(clean = true): Promise<void> {
    await this.metadata.close();
    await this.engine.close();
    const path = `${this.dataDir}/.kafka_cleanshutdown`;
    rmSync(path, { force: true });
    if (clean) await writeFile(path, cleanShutdownText(this.metadata.brokerEpoch));
  }
}

/** Every partition is led, every record is there, no folder was set aside and no epoch fell out. */
export async function expectServed(peer: KafkaPeer, written: Written): Promise<void> {
  const leaders = await peer.leaders();
  expect([...leaders.values()].filter((leader) => leader !== peer.nodeId)).toEqual([]);
  for (const [topic, partitions] of written) {
    for (const [partition, values] of partitions.entries()) {
      expect(leaders.get(`${topic}-${partition}`)).toBe(peer.nodeId);
      const expected = values.map((value, offset) => `${offset}:${value}`);
      expect(await peer.consume(topic, partition)).toEqual(expected);
    }
  }
  expect(readdirSync(peer.dataDir).filter((name) => name.endsWith('-stray'))).toEqual([]);
  expect(readFileSync(`${peer.dir}/log`, 'utf8')).not.toMatch(/truncation of conflicting|Fatal|FATAL|stray/);
}

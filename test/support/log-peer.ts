/** Apache Kafka and brokers of ours that get the same requests about topics of one partition. */
import { APIS } from '../../src/client/apis.ts';
import { Client, EARLIEST, LATEST } from '../../src/client/client.ts';
import type { CompressionName } from '../../src/protocol/compression.ts';
import { RecordBatch, readBatches } from '../../src/protocol/records/reader.ts';
import { BatchBuilder } from '../../src/protocol/records/writer.ts';
import { deleteRecords } from './admin-calls.ts';
import { BrokerProcess } from './broker-process.ts';
import { normalised } from './compare-wire.ts';
import type { KafkaPeer } from './kafka-peer.ts';

/** One broker of those that are compared. */
export class LogPeer {
  readonly dataDir: string;
  readonly #begin: () => Promise<string>;
  readonly end: () => Promise<void>;
  #client: Client | undefined;

  constructor(dataDir: string, begin: () => Promise<string>, end: () => Promise<void>) {
    this.dataDir = dataDir;
    this.#begin = begin;
    this.end = async () => {
      await this.#client?.close();
      await end();
    };
  }

  async start(): Promise<void> {
    this.#client = await Client.connect(await this.#begin());
  }

  get client(): Client {
    return this.#client!;
  }

  async create(name: string, configs: Record<string, string> = {}): Promise<void> {
    await this.client.createTopics([{ name, partitions: 1, configs }]);
    await this.untilServed(name);
  }

  /** Kafka answers CreateTopics, and Metadata after a start, before the partition can be used. */
  async untilServed(name: string): Promise<void> {
    while ((await this.listed(name, LATEST)).errorCode !== 'NONE')
      await new Promise((resolve) => setTimeout(resolve, 50));
  }

  async produce(topic: string, bytes: Uint8Array) {
    return (await this.client.produceBytes(topic, 0, bytes))!;
  }

  async listed(name: string, timestamp: number, options: { isolationLevel?: number; version?: number } = {}) {
    const { isolationLevel = 0, version } = options;
    const topics = [{ name, partitions: [{ partitionIndex: 0, timestamp }] }];
    const body = { replicaId: -1, isolationLevel, topics };
    const { topics: answers } = await this.client.connection.request(APIS.listOffsets, body, { version });
    return normalised(answers[0]!.partitions[0]) as {
      errorCode: string;
      timestamp: number;
      offset: number;
      leaderEpoch: number;
    };
  }

  async deleteBelow(name: string, offset: number): Promise<unknown> {
    const topics = [{ name, partitions: [{ partitionIndex: 0, offset }] }];
    return normalised(await this.client.connection.request(deleteRecords, { topics, timeoutMs: 20_000 }));
  }

  /** The batches of a topic as they are fetched; each with a CRC that fits. */
  async batches(topic: string): Promise<RecordBatch[]> {
    const found: RecordBatch[] = [];
    const end = (await this.client.listOffset(topic, 0, LATEST)).offset;
    for (let next = (await this.client.listOffset(topic, 0, EARLIEST)).offset; next < end; ) {
      const { partition, nextOffset } = await this.client.fetch(topic, 0, next);
      for (const batch of readBatches(partition.records!)) {
        if (!(batch instanceof RecordBatch)) throw new Error('an old format');
        batch.ensureValid();
        found.push(batch);
      }
      next = nextOffset;
    }
    return found;
  }
}

export function oursOn(dataDir: string, config: Readonly<Record<string, string>>): LogPeer {
  let broker: BrokerProcess;
  return new LogPeer(
    dataDir,
    async () => {
      broker = await BrokerProcess.start(dataDir, { config });
      return broker.address;
    },
    () => broker.stop(),
  );
}

export function theirsOn(peer: KafkaPeer): LogPeer {
  return new LogPeer(
    peer.dataDir,
    async () => {
      await peer.start();
      return peer.address;
    },
    () => peer.stop(),
  );
}

/** One batch, a record for each timestamp. */
export function batch(
  times: readonly number[],
  compression: CompressionName = 'none',
  value = 'value',
): Uint8Array {
  const builder = new BatchBuilder({ compression });
  for (const [i, timestamp] of times.entries())
    builder.append({ timestamp, key: 'key', value: `${value} ${i}` });
  return builder.build();
}

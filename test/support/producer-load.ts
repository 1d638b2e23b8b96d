/** Several producers at once, against whichever broker serves a directory, and a book of what was acknowledged. */
import { BrokerRefusal, Client, EARLIEST } from '../../src/client/client.ts';
import type { CompressionName } from '../../src/protocol/compression.ts';
import type { RecordView } from '../../src/protocol/records/batch.ts';
import { Digester, type PartitionDigest } from './digest.ts';
import { Random } from './random.ts';

export interface LoadTopic {
  readonly name: string;
  readonly partitions: number;
  /** Default: a random one for each batch. */
  readonly compression?: CompressionName;
  /** The broker's time counts, not the producer's. (An answer alone does not tell: for a batch that came twice it names
   * the first one's time.) */
  readonly logAppendTime?: boolean;
}

interface Batch {
  readonly topic: LoadTopic;
  readonly partition: number;
  readonly compression: CompressionName;
  readonly records: readonly Omit<RecordView, 'offset'>[];
  readonly baseSequence: number;
}

interface Producer {
  readonly random: Random;
  /** Undefined: not idempotent. The id outlives brokers. */
  id: { readonly producerId: number; readonly producerEpoch: number } | undefined;
  readonly idempotent: boolean;
  readonly sequences: Map<string, number>;
  /** Sent without an answer. An idempotent producer sends it again as its next. */
  unanswered: Batch | undefined;
}

const CODECS: readonly CompressionName[] = ['none', 'gzip', 'snappy', 'lz4', 'zstd'];
const MAX_RECORDS = 40;
const MAX_VALUE_BYTES = 2_000;

/** Of everything that a consumer sees of a record. */
function recordHash(record: RecordView): string {
  const digester = new Digester();
  digester.add(record);
  return digester.result().sha256;
}

export interface PartitionContent {
  readonly digest: PartitionDigest;
  /** By offset, sha256 of everything that a consumer sees. */
  readonly records: ReadonlyMap<number, string>;
}

/** All that a broker serves of the topics, by `topic-partition`. */
export async function readContent(
  address: string,
  topics: readonly LoadTopic[],
): Promise<Map<string, PartitionContent>> {
  const client = await Client.connect(address);
  const content = new Map<string, PartitionContent>();
  for (const { name, partitions } of topics) {
    for (let partition = 0; partition < partitions; partition++) {
      const digester = new Digester();
      const records = new Map<number, string>();
      const { offset } = await client.listOffset(name, partition, EARLIEST);
      for await (const record of client.records(name, partition, offset)) {
        digester.add(record);
        records.set(record.offset, recordHash(record));
      }
      content.set(`${name}-${partition}`, { digest: digester.result(), records });
    }
  }
  await client.close();
  return content;
}

export class ProducerLoad {
  readonly #partitions: readonly (readonly [topic: LoadTopic, partition: number])[];
  /** By `topic-partition`: hash of the record at each acknowledged offset. */
  readonly acknowledged = new Map<string, Map<number, string>>();
  /** By `topic-partition`: records that were sent once and never answered. */
  readonly #unanswered = new Map<string, number>();
  readonly #producers: Producer[];
  #stopping = false;

  constructor(topics: readonly LoadTopic[], producers: number, seed: number) {
    this.#partitions = topics.flatMap((topic) =>
      Array.from({ length: topic.partitions }, (_, partition) => [topic, partition] as const),
    );
    this.#producers = Array.from({ length: producers }, (_, index) => ({
      random: new Random(seed + index),
      id: undefined,
      idempotent: index % 2 === 0,
      sequences: new Map(),
      unanswered: undefined,
    }));
  }

  get acknowledgedRecords(): number {
    return [...this.acknowledged.values()].reduce((sum, offsets) => sum + offsets.size, 0);
  }

  /** Each producer sends `batches` batches, one after the other. */
  run(address: string, batches: number): Promise<void> {
    return this.#start(address, batches, false);
  }

  /** Runs until kill() has ended the broker, which is called when about `records` more records were acknowledged. */
  async runUntilKilled(address: string, records: number, kill: () => Promise<void>): Promise<void> {
    const goal = this.acknowledgedRecords + records;
    const running = this.#start(address, Number.POSITIVE_INFINITY, true);
    while (this.acknowledgedRecords < goal) await new Promise((resolve) => setTimeout(resolve, 5));
    this.#stopping = true;
    await kill();
    await running;
    this.#stopping = false;
  }

  /** What is wrong with what a broker serves: an acknowledged record lost or altered, offsets with gaps, records that
   * nobody sent. */
  faults(content: ReadonlyMap<string, PartitionContent>): string[] {
    const faults: string[] = [];
    for (const [partition, { digest, records }] of content) {
      const acknowledged = this.acknowledged.get(partition) ?? new Map<number, string>();
      for (const [offset, hash] of acknowledged) {
        if (records.get(offset) === undefined) faults.push(`${partition}: ${offset} is lost`);
        else if (records.get(offset) !== hash) faults.push(`${partition}: ${offset} is altered`);
      }
      if (digest.count > 0 && (digest.firstOffset !== 0 || digest.lastOffset !== digest.count - 1)) {
        faults.push(
          `${partition}: ${digest.count} records, but offsets ${digest.firstOffset} to ${digest.lastOffset}`,
        );
      }
      const more = digest.count - acknowledged.size;
      if (more > (this.#unanswered.get(partition) ?? 0))
        faults.push(`${partition}: ${more} records that none sent`);
    }
    return faults;
  }

  async #start(address: string, batches: number, killed: boolean): Promise<void> {
    await Promise.all(
      this.#producers.map(async (producer) => {
        const client = await Client.connect(address);
        try {
          if (producer.idempotent) producer.id ??= await client.initProducerId();
          for (let sent = 0; sent < batches; sent++) await this.#send(client, producer);
        } catch (error) {
          if (!killed || !this.#stopping || error instanceof BrokerRefusal) throw error;
        } finally {
          await client.close();
        }
      }),
    );
  }

  async #send(client: Client, producer: Producer): Promise<void> {
    const batch = producer.unanswered ?? this.#next(producer);
    const key = `${batch.topic.name}-${batch.partition}`;
    producer.unanswered = producer.idempotent ? batch : undefined;
    const before = this.#unanswered.get(key) ?? 0;
    this.#unanswered.set(key, before + batch.records.length);
    const { compression, baseSequence } = batch;
    const answer = await client.produce(batch.topic.name, batch.partition, batch.records, {
      compression,
      ...(producer.id === undefined ? {} : { ...producer.id, baseSequence }),
    });
    producer.unanswered = undefined;
    this.#unanswered.set(key, (this.#unanswered.get(key) ?? 0) - batch.records.length);
    const offsets = this.acknowledged.get(key) ?? new Map<number, string>();
    this.acknowledged.set(key, offsets);
    batch.records.forEach((record, index) => {
      const timestamp = batch.topic.logAppendTime === true ? answer!.logAppendTimeMs : record.timestamp;
      const offset = answer!.baseOffset + index;
      if (offsets.has(offset)) throw new Error(`${key}: ${offset} was acknowledged twice`);
      offsets.set(offset, recordHash({ ...record, offset, timestamp }));
    });
    if (producer.idempotent) producer.sequences.set(key, baseSequence + batch.records.length);
  }

  #next({ random, sequences }: Producer): Batch {
    const [topic, partition] = random.pick(this.#partitions);
    const started = Date.now();
    const records = Array.from({ length: 1 + random.int(MAX_RECORDS) }, (_, index) => ({
      timestamp: started + index - random.int(5),
      key: random.int(3) === 0 ? null : Buffer.from(`key ${random.int(1000)}`),
      value: random.int(10) === 0 ? null : text(random, random.int(MAX_VALUE_BYTES)),
      headers: Array.from({ length: Math.max(0, random.int(5) - 2) }, (_, n) => ({
        key: `header ${n}`,
        value: random.int(4) === 0 ? null : text(random, random.int(20)),
      })),
    }));
    const baseSequence = sequences.get(`${topic.name}-${partition}`) ?? 0;
    return { topic, partition, records, compression: topic.compression ?? random.pick(CODECS), baseSequence };
  }
}

/** A quarter of it compresses. */
function text(random: Random, bytes: number): Buffer {
  const buffer = Buffer.alloc(bytes, 'the quick brown fox ');
  for (let at = 0; at < (bytes / 4) * 3; at++) buffer[at] = random.int(256);
  return buffer;
}

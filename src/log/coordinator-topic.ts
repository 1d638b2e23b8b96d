/**
 * The log of a coordinator (`__consumer_offsets`, `__transaction_state`): an ordinary topic that any client can read, made on
 * first use. All records of one group, or one transactional id, are in one partition, which Apache Kafka finds the same way.
 *
 * An append is staged like a producer's, written with the tick, and done when it is below the high watermark.
 */
import { type CompressionName, compressionId } from '../protocol/compression.ts';
import { KafkaError, kafkaCodeOf } from '../protocol/errors.ts';
import { ATTRIBUTE_TRANSACTIONAL } from '../protocol/records/batch.ts';
import { ControlType } from '../protocol/records/control.ts';
import { RecordBatch, readBatches } from '../protocol/records/reader.ts';
import { BatchBuilder } from '../protocol/records/writer.ts';
import type { Clock } from '../runtime/clock.ts';
import type { BroadsheetError } from '../runtime/errors.ts';
import type { Logger } from '../runtime/logging.ts';
import type { AppendListener, Partition } from './partition.ts';

/** Bytes read at a time when loading. */
const LOAD_CHUNK_BYTES = 4 * 1024 * 1024;
/** Partitions read at the same time. */
const LOAD_CONCURRENCY = 4;
/** Records of one batch in appendMany(). */
const RECORDS_PER_BATCH = 1000;
/** How long it takes at least to say that the topic could not be made. */
const CREATION_HOLD_MS = 1000;
/** What a record takes beside its key and value, at most. */
const RECORD_OVERHEAD = 32;
/** The header of a batch. */
const BATCH_OVERHEAD = 61;

/** Hears a Kafka error code. */
export type AppendDone = (errorCode: number) => void;

export interface KeyedRecord {
  readonly key: Uint8Array | null;
  readonly value: Uint8Array | null;
}

/** In whose transaction records are appended. */
export interface TransactionalProducer {
  readonly producerId: number;
  readonly producerEpoch: number;
}

/** Hears what a topic holds, partition by partition, in the order of the log. */
export interface TopicVisitor {
  /** A record that counts, of a committed transaction or of none. */
  record(key: Uint8Array, value: Uint8Array | null): void;
  /** A record of a transaction that is open. */
  pending?(producerId: number, key: Uint8Array, value: Uint8Array | null): void;
}

export interface CoordinatorTopicParts {
  readonly name: string;
  /** What its records are of, for the log: `a group`. */
  readonly subject: string;
  readonly clock: Clock;
  readonly log: Logger;
  /** 0 while the topic does not exist. */
  partitionCount(): number;
  partition(index: number): Partition | undefined;
  /** Makes the topic; a Kafka error code. */
  create(): Promise<number>;
  /** Of the batches that are appended. */
  readonly compression: CompressionName;
  /** Something was staged: see that it is written. */
  requestTick(): void;
}

/** Where the records of a group or a transactional id are. As Kafka: the absolute value of Java's String.hashCode, and 0 for -2^31. */
export function partitionOf(id: string, partitionCount: number): number {
  const hash = javaHashCode(id);
  return hash === -(2 ** 31) ? 0 : Math.abs(hash) % partitionCount;
}

/** Java's String.hashCode. */
function javaHashCode(text: string): number {
  let hash = 0;
  for (let i = 0; i < text.length; i++) hash = (Math.imul(hash, 31) + text.charCodeAt(i)) | 0;
  return hash;
}

/** What a failed append is called to clients of the coordinator. */
export function coordinatorCode(code: number): number {
  switch (code) {
    case KafkaError.UNKNOWN_TOPIC_OR_PARTITION:
      return KafkaError.COORDINATOR_NOT_AVAILABLE;
    case KafkaError.KAFKA_STORAGE_ERROR:
      return KafkaError.NOT_COORDINATOR;
    case KafkaError.MESSAGE_TOO_LARGE:
      return KafkaError.UNKNOWN_SERVER_ERROR;
    default:
      return code;
  }
}

export class CoordinatorTopic implements AppendListener {
  readonly #parts: CoordinatorTopicParts;
  readonly #waiting = new Map<number, AppendDone>();
  #nextToken = 0;
  #creation: Promise<number> | undefined;

  constructor(parts: CoordinatorTopicParts) {
    this.#parts = parts;
  }

  get exists(): boolean {
    return this.#parts.partitionCount() > 0;
  }

  /** Sees that there is something to append to, and resolves with an error code; undefined when there is. */
  prepare(): Promise<number> | undefined {
    if (this.#creation !== undefined) return this.#creation;
    if (this.exists) return undefined;
    this.#creation = this.#create().finally(() => {
      this.#creation = undefined;
    });
    return this.#creation;
  }

  /** What failed is held for a moment: there are clients that ask again at once, on a full disk for minutes. */
  async #create(): Promise<number> {
    const code = await this.#parts.create();
    if (code !== KafkaError.NONE)
      await new Promise<void>((resolve) => {
        this.#parts.clock.setTimer(CREATION_HOLD_MS, resolve);
      });
    return code;
  }

  /** The number of an id's partition; -1 while the topic does not exist. */
  indexOf(id: string): number {
    const count = this.#parts.partitionCount();
    return count === 0 ? -1 : partitionOf(id, count);
  }

  #partitionOf(id: string): Partition | undefined {
    const index = this.indexOf(id);
    return index < 0 ? undefined : this.#parts.partition(index);
  }

  /** Of an id's partition; 0 if there is none. */
  leaderEpoch(id: string): number {
    return Math.max(0, this.#partitionOf(id)?.leaderEpoch ?? 0);
  }

  /** Whether what is known of an id is all that there is, and can be added to. A missing topic holds nothing. */
  isAvailable(id: string): boolean {
    if (this.#creation !== undefined || !this.exists) return true;
    const partition = this.#partitionOf(id);
    return partition !== undefined && partition.offline === undefined;
  }

  /** Appends records of one id as one batch. `done` is called when they can be read, or have failed and left nothing; never
   * before this returns, and in the order of the appends. */
  append(
    id: string,
    records: readonly KeyedRecord[],
    done: AppendDone,
    producer?: TransactionalProducer,
  ): void {
    this.#append(id, records, done, producer, false);
  }

  #append(
    id: string,
    records: readonly KeyedRecord[],
    done: AppendDone,
    producer: TransactionalProducer | undefined,
    unlimited: boolean,
  ): void {
    const partition = this.#partitionOf(id);
    const fail = (code: number) => queueMicrotask(() => done(code));
    if (partition === undefined) {
      fail(KafkaError.COORDINATOR_NOT_AVAILABLE);
      return;
    }
    const { clock, compression } = this.#parts;
    const now = clock.now();
    const transactional = producer !== undefined;
    const builder = new BatchBuilder({ compression, ...producer, transactional });
    for (const { key, value } of records) builder.append({ timestamp: now, key, value });
    if (!unlimited && builder.uncompressedBytes > partition.config.maxMessageBytes) {
      fail(KafkaError.MESSAGE_TOO_LARGE);
      return;
    }
    const bytes = builder.build();
    const facts = {
      producerId: producer?.producerId ?? -1,
      producerEpoch: producer?.producerEpoch ?? -1,
      baseSequence: -1,
      recordCount: records.length,
      maxTimestamp: now,
      attributes: compressionId(compression) | (transactional ? ATTRIBUTE_TRANSACTIONAL : 0),
    };
    const token = this.#nextToken++;
    const rejection = partition.append(bytes, 0, bytes.length, facts, now, this, token, 'coordinator');
    if (rejection !== undefined) {
      fail(rejection.code);
      return;
    }
    this.#waiting.set(token, done);
    this.#parts.requestTick();
  }

  /** Appends records of one id, in their order, as so many batches as max.message.bytes makes of them; a record that is larger by
   * itself is a batch all the same. `done` hears the first error, when all are written or not. */
  appendMany(id: string, records: readonly KeyedRecord[], done: AppendDone): void {
    const most = this.#partitionOf(id)?.config.maxMessageBytes ?? Number.POSITIVE_INFINITY;
    const batches: KeyedRecord[][] = [];
    let size = most;
    for (const record of records) {
      const own = (record.key?.byteLength ?? 0) + (record.value?.byteLength ?? 0) + RECORD_OVERHEAD;
      const last = batches.at(-1);
      if (last === undefined || last.length === RECORDS_PER_BATCH || size + own > most) {
        batches.push([record]);
        size = BATCH_OVERHEAD + own;
      } else {
        last.push(record);
        size += own;
      }
    }
    let left = batches.length;
    let first: number = KafkaError.NONE;
    for (const batch of batches) {
      const one = (code: number) => {
        first ||= code;
        if (--left === 0) done(first);
      };
      this.#append(id, batch, one, undefined, batch.length === 1);
    }
  }

  onAppended(token: number): void {
    this.#finish(token, KafkaError.NONE);
  }

  onAppendFailed(token: number, error: BroadsheetError): void {
    this.#parts.log.error(
      { topic: this.#parts.name, reason: error.message },
      `records of ${this.#parts.subject} were not written`,
    );
    this.#finish(token, kafkaCodeOf(error));
  }

  #finish(token: number, code: number): void {
    const done = this.#waiting.get(token);
    this.#waiting.delete(token);
    done?.(code);
  }

  // --- loading ---

  /** Visits all records that count, each id's in order. Those of aborted transactions do not. */
  async load(visitor: TopicVisitor): Promise<void> {
    const count = this.#parts.partitionCount();
    let next = 0;
    const work = async () => {
      for (let index = next++; index < count; index = next++) {
        const partition = this.#parts.partition(index);
        if (partition !== undefined && partition.offline === undefined) await this.#load(partition, visitor);
      }
    };
    await Promise.all(Array.from({ length: LOAD_CONCURRENCY }, work));
  }

  async #load(partition: Partition, visitor: TopicVisitor): Promise<void> {
    const replay = new Replay(visitor);
    const end = partition.log.writtenOffset;
    let offset = partition.logStartOffset;
    while (offset < end) {
      const bytes = await partition.log.readBatches(offset, LOAD_CHUNK_BYTES, end);
      const before = offset;
      for (const batch of readBatches(bytes)) {
        if (!(batch instanceof RecordBatch)) continue;
        offset = Math.max(offset, batch.lastOffset + 1);
        if (batch.checksOut()) replay.batch(batch);
        else
          this.#parts.log.error(
            { topic: this.#parts.name, partition: partition.index, offset: batch.baseOffset },
            `a batch with records of ${this.#parts.subject} is damaged and was left out`,
          );
      }
      if (offset === before) break;
    }
    replay.end();
  }
}

interface OpenRecord {
  readonly key: Uint8Array;
  readonly value: Uint8Array | null;
  /** Its place among all, in the order of the log. */
  readonly order: number;
}

/** Sorts out what counts of one partition's records. */
class Replay {
  readonly #visitor: TopicVisitor;
  /** Records of open transactions, by producer id. */
  readonly #open = new Map<number, OpenRecord[]>();
  #read = 0;

  constructor(visitor: TopicVisitor) {
    this.#visitor = visitor;
  }

  batch(batch: RecordBatch): void {
    const { producerId } = batch;
    if (batch.isControl) {
      const pending = this.#open.get(producerId) ?? [];
      this.#open.delete(producerId);
      for (const { key } of batch.records()) {
        if (key === null || key.length < 4 || ((key[2]! << 8) | key[3]!) !== ControlType.COMMIT) continue;
        for (const record of pending) {
          if (this.#open.size > 0) this.#supersede(record.key, record.order);
          this.#visitor.record(record.key, record.value);
        }
      }
      return;
    }
    for (const { key, value } of batch.records()) {
      if (key === null) continue;
      if (batch.isTransactional) {
        const pending = this.#open.get(producerId);
        const record = { key, value, order: this.#read++ };
        if (pending === undefined) this.#open.set(producerId, [record]);
        else pending.push(record);
        continue;
      }
      if (this.#open.size > 0) this.#supersede(key, this.#read);
      this.#visitor.record(key, value);
    }
  }

  /** What is written later, a tombstone too, wins over what is written before and committed later. */
  #supersede(key: Uint8Array, order: number): void {
    for (const [producerId, pending] of this.#open) {
      const kept = pending.filter((record) => record.order > order || Buffer.compare(record.key, key) !== 0);
      if (kept.length < pending.length) this.#open.set(producerId, kept);
    }
  }

  end(): void {
    for (const [producerId, pending] of this.#open) {
      for (const { key, value } of pending) this.#visitor.pending?.(producerId, key, value);
    }
  }
}

/**
 * `__consumer_offsets`: the log of the group coordinator, an ordinary topic that any client can read. It is made on first
 * use. A group's records are in one partition, which Apache Kafka finds the same way.
 *
 * An append is staged like a producer's, written with the tick, and done when it is below the high watermark.
 */
import type { AppendListener, Partition } from '../log/partition.ts';
import type { JournalRecord } from '../metadata/journal.ts';
import { type CompressionName, compressionId } from '../protocol/compression.ts';
import { KafkaError, kafkaCodeOf } from '../protocol/errors.ts';
import { ControlType } from '../protocol/records/control.ts';
import { RecordBatch, readBatches } from '../protocol/records/reader.ts';
import { BatchBuilder } from '../protocol/records/writer.ts';
import type { Clock } from '../runtime/clock.ts';
import type { BroadsheetError } from '../runtime/errors.ts';
import type { Logger } from '../runtime/logging.ts';
import type { AppendDone, GroupLog } from './group-log.ts';

export const OFFSETS_TOPIC = '__consumer_offsets';

/** Bytes read at a time when loading. */
const LOAD_CHUNK_BYTES = 4 * 1024 * 1024;
/** Partitions read at the same time. */
const LOAD_CONCURRENCY = 4;
/** Records of one batch in appendMany(). */
const RECORDS_PER_BATCH = 1000;

export interface OffsetsTopicParts {
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

/** Where a group's records are. As Kafka: the absolute value of Java's String.hashCode, and 0 for -2^31. */
export function partitionOf(groupId: string, partitionCount: number): number {
  const hash = javaHashCode(groupId);
  return hash === -(2 ** 31) ? 0 : Math.abs(hash) % partitionCount;
}

/** Java's String.hashCode. */
function javaHashCode(text: string): number {
  let hash = 0;
  for (let i = 0; i < text.length; i++) hash = (Math.imul(hash, 31) + text.charCodeAt(i)) | 0;
  return hash;
}

export class OffsetsTopic implements AppendListener, GroupLog {
  readonly #parts: OffsetsTopicParts;
  readonly #waiting = new Map<number, AppendDone>();
  #nextToken = 0;
  #creation: Promise<number> | undefined;

  constructor(parts: OffsetsTopicParts) {
    this.#parts = parts;
  }

  get exists(): boolean {
    return this.#parts.partitionCount() > 0;
  }

  prepare(): Promise<number> | undefined {
    if (this.#creation !== undefined) return this.#creation;
    if (this.exists) return undefined;
    this.#creation = this.#parts.create().finally(() => {
      this.#creation = undefined;
    });
    return this.#creation;
  }

  #partitionOf(groupId: string): Partition | undefined {
    const count = this.#parts.partitionCount();
    return count === 0 ? undefined : this.#parts.partition(partitionOf(groupId, count));
  }

  isAvailable(groupId: string): boolean {
    if (this.#creation !== undefined || !this.exists) return true;
    const partition = this.#partitionOf(groupId);
    return partition !== undefined && partition.offline === undefined;
  }

  append(groupId: string, records: readonly JournalRecord[], done: AppendDone): void {
    const partition = this.#partitionOf(groupId);
    const fail = (code: number) => queueMicrotask(() => done(code));
    if (partition === undefined) {
      fail(KafkaError.COORDINATOR_NOT_AVAILABLE);
      return;
    }
    const { clock, compression } = this.#parts;
    const now = clock.now();
    const builder = new BatchBuilder({ compression });
    for (const { key, value } of records) builder.append({ timestamp: now, key, value });
    if (builder.uncompressedBytes > partition.config.maxMessageBytes) {
      fail(KafkaError.MESSAGE_TOO_LARGE);
      return;
    }
    const bytes = builder.build();
    const facts = {
      producerId: -1,
      producerEpoch: -1,
      baseSequence: -1,
      recordCount: records.length,
      maxTimestamp: now,
      attributes: compressionId(compression),
    };
    const token = this.#nextToken++;
    const rejection = partition.append(bytes, 0, bytes.length, facts, now, this, token);
    if (rejection !== undefined) {
      fail(rejection.code);
      return;
    }
    this.#waiting.set(token, done);
    this.#parts.requestTick();
  }

  appendMany(groupId: string, records: readonly JournalRecord[], done: AppendDone): void {
    let left = Math.ceil(records.length / RECORDS_PER_BATCH);
    let first: number = KafkaError.NONE;
    const one = (code: number) => {
      first ||= code;
      if (--left === 0) done(first);
    };
    for (let at = 0; at < records.length; at += RECORDS_PER_BATCH) {
      this.append(groupId, records.slice(at, at + RECORDS_PER_BATCH), one);
    }
  }

  onAppended(token: number): void {
    this.#finish(token, KafkaError.NONE);
  }

  onAppendFailed(token: number, error: BroadsheetError): void {
    this.#parts.log.error(
      { topic: OFFSETS_TOPIC, reason: error.message },
      'records of a group were not written',
    );
    this.#finish(token, kafkaCodeOf(error));
  }

  #finish(token: number, code: number): void {
    const done = this.#waiting.get(token);
    this.#waiting.delete(token);
    done?.(code);
  }

  // --- loading ---

  /** Records of aborted and of open transactions do not count. */
  async load(visit: (key: Uint8Array, value: Uint8Array | null) => void): Promise<void> {
    const count = this.#parts.partitionCount();
    let next = 0;
    const work = async () => {
      for (let index = next++; index < count; index = next++) {
        const partition = this.#parts.partition(index);
        if (partition !== undefined && partition.offline === undefined) await this.#load(partition, visit);
      }
    };
    await Promise.all(Array.from({ length: LOAD_CONCURRENCY }, work));
  }

  async #load(
    partition: Partition,
    visit: (key: Uint8Array, value: Uint8Array | null) => void,
  ): Promise<void> {
    /** Records of open transactions, by producer id. */
    const open = new Map<number, { key: Uint8Array; value: Uint8Array | null }[]>();
    const end = partition.log.writtenOffset;
    let offset = partition.logStartOffset;
    while (offset < end) {
      const bytes = await partition.log.readBatches(offset, LOAD_CHUNK_BYTES, end);
      const before = offset;
      for (const batch of readBatches(bytes)) {
        if (!(batch instanceof RecordBatch)) continue;
        offset = Math.max(offset, batch.lastOffset + 1);
        if (!batch.checksOut()) {
          this.#parts.log.error(
            { topic: OFFSETS_TOPIC, partition: partition.index, offset: batch.baseOffset },
            'a batch of group records is damaged and was left out',
          );
          continue;
        }
        this.#replay(batch, open, visit);
      }
      if (offset === before) break;
    }
  }

  #replay(
    batch: RecordBatch,
    open: Map<number, { key: Uint8Array; value: Uint8Array | null }[]>,
    visit: (key: Uint8Array, value: Uint8Array | null) => void,
  ): void {
    const { producerId } = batch;
    if (batch.isControl) {
      const pending = open.get(producerId) ?? [];
      open.delete(producerId);
      for (const { key } of batch.records()) {
        if (key === null || key.length < 4 || ((key[2]! << 8) | key[3]!) !== ControlType.COMMIT) continue;
        for (const record of pending) visit(record.key, record.value);
      }
      return;
    }
    const transactional = batch.isTransactional;
    for (const { key, value } of batch.records()) {
      if (key === null) continue;
      if (!transactional) {
        visit(key, value);
        continue;
      }
      const pending = open.get(producerId);
      if (pending === undefined) open.set(producerId, [{ key, value }]);
      else pending.push({ key, value });
    }
  }
}

/** One Produce from its staging to its answer: collects how the append to each partition ended. */
import type { BatchInspector } from '../log/batch-inspector.ts';
import { RecordsRefused, validateProduced } from '../log/batch-validation.ts';
import type { AppendListener, Partition } from '../log/partition.ts';
import { compressionId } from '../protocol/compression.ts';
import { KafkaError, kafkaCodeOf } from '../protocol/errors.ts';
import type { RecordError } from '../protocol/produce.ts';
import { ATTRIBUTE_COMPRESSION, ATTRIBUTES_AT, BATCH_HEADER_BYTES } from '../protocol/records/batch.ts';
import { BroadsheetError } from '../runtime/errors.ts';

const FIRST_WITH_ZSTD = 7;

interface PartitionOutcome {
  readonly index: number;
  errorCode: number;
  baseOffset: number;
  logAppendTimeMs: number;
  logStartOffset: number;
  recordErrors: readonly RecordError[] | undefined;
  errorMessage: string | null;
  /** Undefined where nothing is appended. */
  readonly partition: Partition | undefined;
}

export interface TopicOutcome {
  /** Name, or id from version 13 on. */
  readonly topic: string;
  readonly partitions: PartitionOutcome[];
}

export class PendingProduce implements AppendListener {
  /** Their lists have their length from the start: what grows takes room for 16 more. */
  readonly topics: TopicOutcome[];
  #topicCount = 0;
  /** By the token that append() was given: in the order of the request. */
  readonly #outcomes: PartitionOutcome[];
  #count = 0;
  /** The token of the first partition of the last topic that was begun. */
  #topicBegin = 0;
  /** Bytes that are stored instead of those that came. */
  #kept: Uint8Array[] | undefined;
  /** Appends that have not ended, and one for the staging itself. */
  #left = 1;
  readonly #version: number;
  readonly #inspector: BatchInspector;
  readonly #transactional: boolean;
  readonly #done: (produce: PendingProduce) => void;

  /** `topics`, `partitions`: how many the request has. `transactional`: it has a transactional id. `done` is called once,
   * when the last append has ended. */
  constructor(
    version: number,
    topics: number,
    partitions: number,
    inspector: BatchInspector,
    transactional: boolean,
    done: (produce: PendingProduce) => void,
  ) {
    this.#version = version;
    this.topics = new Array(topics);
    this.#outcomes = new Array(partitions);
    this.#inspector = inspector;
    this.#transactional = transactional;
    this.#done = done;
  }

  /** The first error, if any. */
  get firstError(): PartitionOutcome | undefined {
    return this.#outcomes.find((outcome) => outcome.errorCode !== KafkaError.NONE);
  }

  beginTopic(topic: string, partitions: number): void {
    this.topics[this.#topicCount++] = { topic, partitions: new Array(partitions) };
    this.#topicBegin = this.#count;
  }

  /** Notes a partition of the last topic that was begun; gives its token. */
  #add(index: number, partition: Partition | undefined): number {
    const outcome: PartitionOutcome = {
      index,
      errorCode: KafkaError.NONE,
      baseOffset: -1,
      logAppendTimeMs: -1,
      logStartOffset: -1,
      recordErrors: undefined,
      errorMessage: null,
      partition,
    };
    const token = this.#count++;
    this.topics[this.#topicCount - 1]!.partitions[token - this.#topicBegin] = outcome;
    this.#outcomes[token] = outcome;
    return token;
  }

  refuse(index: number, errorCode: number, message: string | null): void {
    const outcome = this.#outcomes[this.#add(index, undefined)]!;
    outcome.errorCode = errorCode;
    outcome.errorMessage = message;
  }

  /** Judges and stages the one batch in bytes[start, end). The bytes must stay as they are until the tick's commit. */
  append(partition: Partition, bytes: Uint8Array, start: number, end: number, now: number): void {
    const token = this.#add(partition.index, partition);
    const outcome = this.#outcomes[token]!;
    if (this.#codecIsTooNew(bytes, start, end)) {
      outcome.errorCode = KafkaError.UNSUPPORTED_COMPRESSION_TYPE;
      outcome.errorMessage = `zstd needs Produce version ${FIRST_WITH_ZSTD}, this is ${this.#version}`;
      return;
    }
    this.#left++;
    try {
      const batch = validateProduced(
        bytes,
        start,
        end,
        partition.config,
        now,
        this.#inspector,
        this.#transactional,
      );
      const from = batch.recoded ?? bytes;
      const at = batch.recoded === undefined ? start : 0;
      // The log has no more than a pointer to them until the tick's commit.
      if (batch.recoded !== undefined) {
        this.#kept ??= [];
        this.#kept.push(batch.recoded);
      }
      const rejection = partition.append(from, at, at + batch.sizeInBytes, batch, now, this, token);
      if (rejection === undefined) return;
      outcome.errorCode = rejection.code;
      outcome.errorMessage = rejection.message;
    } catch (error) {
      if (!(error instanceof BroadsheetError)) throw error;
      outcome.errorCode = kafkaCodeOf(error);
      outcome.errorMessage = error.message;
      if (error instanceof RecordsRefused) outcome.recordErrors = error.recordFaults;
    }
    outcome.logStartOffset = partition.logStartOffset;
    this.#left--;
  }

  /** Whether the batch is in zstd and the request older than that: others of the client's age could not read it. */
  #codecIsTooNew(bytes: Uint8Array, start: number, end: number): boolean {
    if (this.#version >= FIRST_WITH_ZSTD || end - start < BATCH_HEADER_BYTES) return false;
    return (bytes[start + ATTRIBUTES_AT + 1]! & ATTRIBUTE_COMPRESSION) === compressionId('zstd');
  }

  /** All partitions were handed over. */
  staged(): void {
    this.#end();
  }

  onAppended(token: number, baseOffset: number, logAppendTime: number): void {
    const outcome = this.#outcomes[token]!;
    outcome.baseOffset = baseOffset;
    outcome.logAppendTimeMs = logAppendTime;
    outcome.logStartOffset = outcome.partition!.logStartOffset;
    this.#end();
  }

  onAppendFailed(token: number, error: BroadsheetError): void {
    const outcome = this.#outcomes[token]!;
    outcome.errorCode = outcome.partition!.deleted
      ? KafkaError.UNKNOWN_TOPIC_OR_PARTITION
      : kafkaCodeOf(error);
    outcome.errorMessage = error.message;
    this.#end();
  }

  #end(): void {
    if (--this.#left === 0) this.#done(this);
  }
}

/**
 * Sends records to a topic: batches them per partition, one batch of a partition in flight at a time, tries again what can
 * be tried again, and says of each record that could not be written why. Idempotent unless told otherwise (KIP-98): a
 * batch that is sent twice is stored once.
 */
import { KafkaError, RETRIABLE } from '../protocol/errors.ts';
import type { ProduceResponsePartitionProduceResponse } from '../protocol/generated/Produce.ts';
import { BatchBuilder, type BatchOptions, type NewRecord } from '../protocol/records/writer.ts';
import { BroadsheetError } from '../runtime/errors.ts';
import { BrokerRefusal, type Client, produceErrorText } from './client.ts';
import { partitionOf } from './partitioner.ts';

export interface ProducerOptions {
  /** -1 (all, the default), 0 or 1. */
  readonly acks?: -1 | 0 | 1;
  /** Default: with acks -1. */
  readonly idempotent?: boolean;
  readonly compression?: BatchOptions['compression'];
  readonly level?: number;
  /** A batch is sent once it holds so many bytes, uncompressed. Default 512 KiB. */
  readonly batchBytes?: number;
  /** How long the first record of a batch waits for others, ms. Default 5. */
  readonly lingerMs?: number;
  /** How many bytes of records may wait before `full` says so. Default 16 MiB. */
  readonly bufferBytes?: number;
  /** How long a batch is tried, ms. Default 30 000. */
  readonly deliveryTimeoutMs?: number;
  /** Called for each record that was refused; `tag` is what send() was given. */
  readonly onRefused?: (tag: number, error: BroadsheetError) => void;
}

interface Entry {
  readonly record: NewRecord;
  readonly tag: number;
  readonly bytes: number;
}

interface Queue {
  readonly partition: number;
  /** Not yet sent, oldest first. */
  waiting: Entry[];
  waitingBytes: number;
  sending: boolean;
  timer: NodeJS.Timeout | undefined;
  sequence: number;
}

const RETRY_MS = 100;
/** How long a topic that nobody knows is asked for: a broker that makes it on the way may take a moment. */
const CREATION_MS = 5_000;
/** About what a record takes besides its bytes. */
const RECORD_OVERHEAD = 24;
const SEQUENCES = 2 ** 31;

export class Producer {
  readonly #client: Client;
  readonly #topic: string;
  readonly #partitions: number;
  readonly #options: ProducerOptions;
  readonly #id: { readonly producerId: number; readonly producerEpoch: number } | undefined;
  readonly #queues = new Map<number, Queue>();
  readonly #batchBytes: number;
  readonly #bufferBytes: number;
  #sticky: number;
  #buffered = 0;
  #records = 0;
  #failure: BroadsheetError | undefined;
  #waiters: (() => void)[] = [];
  /** Records that the broker has taken; with acks 0, those that were sent. */
  delivered = 0;
  refused = 0;

  private constructor(
    client: Client,
    topic: string,
    partitions: number,
    id: { readonly producerId: number; readonly producerEpoch: number } | undefined,
    options: ProducerOptions,
  ) {
    this.#client = client;
    this.#topic = topic;
    this.#partitions = partitions;
    this.#id = id;
    this.#options = options;
    this.#batchBytes = options.batchBytes ?? 512 * 1024;
    this.#bufferBytes = options.bufferBytes ?? 16 * 1024 * 1024;
    this.#sticky = Math.floor(Math.random() * partitions);
  }

  /** Asks for the topic, which the broker may make on the way. Throws BROKER_REFUSED. */
  static async create(client: Client, topic: string, options: ProducerOptions = {}): Promise<Producer> {
    const deadline = performance.now() + CREATION_MS;
    let partitions: number;
    for (;;) {
      try {
        const known = (await client.topic(topic, true)).partitions;
        partitions = known.length;
        if (partitions > 0 && known.every(({ leaderId }) => leaderId >= 0)) break;
        client.forget(topic);
        if (performance.now() > deadline) break;
      } catch (error) {
        if (!retriable(error) || performance.now() > deadline) throw error;
      }
      await sleep(RETRY_MS);
    }
    const idempotent = options.idempotent ?? (options.acks ?? -1) === -1;
    const id = idempotent ? await retry(() => client.initProducerId(), deadline) : undefined;
    return new Producer(client, topic, partitions, id, options);
  }

  get partitions(): number {
    return this.#partitions;
  }

  /** Whether so much waits that room() should be awaited before the next send(). */
  get full(): boolean {
    return this.#buffered >= this.#bufferBytes;
  }

  /** Takes a record. Without a partition its key decides; without a key too, one partition after the other gets a batch.
   * Throws what ended the producer. */
  send(record: NewRecord, partition: number | undefined, tag: number): void {
    if (this.#failure !== undefined) throw this.#failure;
    const bytes = sizeOf(record);
    const queue = this.#queue(partition ?? this.#choose(record));
    queue.waiting.push({ record, tag, bytes });
    queue.waitingBytes += bytes;
    this.#buffered += bytes;
    this.#records++;
    if (queue.waitingBytes >= this.#batchBytes) {
      if (partition === undefined) this.#sticky = (this.#sticky + 1) % this.#partitions;
      this.#pump(queue);
    } else if (!queue.sending && queue.timer === undefined) {
      queue.timer = setTimeout(() => this.#pump(queue), this.#options.lingerMs ?? 5);
    }
  }

  /** Resolves once it is not full. Throws what ended the producer. */
  async room(): Promise<void> {
    while (this.full && this.#failure === undefined) await this.#changed();
    if (this.#failure !== undefined) throw this.#failure;
  }

  /** Sends what waits, and resolves once all was written or refused. Throws what ended the producer. */
  async flush(): Promise<void> {
    for (const queue of this.#queues.values()) this.#pump(queue);
    while (this.#records > 0 && this.#failure === undefined) await this.#changed();
    if (this.#failure !== undefined) throw this.#failure;
  }

  #changed(): Promise<void> {
    return new Promise((resolve) => this.#waiters.push(resolve));
  }

  #wake(): void {
    for (const resolve of this.#waiters.splice(0)) resolve();
  }

  #choose({ key }: NewRecord): number {
    if (key === null || key === undefined) return this.#sticky;
    return partitionOf(typeof key === 'string' ? Buffer.from(key) : key, this.#partitions);
  }

  #queue(partition: number): Queue {
    let queue = this.#queues.get(partition);
    if (queue === undefined) {
      queue = { partition, waiting: [], waitingBytes: 0, sending: false, timer: undefined, sequence: 0 };
      this.#queues.set(partition, queue);
    }
    return queue;
  }

  /** Sends the oldest that wait, unless a batch of the partition is in flight: then its end does. */
  #pump(queue: Queue): void {
    clearTimeout(queue.timer);
    queue.timer = undefined;
    if (queue.sending || queue.waiting.length === 0 || this.#failure !== undefined) return;
    let count = 0;
    let bytes = 0;
    while (count < queue.waiting.length) {
      const next = queue.waiting[count]!.bytes;
      if (count > 0 && bytes + next > this.#batchBytes) break;
      bytes += next;
      count++;
    }
    const batch = queue.waiting;
    queue.waiting = batch.splice(count);
    queue.waitingBytes -= bytes;
    queue.sending = true;
    this.#deliver(queue, batch)
      .catch((error: BroadsheetError) => {
        this.#failure ??= error;
      })
      .finally(() => {
        queue.sending = false;
        this.#buffered -= bytes;
        this.#records -= count;
        this.#pump(queue);
        this.#wake();
      });
  }

  /** Sends one batch until it is written or refused. Throws what ends the producer. */
  async #deliver(queue: Queue, batch: readonly Entry[]): Promise<void> {
    const answer = await this.#send(queue, batch);
    if (answer === undefined || answer.errorCode === 0) {
      queue.sequence = (queue.sequence + batch.length) % SEQUENCES;
      this.delivered += batch.length;
      return;
    }
    if (answer.errorCode === KafkaError.MESSAGE_TOO_LARGE && batch.length > 1) {
      const half = batch.length >> 1;
      await this.#deliver(queue, batch.slice(0, half));
      await this.#deliver(queue, batch.slice(half));
      return;
    }
    const bad = new Map(answer.recordErrors.map((error) => [error.batchIndex, error.batchIndexErrorMessage]));
    if (bad.size > 0 && bad.size < batch.length) {
      for (const [index, text] of bad) {
        const entry = batch[index];
        if (entry !== undefined) this.#refuse([entry], answer.errorCode, text ?? answer.errorMessage);
      }
      const rest = batch.filter((_, index) => !bad.has(index));
      if (rest.length < batch.length) await this.#deliver(queue, rest);
      return;
    }
    if (this.#id !== undefined && FATAL.has(answer.errorCode)) {
      throw new BrokerRefusal(answer.errorCode, `${this.#topic}-${queue.partition}`, answer.errorMessage);
    }
    this.#refuse(batch, answer.errorCode, produceErrorText(answer));
  }

  #refuse(entries: readonly Entry[], errorCode: number, text: string | null): void {
    this.refused += entries.length;
    const error = new BrokerRefusal(errorCode, `topic ${this.#topic}`, text);
    for (const { tag } of entries) this.#options.onRefused?.(tag, error);
  }

  /** The last answer: what can be tried again is, until its time is over. */
  async #send(
    queue: Queue,
    batch: readonly Entry[],
  ): Promise<ProduceResponsePartitionProduceResponse | undefined> {
    const { compression, level, acks } = this.#options;
    const builder = new BatchBuilder({
      compression,
      level,
      ...(this.#id === undefined ? {} : { ...this.#id, baseSequence: queue.sequence }),
    });
    for (const { record } of batch) builder.append(record);
    const bytes = builder.build();
    const deadline = performance.now() + (this.#options.deliveryTimeoutMs ?? 30_000);
    for (;;) {
      try {
        const answer = await this.#client.produceBytes(this.#topic, queue.partition, bytes, { acks });
        // The first attempt was written, and only its answer lost.
        if (answer?.errorCode === KafkaError.DUPLICATE_SEQUENCE_NUMBER) return undefined;
        if (answer === undefined || !RETRIABLE.has(answer.errorCode) || performance.now() > deadline)
          return answer;
      } catch (error) {
        if (!retriable(error) || performance.now() > deadline) throw error;
      }
      this.#client.forget(this.#topic);
      await sleep(RETRY_MS);
    }
  }
}

/** After these no later batch of the producer can be right. */
const FATAL: ReadonlySet<number> = new Set([
  KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER,
  KafkaError.UNKNOWN_PRODUCER_ID,
  KafkaError.INVALID_PRODUCER_EPOCH,
  KafkaError.PRODUCER_FENCED,
  KafkaError.CLUSTER_AUTHORIZATION_FAILED,
]);

/** Whether the same call may succeed a moment later. */
export function retriable(error: unknown): boolean {
  if (error instanceof BrokerRefusal) return RETRIABLE.has(error.kafkaCode);
  return error instanceof BroadsheetError && ['IO', 'TIMEOUT', 'NOT_FOUND'].includes(error.code);
}

/** Calls until it succeeds, fails for good, or its time is over. */
export async function retry<T>(call: () => Promise<T>, deadline: number): Promise<T> {
  for (;;) {
    try {
      return await call();
    } catch (error) {
      if (!retriable(error) || performance.now() > deadline) throw error;
    }
    await sleep(RETRY_MS);
  }
}

export function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

function sizeOf({ key, value, headers }: NewRecord): number {
  let bytes = RECORD_OVERHEAD + (key?.length ?? 0) + (value?.length ?? 0);
  for (const header of headers ?? []) bytes += header.key.length + (header.value?.length ?? 0) + 4;
  return bytes;
}

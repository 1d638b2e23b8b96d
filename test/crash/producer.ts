/** A producer under load: several batches on their way at once, and after a lost connection it sends again what was not
 * answered (with a producer id), or forgets it (without). */
import { BrokerRefusal, Client } from '../../src/client/client.ts';
import { BatchBuilder } from '../../src/protocol/records/writer.ts';
import { BroadsheetError } from '../../src/runtime/errors.ts';
import type { Random } from '../support/random.ts';
import { recordOf } from './content.ts';
import type { PartitionModel, SentBatch } from './model.ts';

const CODECS = ['none', 'none', 'none', 'gzip', 'snappy', 'lz4', 'zstd'] as const;
/** Connections that end under way are what these tests are about. */
const LOST = new Set(['IO', 'CLOSED', 'TIMEOUT']);

export function isLost(error: unknown): boolean {
  return error instanceof BroadsheetError && LOST.has(error.code);
}

export interface Target {
  readonly topic: string;
  readonly partition: number;
  readonly model: PartitionModel;
}

export interface ProducerOptions {
  readonly idempotent: boolean;
  readonly acks: 1 | -1;
  /** Batches on their way; at most 5 with a producer id. */
  readonly inFlight: number;
}

interface Lane extends Target {
  readonly stream: string;
  next: number;
  /** Not answered, oldest first. */
  readonly waiting: Waiting[];
}

interface Waiting extends SentBatch {
  readonly bytes: Uint8Array;
}

export class Producer {
  readonly #options: ProducerOptions;
  readonly #random: Random;
  readonly #lanes: Lane[];
  #producerId: { producerId: number; producerEpoch: number } | undefined;
  /** Answers that were wrong. */
  readonly faults: string[] = [];
  acknowledged = 0;

  constructor(name: string, options: ProducerOptions, targets: readonly Target[], random: Random) {
    this.#options = options;
    this.#random = random;
    this.#lanes = targets.map((target) => {
      const stream = `${name}/${target.topic}/${target.partition}`;
      target.model.addStream(stream, options.idempotent);
      return { ...target, stream, next: 0, waiting: [] };
    });
  }

  get producerId(): number | undefined {
    return this.#producerId?.producerId;
  }

  /** Produces until `done` says so or the connection is lost. */
  async run(address: string, done: () => boolean): Promise<void> {
    let client: Client | undefined;
    try {
      client = await Client.connect(address);
      if (this.#options.idempotent) this.#producerId ??= await client.initProducerId();
      await client.metadata([...new Set(this.#lanes.map((lane) => lane.topic))]);
      await Promise.all(this.#lanes.map((lane) => this.#again(client!, lane)));
      while (!done()) await this.#round(client);
    } catch (error) {
      if (!isLost(error)) this.#fault(error, 'a producer');
    } finally {
      await client?.close();
    }
  }

  async #again(client: Client, lane: Lane): Promise<void> {
    const waiting = lane.waiting.splice(0);
    if (!this.#options.idempotent) return;
    await this.#send(client, lane, waiting);
  }

  /** Some batches to one of the partitions, then their answers. */
  async #round(client: Client): Promise<void> {
    const lane = this.#random.pick(this.#lanes);
    const batches = Array.from({ length: 1 + this.#random.int(this.#options.inFlight) }, () =>
      this.#make(lane),
    );
    await this.#send(client, lane, batches);
  }

  #make(lane: Lane): Waiting {
    const count = 1 + this.#random.int(12);
    const sequence = lane.next;
    lane.next += count;
    const builder = new BatchBuilder({
      compression: this.#random.pick(CODECS),
      ...(this.#options.idempotent && { ...this.#producerId, baseSequence: sequence }),
    });
    for (let i = 0; i < count; i++) builder.append(recordOf(lane.stream, sequence + i));
    const batch = { stream: lane.stream, sequence, count, bytes: builder.build() };
    lane.model.sent(batch);
    return batch;
  }

  async #send(client: Client, lane: Lane, batches: readonly Waiting[]): Promise<void> {
    lane.waiting.push(...batches);
    const answers = await Promise.allSettled(
      batches.map((batch) =>
        client.produceBytes(lane.topic, lane.partition, batch.bytes, { acks: this.#options.acks }),
      ),
    );
    let lost: unknown;
    for (const [i, answer] of answers.entries()) {
      const batch = batches[i]!;
      if (answer.status === 'rejected') {
        lost ??= answer.reason;
        continue;
      }
      lane.waiting.splice(lane.waiting.indexOf(batch), 1);
      const { errorCode, baseOffset, errorMessage } = answer.value!;
      if (errorCode !== 0) {
        this.#fault(new BrokerRefusal(errorCode, `${batch.stream}#${batch.sequence}`, errorMessage), 'batch');
        continue;
      }
      this.acknowledged += batch.count;
      const fault = lane.model.acknowledged(batch, baseOffset);
      if (fault !== undefined) this.faults.push(fault);
    }
    if (lost !== undefined) throw lost;
  }

  #fault(error: unknown, what: string): void {
    if (this.faults.length < 5) this.faults.push(`${what}: ${(error as Error).message}`);
  }
}

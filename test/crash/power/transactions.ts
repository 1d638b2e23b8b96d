/** A transactional producer of the workload: what it wrote in a transaction shows up whole or not at all, and as it was answered. */
import { KafkaError } from '../../../src/protocol/errors.ts';
import { BatchBuilder } from '../../../src/protocol/records/writer.ts';
import type { Random } from '../../support/random.ts';
import { CALLS } from '../../support/transaction-calls.ts';
import type { Answer, DiskBroker } from './disk-broker.ts';
import { BEGINNING } from './ledger.ts';

export const TX_TOPIC = 'transactional';
export const TX_PARTITIONS = 2;
const ID = 'transactional-id';
const TIMEOUT_MS = 600_000;

type Outcome = 'open' | 'committing' | 'committed' | 'aborting' | 'aborted';

interface Transaction {
  /** What was acknowledged in it. */
  readonly values: string[];
  readonly outcomes: { readonly position: number; readonly outcome: Outcome }[];
}

export class Transactions {
  readonly #all: Transaction[] = [];
  #producer: { readonly producerId: number; readonly producerEpoch: number } | undefined;
  #busy = false;

  get count(): number {
    return this.#all.length;
  }

  /** One transaction, unless another one is under way. */
  async act(broker: DiskBroker, random: Random): Promise<void> {
    if (this.#busy) return;
    this.#busy = true;
    this.#producer ??= await take(broker);
    const transaction: Transaction = { values: [], outcomes: [] };
    const become = (outcome: Outcome, position: number) => transaction.outcomes.push({ position, outcome });
    become('open', broker.journal.position);
    const number = this.#all.push(transaction);
    const sequences = new Map<number, number>();
    for (let batches = 1 + random.int(4); batches > 0; batches--) {
      const index = random.int(TX_PARTITIONS);
      const values = Array.from({ length: 1 + random.int(3) }, (_, i) => `${number}:${batches}:${i}`);
      await this.#produce(broker, index, values, sequences.get(index) ?? 0);
      sequences.set(index, (sequences.get(index) ?? 0) + values.length);
      transaction.values.push(...values);
    }
    const committed = random.int(3) > 0;
    become(committed ? 'committing' : 'aborting', broker.journal.position);
    const { body, position } = await again(() =>
      broker.ask(CALLS.end, 5, { transactionalId: ID, ...this.#producer!, committed }),
    );
    this.#producer = body;
    become(committed ? 'committed' : 'aborted', position);
    this.#busy = false;
  }

  async #produce(
    broker: DiskBroker,
    index: number,
    values: readonly string[],
    sequence: number,
  ): Promise<void> {
    const builder = new BatchBuilder({ ...this.#producer, baseSequence: sequence, transactional: true });
    for (const value of values) builder.append({ timestamp: BEGINNING, value });
    const { body } = await broker.ask(CALLS.produce, 12, {
      ...{ transactionalId: ID, acks: -1, timeoutMs: 1000 },
      topicData: [{ name: TX_TOPIC, partitionData: [{ index, records: builder.build() }] }],
    });
    const { errorCode } = body.responses[0]!.partitionResponses[0]!;
    if (errorCode !== 0)
      throw new Error(`a transactional batch was answered with ${errorCode}; ${broker.log}`);
  }

  /** What is wrong with what a reader of committed records sees, once nothing is open any more. */
  faults(values: readonly string[], position: number): string[] {
    const faults: string[] = [];
    const found = new Set(values);
    if (found.size < values.length) faults.push('a committed record is there twice');
    for (const [i, transaction] of this.#all.entries()) {
      const outcome = transaction.outcomes.findLast((each) => each.position <= position)?.outcome ?? 'open';
      const visible = transaction.values.filter((value) => found.delete(value)).length;
      const whole = visible === transaction.values.length;
      const right = outcome === 'committed' ? whole : visible === 0 || (outcome === 'committing' && whole);
      if (!right)
        faults.push(
          `transaction ${i}, ${outcome}: ${visible} of ${transaction.values.length} records are there`,
        );
    }
    // What was not acknowledged is of a transaction that was open.
    for (const value of found) faults.push(`${value} is there`);
    return faults;
  }
}

/** Gives the transactional id to this client: what was open is aborted. */
export async function take(broker: DiskBroker) {
  const init = { transactionalId: ID, transactionTimeoutMs: TIMEOUT_MS, producerId: -1, producerEpoch: -1 };
  const { body } = await again(() => broker.ask(CALLS.init, 5, init));
  return { producerId: body.producerId, producerEpoch: body.producerEpoch };
}

async function again<T extends { readonly errorCode: number }>(
  ask: () => Promise<Answer<T>>,
): Promise<Answer<T>> {
  for (let attempt = 0; ; attempt++) {
    const answer = await ask();
    if (answer.body.errorCode === 0) return answer;
    if (answer.body.errorCode !== KafkaError.CONCURRENT_TRANSACTIONS || attempt > 1000)
      throw new Error(`a transaction's request was answered with ${answer.body.errorCode}`);
    await new Promise((resolve) => setImmediate(resolve));
  }
}

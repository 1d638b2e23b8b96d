/** What fills compacted partitions with transactions. */
import { Client } from '../../src/client/client.ts';
import type { CompressionName } from '../../src/protocol/compression.ts';
import { BatchBuilder } from '../../src/protocol/records/writer.ts';
import { Random } from './random.ts';
import { type Producer, TransactionScript } from './transaction-script.ts';

export const CODECS: readonly CompressionName[] = ['none', 'gzip', 'snappy', 'lz4', 'zstd'];
/** Kafka's longest. */
const TIMEOUT_MS = 900_000;

/** Transactions of several producers, interleaved, on the first partition of a compacted topic. Of one seed and time the same bytes
 * but for the markers'. */
export class TransactionalLoad {
  readonly #random: Random;
  readonly #topic: string;
  /** Of every record, ms since the epoch. */
  readonly #time: number;
  /** What each transactional id has. */
  readonly #producers = new Map<string, { producer: Producer; sequence: number; open: boolean }>();
  #value = 0;

  constructor(topic: string, seed: number, time: number) {
    this.#topic = topic;
    this.#random = new Random(seed);
    this.#time = time;
  }

  /** Some turns against a broker; ends with a transaction open. */
  async run(address: string, turns: number, keys: number): Promise<void> {
    const client = await Client.connect(address);
    const script = new TransactionScript(client.connection);
    for (let turn = 0; turn < turns; turn++) {
      const n = this.#random.int(6);
      if (n === 5) {
        const key = `key-${this.#random.int(keys)}`;
        await client.produce(this.#topic, 0, [{ timestamp: this.#time, key, value: this.#next() }]);
      } else await this.#step(client, script, `${this.#topic}-${n}`, keys);
    }
    const left = [...this.#producers].filter(([, { open }]) => open);
    for (const [id] of left) await this.#end(script, id);
    await this.#step(client, script, `${this.#topic}-0`, keys);
    await client.close();
    const refused = script.lines.filter((line) => !line.includes('NONE'));
    if (refused.length > 0) throw new Error(refused.join('\n'));
  }

  #next(): string | null {
    this.#value++;
    return this.#random.int(6) === 0 ? null : `${this.#value} `.repeat(1 + this.#random.int(20));
  }

  async #step(client: Client, script: TransactionScript, id: string, keys: number): Promise<void> {
    const known = this.#producers.get(id);
    if (known?.open === true && this.#random.int(3) === 0) {
      await this.#end(script, id);
      return;
    }
    // One that is open at the end stays open, however long the cleaning takes.
    const producer = known?.producer ?? (await script.init(id, { timeoutMs: TIMEOUT_MS }));
    const state = known ?? { producer, sequence: 0, open: false };
    this.#producers.set(id, state);
    if (!state.open) await script.add(id, state.producer, [[this.#topic, 0]]);
    const { id: producerId, epoch: producerEpoch } = state.producer;
    const fields = { producerId, producerEpoch, baseSequence: state.sequence, transactional: true };
    const builder = new BatchBuilder({ compression: this.#random.pick(CODECS), ...fields });
    const count = 1 + this.#random.int(5);
    for (let i = 0; i < count; i++)
      builder.append({ timestamp: this.#time, key: `key-${this.#random.int(keys)}`, value: this.#next() });
    const answer = await client.produceBytes(this.#topic, 0, builder.build(), { transactionalId: id });
    if (answer?.errorCode !== 0) throw new Error(`${id}: ${answer?.errorCode}`);
    state.sequence += count;
    state.open = true;
  }

  async #end(script: TransactionScript, id: string): Promise<void> {
    const state = this.#producers.get(id)!;
    const modern = Number(id.at(-1)) % 2 === 0;
    const next = await script.end(id, state.producer, this.#random.int(2) === 0, { version: modern ? 5 : 4 });
    if (modern) state.sequence = 0;
    state.producer = next;
    state.open = false;
  }
}

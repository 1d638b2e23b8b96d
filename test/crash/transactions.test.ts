/**
 * A broker with transactions open, prepared, committed and aborted is killed at random points and started again: what was
 * committed is there once and whole, offsets with it, what was aborted or left open is invisible, and what was about to end
 * has ended one way in all its partitions. Idempotent producers are in crash.test.ts.
 */
import { mkdtempSync, readdirSync, readFileSync, rmSync, truncateSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { Client, LATEST } from '../../src/client/client.ts';
import { RecordBatch, readBatches } from '../../src/protocol/records/reader.ts';
import { Random } from '../support/random.ts';
import { scaled } from '../support/scale.ts';
import { seedOf } from '../support/seed.ts';
import { lastSegment } from './tear.ts';
import { PARTITIONS, TOPIC, type Transaction, Transactor } from './transactor.ts';
import { Victim } from './victim.ts';

const KILLS = scaled(4, 200);
const CONFIG = {
  'offsets.topic.num.partitions': '2',
  'transaction.state.log.num.partitions': '3',
  'log.flush.offset.checkpoint.interval.ms': '150',
};

let root: string;
let broker: Victim | undefined;

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'broadsheet-transactions-'));
});
afterEach(async () => {
  await broker?.kill();
  rmSync(root, { recursive: true, force: true });
});

const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

class TransactionCrashes {
  readonly dataDir = join(root, 'data');
  readonly random: Random;
  readonly transactors: Transactor[];
  readonly faults: string[] = [];
  /** Of each partition: all below is verified. */
  readonly #verified: number[] = Array.from({ length: PARTITIONS }, () => 0);
  /** Of each id: transactions before are verified. */
  readonly #judged: number[];
  /** Commits that were not answered, by what became of them. */
  readonly decided = { committed: 0, aborted: 0 };
  kills = 0;

  constructor(seed: number) {
    this.random = new Random(seed);
    this.transactors = Array.from({ length: 6 }, (_, i) => new Transactor(`t${i}`, i % 2 === 0, this.random));
    this.#judged = this.transactors.map(() => 0);
  }

  start(): Victim {
    broker = new Victim(this.dataDir, CONFIG);
    return broker;
  }

  async createTopic(address: string): Promise<void> {
    const client = await Client.connect(address);
    const configs = { 'internal.segment.bytes': '20000' };
    await client.createTopics([{ name: TOPIC, partitions: PARTITIONS, configs }]);
    await client.close();
  }

  /** Load until the broker is killed, and a start that perhaps is not the first. */
  async live(address: string, ms: number): Promise<void> {
    let over = false;
    const load = this.transactors.map((transactor) => transactor.run(address, () => over));
    await pause(ms);
    await broker!.kill();
    this.kills++;
    over = true;
    await Promise.all(load);
    for (const { faults } of this.transactors) this.faults.push(...faults.splice(0));
  }

  async survive(): Promise<string> {
    while (this.random.int(4) === 0) {
      await Promise.race([this.start().ready, pause(this.random.int(500))]);
      await broker!.kill();
      this.kills++;
    }
    return await this.start().address();
  }

  /** Sees that all transactions have ended, and looks at what is new. */
  async verify(address: string): Promise<void> {
    const client = await Client.connect(address);
    try {
      // Some ids nobody asks for again.
      for (const transactor of this.transactors) {
        if (this.random.int(12) === 0) await transactor.rest(client);
        else await transactor.take(client);
      }
      const found = new Map<string, string[]>();
      for (let partition = 0; partition < PARTITIONS; partition++) await this.#read(client, partition, found);
      for (const [i, transactor] of this.transactors.entries())
        await this.#judge(client, i, transactor, found);
      for (const [name, values] of found) this.faults.push(`${name} shows ${values} and was not committed`);
    } finally {
      await client.close();
    }
  }

  /** Committed values by id, number and partition. */
  async #read(client: Client, partition: number, found: Map<string, string[]>): Promise<void> {
    const { offset: end } = await client.listOffset(TOPIC, partition, LATEST);
    const { offset: stable } = await client.listOffset(TOPIC, partition, LATEST, true);
    if (stable !== end) this.faults.push(`partition ${partition} is stable up to ${stable} of ${end}`);
    const from = this.#verified[partition]!;
    if (stable < from) this.faults.push(`partition ${partition} was stable up to ${from}, now ${stable}`);
    for await (const { value } of client.records(TOPIC, partition, from, { committedOnly: true })) {
      const text = Buffer.from(value!).toString();
      const name = `${text.split(':').slice(0, 2).join(':')}/${partition}`;
      found.set(name, [...(found.get(name) ?? []), text]);
    }
    this.#verified[partition] = Math.max(from, stable);
  }

  async #judge(
    client: Client,
    i: number,
    transactor: Transactor,
    found: Map<string, string[]>,
  ): Promise<void> {
    const { id, transactions } = transactor;
    const offset = await transactor.offset(client);
    for (const transaction of transactions.slice(this.#judged[i])) {
      if (transaction.outcome === 'ending') {
        const visible = this.#shows(transactor, transaction, found) || offset === transaction.number;
        transaction.outcome = visible ? 'committed' : 'aborted';
        this.decided[transaction.outcome]++;
        if (visible && transaction.offset) transactor.committedOffset = transaction.number;
      } else if (transaction.outcome === 'open') transaction.outcome = 'aborted';
      for (const [partition, values] of transaction.values.entries()) {
        const name = `${id}:${transaction.number}/${partition}`;
        const wanted = transaction.outcome === 'committed' ? values : [];
        const shown = found.get(name) ?? [];
        found.delete(name);
        if (shown.join() !== wanted.join())
          this.faults.push(`${name}, ${transaction.outcome}, shows [${shown}] and not [${wanted}]`);
      }
    }
    this.#judged[i] = transactions.length;
    if (offset !== transactor.committedOffset)
      this.faults.push(`the group of ${id} reads ${offset} and not ${transactor.committedOffset}`);
  }

  #shows({ id }: Transactor, { number, values }: Transaction, found: ReadonlyMap<string, string[]>): boolean {
    return values.some((_, partition) => found.has(`${id}:${number}/${partition}`));
  }

  count(outcome: Transaction['outcome']): number {
    return this.transactors.reduce((sum, transactor) => sum + transactor.count(outcome), 0);
  }
}

it('ends every transaction one way, whenever it is killed', async () => {
  const test = new TransactionCrashes(seedOf('transactions', 20261202));
  let address = await test.start().address();
  await test.createTopic(address);
  while (test.kills < KILLS) {
    await test.live(address, 50 + test.random.int(500));
    address = await test.survive();
    await test.verify(address);
    expect(test.faults, `after ${test.kills} kills; ${broker!.output.slice(-2000)}`).toEqual([]);
  }
  const { decided, kills } = test;
  process.stdout.write(
    `transactions: ${kills} kills, ${test.count('committed')} committed, ${test.count('aborted')} aborted, of those ` +
      `whose commit was not answered ${decided.committed} and ${decided.aborted}\n`,
  );
  expect(test.count('committed')).toBeGreaterThan(0);
  expect(test.count('aborted')).toBeGreaterThan(0);
});

/** Cuts the newest commit marker, and all behind it, off the partition. */
function loseMarker(dataDir: string, partition: number): boolean {
  const folder = join(dataDir, `${TOPIC}-${partition}`);
  const { path } = lastSegment(folder)!;
  let at = 0;
  let marker = -1;
  for (const batch of readBatches(readFileSync(path))) {
    if (!(batch instanceof RecordBatch)) break;
    if (batch.isControl && [...batch.records()].some(({ key }) => key![3] === 1)) marker = at;
    at += batch.sizeInBytes;
  }
  if (marker >= 0) truncateSync(path, marker);
  return marker >= 0;
}

it.each(['a marker', 'the state of the ids'])('is caught when %s does not survive', async (what) => {
  const test = new TransactionCrashes(7);
  const address = await test.start().address();
  await test.createTopic(address);
  let over = false;
  const load = test.transactors.map((transactor) => transactor.run(address, () => over));
  while (test.transactors.some((transactor) => transactor.count('committed') < 2)) await pause(5);
  await broker!.kill();
  over = true;
  await Promise.all(load);
  // The canary.
  if (what === 'a marker') {
    const lost = Array.from({ length: PARTITIONS }, (_, partition) => loseMarker(test.dataDir, partition));
    expect(lost).toContain(true);
  } else {
    const folders = readdirSync(test.dataDir).filter((name) => name.startsWith('__transaction_state'));
    expect(folders).toHaveLength(3);
    for (const folder of folders) rmSync(lastSegment(join(test.dataDir, folder))!.path);
  }
  await test.verify(await test.start().address());
  expect(test.faults).not.toEqual([]);
});

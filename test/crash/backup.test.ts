/**
 * Backups of a broker under load, taken in its process and by the command: segments roll, are compacted and deleted meanwhile,
 * topics come and go, transactions are open and prepared. Each is restored and opened by the other engine: what was
 * acknowledged before is there, each partition is a prefix of what was written, and transactions are whole.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { type Client, EARLIEST, LATEST } from '../../src/client/client.ts';
import { commitOffsets, committedOffsets } from '../../src/client/groups.ts';
import { type Broker, createBroker } from '../../src/index.ts';
import { copyDirectory } from '../../src/log/backup.ts';
import { TestLogger } from '../broker/test-broker.ts';
import { cli } from '../support/cli.ts';
import { ProducerLoad, readContent } from '../support/producer-load.ts';
import { Random } from '../support/random.ts';
import { scaled } from '../support/scale.ts';
import { seedOf } from '../support/seed.ts';
import { withClient } from '../support/with-client.ts';
import { PARTITIONS, TOPIC, type Transaction, Transactor } from './transactor.ts';

const PLAIN = { name: 'plain', partitions: 4 };
/** Between two steps of a load: the work is that of the broker. */
const PAUSE_MS = 5;
const BACKUPS = scaled(2, 40);
const CONFIG = {
  'offsets.topic.num.partitions': '2',
  'transaction.state.log.num.partitions': '2',
  'log.cleaner.backoff.ms': '20',
  'log.cleaner.min.cleanable.ratio': '0.1',
  'log.retention.check.interval.ms': '50',
  'log.segment.delete.delay.ms': '1',
  'log.flush.offset.checkpoint.interval.ms': '100',
};
/** Not much more than the largest batch. */
const ROLLING = { 'internal.segment.bytes': '120000' };

let root: string;
const brokers: Broker[] = [];

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'broadsheet-backup-'));
});
afterEach(async () => {
  for (const broker of brokers.splice(0)) await broker.close();
  rmSync(root, { recursive: true, force: true });
});

async function start(name: string, engine: 'native' | 'js', logger?: TestLogger): Promise<Broker> {
  const options = { dataDir: join(root, name), host: '127.0.0.1', port: 0, engine, config: CONFIG, logger };
  const broker = await createBroker(options);
  brokers.push(broker);
  return broker;
}

interface Counted {
  /** By key, the last value that was acknowledged. */
  readonly keys: Map<string, number>;
  /** The last value of `short` that was acknowledged. */
  short: number;
  committed: number;
}

/** What a backup has to have at least. */
interface Before extends Counted {
  readonly plain: Map<string, Map<number, string>>;
  readonly transactions: (readonly Transaction[])[];
}

class Load {
  readonly plain: ProducerLoad;
  readonly transactors: Transactor[];
  readonly counted: Counted = { keys: new Map(), short: -1, committed: 0 };
  readonly #broker: Broker;
  #over = false;
  #running: Promise<unknown> = Promise.resolve();

  constructor(broker: Broker, seed: number) {
    this.#broker = broker;
    this.plain = new ProducerLoad([PLAIN], 2, seed);
    const random = new Random(seed);
    this.transactors = [0, 1].map((i) => new Transactor(`t${i}`, i % 2 === 0, random));
  }

  async begin(): Promise<void> {
    const address = this.#broker.bootstrapServers;
    await withClient(this.#broker, (client) =>
      client.createTopics([
        { ...PLAIN, configs: ROLLING },
        { name: TOPIC, partitions: PARTITIONS, configs: { 'internal.segment.bytes': '20000' } },
        {
          name: 'keys',
          partitions: 1,
          configs: { 'internal.segment.bytes': '20000', 'cleanup.policy': 'compact' },
        },
        {
          name: 'short',
          partitions: 1,
          configs: { 'internal.segment.bytes': '20000', 'retention.bytes': '40000' },
        },
      ]),
    );
    const until = async (work: () => Promise<void>) => {
      for (; !this.#over; await new Promise((resolve) => setTimeout(resolve, PAUSE_MS))) await work();
    };
    this.#running = Promise.all([
      until(() => this.plain.run(address, 2)),
      ...this.transactors.map((transactor) => transactor.run(address, () => this.#over)),
      withClient(this.#broker, (client) => until(() => this.#count(client))),
      withClient(this.#broker, (client) => until(() => this.#churn(client))),
      // The coordinators' topics too.
      until(async () => void (await this.#broker.compact())),
    ]);
    this.#running.catch(() => {});
  }

  /** Rejects when the load has failed. */
  async until(condition: () => boolean): Promise<void> {
    const waited = async () => {
      while (!condition()) await new Promise((resolve) => setTimeout(resolve, 10));
    };
    await Promise.race([waited(), this.#running.then(() => Promise.reject(new Error('the load has ended')))]);
  }

  #next = 0;

  /** Values that grow, under few keys and in a topic of which little is kept, and a group that commits where it ends. */
  async #count(client: Client): Promise<void> {
    const value = this.#next++;
    const text = String(value);
    const key = String(value % 7);
    const records = [{ timestamp: Date.now(), key: Buffer.from(key), value: Buffer.from(text.padEnd(500)) }];
    await client.produce('keys', 0, records);
    this.counted.keys.set(key, value);
    const { baseOffset } = (await client.produce('short', 0, records))!;
    this.counted.short = value;
    await commitOffsets(client, 'reader', [{ topic: 'short', partition: 0, offset: baseOffset + 1 }]);
    this.counted.committed = baseOffset + 1;
  }

  #topics = 0;

  async #churn(client: Client): Promise<void> {
    const name = `churn-${this.#topics++}`;
    await client.createTopics([{ name, partitions: 3 }]);
    await client.produce(name, 0, [{ timestamp: Date.now(), value: Buffer.from('x') }]);
    await client.deleteTopics([name]);
  }

  before(): Before {
    const { keys, short, committed } = this.counted;
    return {
      ...{ keys: new Map(keys), short, committed },
      plain: new Map([...this.plain.acknowledged].map(([name, offsets]) => [name, new Map(offsets)])),
      transactions: this.transactors.map(({ transactions }) => transactions.map((each) => ({ ...each }))),
    };
  }

  async end(): Promise<void> {
    this.#over = true;
    await this.#running;
    for (const { faults } of this.transactors) expect(faults).toEqual([]);
  }
}

/** What is wrong with a broker on a restored directory. */
async function faultsOf(broker: Broker, load: Load, before: Before): Promise<string[]> {
  const faults: string[] = [];
  const content = await readContent(broker.bootstrapServers, [PLAIN]);
  for (const [name, { digest, records }] of content) {
    const written = load.plain.acknowledged.get(name) ?? new Map();
    for (const offset of before.plain.get(name)?.keys() ?? [])
      if (!records.has(offset)) faults.push(`${name}: ${offset} is lost`);
    for (const [offset, hash] of records)
      if (written.get(offset) !== hash) faults.push(`${name}: ${offset} was not written so`);
    if (digest.count > 0 && digest.lastOffset !== digest.count - 1) faults.push(`${name} has gaps`);
  }
  await withClient(broker, async (client) => {
    faults.push(...(await faultsOfCounts(client, before)));
    faults.push(...(await faultsOfTransactions(client, load, before)));
  });
  return faults;
}

async function values(
  client: Client,
  topic: string,
): Promise<{ key: string; value: number; offset: number }[]> {
  const found = [];
  const { offset: from } = await client.listOffset(topic, 0, EARLIEST);
  for await (const { key, value, offset } of client.records(topic, 0, from))
    found.push({ key: Buffer.from(key!).toString(), value: Number(Buffer.from(value!).toString()), offset });
  return found;
}

async function faultsOfCounts(client: Client, before: Before): Promise<string[]> {
  const faults: string[] = [];
  const last = new Map<string, number>();
  for (const { key, value } of await values(client, 'keys')) last.set(key, value);
  const end = Math.max(...last.values());
  for (const [key, value] of before.keys) {
    // Of a prefix up to `end`, the last with that key.
    const wanted = end - ((((end - Number(key)) % 7) + 7) % 7);
    if (last.get(key) !== wanted || wanted < value)
      faults.push(`key ${key} has ${last.get(key)}, wanted ${wanted}, was ${value}`);
  }
  const short = await values(client, 'short');
  if ((short.at(-1)?.value ?? -1) < before.short) faults.push('short lost its end');
  for (const { value, offset } of short) if (value !== offset) faults.push(`short has ${value} at ${offset}`);
  const [committed] = await committedOffsets(client, 'reader');
  const { offset: logEnd } = await client.listOffset('short', 0, LATEST);
  if ((committed?.offset ?? 0) < before.committed || (committed?.offset ?? 0) > logEnd)
    faults.push(`committed ${committed?.offset}, was ${before.committed}, and the log ends at ${logEnd}`);
  return faults;
}

async function faultsOfTransactions(client: Client, load: Load, before: Before): Promise<string[]> {
  const faults: string[] = [];
  for (const transactor of load.transactors) await transactor.take(client);
  const found = new Map<string, string[]>();
  for (let partition = 0; partition < PARTITIONS; partition++) {
    for await (const { value } of client.records(TOPIC, partition, 0, { committedOnly: true })) {
      const text = Buffer.from(value!).toString();
      const name = `${text.split(':').slice(0, 2).join(':')}/${partition}`;
      found.set(name, [...(found.get(name) ?? []), text]);
    }
  }
  for (const [i, { id, transactions }] of load.transactors.entries()) {
    let offset = -1;
    for (const { number, values: written, outcome, offset: commits } of transactions) {
      const shown = written.map((_, partition) => found.get(`${id}:${number}/${partition}`) ?? []);
      const isWhole = shown.join('|') === written.join('|');
      const isGone = shown.every((each) => each.length === 0);
      const then = before.transactions[i]![number]?.outcome;
      const ok = outcome === 'aborted' ? isGone : then === 'committed' ? isWhole : isWhole || isGone;
      if (!ok) faults.push(`${id}:${number}, ${then}, then ${outcome}, shows ${shown} of ${written}`);
      if (!isGone && commits) offset = number;
    }
    const committed = await load.transactors[i]!.offset(client);
    if (committed !== offset) faults.push(`the group of ${id} is at ${committed}, not ${offset}`);
  }
  return faults;
}

const engines = [
  ['native', 'js'],
  ['js', 'native'],
] as const;

it.each(engines)('of a broker with engine=%s under load are whole for engine=%s', async (engine, other) => {
  const seed = seedOf('backup', 4102);
  const broker = await start('data', engine);
  const load = new Load(broker, seed);
  await load.begin();
  const made: { target: string; before: Before; linked: number }[] = [];
  for (let i = 0; i < BACKUPS; i++) {
    const commits = load.transactors.reduce((sum, each) => sum + each.count('committed'), 0);
    const { committed } = load.counted;
    await load.until(
      () =>
        load.counted.committed > committed + 25 &&
        load.transactors.reduce((sum, each) => sum + each.count('committed'), 0) > commits + 3,
    );
    const before = load.before();
    const target = join(root, `backup-${i}`);
    if (i % 2 === 0) made.push({ target, before, linked: (await broker.backup(target)).linkedFiles });
    else {
      const { code, stdout, stderr } = await cli(['backup', broker.dataDir, target, '--json']);
      expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
      made.push({ target, before, linked: JSON.parse(stdout.toString()).linkedFiles });
    }
  }
  await load.end();
  // What is taken away from now on is not taken from the backups.
  await broker.compact();
  await broker.close();
  const logger = new TestLogger();
  for (const [i, { target, before, linked }] of made.entries()) {
    expect(linked).toBeGreaterThan(0);
    const copy = join(root, `restored-${i}`);
    await copyDirectory(target, copy, { link: false });
    const restored = await start(`restored-${i}`, other, logger);
    expect(await faultsOf(restored, load, before)).toEqual([]);
    await restored.close();
  }
  const troubles = logger.lines.filter(({ level }) => level === 'warn' || level === 'error');
  expect(troubles.map(({ message, fields }) => `${message} ${JSON.stringify(fields)}`)).toEqual([]);
});

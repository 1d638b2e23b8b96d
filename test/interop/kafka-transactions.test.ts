/** kafka-transactions against Apache Kafka and against this broker: the same outputs. It lists and describes, and finds a
 * transaction that hangs and aborts it. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Connection } from '../../src/client/connection.ts';
import { type ToolPeer, ToolPeers } from '../support/compare-tools.ts';
import { kafkaPort } from '../support/kafka-peer.ts';
import { type Producer, TransactionScript } from '../support/transaction-script.ts';

const HOUR_MS = 3_600_000;
const dir = mkdtempSync(join(tmpdir(), 'broadsheet-kafka-transactions-'));
let peers: ToolPeers;

/** The same transactions on one of the brokers. */
class World {
  readonly script: TransactionScript;
  readonly #connection: Connection;
  readonly producers = new Map<string, Producer>();

  private constructor(connection: Connection) {
    this.#connection = connection;
    this.script = new TransactionScript(connection);
  }

  static async create(peer: ToolPeer): Promise<World> {
    const [host, port] = peer.address.split(':');
    const world = new World(await Connection.connect({ host: host!, port: Number(port), timeoutMs: 60_000 }));
    const { script } = world;
    await script.topic('t', 2);
    await script.topic('done');
    await script.topic('empty');
    // Batches that nobody verifies, of transactions that the coordinator does not know to be open.
    for (const [id, index] of [
      ['hanging', 0],
      ['hanging too', 1],
    ] as const) {
      await script.produce(id, await world.init(id), ['t', index], 0, ['x'], { version: 11, ageMs: HOUR_MS });
    }
    await script.produce('open', await world.init('open'), ['t', 0], 0, ['y']);
    const both = await world.init('both');
    await script.produce('both', both, ['t', 0], 0, ['z']);
    await script.produce('both', both, ['t', 1], 0, ['z']);
    for (const [id, commit, end] of [
      ['committed', true, 2],
      ['aborted', false, 4],
    ] as const) {
      const producer = await world.init(id);
      await script.produce(id, producer, ['done', 0], 0, ['done']);
      await script.end(id, producer, commit);
      await script.read('done', 0, true, end);
    }
    await world.init('new');
    const plain = await script.init(null);
    await script.produce(null, plain, ['t', 0], 0, ['plain'], { transactional: false });
    return world;
  }

  async init(id: string): Promise<Producer> {
    await this.script.coordinator(id, 1);
    const producer = await this.script.init(id);
    this.producers.set(id, producer);
    return producer;
  }

  async end(id: string, commit: boolean): Promise<void> {
    await this.script.end(id, this.producers.get(id)!, commit);
  }

  close(): void {
    this.#connection.close();
  }
}

const worlds: World[] = [];

beforeAll(async () => {
  const config = { 'transaction.partition.verification.enable': 'false' };
  peers = await ToolPeers.start({ dir, kafkaPort: kafkaPort(), config });
  for (const peer of [peers.kafka, peers.ours]) worlds.push(await World.create(peer));
}, 300_000);
afterAll(async () => {
  for (const world of worlds) world.close();
  await peers?.close();
  rmSync(dir, { recursive: true, force: true });
});

/** Times, how long ago they were, and the widths of columns. */
function normalise(text: string): string {
  return text
    .replaceAll(/\b1\d{12}\b(?:[ \t]+\d+\b)?/g, '<time>')
    .replaceAll(/[ \t]+/g, ' ')
    .replaceAll(/ $/gm, '');
}

/** Differs where the numbers that a broker gave to producers do. */
const same = async (args: readonly string[]) => {
  const { kafka, ours } = await peers.compare('transactions', args, { normalise, sorted: true });
  expect(ours).toBe(kafka);
  return ours;
};

const cases = (all: readonly string[]) =>
  it.each(all.map((text) => [text]))('%s', async (text) => {
    await same(text === '' ? [] : text.split(' '));
  });

describe('kafka-transactions', () => {
  cases([
    '',
    'list',
    'list --transactional-id-pattern ^o.*',
    'list --transactional-id-pattern nobody',
    'list --transactional-id-pattern (',
    'list --transactional-id-pattern open|both',
    'list --duration-filter 3600000',
    'list --duration-filter 0',
    'list --duration-filter -1',
    'list --duration-filter x',
    'describe',
    'describe --transactional-id open',
    'describe --transactional-id both',
    'describe --transactional-id committed',
    'describe --transactional-id aborted',
    'describe --transactional-id hanging',
    'describe --transactional-id new',
    'describe --transactional-id nobody',
    'describe-producers',
    'describe-producers --topic t --partition 0',
    'describe-producers --topic t --partition 1',
    'describe-producers --topic t --partition 1 --broker-id 1',
    'describe-producers --topic done --partition 0',
    'describe-producers --topic empty --partition 0',
    'find-hanging',
    'find-hanging --broker-id 1',
    'find-hanging --topic t',
    'find-hanging --topic t --partition 0',
    'find-hanging --topic empty',
    'find-hanging --topic t --max-transaction-timeout 120',
    'find-hanging --broker-id 1 --partition 0',
    'abort',
    'abort --topic t --partition 0',
    'abort --topic t --partition 0 --start-offset 99',
    'abort --topic empty --partition 0 --start-offset 0',
    'abort --topic t --partition 1 --producer-id 1',
  ]);

  it('describe-producers of a broker that is not there', async () => {
    const impatient = join(dir, 'impatient.properties');
    writeFileSync(impatient, 'default.api.timeout.ms=3000\nrequest.timeout.ms=2000\n');
    const where = ['--topic', 't', '--partition', '1', '--broker-id', '7'];
    await same(['--command-config', impatient, 'describe-producers', ...where]);
  });

  it('aborts what hangs', async () => {
    expect(await same(['find-hanging', '--topic', 't'])).toMatch(/^t 0 /m);
    await same(['abort', '--topic', 't', '--partition', '0', '--start-offset', '0']);
    const [producer] = worlds.map(({ producers }) => producers.get('hanging too')!);
    const older = ['--producer-id', String(producer!.id), '--producer-epoch', String(producer!.epoch)];
    expect(worlds.map(({ producers }) => producers.get('hanging too'))).toEqual([producer, producer]);
    await same(['abort', '--topic', 't', '--partition', '1', ...older, '--coordinator-epoch', '0']);
    for (const where of [
      ['--topic', 't'],
      ['--broker-id', '1'],
    ])
      expect(await same(['find-hanging', ...where])).not.toMatch(/^t /m);
    for (const partition of ['0', '1'])
      await same(['describe-producers', '--topic', 't', '--partition', partition]);
  });

  it('forces an open transaction to end', async () => {
    await same(['forceTerminateTransaction', '--transactionalId', 'both']);
    await same(['forceTerminateTransaction', '--transactionalId', 'nobody']);
    await same(['describe', '--transactional-id', 'both']);
    for (const world of worlds) await world.end('both', true);
    for (const world of worlds) await world.end('open', true);
    await same(['list']);
    for (const world of worlds) {
      await world.script.read('t', 0, true, 7);
      await world.script.read('t', 1, true, 4);
    }
    const [kafka, ours] = worlds.map(({ script }) => script.lines);
    expect(ours).toEqual(kafka);
  });
});

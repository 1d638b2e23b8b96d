/** Producers and transactional ids that are not used for long, by a clock that the test moves: what is forgotten, what is not, and
 * that a client goes on with what Apache Kafka would have answered. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Connection } from '../../src/client/connection.ts';
import { type Producer, TransactionScript } from '../support/transaction-script.ts';
import { TestBroker } from './test-broker.ts';

const HOUR = 3_600_000;
const CONFIG = {
  'producer.id.expiration.ms': String(24 * HOUR),
  'producer.id.expiration.check.interval.ms': String(HOUR),
  'transactional.id.expiration.ms': String(48 * HOUR),
  'transaction.remove.expired.transaction.cleanup.interval.ms': String(HOUR),
  'transaction.max.timeout.ms': String(500 * HOUR),
  'transaction.state.log.num.partitions': '1',
  'log.cleaner.enable': 'false',
};

let broker: TestBroker;
let script: TransactionScript;

beforeEach(async () => {
  broker = await TestBroker.start(CONFIG);
  const peer = broker.transport.connect();
  const request: Connection['request'] = (call, body, { version } = {}) =>
    broker.ask(peer, call.key, version!, (writer) => call.write(writer, version!, body), call.read);
  script = new TransactionScript({ request });
  await script.topic('t');
});
afterEach(() => broker.close());

const last = () => script.lines.at(-1);

async function hours(count: number): Promise<void> {
  for (let hour = 0; hour < count; hour++) {
    broker.clock.advance(HOUR);
    await broker.settle();
  }
}

/** Produces by the broker's clock. */
function produce(id: string | null, producer: Producer, sequence: number, value: string): Promise<void> {
  const ageMs = Date.now() - broker.clock.now();
  return script.produce(id, producer, ['t', 0], sequence, [value], { transactional: id !== null, ageMs });
}

async function producers(): Promise<string> {
  await script.producers('t', 0);
  return /\[(.*)\]/.exec(last()!)![1]!;
}

describe('producer.id.expiration.ms', () => {
  it('forgets an idempotent producer, which goes on where it was', async () => {
    const p = await script.init(null);
    await produce(null, p, 0, 'a');
    await hours(23);
    expect(await producers()).toMatch(/^P0\/0 seq 0 /);
    await produce(null, p, 0, 'a');
    // Known, so it was a duplicate.
    expect(last()).toContain('NONE at 0');
    await produce(null, p, 1, 'b');
    await hours(26);
    expect(await producers()).toBe('');
    // A producer that is not known may begin anywhere (KIP-360): the client notices nothing.
    await produce(null, p, 2, 'c');
    expect(last()).toContain('NONE at 2');
    await produce(null, p, 2, 'c');
    expect(last()).toContain('NONE at 2');
    await produce(null, p, 9, 'x');
    expect(last()).toContain('OUT_OF_ORDER_SEQUENCE_NUMBER');
  });

  it('counts from the last batch', async () => {
    const p = await script.init(null);
    for (let sequence = 0; sequence < 4; sequence++) {
      await produce(null, p, sequence, 'x');
      await hours(20);
    }
    expect(await producers()).toMatch(/^P0\/0 seq 3 /);
    await hours(5);
    expect(await producers()).toBe('');
  });

  it('does not forget a producer whose transaction is open, and forgets it after the end', async () => {
    const p = await script.init('tx', { timeoutMs: 500 * HOUR });
    await produce('tx', p, 0, 'a');
    await hours(60);
    expect(await producers()).toMatch(/^P0\/0 seq 0 .* open 0$/);
    const next = await script.end('tx', p, true);
    expect(await producers()).toMatch(/^P0\/1 seq -1 /);
    await hours(26);
    expect(await producers()).toBe('');
    // The transactional id lives on, and so does its next transaction.
    await produce('tx', next, 0, 'b');
    expect(last()).toContain('NONE at 2');
    await script.end('tx', next, true);
    await script.read('t', 0, true);
    expect(last()).toContain('stable 4 high 4');
  });
});

describe('transactional.id.expiration.ms', () => {
  it('forgets an id, whose client hears so and goes on with a new producer id', async () => {
    const p = await script.init('tx');
    await produce('tx', p, 0, 'a');
    const next = await script.end('tx', p, true);
    await hours(47);
    await script.describe('tx');
    expect(last()).toContain('NONE CompleteCommit');
    await hours(3);
    await script.describe('tx');
    expect(last()).toContain('TRANSACTIONAL_ID_NOT_FOUND');
    await produce('tx', next, 0, 'lost');
    expect(last()).toContain('INVALID_PRODUCER_ID_MAPPING');
    await script.add('tx', next, [['t', 0]]);
    expect(last()).toContain('INVALID_PRODUCER_ID_MAPPING');
    await script.end('tx', next, true);
    expect(last()).toContain('INVALID_PRODUCER_ID_MAPPING');
    // With what it had (KIP-360) or without: a new producer id.
    const again = await script.init('tx', { expected: next });
    expect(last()).toContain('NONE P1/0');
    await produce('tx', again, 0, 'b');
    await script.end('tx', again, true);
    await script.read('t', 0, true);
    expect(last()).toMatch(/stable 4 high 4 aborted {2}\| 0 P0\/0 txn a .* 2 P1\/0 txn b/);
    expect(script.lines.join()).not.toContain('at 4');
  });

  it('keeps an id whose transaction is open until that has ended', async () => {
    const p = await script.init('tx', { timeoutMs: 500 * HOUR });
    await produce('tx', p, 0, 'a');
    await hours(60);
    await script.describe('tx');
    expect(last()).toContain('Ongoing');
    await script.end('tx', p, false);
    expect(last()).toContain('NONE P0/1');
    await hours(50);
    await script.describe('tx');
    expect(last()).toContain('TRANSACTIONAL_ID_NOT_FOUND');
  });
});

/** Transactions request by request under both protocols, by a clock that the test moves: what is answered and what readers see. The
 * answers are those of Apache Kafka 4.4. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Connection } from '../../src/client/connection.ts';
import { MemoryEngine } from '../support/memory-log.ts';
import { type Producer, TransactionScript } from '../support/transaction-script.ts';
import { TestBroker } from './test-broker.ts';

const CONFIG = { 'transaction.state.log.num.partitions': '1', 'offsets.topic.num.partitions': '1' };
const TIMEOUT_MS = 10_000;
/** Versions of requests by the protocol that they stand for, and what is said to who commits after the time is up. */
const PROTOCOLS = [
  { protocol: 'classic', produce: 11, end: 4, commitOffsets: 4, tooLate: 'PRODUCER_FENCED' },
  // The epoch is one less than that of the id, as in a repeated end, which however was no commit.
  {
    protocol: 'transaction.version 2',
    produce: 12,
    end: 5,
    commitOffsets: 5,
    tooLate: 'INVALID_TXN_STATE -1/-1',
  },
] as const;

let engine: MemoryEngine;
let broker: TestBroker;
let script: TransactionScript;

beforeEach(async () => {
  engine = new MemoryEngine();
  broker = await TestBroker.start(CONFIG, engine);
  connect();
  await script.topic('t');
});
afterEach(() => broker.close());

function connect(): void {
  const peer = broker.transport.connect();
  const request: Connection['request'] = (call, body, { version } = {}) =>
    broker.ask(peer, call.key, version!, (writer) => call.write(writer, version!, body), call.read);
  script = new TransactionScript({ request });
}

/** The last answers, without what was asked. */
const answers = (count: number) => script.lines.slice(-count).map((line) => line.replace(/.* -> /, ''));

/** Produces by the broker's clock. */
function produce(producer: Producer, sequence: number, value: string, version: number): Promise<void> {
  const ageMs = Date.now() - broker.clock.now();
  return script.produce('tx', producer, ['t', 0], sequence, [value], { version, ageMs });
}

describe.each(PROTOCOLS)('$protocol', ({ protocol, ...versions }) => {
  const classic = protocol === 'classic';

  /** Commits an offset of a group in the transaction. */
  async function commitOffset(producer: Producer, offset: number): Promise<void> {
    if (classic) await script.addOffsets('tx', producer, 'g');
    await script.commitOffsets('tx', producer, 'g', 't', offset, { version: versions.commitOffsets });
    expect(answers(1)).toEqual(['NONE']);
  }

  async function offsets(): Promise<string[]> {
    await script.offset('g', 't', false);
    await script.offset('g', 't', true);
    return answers(2);
  }

  it('shows offsets when their transaction was committed, and says that they are unstable until then', async () => {
    let p = await script.init('tx');
    await commitOffset(p, 5);
    expect(await offsets()).toEqual(["NONE -1 ''", "UNSTABLE_OFFSET_COMMIT -1 ''"]);
    p = await script.end('tx', p, true, { version: versions.end });
    await script.offset('g', 't', true, 5);
    expect(await offsets()).toEqual(["NONE 5 'm'", "NONE 5 'm'"]);
    await commitOffset(p, 50);
    expect(await offsets()).toEqual(["NONE 5 'm'", "UNSTABLE_OFFSET_COMMIT -1 ''"]);
    await script.end('tx', p, false, { version: versions.end });
    await script.offset('g', 't', true, 5);
    expect(await offsets()).toEqual(["NONE 5 'm'", "NONE 5 'm'"]);
  });

  it('lets readers pass a transaction as soon as its time is up, and its producer not go on in it', async () => {
    const p = await script.init('tx', { timeoutMs: TIMEOUT_MS });
    if (classic) await script.add('tx', p, [['t', 0]]);
    await produce(p, 0, 'late', versions.produce);
    broker.clock.advance(TIMEOUT_MS - 1);
    await broker.settle();
    await script.read('t', 0, true);
    expect(answers(1)).toEqual(['NONE stable 0 high 1 aborted  | ']);
    broker.clock.advance(1);
    await script.read('t', 0, true, 2);
    expect(answers(1)[0]).toMatch(
      /^NONE stable 2 high 2 aborted P0 from 0 \| 0 P0\/0 txn late \| 1 P0\/1 txn ABORT /,
    );
    await script.describe('tx', 'CompleteAbort');
    expect(answers(1)[0]).toContain('CompleteAbort P0/1');
    await script.end('tx', p, true, { version: versions.end });
    expect(answers(1)).toEqual([versions.tooLate]);
    await produce(p, 1, 'later', versions.produce);
    expect(answers(1)).toEqual(['INVALID_PRODUCER_EPOCH at -1']);
  });

  it('answers a repeated end as the first, and writes nothing more', async () => {
    for (const [round, commit] of [true, false].entries()) {
      const p = await script.init('tx');
      if (classic) await script.add('tx', p, [['t', 0]]);
      await produce(p, 0, 'x', versions.produce);
      await script.end('tx', p, commit, { version: versions.end });
      await script.describe('tx', commit ? 'CompleteCommit' : 'CompleteAbort');
      const [first, state] = answers(2);
      expect(first).toBe(classic ? 'NONE' : `NONE P0/${p.epoch + 1}`);
      for (let times = 0; times < 2; times++) {
        await script.end('tx', p, commit, { version: versions.end });
        expect(answers(1)).toEqual([first]);
      }
      await script.end('tx', p, !commit, { version: versions.end });
      expect(answers(1)[0]).toMatch(/^INVALID_TXN_STATE/);
      await script.describe('tx');
      expect(answers(1)).toEqual([state]);
      await script.read('t', 0, true);
      const end = 2 * (round + 1);
      expect(answers(1)[0]).toContain(`stable ${end} high ${end} `);
    }
  });
});

describe('offsets of two transactions', () => {
  it.each([
    ['the later one ends first', ['q', 'p']],
    ['the earlier one ends first', ['p', 'q']],
  ] as const)('are those written last, where %s, after a restart too', async (_, order) => {
    const producers = { p: await script.init('p'), q: await script.init('q') };
    for (const [id, offset] of [
      ['p', 50],
      ['q', 51],
    ] as const) {
      await script.addOffsets(id, producers[id], 'g');
      await script.commitOffsets(id, producers[id], 'g', 't', offset, { version: 4 });
    }
    for (const id of order) {
      await script.end(id, producers[id], true, { version: 4 });
      await script.describe(id, 'CompleteCommit');
    }
    await script.offset('g', 't', true);
    expect(answers(1)[0]).toMatch(/51/);
    await broker.close();
    broker = await TestBroker.start(CONFIG, engine);
    connect();
    await script.offset('g', 't', true);
    expect(answers(1)[0]).toMatch(/51/);
  });
});

it('has no internal topics that clients add', async () => {
  const p = await script.init('tx');
  await script.add('tx', p, [
    ['t', 0],
    ['__transaction_state', 0],
  ]);
  expect(script.lines.at(-1)).toMatch(
    /__transaction_state-0 TOPIC_AUTHORIZATION_FAILED, t-0 OPERATION_NOT_ATTEMPTED$/,
  );
});

describe('records of a transaction', () => {
  it.each([
    [9, 'INVALID_TXN_STATE'],
    [10, 'INVALID_TXN_STATE'],
    [11, 'TRANSACTION_ABORTABLE'],
  ])('are refused in a partition outside of it (Produce v%i)', async (version, code) => {
    const p = await script.init('tx');
    // None is open; then one is, of another partition; then it is over.
    await produce(p, 0, 'x', version);
    expect(answers(1)).toEqual([`${code} at -1`]);
    await script.topic('other');
    await script.add('tx', p, [['other', 0]]);
    await produce(p, 0, 'x', version);
    expect(answers(1)).toEqual([`${code} at -1`]);
    await script.add('tx', p, [['t', 0]]);
    await produce(p, 0, 'x', version);
    expect(answers(1)).toEqual(['NONE at 0']);
    await script.end('tx', p, true, { version: 4 });
    await script.describe('tx', 'CompleteCommit');
    await produce(p, 1, 'y', version);
    expect(answers(1)).toEqual([`${code} at -1`]);
    await script.read('t', 0, false);
    expect(answers(1)[0]).toMatch(/ high 2 aborted null \| 0 P0\/0 txn x \| 1 P0\/0 txn COMMIT /);
  });

  it('are refused after the end by transaction.version 2, under which producing adds their partition', async () => {
    const p = await script.init('tx');
    await produce(p, 0, 'x', 12);
    await script.describe('tx');
    expect(answers(1)[0]).toMatch(/ Ongoing P0\/0 .*\[t-0\]$/);
    const next = await script.end('tx', p, true);
    await produce(p, 1, 'of the one that ended', 12);
    await produce({ ...next, epoch: next.epoch + 1 }, 0, 'of none that began', 12);
    await produce({ ...next, id: next.id + 5000 }, 0, 'of no producer', 12);
    expect(answers(3)).toEqual([
      'INVALID_PRODUCER_EPOCH at -1',
      'INVALID_PRODUCER_EPOCH at -1',
      'INVALID_PRODUCER_ID_MAPPING at -1',
    ]);
    await script.describe('tx', 'CompleteCommit');
    expect(answers(1)[0]).toMatch(/ CompleteCommit P0\/1 .*\[\]$/);
    await script.read('t', 0, false);
    expect(answers(1)[0]).toMatch(/ high 2 aborted null \| 0 P0\/0 txn x \| 1 P0\/1 txn COMMIT /);
  });

  it('begin with sequence 0 under transaction.version 2, where nothing of their producer is known', async () => {
    const p = await script.init('tx');
    await produce(p, 1, 'the second', 12);
    expect(answers(1)).toEqual(['OUT_OF_ORDER_SEQUENCE_NUMBER at -1']);
    await produce(p, 0, 'the first', 12);
    await produce(p, 1, 'the second', 12);
    expect(answers(2)).toEqual(['NONE at 0', 'NONE at 1']);
    const next = await script.end('tx', p, true);
    await script.describe('tx', 'CompleteCommit');
    await produce(next, 2, 'not the first', 12);
    expect(answers(1)).toEqual(['OUT_OF_ORDER_SEQUENCE_NUMBER at -1']);
    await script.end('tx', next, false);
    await script.describe('tx', 'CompleteAbort');
  });

  it('begin anywhere in the classic protocol, as producers may be forgotten', async () => {
    const p = await script.init('tx');
    await script.add('tx', p, [['t', 0]]);
    await produce(p, 3, 'x', 11);
    expect(answers(1)).toEqual(['NONE at 0']);
  });
});

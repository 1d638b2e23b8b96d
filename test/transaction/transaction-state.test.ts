import { describe, expect, it } from 'vitest';
import { errorName } from '../../src/protocol/errors.ts';
import { readTransactionRecord, transactionRecord } from '../../src/transaction/transaction-records.ts';
import {
  addPartitions,
  complete,
  type Decision,
  endNeedsProducerId,
  endTransaction,
  fence,
  initNeedsProducerId,
  initProducer,
  newTransaction,
  type ProducerIdAndEpoch,
  statusName,
  type TransactionState,
  verifyPartition,
} from '../../src/transaction/transaction-state.ts';

const NOW = 1_700_000_000_000;
const NEW_ID = 77;

/** What became of a request: the code, or the next state in short. */
function said({ code, next }: Decision): string {
  return next === undefined ? errorName(code) : shown(next);
}

function shown({ status, producerId, producerEpoch, nextProducerId }: TransactionState): string {
  const next = nextProducerId < 0 ? '' : ` then ${nextProducerId}`;
  return `${statusName(status)} ${producerId}/${producerEpoch}${next}`;
}

function taken({ code, next }: Decision): TransactionState {
  if (next === undefined) throw new Error(`refused: ${errorName(code)}`);
  return next;
}

const producer = (state: TransactionState): ProducerIdAndEpoch => ({
  producerId: state.producerId,
  producerEpoch: state.producerEpoch,
});

function init(state: TransactionState, expected?: ProducerIdAndEpoch): Decision {
  return initProducer(state, { timeoutMs: 1000, expected }, NEW_ID, NOW);
}

const fresh = () => newTransaction('tx', 5, 1000, NOW);
const empty = () => taken(init(fresh()));
const add = (state: TransactionState, clientVersion = 2, place: readonly [string, number] = ['t', 0]) =>
  addPartitions(state, producer(state), [place], clientVersion, NOW);
const ongoing = (clientVersion = 2) => taken(add(empty(), clientVersion));

function end(
  state: TransactionState,
  commit: boolean,
  clientVersion: number,
  as: ProducerIdAndEpoch = producer(state),
): Decision {
  return endTransaction(state, { ...as, commit, clientVersion }, NEW_ID, NOW);
}

const at = (state: TransactionState, producerEpoch: number): TransactionState => ({
  ...state,
  producerEpoch,
});

describe('InitProducerId', () => {
  it('begins with epoch 0, and bumps it for whoever comes', () => {
    expect(shown(empty())).toBe('Empty 5/0');
    expect(said(init(empty()))).toBe('Empty 5/1');
    expect(said(init(complete(taken(end(ongoing(0), true, 0)), NOW)))).toBe('Empty 5/1');
  });

  it('takes a new producer id when the epochs are used up', () => {
    const last = at(empty(), 32766);
    expect(initNeedsProducerId(last, { timeoutMs: 1, expected: undefined })).toBe(true);
    expect(said(init(last))).toBe('Empty 77/0');
    const rotated = taken(init(last, producer(last)));
    expect([shown(rotated), rotated.previousProducerId, rotated.lastProducerEpoch]).toEqual([
      'Empty 77/0',
      5,
      32766,
    ]);
    // The answer was lost, and the client asks again with what it has.
    expect(said(init(rotated, producer(last)))).toBe('Empty 77/0');
    expect(initNeedsProducerId(at(empty(), 32765), { timeoutMs: 1, expected: undefined })).toBe(false);
  });

  it('bumps the epoch of a client that goes on, once however often it asks, and fences others', () => {
    const before = empty();
    const bumped = taken(init(before, producer(before)));
    expect(shown(bumped)).toBe('Empty 5/1');
    expect(said(init(bumped, producer(before)))).toBe('Empty 5/1');
    expect(said(init(bumped, { producerId: 6, producerEpoch: 1 }))).toBe('PRODUCER_FENCED');
    const taker = taken(init(bumped));
    expect(said(init(taker, producer(before)))).toBe('PRODUCER_FENCED');
    expect(said(init(taker, producer(bumped)))).toBe('PRODUCER_FENCED');
  });

  it('waits for a transaction that is open or ends', () => {
    expect(said(init(ongoing()))).toBe('CONCURRENT_TRANSACTIONS');
    expect(said(init(taken(end(ongoing(), true, 2))))).toBe('CONCURRENT_TRANSACTIONS');
  });
});

describe('partitions', () => {
  it('begin a transaction and are added to it', () => {
    const first = ongoing();
    expect(shown(first)).toBe('Ongoing 5/0');
    const both = taken(
      addPartitions(
        first,
        producer(first),
        [
          ['t', 0],
          ['u', 3],
        ],
        2,
        NOW + 5,
      ),
    );
    expect([...both.partitions].map(([topic, ids]) => `${topic} ${[...ids]}`)).toEqual(['t 0', 'u 3']);
    expect(both.startTimestamp).toBe(NOW);
    expect(said(add(both))).toBe('NONE');
    const again = taken(add(complete(taken(end(both, false, 2)), NOW), 2, ['v', 1]));
    expect([...again.partitions.keys()]).toEqual(['v']);
  });

  it('are for the producer of now alone', () => {
    const state = ongoing();
    const code = (as: ProducerIdAndEpoch) => said(addPartitions(state, as, [['t', 9]], 2, NOW));
    expect(code({ producerId: 6, producerEpoch: 0 })).toBe('INVALID_PRODUCER_ID_MAPPING');
    expect(code({ producerId: 5, producerEpoch: 1 })).toBe('PRODUCER_FENCED');
    const ending = taken(end(state, true, 2));
    expect(said(add(ending))).toBe('CONCURRENT_TRANSACTIONS');
  });

  it('are verified', () => {
    const state = ongoing();
    const code = (of: TransactionState, topic: string) =>
      errorName(verifyPartition(of, producer(of), topic, 0));
    expect([code(state, 't'), code(state, 'u'), code(empty(), 't')]).toEqual([
      'NONE',
      'TRANSACTION_ABORTABLE',
      'TRANSACTION_ABORTABLE',
    ]);
    expect(code(taken(end(state, true, 0)), 't')).toBe('CONCURRENT_TRANSACTIONS');
    expect(code(complete(taken(end(state, true, 0)), NOW), 't')).toBe('TRANSACTION_ABORTABLE');
  });
});

describe('the end, classic', () => {
  it('keeps the epoch, and can be asked for again', () => {
    const prepared = taken(end(ongoing(0), true, 0));
    expect(shown(prepared)).toBe('PrepareCommit 5/0');
    expect(said(end(prepared, true, 0))).toBe('CONCURRENT_TRANSACTIONS');
    expect(said(end(prepared, false, 0))).toBe('INVALID_TXN_STATE');
    const completed = complete(prepared, NOW);
    expect(shown(completed)).toBe('CompleteCommit 5/0');
    expect(said(end(completed, true, 0))).toBe('NONE');
    expect(said(end(completed, false, 0))).toBe('INVALID_TXN_STATE');
    const aborted = complete(taken(end(ongoing(0), false, 0)), NOW);
    expect(shown(aborted)).toBe('CompleteAbort 5/0');
    expect(said(end(aborted, false, 0))).toBe('NONE');
    expect(said(end(aborted, true, 0))).toBe('INVALID_TXN_STATE');
  });

  it('is refused without a transaction, and to others', () => {
    expect(said(end(empty(), true, 0))).toBe('INVALID_TXN_STATE');
    expect(said(end(empty(), false, 0))).toBe('INVALID_TXN_STATE');
    expect(said(end(ongoing(0), true, 0, { producerId: 6, producerEpoch: 0 }))).toBe(
      'INVALID_PRODUCER_ID_MAPPING',
    );
    expect(said(end(ongoing(0), true, 0, { producerId: 5, producerEpoch: 1 }))).toBe('PRODUCER_FENCED');
  });
});

describe('the end, transaction.version 2', () => {
  it('bumps the epoch, and knows a repetition by the one before', () => {
    const open = ongoing();
    const prepared = taken(end(open, true, 2));
    expect(shown(prepared)).toBe('PrepareCommit 5/1');
    expect(said(end(prepared, true, 2, producer(open)))).toBe('CONCURRENT_TRANSACTIONS');
    expect(said(end(prepared, false, 2, producer(open)))).toBe('INVALID_TXN_STATE');
    expect(said(end(prepared, true, 2))).toBe('PRODUCER_FENCED');
    const completed = complete(prepared, NOW);
    expect(said(end(completed, true, 2, producer(open)))).toBe('NONE');
    expect(said(end(completed, false, 2, producer(open)))).toBe('INVALID_TXN_STATE');
    expect(said(end(completed, true, 2))).toBe('INVALID_TXN_STATE');
    expect(said(end(completed, true, 2, { producerId: 5, producerEpoch: 2 }))).toBe('PRODUCER_FENCED');
  });

  it('can abort a transaction in which nothing was produced, and not commit it', () => {
    expect(said(end(empty(), true, 2))).toBe('INVALID_TXN_STATE');
    const aborted = complete(taken(end(empty(), false, 2)), NOW);
    expect(shown(aborted)).toBe('CompleteAbort 5/1');
    expect(said(end(aborted, false, 2))).toBe('PrepareAbort 5/2');
    const committed = complete(taken(end(ongoing(), true, 2)), NOW);
    expect(said(end(committed, false, 2))).toBe('PrepareAbort 5/2');
  });

  it('goes on with a new producer id when the epochs are used up', () => {
    const last = at(ongoing(), 32766);
    expect(endNeedsProducerId(last, 2)).toBe(true);
    expect(endNeedsProducerId(last, 0)).toBe(false);
    const prepared = taken(end(last, true, 2));
    expect(shown(prepared)).toBe('PrepareCommit 5/32767 then 77');
    const completed = complete(prepared, NOW);
    expect([shown(completed), completed.previousProducerId]).toEqual(['CompleteCommit 77/0', 5]);
    expect(said(end(completed, true, 2, producer(last)))).toBe('NONE');
    expect(said(end(completed, true, 2, { producerId: 5, producerEpoch: 3 }))).toBe(
      'INVALID_PRODUCER_ID_MAPPING',
    );
  });
});

it('an end without the client fences it', () => {
  const fenced = fence(ongoing(), 2, -1, NOW);
  expect(shown(fenced)).toBe('PrepareAbort 5/1');
  expect([...fenced.partitions.keys()]).toEqual(['t']);
  const old = { producerId: 5, producerEpoch: 0 };
  expect(said(end(complete(fenced, NOW), true, 0, old))).toBe('PRODUCER_FENCED');
  expect(said(init(complete(fenced, NOW), old))).toBe('Empty 5/1');
  expect(said(init(complete(fence(ongoing(0), 0, -1, NOW), NOW), old))).toBe('PRODUCER_FENCED');
});

describe('a fence at the last epoch of a producer id', () => {
  const last = at(ongoing(), 32766);
  const old = producer(last);

  it('gives the id another one, with which the client may go on once', () => {
    const fenced = fence(last, 2, NEW_ID, NOW);
    expect(shown(fenced)).toBe('PrepareAbort 5/32767 then 77');
    const rested = complete(fenced, NOW);
    expect([shown(rested), rested.previousProducerId]).toEqual(['CompleteAbort 77/0', 5]);
    expect(said(end(rested, true, 0, old))).toBe('INVALID_PRODUCER_ID_MAPPING');
    expect(said(end(rested, false, 2, { ...old, producerEpoch: 32767 }))).toBe('INVALID_PRODUCER_ID_MAPPING');
    expect(said(init(rested))).toBe('Empty 77/1');
    const next = taken(init(rested, old));
    expect(shown(next)).toBe('Empty 77/0');
    expect(said(init(next, old))).toBe('PRODUCER_FENCED');
  });

  it('needs none before transaction.version 2: InitProducerId takes it', () => {
    expect(endNeedsProducerId(last, 1)).toBe(false);
    const rested = complete(fence(last, 1, -1, NOW), NOW);
    expect([shown(rested), said(init(rested))]).toEqual(['CompleteAbort 5/32767', 'Empty 77/0']);
    expect(said(init(rested, old))).toBe('PRODUCER_FENCED');
  });

  it.each([
    ['fenced', (state: TransactionState) => fence(state, 2, NEW_ID, NOW)],
    ['ended', (state: TransactionState) => taken(end(state, true, 2))],
  ])('never makes an epoch above 32767, also where a client has that and is %s', (_, close) => {
    const closed = close(at(ongoing(), 32767));
    // A marker of transaction.version 2 would have to have a higher one.
    expect([closed.producerEpoch, closed.nextProducerId, closed.clientVersion]).toEqual([32767, NEW_ID, 1]);
    expect(shown(complete(closed, NOW))).toMatch(/ 77\/0$/);
  });

  it.each([32767, -32768, -32767, -1])('is made good where the log has epoch %i', (epoch) => {
    const read = (state: TransactionState) => {
      const { key, value } = transactionRecord(at(state, epoch), 1);
      return readTransactionRecord(key!, value)!.state!;
    };
    for (const rested of [empty(), complete(taken(end(ongoing(), true, 2)), NOW)]) {
      expect(initNeedsProducerId(read(rested), { timeoutMs: 1, expected: undefined })).toBe(true);
      expect(said(init(read(rested)))).toBe('Empty 77/0');
      expect(said(init(read(rested), producer(read(rested))))).toBe('Empty 77/0');
      expect(said(init(read(rested), old))).toBe('PRODUCER_FENCED');
    }
    expect(shown(fence(read(ongoing()), 2, NEW_ID, NOW))).toBe('PrepareAbort 5/32767 then 77');
    const completed = complete(read(taken(end(ongoing(), true, 2))), NOW);
    expect([shown(completed), said(init(completed))]).toEqual(['CompleteCommit 5/32767', 'Empty 77/0']);
  });

  it('crashes rather than that an epoch runs over', () => {
    for (const epoch of [-32768, 32768])
      expect(() => fence(at(ongoing(), epoch), 1, -1, NOW)).toThrow(/^tx came to epoch/);
    expect(() => init(at(empty(), -32768))).toThrow(/^tx came to epoch/);
    expect(() => complete(at(taken(end(ongoing(), true, 2)), -1), NOW)).toThrow(
      'tx came to epoch -1 of producer 5',
    );
  });
});

describe('records', () => {
  it('hold a state', () => {
    for (const state of [
      empty(),
      ongoing(),
      taken(end(at(ongoing(), 32766), false, 2)),
      complete(fence(ongoing(), 0, -1, NOW), NOW),
    ]) {
      const { key, value } = transactionRecord(state, 1);
      const read = readTransactionRecord(key!, value)?.state;
      expect(read).toEqual({ ...state, lastProducerEpoch: -1 });
      const older = transactionRecord(state, 0);
      expect(readTransactionRecord(older.key!, older.value)?.state).toMatchObject({
        producerId: 5,
        clientVersion: 0,
      });
    }
  });

  it('are those of Apache Kafka 4.4', () => {
    const state = { ...ongoing(), producerId: 10, previousProducerId: 10, timeoutMs: 900_000 };
    const { key, value } = transactionRecord(
      { ...state, transactionalId: 'tx-one', partitions: new Map([['txn', new Set([0])]]) },
      1,
    );
    expect(Buffer.from(key!).toString('hex')).toBe('0000000674782d6f6e65');
    expect(Buffer.from(value!).readInt16BE(0)).toBe(1);
  });

  it('of unknown kinds are none', () => {
    expect(readTransactionRecord(Uint8Array.of(0, 7, 0, 1, 97), null)).toBeUndefined();
    expect(readTransactionRecord(Uint8Array.of(0, 0, 0, 1, 97), Uint8Array.of(0, 9))).toBeUndefined();
    expect(readTransactionRecord(Uint8Array.of(0, 0, 0, 1, 97), null)).toEqual({
      transactionalId: 'a',
      state: undefined,
    });
  });
});

import { describe, expect, it } from 'vitest';
import {
  decrementSequence,
  incrementSequence,
  type ProducedBatch,
  ProducerState,
} from '../../src/log/producer-state.ts';

const MAX = 2 ** 31 - 1;

function batch(
  producerId: number,
  producerEpoch: number,
  baseSequence: number,
  recordCount = 1,
  rest: Partial<ProducedBatch> = {},
): ProducedBatch {
  return { producerId, producerEpoch, baseSequence, recordCount, maxTimestamp: 1000, attributes: 0, ...rest };
}

/** Appends at the end and answers like a broker: the offset, or why not. */
class Harness {
  readonly state = new ProducerState();
  end = 0;

  produce(...args: Parameters<typeof batch>): string {
    const sent = batch(...args);
    const verdict = this.state.judge(sent);
    if (verdict?.kind === 'duplicate') return `dup ${verdict.batch.lastOffset - verdict.batch.offsetDelta}`;
    if (verdict !== undefined) return verdict.kind;
    const base = this.end;
    this.end += sent.recordCount;
    this.state.append(sent, base, this.end - 1);
    return `ok ${base}`;
  }
}

describe('sequence arithmetic', () => {
  it('wraps from 2^31-1 to 0', () => {
    expect(incrementSequence(MAX, 1)).toBe(0);
    expect(incrementSequence(MAX - 1, 2)).toBe(0);
    expect(decrementSequence(0, 1)).toBe(MAX);
    expect(decrementSequence(incrementSequence(MAX - 3, 10), 10)).toBe(MAX - 3);
  });
});

// The answers were observed on Apache Kafka 4.4.0.
describe('ProducerState judges as Kafka does', () => {
  it('lets an unknown producer begin anywhere, then holds it to its sequence', () => {
    const h = new Harness();
    expect(h.produce(5000, 0, 5)).toBe('ok 0');
    expect(h.produce(5000, 0, 6)).toBe('ok 1');
    expect(h.produce(5000, 0, 8)).toBe('out-of-order');
    expect(h.produce(5000, 0, 5)).toBe('dup 0');
    expect(h.produce(5000, 0, 6)).toBe('dup 1');
  });

  it('wants a new epoch to begin at 0 and refuses an old one', () => {
    const h = new Harness();
    h.produce(5000, 0, 5);
    expect(h.produce(5000, 1, 3)).toBe('out-of-order');
    expect(h.produce(5000, 1, 0)).toBe('ok 1');
    expect(h.produce(5000, 0, 6)).toBe('stale-epoch');
    expect(h.produce(5000, 0, 5)).toBe('stale-epoch');
  });

  it('wraps within a batch and between batches', () => {
    const h = new Harness();
    expect(h.produce(5001, 0, MAX - 1, 3)).toBe('ok 0');
    expect(h.produce(5001, 0, 1)).toBe('ok 3');
    expect(h.produce(5001, 0, MAX - 1, 3)).toBe('dup 0');
    expect(h.produce(5007, 0, MAX)).toBe('ok 4');
    expect(h.produce(5007, 0, 0)).toBe('ok 5');
  });

  it('remembers five batches', () => {
    const h = new Harness();
    for (let i = 0; i < 7; i++) h.produce(5002, 0, i);
    expect(h.produce(5002, 0, 1)).toBe('out-of-order');
    expect(h.produce(5002, 0, 2)).toBe('dup 2');
    expect(h.produce(5002, 0, 6)).toBe('dup 6');
  });

  it('takes only the same range for a duplicate', () => {
    const h = new Harness();
    h.produce(5003, 0, 0, 3);
    expect(h.produce(5003, 0, 0, 1)).toBe('out-of-order');
    expect(h.produce(5003, 0, 2, 1)).toBe('out-of-order');
    expect(h.produce(5003, 0, 1, 2)).toBe('out-of-order');
    expect(h.produce(5003, 0, 0, 3)).toBe('dup 0');
  });

  it('accepts any sequence after epoch -1', () => {
    const h = new Harness();
    expect(h.produce(5006, -1, 0)).toBe('ok 0');
    expect(h.produce(5006, -1, 7)).toBe('ok 1');
    expect(h.produce(5006, 0, 3)).toBe('ok 2');
  });
});

describe('transactions of a producer', () => {
  it('hold the stable offset until their marker', () => {
    const state = new ProducerState();
    state.append(batch(1, 0, 0, 2, { attributes: 0x10 }), 10, 11);
    state.append(batch(2, 0, 0, 1, { attributes: 0x10 }), 12, 12);
    state.append(batch(1, 0, 2, 1, { attributes: 0x10 }), 13, 13);
    expect(state.firstOpenOffset).toBe(10);
    expect(state.judge(batch(1, 0, 3))?.kind).toBe('invalid-txn-state');
    state.endTransaction(1, 1, 2000, 7);
    expect(state.firstOpenOffset).toBe(12);
    expect(state.get(1)).toEqual({
      producerId: 1,
      epoch: 1,
      batches: [],
      lastTimestamp: 2000,
      coordinatorEpoch: 7,
      currentTxnFirstOffset: -1,
    });
    expect(state.judge(batch(1, 1, 4))?.kind).toBe('out-of-order');
    expect(state.judge(batch(1, 1, 0))).toBeUndefined();
    state.endTransaction(2, 0, 2000, 7);
    expect(state.firstOpenOffset).toBe(Number.POSITIVE_INFINITY);
    expect(state.get(2)?.batches).toHaveLength(1);
  });

  it('take a marker again where nothing is open, and none of transaction.version 2 that has the epoch of what is', () => {
    const state = new ProducerState();
    const judged = (producerEpoch: number, transactionVersion: number, coordinatorEpoch = 5) =>
      state.judgeMarker({ producerId: 1, producerEpoch, commit: true, coordinatorEpoch, transactionVersion })
        ?.kind;
    state.append(batch(1, 0, 0, 1, { attributes: 0x10 }), 0, 0);
    expect([judged(0, 2), judged(0, 1), judged(1, 2)]).toEqual(['stale-epoch', undefined, undefined]);
    state.endTransaction(1, 1, 2000, 5);
    expect([judged(1, 2), judged(1, 1), judged(0, 2), judged(0, 1)]).toEqual([
      undefined,
      undefined,
      'stale-epoch',
      'stale-epoch',
    ]);
    expect(judged(1, 2, 4)).toBe('stale-coordinator');
    // It came late: the next transaction has its epoch.
    state.append(batch(1, 1, 0, 1, { attributes: 0x10 }), 2, 2);
    expect(judged(1, 2)).toBe('stale-epoch');
  });

  it('restore() puts back the entry and its open transaction', () => {
    const state = new ProducerState();
    state.append(batch(1, 0, 0, 1, { attributes: 0x10 }), 5, 5);
    const previous = state.endTransaction(1, 0, 0, 0);
    state.restore(1, previous);
    expect(state.firstOpenOffset).toBe(5);
    state.restore(1, undefined);
    expect(state.size).toBe(0);
    expect(state.firstOpenOffset).toBe(Number.POSITIVE_INFINITY);
  });
});

describe('expiry', () => {
  it('counts from the last timestamp and spares open transactions', () => {
    const state = new ProducerState();
    state.append(batch(1, 0, 0, 1, { maxTimestamp: 100 }), 0, 0);
    state.append(batch(2, 0, 0, 1, { maxTimestamp: 101 }), 1, 1);
    state.append(batch(3, 0, 0, 1, { maxTimestamp: 0, attributes: 0x10 }), 2, 2);
    expect(state.expire(1100, 1000)).toBe(1);
    expect([...state.entries()].map((entry) => entry.producerId)).toEqual([2, 3]);
  });
});

/** Small, fast, seeded: mulberry32. */
function random(seed: number): () => number {
  return () => {
    seed = (seed + 0x6d2b79f5) | 0;
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

interface Attempt {
  readonly id: number;
  readonly epoch: number;
  readonly sequence: number;
  readonly count: number;
}

/**
 * Keeps every accepted batch for ever and derives each answer from that history, with sequences as unbounded positions:
 * it shares no arithmetic with the implementation.
 */
class Oracle {
  readonly history = new Map<number, { epoch: number; start: number; count: number; offset: number }[]>();

  answer({ id, epoch, sequence, count }: Attempt, end: number): string {
    const history = this.history.get(id) ?? [];
    const last = history[history.length - 1];
    if (last !== undefined) {
      const remembered = history.filter((b) => b.epoch === last.epoch).slice(-5);
      const duplicate = remembered.find((b) => b.start % 2 ** 31 === sequence && b.count === count);
      if (epoch === last.epoch && duplicate !== undefined) return `dup ${duplicate.offset}`;
      if (epoch < last.epoch) return 'stale-epoch';
      const expected = epoch === last.epoch ? (last.start + last.count) % 2 ** 31 : 0;
      if (sequence !== expected) return 'out-of-order';
    }
    const start = last !== undefined && epoch === last.epoch ? last.start + last.count : sequence;
    history.push({ epoch, start, count, offset: end });
    this.history.set(id, history);
    return `ok ${end}`;
  }

  /** What a failed write leaves: everything from an offset on never was. */
  cut(end: number): void {
    for (const [id, history] of this.history) {
      const kept = history.filter((b) => b.offset < end);
      if (kept.length === 0) this.history.delete(id);
      else this.history.set(id, kept);
    }
  }
}

describe('ProducerState against an oracle', () => {
  it.each([1, 2, 3, 4, 5, 6, 7, 8])(
    'agrees on random produces, retries and failed writes (seed %i)',
    (seed) => {
      const next = random(seed);
      const pick = (n: number) => Math.floor(next() * n);
      const h = new Harness();
      const oracle = new Oracle();
      const sent: Attempt[] = [];
      const seen = new Map<string, number>();
      for (let step = 0; step < 4000; step++) {
        const id = pick(4);
        const entry = h.state.get(id);
        const last = entry?.batches[entry.batches.length - 1];
        const kind = pick(10);
        let attempt: Attempt;
        if (kind < 2 && sent.length > 0) {
          attempt = sent[Math.max(0, sent.length - 1 - pick(12))]!;
        } else if (kind < 8 && entry !== undefined && last !== undefined) {
          const sequence = (last.lastSequence + 1) % 2 ** 31;
          attempt = { id, epoch: entry.epoch, sequence, count: 1 + pick(3) };
        } else {
          const near = [0, 1, MAX - 1, MAX, ((last?.lastSequence ?? 0) + 2) % 2 ** 31];
          attempt = {
            id,
            epoch: Math.max(0, (entry?.epoch ?? 0) + pick(3) - 1),
            sequence: near[pick(near.length)]!,
            count: 1 + pick(4),
          };
        }
        sent.push(attempt);
        const before = { end: h.end, entry: h.state.get(attempt.id) };
        const expected = oracle.answer(attempt, h.end);
        const answer = h.produce(attempt.id, attempt.epoch, attempt.sequence, attempt.count);
        expect(answer, `step ${step}: ${JSON.stringify(attempt)}`).toBe(expected);
        const verdict = answer.split(' ')[0]!;
        seen.set(verdict, (seen.get(verdict) ?? 0) + 1);
        if (verdict === 'ok' && pick(20) === 0) {
          h.state.restore(attempt.id, before.entry);
          h.end = before.end;
          oracle.cut(before.end);
        }
      }
      for (const kind of ['ok', 'dup', 'out-of-order', 'stale-epoch'])
        expect(seen.get(kind)).toBeGreaterThan(10);
    },
  );
});

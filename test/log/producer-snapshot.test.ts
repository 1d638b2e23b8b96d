import { describe, expect, it } from 'vitest';
import {
  decodeSnapshot,
  encodeSnapshot,
  loadProducerState,
  ProducerSnapshots,
  snapshotName,
  snapshotOffset,
} from '../../src/log/producer-snapshot.ts';
import { ProducerState } from '../../src/log/producer-state.ts';
import { parseMarker } from '../../src/log/transaction-marker.ts';
import { silentLogger } from '../../src/runtime/logging.ts';
import { rawBatch } from '../support/batches.ts';
import { MemoryEngine } from '../support/memory-log.ts';

const hex = (text: string) => Uint8Array.from(Buffer.from(text, 'hex'));

/** Written by Apache Kafka 4.4: a partition's first segment (offsets 0-5, two producers, one of them with an open
 * transaction), the snapshot with which its second one began, and the abort marker at offset 6. */
const KAFKA_SEGMENT = hex(
  [
    '00000000000000000000004600000000025995fce200100000000000000199c82cc00100000199c82cc0010000000000',
    '00000a00000000000000000001280000000a6f6e652d301261626f727465642031000000000000000001000000460000',
    '000002d5402eac00100000000000000199c82cc00300000199c82cc003000000000000000a0000000000010000000128',
    '0000000a6f6e652d301261626f72746564203300000000000000000200000046000000000245d22e8f00100000000000',
    '000199c82cc00500000199c82cc005000000000000000a00000000000200000001280000000a6f6e652d301261626f72',
    '74656420350000000000000000030000004e0000000002c4eec41600000000000000000199c82cc00500000199c82cc0',
    '05000000000000000c00000000000000000001380000000c6e6f6e652d30206e6f207472616e73616374696f6e203500',
    '0000000000000004000000460000000002c907fcc100100000000000000199c82cc00700000199c82cc0070000000000',
    '00000a00000000000300000001280000000a6f6e652d301261626f727465642037000000000000000005000000460000',
    '000002611a583800100000000000000199c82cc00900000199c82cc009000000000000000a0000000000040000000128',
    '0000000a6f6e652d301261626f72746564203900',
  ].join(''),
);
const KAFKA_SNAPSHOT = hex(
  [
    '0001362919a900000002000000000000000a00000000000400000000000000050000000000000199c82cc009ffffffff',
    '0000000000000000000000000000000c00000000000000000000000000030000000000000199c82cc005ffffffffffff',
    'ffffffffffff',
  ].join(''),
);
const KAFKA_MARKER = hex(
  [
    '000000000000000600000042000000000295f28317003000000000000001a233cc72f5000001a233cc72f50000000000',
    '00000a0001ffffffff000000012000000008000000000c00000000000000',
  ].join(''),
);
/** As of offset 144 of another partition: producers whose last transaction ended, with the next epoch. */
const KAFKA_ENDED = hex(
  [
    '00012e48b3e500000003000000000000000a000cffffffffffffffffffffffff00000000000001a233cc7d6f00000000',
    'ffffffffffffffff000000000000000b000cffffffffffffffffffffffff00000000000001a233cc7d7e00000000ffff',
    'ffffffffffff000000000000000c00000000000b00000000000000860000000000000199c82ceaf8ffffffffffffffff',
    'ffffffff',
  ].join(''),
);

const openOptions = {
  segmentBytes: 1 << 20,
  segmentMs: 1e12,
  indexBytes: 1024,
  indexIntervalBytes: 4096,
  logStartOffset: 0,
  recoveryPoint: 0,
  cleanShutdown: true,
  now: 0,
};
const never = { now: 0, expirationMs: 1e15 };

describe('snapshot bytes', () => {
  it('are those of Kafka', () => {
    expect(Buffer.from(encodeSnapshot(new ProducerState())).toString('hex')).toBe('000148674bc700000000');
    for (const bytes of [KAFKA_SNAPSHOT, KAFKA_ENDED]) {
      const state = new ProducerState(decodeSnapshot(bytes));
      expect(Buffer.from(encodeSnapshot(state)).toString('hex')).toBe(Buffer.from(bytes).toString('hex'));
    }
    expect(decodeSnapshot(KAFKA_ENDED)[0]).toEqual({
      producerId: 10,
      epoch: 12,
      batches: [],
      lastTimestamp: 1796165369199,
      coordinatorEpoch: 0,
      currentTxnFirstOffset: -1,
    });
  });

  it('are refused when any bit of them is wrong', () => {
    for (let bit = 0; bit < KAFKA_SNAPSHOT.length * 8; bit++) {
      const bad = Uint8Array.from(KAFKA_SNAPSHOT);
      bad[bit >> 3]! ^= 1 << (bit & 7);
      expect(() => decodeSnapshot(bad), `bit ${bit}`).toThrow(/./);
    }
    for (let length = 0; length < KAFKA_SNAPSHOT.length; length++) {
      expect(() => decodeSnapshot(KAFKA_SNAPSHOT.subarray(0, length)), `length ${length}`).toThrow(/./);
    }
    expect(() => decodeSnapshot(new Uint8Array([...KAFKA_SNAPSHOT, 0]))).toThrow(/./);
  });
});

describe('snapshot names', () => {
  it('hold the offset in 20 digits', () => {
    expect(snapshotName(144)).toBe('00000000000000000144.snapshot');
    expect(snapshotOffset('00000000000000000144.snapshot')).toBe(144);
    for (const name of [
      '144.snapshot',
      '00000000000000000144.snapshot.deleted',
      '99999999999999999999.snapshot',
    ])
      expect(snapshotOffset(name)).toBeUndefined();
  });
});

describe('parseMarker', () => {
  it('reads the marker that Kafka wrote', () => {
    expect(parseMarker(KAFKA_MARKER)).toEqual({ commit: false, coordinatorEpoch: 0 });
  });

  it('gives nothing for what is no marker, however short', () => {
    for (let length = 61; length < KAFKA_MARKER.length - 1; length++)
      expect(parseMarker(KAFKA_MARKER.subarray(0, length))).toBeUndefined();
    expect(parseMarker(rawBatch({ payload: new Uint8Array(40).fill(0xff) }))).toBeUndefined();
  });
});

describe('loadProducerState', () => {
  it('rebuilds from the log what Kafka kept in its snapshot', async () => {
    const engine = new MemoryEngine();
    engine.preload('/d/txn-1', new Map([[0, KAFKA_SEGMENT]]));
    const log = await engine.open('/d/txn-1', openOptions);
    expect(log.logEndOffset).toBe(6);
    const state = await loadProducerState(log, new ProducerSnapshots(engine.files, silentLogger), never);
    expect(state.firstOpenOffset).toBe(0);
    expect(decodeSnapshot(encodeSnapshot(state))).toEqual(decodeSnapshot(KAFKA_SNAPSHOT));
  });

  it('applies the markers after a snapshot', async () => {
    const engine = new MemoryEngine();
    engine.preload(
      '/d/txn-1',
      new Map([
        [0, KAFKA_SEGMENT],
        [6, KAFKA_MARKER],
      ]),
    );
    const log = await engine.open('/d/txn-1', openOptions);
    const name = '00000000000000000006.snapshot';
    engine.files.content.set(`/d/txn-1/${name}`, Buffer.from(KAFKA_SNAPSHOT));
    const snapshots = new ProducerSnapshots(engine.files, silentLogger);
    await snapshots.open(log, [name]);
    const state = await loadProducerState(log, snapshots, never);
    expect(state.firstOpenOffset).toBe(Number.POSITIVE_INFINITY);
    expect(state.get(10)).toMatchObject({ epoch: 1, coordinatorEpoch: 0, batches: [] });
  });

  it('passes a corrupt snapshot over for an older one, and removes strays', async () => {
    const engine = new MemoryEngine();
    engine.preload(
      '/d/t',
      new Map([
        [0, KAFKA_SEGMENT],
        [6, KAFKA_MARKER],
      ]),
    );
    const log = await engine.open('/d/t', openOptions);
    const put = (offset: number, bytes: Uint8Array) =>
      engine.files.content.set(`/d/t/${snapshotName(offset)}`, Buffer.from(bytes));
    put(3, KAFKA_SNAPSHOT);
    put(6, KAFKA_SNAPSHOT);
    put(7, KAFKA_SNAPSHOT.subarray(1));
    put(900, KAFKA_SNAPSHOT);
    const snapshots = new ProducerSnapshots(engine.files, silentLogger);
    await snapshots.open(log, [3, 6, 7, 900].map(snapshotName));
    const state = await loadProducerState(log, snapshots, never);
    expect(state.get(10)?.epoch).toBe(1);
    expect(snapshots.offsets).toEqual([6]);
    expect([...engine.files.content.keys()]).toEqual(['/d/t/00000000000000000006.snapshot']);
  });

  it('knows by a newer snapshot what lies below the first segment, and all markers all the same', async () => {
    const engine = new MemoryEngine();
    engine.preload('/d/t', new Map([[6, KAFKA_MARKER]]));
    const log = await engine.open('/d/t', openOptions);
    engine.files.content.set(`/d/t/${snapshotName(7)}`, Buffer.from(KAFKA_SNAPSHOT));
    const snapshots = new ProducerSnapshots(engine.files, silentLogger);
    await snapshots.open(log, [snapshotName(7)]);
    const state = await loadProducerState(log, snapshots, { ...never, abortedFrom: 6 });
    expect(state.get(10)?.batches).toMatchObject([{ lastSequence: 4 }]);
    expect(state.get(12)?.batches).toMatchObject([{ lastSequence: 0 }]);
  });

  it('keeps producers whose batches it read, however old, until the next check', async () => {
    const engine = new MemoryEngine();
    engine.preload('/d/t', new Map([[0, KAFKA_SEGMENT]]));
    const log = await engine.open('/d/t', openOptions);
    const options = { now: 1_800_000_000_000, expirationMs: 86_400_000 };
    const state = await loadProducerState(log, new ProducerSnapshots(engine.files, silentLogger), options);
    expect(state.size).toBeGreaterThan(1);
    state.expire(options.now, options.expirationMs);
    expect([...state.entries()].map((entry) => entry.producerId)).toEqual([10]);
  });
});

/** Both inspectors are fed the same bytes, sound and mutated: facts, faults and patched bytes must be the same. */
import { describe, expect, it } from 'vitest';
import type { BatchFacts, BatchInspector } from '../../src/log/batch-inspector.ts';
import { jsInspector } from '../../src/log/js-inspector.ts';
import { nativeInspector } from '../../src/log/native-inspector.ts';
import { ATTRIBUTES_AT, BATCH_HEADER_BYTES, BATCH_LENGTH_AT } from '../../src/protocol/records/batch.ts';
import { BatchBuilder } from '../../src/protocol/records/writer.ts';
import { mutate } from '../support/mutate.ts';
import { Random } from '../support/random.ts';
import { scaled } from '../support/scale.ts';
import { seedOf } from '../support/seed.ts';

const NOW = 1_800_000_000_000;
const EXTREME_TIMES = [0n, -1n, 2n ** 63n - 1n, -(2n ** 63n), 2n ** 53n + 1n, -(2n ** 53n) - 3n];
const BOUNDS = [
  [Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY],
  [NOW - 50, NOW + 50],
  [-(2 ** 62), 2 ** 62],
] as const;

function telling({ fault, ...facts }: BatchFacts) {
  // Of a batch without a header there are no facts.
  const { walked, recordsMaxTimestamp, recordsMaxIndex, nullKeyIndex, invalidIndex, invalidTimestamp } =
    facts;
  const records = {
    walked,
    recordsMaxTimestamp,
    recordsMaxIndex,
    nullKeyIndex,
    invalidIndex,
    invalidTimestamp,
  };
  return {
    ...(facts.sizeInBytes === 0 ? { sizeInBytes: 0, ...records } : facts),
    fault: fault && { code: fault.code, message: fault.message },
  };
}

function seal(bytes: Buffer): void {
  if (bytes.length < BATCH_HEADER_BYTES) return;
  bytes.writeInt32BE(bytes.length - 12, BATCH_LENGTH_AT);
  jsInspector.patchBatch(bytes, 0, bytes.length, (bytes[ATTRIBUTES_AT + 1]! & 8) !== 0, NOW);
}

function someBatch(random: Random): Buffer {
  const builder = new BatchBuilder(
    random.int(3) === 0 ? { producerId: random.int(9), producerEpoch: 1, baseSequence: random.int(5) } : {},
  );
  for (let count = 1 + random.int(5); count > 0; count--) {
    const headers = Array.from({ length: random.int(3) }, (_, i) => ({
      key: `h${i}`,
      value: random.int(2) === 0 ? null : Buffer.alloc(random.int(200)),
    }));
    builder.append({
      timestamp: random.int(9) === 0 ? -1 : NOW + random.int(120) - 60,
      key: random.int(4) === 0 ? null : 'key',
      value: random.int(5) === 0 ? null : Buffer.alloc(random.int(300), 7),
      headers,
    });
  }
  const bytes = Buffer.from(builder.build());
  if (random.int(10) === 0) bytes.writeBigInt64BE(random.pick(EXTREME_TIMES), 27);
  return bytes;
}

function compare(ours: BatchInspector, bytes: Buffer, bounds: readonly [number, number], max: number) {
  const { length } = bytes;
  const answer = telling(ours.inspectBatch(bytes, 0, length, max, ...bounds));
  expect(answer).toEqual(telling(nativeInspector.inspectBatch(bytes, 0, length, max, ...bounds)));
  return answer;
}

describe('both inspectors', () => {
  it('say the same of random batches', () => {
    const random = new Random(seedOf('batch-inspector', 8));
    const faults = new Map<string, number>();
    for (let round = scaled(5_000, 500_000); round > 0; round--) {
      let bytes = someBatch(random);
      const kind = random.int(4);
      if (kind === 1) bytes = mutate(bytes, random);
      if (kind >= 2) {
        const records = mutate(bytes.subarray(BATCH_HEADER_BYTES), random);
        bytes = Buffer.concat([bytes.subarray(0, BATCH_HEADER_BYTES), records]);
      }
      if (kind === 3) bytes[17 + random.int(44)]! ^= 1 << random.int(8);
      if (kind !== 1 || random.int(2) === 0) seal(bytes);
      const { fault } = compare(jsInspector, bytes, random.pick(BOUNDS), random.int(9) === 0 ? 300 : 1 << 20);
      // Of each text, once without its numbers.
      const text = fault === undefined ? 'none' : fault.message.replaceAll(/-?\d+/g, 'N');
      faults.set(text, (faults.get(text) ?? 0) + 1);
    }
    expect(faults.get('none')).toBeGreaterThan(500);
    expect(faults.size).toBeGreaterThan(30);
  });

  it('walk the same records and patch the same bytes', () => {
    const random = new Random(seedOf('batch-inspector-walk', 9));
    for (let round = scaled(1_000, 100_000); round > 0; round--) {
      const bytes = someBatch(random);
      const payload = mutate(bytes.subarray(BATCH_HEADER_BYTES), random);
      const base = random.pick([NOW, -1, 2 ** 63, -(2 ** 63), 2 ** 55]);
      const args = [payload, 0, payload.length, random.int(6), base, ...random.pick(BOUNDS)] as const;
      const ours = telling(jsInspector.walkRecords(...args));
      const theirs = telling(nativeInspector.walkRecords(...args));
      for (const name of [
        'recordsMaxTimestamp',
        'recordsMaxIndex',
        'nullKeyIndex',
        'invalidIndex',
        'invalidTimestamp',
        'fault',
      ])
        expect(Reflect.get(ours, name), name).toEqual(Reflect.get(theirs, name));

      const time = random.pick([0, -1, NOW, 2 ** 53, 2 ** 63, -(2 ** 63), 2 ** 60 + 2 ** 12]);
      const copy = Buffer.from(bytes);
      const stamp = random.int(2) === 0;
      jsInspector.patchBatch(bytes, 0, bytes.length, stamp, time);
      nativeInspector.patchBatch(copy, 0, copy.length, stamp, time);
      expect(bytes.equals(copy)).toBe(true);
    }
    for (const [start, end] of [
      [0, 60],
      [0, 0],
      [1, 70],
    ] as const) {
      for (const inspector of [jsInspector, nativeInspector])
        expect(() => inspector.patchBatch(Buffer.alloc(70), start, end, true, 0)).toThrow(
          /exactly one batch/,
        );
    }
  });

  it('would be told apart', () => {
    const wrong: BatchInspector = {
      ...jsInspector,
      inspectBatch: (...args) => {
        const facts = jsInspector.inspectBatch(...args);
        if (facts.recordsMaxIndex === 3) facts.recordsMaxIndex = 2;
        return facts;
      },
    };
    const random = new Random(8);
    expect(() => {
      for (let round = 0; round < 500; round++) {
        const bytes = someBatch(random);
        seal(bytes);
        compare(wrong, bytes, BOUNDS[0], 1 << 20);
      }
    }).toThrow();
  });
});

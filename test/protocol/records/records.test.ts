import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { COMPRESSIONS } from '../../../src/protocol/compression.ts';
import { crc32 } from '../../../src/protocol/crc32.ts';
import { patchCrc, type RecordView } from '../../../src/protocol/records/batch.ts';
import {
  ControlType,
  controlBatch,
  controlTypeName,
  endTransactionMarker,
} from '../../../src/protocol/records/control.ts';
import { LegacyBatch } from '../../../src/protocol/records/legacy.ts';
import { RecordBatch, readBatches } from '../../../src/protocol/records/reader.ts';
import { VarintCursor, varlongBytes, writeVarlong } from '../../../src/protocol/records/varint.ts';
import { BatchBuilder, type NewRecord } from '../../../src/protocol/records/writer.ts';

function only(bytes: Uint8Array): RecordBatch {
  const batches = [...readBatches(bytes)];
  expect(batches).toHaveLength(1);
  expect(batches[0]).toBeInstanceOf(RecordBatch);
  batches[0]!.ensureValid();
  return batches[0] as RecordBatch;
}

const plain = (view: RecordView) => ({
  offset: view.offset,
  timestamp: view.timestamp,
  key: view.key && Buffer.from(view.key),
  value: view.value && Buffer.from(view.value),
  headers: view.headers.map(({ key, value }) => ({ key, value: value && Buffer.from(value) })),
});

const bytesOrNull = fc.option(
  fc.uint8Array({ maxLength: 300 }).map((bytes) => Buffer.from(bytes)),
  { nil: null },
);
const record: fc.Arbitrary<NewRecord & { key: Buffer | null; value: Buffer | null }> = fc.record({
  timestamp: fc.integer({ min: 0, max: 2 ** 42 }),
  key: bytesOrNull,
  value: bytesOrNull,
  headers: fc.array(fc.record({ key: fc.string({ unit: 'grapheme' }), value: bytesOrNull }), {
    maxLength: 3,
  }),
});

describe('a batch', () => {
  it.each(COMPRESSIONS)('of any records reads back, %s', (compression) => {
    fc.assert(
      fc.property(
        fc.array(record, { minLength: 1, maxLength: 20 }),
        fc.nat(2 ** 40),
        (records, baseOffset) => {
          const builder = new BatchBuilder({
            compression,
            baseOffset,
            producerId: 7,
            producerEpoch: 1,
            baseSequence: 5,
          });
          for (const each of records) builder.append(each);
          const bytes = builder.build();
          if (compression === 'none') expect(bytes.length).toBe(builder.uncompressedBytes);
          const batch = only(bytes);
          expect(batch.lastOffset).toBe(baseOffset + records.length - 1);
          expect(batch.maxTimestamp).toBe(Math.max(...records.map(({ timestamp }) => timestamp)));
          expect([...batch.records()].map(plain)).toEqual(
            records.map((each, index) => ({ offset: baseOffset + index, headers: [], ...each })),
          );
        },
      ),
      { numRuns: 60, seed: 4711 },
    );
  });

  it('stamped by the log shows that time on every record', () => {
    const bytes = new BatchBuilder({ logAppendTime: 99 })
      .append({ timestamp: 5, value: 'a' })
      .append({ timestamp: 6, value: 'b' })
      .build();
    const batch = only(bytes);
    expect(batch.timestampType).toBe('LogAppendTime');
    expect([...batch.records()].map(({ timestamp }) => timestamp)).toEqual([99, 99]);
  });

  it('gives its good records before it fails', () => {
    const bytes = new BatchBuilder()
      .append({ timestamp: 1, value: 'a' })
      .append({ timestamp: 2, value: 'b' })
      .build();
    const more = Buffer.from(bytes);
    more.writeInt32BE(3, 57);
    patchCrc(more, 0, more.length);
    const seen: number[] = [];
    expect(() => {
      for (const { timestamp } of only(more).records()) seen.push(timestamp);
    }).toThrow(/ends within record 2 of 3/);
    expect(seen).toEqual([1, 2]);
  });

  it('with a wrong CRC says so', () => {
    const bytes = Buffer.from(
      new BatchBuilder({ baseOffset: 17 }).append({ timestamp: 1, value: 'a' }).build(),
    );
    bytes[bytes.length - 1]! ^= 1;
    expect(() => ([...readBatches(bytes)][0] as RecordBatch).ensureValid()).toThrow(/offset 17 is wrong/);
  });

  it('does not outgrow the limit when it is decompressed', () => {
    const bytes = new BatchBuilder({ compression: 'gzip' })
      .append({ timestamp: 1, value: Buffer.alloc(1e6) })
      .build();
    expect(() => [...only(bytes).records(10_000)]).toThrow(/limit of 10000/);
  });

  it.each(COMPRESSIONS)('survives every byte broken, %s', (compression) => {
    const builder = new BatchBuilder({ compression });
    for (let n = 0; n < 20; n++)
      builder.append({
        timestamp: n,
        key: `k${n}`,
        value: `value ${n}`,
        headers: [{ key: 'h', value: null }],
      });
    const good = builder.build();
    for (let at = 0; at < good.length; at++) {
      const bytes = Buffer.from(good);
      bytes[at]! ^= 1 << (at % 8);
      if (at > 20) patchCrc(bytes, 0, bytes.length);
      try {
        for (const batch of readBatches(bytes)) {
          batch.ensureValid();
          for (const { key, value } of batch.records(100_000))
            expect((key?.length ?? 0) + (value?.length ?? 0)).toBeLessThan(100_000);
        }
      } catch (error) {
        expect(error).toMatchObject({ code: expect.stringMatching(/^BATCH_(CORRUPT|INVALID|TOO_LARGE)$/) });
      }
    }
  });
});

describe('batches in a row', () => {
  const one = new BatchBuilder().append({ timestamp: 1, value: 'a' }).build();
  it('are read one after the other, an incomplete one at the end is left', () => {
    const bytes = Buffer.concat([one, one, one.subarray(0, 30)]);
    expect([...readBatches(bytes)]).toHaveLength(2);
    expect([...readBatches(bytes, one.length)]).toHaveLength(1);
  });

  it('end where no frame can be told', () => {
    expect(() => [...readBatches(Buffer.concat([one, Buffer.alloc(100)]))]).toThrow(/batch length of 0/);
  });
});

describe('control batches', () => {
  it('name their types', () => {
    const bytes = controlBatch(
      [
        { type: ControlType.LEADER_CHANGE, value: Buffer.from([1]) },
        { type: ControlType.KRAFT_VERSION, value: Buffer.from([2]) },
      ],
      { timestamp: 5, leaderEpoch: 3 },
    );
    const batch = only(bytes);
    expect(batch.attributes).toBe(0x20);
    expect(batch.leaderEpoch).toBe(3);
    expect([...batch.records()].map(controlTypeName)).toEqual(['LEADER_CHANGE', 'KRAFT_VERSION']);
  });

  it('end transactions', () => {
    const batch = only(
      endTransactionMarker(ControlType.COMMIT, 4002, 1, 9, { timestamp: 5, baseOffset: 77 }),
    );
    expect([batch.isControl, batch.isTransactional, batch.producerId, batch.producerEpoch]).toEqual([
      true,
      true,
      4002,
      1,
    ]);
    const [marker] = [...batch.records()];
    expect(controlTypeName(marker!)).toBe('COMMIT');
    expect(Buffer.from(marker!.value!).toString('hex')).toBe('000000000009');
  });

  it('of unknown keys have no name', () => {
    for (const key of [null, Buffer.from('0000', 'hex'), Buffer.from('00000063', 'hex')]) {
      expect(controlTypeName({ key })).toBeUndefined();
    }
  });
});

describe('an old message', () => {
  it('is read, and its checksum minded', () => {
    const bytes = Buffer.alloc(12 + 22 + 2);
    bytes.writeInt32BE(24, 8);
    bytes.writeInt8(1, 16);
    bytes.writeBigInt64BE(1234n, 18);
    bytes.writeInt32BE(-1, 26);
    bytes.writeInt32BE(2, 30);
    bytes.write('hi', 34);
    bytes.writeUInt32BE(crc32(bytes, 16), 12);
    const [batch] = [...readBatches(bytes)];
    expect(batch).toBeInstanceOf(LegacyBatch);
    batch!.ensureValid();
    expect([...batch!.records()].map(plain)).toEqual([
      { offset: 0, timestamp: 1234, key: null, value: Buffer.from('hi'), headers: [] },
    ]);
    bytes[35]! ^= 1;
    expect(() => batch!.ensureValid()).toThrow(/CRC/);
  });
});

describe('varints', () => {
  it('read back, and take as many bytes as foretold', () => {
    const bytes = new Uint8Array(10);
    fc.assert(
      fc.property(
        fc.oneof(fc.maxSafeInteger(), fc.integer(), fc.integer({ min: -300, max: 300 })),
        (value) => {
          const end = writeVarlong(bytes, 0, value);
          expect(end).toBe(varlongBytes(value));
          expect(new VarintCursor(bytes, 0, end).varlong()).toBe(value);
          if (Math.abs(value) < 2 ** 31) expect(new VarintCursor(bytes, 0, end).varint()).toBe(value);
        },
      ),
      { numRuns: 2000, seed: 4711 },
    );
  });

  it('of the edges', () => {
    for (const value of [
      0,
      -1,
      63,
      -64,
      64,
      8191,
      -8192,
      2 ** 31 - 1,
      -(2 ** 31),
      2 ** 52,
      -(2 ** 52),
      2 ** 53 - 1,
    ]) {
      const bytes = new Uint8Array(10);
      expect(new VarintCursor(bytes, 0, writeVarlong(bytes, 0, value)).varlong()).toBe(value);
    }
  });
});

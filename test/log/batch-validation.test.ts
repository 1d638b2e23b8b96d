import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { type ProduceRules, RecordsRefused, validateProduced } from '../../src/log/batch-validation.ts';
import { jsInspector } from '../../src/log/js-inspector.ts';
import { nativeInspector } from '../../src/log/native-inspector.ts';
import { COMPRESSIONS } from '../../src/protocol/compression.ts';
import { patchCrc } from '../../src/protocol/records/batch.ts';
import { RecordBatch } from '../../src/protocol/records/reader.ts';
import { BatchBuilder, type BatchOptions, type NewRecord } from '../../src/protocol/records/writer.ts';
import { answerTo, DIFFERENCES, type OutcomeVector } from '../support/golden/outcomes.ts';
import { readLines } from '../support/golden/vectors.ts';

const NOW = 1_800_000_000_000;
const HOUR = 3_600_000;
const RULES: ProduceRules = {
  cleanupPolicy: ['delete'],
  maxMessageBytes: 1048588,
  maxDecompressedMessageBytes: 10_000_000,
  compressionType: 'producer',
  compressionGzipLevel: -1,
  compressionZstdLevel: 3,
  messageTimestampType: 'CreateTime',
  messageTimestampBeforeMaxMs: 2 ** 63,
  messageTimestampAfterMaxMs: HOUR,
};

function batch(records: readonly NewRecord[], options: BatchOptions = {}): Buffer {
  const builder = new BatchBuilder(options);
  for (const record of records) builder.append(record);
  return Buffer.from(builder.build());
}

const three = (base: number): NewRecord[] => [
  { timestamp: base, key: 'a', value: '1' },
  { timestamp: base + 20, key: 'b', value: '2' },
  { timestamp: base + 10, key: 'c', value: '3' },
];

describe.each([
  ['native', nativeInspector],
  ['js', jsInspector],
] as const)('the %s engine', (_, inspector) => {
  function judge(bytes: Uint8Array, rules: Partial<ProduceRules> = {}) {
    return validateProduced(bytes, 0, bytes.length, { ...RULES, ...rules }, NOW, inspector);
  }

  function refusal(bytes: Uint8Array, rules: Partial<ProduceRules> = {}) {
    try {
      judge(bytes, rules);
    } catch (error) {
      const { code, message } = error as RecordsRefused;
      return { code, message, faults: error instanceof RecordsRefused ? error.recordFaults : undefined };
    }
    return undefined;
  }

  describe.each(COMPRESSIONS)('a batch, %s', (compression) => {
    it('is told by its facts', () => {
      const bytes = batch(three(NOW), { compression, producerId: 9, producerEpoch: 2, baseSequence: 40 });
      const before = Buffer.from(bytes);
      expect(judge(bytes)).toMatchObject({
        baseOffset: 0,
        lastOffset: 2,
        maxTimestamp: NOW + 20,
        producerId: 9,
        producerEpoch: 2,
        baseSequence: 40,
        recordCount: 3,
        attributes: COMPRESSIONS.indexOf(compression),
        sizeInBytes: bytes.length,
      });
      expect(before.equals(bytes)).toBe(true);
    });

    it('gets the largest timestamp of its records, and a fitting CRC', () => {
      const bytes = batch(three(NOW), { compression });
      bytes.writeBigInt64BE(5n, 35);
      patchCrc(bytes, 0, bytes.length);
      expect(judge(bytes).maxTimestamp).toBe(NOW + 20);
      const stored = new RecordBatch(bytes);
      stored.ensureValid();
      expect(stored.maxTimestamp).toBe(NOW + 20);
    });

    it('is stamped where the topic says LogAppendTime', () => {
      const bytes = batch(three(5), { compression });
      expect(judge(bytes, { messageTimestampType: 'LogAppendTime' })).toMatchObject({ maxTimestamp: NOW });
      const stored = new RecordBatch(bytes);
      stored.ensureValid();
      expect([stored.timestampType, stored.maxTimestamp]).toEqual(['LogAppendTime', NOW]);
      expect([...stored.records()].map(({ timestamp }) => timestamp)).toEqual([NOW, NOW, NOW]);
    });

    it('with a record out of the time limits is refused with its index', () => {
      const late = batch([...three(NOW), { timestamp: NOW + HOUR + 1, key: 'k', value: 'v' }], {
        compression,
      });
      const message =
        `record 3: timestamp ${NOW + HOUR + 1} is 3600001 ms after the broker's clock, ${NOW}: ` +
        'more than message.timestamp.after.max.ms=3600000 allows';
      expect(refusal(late)).toMatchObject({
        code: 'TIMESTAMP_INVALID',
        faults: [{ batchIndex: 3, message }],
      });
      expect(refusal(late, { messageTimestampAfterMaxMs: HOUR + 1 })).toBeUndefined();
      expect(refusal(late, { messageTimestampType: 'LogAppendTime' })).toBeUndefined();
      const early = batch([{ timestamp: NOW - 1001, value: 'v' }], { compression });
      expect(refusal(early, { messageTimestampBeforeMaxMs: 1000 })).toMatchObject({
        faults: [
          { batchIndex: 0, message: expect.stringContaining('message.timestamp.before.max.ms=1000 ') },
        ],
      });
      expect(refusal(early, { messageTimestampBeforeMaxMs: 1001 })).toBeUndefined();
      expect(
        refusal(batch([{ timestamp: -1, value: 'v' }], { compression }), { messageTimestampBeforeMaxMs: 0 }),
      ).toBeUndefined();
    });

    it('without a key is refused by a compacted topic only', () => {
      const bytes = batch(
        [
          { timestamp: NOW, key: '', value: 'v' },
          { timestamp: NOW, value: 'v' },
        ],
        { compression },
      );
      expect(refusal(bytes)).toBeUndefined();
      expect(refusal(bytes, { cleanupPolicy: ['compact', 'delete'] })).toMatchObject({
        code: 'BATCH_INVALID',
        faults: [{ batchIndex: 1, message: expect.stringMatching(/without a key/) }],
      });
    });

    it('that lacks a key and has a wrong timestamp is refused for both', () => {
      const records = [
        { timestamp: NOW + HOUR + 1, key: 'k', value: 'v' },
        { timestamp: NOW, value: 'v' },
      ];
      expect(refusal(batch(records, { compression }), { cleanupPolicy: ['compact'] })).toMatchObject({
        code: 'TIMESTAMP_INVALID',
        faults: [{ batchIndex: 0 }, { batchIndex: 1 }],
      });
      const one = batch([{ timestamp: NOW + HOUR + 1, value: 'v' }], { compression });
      expect(refusal(one, { cleanupPolicy: ['compact'] })).toMatchObject({
        code: 'BATCH_INVALID',
        faults: [{ batchIndex: 0 }],
      });
    });

    it('above max.message.bytes is refused with both numbers', () => {
      const bytes = batch(three(NOW), { compression });
      const { code, message } = refusal(bytes, { maxMessageBytes: bytes.length - 1 })!;
      expect(code).toBe('BATCH_TOO_LARGE');
      expect(message).toContain(String(bytes.length));
      expect(message).toContain(`max.message.bytes=${bytes.length - 1}`);
      expect(refusal(bytes, { maxMessageBytes: bytes.length })).toBeUndefined();
    });

    it('of control records, or in a transaction, is refused', () => {
      expect(refusal(batch(three(NOW), { compression, control: true }))).toMatchObject({
        code: 'BATCH_INVALID',
      });
      expect(refusal(batch(three(NOW), { compression, transactional: true }))).toMatchObject({
        code: 'TRANSACTION_REFUSED',
      });
    });

    it('with records that do not fit its count is refused', () => {
      const bytes = batch(three(NOW), { compression });
      bytes.writeInt32BE(4, 57);
      bytes.writeInt32BE(3, 23);
      patchCrc(bytes, 0, bytes.length);
      expect(refusal(bytes)).toMatchObject({ code: 'BATCH_INVALID' });
    });
  });

  describe('a compressed batch', () => {
    it('may not unpack to more than the limit', () => {
      for (const compression of COMPRESSIONS.slice(1)) {
        const bytes = batch([{ timestamp: NOW, value: Buffer.alloc(100_000) }], { compression });
        const { code, message } = refusal(bytes, { maxDecompressedMessageBytes: 50_000 })!;
        expect(code).toBe('BATCH_TOO_LARGE');
        expect(message).toContain('max.decompressed.message.bytes=50000');
      }
    });
  });

  describe('compression.type', () => {
    const types = ['uncompressed', 'gzip', 'snappy', 'lz4', 'zstd'] as const;
    const content = (bytes: Uint8Array) =>
      [...new RecordBatch(bytes).records()].map(({ key, value }) => `${key} ${value}`);

    it.each(types)('%s is what a batch of any codec is stored in', (compressionType) => {
      const target = compressionType === 'uncompressed' ? 'none' : compressionType;
      for (const compression of COMPRESSIONS) {
        const bytes = batch(three(5), { compression, producerId: 9, producerEpoch: 2, baseSequence: 40 });
        const wanted = content(bytes);
        const { recoded, ...info } = judge(bytes, { compressionType, messageTimestampType: 'LogAppendTime' });
        expect(recoded === undefined).toBe(compression === target);
        const stored = new RecordBatch(recoded ?? bytes);
        stored.ensureValid();
        expect(content(recoded ?? bytes)).toEqual(wanted);
        expect(stored.compression).toBe(target);
        expect(info).toMatchObject({
          sizeInBytes: stored.sizeInBytes,
          attributes: stored.attributes,
          maxTimestamp: NOW,
          producerId: stored.producerId,
          baseSequence: stored.baseSequence,
        });
        expect([stored.timestampType, stored.maxTimestamp]).toEqual(['LogAppendTime', NOW]);
      }
    });

    it('counts for the size of the batch', () => {
      const bytes = batch([{ timestamp: NOW, value: Buffer.alloc(5000) }], { compression: 'gzip' });
      const { code, message } = refusal(bytes, { compressionType: 'uncompressed', maxMessageBytes: 1000 })!;
      expect(code).toBe('BATCH_TOO_LARGE');
      expect(message).toContain('compression.type=uncompressed');
    });
  });

  describe('a batch that bears the flag LogAppendTime', () => {
    it('loses it, and its one time is judged', () => {
      const bytes = batch(three(5), { logAppendTime: NOW - 50 });
      expect(judge(bytes)).toMatchObject({ maxTimestamp: NOW - 50, attributes: 0 });
      new RecordBatch(bytes).ensureValid();
      expect(refusal(batch(three(5), { logAppendTime: NOW + HOUR + 1 }))).toMatchObject({
        code: 'TIMESTAMP_INVALID',
        faults: [
          { batchIndex: 0, message: expect.stringContaining('message.timestamp.after.max.ms=3600000') },
        ],
      });
      expect(
        refusal(batch(three(5), { logAppendTime: NOW }), { messageTimestampType: 'LogAppendTime' }),
      ).toMatchObject({
        code: 'TIMESTAMP_INVALID',
      });
    });
  });

  describe('a slice of a larger buffer', () => {
    it('is judged and patched within its bounds', () => {
      const one = batch(three(5));
      const bytes = Buffer.concat([Buffer.alloc(7, 0xee), one, Buffer.alloc(9, 0xee)]);
      const stamped: ProduceRules = { ...RULES, messageTimestampType: 'LogAppendTime' };
      validateProduced(bytes, 7, 7 + one.length, stamped, NOW, inspector);
      expect(bytes.subarray(0, 7).equals(Buffer.alloc(7, 0xee))).toBe(true);
      expect(bytes.subarray(7 + one.length).equals(Buffer.alloc(9, 0xee))).toBe(true);
      new RecordBatch(bytes, 7).ensureValid();
    });
  });
});

describe('the table of differences', () => {
  const fixture = fileURLToPath(
    new URL('../protocol/fixtures/golden/produce-outcomes.jsonl.gz', import.meta.url),
  );
  const used = new Set(
    readLines(fixture).map((line) => answerTo(JSON.parse(line) as OutcomeVector, fixture).difference),
  );

  it.each(DIFFERENCES)('is needed and told of: $what', (row) => {
    expect(used.has(row)).toBe(true);
    const docs = readFileSync(new URL('../../docs/DIFFERENCES.md', import.meta.url), 'utf8');
    expect(docs).toContain(
      `| ${row.what} | ${row.kafka === 'NONE' ? 'stores it' : row.kafka} | ${row.ours} |`,
    );
  });
});

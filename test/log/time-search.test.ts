/** Records by time, against a scan over all of them, where headers claim more than their batches hold. */
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { findByTime, findMaxTimestamp, type TimedOffset } from '../../src/log/time-search.ts';
import type { CompressionName } from '../../src/protocol/compression.ts';
import { BatchBuilder } from '../../src/protocol/records/writer.ts';
import { ENGINES } from '../support/engines.ts';
import { OPTIONS, scratch } from '../support/logs.ts';
import { Random } from '../support/random.ts';
import { scaled } from '../support/scale.ts';

const CODECS: CompressionName[] = ['none', 'gzip', 'snappy', 'lz4', 'zstd'];

function scanByTime(records: readonly TimedOffset[], target: number): TimedOffset | undefined {
  return records.find(({ timestamp }) => timestamp >= target);
}

function scanMax(records: readonly TimedOffset[]): TimedOffset | undefined {
  let best: TimedOffset | undefined;
  for (const record of records) if (best === undefined || record.timestamp > best.timestamp) best = record;
  return best;
}

describe.each(ENGINES)('records by time, engine=$name', ({ make }) => {
  it.each(scaled([1, 2], [1, 2, 3, 4, 5, 6, 7, 8]))('are those of a full scan (seed %i)', async (seed) => {
    const random = new Random(seed);
    const engine = make();
    const log = await engine.open(join(scratch(true), 'log-0'), { ...OPTIONS, indexIntervalBytes: 200 });
    const records: TimedOffset[] = [];
    const ends = [0];
    for (let i = 0; i < scaled(120, 400); i++) {
      const builder = new BatchBuilder({ compression: random.pick(CODECS) });
      let largest = -1;
      for (let n = random.int(6); n >= 0; n--) {
        // Mostly rising, now and then from another time, or none at all.
        const timestamp = random.int(30) === 0 ? random.int(6000) - 1 : 30 * i + random.int(200);
        largest = Math.max(largest, timestamp);
        records.push({ offset: records.length, timestamp });
        builder.append({ timestamp, value: 'v'.repeat(random.int(60)) });
      }
      const bytes = builder.build();
      // What this header claims, a compaction may have taken.
      if (random.int(4) === 0)
        engine.inspector.patchBatch(bytes, 0, bytes.length, false, largest + random.int(2000));
      log.stage(bytes, 0, bytes.length, 0, 1000);
      engine.commit((_, error) => expect(error).toBeUndefined());
      ends.push(records.length);
    }
    expect(log.segmentBaseOffsets().length).toBeGreaterThan(2);
    for (let i = 0; i < scaled(150, 1000); i++) {
      const upTo = random.int(3) === 0 ? random.pick(ends) : records.length;
      const from = random.int(upTo + 1);
      const held = records.slice(from, upTo);
      const target = random.int(7000) - 1;
      expect(await findByTime(log, target, from, upTo), `${target} in [${from}, ${upTo})`).toEqual(
        scanByTime(held, target),
      );
      expect(await findMaxTimestamp(log, from, upTo), `largest of [${from}, ${upTo})`).toEqual(scanMax(held));
    }
    await engine.close();
  });
});

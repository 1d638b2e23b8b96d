import { describe, expect, it } from 'vitest';
import type { TopicConfig } from '../../src/config/topic-config.ts';
import { cleanSegments } from '../../src/log/cleaner-pass.ts';
import { findByTime, findMaxTimestamp } from '../../src/log/time-search.ts';
import { ENGINES, type EngineUnderTest } from '../support/engines.ts';
import { PartitionModel, type Parts } from '../support/partition-model.ts';
import { Random } from '../support/random.ts';
import { FULL_SIZE, scaled } from '../support/scale.ts';
import { topicConfigForTests } from '../support/topic-config.ts';

const SEEDS =
  process.env.BROADSHEET_SEED === undefined
    ? scaled([1], [1, 2, 3, 4, 5])
    : [Number(process.env.BROADSHEET_SEED)];
const STEPS = Number(process.env.BROADSHEET_STEPS ?? scaled(100, 4_000));
const STEPS_PER_LOG = 200;

const COMMON: Partial<TopicConfig> = {
  segmentBytes: 3_000,
  segmentMs: 2_000,
  indexIntervalBytes: 300,
  deleteRetentionMs: 15_000,
  fileDeleteDelayMs: 500,
};
const TOPICS: Record<string, Partial<TopicConfig>> = {
  'deleted by age': { retentionMs: 8_000 },
  'deleted by size': { retentionMs: -1, retentionBytes: 6_000, messageTimestampType: 'LogAppendTime' },
  compacted: { cleanupPolicy: ['compact'] },
  'compacted and deleted': {
    cleanupPolicy: ['compact', 'delete'],
    retentionMs: 10_000,
    compressionType: 'lz4',
  },
};

async function run(
  under: EngineUnderTest,
  seed: number,
  topic: Partial<TopicConfig>,
  steps: number,
  parts: Partial<Parts> = {},
): Promise<PartitionModel['counts']> {
  const random = new Random(seed);
  const config = topicConfigForTests({ ...COMMON, ...topic });
  const sum = { compactions: 0, deletions: 0, crashes: 0, cuts: 0, reopens: 0, transactions: 0 };
  for (let step = 0; step < steps; ) {
    const model = new PartitionModel(under, random, config, parts);
    try {
      await model.begin();
      for (let i = 0; i < STEPS_PER_LOG && step < steps; i++, step++) await model.step();
      await model.end();
    } catch (error) {
      (error as Error).message = `BROADSHEET_SEED=${seed}, step ${step}: ${(error as Error).message}`;
      throw error;
    }
    for (const name of Object.keys(sum) as (keyof typeof sum)[]) sum[name] += model.counts[name];
  }
  return sum;
}

describe.each(ENGINES)('model of a partition, engine=$name', (under) => {
  for (const [name, topic] of Object.entries(TOPICS)) {
    it.each(SEEDS)(`${name}, BROADSHEET_SEED=%i`, { timeout: 600_000 }, async (seed) => {
      const { compactions, deletions, ...rest } = await run(under, seed, topic, STEPS);
      if (name.includes('compacted')) expect(compactions).toBeGreaterThan(0);
      if (!FULL_SIZE) return;
      if (name.includes('deleted')) expect(deletions).toBeGreaterThan(0);
      for (const count of Object.values(rest)) expect(count).toBeGreaterThan(0);
    });
  }
});

describe('the model notices', () => {
  const compacted = TOPICS.compacted!;
  const canaries: Record<string, Partial<Parts>> = {
    'a compaction that drops live keys': {
      clean: (job) => {
        const gone = [1, 2, 3].map((producerId) => ({ ...EVER, producerId }));
        return cleanSegments({ ...job, aborted: [...job.aborted, ...gone] }, () => {});
      },
    },
    'a compaction that keeps what was overwritten': {
      clean: (job) => {
        const { endOffset } = job.segments[job.segments.length - 1]!;
        return cleanSegments(
          { ...job, firstDirtyOffset: Math.max(job.firstDirtyOffset, endOffset - 5) },
          () => {},
        );
      },
    },
    'tombstones that go too soon': {
      clean: (job) => cleanSegments({ ...job, deleteRetentionMs: 0 }, () => {}),
    },
    'a time search that takes the next record': {
      findByTime: async (log, target, from, upTo) => {
        const found = await findByTime(log, target, from, upTo);
        return found === undefined ? undefined : findByTime(log, target, found.offset + 1, upTo);
      },
    },
    'a search for the largest timestamp that takes the next one': {
      findMaxTimestamp: async (log, from, upTo) => {
        const found = await findMaxTimestamp(log, from, upTo);
        return found === undefined ? undefined : findMaxTimestamp(log, found.offset + 1, upTo);
      },
    },
  };
  it.each(Object.entries(canaries))('%s', async (_, parts) => {
    await expect(run(ENGINES[0]!, 1, compacted, 400, parts)).rejects.toMatchObject({
      name: 'AssertionError',
    });
  });
});

const EVER = { firstOffset: 0, lastOffset: 2 ** 40, lastStableOffset: 2 ** 40 };

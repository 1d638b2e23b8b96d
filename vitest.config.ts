import { defineConfig } from 'vitest/config';
import { scaled } from './test/support/scale.ts';

const common = { environment: 'node', pool: 'forks', testTimeout: 60_000, hookTimeout: 60_000 } as const;

/** Comparisons with Apache Kafka that take minutes; the smaller size has others of their kind. */
const ONLY_FULL = [
  'assignors',
  'cluster-directory',
  'cluster-features',
  'consumer-groups-kafka',
  'groups-directory',
  'kafka-admin-wire',
  'kafka-configs',
  'kafka-consumer-groups',
].map((name) => `test/interop/${name}.test.ts`);

/** unit: needs only Node and the compiled addon. Everything slower or needing other tools has its own project. */
export default defineConfig({
  test: {
    projects: [
      {
        test: {
          ...common,
          name: 'unit',
          include: ['test/**/*.test.ts'],
          exclude: ['test/interop/**', 'test/crash/**', 'test/tidy.test.ts'],
        },
      },
      { test: { ...common, name: 'tidy', include: ['test/tidy.test.ts'] } },
      {
        test: {
          ...common,
          name: 'interop',
          include: ['test/interop/**/*.test.ts'],
          exclude: scaled(ONLY_FULL, []),
          globalSetup: ['test/support/interop-tools.ts'],
          testTimeout: 1_800_000,
          fileParallelism: false,
        },
      },
      {
        test: {
          ...common,
          name: 'crash',
          include: ['test/crash/**/*.test.ts'],
          testTimeout: 3_600_000,
          fileParallelism: false,
        },
      },
    ],
  },
});

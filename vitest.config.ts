import { defineConfig } from 'vitest/config';
import { scaled } from './test/support/scale.ts';

const common = {
  environment: 'node',
  pool: 'forks',
  testTimeout: scaled(60_000, 1_800_000),
  hookTimeout: 60_000,
  // Threads that the source makes are not loaded by vitest.
  execArgv: ['--import', new URL('scripts/typescript.js', import.meta.url).href],
};

/** Comparisons with Apache Kafka that take minutes; the smaller size has others of their kind. */
const ONLY_FULL = [
  'assignors',
  'backup-size',
  'cli-kafka',
  'cluster-directory',
  'cluster-features',
  'cluster-requests',
  'compaction-kafka',
  'compaction-turns',
  'consumer-groups-kafka',
  'groups',
  'groups-directory',
  'install-matrix',
  'java-admin',
  'kafka-admin-wire',
  'kafka-cluster-tools',
  'kafka-configs',
  'kafka-consumer-groups',
  'kafka-transactions',
  'known-end',
  'machines',
  'metadata-kafka',
  'metadata-older',
  'metadata-snapshots',
  'streams-app',
  'streams-exactly-once',
  'streams-tools',
  'streams-wire',
  'time-kafka',
  'transactional-copier',
  'transactions-directory',
  'transactions-wire',
].map((name) => `test/interop/${name}.test.ts`);

/** Need nothing but Node and a compiler, yet more of the three minutes that unit tests may take than it is worth there. */
const SLOW_BENCH = ['test/bench/engines.test.ts', 'test/bench/groups.test.ts'];

/** unit: needs only Node and the compiled addon. Everything slower or needing other tools has its own project. */
export default defineConfig({
  test: {
    projects: [
      {
        test: {
          ...common,
          name: 'unit',
          maxWorkers: 2,
          include: ['test/**/*.test.ts'],
          exclude: [
            'test/interop/**',
            'test/crash/**',
            'test/budgets/**',
            'test/tidy.test.ts',
            ...SLOW_BENCH,
          ],
        },
      },
      { test: { ...common, name: 'tidy', include: ['test/tidy.test.ts'] } },
      {
        test: {
          ...common,
          name: 'interop',
          include: ['test/interop/**/*.test.ts', ...SLOW_BENCH],
          exclude: scaled([...ONLY_FULL, 'test/bench/groups.test.ts'], []),
          globalSetup: ['test/support/interop-tools.ts'],
          testTimeout: 1_800_000,
          // In CI two files at once: each waits for processes more than it works itself.
          maxWorkers: scaled(2, 1),
        },
      },
      {
        test: {
          ...common,
          name: 'crash',
          include: ['test/crash/**/*.test.ts', 'test/budgets/**/*.test.ts'],
          testTimeout: 3_600_000,
          fileParallelism: false,
        },
      },
    ],
  },
});

import { defineConfig } from 'vitest/config';

const common = { environment: 'node', pool: 'forks', testTimeout: 60_000, hookTimeout: 60_000 } as const;

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

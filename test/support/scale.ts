/** Slow suites run at two sizes: scaled down in CI, at full size with BROADSHEET_FULL=1 (npm run test:full). */
export const FULL_SIZE = process.env.BROADSHEET_FULL === '1';

export function scaled<T>(small: T, full: T): T {
  return FULL_SIZE ? full : small;
}

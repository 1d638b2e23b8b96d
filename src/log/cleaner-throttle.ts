/** log.cleaner.io.max.bytes.per.second: what one cleaning reads and writes together, on average since it began. */
import type { Throttle } from './cleaner-pass.ts';

/** What comes too soon sleeps. `now` is a clock that never goes back, in ms, as `sleep` is. */
export function throttleTo(bytesPerSecond: number, now: () => number, sleep: (ms: number) => void): Throttle {
  if (bytesPerSecond >= Number.MAX_SAFE_INTEGER) return () => {};
  const begun = now();
  let moved = 0;
  return (bytes) => {
    moved += bytes;
    const ahead = (moved / bytesPerSecond) * 1000 - (now() - begun);
    if (ahead > 1) sleep(ahead);
  };
}

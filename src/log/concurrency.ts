/** Work on many partitions, some at a time. */

/** Partitions that are opened, written or closed at a time. */
const CONCURRENCY = 32;

/** Rejects with the first error; what was begun goes on. */
export async function forEachConcurrently<T>(
  items: readonly T[],
  fn: (item: T) => Promise<void>,
): Promise<void> {
  let next = 0;
  const worker = async () => {
    while (next < items.length) await fn(items[next++]!);
  };
  await Promise.all(Array.from({ length: Math.min(CONCURRENCY, items.length) }, worker));
}

import { expect, it } from 'vitest';
import type { Files, Log } from '../../src/log/log.ts';
import { TRANSACTION_INDEX_CHECKPOINT, TransactionIndex } from '../../src/log/txn-index.ts';

const log = { dir: 'p-0', writtenOffset: 100, segmentBaseOffsets: () => [0, 50] } as unknown as Log;
const entry = (lastOffset: number) => ({
  producerId: 1,
  firstOffset: lastOffset - 1,
  lastOffset,
  lastStableOffset: lastOffset + 1,
});

/** Files whose writes wait for `go`, by name. */
class HeldFiles {
  readonly waiting = new Map<string, (error?: Error) => void>();
  readonly files = this as unknown as Files;

  async writeAtomic(path: string): Promise<void> {
    await new Promise<void>((resolve, reject) =>
      this.waiting.set(path.slice(4), (error) => (error === undefined ? resolve() : reject(error))),
    );
  }

  async go(name: string, error?: Error): Promise<void> {
    await expect.poll(() => this.waiting.has(name)).toBe(true);
    this.waiting.get(name)!(error);
    this.waiting.delete(name);
    await new Promise(setImmediate);
  }
}

it('has entries unsaved until their file and its checksum are on disk', async () => {
  const held = new HeldFiles();
  const index = new TransactionIndex();
  index.add(entry(60));
  index.add(entry(120));
  const saved = index.save(held.files, log);
  await new Promise(setImmediate);
  expect([index.unsavedFrom, index.isSaved(100)]).toEqual([60, false]);
  index.add(entry(70));
  await held.go('00000000000000000050.txnindex');
  expect([index.unsavedFrom, index.isSaved(100)]).toEqual([60, false]);
  await held.go(TRANSACTION_INDEX_CHECKPOINT);
  await saved;
  // One that came meanwhile, and then one past what is written.
  expect([index.unsavedFrom, index.isSaved(70), index.isSaved(71)]).toEqual([70, true, false]);
  const again = index.save(held.files, log);
  await held.go('00000000000000000050.txnindex');
  await held.go(TRANSACTION_INDEX_CHECKPOINT);
  await again;
  expect([index.unsavedFrom, index.isSaved(100)]).toEqual([120, true]);
});

it.each([['00000000000000000050.txnindex'], [TRANSACTION_INDEX_CHECKPOINT]])(
  'has to save again after %s could not be written',
  async (name) => {
    const held = new HeldFiles();
    const index = new TransactionIndex();
    index.add(entry(60));
    const saved = index.save(held.files, log).catch(({ message }: Error) => message);
    if (name === TRANSACTION_INDEX_CHECKPOINT) await held.go('00000000000000000050.txnindex');
    await held.go(name, new Error('no space'));
    expect(await saved).toBe('no space');
    expect(index.isSaved(100)).toBe(false);
    const again = index.save(held.files, log);
    if (name !== TRANSACTION_INDEX_CHECKPOINT) await held.go('00000000000000000050.txnindex');
    await held.go(TRANSACTION_INDEX_CHECKPOINT);
    await again;
    expect([index.unsavedFrom, index.isSaved(100)]).toEqual([Number.POSITIVE_INFINITY, true]);
  },
);

it('forgets files of segments when none is being written', async () => {
  const held = new HeldFiles();
  const index = new TransactionIndex();
  index.add(entry(60));
  const saved = index.save(held.files, log);
  let replaced = false;
  const forgotten = index.alone(async () => {
    replaced = true;
    index.forgetFiles([50]);
  });
  await held.go('00000000000000000050.txnindex');
  expect(replaced).toBe(false);
  await held.go(TRANSACTION_INDEX_CHECKPOINT);
  await Promise.all([saved, forgotten]);
  // The checksums on disk name a file that is gone.
  expect(index.isSaved(100)).toBe(false);
});

/** Transactions as a history: whatever kills, timeouts and second instances come in between, readers of what is committed
 * see exactly the committed transactions, whole and in order, and the last stable offset never goes back. */
import { afterEach, describe, expect, it, vi } from 'vitest';
import { OffsetManager } from '../../src/group/offset-manager.ts';
import { CoordinatorTopic } from '../../src/log/coordinator-topic.ts';
import { Partition } from '../../src/log/partition.ts';
import { TransactionIndex } from '../../src/log/txn-index.ts';
import { Random } from '../support/random.ts';
import { scaled } from '../support/scale.ts';
import { History } from './history.ts';

const TURNS = scaled(100, 1500);
const SEEDS = scaled(
  [1, 2],
  Array.from({ length: 20 }, (_, i) => i + 1),
);

async function run(seed: number, turns = TURNS): Promise<{ history: History; faults: string[] }> {
  const history = new History(new Random(seed), 4);
  await history.start();
  for (let turn = 0; turn < turns; turn++) await history.turn();
  return { history, faults: await history.verdict() };
}

describe('readers of what is committed', () => {
  it.each(SEEDS)(
    'see the committed transactions and nothing else (seed %i)',
    async (seed) => {
      const { history, faults } = await run(seed);
      expect(faults).toEqual([]);
      const outcomes = new Set(history.transactions.map(({ outcome }) => outcome));
      expect([...outcomes].sort()).toEqual(expect.arrayContaining(['aborted', 'committed']));
      expect(history.kills).toBeGreaterThan(2);
    },
    600_000,
  );
});

describe('a canary', () => {
  afterEach(() => {
    vi.restoreAllMocks();
  });

  /** What goes wrong with a broken broker: faults in the verdict, or an error on the way. */
  async function caught(seed = 1): Promise<string> {
    try {
      return (await run(seed)).faults.join('\n');
    } catch (error) {
      return (error as Error).message;
    }
  }

  it('that names no aborted transactions is caught', async () => {
    vi.spyOn(TransactionIndex.prototype, 'collect').mockReturnValue([]);
    expect(await caught()).toMatch(/aborted, shows/);
  });

  it('that takes the high watermark for the last stable offset is caught', async () => {
    vi.spyOn(Partition.prototype, 'lastStableOffset', 'get').mockImplementation(function (this: Partition) {
      return this.highWatermark;
    });
    expect(await caught()).not.toBe('');
  });

  it('that forgets its transactional ids in a restart is caught', async () => {
    vi.spyOn(CoordinatorTopic.prototype, 'load').mockResolvedValue();
    expect(await caught()).not.toBe('');
  });

  it('that keeps offsets of aborted transactions is caught', async () => {
    const end = OffsetManager.prototype.endTransaction;
    vi.spyOn(OffsetManager.prototype, 'endTransaction').mockImplementation(function (
      this: OffsetManager,
      index,
      id,
    ) {
      end.call(this, index, id, true);
    });
    expect(await caught()).toMatch(/reads/);
  });
});

/** Suite `garbage`: what requests leave to the collector of garbage, and how long it stops the loop: batches of one record beside
 * those of a thousand, since nothing may be made for each record. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { BatchBuilder } from '../../src/protocol/records/writer.ts';
import { COMBINATIONS, type Combination } from '../../test/support/combinations.ts';
import { Probed } from '../../test/support/probed.ts';
import { fetchRequest, framesLoad, produceRequest, withTopic } from '../broker-load.ts';
import { type Comparison, type Cost, compareCosts, type Scale } from '../support.ts';

const MANY = 1_000;
const DEPTH = 8;

function batch(records: number): Uint8Array {
  const builder = new BatchBuilder();
  const timestamp = Date.now();
  for (let n = 0; n < records; n++) builder.append({ timestamp, value: 'broadsheet' });
  return builder.build();
}

async function costOf(
  { engine, transport }: Combination,
  records: number,
  count: number,
): Promise<Readonly<Record<string, Cost>>> {
  const dir = mkdtempSync(join(tmpdir(), 'broadsheet-bench-'));
  const bytes = batch(records);
  const costs: Record<string, Cost> = {};
  const load = async (probed: Probed, frames: readonly Uint8Array[], answers: number) => {
    const port = Number(probed.address.split(':')[1]);
    await framesLoad(
      { port, pid: probed.pid },
      {
        frames,
        connections: 1,
        depth: DEPTH,
        count: answers,
        seconds: 60,
        answerBytes: [1, 1 << 20],
        unitsPerAnswer: 1,
      },
    );
  };
  const probed = await Probed.start({ dir, engine, transport });
  const target = { port: Number(probed.address.split(':')[1]), pid: probed.pid };
  await withTopic(target, 1, async (topic) => {
    const kinds = {
      produce: [produceRequest(topic, 0, bytes)],
      fetch: [fetchRequest(topic, 0, 0, bytes.length)],
    };
    for (const [kind, frames] of Object.entries(kinds)) {
      // The compilers are done by then.
      await load(probed, frames, 2 * count);
      await probed.probe();
      await load(probed, frames, 2 * count);
      const { allocated, gc } = await probed.probe();
      costs[`${kind}: heap allocated`] = { value: allocated / (2 * count), unit: 'bytes a request' };
      costs[`${kind}: pauses of the collector, p99`] = { value: gc.p99, unit: 'ms' };
      costs[`${kind}: pauses of the collector, longest`] = { value: gc.max, unit: 'ms' };
    }
  });
  await probed.stop();
  rmSync(dir, { recursive: true, force: true });
  return costs;
}

export async function garbage({ rounds, seconds }: Scale): Promise<Comparison[]> {
  const count = Math.round(20_000 * Math.min(seconds, 1));
  const results: Comparison[] = [];
  for (const combination of COMBINATIONS) {
    const found = await compareCosts(
      Math.min(rounds, 3),
      () => costOf(combination, MANY, count),
      () => costOf(combination, 1, count),
    );
    results.push(
      ...found.map((each) => ({
        ...each,
        name: `${combination.title}, batches of ${MANY} records beside those of 1, ${each.name}`,
      })),
    );
  }
  return results;
}

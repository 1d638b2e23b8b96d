/** Suite `disk`: how late the event loop is while requests come and the disk is slow, beside the same on the same disk when it
 * is not. Cold: the pages of what is fetched are dropped again and again. Flushes: every append to one topic waits for fdatasync.
 * With a device of our own (slow-device.ts) it is throttled, also so that write-back makes writers wait, and stalled. */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from '../../src/client/client.ts';
import { COMBINATIONS, type Combination } from '../../test/support/combinations.ts';
import { chill } from '../../test/support/native-files.ts';
import { Probed } from '../../test/support/probed.ts';
import { type Comparison, type Cost, compareCosts, type Scale } from '../support.ts';
import { SlowDevice } from './slow-device.ts';

const MIB = 1 << 20;
const FILL_BYTES = 64 * MIB;
const BATCH = 8;
const VALUE = Buffer.alloc(64 * 1024, 'd');

export interface Disk {
  readonly cold: boolean;
  readonly flushing: boolean;
  /** Of the device, bytes per second each way; 0: what it can. */
  readonly pace: number;
  /** Writers wait from so many bytes on that are not written back. */
  readonly dirty?: number;
}

const WARM: Disk = { cold: false, flushing: false, pace: 0 };
/** A byte per second: as good as none. */
const STALLED = 1;

async function costOf(
  combination: Combination,
  disk: Disk,
  seconds: number,
): Promise<Readonly<Record<string, Cost>>> {
  const device = SlowDevice.missing() === undefined ? new SlowDevice() : undefined;
  const dir = device?.path ?? mkdtempSync(join(tmpdir(), 'broadsheet-bench-'));
  try {
    return await delayOf(combination, disk, seconds, dir, device);
  } finally {
    if (device !== undefined) device.close();
    else rmSync(dir, { recursive: true, force: true });
  }
}

async function delayOf(
  { engine, transport }: Combination,
  { cold, flushing, pace, dirty }: Disk,
  seconds: number,
  dir: string,
  device: SlowDevice | undefined,
): Promise<Readonly<Record<string, Cost>>> {
  const probed = await Probed.start({ dir, engine, transport });
  const clients = await Promise.all(Array.from({ length: 6 }, () => Client.connect(probed.address)));
  const [admin, first, second, writer, flusher, small] = clients as [
    ...[Client, Client, Client, Client, Client, Client],
  ];
  const heal = () => {
    device?.limit(0);
    device?.limitDirty(undefined);
  };
  try {
    await admin.createTopics([
      { name: 'read', partitions: 1 },
      { name: 'write', partitions: 4 },
      { name: 'flushed', partitions: 1, configs: { 'flush.messages': '1' } },
    ]);
    const records = Array.from({ length: BATCH }, () => ({ timestamp: Date.now(), value: VALUE }));
    const batches = FILL_BYTES / (BATCH * VALUE.length);
    for (let n = 0; n < batches; n++) await admin.produce('read', 0, records);
    const files = readdirSync(join(dir, 'data0', 'read-0'))
      .filter((name) => name.endsWith('.log'))
      .map((name) => join(dir, 'data0', 'read-0', name));
    execFileSync('sync', ['-f', dir]);
    const chillAll = () => {
      for (const file of files) chill(file);
    };
    let over = false;
    let fetched = 0;
    const until = async (what: (n: number) => Promise<unknown>) => {
      for (let n = 0; !over; n++) await what(n);
    };
    const reader = (client: Client, step: number) =>
      until(async (n) => {
        await client.fetch('read', 0, ((n * step) % batches) * BATCH, { maxWaitMs: 0 });
        fetched++;
      });
    const running = Promise.all([
      reader(first, 7),
      reader(second, 11),
      until((n) => writer.produce('write', n % 4, records.slice(0, 1)).then(() => sleep(2))),
      until(async () => {
        if (flushing) await flusher.produce('flushed', 0, records.slice(0, 1));
        await sleep(2);
      }),
      until(() => small.metadata([]).then(() => sleep(1))),
      until(async () => {
        // Would wait for a stalled device.
        if (cold && pace !== STALLED) chillAll();
        await sleep(50);
      }),
    ]);
    await sleep(1_000);
    if (cold) chillAll();
    if (dirty !== undefined) device!.limitDirty(dirty);
    if (pace > 0) device!.limit(pace);
    await probed.probe();
    await sleep(10_000 * seconds);
    const { loopDelay } = await probed.probe();
    over = true;
    heal();
    await running;
    if (fetched === 0) throw new Error('nothing was fetched');
    return {
      'delay of the event loop, p99': { value: loopDelay.p99, unit: 'ms' },
      'delay of the event loop, longest': { value: loopDelay.max, unit: 'ms' },
    };
  } finally {
    heal();
    await Promise.all(clients.map((client) => client.close()));
    await probed.stop();
  }
}

export async function slowDisks({ rounds, seconds }: Scale): Promise<Comparison[]> {
  const kinds: [string, Disk][] = [
    ['cold reads', { ...WARM, cold: true }],
    ['flushes', { ...WARM, flushing: true }],
  ];
  if (SlowDevice.missing() === undefined) {
    kinds.push(
      ['cold reads and flushes, 16 MiB/s', { cold: true, flushing: true, pace: 16 * MIB }],
      ['write-back of 4 MiB/s that lets 8 MiB wait', { ...WARM, pace: 4 * MIB, dirty: 8 * MIB }],
      ['cold reads and flushes, stalled', { cold: true, flushing: true, pace: STALLED }],
    );
  }
  const results: Comparison[] = [];
  for (const combination of COMBINATIONS) {
    for (const [title, disk] of kinds) {
      const found = await compareCosts(
        Math.min(rounds, 3),
        () => costOf(combination, disk, seconds),
        () => costOf(combination, WARM, seconds),
        { 'delay of the event loop, p99': 0.5 },
      );
      results.push(
        ...found.map((each) => ({
          ...each,
          name: `${combination.title}, ${title} beside warm, ${each.name}`,
        })),
      );
    }
  }
  return results;
}

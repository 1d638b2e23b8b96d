/** Suite `disk`: how late the event loop is while requests come and the disk is slow, beside the same with a warm page cache.
 * Cold: the pages of what is fetched are dropped again and again. Slow: with root and a cgroup of version 1, reads and writes of
 * the device are throttled too; else it says that it could not. Flushes: every append waits for fdatasync. */
import { execFileSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from '../../src/client/client.ts';
import { COMBINATIONS, type Combination } from '../../test/support/combinations.ts';
import { chill } from '../../test/support/native-files.ts';
import { Probed } from '../../test/support/probed.ts';
import { type Comparison, type Cost, compareCosts, type Scale } from '../support.ts';

const MIB = 1 << 20;
const FILL_BYTES = 64 * MIB;
const BATCH = 8;
const VALUE = Buffer.alloc(64 * 1024, 'd');
/** Of the throttled device, bytes per second each way. */
const THROTTLE = 16 * MIB;

export interface Disk {
  readonly cold: boolean;
  readonly flushing: boolean;
  readonly throttled: boolean;
}

const CGROUP = '/sys/fs/cgroup/blkio';

/** Puts a process under a throttled group; undefined where that can't be done. */
function throttle(pid: number, dir: string): (() => void) | undefined {
  const group = `${CGROUP}/broadsheet-${pid}`;
  try {
    if (!existsSync(`${CGROUP}/blkio.throttle.read_bps_device`)) return undefined;
    mkdirSync(group);
    const { dev } = statSync(dir);
    // As the kernel numbers a whole disk: its partitions are throttled by it.
    const disk = `${(dev >> 8) & 0xfff}:${dev & 0xff}`;
    for (const way of ['read', 'write']) {
      writeFileSync(`${group}/blkio.throttle.${way}_bps_device`, `${disk} ${THROTTLE}\n`);
    }
    // A thread at a time, the I/O threads with them.
    for (const thread of readdirSync(`/proc/${pid}/task`)) writeFileSync(`${group}/tasks`, thread);
  } catch {
    return undefined;
  }
  return () => {
    for (const thread of readdirSync(`/proc/${pid}/task`)) writeFileSync(`${CGROUP}/tasks`, thread);
    rmdirSync(group);
  };
}

export function canThrottle(): boolean {
  const sleeper = mkdtempSync(join(tmpdir(), 'broadsheet-bench-'));
  const undo = throttle(process.pid, sleeper);
  undo?.();
  rmSync(sleeper, { recursive: true });
  return undo !== undefined;
}

async function costOf(
  { engine, transport }: Combination,
  { cold, flushing, throttled }: Disk,
  seconds: number,
): Promise<Readonly<Record<string, Cost>>> {
  const dir = mkdtempSync(join(tmpdir(), 'broadsheet-bench-'));
  const probed = await Probed.start({ dir, engine, transport });
  const clients = await Promise.all(Array.from({ length: 5 }, () => Client.connect(probed.address)));
  const [admin, first, second, writer, small] = clients as [Client, Client, Client, Client, Client];
  let undo: (() => void) | undefined;
  try {
    const configs = { 'flush.messages': flushing ? '1' : '1000000' };
    await admin.createTopics([
      { name: 'read', partitions: 1 },
      { name: 'write', partitions: 4, configs },
    ]);
    const records = Array.from({ length: BATCH }, () => ({ timestamp: Date.now(), value: VALUE }));
    const batches = FILL_BYTES / (BATCH * VALUE.length);
    for (let n = 0; n < batches; n++) await admin.produce('read', 0, records);
    const files = readdirSync(join(dir, 'data0', 'read-0'))
      .filter((name) => name.endsWith('.log'))
      .map((name) => join(dir, 'data0', 'read-0', name));
    execFileSync('sync');
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
    if (throttled) undo = throttle(probed.pid, dir);
    const running = Promise.all([
      reader(first, 7),
      reader(second, 11),
      until((n) => writer.produce('write', n % 4, records.slice(0, 1)).then(() => sleep(2))),
      until(() => small.metadata([]).then(() => sleep(1))),
      until(async () => {
        if (cold) for (const file of files) chill(file);
        await sleep(50);
      }),
    ]);
    await sleep(1_000 * Math.min(seconds, 1));
    await probed.probe();
    await sleep(10_000 * seconds);
    const { loopDelay } = await probed.probe();
    over = true;
    undo?.();
    undo = undefined;
    await running;
    if (fetched === 0) throw new Error('nothing was fetched');
    return {
      'delay of the event loop, p99': { value: loopDelay.p99, unit: 'ms' },
      'delay of the event loop, longest': { value: loopDelay.max, unit: 'ms' },
    };
  } finally {
    undo?.();
    await Promise.all(clients.map((client) => client.close()));
    await probed.stop();
    rmSync(dir, { recursive: true, force: true });
  }
}

const WARM: Disk = { cold: false, flushing: false, throttled: false };

export async function slowDisks({ rounds, seconds }: Scale): Promise<Comparison[]> {
  const kinds: [string, Disk][] = [
    ['cold reads', { ...WARM, cold: true }],
    ['flushes', { ...WARM, flushing: true }],
  ];
  if (canThrottle()) {
    kinds.push([
      `cold reads and flushes, device throttled to ${THROTTLE / MIB} MiB/s`,
      { cold: true, flushing: true, throttled: true },
    ]);
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

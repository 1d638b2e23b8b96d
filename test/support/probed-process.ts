/** Brokers in a process that says what it holds: see probed.ts. argv: JSON of ProbedOptions. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { createInterface } from 'node:readline';
import { GCProfiler } from 'node:v8';
import { type Broker, createBroker, createLogger } from '../../src/index.ts';
import type { ProbedOptions, Snapshot } from './probed.ts';

const options = JSON.parse(process.argv[2]!) as ProbedOptions;
let profiler = new GCProfiler();
let heapAtStart = 0;
const delay = monitorEventLoopDelay({ resolution: 1 });
delay.enable();

function percentile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(Math.floor(sorted.length * share), sorted.length - 1)] ?? 0;
}

/** Begins another profile; what the one before saw: the pauses in ms, and the bytes of heap that were allocated. */
function collections(): { pauses: number[]; allocated: number } {
  const { heapUsed } = process.memoryUsage();
  const seen = profiler.stop()?.statistics ?? [];
  let allocated = -heapAtStart;
  for (const { beforeGC, afterGC } of seen) {
    allocated += beforeGC.heapStatistics.usedHeapSize - afterGC.heapStatistics.usedHeapSize;
  }
  profiler = new GCProfiler();
  profiler.start();
  heapAtStart = process.memoryUsage().heapUsed;
  return { pauses: seen.map(({ cost }) => cost / 1000), allocated: allocated + heapUsed };
}

/** Of what is measured between two of them, since the last one. */
function snapshot(): Snapshot {
  const { pauses, allocated } = collections();
  const { rss, heapUsed, arrayBuffers, external } = process.memoryUsage();
  const found: Snapshot = {
    ...{ rss, heapUsed, arrayBuffers, external, allocated },
    descriptors: readdirSync('/proc/self/fd').length,
    mappings: readFileSync('/proc/self/maps', 'utf8').split('\n').length - 1,
    loopDelay: { p50: delay.percentile(50) / 1e6, p99: delay.percentile(99) / 1e6, max: delay.max / 1e6 },
    gc: { count: pauses.length, p99: percentile(pauses, 0.99), max: Math.max(0, ...pauses) },
  };
  delay.reset();
  return found;
}

const say = (value: unknown) => process.stdout.write(`${JSON.stringify(value)}\n`);
// Its lines go to stderr, which the tests read too.
const logger = createLogger('warn');
const brokers: Broker[] = [];
try {
  for (let n = 0; n < options.brokers; n++) {
    const { engine, transport, config } = options;
    const dataDir = join(options.dir, `data${n}`);
    brokers.push(
      await createBroker({ dataDir, host: '127.0.0.1', port: 0, engine, transport, config, logger }),
    );
  }
} catch (error) {
  process.stderr.write(`${(error as Error).message}\n`);
  process.exit(1);
}
say({ pid: process.pid, addresses: brokers.map((broker) => broker.bootstrapServers) });

profiler.start();
for await (const line of createInterface({ input: process.stdin })) {
  if (line === 'gc') globalThis.gc!();
  if (line === 'close') break;
  say(snapshot());
}
for (const broker of brokers) await broker.close();
process.exit(0);

/** Brokers in a process that says what it holds: see probed.ts. argv: JSON of ProbedOptions. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { monitorEventLoopDelay, PerformanceObserver } from 'node:perf_hooks';
import { createInterface } from 'node:readline';
import { type Broker, createBroker, createLogger } from '../../src/index.ts';
import type { ProbedOptions, Snapshot } from './probed.ts';

const options = JSON.parse(process.argv[2]!) as ProbedOptions;
const pauses: number[] = [];
new PerformanceObserver((list) => {
  for (const { duration } of list.getEntries()) pauses.push(duration);
}).observe({ entryTypes: ['gc'] });
const delay = monitorEventLoopDelay({ resolution: 1 });
delay.enable();

function percentile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(Math.floor(sorted.length * share), sorted.length - 1)] ?? 0;
}

/** Of what is measured between two of them, since the last one. */
function snapshot(): Snapshot {
  const { rss, heapUsed, arrayBuffers, external } = process.memoryUsage();
  const found: Snapshot = {
    ...{ rss, heapUsed, arrayBuffers, external },
    descriptors: readdirSync('/proc/self/fd').length,
    mappings: readFileSync('/proc/self/maps', 'utf8').split('\n').length - 1,
    loopDelay: { p50: delay.percentile(50) / 1e6, p99: delay.percentile(99) / 1e6, max: delay.max / 1e6 },
    gc: { count: pauses.length, p99: percentile(pauses, 0.99), max: Math.max(0, ...pauses) },
  };
  delay.reset();
  pauses.length = 0;
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

for await (const line of createInterface({ input: process.stdin })) {
  if (line === 'gc') globalThis.gc!();
  if (line === 'close') break;
  say(snapshot());
}
for (const broker of brokers) await broker.close();
process.exit(0);

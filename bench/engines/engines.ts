/**
 * `npm run bench:engines`: Produce and Fetch by each engine and by a bare C loop, side by side in rounds that take turns, over
 * loopback and between two network namespaces. The client is bench/native/frames-client.c for all.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fetchFrames, produceAnswerBytes, produceFrames } from '../broker-load.ts';
import { compile, median } from '../support.ts';
import type { Network } from './network.ts';
import { BrokerSide, SIDES, type SideName, withBare } from './sides.ts';

const MEBIBYTE = 1 << 20;
/** As many bytes as a topic's name has. */
const TOPICS = { produce: 'engines-p', fetch: 'engines-f' };
/** Of an answer to a Fetch without its records. */
const FETCH_HEADER = 97;
/** Five in flight is what Kafka's producer allows itself. */
const PRODUCE_DEPTH = 5;
const FETCH_BATCHES = 1024;
/** Where more is in flight, answers take longer than a short measurement. */
const LARGE_FLIGHT_BYTES = 64 * MEBIBYTE;
/** How much longer than others such a one is measured. */
const LARGE_FLIGHT_TIMES = 5;

export interface EngineScale {
  readonly rounds: number;
  /** Of one measurement. */
  readonly seconds: number;
  readonly batchBytes: readonly number[];
  readonly connections: { readonly produce: readonly number[]; readonly fetch: readonly number[] };
  /** What fetches read, at most. */
  readonly storedBytes: number;
}

/** One batch a request; its bytes are the batch's own. The last is what fits a broker's message.max.bytes. */
export const FULL: EngineScale = {
  rounds: 5,
  seconds: 0.4,
  batchBytes: [100, 1024, 16 * 1024, MEBIBYTE],
  // Consumers of the same data are connections.
  connections: { produce: [1, 64], fetch: [1, 16, 64] },
  storedBytes: 64 * MEBIBYTE,
};
export const SMALL: EngineScale = { ...FULL, rounds: 1, seconds: 0.1, storedBytes: 8 * MEBIBYTE };

interface Sample {
  readonly answersPerSecond: number;
  readonly mebibytesPerSecond: number;
  readonly cpuSecondsPerGibibyte: number;
  /** From a request's first byte to its answer's last, microseconds. */
  readonly p50: number;
  readonly p99: number;
  readonly p999: number;
  /** Shares of what was sent; undefined of the bare loop, which uses sendfile(2) for what it reads. */
  readonly bySendfile?: number;
  readonly byCopy?: number;
}

export interface Row extends Sample {
  readonly network: Network['name'];
  readonly what: 'produce' | 'fetch';
  readonly batchBytes: number;
  readonly connections: number;
  readonly side: SideName;
  /** Throughput, and bytes per second of processor, over the bare loop's in the same round: the median and the ends. */
  readonly toBare: readonly [min: number, median: number, max: number];
  readonly toBarePerCpu: readonly [min: number, median: number, max: number];
}

interface Shape {
  readonly what: 'produce' | 'fetch';
  readonly batchBytes: number;
  readonly connections: number;
}

interface Target {
  readonly port: number;
  readonly pid: number;
}

/** Frames lie in files: made once, sent by every client. */
class Frames {
  readonly #dir: string;
  readonly #made = new Map<string, string>();

  constructor(dir: string) {
    this.#dir = dir;
  }

  of({ what, batchBytes }: Shape, stored: number): string {
    const key = `${what}-${batchBytes}`;
    let path = this.#made.get(key);
    if (path === undefined) {
      path = join(this.#dir, key);
      const topic = `${TOPICS[what]}-${batchBytes}`;
      const frames =
        what === 'produce' ? produceFrames(topic, 1, batchBytes) : fetchFrames(topic, stored, batchBytes);
      writeFileSync(path, Buffer.concat(frames));
      this.#made.set(key, path);
    }
    return path;
  }
}

async function load(
  network: Network,
  target: Target,
  shape: Shape,
  frames: string,
  limit: { readonly count: number; readonly seconds: number },
): Promise<Sample> {
  const depth = shape.what === 'produce' ? PRODUCE_DEPTH : 1;
  const { count, seconds } = limit;
  const args = [target.port, shape.connections, depth, frames, count, seconds, target.pid, network.host];
  const [program, rest] = network.command('client', compile('frames-client'), args.map(String));
  const child = spawn(program, rest, { stdio: ['ignore', 'pipe', 'inherit'] });
  let text = '';
  child.stdout.on('data', (chunk) => {
    text += chunk;
  });
  const [code] = await once(child, 'close');
  if (code !== 0) throw new Error(`the client ended with ${code}`);
  const [answers, took, cpu, least, most, p50, p99, p999] = text.split(' ').map(Number) as number[];
  const topic = `${TOPICS[shape.what]}-${shape.batchBytes}`;
  const [low, high] =
    shape.what === 'produce'
      ? [produceAnswerBytes(topic), produceAnswerBytes(topic)]
      : [shape.batchBytes, shape.batchBytes + 2 * FETCH_HEADER];
  if (least! < low || most! > high)
    throw new Error(`answers of ${least} to ${most} bytes, not ${low} to ${high}`);
  const bytes = answers! * shape.batchBytes;
  return {
    answersPerSecond: answers! / took!,
    mebibytesPerSecond: bytes / MEBIBYTE / took!,
    // The kernel counts at switches and ticks: a short measurement may see none.
    cpuSecondsPerGibibyte: (Math.max(cpu!, 1e-6) / bytes) * 1024 * MEBIBYTE,
    p50: p50!,
    p99: p99!,
    p999: p999!,
  };
}

function storedBatches(scale: EngineScale, batchBytes: number): number {
  return Math.max(1, Math.min(FETCH_BATCHES, Math.floor(scale.storedBytes / batchBytes)));
}

/** 1 MiB is too much for message.max.bytes, of which the batch is a part. */
const sent = (batchBytes: number): number => (batchBytes >= MEBIBYTE ? MEBIBYTE - 1024 : batchBytes);

function shapesOf(scale: EngineScale): Shape[] {
  return (['produce', 'fetch'] as const).flatMap((what) =>
    scale.batchBytes.flatMap((size) =>
      scale.connections[what].map((connections) => ({ what, batchBytes: sent(size), connections })),
    ),
  );
}

const threeOf = (values: readonly number[]): [number, number, number] => [
  Math.min(...values),
  median(values),
  Math.max(...values),
];

function rowsOf(network: Network, shape: Shape, samples: ReadonlyMap<SideName, readonly Sample[]>): Row[] {
  const bare = samples.get('bare C loop')!;
  return SIDES.map((side) => {
    const own = samples.get(side)!;
    const of = (key: keyof Sample) => median(own.map((sample) => sample[key] ?? 0));
    return {
      network: network.name,
      ...shape,
      side,
      answersPerSecond: of('answersPerSecond'),
      mebibytesPerSecond: of('mebibytesPerSecond'),
      cpuSecondsPerGibibyte: of('cpuSecondsPerGibibyte'),
      p50: of('p50'),
      p99: of('p99'),
      p999: of('p999'),
      ...(own[0]!.bySendfile === undefined ? {} : { bySendfile: of('bySendfile'), byCopy: of('byCopy') }),
      toBare: threeOf(own.map((sample, i) => sample.mebibytesPerSecond / bare[i]!.mebibytesPerSecond)),
      toBarePerCpu: threeOf(
        own.map((sample, i) => bare[i]!.cpuSecondsPerGibibyte / sample.cpuSecondsPerGibibyte),
      ),
    };
  });
}

/** What leaves by which path while `use` runs. */
async function withPaths(broker: BrokerSide, use: () => Promise<Sample>): Promise<Sample> {
  const before = await broker.stats();
  const sample = await use();
  const after = await broker.stats();
  const all = after.bytesSent - before.bytesSent;
  return {
    ...sample,
    bySendfile: (after.bytesBySendfile - before.bytesBySendfile) / all,
    byCopy: (after.bytesByCopy - before.bytesByCopy) / all,
  };
}

/** What a client left behind is worked on before the next one begins. */
async function atRest(broker: BrokerSide): Promise<void> {
  // Connections that wait to be accepted are not counted: it has to be none for some time.
  for (let quiet = 0; quiet < 3; quiet++) {
    if ((await broker.stats()).connections > 0) quiet = -1;
    await sleep(5);
  }
}

function secondsOf(shape: Shape, seconds: number): number {
  const depth = shape.what === 'produce' ? PRODUCE_DEPTH : 1;
  const large = shape.batchBytes * shape.connections * depth > LARGE_FLIGHT_BYTES;
  return large ? seconds * LARGE_FLIGHT_TIMES : seconds;
}

/** Measures all shapes on one network; `tell` hears of each as it is done. */
export async function compareEngines(
  network: Network,
  scale: EngineScale,
  tell: (rows: readonly Row[]) => void,
): Promise<Row[]> {
  const dir = mkdtempSync(join(tmpdir(), 'broadsheet-engines-'));
  const frames = new Frames(dir);
  const brokers = new Map<SideName, BrokerSide>();
  try {
    for (const name of SIDES)
      if (name !== 'bare C loop') brokers.set(name, await BrokerSide.start(network, dir, name));
    for (const broker of brokers.values()) {
      for (const size of scale.batchBytes) {
        const shape: Shape = { what: 'produce', batchBytes: sent(size), connections: 1 };
        for (const topic of Object.values(TOPICS)) await broker.makeTopic(`${topic}-${shape.batchBytes}`);
        // What is fetched is produced by the frames of its own topic.
        const path = join(dir, 'fill');
        writeFileSync(path, produceFrames(`${TOPICS.fetch}-${shape.batchBytes}`, 1, shape.batchBytes)[0]!);
        const count = storedBatches(scale, shape.batchBytes);
        await load(network, broker, shape, path, { count, seconds: 120 });
      }
    }
    const file = join(dir, 'records');
    writeFileSync(file, Buffer.alloc(scale.storedBytes, 'broadsheet '));
    const all: Row[] = [];
    for (const shape of shapesOf(scale)) {
      const path = frames.of(shape, storedBatches(scale, shape.batchBytes));
      const limit = { count: Number.MAX_SAFE_INTEGER, seconds: secondsOf(shape, scale.seconds) };
      const topic = `${TOPICS.produce}-${shape.batchBytes}`;
      const bareArgs =
        shape.what === 'produce'
          ? ['produce', join(dir, 'bare'), produceAnswerBytes(topic)]
          : ['fetch', file, FETCH_HEADER, shape.batchBytes];
      const measure = async (side: SideName): Promise<Sample> => {
        const broker = brokers.get(side);
        if (broker !== undefined) await atRest(broker);
        return broker === undefined
          ? withBare(network, bareArgs, (target) => load(network, target, shape, path, limit))
          : withPaths(broker, () => load(network, broker, shape, path, limit));
      };
      const samples = new Map<SideName, Sample[]>(SIDES.map((side) => [side, []]));
      // Whoever compiles while running has done so by the time it counts.
      for (const side of SIDES) await measure(side);
      for (let round = 0; round < scale.rounds; round++) {
        // Another one begins each round.
        for (let i = 0; i < SIDES.length; i++) {
          const side = SIDES[(i + round) % SIDES.length]!;
          samples.get(side)!.push(await measure(side));
        }
      }
      const rows = rowsOf(network, shape, samples);
      tell(rows);
      all.push(...rows);
    }
    return all;
  } finally {
    for (const broker of brokers.values()) await broker.stop();
    rmSync(dir, { recursive: true, force: true });
  }
}

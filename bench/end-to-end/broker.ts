/** Produce and Fetch through sockets: this broker in a process of its own, against the least that a server can do with
 * the same frames (suite `broker`) or against Apache Kafka (suite `kafka`, which needs it: see README). */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  fetchFrames,
  framesLoad,
  produceAnswerBytes,
  produceFrames,
  type Server,
  startBare,
  startBroadsheet,
  startKafka,
  type Target,
  withTopic,
} from '../broker-load.ts';
import { type Comparison, compare, type Measurement, type Scale } from '../support.ts';

const MEBIBYTE = 1 << 20;
/** As many topic names have, and an answer to a Fetch without its records. */
const NAME = 'bench-000000';
const FETCH_HEADER = 100;
const KAFKA_PORT = 22290;
/** A load that has not reached its count by then ends, s. */
const LONGEST = 30;

interface Shape {
  readonly batchBytes: number;
  readonly connections: number;
  readonly depth: number;
  readonly partitions: number;
}

/** Five in flight is what Kafka's producer allows itself. */
const PRODUCES: readonly Shape[] = [
  { batchBytes: 16_384, connections: 1, depth: 5, partitions: 1 },
  { batchBytes: 16_384, connections: 64, depth: 5, partitions: 8 },
  { batchBytes: MEBIBYTE - 1024, connections: 1, depth: 5, partitions: 1 },
  { batchBytes: MEBIBYTE - 1024, connections: 64, depth: 1, partitions: 8 },
];
const TINY: readonly Shape[] = [
  { batchBytes: 100, connections: 1, depth: 5, partitions: 1 },
  { batchBytes: 100, connections: 64, depth: 5, partitions: 8 },
];
const FETCHES: readonly Shape[] = [
  { batchBytes: MEBIBYTE - 1024, connections: 1, depth: 1, partitions: 1 },
  { batchBytes: MEBIBYTE - 1024, connections: 64, depth: 1, partitions: 1 },
];

function nameOf(what: string, { batchBytes, connections, depth }: Shape): string {
  const size = batchBytes < 1024 ? `${batchBytes} B` : `${Math.round(batchBytes / 1024)} KiB`;
  return `${what} ${size}, ${connections} connection${connections > 1 ? 's' : ''}, depth ${depth}`;
}

function produceLoad(topic: string, shape: Shape, scale: Scale) {
  const tiny = shape.batchBytes < 1024;
  const answerBytes = produceAnswerBytes(topic);
  return {
    ...shape,
    frames: produceFrames(topic, shape.partitions, shape.batchBytes),
    count: tiny ? Number.MAX_SAFE_INTEGER : Math.ceil(scale.bytes / shape.batchBytes),
    seconds: tiny ? scale.seconds : LONGEST,
    answerBytes: [answerBytes, answerBytes] as const,
    unitsPerAnswer: tiny ? 1 : shape.batchBytes / MEBIBYTE,
  };
}

function produceTo(target: Target, shape: Shape, scale: Scale): Promise<Measurement> {
  return withTopic(target, shape.partitions, (topic) => framesLoad(target, produceLoad(topic, shape, scale)));
}

function fetchLoad(topic: string, shape: Shape, scale: Scale) {
  const batches = Math.ceil(scale.bytes / shape.batchBytes);
  return {
    ...shape,
    frames: fetchFrames(topic, batches, shape.batchBytes),
    // Fetching is so much faster than producing that the log is read more than once.
    count: 4 * batches,
    seconds: LONGEST,
    answerBytes: [shape.batchBytes, shape.batchBytes + FETCH_HEADER] as const,
    unitsPerAnswer: shape.batchBytes / MEBIBYTE,
  };
}

/** What one of two servers is measured by; `fetch` reads what was stored before. */
interface Side {
  readonly produce: (shape: Shape) => Promise<Measurement>;
  readonly fetch: (shape: Shape) => Promise<Measurement>;
}

async function against(ours: Side, theirs: Side, scale: Scale, other: string): Promise<Comparison[]> {
  const results: Comparison[] = [];
  const run = async (what: string, unit: string, shape: Shape, side: 'produce' | 'fetch') => {
    // Whoever compiles while running has done so by the time it counts.
    await ours[side](shape);
    await theirs[side](shape);
    results.push(
      await compare(
        `${nameOf(what, shape)}, ${other}`,
        unit,
        scale.rounds,
        () => ours[side](shape),
        () => theirs[side](shape),
      ),
    );
  };
  for (const shape of PRODUCES) await run('produce', 'MiB/s', shape, 'produce');
  for (const shape of TINY) await run('produce', '/s', shape, 'produce');
  for (const shape of FETCHES) await run('fetch', 'MiB/s', shape, 'fetch');
  return results;
}

/** Stores what fetches read, then calls `use` with the topic. */
function withRecords<T>(target: Target, scale: Scale, use: (topic: string) => Promise<T>): Promise<T> {
  return withTopic(target, 1, async (topic) => {
    await framesLoad(target, produceLoad(topic, { ...FETCHES[0]!, depth: 2 }, scale));
    return use(topic);
  });
}

function brokerSide(target: Target, topic: string, scale: Scale): Side {
  return {
    produce: (shape) => produceTo(target, shape, scale),
    fetch: (shape) => framesLoad(target, fetchLoad(topic, shape, scale)),
  };
}

/** Bare servers are started for each measurement, on a file of their own. */
function bareSide(dir: string, scale: Scale): Side {
  const within = async (
    args: readonly (string | number)[],
    use: (server: Server) => Promise<Measurement>,
  ): Promise<Measurement> => {
    const server = await startBare(args);
    try {
      return await use(server);
    } finally {
      await server.stop();
    }
  };
  const file = join(dir, 'records');
  return {
    produce: (shape) =>
      within(['produce', join(dir, 'bare'), produceAnswerBytes(NAME)], (server) =>
        framesLoad(server, produceLoad(NAME, shape, scale)),
      ),
    fetch: (shape) =>
      within(['fetch', file, FETCH_HEADER, shape.batchBytes], (server) =>
        framesLoad(server, fetchLoad(NAME, shape, scale)),
      ),
  };
}

export async function brokers(scale: Scale): Promise<Comparison[]> {
  const dir = mkdtempSync(join(tmpdir(), 'broadsheet-bare-'));
  const block = Buffer.alloc(MEBIBYTE, 'broadsheet ');
  for (let at = 0; at < scale.bytes; at += MEBIBYTE)
    writeFileSync(join(dir, 'records'), block, { flag: 'a' });
  const broker = await startBroadsheet();
  try {
    return await withRecords(broker, scale, (topic) =>
      against(brokerSide(broker, topic, scale), bareSide(dir, scale), scale, 'bare server'),
    );
  } finally {
    await broker.stop();
    rmSync(dir, { recursive: true });
  }
}

export async function kafkas(scale: Scale): Promise<Comparison[]> {
  const kafka = await startKafka(KAFKA_PORT);
  if (kafka === undefined)
    throw new Error('no Apache Kafka: set BROADSHEET_KAFKA to the command that starts one');
  const broker = await startBroadsheet();
  try {
    return await withRecords(broker, scale, (ours) =>
      withRecords(kafka, scale, (theirs) =>
        against(brokerSide(broker, ours, scale), brokerSide(kafka, theirs, scale), scale, 'Apache Kafka'),
      ),
    );
  } finally {
    await broker.stop();
    await kafka.stop();
  }
}

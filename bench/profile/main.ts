/**
 * `npm run bench:profile -- [produce] [fetch] [--batches 100,1024] [--connections 64] [--seconds 4] [--engine js] [--least 1.5]`:
 * where the processor time of a warmed broker goes, by perf(1), which has to be there. Prints a table: a column for each kind
 * of request and bytes of a batch, and what has at least `least` % of the samples of the process.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import {
  type FramesLoad,
  fetchFrames,
  framesLoad,
  produceAnswerBytes,
  produceFrames,
  startBroadsheet,
  type Target,
  withTopic,
} from '../broker-load.ts';
import { read, record } from './samples.ts';

const KINDS = ['produce', 'fetch'] as const;
type Kind = (typeof KINDS)[number];

const MEBIBYTE = 1 << 20;
/** Until V8 has compiled what is hot, s. */
const WARM_SECONDS = 3;
/** Five in flight is what Kafka's producer allows itself. */
const DEPTH = { produce: 5, fetch: 1 };
const PARTITIONS = { produce: 8, fetch: 1 };
/** What fetches read. */
const STORED_BYTES = 16 * MEBIBYTE;
const MOST_BATCHES = 1024;
/** Of an answer to a Fetch without its records, at most. */
const FETCH_HEADER = 200;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    batches: { type: 'string', default: `100,1024,${16 << 10},${MEBIBYTE - 1024}` },
    connections: { type: 'string', default: '64' },
    seconds: { type: 'string', default: '4' },
    least: { type: 'string', default: '1.5' },
    engine: { type: 'string', default: 'native' },
  },
});
const kinds = positionals.length > 0 ? (positionals as Kind[]) : KINDS;
const connections = Number(values.connections);
const seconds = Number(values.seconds);

function loadOf(kind: Kind, topic: string, batchBytes: number): FramesLoad {
  const stored = Math.max(1, Math.min(MOST_BATCHES, Math.floor(STORED_BYTES / batchBytes)));
  const answer = produceAnswerBytes(topic);
  return {
    frames:
      kind === 'produce'
        ? produceFrames(topic, PARTITIONS.produce, batchBytes)
        : fetchFrames(topic, stored, batchBytes),
    connections,
    depth: DEPTH[kind],
    count: Number.MAX_SAFE_INTEGER,
    seconds: WARM_SECONDS + seconds + 1,
    answerBytes: kind === 'produce' ? [answer, answer] : [batchBytes, batchBytes + FETCH_HEADER],
    unitsPerAnswer: 1,
  };
}

/** What is fetched. */
function fill(target: Target, topic: string, batchBytes: number): Promise<unknown> {
  const count = Math.max(1, Math.min(MOST_BATCHES, Math.floor(STORED_BYTES / batchBytes)));
  return framesLoad(target, {
    ...loadOf('produce', topic, batchBytes),
    frames: produceFrames(topic, 1, batchBytes),
    ...{ connections: 1, count, seconds: 120 },
  });
}

interface Column {
  readonly title: string;
  readonly microseconds: number;
  readonly shares: ReadonlyMap<string, number>;
}

function columnOf(title: string, file: string, pid: number, perCpuSecond: number): Column {
  const samples = read(file, pid);
  let all = 0;
  for (const count of samples.values()) all += count;
  const shares = new Map<string, number>();
  for (const [place, count] of samples) {
    shares.set(place, count / all);
    const group = `all of ${place.split(':')[0]}`;
    shares.set(group, (shares.get(group) ?? 0) + count / all);
  }
  return { title: `${title} (${all} samples)`, microseconds: 1e6 / perCpuSecond, shares };
}

/** A table in Markdown: a row for each place that has its share in any column, the largest first. */
function table(columns: readonly Column[], least: number): string {
  const places = new Map<string, number>();
  for (const { shares } of columns)
    for (const [place, share] of shares) places.set(place, Math.max(share, places.get(place) ?? 0));
  const row = (first: string, cells: readonly string[]) => `| ${[first, ...cells].join(' | ')} |`;
  const cell = (share = 0) => (share < 0.0005 ? '' : (100 * share).toFixed(1));
  return [
    row(
      '% of samples',
      columns.map(({ title }) => title),
    ),
    row(
      '---',
      columns.map(() => '---'),
    ),
    row(
      'us of processor per request',
      columns.map(({ microseconds }) => microseconds.toFixed(1)),
    ),
    ...[...places]
      .filter(([, share]) => share >= least)
      .sort((a, b) => b[1] - a[1])
      .map(([place]) =>
        row(
          place,
          columns.map(({ shares }) => cell(shares.get(place))),
        ),
      ),
  ].join('\n');
}

async function profile(target: Target, kind: Kind, batchBytes: number, dir: string): Promise<Column> {
  const file = join(dir, 'perf.data');
  return withTopic(target, PARTITIONS[kind], async (topic) => {
    if (kind === 'fetch') await fill(target, topic, batchBytes);
    const load = framesLoad(target, loadOf(kind, topic, batchBytes));
    await sleep(WARM_SECONDS * 1000);
    await record(target.pid, seconds, file);
    const { perCpuSecond } = await load;
    return columnOf(`${kind} ${batchBytes}`, file, target.pid, perCpuSecond!);
  });
}

// V8 then tells perf what it compiles, in a file that perf looks for.
process.env.NODE_OPTIONS = `${process.env.NODE_OPTIONS ?? ''} --perf-basic-prof-only-functions`;
const dir = mkdtempSync(join(tmpdir(), 'broadsheet-profile-'));
const broker = await startBroadsheet({
  engine: values.engine,
  'log.retention.bytes': String(512 * MEBIBYTE),
});
try {
  const columns: Column[] = [];
  for (const kind of kinds)
    for (const size of values.batches.split(','))
      columns.push(await profile(broker, kind, Number(size), dir));
  console.log(table(columns, Number(values.least) / 100));
} finally {
  await broker.stop();
  rmSync(dir, { recursive: true });
  rmSync(`/tmp/perf-${broker.pid}.map`, { force: true });
}

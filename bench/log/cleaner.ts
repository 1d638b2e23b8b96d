/**
 * Suite `cleaner`: a topic is filled, and this broker with either engine and Apache Kafka compact copies of it, in turns: what they
 * clean per second, the processor's time for it, and resident memory at its peak. The topic becomes a compacted one once the broker is idle, so
 * that the cleaning begins then; it ends with the checkpoint of cleaners.
 */
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { alterConfigs, ResourceType } from '../../src/client/admin.ts';
import { Client, LATEST } from '../../src/client/client.ts';
import type { CompressionName } from '../../src/protocol/compression.ts';
import { BatchBuilder } from '../../src/protocol/records/writer.ts';
import { BroadsheetError } from '../../src/runtime/errors.ts';
import { Random } from '../../test/support/random.ts';
import {
  broadsheet,
  connected,
  DEADLINE_MS,
  kafka,
  type Running,
  residentMebibytes,
  row,
  type Starter,
} from '../start/start.ts';
import { type Comparison, median, processCpuSecondsOf, ratioOf, type Scale } from '../support.ts';

const TOPIC = 'cleaned';
const MEBIBYTE = 1 << 20;
/** Filled, of Scale.bytes: 256 MiB at full scale. */
const SHARE = 4;
/** Of which the last one is not cleaned. */
const SEGMENTS = 8;
/** A key comes so often, on average. */
const REPEATS = 4;
const SETTINGS = { 'log.cleaner.backoff.ms': '100', 'log.retention.check.interval.ms': '3600000' };
const COMPACTED = [
  { name: 'cleanup.policy', value: 'compact' },
  { name: 'min.cleanable.dirty.ratio', value: '0.01' },
];

interface Shape {
  readonly name: string;
  readonly codec: CompressionName;
  readonly valueBytes: number;
  readonly recordsPerBatch: number;
}

const VALUES = [
  { name: '100 B', valueBytes: 100, recordsPerBatch: 100 },
  { name: '1 KiB', valueBytes: 1024, recordsPerBatch: 100 },
  { name: '512 KiB', valueBytes: 512 * 1024, recordsPerBatch: 1 },
];
const SHAPES: readonly Shape[] = [
  ...(['none', 'lz4', 'zstd'] as const).flatMap((codec) =>
    VALUES.map(({ name, ...rest }) => ({ ...rest, codec, name: `values of ${name}, ${codec}` })),
  ),
  { name: 'values of 100 B, one a batch', codec: 'none', valueBytes: 100, recordsPerBatch: 1 },
];

/** A walk over all keys in an order that is the same in each run (a full-period congruential generator's). */
class Keys {
  readonly #count: number;
  #state = 1;

  constructor(count: number) {
    this.#count = count;
  }

  next(): string {
    this.#state = (Math.imul(this.#state, 1_664_525) + 1_013_904_223) >>> 0;
    return `key-${this.#state % this.#count}`;
  }
}

/** Words in an order that does not repeat, so that codecs find as much in them as in text, however long a value is. */
function words(bytes: number): Buffer {
  const random = new Random(1);
  const word = () => Buffer.from(Array.from({ length: 2 + random.int(9) }, () => 97 + random.int(26)));
  const known = Array.from({ length: 4096 }, word);
  const space = Buffer.from(' ');
  const parts: Buffer[] = [];
  for (let size = 0; size < bytes; size += parts.at(-2)!.length + 1) parts.push(random.pick(known), space);
  return Buffer.concat(parts).subarray(0, bytes);
}

/** Fills the topic until so many bytes were sent, as they are before they are packed; segments are of an eighth of what is kept. */
async function fill(port: number, shape: Shape, bytes: number): Promise<void> {
  (await connected(port, performance.now() + DEADLINE_MS)).close();
  const client = await Client.connect(`127.0.0.1:${port}`);
  const perBatch = shape.recordsPerBatch * (shape.valueBytes + 20);
  const batches = Math.max(SEGMENTS * 2, Math.ceil(bytes / perBatch));
  const keys = new Keys(Math.ceil((batches * shape.recordsPerBatch) / REPEATS));
  const text = words(2 * MEBIBYTE);
  const random = new Random(2);
  let n = 0;
  const next = () => {
    const builder = new BatchBuilder({ compression: shape.codec });
    for (let i = 0; i < shape.recordsPerBatch; i++, n++) {
      const from = random.int(text.length - shape.valueBytes);
      const value = Buffer.from(text.subarray(from, from + shape.valueBytes));
      value.write(`${n} `);
      builder.append({ timestamp: Date.now(), key: keys.next(), value });
    }
    return builder.build();
  };
  let batch = next();
  const segmentBytes = Math.max(MEBIBYTE, Math.ceil((batch.length * batches) / SEGMENTS));
  const configs = { 'segment.bytes': String(segmentBytes), 'retention.ms': '-1' };
  await client.createTopics([{ name: TOPIC, partitions: 1, configs }]);
  for (let sent = 0; sent < batches; sent++, batch = next()) {
    const answer = await client.produceBytes(TOPIC, 0, batch);
    if (answer?.errorCode !== 0) throw new Error(`the topic is not filled: error ${answer?.errorCode}`);
  }
  await client.close();
}

/** Of the segments of the topic, in their order, bytes. */
function segmentSizes(home: string): number[] {
  const folder = join(home, 'data', `${TOPIC}-0`);
  const names = readdirSync(folder).filter((name) => name.endsWith('.log'));
  return names.sort().map((name) => statSync(join(folder, name)).size);
}

const sum = (values: readonly number[]) => values.reduce((all, value) => all + value, 0);

function isCleaned(home: string): boolean {
  try {
    return new RegExp(`^${TOPIC} 0 [1-9]`, 'm').test(
      readFileSync(join(home, 'data', 'cleaner-offset-checkpoint'), 'utf8'),
    );
  } catch {
    return false;
  }
}

interface Cleaning {
  readonly mebibytesPerSecond: number;
  readonly cpuPerGibibyte: number;
  /** Resident memory at its peak, MiB. */
  readonly memory: number;
}

async function untilServed(port: number): Promise<void> {
  (await connected(port, performance.now() + DEADLINE_MS)).close();
  const client = await Client.connect(`127.0.0.1:${port}`);
  for (;;) {
    try {
      await client.listOffset(TOPIC, 0, LATEST);
      break;
    } catch (error) {
      if (!(error instanceof BroadsheetError)) throw error;
      client.forget(TOPIC);
      await sleep(20);
    }
  }
  await client.close();
}

/** One cleaning of a copy of `filled`. */
async function clean(
  starter: Starter,
  filled: string,
  settings: Readonly<Record<string, string>>,
): Promise<Cleaning> {
  const home = mkdtempSync(join(tmpdir(), 'broadsheet-cleaner-copy-'));
  let running: Running | undefined;
  try {
    cpSync(filled, home, { recursive: true, filter: (path) => !path.endsWith('.sock') });
    const before = sum(segmentSizes(home).slice(0, -1));
    if (before === 0) throw new Error('no segment is closed: there is nothing to clean');
    running = await starter(home, untilServed, { ...SETTINGS, ...settings });
    const { pid, port } = running;
    let peak = 0;
    const client = await Client.connect(`127.0.0.1:${port}`);
    const cpu = processCpuSecondsOf(pid);
    const began = performance.now();
    await alterConfigs(client, { type: ResourceType.TOPIC, name: TOPIC }, COMPACTED);
    while (!isCleaned(home)) {
      peak = Math.max(peak, residentMebibytes(pid));
      if (performance.now() - began > DEADLINE_MS) throw new Error('the cleaning does not end');
      await sleep(5);
    }
    const seconds = (performance.now() - began) / 1000;
    const used = processCpuSecondsOf(pid) - cpu;
    await client.close();
    const after = sum(segmentSizes(home).slice(0, -1));
    if (after >= before) throw new Error(`${before} bytes became ${after}`);
    return {
      mebibytesPerSecond: before / MEBIBYTE / seconds,
      cpuPerGibibyte: used / (before / 1024 / MEBIBYTE),
      memory: peak,
    };
  } finally {
    await running?.stop('SIGKILL');
    rmSync(home, { recursive: true, force: true });
  }
}

/** Both engines against Apache Kafka; against a third broadsheet where `peer` says so, with fewer shapes. */
export async function cleanings(scale: Scale, peer?: 'broadsheet'): Promise<Comparison[]> {
  const sides: readonly (readonly [Starter, Readonly<Record<string, string>>])[] = [
    [broadsheet, { engine: 'native' }],
    [broadsheet, { engine: 'js' }],
    [peer === 'broadsheet' ? broadsheet : kafka, {}],
  ];
  const results: Comparison[] = [];
  for (const shape of peer === 'broadsheet' ? SHAPES.slice(2, 4) : SHAPES) {
    const filled = mkdtempSync(join(tmpdir(), 'broadsheet-cleaner-'));
    try {
      const filler = await broadsheet(filled, (port) => fill(port, shape, scale.bytes * SHARE));
      await filler.stop('SIGTERM');
      const rounds: Cleaning[][] = [];
      for (let round = 0; round < scale.rounds; round++) {
        const measured: Cleaning[] = [];
        for (let turn = 0; turn < sides.length; turn++) {
          const side = (round + turn) % sides.length;
          const [starter, settings] = sides[side]!;
          measured[side] = await clean(starter, filled, settings);
        }
        rounds.push(measured);
      }
      for (const [side, engine] of ['native', 'js'].entries()) {
        const pairs = (value: (each: Cleaning) => number) =>
          rounds.map((each) => [value(each[side]!), value(each[2]!)] as const);
        const name = `${shape.name}, ${engine} engine`;
        results.push(
          speeds(
            `${name}: cleaned`,
            pairs((each) => each.mebibytesPerSecond),
          ),
          row(
            `${name}: processor`,
            's/GiB',
            pairs((each) => each.cpuPerGibibyte),
          ),
          row(
            `${name}: peak memory`,
            'MiB',
            pairs((each) => each.memory),
          ),
        );
      }
    } finally {
      rmSync(filled, { recursive: true, force: true });
    }
  }
  return results;
}

/** Ours / theirs of each round. */
function speeds(name: string, pairs: readonly (readonly [number, number])[]): Comparison {
  return {
    name,
    unit: 'MiB/s',
    ours: median(pairs.map(([ours]) => ours)),
    theirs: median(pairs.map(([, theirs]) => theirs)),
    ratio: ratioOf(pairs.map(([ours, theirs]) => ours / theirs)),
  };
}

/** Load on a broker of any make: Produce and Fetch frames that bench/native/frames-client.c sends. */
import { type ChildProcess, execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, existsSync, mkdirSync, mkdtempSync, openSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { Client, LATEST } from '../src/client/client.ts';
import { API_FACTS } from '../src/protocol/generated/api-keys.ts';
import { writeFetchRequest } from '../src/protocol/generated/Fetch.ts';
import { writeRequestHeader } from '../src/protocol/generated/headers.ts';
import { writeProduceRequest } from '../src/protocol/generated/Produce.ts';
import { writeProduceResponse } from '../src/protocol/produce.ts';
import { Writer } from '../src/protocol/writer.ts';
import { BroadsheetError } from '../src/runtime/errors.ts';
import { batchOf, recordsIn } from './batches.ts';
import { compile, firstLine, type Measurement, spawnPinned } from './support.ts';

const PRODUCE = 0;
const FETCH = 1;
/** The last versions that name topics by name, so that frames fit any broker. */
const PRODUCE_VERSION = 12;
const FETCH_VERSION = 12;
/** Kafka's default of fetch.max.bytes. */
const FETCH_MAX_BYTES = 50 << 20;
/** Bytes of a response in front of its body: length, correlation id, tags. */
const RESPONSE_HEADER = 9;

/** A server under load. */
export interface Target {
  readonly port: number;
  readonly pid: number;
}

export interface Server extends Target {
  stop(): Promise<void>;
}

async function ended(child: ChildProcess): Promise<void> {
  if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
}

/**
 * This checkout's broker in a process of its own, pinned like all servers, on a directory that is removed with it. With
 * `home` it runs on `data` in there, and writes its log to the file `log` beside; nothing is removed. `memory`: with --memory
 * instead.
 */
export async function startBroadsheet(
  config: Readonly<Record<string, string>> = {},
  home?: string,
  memory = false,
): Promise<Server> {
  const dir = home === undefined ? mkdtempSync(join(tmpdir(), 'broadsheet-broker-')) : join(home, 'data');
  const file = (name: string) => fileURLToPath(new URL(`../${name}`, import.meta.url));
  const settings = Object.entries(config).flatMap(([key, value]) => ['--set', `${key}=${value}`]);
  const level = home === undefined ? 'warn' : 'info';
  const log = home === undefined ? undefined : openSync(join(home, 'log'), 'a');
  const args = [
    '--import',
    file('scripts/typescript.js'),
    file('src/cli.ts'),
    'start',
    ...(memory ? ['--memory'] : ['--data', dir]),
    ...['--host', '127.0.0.1', '--port', '0', '--log-level', level, ...settings],
  ];
  const child = spawnPinned('server', process.execPath, args, log);
  if (log !== undefined) closeSync(log);
  const stop = async () => {
    child.kill('SIGTERM');
    await ended(child);
    if (home === undefined) rmSync(dir, { recursive: true, force: true });
  };
  const text = await Promise.race([firstLine(child), ended(child).then(() => 'nothing: it ended')]);
  const port = /listens on [^ ]*:(\d+) /.exec(text)?.[1];
  if (port === undefined) {
    await stop();
    throw new Error(`the broker said ${text}`);
  }
  return { port: Number(port), pid: child.pid!, stop };
}

/** bench/native/bare-broker.c. */
export async function startBare(args: readonly (string | number)[]): Promise<Server> {
  const child = spawnPinned('server', compile('bare-broker'), args.map(String));
  const stop = async () => {
    child.kill();
    await ended(child);
  };
  return { port: Number(await firstLine(child)), pid: child.pid!, stop };
}

/** The command that starts Apache Kafka: BROADSHEET_KAFKA (default: a checkout's neighbour); undefined without one. */
export function kafkaCommand(): string | undefined {
  const command =
    process.env.BROADSHEET_KAFKA ?? fileURLToPath(new URL('../../shared/peers/kafka', import.meta.url));
  return existsSync(command) ? command : undefined;
}

/** Apache Kafka; undefined without a command. `home` is as for startBroadsheet(). */
export async function startKafka(port: number, home?: string): Promise<Server | undefined> {
  const command = kafkaCommand();
  if (command === undefined) return undefined;
  const dir = home ?? mkdtempSync(join(tmpdir(), 'broadsheet-kafka-'));
  const text = execFileSync(command, ['start', '--dir', dir, '--port', String(port)], { encoding: 'utf8' });
  const pid = Number(/pid (\d+)/.exec(text)?.[1]);
  const stop = async () => {
    execFileSync(command, ['stop', '--dir', dir]);
    if (home === undefined) rmSync(dir, { recursive: true, force: true });
  };
  return { port, pid, stop };
}

function frame(key: number, version: number, body: (w: Writer) => void): Uint8Array {
  const w = new Writer(1024);
  w.int32(0);
  writeRequestHeader(w, API_FACTS[key]!.requestHeaderVersion(version), {
    requestApiKey: key,
    requestApiVersion: version,
    correlationId: 1,
    clientId: 'bench',
  });
  body(w);
  w.patchInt32(0, w.position - 4);
  return w.bytes();
}

/** A Produce with acks=all. */
export function produceRequest(topic: string, index: number, records: Uint8Array): Uint8Array {
  return frame(PRODUCE, PRODUCE_VERSION, (w) =>
    writeProduceRequest(w, PRODUCE_VERSION, {
      acks: -1,
      timeoutMs: 30_000,
      topicData: [{ name: topic, partitionData: [{ index, records }] }],
    }),
  ).slice();
}

/** One Produce with acks=all of one batch for each of the partitions. */
export function produceFrames(topic: string, partitions: number, batchBytes: number): Uint8Array[] {
  const records = batchOf(batchBytes);
  return Array.from({ length: partitions }, (_, index) => produceRequest(topic, index, records));
}

/** Bytes of the answer to a Produce that was taken. */
export function produceAnswerBytes(topic: string): number {
  const w = new Writer(256);
  const partition = { index: 0, errorCode: 0, baseOffset: 0, logAppendTimeMs: -1, logStartOffset: 0 };
  writeProduceResponse(w, PRODUCE_VERSION, [{ topic, partitions: [partition] }]);
  return RESPONSE_HEADER + w.position;
}

/** A Fetch of at most `bytes`, from `fetchOffset` on. */
export function fetchRequest(
  topic: string,
  partition: number,
  fetchOffset: number,
  bytes: number,
): Uint8Array {
  return frame(FETCH, FETCH_VERSION, (w) =>
    writeFetchRequest(w, FETCH_VERSION, {
      maxWaitMs: 500,
      minBytes: 1,
      maxBytes: FETCH_MAX_BYTES,
      topics: [{ topic, partitions: [{ partition, fetchOffset, partitionMaxBytes: bytes }] }],
    }),
  ).slice();
}

/** Fetches of one batch each, from the first `count` batches of partition 0. */
export function fetchFrames(topic: string, count: number, batchBytes: number): Uint8Array[] {
  const step = recordsIn(batchBytes);
  return Array.from({ length: count }, (_, i) => fetchRequest(topic, 0, i * step, batchBytes));
}

export interface FramesLoad {
  readonly frames: readonly Uint8Array[];
  readonly connections: number;
  readonly depth: number;
  /** Answers after which the load ends. */
  readonly count: number;
  /** It ends after so long in any case. */
  readonly seconds: number;
  /** What an answer has at least and at most, bytes: an error would be shorter or longer. */
  readonly answerBytes: readonly [least: number, most: number];
  /** What an answer counts for. */
  readonly unitsPerAnswer: number;
}

export async function framesLoad(target: Target, load: FramesLoad): Promise<Measurement> {
  const dir = mkdtempSync(join(tmpdir(), 'broadsheet-frames-'));
  mkdirSync(dir, { recursive: true });
  const path = join(dir, 'frames');
  for (const bytes of load.frames) writeFileSync(path, bytes, { flag: 'a' });
  const args = [target.port, load.connections, load.depth, path, load.count, load.seconds, target.pid];
  const child = spawnPinned('client', compile('frames-client'), args.map(String));
  const text = await Promise.race([
    firstLine(child),
    once(child, 'exit').then(([code]) => Promise.reject(new Error(`the client ended with ${code}`))),
  ]);
  await ended(child);
  rmSync(dir, { recursive: true });
  const [answers, seconds, cpu, least, most] = text.split(' ').map(Number) as [
    number,
    number,
    number,
    number,
    number,
  ];
  if (least < load.answerBytes[0] || most > load.answerBytes[1]) {
    throw new Error(`answers of ${least} to ${most} bytes, expected ${load.answerBytes.join(' to ')}`);
  }
  const units = answers * load.unitsPerAnswer;
  return { perSecond: units / seconds, perCpuSecond: units / cpu };
}

let topics = 0;

/** Kafka tells of a leader a moment before it leads. */
async function usable(client: Client, topic: string, partition: number): Promise<void> {
  for (let left = 6000; ; left--) {
    try {
      await client.listOffset(topic, partition, LATEST);
      return;
    } catch (error) {
      if (!(error instanceof BroadsheetError) || left === 0) throw error;
      await sleep(20);
    }
  }
}

/** Makes a topic, waits until it can be used, and deletes it when `use` is done. */
export async function withTopic<T>(
  target: Target,
  partitions: number,
  use: (topic: string) => Promise<T>,
  configs: Readonly<Record<string, string>> = {},
): Promise<T> {
  // Names of one length, so that answers are.
  const name = `bench-${String(++topics).padStart(6, '0')}`;
  const client = await Client.connect(`127.0.0.1:${target.port}`);
  try {
    await client.createTopics([{ name, partitions, configs: { 'file.delete.delay.ms': '0', ...configs } }]);
    for (let index = 0; index < partitions; index++) await usable(client, name, index);
    return await use(name);
  } finally {
    await client.deleteTopics([name]);
    await client.close();
  }
}

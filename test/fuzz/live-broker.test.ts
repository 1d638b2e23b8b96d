/**
 * A live broker under mutated requests: whatever comes, each is answered or its connection closed, no handler fails, the
 * broker serves on, what it took can be read back, and its directory opens again.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import net from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { HANDLERS } from '../../src/broker/handlers/index.ts';
import { Client, LATEST } from '../../src/client/client.ts';
import { type Broker, createBroker } from '../../src/index.ts';
import { API_FACTS, ApiKey } from '../../src/protocol/generated/api-keys.ts';
import { readCreateTopicsRequest } from '../../src/protocol/generated/CreateTopics.ts';
import { Reader } from '../../src/protocol/reader.ts';
import { patchCrc } from '../../src/protocol/records/batch.ts';
import { BatchBuilder, type BatchOptions } from '../../src/protocol/records/writer.ts';
import { framed, request } from '../broker/garbage-cases.ts';
import { TestLogger } from '../broker/test-broker.ts';
import { type ApiVector, apiCodec } from '../support/golden/codecs.ts';
import { readLines } from '../support/golden/vectors.ts';
import { mutate } from '../support/mutate.ts';
import { Random } from '../support/random.ts';
import { scaled } from '../support/scale.ts';
import { seedOf } from '../support/seed.ts';
import { until } from '../support/sockets.ts';

const VECTORS = fileURLToPath(new URL('../protocol/fixtures/golden/apis.jsonl.gz', import.meta.url));
/** These wait for other members of their group, whoever asks behind them. */
const WAITS: ReadonlySet<number> = new Set([ApiKey.JoinGroup, ApiKey.SyncGroup]);
const MIB = 1024 * 1024;

let root: string;
let broker: Broker | undefined;
let logger: TestLogger;

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'broadsheet-fuzz-'));
  logger = new TestLogger();
});
afterEach(async () => {
  vi.restoreAllMocks();
  await broker?.close();
  rmSync(root, { recursive: true, force: true });
});

async function start(): Promise<Broker> {
  broker = await createBroker({
    dataDir: join(root, 'data'),
    host: '127.0.0.1',
    port: 0,
    logger,
    config: { 'offsets.topic.num.partitions': '2' },
  });
  return broker;
}

interface Sample {
  readonly key: number;
  readonly version: number;
  readonly body: Buffer;
}

/** Requests of all APIs that are served, in all their versions. */
function samples(): Sample[] {
  return readLines(VECTORS)
    .map((line) => JSON.parse(line) as ApiVector)
    .filter((vector) => vector.type === 'request')
    .filter(({ key, version }) => {
      const served = HANDLERS.get(key)?.served;
      return served !== undefined && version >= served[0] && version <= served[1];
    })
    .map(({ key, version, hex }) => ({ key, version, body: Buffer.from(hex, 'hex') }));
}

/** Asks for so many partitions that making them would be all that this test does. */
function isHuge({ key, version }: Sample, body: Buffer): boolean {
  if (key !== ApiKey.CreateTopics) return false;
  try {
    const { topics } = readCreateTopicsRequest(new Reader(body), version);
    const all = topics.reduce((sum, each) => sum + Math.max(each.numPartitions, each.assignments.length), 0);
    return all > 20;
  } catch {
    return false;
  }
}

interface Thrown {
  readonly frame: Buffer;
  /** What the broker must take it for; undefined when its header is mutated too. */
  readonly as: Sample | undefined;
}

function frameOf(sample: Sample, random: Random): Thrown | undefined {
  const body = random.int(8) === 0 ? sample.body : mutate(sample.body, random);
  if (isHuge(sample, body)) return undefined;
  const frame = request(sample.key, sample.version, body);
  if (random.int(10) > 0) return { frame, as: sample };
  return { frame: framed(mutate(frame.subarray(4), random)), as: undefined };
}

const SENTINEL = 0x7ffffff0;

/** What was answered before the sentinel. */
function answersIn(bytes: Buffer): Buffer[] {
  const answers: Buffer[] = [];
  for (let at = 0; at + 8 <= bytes.length; ) {
    const end = at + 4 + bytes.readInt32BE(at);
    if (end > bytes.length) break;
    if (bytes.readInt32BE(at + 4) === SENTINEL) break;
    answers.push(bytes.subarray(at + 4, end));
    at = end;
  }
  return answers;
}

let decoded = 0;

/** Throws for an answer that is none of its API and version, from its first byte to its last. */
async function decode(answer: Buffer, { key, version }: Sample): Promise<void> {
  const facts = API_FACTS[key]!;
  const reader = new Reader(answer);
  reader.int32();
  if (facts.responseHeaderVersion(version) >= 1) reader.int8();
  try {
    (await apiCodec(facts.name, 'response')).read(reader, version);
  } catch (error) {
    throw new Error(`the answer of ${facts.name} v${version} does not decode: ${answer.toString('hex')}`, {
      cause: error,
    });
  }
  expect(reader.remaining, `${facts.name} v${version}: bytes behind the answer`).toBe(0);
  decoded++;
}

/** Sends frames on one connection and a request behind them; resolves when that is answered or the connection closed. The answers
 * are those of the requests that were sent, as far as it is known which those are. */
async function throwAt(address: string, thrown: readonly Thrown[], waits: boolean): Promise<void> {
  const [host, port] = address.split(':') as [string, string];
  const socket = net.connect(Number(port), host);
  socket.on('error', () => {});
  let closed = false;
  socket.on('close', () => {
    closed = true;
  });
  const sentinel = request(ApiKey.ApiVersions, 0);
  sentinel.writeInt32BE(SENTINEL, 8);
  const mark = sentinel.subarray(8, 12);
  const chunks: Buffer[] = [];
  let tail = Buffer.alloc(0);
  let answered = false;
  socket.on('data', (bytes) => {
    chunks.push(bytes);
    const all = Buffer.concat([tail, bytes]);
    answered ||= all.includes(mark);
    tail = all.subarray(Math.max(0, all.length - 3));
  });
  socket.write(Buffer.concat([...thrown.map(({ frame }) => frame), sentinel]));
  if (waits) {
    // The broker has it when it has answered somebody else.
    const client = await Client.connect(address);
    await client.metadata([]);
    await client.close();
  } else {
    await until(() => answered || closed);
  }
  socket.destroy();
  // A Produce with acks=0 has no answer.
  const [one] = thrown;
  if (thrown.length > 1 || one?.as === undefined) return;
  for (const answer of answersIn(Buffer.concat(chunks))) await decode(answer, one.as);
}

async function fuzzRequests(address: string, seed: number, mutations: number): Promise<void> {
  const random = new Random(seed);
  for (const sample of samples()) {
    const frames: Thrown[] = [];
    for (let i = 0; i < mutations; i++) {
      const frame = frameOf(sample, random);
      if (frame !== undefined) frames.push(frame);
    }
    const each = frames.map((frame) => throwAt(address, [frame], WAITS.has(sample.key)));
    await Promise.all([...each, throwAt(address, frames, WAITS.has(sample.key))]);
  }
}

/** Batches of every kind with some bytes changed, most with a checksum that is right again. */
function mutatedBatch(random: Random): Uint8Array {
  const options: BatchOptions = {
    compression: random.pick(['none', 'gzip', 'snappy', 'lz4', 'zstd']),
    ...(random.int(2) === 0 && { producerId: random.int(3), producerEpoch: 0, baseSequence: random.int(3) }),
  };
  const builder = new BatchBuilder(options);
  for (let i = random.int(5); i >= 0; i--) {
    const value = Buffer.alloc(random.int(100), i);
    builder.append({ timestamp: Date.now(), key: `key ${i}`, value, headers: [{ key: 'h', value: 'v' }] });
  }
  const bytes = mutate(Buffer.from(builder.build()), random);
  if (bytes.length < 61) return bytes;
  if (random.int(2) === 0) bytes.writeInt32BE(bytes.length - 12, 8);
  if (random.int(4) > 0) patchCrc(bytes, 0, bytes.length);
  return bytes;
}

async function readsBack(address: string, topic: string): Promise<number> {
  const client = await Client.connect(address);
  const { offset: end } = await client.listOffset(topic, 0, LATEST);
  let next = 0;
  for await (const record of client.records(topic, 0, 0, { end })) expect(record.offset).toBe(next++);
  await client.close();
  expect(next).toBe(end);
  return end;
}

async function keepSomething(address: string): Promise<void> {
  const client = await Client.connect(address);
  await client.createTopics([{ name: 'kept' }]);
  for (let i = 0; i < 10; i++) await client.produce('kept', 0, [{ timestamp: Date.now(), value: `${i}` }]);
  await client.close();
}

describe('a live broker', () => {
  it('answers mutated requests of every API, or closes their connections', {
    timeout: 3_600_000,
  }, async () => {
    const { bootstrapServers } = await start();
    await keepSomething(bootstrapServers);
    const before = process.memoryUsage.rss();
    await fuzzRequests(bootstrapServers, seedOf('requests', 20261202), scaled(4, 200));
    expect(process.memoryUsage.rss() - before).toBeLessThan(512 * MIB);
    expect(decoded).toBeGreaterThan(100);
    expect(logger.lines.filter(({ level }) => level === 'error')).toEqual([]);
    await broker!.close();
    const again = await start();
    expect(await readsBack(again.bootstrapServers, 'kept')).toBe(10);
    expect(logger.lines.filter(({ level }) => level === 'error')).toEqual([]);
  });

  it('gives a canary away: a length that nobody checks', async () => {
    const { bootstrapServers } = await start();
    vi.spyOn(Reader.prototype, 'string').mockImplementation(function (this: Reader) {
      // Throws RangeError where the length is nonsense, instead of MALFORMED.
      const text = Buffer.alloc(this.int16());
      this.position += text.length;
      return text.toString();
    });
    await fuzzRequests(bootstrapServers, 1, 2);
    expect(logger.of('error').join()).toContain('is out of range');
  });

  it('takes no batch that cannot be read back', { timeout: 3_600_000 }, async () => {
    const { bootstrapServers } = await start();
    const random = new Random(seedOf('batches', 20261202));
    const client = await Client.connect(bootstrapServers);
    await client.createTopics([{ name: 'fuzz', configs: { 'internal.segment.bytes': '100000' } }]);
    let taken = 0;
    for (let round = 0; round < scaled(150, 10_000); round++) {
      const answers = await Promise.all(
        Array.from({ length: 8 }, () => client.produceBytes('fuzz', 0, mutatedBatch(random))),
      );
      taken += answers.filter((answer) => answer!.errorCode === 0).length;
    }
    await client.close();
    expect(taken).toBeGreaterThan(0);
    expect(await readsBack(bootstrapServers, 'fuzz')).toBeGreaterThan(0);
    expect(logger.lines.filter(({ level }) => level === 'error')).toEqual([]);
    await broker!.close();
    await readsBack((await start()).bootstrapServers, 'fuzz');
  });
});

it('has samples of every API that is served', () => {
  const sampled = new Set(samples().map(({ key }) => key));
  expect([...HANDLERS.keys()].filter((key) => !sampled.has(key)).map((key) => API_FACTS[key]?.name)).toEqual(
    [],
  );
});

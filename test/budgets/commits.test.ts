/** What very many commits of one group for one partition leave on the disk: next to nothing once they are compacted, and a
 * bounded amount where nobody asks for it. */
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Client } from '../../src/client/client.ts';
import { commitOffsets, committedOffsets } from '../../src/client/groups.ts';
import { API_FACTS, ApiKey } from '../../src/protocol/generated/api-keys.ts';
import { writeRequestHeader } from '../../src/protocol/generated/headers.ts';
import { writeOffsetCommitRequest } from '../../src/protocol/generated/OffsetCommit.ts';
import { Writer } from '../../src/protocol/writer.ts';
import { BrokerProcess, CLI } from '../support/broker-process.ts';
import { scaled } from '../support/scale.ts';

const GROUP = 'busy';
const TOPIC = 'committed';
const COMMITS = scaled(20_000, 10_000_000);
const CONNECTIONS = 64;
/** On their way at once on each connection. */
const DEPTH = 16;
/** The last version that names topics by name. */
const VERSION = 9;
/** The default, and the least there is. */
const SEGMENT_BYTES = scaled(1 << 20, 100 << 20);
/** Kafka's default. */
const DIRTY_RATIO = 0.5;
/** One commit and the empty batch that keeps the end of the log, in whatever was cleaned. */
const CLEAN_BYTES = 4096;
const ENGINES = scaled(['native'], ['native', 'js']);
const SETTINGS = {
  'offsets.topic.num.partitions': '1',
  'offsets.topic.segment.bytes': String(SEGMENT_BYTES),
};

let dir: string;
let broker: BrokerProcess | undefined;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'broadsheet-commits-'));
});
afterEach(async () => {
  await broker?.kill();
  broker = undefined;
  rmSync(dir, { recursive: true, force: true });
}, 600_000);

/** In the segments of the offsets' partition, bytes. */
function storedBytes(): number {
  const folder = join(dir, '__consumer_offsets-0');
  let sum = 0;
  for (const name of readdirSync(folder)) {
    // One that is renamed meanwhile is no segment any more.
    if (name.endsWith('.log')) sum += statSync(join(folder, name), { throwIfNoEntry: false })?.size ?? 0;
  }
  return sum;
}

/** A request that commits an offset, and where the offset lies in it. */
function commitFrame(offset: number): Buffer {
  const w = new Writer(1024);
  w.int32(0);
  const header = {
    requestApiKey: ApiKey.OffsetCommit,
    requestApiVersion: VERSION,
    correlationId: 7,
    clientId: 'busy',
  };
  writeRequestHeader(w, API_FACTS[ApiKey.OffsetCommit]!.requestHeaderVersion(VERSION), header);
  const partitions = [{ partitionIndex: 0, committedOffset: offset, committedMetadata: '' }];
  const body = { groupId: GROUP, generationIdOrMemberEpoch: -1, memberId: '' };
  writeOffsetCommitRequest(w, VERSION, { ...body, topics: [{ name: TOPIC, partitions }] });
  w.patchInt32(0, w.position - 4);
  return Buffer.from(w.bytes());
}

/** Commits `count` offsets over one connection; throws for an answer that is not the first one's. */
async function commitMany(address: string, count: number): Promise<void> {
  const [host, port] = address.split(':');
  const socket = connect(Number(port), host);
  await once(socket, 'connect');
  const frame = commitFrame(0);
  const other = commitFrame(0x0102030405);
  const offsetAt = frame.findIndex((byte, i) => byte !== other[i]) - 3;
  let sent = 0;
  const send = (room: number) => {
    const some = Math.min(room, count - sent);
    const frames = Buffer.allocUnsafe(some * frame.length);
    for (let i = 0; i < some; i++) {
      frame.copy(frames, i * frame.length);
      frames.writeBigInt64BE(BigInt(sent++), i * frame.length + offsetAt);
    }
    if (some > 0) socket.write(frames);
  };
  let answered = 0;
  let expected: Buffer | undefined;
  let left: Buffer = Buffer.alloc(0);
  send(1);
  for await (const chunk of socket) {
    left = Buffer.concat([left, chunk as Buffer]);
    let got = 0;
    for (; left.length >= 4 && left.length >= 4 + left.readInt32BE(0); got++) {
      const answer = left.subarray(0, 4 + left.readInt32BE(0));
      // The error code is the last but the tags of partition, topic and answer.
      expected ??= Buffer.from(answer);
      if (answer.readInt16BE(answer.length - 5) !== 0 || !answer.equals(expected))
        throw new Error(`commit ${answered + got}: ${answer.toString('hex')}`);
      left = left.subarray(answer.length);
    }
    const first = answered === 0;
    answered += got;
    if (answered === count) break;
    send(first && answered > 0 ? DEPTH : got);
  }
  if (answered < count) throw new Error(`the connection ended after ${answered} of ${count} commits`);
}

/** Commits over all connections, and a last one after them. */
async function load(address: string): Promise<void> {
  const client = await Client.connect(address);
  await client.createTopics([{ name: TOPIC, partitions: 1 }]);
  // Makes the topic of the offsets.
  await commitOffsets(client, GROUP, [{ topic: TOPIC, partition: 0, offset: 1 }]);
  await Promise.all(
    Array.from({ length: CONNECTIONS }, () => commitMany(address, Math.ceil(COMMITS / CONNECTIONS))),
  );
  await commitOffsets(client, GROUP, [{ topic: TOPIC, partition: 0, offset: COMMITS }]);
  await client.close();
}

/** What is committed, after a start on what lies there. */
async function committedAfterStart(engine: string): Promise<number[]> {
  broker = await BrokerProcess.start(dir, { config: { ...SETTINGS, engine } });
  const client = await Client.connect(broker.address);
  const offsets = await committedOffsets(client, GROUP);
  await client.close();
  await broker.stop();
  broker = undefined;
  return offsets.map(({ offset }) => offset);
}

const compactNow = (engine: string) =>
  promisify(execFile)(process.execPath, [
    CLI,
    'compact',
    dir,
    '__consumer_offsets',
    '--set',
    `engine=${engine}`,
  ]);

describe.each(ENGINES)('commits, %s', (engine) => {
  it('are next to nothing after compact', async () => {
    broker = await BrokerProcess.start(dir, {
      config: { ...SETTINGS, engine, 'log.cleaner.enable': 'false' },
    });
    await load(broker.address);
    await broker.stop();
    const before = storedBytes();
    expect(before).toBeGreaterThan(COMMITS * 61);
    await compactNow(engine);
    const after = storedBytes();
    process.stderr.write(`${engine}, ${COMMITS} commits: ${before} bytes, ${after} after compact\n`);
    expect(after).toBeLessThanOrEqual(CLEAN_BYTES);
    expect(await committedAfterStart(engine)).toEqual([COMMITS]);
  });

  it('are at most one segment and what the dirty ratio allows with nobody asking', async () => {
    // All but how often the cleaner looks are defaults.
    const config = { ...SETTINGS, engine, 'log.cleaner.backoff.ms': scaled('100', '15000') };
    broker = await BrokerProcess.start(dir, { config });
    let most = 0;
    const watching = setInterval(() => {
      try {
        most = Math.max(most, storedBytes());
      } catch {
        // Not yet there.
      }
    }, 200);
    try {
      await load(broker.address);
    } finally {
      clearInterval(watching);
    }
    // Closed segments are due as soon as their dirty part is more than that ratio of them: clean + dirty <= clean / (1 - ratio).
    const bound = SEGMENT_BYTES + CLEAN_BYTES / (1 - DIRTY_RATIO);
    while (storedBytes() > bound) await new Promise((resolve) => setTimeout(resolve, 100));
    process.stderr.write(
      `${engine}, ${COMMITS} commits: at most ${most} bytes on the way, ${storedBytes()} in the end\n`,
    );
    await broker.stop();
    expect(storedBytes()).toBeLessThanOrEqual(bound);
    expect(await committedAfterStart(engine)).toEqual([COMMITS]);
  });
});

/**
 * Suite `recovery`: a broker with 200 partitions takes produced batches until it holds 5 GiB, and is killed. Then, in turns, this
 * broker and Apache Kafka start on copies of what it left: how long until every partition says where it ends, and how many
 * bytes were read for that, with the files in the page cache and without. Segments are of the default size, so all are open.
 */
import { execFileSync } from 'node:child_process';
import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client, LATEST } from '../../src/client/client.ts';
import { listOffsets } from '../../src/client/offsets.ts';
import { BroadsheetError } from '../../src/runtime/errors.ts';
import { batchOf } from '../batches.ts';
import type { Comparison, Scale } from '../support.ts';
import { broadsheet, connected, DEADLINE_MS, kafka, type Running, row, type Starter } from './start.ts';

const TOPICS = ['recovery-a', 'recovery-b'];
const BATCH_BYTES = 256 * 1024;
/** Produced to each partition, of Scale.bytes: 25.6 MiB at full scale. */
const SHARE = 0.4;
const PRODUCERS = 4;

/** Waits until somebody listens. */
async function clientOf(port: number): Promise<Client> {
  (await connected(port, performance.now() + DEADLINE_MS)).close();
  return Client.connect(`127.0.0.1:${port}`);
}

type Ends = ReadonlyMap<string, number>;

/** Fills the partitions one batch after the other; gives what was acknowledged. */
async function fill(port: number, perTopic: number, bytes: number): Promise<Ends> {
  const client = await clientOf(port);
  await client.createTopics(TOPICS.map((name) => ({ name, partitions: perTopic })));
  await client.close();
  const ends = new Map<string, number>();
  const rounds = Math.max(1, Math.floor((bytes * SHARE) / BATCH_BYTES));
  const batch = batchOf(BATCH_BYTES);
  const partitions = TOPICS.flatMap((topic) => Array.from({ length: perTopic }, (_, i) => ({ topic, i })));
  const producer = async (first: number) => {
    const own = await Client.connect(`127.0.0.1:${port}`);
    for (let round = 0; round < rounds; round++) {
      for (let at = first; at < partitions.length; at += PRODUCERS) {
        const { topic, i } = partitions[at]!;
        const answer = (await own.produceBytes(topic, i, batch))!;
        if (answer.errorCode !== 0) throw new Error(`${topic}-${i}: error ${answer.errorCode}`);
        ends.set(`${topic}-${i}`, Number(answer.baseOffset) + batch.length / 1024);
      }
    }
    await own.close();
  };
  await Promise.all(Array.from({ length: PRODUCERS }, (_, first) => producer(first)));
  return ends;
}

/** Waits until every partition says where it ends; throws when that is before what was acknowledged. */
async function untilRecovered(port: number, perTopic: number, ends: Ends): Promise<void> {
  const deadline = performance.now() + DEADLINE_MS;
  const client = await clientOf(port);
  const asked = TOPICS.flatMap((topic) =>
    Array.from({ length: perTopic }, (_, partition) => ({ topic, partition, timestamp: LATEST })),
  );
  for (;;) {
    const answers = await listOffsets(client, asked).catch((error: unknown) => {
      if (!(error instanceof BroadsheetError)) throw error;
      for (const topic of TOPICS) client.forget(topic);
      return [];
    });
    if (answers.length > 0 && answers.every(({ errorCode }) => errorCode === 0)) {
      for (const [i, { topic, partition }] of asked.entries()) {
        const [found, wanted] = [Number(answers[i]!.offset), ends.get(`${topic}-${partition}`)!];
        if (found < wanted) throw new Error(`${topic}-${partition} ends at ${found}, not ${wanted}`);
      }
      break;
    }
    if (performance.now() > deadline) throw new Error(`not recovered within ${DEADLINE_MS} ms`);
    await sleep(5);
  }
  await client.close();
}

const CACHE = {
  warm: ['find', ['-type', 'f', '-exec', 'cat', '{}', '+']],
  cold: ['find', ['-type', 'f', '-exec', 'dd', 'if={}', 'iflag=nocache', 'count=0', 'status=none', ';']],
} as const;
type CacheState = keyof typeof CACHE;

/** A start on a copy of `home`, the copy on disk and in the page cache, or not. */
async function recover(
  starter: Starter,
  home: string,
  state: CacheState,
  serving: (port: number) => Promise<void>,
): Promise<Running> {
  const copy = mkdtempSync(join(tmpdir(), 'broadsheet-recovery-copy-'));
  try {
    // A socket can't be copied.
    cpSync(home, copy, { recursive: true, filter: (path) => !path.endsWith('.sock') });
    execFileSync('sync', ['-f', copy]);
    const [file, args] = CACHE[state];
    execFileSync(file, [copy, ...args], { stdio: ['ignore', 'ignore', 'inherit'] });
    const running = await starter(copy, serving);
    await running.stop('SIGKILL');
    return running;
  } finally {
    rmSync(copy, { recursive: true, force: true });
  }
}

/** Against Apache Kafka; against a second broadsheet where `peer` says so. */
export async function recoveries(scale: Scale, peer?: 'broadsheet'): Promise<Comparison[]> {
  const perTopic = Math.ceil(scale.members / TOPICS.length);
  const home = mkdtempSync(join(tmpdir(), 'broadsheet-recovery-'));
  try {
    let ends: Ends = new Map();
    const filled = await broadsheet(home, async (port) => {
      ends = await fill(port, perTopic, scale.bytes);
    });
    await filled.stop('SIGKILL');
    const serving = (port: number) => untilRecovered(port, perTopic, ends);
    const theirs = peer === 'broadsheet' ? broadsheet : kafka;
    const results: Comparison[] = [];
    for (const state of ['warm', 'cold'] as const) {
      const pairs: [Running, Running][] = [];
      for (let round = 0; round < scale.rounds; round++) {
        const own = await recover(broadsheet, home, state, serving);
        pairs.push([own, await recover(theirs, home, state, serving)]);
      }
      const of = (name: string, unit: string, value: (each: Running) => number) =>
        row(
          `${2 * perTopic} partitions after SIGKILL, ${state}: ${name}`,
          unit,
          pairs.map(([own, other]) => [value(own), value(other)]),
        );
      const mebibytes = (bytes: number) => Math.max(bytes, 1) / (1 << 20);
      results.push(
        of('until all say where they end', 'ms', ({ ms }) => ms),
        of('processor', 'ms', ({ cpuMs }) => cpuMs),
        of('read', 'MiB', ({ readBytes }) => mebibytes(readBytes)),
        of('read from the disk', 'MiB', ({ diskBytes }) => mebibytes(diskBytes)),
      );
    }
    return results;
  } finally {
    rmSync(home, { recursive: true, force: true });
  }
}

/**
 * Suite `start`: from the start of the process until Produce, Fetch, FindCoordinator and InitProducerId are all answered, on an
 * empty directory and on one with many partitions, after a clean stop and after SIGKILL; beside a bare `node -e 0` and beside
 * Apache Kafka. Starts the built command, dist/cli.js.
 */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { APIS } from '../../src/client/apis.ts';
import { Client } from '../../src/client/client.ts';
import { Connection } from '../../src/client/connection.ts';
import { Producer } from '../../src/client/producer.ts';
import { batchOf } from '../batches.ts';
import { kafkaCommand } from '../broker-load.ts';
import { KAFKA_PORT } from '../groups/peers.ts';
import { type Comparison, median, processCpuSecondsOf, type Scale } from '../support.ts';

const PARTITIONS_PER_MEMBER = 5;
const PARTITIONS_PER_TOPIC = 100;
const TOPIC = 'start';
export const DEADLINE_MS = 600_000;
/** The last versions that name topics by name. */
const PRODUCE_VERSION = 12;
const FETCH_VERSION = 12;
const KAFKA_ROUNDS = 3;

/** What one start took. */
export interface Start {
  readonly ms: number;
  readonly cpuMs: number;
  /** Until it served: that read(2) and its like gave it, and of that what came from a disk (files that are mapped too), bytes. */
  readonly readBytes: number;
  readonly diskBytes: number;
  /** Resident memory half a second later, MiB. */
  readonly mebibytes: number;
}

export interface Running extends Start {
  readonly port: number;
  readonly pid: number;
  stop(signal: 'SIGTERM' | 'SIGKILL'): Promise<void>;
}

/** Starts on `home` and waits until `serving` resolves; default: until all is answered. `settings`: of the broker. */
export type Starter = (
  home: string,
  serving?: (port: number) => Promise<void>,
  settings?: Readonly<Record<string, string>>,
) => Promise<Running>;

const setting = (settings: Readonly<Record<string, string>>): string[] =>
  Object.entries(settings).flatMap(([key, value]) => ['--set', `${key}=${value}`]);

const until = async (child: ChildProcess): Promise<void> => {
  if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
};

/** Clock ticks of /proc, on every Linux that Node runs on. */
const TICKS_PER_SECOND = 100;

/** How long ago a process began, ms; to 10 ms. */
function ageMs(pid: number): number {
  const began = readFileSync(`/proc/${pid}/stat`, 'latin1').split(') ')[1]!.split(' ')[19]!;
  const up = Number(readFileSync('/proc/uptime', 'latin1').split(' ')[0]);
  return (up - Number(began) / TICKS_PER_SECOND) * 1000;
}

export function residentMebibytes(pid: number): number {
  return Number(/VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'latin1'))![1]) / 1024;
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as { port: number };
  await promisify(server.close.bind(server))();
  return port;
}

export async function connected(port: number, deadline: number): Promise<Connection> {
  for (;;) {
    try {
      const connection = await Connection.connect({ host: '127.0.0.1', port });
      await connection.negotiate();
      return connection;
    } catch (error) {
      if (performance.now() > deadline) throw error;
      await sleep(5);
    }
  }
}

/** Resolves when all four have been answered without an error. */
async function untilServing(port: number): Promise<void> {
  const deadline = performance.now() + DEADLINE_MS;
  const connection = await connected(port, deadline);
  const records = batchOf(256);
  const topics = [{ name: TOPIC }];
  const produce = { name: TOPIC, partitionData: [{ index: 0, records }] };
  const fetch = { topic: TOPIC, partitions: [{ partition: 0, fetchOffset: 0, partitionMaxBytes: 1024 }] };
  const steps: (() => Promise<boolean>)[] = [
    async () => {
      const answer = await connection.request(APIS.metadata, { topics, allowAutoTopicCreation: true });
      return answer.topics[0]?.errorCode === 0;
    },
    async () => {
      const request = { transactionalId: null, transactionTimeoutMs: 60_000 };
      return (await connection.request(APIS.initProducerId, request)).errorCode === 0;
    },
    async () => {
      const request = { keyType: 0, coordinatorKeys: [TOPIC] };
      const answer = await connection.request(APIS.findCoordinator, request);
      return answer.coordinators[0]?.errorCode === 0;
    },
    async () => {
      const request = { acks: -1, timeoutMs: 30_000, topicData: [produce] };
      const answer = await connection.request(APIS.produce, request, { version: PRODUCE_VERSION });
      return answer.responses[0]?.partitionResponses[0]?.errorCode === 0;
    },
    async () => {
      const request = { maxWaitMs: 500, minBytes: 1, topics: [fetch] };
      const answer = await connection.request(APIS.fetch, request, { version: FETCH_VERSION });
      const partition = answer.responses[0]?.partitions[0];
      return partition?.errorCode === 0 && (partition.records?.length ?? 0) > 0;
    },
  ];
  for (const step of steps) {
    while (!(await step())) {
      if (performance.now() > deadline) throw new Error(`not served within ${DEADLINE_MS} ms`);
      await sleep(5);
    }
  }
  connection.close();
}

async function settled(pid: number, ms: number): Promise<Start> {
  const io = readFileSync(`/proc/${pid}/io`, 'latin1');
  const counted = (name: string) => Number(new RegExp(`^${name}: (\\d+)`, 'm').exec(io)![1]);
  const [readBytes, diskBytes] = [counted('rchar'), counted('read_bytes')];
  const cpuMs = processCpuSecondsOf(pid) * 1000;
  await sleep(500);
  return { ms, cpuMs, readBytes, diskBytes, mebibytes: residentMebibytes(pid) };
}

/** Node 20 reads the certificates of NODE_EXTRA_CA_CERTS before anything else, in as long as the rest of a bare start. */
const { NODE_EXTRA_CA_CERTS: _, ...ENVIRONMENT } = process.env;

const CLI = fileURLToPath(new URL('../../dist/cli.js', import.meta.url));

export const broadsheet: Starter = async (home, serving = untilServing, settings = {}) => {
  if (!existsSync(CLI)) throw new Error('dist/ is missing: npm run build');
  const port = await freePort();
  const listen = [
    '--data',
    join(home, 'data'),
    '--host',
    '127.0.0.1',
    '--port',
    String(port),
    ...setting(settings),
  ];
  const began = performance.now();
  const child = spawn(process.execPath, [CLI, 'start', ...listen, '--log-level', 'error'], {
    stdio: ['ignore', 'ignore', 'inherit'],
    env: ENVIRONMENT,
  });
  await serving(port);
  const start = await settled(child.pid!, performance.now() - began);
  const stop = async (signal: 'SIGTERM' | 'SIGKILL') => {
    child.kill(signal);
    await until(child);
  };
  return { ...start, port, pid: child.pid!, stop };
};

/** The command formats a new directory before it starts Kafka: time counts from the start of Kafka's own process. */
export const kafka: Starter = async (home, serving = untilServing, settings = {}) => {
  const command = kafkaCommand();
  if (command === undefined)
    throw new Error('no Apache Kafka: set BROADSHEET_KAFKA to the command that starts one');
  const port = KAFKA_PORT;
  const args = ['start', '--dir', home, '--port', String(port), ...setting(settings)];
  const starting = promisify(execFile)(command, args);
  const failed = starting.then(() => new Promise<never>(() => {}));
  await Promise.race([serving(port), failed]);
  const served = performance.now();
  const pid = Number(/pid (\d+)/.exec((await starting).stdout)?.[1]);
  const start = await settled(pid, ageMs(pid) - (performance.now() - served));
  const stop = async (signal: 'SIGTERM' | 'SIGKILL') => {
    if (signal === 'SIGKILL') {
      process.kill(pid, signal);
      while (existsSync(`/proc/${pid}`)) await sleep(20);
    }
    await promisify(execFile)(command, ['stop', '--dir', home]).catch(() => {});
  };
  return { ...start, port, pid, stop };
};

async function bareNode(): Promise<Start> {
  const began = performance.now();
  const child = spawn(process.execPath, ['-e', '0'], { stdio: 'ignore', env: ENVIRONMENT });
  await until(child);
  const ms = performance.now() - began;
  const idle = spawn(
    process.execPath,
    ['-e', 'console.log(process.cpuUsage()); setInterval(() => {}, 1e6)'],
    {
      stdio: ['ignore', 'pipe', 'inherit'],
      env: ENVIRONMENT,
    },
  );
  await once(idle.stdout!, 'data');
  const start = await settled(idle.pid!, ms);
  idle.kill('SIGKILL');
  await until(idle);
  return start;
}

/** Makes a home whose broker has so many partitions with a record in each, and leaves it running. */
async function filled(starter: Starter, home: string, partitions: number): Promise<Running> {
  const running = await starter(home);
  const client = await Client.connect(`127.0.0.1:${running.port}`);
  const names = Array.from({ length: Math.ceil(partitions / PARTITIONS_PER_TOPIC) }, (_, i) => `many-${i}`);
  const each = Math.min(partitions, PARTITIONS_PER_TOPIC);
  for (const name of names) {
    await client.createTopics([{ name, partitions: each }]);
    const producer = await Producer.create(client, name);
    const value = Buffer.alloc(100, 'x');
    for (let partition = 0; partition < each; partition++)
      producer.send({ timestamp: Date.now(), value }, partition, partition);
    await producer.flush();
  }
  await client.close();
  return running;
}

type Case = 'empty' | 'after a clean stop' | 'after SIGKILL';

/** One start in each case, in a new folder of `within`. */
async function startsOf(starter: Starter, partitions: number, within: string): Promise<Record<Case, Start>> {
  const dir = mkdtempSync(join(within, 'home-'));
  const empty = await filled(starter, dir, partitions);
  await empty.stop('SIGTERM');
  const clean = await starter(dir);
  await clean.stop('SIGKILL');
  const killed = await starter(dir);
  await killed.stop('SIGTERM');
  return { empty, 'after a clean stop': clean, 'after SIGKILL': killed };
}

/** Theirs / ours of each round, as for all costs: more is better. */
export function row(
  name: string,
  unit: string,
  pairs: readonly (readonly [number, number])[],
  expected?: number,
): Comparison {
  const ratios = pairs.map(([ours, theirs]) => theirs / ours);
  return {
    name,
    unit,
    ours: median(pairs.map(([ours]) => ours)),
    theirs: median(pairs.map(([, theirs]) => theirs)),
    ratio: { min: Math.min(...ratios), median: median(ratios), max: Math.max(...ratios) },
    ...(expected === undefined ? {} : { expected }),
  };
}

/** Against Apache Kafka; against a second broadsheet where `peer` says so. */
export async function starts(scale: Scale, peer?: 'broadsheet'): Promise<Comparison[]> {
  const partitions = scale.members * PARTITIONS_PER_MEMBER;
  const ours: Record<Case, Start>[] = [];
  const theirs: Record<Case, Start>[] = [];
  const bare: Start[] = [];
  const within = mkdtempSync(join(tmpdir(), 'broadsheet-start-'));
  try {
    // The first start after a build keeps what V8 compiled; all others find it.
    await (await broadsheet(mkdtempSync(join(within, 'first-')))).stop('SIGTERM');
    for (let round = 0; round < scale.rounds; round++) {
      bare.push(await bareNode());
      ours.push(await startsOf(broadsheet, partitions, within));
      if (round < KAFKA_ROUNDS)
        theirs.push(await startsOf(peer === 'broadsheet' ? broadsheet : kafka, partitions, within));
    }
  } finally {
    // Not sooner: ext4 without a journal looks long for inodes when some were freed within 5 s.
    rmSync(within, { recursive: true, force: true });
  }
  const cases: Case[] = ['empty', 'after a clean stop', 'after SIGKILL'];
  const names = (name: Case) =>
    name === 'empty' ? 'an empty directory' : `${partitions} partitions ${name}`;
  const pairs = (name: Case, other: (round: number) => Start | undefined, of: (start: Start) => number) =>
    ours.flatMap((own, round): [number, number][] => {
      const beside = other(round);
      return beside === undefined ? [] : [[of(own[name]), of(beside)]];
    });
  return cases.flatMap((name) => {
    const toBare = name === 'empty' ? 1 / 3 : undefined;
    const beside = (round: number) => theirs[round]?.[name];
    return [
      row(
        `${names(name)}: beside bare node`,
        'ms',
        pairs(
          name,
          (i) => bare[i],
          ({ ms }) => ms,
        ),
        toBare,
      ),
      row(
        `${names(name)}: processor, beside bare node`,
        'ms',
        pairs(
          name,
          (i) => bare[i],
          ({ cpuMs }) => cpuMs,
        ),
      ),
      row(
        `${names(name)}: beside Apache Kafka`,
        'ms',
        pairs(name, beside, ({ ms }) => ms),
        20,
      ),
      row(
        `${names(name)}: idle memory above bare node, beside Apache Kafka's`,
        'MiB',
        ours.flatMap((own, i): [number, number][] => {
          const other = beside(i);
          return other === undefined
            ? []
            : [[own[name].mebibytes - bare[i]!.mebibytes, other.mebibytes - bare[i]!.mebibytes]];
        }),
      ),
    ];
  });
}

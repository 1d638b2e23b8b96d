/** Suite `load`: a directory with very many groups that have committed an offset each: how long until a broker that starts on it
 * answers for all of them. Both start on copies of the same directory. */
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { api } from '../../src/client/apis.ts';
import { Client } from '../../src/client/client.ts';
import { Connection } from '../../src/client/connection.ts';
import { KafkaError } from '../../src/protocol/errors.ts';
import { ApiKey } from '../../src/protocol/generated/api-keys.ts';
import {
  readOffsetCommitResponse,
  writeOffsetCommitRequest,
} from '../../src/protocol/generated/OffsetCommit.ts';
import {
  readOffsetFetchResponse,
  writeOffsetFetchRequest,
} from '../../src/protocol/generated/OffsetFetch.ts';
import { type Server, startBroadsheet, startKafka, type Target } from '../broker-load.ts';
import { type Comparison, type Cost, compareCosts, type Scale } from '../support.ts';
import { KAFKA_PORT, untilCoordinates } from './peers.ts';

const GROUPS_PER_MEMBER = 500;
const TOPIC = 'bench';
const CONNECTIONS = 32;
/** Groups that are asked for, spread over all partitions of `__consumer_offsets`. */
const ASKED = 500;
/** The last versions that name topics by name. */
const COMMIT_VERSION = 9;
const FETCH_VERSION = 9;
const COMMIT = api(ApiKey.OffsetCommit, writeOffsetCommitRequest, readOffsetCommitResponse);
const FETCH = api(ApiKey.OffsetFetch, writeOffsetFetchRequest, readOffsetFetchResponse);

const nameOf = (index: number): string => `group-${String(index).padStart(6, '0')}`;

async function connect({ port }: Target): Promise<Connection> {
  const connection = await Connection.connect({ host: '127.0.0.1', port });
  await connection.negotiate();
  return connection;
}

async function commitAll(target: Target, groups: number): Promise<void> {
  let next = 0;
  const run = async () => {
    const connection = await connect(target);
    while (next < groups) {
      const index = next++;
      const partitions = [{ partitionIndex: 0, committedOffset: index + 1, committedMetadata: '' }];
      const answer = await connection.request(
        COMMIT,
        { groupId: nameOf(index), topics: [{ name: TOPIC, partitions }] },
        { version: COMMIT_VERSION },
      );
      const code = answer.topics[0]?.partitions[0]?.errorCode;
      if (code !== KafkaError.NONE) throw new Error(`a commit was refused with ${code}`);
    }
    connection.close();
  };
  await Promise.all(Array.from({ length: CONNECTIONS }, run));
}

/** Until each group that is asked for has its offset. */
async function untilLoaded(target: Target, groups: number): Promise<void> {
  const connection = await connect(target);
  const step = Math.max(1, Math.floor(groups / ASKED));
  let asked = Array.from({ length: Math.ceil(groups / step) }, (_, i) => i * step);
  while (asked.length > 0) {
    const answer = await connection.request(
      FETCH,
      { groups: asked.map((index) => ({ groupId: nameOf(index), topics: null })), requireStable: false },
      { version: FETCH_VERSION },
    );
    const code = (index: number) => answer.groups.find(({ groupId }) => groupId === nameOf(index))?.errorCode;
    const again = asked.filter((index) => code(index) !== KafkaError.NONE);
    for (const index of asked) {
      if (code(index) !== KafkaError.NONE) continue;
      const group = answer.groups.find(({ groupId }) => groupId === nameOf(index));
      const offset = group?.topics[0]?.partitions[0]?.committedOffset;
      if (offset !== index + 1) throw new Error(`${nameOf(index)} has ${offset}, not ${index + 1}`);
    }
    asked = again;
  }
  connection.close();
}

/** Seconds from the first line that tells of loading to the last, and the number of lines. */
function loadSecondsOfKafka(log: string): number {
  const at = (line: string) => Date.parse(/\[([^\]]+)\]/.exec(line)?.[1]?.replace(',', '.') ?? '');
  const lines = log.split('\n').filter((line) => /__consumer_offsets-\d+/.test(line));
  const times = lines.filter((line) => /(Scheduling|Finished) loading/i.test(line)).map(at);
  return (Math.max(...times) - Math.min(...times)) / 1000;
}

function loadSecondsOfBroadsheet(log: string): number {
  return Number(/"ms":(\d+),"msg":"groups are loaded"/.exec(log)?.[1]) / 1000;
}

async function measure(
  directory: string,
  groups: number,
  start: (dir: string) => Promise<Server>,
  loadSeconds: (log: string) => number,
): Promise<Record<string, Cost>> {
  const dir = mkdtempSync(join(tmpdir(), 'broadsheet-load-'));
  try {
    mkdirSync(join(dir, 'data'));
    cpSync(directory, join(dir, 'data'), { recursive: true });
    const began = performance.now();
    const server = await start(dir);
    try {
      await untilLoaded(server, groups);
      const seconds = (performance.now() - began) / 1000;
      const loading = loadSeconds(readFileSync(join(dir, 'log'), 'utf8'));
      return {
        [`${groups} groups: start to all answered for`]: { value: seconds, unit: 's' },
        [`${groups} groups: loading alone, as logged`]: { value: loading, unit: 's' },
      };
    } finally {
      await server.stop();
    }
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

const oursIn = (dir: string): Promise<Server> => startBroadsheet({}, dir);

async function kafkaIn(dir: string): Promise<Server> {
  const server = await startKafka(KAFKA_PORT, dir);
  if (server === undefined)
    throw new Error('no Apache Kafka: set BROADSHEET_KAFKA to the command that starts one');
  return server;
}

/** Against Apache Kafka; against another broadsheet where `peer` says so. */
export async function groupLoads(scale: Scale, peer?: 'broadsheet'): Promise<Comparison[]> {
  const groups = scale.members * GROUPS_PER_MEMBER;
  const dir = mkdtempSync(join(tmpdir(), 'broadsheet-groups-'));
  try {
    const server = await startBroadsheet({}, dir);
    try {
      await untilCoordinates(server);
      const client = await Client.connect(`127.0.0.1:${server.port}`);
      await client.createTopics([{ name: TOPIC, partitions: 1 }]);
      await client.close();
      await commitAll(server, groups);
    } finally {
      await server.stop();
    }
    const data = join(dir, 'data');
    const ours = () => measure(data, groups, oursIn, loadSecondsOfBroadsheet);
    const theirs = () => measure(data, groups, kafkaIn, loadSecondsOfKafka);
    return await compareCosts(scale.rounds, ours, peer === 'broadsheet' ? ours : theirs);
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

/** Two copies of one directory that are written to alike and cleaned in turns, one by us when the other is by Apache Kafka: after
 * each cleaning all batches of both are the same, so either goes on with what the other left. */
import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { Client } from '../../src/client/client.ts';
import type { NewRecord } from '../../src/protocol/records/writer.ts';
import { BrokerProcess } from '../support/broker-process.ts';
import { partitionFiles } from '../support/dump-log.ts';
import { KafkaPeer, kafkaPort } from '../support/kafka-peer.ts';
import { Random } from '../support/random.ts';
import { scaled } from '../support/scale.ts';
import { cleanedOffsets, storedBatches } from '../support/stored-batches.ts';
import { CODECS, TransactionalLoad } from '../support/transactional-load.ts';

const SEED = Number(process.env.BROADSHEET_SEED ?? 20_262);
const HOUR_MS = 3_600_000;
/** Of every record, or as many hours before: two fills leave the same bytes. */
const TIME = Date.now();
const TURNS = scaled(300, 1_000);
const BATCHES = scaled(100, 600);
const BIG_BATCHES = scaled(16, 40);
const MIB = 1 << 20;
/** While a copy is written to nothing is cleaned or deleted. */
const OFF = { 'log.cleaner.enable': 'false', 'log.initial.task.delay.ms': String(HOUR_MS) };
const EAGER = {
  'log.cleaner.backoff.ms': '100',
  'log.cleaner.min.cleanable.ratio': '0.0001',
  'log.initial.task.delay.ms': '500',
  'log.retention.check.interval.ms': '1000',
};

type Write = (client: Client, address: string, round: number) => Promise<void>;

interface Scenario {
  readonly configs: Readonly<Record<string, string>>;
  /** What writes to one copy, in the same way for both. */
  writer(topic: string): Write;
  /** Rounds in which nothing is due. */
  readonly restsIn?: readonly number[];
}

const SEGMENTS = { 'internal.segment.bytes': '16384' };
const BIG = { 'segment.bytes': String(8 * MIB), 'max.message.bytes': String(6 * MIB) };

/** Keys of a bounded number, a tombstone in six. */
function someRecords(random: Random, count: number, keys: number, hoursAgo = 0): NewRecord[] {
  return Array.from({ length: count }, () => ({
    timestamp: TIME - hoursAgo * HOUR_MS,
    key: `key-${random.int(keys)}`,
    value: random.int(6) === 0 ? null : `${random.int(1 << 30)} `.repeat(1 + random.int(30)),
    headers: random.int(4) === 0 ? [{ key: 'h', value: String(random.int(100)) }] : [],
  }));
}

const transactions = (topic: string): Write => {
  const load = new TransactionalLoad(topic, SEED, TIME);
  return (_, address, round) => load.run(address, TURNS, round === 2 ? 200 : 20);
};

/** Batches of these ages, in hours, a segment's worth and more of each, and a last one of now, which stays in the active segment. */
function aged(...rounds: readonly (readonly number[])[]): (topic: string) => Write {
  return (topic) => {
    const random = new Random(SEED);
    return async (client, _, round) => {
      for (const hours of rounds[round]!) {
        for (let i = 0; i < BATCHES / 2; i++) {
          // A segment without a record would have the age of its file.
          const stays = { timestamp: TIME - hours * HOUR_MS, key: `${round} ${hours} ${i}`, value: 'stays' };
          await client.produce(topic, 0, [stays, ...someRecords(random, 10, 50, hours)]);
        }
      }
      await client.produce(topic, 0, someRecords(random, 1, 50));
    };
  };
}

const SCENARIOS: Readonly<Record<string, Scenario>> = {
  /** Tombstones, markers and aborted data go with the second cleaning; one transaction is open each time. */
  'transactions-soon': { configs: { ...SEGMENTS, 'delete.retention.ms': '1' }, writer: transactions },
  /** They have their delete horizon, and stay. */
  'transactions-late': { configs: SEGMENTS, writer: transactions },
  /** Producers of which most fall silent: what is left of them is an empty batch with their last sequence. */
  sequences: {
    configs: { ...SEGMENTS, 'delete.retention.ms': '1' },
    writer: (topic) => {
      const random = new Random(SEED);
      const producers: { producerId: number; producerEpoch: number; baseSequence: number }[] = [];
      return async (client, _, round) => {
        while (producers.length < 8) producers.push({ ...(await client.initProducerId()), baseSequence: 0 });
        for (let i = 0; i < BATCHES; i++) {
          const producer = producers[random.int(8 >> round)]!;
          const records = someRecords(random, 1 + random.int(20), 30);
          await client.produce(topic, 0, records, { compression: random.pick(CODECS), ...producer });
          producer.baseSequence += records.length;
        }
      };
    },
  },
  /** Larger than any buffer of a cleaner. */
  big: {
    configs: { ...BIG, 'delete.retention.ms': '1' },
    writer: (topic) => {
      const random = new Random(SEED);
      return async (client) => {
        for (let i = 0; i < BIG_BATCHES; i++) {
          const records = Array.from({ length: 30 }, () => ({
            timestamp: TIME,
            key: `key-${random.int(60)}`,
            value: random.int(6) === 0 ? null : `${random.int(1 << 30)} `.repeat(1 + random.int(20_000)),
          }));
          await client.produce(topic, 0, records, {
            compression: i % 2 === 0 ? 'none' : random.pick(CODECS),
          });
        }
      };
    },
  },
  /** The old part alone is cleaned; in the next round nothing is old enough but what was too young then, which still is. */
  'min-lag': {
    configs: { ...SEGMENTS, 'min.compaction.lag.ms': String(HOUR_MS) },
    writer: aged([2, 0], [0], [0]),
    restsIn: [1, 2],
  },
  /** Never dirty enough, but old enough. */
  'max-lag': {
    configs: { ...SEGMENTS, 'min.cleanable.dirty.ratio': '1', 'max.compaction.lag.ms': String(HOUR_MS) },
    writer: aged([2], [2], [2]),
  },
  /** Neither dirty nor old enough. */
  'max-lag-young': {
    configs: { ...SEGMENTS, 'min.cleanable.dirty.ratio': '1', 'max.compaction.lag.ms': String(HOUR_MS) },
    writer: aged([0], [0], [0]),
    restsIn: [0, 1, 2],
  },
  /** Segments that are older than three hours go, what is left is cleaned. */
  both: {
    configs: { ...SEGMENTS, 'cleanup.policy': 'compact,delete', 'retention.ms': String(3 * HOUR_MS) },
    writer: aged([4, 0], [0], [0]),
  },
};
const TOPICS = Object.keys(SCENARIOS);

let dir: string;
let ours: BrokerProcess | undefined;
let kafka: KafkaPeer | undefined;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'broadsheet-turns-'));
});
afterEach(async () => {
  await ours?.kill();
  await kafka?.dispose();
  rmSync(dir, { recursive: true, force: true });
});

const segmentsOf = (dataDir: string, topic: string) =>
  partitionFiles(dataDir, '.log')
    .filter((path) => path.includes(`/${topic}-0/`))
    .map((path) => Number.parseInt(basename(path), 10));

/** Waits until all that is due is clean, and what is too old is gone: all segments that begin below `keptFrom` but one. */
async function untilClean(dataDir: string, round: number, keptFrom: number): Promise<void> {
  const before = cleanedOffsets(dataDir);
  const due = TOPICS.filter((topic) => !SCENARIOS[topic]!.restsIn?.includes(round));
  const isDone = () => {
    const now = cleanedOffsets(dataDir);
    const clean = due.every((topic) => (now.get(`${topic} 0`) ?? -1) > (before.get(`${topic} 0`) ?? -1));
    return clean && (segmentsOf(dataDir, 'both')[1] ?? Number.POSITIVE_INFINITY) > keptFrom;
  };
  while (!isDone()) await new Promise((resolve) => setTimeout(resolve, 100));
  // What is not due would be taken by one of the next looks.
  await new Promise((resolve) => setTimeout(resolve, 1_000));
}

async function cleanOurs(
  dataDir: string,
  engine: string,
  wait: (dataDir: string) => Promise<void>,
): Promise<void> {
  // It may be done before the first look at what was clean before.
  const waited = wait(dataDir);
  ours = await BrokerProcess.start(dataDir, { config: { ...EAGER, engine } });
  await waited;
  await ours.stop();
  ours = undefined;
}

async function cleanKafka(home: string, wait: (dataDir: string) => Promise<void>): Promise<void> {
  kafka = new KafkaPeer(home, kafkaPort());
  const waited = wait(kafka.dataDir);
  await kafka.start(...Object.entries(EAGER).map(([key, value]) => `${key}=${value}`));
  await waited;
  await kafka.stop();
  kafka = undefined;
}

it.each(['native', 'js'])(
  `leaves at each turn what Apache Kafka leaves (%s), BROADSHEET_SEED=${SEED}`,
  async (engine) => {
    const homes = ['one', 'other'].map((name) => join(dir, name));
    const data = homes.map((home) => join(home, 'data'));
    const writers = data.map(() => TOPICS.map((topic) => SCENARIOS[topic]!.writer(topic)));
    ours = await BrokerProcess.start(data[0]!, { config: OFF });
    const client = await Client.connect(ours.address);
    for (const [name, { configs }] of Object.entries(SCENARIOS))
      await client.createTopics([
        { name, partitions: 1, configs: { 'cleanup.policy': 'compact', ...configs } },
      ]);
    await client.close();
    await ours.stop();
    cpSync(data[0]!, data[1]!, { recursive: true });
    const compare = (what: string) => {
      for (const topic of TOPICS) {
        const [one, other] = data.map((each) => storedBatches(each, topic));
        expect(other, `${topic} ${what}`).toEqual(one);
      }
      const [one, other] = data.map((each) => [...cleanedOffsets(each)].sort());
      expect(other, what).toEqual(one);
    };
    for (const round of [0, 1, 2]) {
      for (const [i, dataDir] of data.entries()) {
        ours = await BrokerProcess.start(dataDir, { config: { ...OFF, engine } });
        const { address } = ours;
        const writing = await Client.connect(address);
        for (const write of writers[i]!) await write(writing, address, round);
        await writing.close();
        await ours.stop();
        ours = undefined;
      }
      compare(`written in round ${round}`);
      const before = TOPICS.map((topic) => storedBatches(data[0]!, topic));
      // The first segment that is young enough: all records of one before it are old.
      const isYoung = (line: string) => line.includes(` max ${TIME} `);
      const young = Number.parseInt(storedBatches(data[0]!, 'both').find(isYoung)!, 10);
      const keptFrom = segmentsOf(data[0]!, 'both')
        .filter((base) => base <= young)
        .at(-1)!;
      const wait = (dataDir: string) => untilClean(dataDir, round, keptFrom);
      await Promise.all([
        cleanKafka(homes[round % 2]!, wait),
        cleanOurs(data[1 - (round % 2)]!, engine, wait),
      ]);
      compare(`cleaned in round ${round}`);
      for (const [i, topic] of TOPICS.entries()) {
        const rests = SCENARIOS[topic]!.restsIn?.includes(round) === true;
        const left = storedBatches(data[0]!, topic);
        if (rests) expect(left, topic).toEqual(before[i]);
        else expect(left.join('').length, topic).toBeLessThan(before[i]!.join('').length);
      }
    }
    // What the scenarios are about has come about.
    const left = (topic: string) => storedBatches(data[0]!, topic);
    expect(left('transactions-late').some((line) => line.includes(' control horizon '))).toBe(true);
    expect(left('sequences').some((line) => /^\S+ \d+\/\d+ seq \d+ .*\[\]$/.test(line))).toBe(true);
    expect(segmentsOf(data[0]!, 'both')[0]).toBeGreaterThan(0);
  },
);

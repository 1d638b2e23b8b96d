/** Unmodified clients of many languages read compacted partitions of which most offsets are gone, from wherever they begin. */
import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { alterConfigs, ResourceType } from '../../src/client/admin.ts';
import { Client } from '../../src/client/client.ts';
import { commitOffsets } from '../../src/client/groups.ts';
import { createBroker } from '../../src/index.ts';
import type { NewRecord } from '../../src/protocol/records/writer.ts';
import { BrokerProcess } from '../support/broker-process.ts';
import { ClientDriver, type Isolation } from '../support/client-driver.ts';
import { BRISK_GROUPS, chosen } from '../support/client-scene.ts';
import { CLIENTS } from '../support/clients.ts';
import { KafkaPeer, kafkaPort } from '../support/kafka-peer.ts';
import { scaled } from '../support/scale.ts';
import { TransactionScript } from '../support/transaction-script.ts';
import { withClient } from '../support/with-client.ts';

const TOPIC = 'gaps';
const SETTINGS = { ...BRISK_GROUPS, 'offsets.topic.num.partitions': '1', 'log.cleaner.enable': 'false' };
/** Batches of each run of offsets that is to go. */
const BATCHES = scaled(20, 200);
const PER_BATCH = 25;
const SESSION_MS = 30_000;
/** What each partition is; see the functions of the same names. */
const SHAPES = ['start', 'end', 'producers', 'transactions', 'nothing'] as const;
const ISOLATIONS: readonly Isolation[] = ['read_uncommitted', 'read_committed'];
type Engine = 'native' | 'js';
const ENGINES: readonly Engine[] = ['native', 'js'];
/** At full size Apache Kafka serves the same directory: what a client does not read there, no broker can give it. */
const SERVERS = scaled<readonly (Engine | 'Apache Kafka')[]>(['native'], [...ENGINES, 'Apache Kafka']);
/** At the smaller size the two that start slowest are left to the other suites. */
const READERS = CLIENTS.filter(({ name }) =>
  scaled(!['platformatic', 'kafka-clients-2.8'].includes(name), true),
);
/** What a client does not get past, whichever broker serves it: kafkajs learns where to go on from records alone, and asks again
 * and again for a segment that has nothing but empty batches. */
const STUCK: Readonly<Record<string, readonly (typeof SHAPES)[number][]>> = {
  kafkajs: ['end', 'producers', 'nothing'],
};

/** Offset to `key=value`, of the records that are left, and where the log ends. */
interface Content {
  readonly left: Map<number, string>;
  end: number;
}

/** Writes to one partition, and knows what compaction has to leave. */
class Writer {
  readonly content: Content = { left: new Map(), end: 0 };
  readonly #lastOf = new Map<string, number>();
  readonly #client: Client;
  readonly #partition: number;

  constructor(client: Client, partition: number) {
    this.#client = client;
    this.#partition = partition;
  }

  /** One batch with these keys; null: a record that no compacted topic keeps. */
  async batch(
    keys: readonly (string | null)[],
    fields: Parameters<Client['produce']>[3] = {},
    isCommitted = true,
  ): Promise<void> {
    const base = this.content.end;
    const records: NewRecord[] = keys.map((key, i) => ({
      timestamp: Date.now(),
      key,
      value: `v${base + i}`,
    }));
    const answer = await this.#client.produce(TOPIC, this.#partition, records, fields);
    // Markers take offsets that nobody is told of.
    const at = Number(answer!.baseOffset);
    for (const [i, key] of keys.entries()) {
      if (key === null || !isCommitted) continue;
      const old = this.#lastOf.get(key);
      if (old !== undefined) this.content.left.delete(old);
      this.#lastOf.set(key, at + i);
      this.content.left.set(at + i, `${key}=v${base + i}`);
    }
    this.content.end = at + keys.length;
  }

  /** Batches of records that nothing is left of. */
  async vanishing(): Promise<void> {
    for (let i = 0; i < BATCHES; i++) await this.batch(Array<null>(PER_BATCH).fill(null));
  }

  /** Batches with a record each that stays, at a place that differs. */
  async sparse(name: string): Promise<void> {
    for (let i = 0; i < BATCHES; i++) {
      const keys = Array.from({ length: PER_BATCH }, (_, n) =>
        n === (i * 7) % PER_BATCH ? `${name}${i}` : null,
      );
      await this.batch(keys, { compression: i % 2 === 0 ? 'none' : 'lz4' });
    }
  }
}

type Fill = (writer: Writer, client: Client, partition: number) => Promise<void>;

const FILLS: Readonly<Record<(typeof SHAPES)[number], Fill>> = {
  /** A range at the start is gone, and one in the middle. */
  start: async (writer) => {
    await writer.vanishing();
    await writer.sparse('a');
    await writer.vanishing();
    await writer.sparse('b');
  },
  /** All below the high watermark is gone, but for a few in the middle. */
  end: async (writer) => {
    await writer.sparse('a');
    await writer.vanishing();
  },
  /** Batches stay without a record, each the last one of its producer. */
  producers: async (writer, client) => {
    for (let i = 0; i < 8; i++) {
      await writer.sparse('a');
      const { producerId, producerEpoch } = await client.initProducerId();
      const fields = { producerId, producerEpoch, baseSequence: 0 };
      await writer.batch(Array<null>(PER_BATCH).fill(null), fields);
    }
  },
  /** Committed ones and aborted ones; the end is an aborted one's marker, behind records that are gone. */
  transactions: async (writer, client, partition) => {
    const script = new TransactionScript(client.connection);
    let sequence = 0;
    const producer = await script.init('gaps');
    const fields = () => ({
      producerId: producer.id,
      producerEpoch: producer.epoch,
      baseSequence: sequence,
      transactional: true,
      transactionalId: 'gaps',
    });
    for (let i = 0; i < BATCHES; i++) {
      const isCommitted = i % 3 === 0;
      await script.add('gaps', producer, [[TOPIC, partition]]);
      const keys = Array.from({ length: PER_BATCH }, (_, n) => (n % 5 === 0 ? `t${i}-${n}` : null));
      await writer.batch(keys, fields(), isCommitted);
      sequence += PER_BATCH;
      await script.end('gaps', producer, isCommitted, { version: 4 });
      if (i % 4 === 0) await writer.sparse('a');
    }
    const refused = script.lines.filter((line) => !line.includes('NONE'));
    expect(refused).toEqual([]);
  },
  nothing: (writer) => writer.vanishing(),
};

/** Fills, compacts and closes a directory. */
async function fill(dataDir: string, engine: Engine): Promise<Content[]> {
  const broker = await createBroker({ dataDir, host: '127.0.0.1', port: 0, engine, config: SETTINGS });
  try {
    return await withClient(broker, async (client) => {
      const configs = { 'internal.segment.bytes': '16384', 'retention.ms': '-1' };
      await client.createTopics([{ name: TOPIC, partitions: SHAPES.length, configs }]);
      const contents: Content[] = [];
      for (const [partition, shape] of SHAPES.entries()) {
        const writer = new Writer(client, partition);
        await FILLS[shape](writer, client, partition);
        contents.push(writer.content);
      }
      // Records without a key are taken as long as the topic is not compacted.
      const resource = { type: ResourceType.TOPIC, name: TOPIC };
      await alterConfigs(client, resource, [{ name: 'cleanup.policy', value: 'compact' }]);
      await broker.compact([TOPIC]);
      return contents;
    });
  } finally {
    await broker.close();
  }
}

/** In the middle of a partition's longest run of offsets that are gone. */
function gapOf({ left, end }: Content): number {
  let [best, middle, last] = [0, 0, -1];
  for (const offset of [...left.keys(), end]) {
    if (offset - last > best) [best, middle] = [offset - last, last + ((offset - last) >> 1)];
    last = offset;
  }
  return middle;
}

/** A member of a group, and where the group begins in each partition. */
interface Reader {
  readonly from: readonly number[];
  readonly isolation: Isolation;
}

/** From the log's start, which is itself among what is gone; from the middle of a gap; from the last offset, which is gone too. */
function readersOf(contents: readonly Content[]): Reader[] {
  const starts = contents.map(() => 0);
  const gaps = contents.map(gapOf);
  const ends = contents.map(({ end }) => end - 1);
  const mixed = contents.map((_, partition) => (partition % 2 === 0 ? gaps : ends)[partition]!);
  const few: Reader[] = [
    { from: starts, isolation: 'read_uncommitted' },
    { from: mixed, isolation: 'read_committed' },
  ];
  const all = [starts, gaps, ends].flatMap((from) => ISOLATIONS.map((isolation) => ({ from, isolation })));
  return scaled(few, all);
}

/** What a reader has to be given from an offset on, by `partition offset`. */
function expected(contents: readonly Content[], from: readonly number[]): string[] {
  return contents.flatMap(({ left }, partition) =>
    [...left].flatMap(([offset, text]) =>
      offset < from[partition]! ? [] : `${partition} ${offset} ${text}`,
    ),
  );
}

/** What serves a directory. */
interface Server {
  readonly address: string;
  end(): Promise<unknown>;
}

async function serve(home: string, server: (typeof SERVERS)[number]): Promise<Server> {
  if (server !== 'Apache Kafka') {
    const config = { ...SETTINGS, engine: server };
    const broker = await BrokerProcess.start(join(home, 'data'), { config });
    return { address: broker.address, end: () => broker.kill() };
  }
  const kafka = new KafkaPeer(home, kafkaPort());
  await kafka.start(...Object.entries(SETTINGS).map(([key, value]) => `${key}=${value}`));
  await kafka.untilLeading(SHAPES.map((_, partition) => [TOPIC, partition]));
  return { address: kafka.address, end: () => kafka.dispose() };
}

/** Waits until a client was given these records of these partitions; when they stay away the difference says which. */
async function given(
  driver: ClientDriver,
  what: string,
  partitions: readonly number[],
  lines: readonly string[],
): Promise<void> {
  const isOf = (line: string) => partitions.includes(Number(line.split(' ', 1)[0]));
  const wanted = lines.filter(isOf).sort();
  const seen = () => [
    ...new Set(
      driver.records.map(({ partition, offset, key, value }) => `${partition} ${offset} ${key}=${value}`),
    ),
  ];
  const isThere = () => seen().filter(isOf).length >= wanted.length;
  await driver.until(what, isThere).finally(() => expect(seen().filter(isOf).sort(), what).toEqual(wanted));
}

describe.each(SERVERS)('offsets that compaction took away, served by %s', (server) => {
  let dir: string;
  let contents: Content[];
  beforeAll(async () => {
    dir = mkdtempSync(join(tmpdir(), 'broadsheet-gaps-'));
    contents = await fill(join(dir, 'data'), server === 'js' ? 'js' : 'native');
    for (const [partition, shape] of SHAPES.entries()) {
      const { left, end } = contents[partition]!;
      expect(end, shape).toBeGreaterThan(left.size * 2);
      expect(left.size === 0, shape).toBe(shape === 'nothing');
    }
  }, 600_000);
  afterAll(() => rmSync(dir, { recursive: true, force: true }));

  it.each(chosen(READERS))('are nothing to $name', async (kind) => {
    const home = mkdtempSync(join(tmpdir(), 'broadsheet-gaps-copy-'));
    cpSync(dir, home, { recursive: true, filter: (path) => !path.endsWith('.sock') });
    const broker = await serve(home, server);
    const client = await Client.connect(broker.address);
    const readers: { readonly driver: ClientDriver; readonly from: readonly number[] }[] = [];
    const partitions = [...SHAPES.keys()].filter((n) => !(STUCK[kind.name] ?? []).includes(SHAPES[n]!));
    try {
      for (const [n, { from, isolation }] of readersOf(contents).entries()) {
        const group = `group-${n}`;
        const offsets = from.map((offset, partition) => ({ topic: TOPIC, partition, offset }));
        // With nothing committed a group begins at the log's start.
        if (from.some((offset) => offset > 0)) await commitOffsets(client, group, offsets);
        const driver = await ClientDriver.start(kind, broker.address);
        readers.push({ driver, from });
        const member = { group, topics: [TOPIC], sessionTimeoutMs: SESSION_MS, isolation };
        await driver.join({ ...member, protocol: 'classic' });
      }
      for (const { driver, from } of readers)
        await given(driver, 'all that is left', partitions, expected(contents, from));
      // Whoever stands behind the last record, among offsets that are gone, hears of what comes after them.
      const after: string[] = [];
      for (const partition of SHAPES.keys()) {
        const record = { timestamp: Date.now(), key: 'last', value: 'of all' };
        const answer = await client.produce(TOPIC, partition, [record]);
        after.push(`${partition} ${answer!.baseOffset} last=of all`);
      }
      for (const { driver, from } of readers) {
        await given(driver, 'what was written last', partitions, [...expected(contents, from), ...after]);
        await driver.commit();
        expect(driver.errors).toEqual([]);
      }
    } finally {
      await Promise.all(readers.map(({ driver }) => driver.kill()));
      await client.close();
      await broker.end();
      rmSync(home, { recursive: true, force: true });
    }
  });
});

/** Requests of topic and partition administration, sent to this broker and to Apache Kafka: what both answer. */
import { mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Client, EARLIEST } from '../../src/client/client.ts';
import { ADMIN_STEPS } from '../support/admin-steps.ts';
import { BrokerProcess } from '../support/broker-process.ts';
import { runSteps, WirePeer } from '../support/compare-wire.ts';
import { KafkaPeer, kafkaPort } from '../support/kafka-peer.ts';

const PORT = kafkaPort();
const dir = mkdtempSync(join(tmpdir(), 'broadsheet-admin-wire-'));
const kafka = new KafkaPeer(join(dir, 'kafka'), PORT);
let broker: BrokerProcess;
let theirs: Map<string, unknown>;
let ours: Map<string, unknown>;

beforeAll(async () => {
  [broker] = await Promise.all([BrokerProcess.start(join(dir, 'broadsheet')), kafka.start()]);
  const peers = [
    new WirePeer(kafka.address, kafka.dataDir),
    new WirePeer(broker.address, join(dir, 'broadsheet')),
  ] as const;
  theirs = await runSteps(peers[0], ADMIN_STEPS);
  ours = await runSteps(peers[1], ADMIN_STEPS);
  await Promise.all(peers.map((peer) => peer.close()));
}, 300_000);
afterAll(async () => {
  await broker?.kill();
  await kafka.dispose();
  rmSync(dir, { recursive: true, force: true });
});

/** What is answered otherwise on purpose, as docs/DIFFERENCES.md says. */
const DIFFERENT: Readonly<Record<string, unknown>> = {
  'elect: no time': expect.objectContaining({ errorCode: 'NONE' }),
  'reassign: no time': expect.objectContaining({ errorCode: 'NONE' }),
  'create: a name that collides': expect.objectContaining({
    topics: [
      expect.objectContaining({ name: 'c.2', errorCode: 'NONE' }),
      expect.objectContaining({ name: 'c_2', errorCode: 'INVALID_TOPIC_EXCEPTION' }),
    ],
  }),
  // The largest timestamp of what is left: nothing is.
  'offsets of cut when all is cut': expect.arrayContaining([
    expect.objectContaining({
      topics: [{ name: 'cut', partitions: [expect.objectContaining({ errorCode: 'NONE', offset: -1 })] }],
    }),
  ]),
};

interface Config {
  name: string;
  value: string | null;
  configSource: number;
}

/** An answer of Kafka's as this broker gives it: with the defaults that differ, and with a text where Kafka has none. */
function adapted(kafkas: unknown, own: unknown, key = ''): unknown {
  if (/errorMessage$/i.test(key) && kafkas === null) return own === '<text>' ? own : kafkas;
  if (Array.isArray(kafkas)) {
    const owns = Array.isArray(own) ? own : [];
    return kafkas.map((each, index) => adapted(each, owns[index]));
  }
  if (kafkas === null || typeof kafkas !== 'object') return kafkas;
  const { name } = kafkas as Config;
  if (name === 'max.decompressed.message.bytes') return { ...kafkas, value: '104857600' };
  if (name === 'min.insync.replicas') return { ...kafkas, configSource: 5 };
  return Object.fromEntries(
    Object.entries(kafkas).map(([each, value]) => [
      each,
      adapted(value, (own as Record<string, unknown> | undefined)?.[each], each),
    ]),
  );
}

describe('administration of topics and partitions', () => {
  it.each(ADMIN_STEPS.map(([name]) => name))('%s', (name) => {
    const mine = ours.get(name);
    if (name in DIFFERENT) {
      expect(mine).toEqual(DIFFERENT[name]);
      expect(theirs.get(name)).not.toEqual(mine);
    } else {
      expect(mine).toEqual(adapted(theirs.get(name), mine));
    }
  });

  it('outlives SIGKILL', async () => {
    const state = async () => {
      const client = await Client.connect(broker.address);
      const { topics } = await client.metadata();
      const counts = topics.map(({ name, partitions }) => [name, partitions.length]).sort();
      const { offset } = await client.listOffset('cut', 0, EARLIEST);
      await client.close();
      return { counts, offset };
    };
    const before = await state();
    expect(before.offset).toBe(11);
    await broker.kill();
    broker = await BrokerProcess.start(join(dir, 'broadsheet'));
    expect(await state()).toEqual(before);
  });

  it('is kept by Apache Kafka, which opens the directory', async () => {
    await broker.stop();
    const other = new KafkaPeer(join(dir, 'heir'), PORT + 5);
    mkdirSync(other.dir);
    renameSync(join(dir, 'broadsheet'), other.dataDir);
    try {
      await other.start();
      await other.untilLeading([
        ['cut', 0],
        ['grow-3', 2],
      ]);
      const client = await Client.connect(other.address);
      expect((await client.listOffset('cut', 0, EARLIEST)).offset).toBe(11);
      const { topics } = await client.metadata(['grow-3', 'grow-assigned', 'grow']);
      expect(topics.map(({ partitions }) => partitions.length)).toEqual([3, 3, 1]);
      await client.close();
    } finally {
      await other.dispose();
    }
  });
});

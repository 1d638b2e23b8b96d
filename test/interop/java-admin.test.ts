/** Every call of Kafka's Java Admin that is served here (test/support/AdminCalls.java), made against Apache Kafka and
 * against this broker: the same results, but for what is listed here and in docs/DIFFERENCES.md. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { BrokerProcess } from '../support/broker-process.ts';
import { SOURCE_LAUNCHER } from '../support/compare-tools.ts';
import { command, KAFKA, KafkaPeer } from '../support/kafka-peer.ts';

const PROGRAM = fileURLToPath(new URL('../support/AdminCalls.java', import.meta.url));
const CALLS = 148;
const dir = mkdtempSync(join(tmpdir(), 'broadsheet-java-admin-'));
const kafka = new KafkaPeer(`${dir}/kafka`, Number(process.env.BROADSHEET_KAFKA_PORT ?? 24_990));
let broker: BrokerProcess;

type Results = Map<string, unknown>;
let theirs: Results;
let ours: Results;

async function calls(address: string, logDir: string): Promise<Results> {
  const text = await command(KAFKA, 'tool', SOURCE_LAUNCHER, PROGRAM, address, logDir);
  const lines = text.split('\n').filter((line) => line.startsWith('{'));
  return new Map(
    lines
      .map((line) => JSON.parse(line) as { call: string; result: unknown })
      .map(({ call, result }) => [call, result]),
  );
}

/** Values of keys whose defaults differ: Kafka's, and ours. */
const DEFAULTS: Readonly<Record<string, readonly [string, string]>> = {
  'max.decompressed.message.bytes': ['2147483639', '104857600'],
  'consumer.assignment.interval.ms': ['1000', '0'],
  'group.consumer.assignment.interval.ms': ['1000', '0'],
  'streams.assignment.interval.ms': ['1000', '0'],
  'group.streams.assignment.interval.ms': ['1000', '0'],
  'streams.initial.rebalance.delay.ms': ['3000', '0'],
  'group.streams.initial.rebalance.delay.ms': ['3000', '0'],
};

/** What differs on purpose in single calls: Kafka's, and ours. */
const EXCEPT: Readonly<Record<string, readonly [unknown, unknown]>> = {
  'addRaftVoter of none': [{ all: '!TimeoutException' }, { all: '!InvalidRequestException' }],
};
const DELETED = { leaderEpoch: 0, offset: 11, timestamp: 1_700_000_023_000 };
const NONE = { leaderEpoch: 'none', offset: -1, timestamp: -1 };

type Json = Record<string, unknown>;
const isObject = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Without the cluster-wide min.insync.replicas that formatting a Kafka's directory sets. */
function common(value: unknown): unknown {
  if (Array.isArray(value)) {
    return value.filter((each) => !isObject(each) || each.name !== 'min.insync.replicas').map(common);
  }
  if (!isObject(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, common(each)]));
}

/** With our defaults in the place of Kafka's. */
function withOurDefaults(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withOurDefaults);
  if (!isObject(value)) return value;
  const copy = Object.fromEntries(Object.entries(value).map(([key, each]) => [key, withOurDefaults(each)]));
  const [kafka, own] = DEFAULTS[String(copy.name)] ?? [];
  return own !== undefined && copy.value === kafka ? { ...copy, value: own } : copy;
}

/** What ours must be, by what Kafka's is. */
function expected(call: string): unknown {
  const result = withOurDefaults(common(theirs.get(call)));
  const [kafka, own] = EXCEPT[call] ?? [];
  if (kafka !== undefined) {
    expect(result).toEqual(kafka);
    return own;
  }
  if (call === 'listOffsets maxTimestamp after deleteRecords') {
    // All records of this partition are deleted.
    const text = JSON.stringify(result);
    expect(text).toContain(JSON.stringify(DELETED));
    return JSON.parse(text.replaceAll(`"a-1":${JSON.stringify(DELETED)}`, `"a-1":${JSON.stringify(NONE)}`));
  }
  if (call === 'describeFeatures') {
    const served = Object.keys(ours.get(call) as Json);
    return Object.fromEntries(Object.entries(result as Json).filter(([name]) => served.includes(name)));
  }
  return result;
}

beforeAll(async () => {
  [broker] = await Promise.all([BrokerProcess.start(`${dir}/broadsheet`), kafka.start()]);
  [theirs, ours] = await Promise.all([
    calls(kafka.address, kafka.dataDir),
    calls(broker.address, `${dir}/broadsheet`),
  ]);
}, 600_000);
afterAll(async () => {
  await broker?.kill();
  await kafka.dispose();
  rmSync(dir, { recursive: true, force: true });
});

describe("Kafka's Java Admin", () => {
  it('makes every call against both', () => {
    expect(theirs.size).toBe(CALLS);
    expect([...ours.keys()].sort()).toEqual([...theirs.keys()].sort());
  });

  it('gets the same results', () => {
    for (const call of theirs.keys()) expect.soft(common(ours.get(call)), call).toEqual(expected(call));
  });
});

/** kafka-configs against this broker and against Apache Kafka: the same commands, their outputs compared. */
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { BrokerProcess } from '../support/broker-process.ts';
import { outputs } from '../support/command.ts';
import { KAFKA, KafkaPeer, kafkaPort } from '../support/kafka-peer.ts';

const PORT = kafkaPort();
const dir = mkdtempSync(join(tmpdir(), 'broadsheet-configs-'));
const kafka = new KafkaPeer(join(dir, 'kafka'), PORT);
let broker: BrokerProcess;

/** Broker keys whose values the two were started with, or whose defaults differ (docs/DIFFERENCES.md); keys of our own;
 * and min.insync.replicas, which Kafka sets for the cluster when it formats a directory. */
const DIFFERING =
  /^ {2}(advertised\.listeners|auto\.create\.topics\.enable|connection\.max\.queued\.\w+|controller\.\S*|engine|fetch\.path|group\.\S*|listeners|log\.dirs|max\.decompressed\.message\.bytes|min\.insync\.replicas|\w*\.?\S*(replication\.factor|min\.isr)|process\.roles|socket\.receive\.buffer\.bytes|transport)=/;
/** Kafka has a logger for every class; those that both have are compared. */
const LOGGER = /^ {2}(\S+)=([A-Z]+) sensitive=false synonyms=\{\}$/;
const SHARED_LOGGERS = new Set([
  'root',
  'kafka.server.BrokerServer',
  'kafka.server.KafkaApis',
  'kafka.network.SocketServer',
]);

/** What a run printed, without what may differ: texts of errors, stacks, addresses and lines that are ours or Kafka's. */
function normalised(output: string): string[] {
  const lines: string[] = [];
  for (const line of output.split('\n')) {
    if (/^\s+at |^Caused by|^\s*\.\.\. \d+ more|^Error while executing/.test(line) || line === '') continue;
    const logger = LOGGER.exec(line)?.[1];
    if (DIFFERING.test(line) || (logger !== undefined && !SHARED_LOGGERS.has(logger))) continue;
    // Of an error its class counts.
    lines.push(line.replace(/((?:org\.apache\.kafka\.common\.errors\.)\w+): .*$/, '$1'));
  }
  return lines;
}

async function run(address: string, args: readonly string[]): Promise<string[]> {
  const all = ['tool', 'kafka-configs', '--bootstrap-server', address, ...args];
  try {
    const { stdout, stderr } = await outputs(KAFKA, all);
    return normalised(`${stdout}\n${stderr}`);
  } catch (error) {
    return ['failed', ...normalised((error as Error).message.split('\n').slice(1).join('\n'))];
  }
}

/** The same command on both, one after the other; what this broker made the tool print. */
async function both(command: string): Promise<string[]> {
  const args = command.split(' ');
  const theirs = await run(kafka.address, args);
  const ours = await run(broker.address, args);
  expect(ours, command).toEqual(theirs);
  return ours;
}

beforeAll(async () => {
  mkdirSync(kafka.dir, { recursive: true });
  mkdirSync(join(dir, 'ours'));
  broker = await BrokerProcess.start(join(dir, 'ours'));
  await kafka.start();
  for (const address of [kafka.address, broker.address]) {
    const topic = ['--create', '--topic', 't', '--partitions', '2', '--config', 'flush.messages=7'];
    await outputs(KAFKA, ['tool', 'kafka-topics', '--bootstrap-server', address, ...topic]);
  }
}, 180_000);
afterAll(async () => {
  await broker?.kill();
  await kafka.dispose();
  rmSync(dir, { recursive: true, force: true });
});

const TOPIC = '--entity-type topics --entity-name t';
const NODE = '--entity-type brokers --entity-name 1';
const ALL_BROKERS = '--entity-type brokers --entity-default';
const LOGGERS = '--entity-type broker-loggers --entity-name 1';
const GROUP = '--entity-type groups --entity-name g';
const METRICS = '--entity-type client-metrics --entity-name m';

describe('kafka-configs', () => {
  it('shows and changes topics', async () => {
    expect((await both(`${TOPIC} --describe --all`)).length).toBeGreaterThan(30);
    await both(
      `${TOPIC} --alter --add-config retention.ms=5000,cleanup.policy=[compact,delete],compression.type=zstd`,
    );
    expect((await both(`${TOPIC} --describe`)).join()).toContain('cleanup.policy=compact,delete');
    await both(`${TOPIC} --alter --delete-config retention.ms,cleanup.policy`);
    await both(`${TOPIC} --alter --add-config no.such.key=1`);
    await both('--entity-type topics --describe');
  }, 600_000);

  it('shows and changes brokers and their defaults', async () => {
    expect((await both(`${NODE} --describe --all`)).length).toBeGreaterThan(250);
    await both(`${NODE} --alter --add-config log.segment.bytes=2000000,num.io.threads=10`);
    await both(`${ALL_BROKERS} --alter --add-config log.segment.bytes=3000000`);
    expect((await both(`${NODE} --describe`)).join()).toContain(
      'DYNAMIC_DEFAULT_BROKER_CONFIG:log.segment.bytes=3000000',
    );
    await both(`${ALL_BROKERS} --describe`);
    await both(`${NODE} --alter --add-config num.partitions=5`);
    await both(`${NODE} --alter --delete-config log.segment.bytes,num.io.threads`);
  }, 600_000);

  it('shows and changes the levels of loggers', async () => {
    await both(`${LOGGERS} --alter --add-config kafka.server.KafkaApis=DEBUG`);
    expect((await both(`${LOGGERS} --describe`)).join()).toContain('kafka.server.KafkaApis=DEBUG');
    await both(`${LOGGERS} --alter --add-config no.such.Logger=DEBUG`);
  }, 600_000);

  it('shows and changes groups and client metrics', async () => {
    await both(
      `${GROUP} --alter --add-config consumer.session.timeout.ms=50000,share.auto.offset.reset=earliest`,
    );
    expect((await both('--entity-type groups --describe')).join()).toContain(
      'consumer.session.timeout.ms=50000',
    );
    await both(`${GROUP} --alter --add-config consumer.session.timeout.ms=1`);
    await both(
      `${METRICS} --alter --add-config interval.ms=1000,metrics=[org.a,org.b],match=[client_id=x.*]`,
    );
    expect((await both('--entity-type client-metrics --describe')).join()).toContain('interval.ms=1000');
    await both(`${METRICS} --alter --add-config interval.ms=1`);
    await both(`${METRICS} --alter --delete-config interval.ms,metrics,match`);
  }, 600_000);
});

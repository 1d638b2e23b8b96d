/** One directory, opened in turn by this broker and by Apache Kafka: both keep the quotas, users and features of the other,
 * and kafka-configs shows them alike. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { Client } from '../../src/client/client.ts';
import { Connection } from '../../src/client/connection.ts';
import { BrokerProcess } from '../support/broker-process.ts';
import { normalise } from '../support/cluster-answers.ts';
import { CALLS } from '../support/cluster-cases.ts';
import { KafkaTools } from '../support/compare-tools.ts';
import { KafkaPeer, kafkaPort } from '../support/kafka-peer.ts';

const dir = mkdtempSync(join(tmpdir(), 'broadsheet-cluster-dir-'));
const kafka = new KafkaPeer(dir, kafkaPort());
const tools = new KafkaTools();

afterAll(async () => {
  tools.close();
  await kafka.dispose();
  rmSync(dir, { recursive: true, force: true });
});

async function configs(address: string, ...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await tools.run('configs', '--bootstrap-server', address, ...args);
  if (code !== 0) throw new Error(`kafka-configs ${args.join(' ')} ended with ${code}: ${stdout}${stderr}`);
  return stdout;
}

/** Mechanisms come in any order, and so do lines. */
function sortedLines(text: string): string {
  const lines = text.replaceAll(
    /are (SCRAM-\S+), (SCRAM-\S+)$/gm,
    (_, a: string, b: string) => `are ${[a, b].sort().join(', ')}`,
  );
  return lines.split('\n').sort().join('\n');
}

/** All that a client sees of quotas, users and features, and what kafka-configs prints of them. */
async function seen(address: string) {
  const [host, port] = address.split(':');
  const connection = await Connection.connect({ host: host!, port: Number(port) });
  const quotas = await connection.request(CALLS.describeClientQuotas, { components: [], strict: false });
  const scram = await connection.request(CALLS.describeScram, { users: null });
  connection.close();
  const printed: string[] = [];
  for (const type of ['users', 'clients', 'ips']) {
    printed.push(sortedLines(await configs(address, '--describe', '--entity-type', type)));
  }
  return { quotas: normalise(quotas), scram: normalise(scram), printed };
}

async function withOurs<T>(use: (address: string) => Promise<T>): Promise<T> {
  const broker = await BrokerProcess.start(kafka.dataDir);
  try {
    return await use(broker.address);
  } finally {
    await broker.stop();
  }
}

const alter = (address: string, args: string) => configs(address, '--alter', ...args.split(' '));

const TOPIC = '--entity-type topics --entity-name t --add-config';
const BROKER = '--entity-type brokers --entity-name 1 --add-config';
const BROKERS = '--entity-type brokers --entity-default --add-config';
const GROUP = '--entity-type groups --entity-name g --add-config';
const METRICS = '--entity-type client-metrics --entity-name m --add-config';

/** What kafka-configs shows of dynamic configs. A Kafka's own cluster-wide min.insync.replicas is in none of our directories. */
async function dynamicConfigs(address: string): Promise<string[]> {
  const printed: string[] = [];
  for (const entity of [
    ['topics', '--entity-name', 't'],
    ['brokers', '--entity-name', '1'],
    ['brokers', '--entity-default'],
    ['groups', '--entity-name', 'g'],
    ['client-metrics', '--entity-name', 'm'],
    ['groups'],
    ['client-metrics'],
  ]) {
    printed.push(sortedLines(await configs(address, '--describe', '--entity-type', ...entity)));
  }
  return printed;
}

describe('dynamic configs of one directory', () => {
  it('go from this broker to Apache Kafka and back', { timeout: 600_000 }, async () => {
    const ours = await withOurs(async (address) => {
      const client = await Client.connect(address);
      await client.createTopics([{ name: 't', partitions: 1, configs: { 'retention.ms': '123456789' } }]);
      await client.close();
      await alter(
        address,
        `${TOPIC} cleanup.policy=[compact,delete],segment.bytes=2097152,max.message.bytes=777777`,
      );
      await alter(address, `${BROKER} log.cleaner.threads=2,num.io.threads=9`);
      await alter(address, `${BROKERS} message.max.bytes=2000000,log.retention.ms=987654321`);
      await alter(address, `${GROUP} consumer.session.timeout.ms=50000,consumer.heartbeat.interval.ms=6000`);
      await alter(
        address,
        `${METRICS} interval.ms=60000,metrics=[org.apache.kafka.,x],match=[client_id=a.*]`,
      );
      return dynamicConfigs(address);
    });
    for (const [index, text] of ['777777', 'num.io.threads=9', '987654321', '50000', '60000'].entries()) {
      expect(ours[index]).toContain(text);
    }
    await kafka.start();
    expect(await dynamicConfigs(kafka.address)).toEqual(ours);
    await alter(kafka.address, `${TOPIC} segment.bytes=3145728`);
    await alter(kafka.address, '--entity-type brokers --entity-default --delete-config log.retention.ms');
    await alter(kafka.address, `${GROUP} consumer.session.timeout.ms=51000`);
    const theirs = await dynamicConfigs(kafka.address);
    await kafka.stop();
    expect(theirs).not.toEqual(ours);
    await withOurs(async (address) => expect(await dynamicConfigs(address)).toEqual(theirs));
  });
});

describe('quotas and users of one directory', () => {
  it('go from this broker to Apache Kafka and back', { timeout: 600_000 }, async () => {
    const ours = await withOurs(async (address) => {
      await alter(
        address,
        '--entity-type users --entity-name alice --add-config producer_byte_rate=1024,consumer_byte_rate=2048',
      );
      await alter(address, '--entity-type users --entity-default --add-config request_percentage=150.5');
      await alter(
        address,
        '--entity-type users --entity-name alice --entity-type clients --entity-default --add-config controller_mutation_rate=7',
      );
      await alter(
        address,
        '--entity-type ips --entity-name 10.1.2.3 --add-config connection_creation_rate=9',
      );
      await alter(
        address,
        '--entity-type users --entity-name alice --add-config SCRAM-SHA-256=[iterations=5000,password=alice-secret]',
      );
      await alter(
        address,
        '--entity-type users --entity-name alice --add-config SCRAM-SHA-512=[password=alice-secret]',
      );
      return seen(address);
    });
    expect(ours.printed[0]).toContain('alice');
    await kafka.start();
    expect(await seen(kafka.address)).toEqual(ours);
    await alter(kafka.address, '--entity-type users --entity-name alice --delete-config consumer_byte_rate');
    await alter(kafka.address, '--entity-type users --entity-name alice --delete-config SCRAM-SHA-256');
    await alter(
      kafka.address,
      '--entity-type clients --entity-name loader --add-config producer_byte_rate=77',
    );
    await alter(
      kafka.address,
      '--entity-type users --entity-name bob --add-config SCRAM-SHA-256=[iterations=16384,password=bob-secret]',
    );
    const theirs = await seen(kafka.address);
    await kafka.stop();
    expect(theirs).not.toEqual(ours);
    await withOurs(async (address) => {
      expect(await seen(address)).toEqual(theirs);
      await alter(
        address,
        '--entity-type ips --entity-name 10.1.2.3 --delete-config connection_creation_rate',
      );
    });
  });
});

/** One directory, opened in turn by this broker and by Apache Kafka: both keep the quotas, users and features of the other,
 * and kafka-configs shows them alike. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { Connection } from '../../src/client/connection.ts';
import { BrokerProcess } from '../support/broker-process.ts';
import { normalise } from '../support/cluster-answers.ts';
import { CALLS } from '../support/cluster-cases.ts';
import { command, KAFKA, KafkaPeer, kafkaPort } from '../support/kafka-peer.ts';

const dir = mkdtempSync(join(tmpdir(), 'broadsheet-cluster-dir-'));
const kafka = new KafkaPeer(dir, kafkaPort());

afterAll(async () => {
  await kafka.dispose();
  rmSync(dir, { recursive: true, force: true });
});

function configs(address: string, ...args: string[]): Promise<string> {
  return command(KAFKA, 'tool', 'configs', '--bootstrap-server', address, ...args);
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

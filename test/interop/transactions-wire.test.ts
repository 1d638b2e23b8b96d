/** Requests of transactions, right and wrong, sent to this broker and to Apache Kafka under both protocols: both answer the
 * same, and their partitions hold the same. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Connection } from '../../src/client/connection.ts';
import { BrokerProcess } from '../support/broker-process.ts';
import { KafkaPeer, kafkaPort } from '../support/kafka-peer.ts';
import { play, SCENES } from '../support/transaction-scenes.ts';
import { TransactionScript } from '../support/transaction-script.ts';

const dir = mkdtempSync(join(tmpdir(), 'broadsheet-transactions-wire-'));
const kafka = new KafkaPeer(join(dir, 'kafka'), kafkaPort());
let broker: BrokerProcess;

async function transcript(address: string): Promise<Map<string, string[]>> {
  const [host, port] = address.split(':');
  const connection = await Connection.connect({ host: host!, port: Number(port), timeoutMs: 60_000 });
  const script = new TransactionScript(connection);
  await play(script);
  connection.close();
  const scenes = new Map<string, string[]>();
  let lines: string[] = [];
  for (const line of script.lines) {
    if (line.startsWith('# ')) {
      lines = [];
      scenes.set(line.slice(2), lines);
    } else lines.push(line);
  }
  return scenes;
}

describe('transactions, request by request', () => {
  let theirs: Map<string, string[]>;
  let ours: Map<string, string[]>;

  beforeAll(async () => {
    const timeouts = 'transaction.abort.timed.out.transaction.cleanup.interval.ms=200';
    const retention = { 'log.retention.check.interval.ms': '700', 'log.initial.task.delay.ms': '100' };
    const settings = Object.entries(retention).map(([key, value]) => `${key}=${value}`);
    [broker] = await Promise.all([
      BrokerProcess.start(join(dir, 'broadsheet'), { config: retention }),
      kafka.start(timeouts, ...settings),
    ]);
    theirs = await transcript(kafka.address);
    ours = await transcript(broker.address);
  }, 300_000);
  afterAll(async () => {
    await broker?.kill();
    await kafka.dispose();
    rmSync(dir, { recursive: true, force: true });
  });

  it.each(Object.keys(SCENES))('%s', (scene) => {
    expect(ours.get(scene)).toEqual(theirs.get(scene));
    expect(ours.get(scene)!.length).toBeGreaterThan(5);
  });
});

/** One directory, one broker: Apache Kafka and we refuse each other's. */
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { BrokerProcess } from '../support/broker-process.ts';
import { kcatRead, outputs } from '../support/command.ts';
import { KafkaPeer, kafkaPort } from '../support/kafka-peer.ts';

const PORT = kafkaPort();
let dir: string;
let kafka: KafkaPeer;
let broker: BrokerProcess | undefined;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'broadsheet-lock-'));
  kafka = new KafkaPeer(dir, PORT);
});
afterEach(async () => {
  await broker?.kill();
  await kafka.dispose();
  rmSync(dir, { recursive: true, force: true });
});

async function say(address: string, text: string): Promise<void> {
  await outputs('kcat', ['-b', address, '-P', '-t', 'said', '-p', '0'], { input: `${text}\n` });
}

describe('.lock', () => {
  it('keeps Apache Kafka and a second broker off the directory of one that runs', async () => {
    broker = await BrokerProcess.start(kafka.dataDir);
    await say(broker.address, 'first');
    expect(readFileSync(join(kafka.dataDir, '.lock'), 'utf8').trim()).toBe(String(broker.pid));
    await expect(BrokerProcess.start(kafka.dataDir)).rejects.toThrow(String(broker.pid));
    await expect(kafka.start()).rejects.toThrow();
    expect(readFileSync(`${dir}/log`, 'utf8')).toMatch(/Failed to acquire lock on file \.lock/);
    await say(broker.address, 'second');
    expect((await kcatRead(broker.address, 'said')).lines).toBe(2);
    await broker.kill();
    // The lock dies with its holder.
    await kafka.start();
    await say(kafka.address, 'third');
    expect((await kcatRead(kafka.address, 'said')).lines).toBe(3);
  });

  it('keeps us off the directory of an Apache Kafka that runs, whose pid is named', async () => {
    await kafka.start();
    await say(kafka.address, 'first');
    const pid = readFileSync(`${dir}/pid`, 'utf8').trim();
    expect(pid).toMatch(/^\d+$/);
    await expect(BrokerProcess.start(kafka.dataDir)).rejects.toThrow(
      new RegExp(`ended with 1:\\n(.*\\n)*broadsheet: .*\\b${pid}\\b`),
    );
    await say(kafka.address, 'second');
    expect((await kcatRead(kafka.address, 'said')).lines).toBe(2);
    await kafka.stop();
    expect(existsSync(join(kafka.dataDir, '.kafka_cleanshutdown'))).toBe(true);
    broker = await BrokerProcess.start(kafka.dataDir);
    expect((await kcatRead(broker.address, 'said')).lines).toBe(2);
  });
});

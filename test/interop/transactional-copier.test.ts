/** Kafka's own transactional copier, with random aborts, from one topic to another while the broker is killed again and again:
 * the output has every message once, in order. */
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { Client } from '../../src/client/client.ts';
import { BrokerProcess } from '../support/broker-process.ts';
import { KAFKA } from '../support/kafka-peer.ts';
import { scaled } from '../support/scale.ts';

/** Of one run of the copier; runs follow one another for so long. */
const MESSAGES = scaled(3000, 50_000);
const COPYING_MS = scaled(0, 600_000);
const PER_TRANSACTION = scaled(50, 200);
const BETWEEN_KILLS_MS = 4000;
const BATCH = 500;

const dir = mkdtempSync(join(tmpdir(), 'broadsheet-copier-'));
let broker: BrokerProcess;

beforeAll(async () => {
  broker = await BrokerProcess.start(join(dir, 'data'));
  const client = await Client.connect(broker.address);
  await client.createTopics(['in', 'out'].map((name) => ({ name, partitions: 1, configs: {} })));
  await client.close();
}, 600_000);
afterAll(async () => {
  await broker?.kill();
  rmSync(dir, { recursive: true, force: true });
});

/** The messages of the next run. */
async function fill(from: number): Promise<void> {
  const client = await Client.connect(broker.address);
  for (let at = from; at < from + MESSAGES; at += BATCH) {
    const count = Math.min(BATCH, from + MESSAGES - at);
    const records = Array.from({ length: count }, (_, i) => ({
      timestamp: Date.now(),
      value: String(at + i),
    }));
    await client.produce('in', 0, records);
  }
  await client.close();
}

/** Runs until it has copied all; a copier that gives up is started again, as an operator would. */
function copy(address: string): Promise<{ readonly code: number; readonly output: string }> {
  const args = {
    'broker-list': address,
    'input-topic': 'in',
    'input-partition': '0',
    'output-topic': 'out',
    'transactional-id': 'copier',
    'consumer-group': 'copiers',
    'max-messages': String(MESSAGES),
    'transaction-size': String(PER_TRANSACTION),
    'transaction-timeout': '10000',
  };
  const given = Object.entries(args).flatMap(([name, value]) => [`--${name}`, value]);
  const copier = 'org.apache.kafka.tools.TransactionalMessageCopier';
  return new Promise((resolve) => {
    execFile(
      KAFKA,
      ['tool', copier, ...given, '--enable-random-aborts'],
      { maxBuffer: 1 << 28 },
      (error, stdout, stderr) => resolve({ code: error === null ? 0 : 1, output: `${stdout}${stderr}` }),
    );
  });
}

/** Kills the broker every few seconds until `until` has ended; gives the number of kills. */
async function killMeanwhile(until: Promise<unknown>): Promise<number> {
  const port = Number(broker.address.split(':')[1]);
  let kills = 0;
  for (;;) {
    const pause = new Promise<false>((resolve) => setTimeout(() => resolve(false), BETWEEN_KILLS_MS));
    const over = until.then(
      () => true,
      () => true,
    );
    if (await Promise.race([over, pause])) return kills;
    await broker.kill();
    broker = await BrokerProcess.start(join(dir, 'data'), { port });
    kills++;
  }
}

async function copyAll(address: string): Promise<number> {
  const outputs: string[] = [];
  for (let attempts = 1; ; attempts++) {
    const { code, output } = await copy(address);
    if (code === 0) return attempts;
    outputs.push(output.slice(-2000));
    if (attempts > 20) throw new Error(`the copier gives up:\n${outputs.join('\n---\n')}`);
  }
}

it('copies every message once', async () => {
  const began = Date.now();
  let kills = 0;
  let copiers = 0;
  let sent = 0;
  do {
    await fill(sent);
    sent += MESSAGES;
    const copying = copyAll(broker.address);
    kills += await killMeanwhile(copying);
    copiers += await copying;
  } while (Date.now() - began < COPYING_MS);
  const seconds = Math.round((Date.now() - began) / 1000);
  process.stdout.write(`copier: ${sent} messages in ${seconds} s, ${kills} kills, ${copiers} copiers\n`);
  const client = await Client.connect(broker.address);
  const copied: number[] = [];
  for await (const { value } of client.records('out', 0, 0, { committedOnly: true })) {
    copied.push(Number(Buffer.from(value!).toString()));
  }
  await client.close();
  expect(copied).toEqual(Array.from({ length: sent }, (_, i) => i));
  expect(kills).toBeGreaterThan(0);
});

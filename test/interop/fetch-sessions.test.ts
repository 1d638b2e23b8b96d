/** The same requests in fetch sessions to this broker and to Apache Kafka. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { BrokerProcess } from '../support/broker-process.ts';
import { runSessionScript } from '../support/fetch-session-script.ts';
import { KafkaPeer, kafkaPort } from '../support/kafka-peer.ts';

const PORT = kafkaPort();
const dir = mkdtempSync(join(tmpdir(), 'broadsheet-sessions-'));
const kafka = new KafkaPeer(join(dir, 'kafka'), PORT);
let broker: BrokerProcess;

beforeAll(async () => {
  [broker] = await Promise.all([BrokerProcess.start(join(dir, 'ours')), kafka.start()]);
}, 300_000);
afterAll(async () => {
  await broker?.kill();
  await kafka.dispose();
  rmSync(dir, { recursive: true, force: true });
});

it('answers a long sequence of requests as Kafka does', async () => {
  const theirs = await runSessionScript(kafka.address, 'script-');
  const ours = await runSessionScript(broker.address, 'script-');
  // The one difference, in docs/DIFFERENCES.md.
  const mended = theirs.map((line) =>
    line.startsWith('by id:')
      ? line.replace(/UNKNOWN_TOPIC_OR_PARTITION|INCONSISTENT_TOPIC_ID/, 'UNKNOWN_TOPIC_ID')
      : line,
  );
  expect(mended.filter((line, i) => line !== theirs[i]).length).toBe(4);
  expect(ours).toEqual(mended);
});

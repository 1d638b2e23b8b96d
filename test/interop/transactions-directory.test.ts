/**
 * A broker that was killed in the middle of transactions, and the other one that finishes them: Apache Kafka opens our
 * directory, and we open Kafka's. What was prepared is completed, what was open is aborted when its time is up, and offsets
 * committed in either show or do not.
 */
import { mkdtempSync, readdirSync, readFileSync, rmSync, truncateSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { Connection } from '../../src/client/connection.ts';
import { partitionOf } from '../../src/log/coordinator-topic.ts';
import { RecordBatch, readBatches } from '../../src/protocol/records/reader.ts';
import { BrokerProcess } from '../support/broker-process.ts';
import { KafkaPeer, kafkaPort } from '../support/kafka-peer.ts';
import { TransactionScript } from '../support/transaction-script.ts';

const dir = mkdtempSync(join(tmpdir(), 'broadsheet-transactions-directory-'));
const kafka = new KafkaPeer(dir, kafkaPort());
/** So that nothing is aborted before the kill. */
const PATIENT = 'transaction.abort.timed.out.transaction.cleanup.interval.ms=3600000';
const SOON = 'transaction.abort.timed.out.transaction.cleanup.interval.ms=200';
let broker: BrokerProcess | undefined;

afterAll(async () => {
  await broker?.kill();
  await kafka.dispose();
  rmSync(dir, { recursive: true, force: true });
});

async function asked(address: string, script: (s: TransactionScript) => Promise<void>): Promise<string[]> {
  const [host, port] = address.split(':');
  const connection = await Connection.connect({ host: host!, port: Number(port), timeoutMs: 60_000 });
  const s = new TransactionScript(connection);
  await script(s);
  connection.close();
  return s.lines;
}

/** Cuts the last batches off a partition, as if the kill had come before they were written. */
function cut(topic: string, partition: number, batches: number): void {
  const folder = join(kafka.dataDir, `${topic}-${partition}`);
  const name = readdirSync(folder)
    .filter((each) => each.endsWith('.log'))
    .sort()
    .at(-1)!;
  const sizes = [...readBatches(readFileSync(join(folder, name)))].map((batch) => {
    if (!(batch instanceof RecordBatch)) throw new Error('an old format');
    return batch.sizeInBytes;
  });
  truncateSync(
    join(folder, name),
    sizes.slice(0, -batches).reduce((sum, size) => sum + size, 0),
  );
}

/** Two transactions of which one is committed and the other stays open, each with records and offsets. */
async function leave(s: TransactionScript, name: string): Promise<void> {
  await s.topic(name, 2);
  await s.coordinator(`${name}-done`, 1);
  await s.coordinator(`${name}-group`, 0);
  const aborted = await s.init(`${name}-aborted`);
  await s.produce(`${name}-aborted`, aborted, [name, 0], 0, ['never']);
  await s.end(`${name}-aborted`, aborted, false);
  await s.read(name, 0, true, 2);
  const done = await s.init(`${name}-done`);
  const open = await s.init(`${name}-open`, { timeoutMs: 3000 });
  await s.produce(`${name}-done`, done, [name, 0], 0, ['a', 'b']);
  await s.produce(`${name}-open`, open, [name, 1], 0, ['x']);
  await s.commitOffsets(`${name}-open`, open, `${name}-group`, name, 7);
  await s.offset(`${name}-group`, name, true);
  await s.end(`${name}-done`, done, true);
  await s.read(name, 0, true, 5);
  await s.describe(`${name}-done`, 'CompleteCommit');
}

/** As if the kill had come when the first transaction was prepared, and neither marker nor completion were written. */
function forgetTheEnd(name: string): void {
  cut('__transaction_state', partitionOf(`${name}-done`, 50), 1);
  cut(name, 0, 1);
}

async function finish(s: TransactionScript, name: string): Promise<void> {
  await s.coordinator(`${name}-done`, 1);
  await s.coordinator(`${name}-group`, 0);
  await s.describe(`${name}-done`, 'CompleteCommit');
  await s.describe(`${name}-open`, 'CompleteAbort');
  await s.read(name, 0, true, 5);
  await s.read(name, 1, true, 2);
  await s.offset(`${name}-group`, name, true);
  const next = await s.init(`${name}-done`);
  await s.produce(`${name}-done`, next, [name, 1], 0, ['y']);
  await s.end(`${name}-done`, next, true);
  await s.read(name, 1, true, 4);
}

function finished(name: string): string[] {
  return [
    `describe ${name}-done -> NONE CompleteCommit P0/1 60000 ms, since a time []`,
    `describe ${name}-open -> NONE CompleteAbort P1/1 3000 ms, since a time []`,
    `read ${name}-0 committed -> NONE stable 5 high 5 aborted P2 from 0 | ` +
      '0 P2/0 txn never | 1 P2/1 txn ABORT <epoch> | 2 P0/0 txn a | 3 P0/0 txn b | 4 P0/1 txn COMMIT <epoch>',
    `read ${name}-1 committed -> NONE stable 2 high 2 aborted P1 from 0 | 0 P1/0 txn x | 1 P1/1 txn ABORT <epoch>`,
    `offset ${name}-group ${name} stable -> NONE -1 ''`,
    `init ${name}-done v5 60000 ms -> NONE P0/2`,
    `produce ${name}-done P0/2 ${name}-1 seq 0 [y] v12 -> NONE at 2`,
    `commit ${name}-done P0/2 v5 -> NONE P0/3`,
    `read ${name}-1 committed -> NONE stable 4 high 4 aborted P1 from 0 | ` +
      '0 P1/0 txn x | 1 P1/1 txn ABORT <epoch> | 2 P0/2 txn y | 3 P0/3 txn COMMIT <epoch>',
  ];
}

/** The coordinator's epoch, which grows with each start. */
const withoutEpochs = (lines: readonly string[]) =>
  lines.map((line) => line.replace(/(ABORT|COMMIT) [0-9a-f]{12}/g, '$1 <epoch>'));

describe('a kill in the middle of transactions', () => {
  it('of ours is mended by Apache Kafka', async () => {
    broker = await BrokerProcess.start(kafka.dataDir);
    const said = await asked(broker.address, (s) => leave(s, 'ours'));
    expect(said.filter((line) => /UNSTABLE/.test(line))).toHaveLength(1);
    await broker.kill();
    broker = undefined;
    forgetTheEnd('ours');
    await kafka.start(SOON);
    const partitions = [0, 1].map((partition) => ['ours', partition] as const);
    await kafka.untilLeading(partitions);
    expect(withoutEpochs(await asked(kafka.address, (s) => finish(s, 'ours')))).toEqual(finished('ours'));
    await kafka.stop();
  });

  it('of Apache Kafka is mended by ours', async () => {
    await kafka.start(PATIENT);
    const said = await asked(kafka.address, (s) => leave(s, 'theirs'));
    expect(said.filter((line) => /UNSTABLE/.test(line))).toHaveLength(1);
    await kafka.kill();
    forgetTheEnd('theirs');
    broker = await BrokerProcess.start(kafka.dataDir);
    expect(withoutEpochs(await asked(broker.address, (s) => finish(s, 'theirs')))).toEqual(
      finished('theirs'),
    );
    // What Kafka finished before is as it left it.
    const before = await asked(broker.address, async (s) => {
      await s.describe('ours-done');
      await s.read('ours', 1, false);
    });
    expect(before[0]).toContain('CompleteCommit P0/3');
    await broker.stop();
    broker = undefined;
  });
});

/** Kafka's kafka-transactions tool against this broker: it lists and describes, and finds a transaction that hangs and aborts it. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { Connection } from '../../src/client/connection.ts';
import { BrokerProcess } from '../support/broker-process.ts';
import { command, KAFKA } from '../support/kafka-peer.ts';
import { TransactionScript } from '../support/transaction-script.ts';

const HOUR_MS = 3_600_000;
const dir = mkdtempSync(join(tmpdir(), 'broadsheet-kafka-transactions-'));
let broker: BrokerProcess;
let connection: Connection;

beforeAll(async () => {
  // A batch that nobody verifies, of a transaction that the coordinator does not know to be open.
  const config = { 'transaction.partition.verification.enable': 'false' };
  broker = await BrokerProcess.start(join(dir, 'data'), { config });
  const [host, port] = broker.address.split(':');
  connection = await Connection.connect({ host: host!, port: Number(port), timeoutMs: 60_000 });
});
afterAll(async () => {
  connection?.close();
  await broker?.kill();
  rmSync(dir, { recursive: true, force: true });
});

/** The words of each line below the heading. */
async function tool(...args: string[]): Promise<string[][]> {
  const all = await command(
    KAFKA,
    'tool',
    'kafka-transactions',
    '--bootstrap-server',
    broker.address,
    ...args,
  );
  const lines = all.split('\n').filter((line) => line.trim() !== '');
  return lines.slice(1).map((line) => line.split('\t').map((word) => word.trim()));
}

it('finds a hanging transaction and aborts it', async () => {
  const script = new TransactionScript(connection);
  await script.topic('t');
  const hanging = await script.init('hanging');
  await script.produce('hanging', hanging, ['t', 0], 0, ['x'], { version: 11, ageMs: HOUR_MS });
  const open = await script.init('open');
  await script.produce('open', open, ['t', 0], 0, ['y']);

  const listed = await tool('list');
  expect(listed.map(([id, , , state]) => [id, state]).sort()).toEqual([
    ['hanging', 'Empty'],
    ['open', 'Ongoing'],
  ]);
  const [described] = await tool('describe', '--transactional-id', 'open');
  expect([described![4], described![8]]).toEqual(['Ongoing', 't-0']);
  const producers = await tool('describe-producers', '--topic', 't', '--partition', '0');
  expect(producers.map((words) => words[5]).sort()).toEqual(['0', '1']);

  const found = await tool('find-hanging', '--broker-id', '1');
  expect(found.map(([topic, partition, , , , start]) => [topic, partition, start])).toEqual([
    ['t', '0', '0'],
  ]);
  await tool('abort', '--topic', 't', '--partition', '0', '--start-offset', '0');
  expect(await tool('find-hanging', '--broker-id', '1')).toEqual([]);
  await script.end('open', open, true);
  await script.read('t', 0, true, 4);
  expect(script.lines.at(-1)).toContain('stable 4 high 4 aborted P0 from 0');
});

/**
 * What idempotent and transactional produce cost a broker beside plain produce, with Kafka's own producer: processor time of
 * the broker for the same records, over that of plain produce, here and on Apache Kafka in the same run. Transactions are
 * committed every 100 ms.
 */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { Client } from '../../src/client/client.ts';
import type { Target } from '../broker-load.ts';
import { withPeers } from '../groups/peers.ts';
import { type Comparison, type Cost, compareCosts, processCpuSecondsOf, type Scale } from '../support.ts';

const RECORD_BYTES = 1024;
const TRANSACTION_MS = 100;
const PARTITIONS = 4;

const run = promisify(execFile);

const MODES = {
  plain: ['enable.idempotence=false'],
  idempotent: ['enable.idempotence=true'],
  transactional: ['enable.idempotence=true', 'transactional.id=bench'],
} as const;

async function cost({ port, pid }: Target, mode: keyof typeof MODES, records: number): Promise<number> {
  const kafka = process.env.BROADSHEET_KAFKA;
  if (kafka === undefined) throw new Error('set BROADSHEET_KAFKA to the command that starts an Apache Kafka');
  const properties = [`bootstrap.servers=127.0.0.1:${port}`, 'acks=all', ...MODES[mode]];
  const given = [
    '--topic',
    'overhead',
    '--num-records',
    String(records),
    '--record-size',
    String(RECORD_BYTES),
  ];
  const transactions = mode === 'transactional' ? ['--transaction-duration-ms', String(TRANSACTION_MS)] : [];
  const args = [...given, '--throughput', '-1', ...transactions, '--producer-props', ...properties];
  const before = processCpuSecondsOf(pid);
  await run(kafka, ['tool', 'producer-perf-test', ...args], { maxBuffer: 1 << 26 });
  return processCpuSecondsOf(pid) - before;
}

async function measure(target: Target, records: number): Promise<Record<string, Cost>> {
  const plain = await cost(target, 'plain', records);
  const idempotent = await cost(target, 'idempotent', records);
  const transactional = await cost(target, 'transactional', records);
  return {
    'plain produce': { value: plain, unit: 'CPU s' },
    'idempotent over plain': { value: idempotent / plain, unit: 'times' },
    'transactional over plain': { value: transactional / plain, unit: 'times' },
  };
}

export function transactionOverhead({ rounds, bytes }: Scale): Promise<Comparison[]> {
  // A broker that has just started costs many times more for its first records.
  const records = Math.ceil((4 * bytes) / RECORD_BYTES);
  return withPeers(undefined, async (ours, theirs) => {
    for (const target of [ours, theirs]) {
      const client = await Client.connect(`127.0.0.1:${target.port}`);
      await client.createTopics([{ name: 'overhead', partitions: PARTITIONS, configs: {} }]);
      await client.close();
      for (const mode of ['plain', 'transactional'] as const) await cost(target, mode, records);
    }
    return compareCosts(
      rounds,
      () => measure(ours, records),
      () => measure(theirs, records),
    );
  });
}

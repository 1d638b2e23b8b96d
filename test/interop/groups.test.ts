/** Consumer groups of the classic protocol: Kafka's tools and confluent-kafka against this broker, commits over its restarts,
 * and Apache Kafka on the directory before and after. */
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { BrokerProcess } from '../support/broker-process.ts';
import { outputs } from '../support/command.ts';
import { PYTHON } from '../support/interop-tools.ts';
import { KAFKA, KafkaPeer, kafkaPort } from '../support/kafka-peer.ts';
import { scaled } from '../support/scale.ts';

const PYTHON_SCRIPT = fileURLToPath(new URL('../support/confluent-group.py', import.meta.url));
const PERF_RECORDS = scaled(100_000, 1_000_000);
const KAFKA_PORT = kafkaPort();
const dir = mkdtempSync(join(tmpdir(), 'broadsheet-groups-'));
const dataDir = join(dir, 'data');
let broker: BrokerProcess;
const consumers: ConsoleConsumer[] = [];

beforeAll(async () => {
  mkdirSync(dataDir);
  broker = await BrokerProcess.start(dataDir);
});
afterEach(() => {
  for (const consumer of consumers.splice(0)) consumer.kill();
});
afterAll(async () => {
  await broker?.kill();
  rmSync(dir, { recursive: true, force: true });
});

async function tool(name: string, ...args: (string | number)[]): Promise<string> {
  const all = ['tool', name, '--bootstrap-server', broker.address, ...args.map(String)];
  return (await outputs(KAFKA, all)).stdout;
}

/** Produces values without keys, spread over all partitions. */
async function produce(address: string, topic: string, values: readonly string[]): Promise<void> {
  const args = ['-b', address, '-P', '-t', topic, '-X', 'sticky.partitioning.linger.ms=0'];
  await outputs('kcat', args, { input: values.map((value) => `${value}\n`).join('') });
}

const numbered = (prefix: string, count: number) => Array.from({ length: count }, (_, n) => `${prefix}${n}`);

/** `topic-partition` to committed offset, and lag, as kafka-consumer-groups tells. */
function offsetsOf(description: string): Map<string, [committed: string, lag: string]> {
  const rows = description.split('\n').map((line) => line.trim().split(/\s+/));
  return new Map(
    rows
      .filter((row) => /^\d+$/.test(row[2] ?? ''))
      .map((row) => [`${row[1]}-${row[2]}`, [row[3]!, row[5]!]]),
  );
}

/** kafka-console-consumer as a member of a group. */
class ConsoleConsumer {
  readonly #child: ChildProcess;
  #text = '';
  #errors = '';

  constructor(topic: string, group: string, ...more: string[]) {
    const properties = ['session.timeout.ms=6000', 'heartbeat.interval.ms=500'];
    const args = ['--bootstrap-server', broker.address, '--topic', topic, '--group', group, ...more];
    this.#child = spawn(KAFKA, [
      'tool',
      'console-consumer',
      ...args,
      ...properties.flatMap((property) => ['--command-property', property]),
    ]);
    this.#child.stdout?.on('data', (chunk: Buffer) => {
      this.#text += chunk.toString();
    });
    this.#child.stderr?.on('data', (chunk: Buffer) => {
      this.#errors += chunk.toString();
    });
    consumers.push(this);
  }

  get lines(): string[] {
    return this.#text.split('\n').filter((line) => line !== '');
  }

  get errors(): string {
    return this.#errors;
  }

  kill(): void {
    this.#child.kill('SIGKILL');
  }
}

async function until(what: string, condition: () => boolean | Promise<boolean>): Promise<void> {
  for (let turns = 0; !(await condition()); turns++) {
    if (turns > 1_000) throw new Error(`${what} did not come about`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

/** Partitions of each member. */
async function membersOf(group: string): Promise<number[]> {
  const text = await tool('consumer-groups', '--describe', '--group', group, '--members').catch(() => '');
  const rows = text.split('\n').map((line) => line.trim().split(/\s+/));
  return rows.filter((row) => row[0] === group).map((row) => Number(row[4]));
}

describe("Kafka's tools in a group", () => {
  it('console-consumer reads a topic and goes on where it stopped, also after SIGTERM and SIGKILL', async () => {
    await tool('topics', '--create', '--topic', 'lines', '--partitions', '2');
    const rounds: ((() => Promise<void>) | undefined)[] = [
      undefined,
      () => broker.stop(),
      () => broker.kill(),
    ];
    for (const [round, end] of rounds.entries()) {
      await end?.();
      if (end !== undefined) broker = await BrokerProcess.start(dataDir);
      const values = numbered(`round ${round} line `, 50);
      await produce(broker.address, 'lines', values);
      const args = ['--topic', 'lines', '--group', 'readers', '--from-beginning', '--max-messages', '50'];
      const read = (await tool('console-consumer', ...args, '--timeout-ms', '20000')).trim().split('\n');
      expect(read.sort()).toEqual([...values].sort());
    }
  });

  it('consumer-groups lists, describes, resets, and deletes', async () => {
    expect((await tool('consumer-groups', '--list')).trim().split('\n')).toContain('readers');
    expect(await tool('consumer-groups', '--describe', '--group', 'readers', '--state')).toMatch(/Empty\s+0/);
    const before = offsetsOf(await tool('consumer-groups', '--describe', '--group', 'readers'));
    expect([...before.values()].map(([, lag]) => lag)).toEqual(['0', '0']);
    const committed = [...before.values()].reduce((sum, [offset]) => sum + Number(offset), 0);
    expect(committed).toBe(150);
    const reset = [
      '--reset-offsets',
      '--group',
      'readers',
      '--topic',
      'lines',
      '--to-offset',
      '3',
      '--execute',
    ];
    await tool('consumer-groups', ...reset);
    const after = offsetsOf(await tool('consumer-groups', '--describe', '--group', 'readers'));
    expect([...after.values()].map(([offset]) => offset)).toEqual(['3', '3']);
    await tool('consumer-groups', '--delete-offsets', '--group', 'readers', '--topic', 'lines:0');
    expect(offsetsOf(await tool('consumer-groups', '--describe', '--group', 'readers')).size).toBe(1);
    await tool('consumer-groups', '--delete', '--group', 'readers');
    expect(await tool('consumer-groups', '--list')).not.toContain('readers');
  });

  it('consumer-perf-test reads what producer-perf-test wrote', async () => {
    await tool('topics', '--create', '--topic', 'perf', '--partitions', '3');
    const payload = ['--num-records', PERF_RECORDS, '--record-size', '100', '--throughput', '-1'];
    await tool('producer-perf-test', '--topic', 'perf', ...payload);
    const args = ['--topic', 'perf', '--group', 'perf', '--num-records', PERF_RECORDS, '--timeout', '60000'];
    const result = (await tool('consumer-perf-test', ...args)).trim().split('\n').at(-1)!.split(', ');
    expect(Number(result[4])).toBe(PERF_RECORDS);
    const offsets = offsetsOf(await tool('consumer-groups', '--describe', '--group', 'perf'));
    expect([...offsets.values()].map(([, lag]) => lag)).toEqual(['0', '0', '0']);
  });

  it('two console consumers share partitions; when one is killed the other takes all', async () => {
    await tool('topics', '--create', '--topic', 'shared', '--partitions', '4');
    const [first, second] = [new ConsoleConsumer('shared', 'pair'), new ConsoleConsumer('shared', 'pair')];
    await until('an even share', async () => (await membersOf('pair')).join() === '2,2');
    const values = numbered('both ', 400);
    await produce(broker.address, 'shared', values);
    await until('all records', () => first.lines.length + second.lines.length >= values.length);
    expect([...first.lines, ...second.lines].sort()).toEqual([...values].sort());
    first.kill();
    await until('one member', async () => (await membersOf('pair')).join() === '4');
    const more = numbered('one ', 100);
    await produce(broker.address, 'shared', more);
    await until('the rest', () => more.every((value) => second.lines.includes(value)));
    expect(second.errors).not.toMatch(/ERROR/);
  });
});

describe('confluent-kafka for Python in a group', () => {
  it('shares partitions, reads all, commits, leaves', async () => {
    await tool('topics', '--create', '--topic', 'python', '--partitions', '4');
    await produce(broker.address, 'python', numbered('p', 200));
    const args = [PYTHON_SCRIPT, broker.address, 'python', '200', '4', 'python-group'];
    expect((await outputs(PYTHON, args)).stdout).toBe('group passed\n');
  });
});

describe('Apache Kafka on the same directory', () => {
  const described = (peer: KafkaPeer, group: string) =>
    peer.tool('consumer-groups', '--describe', '--group', group).then(offsetsOf);

  it('shows the groups and offsets that we kept, and we those that it wrote', async () => {
    const groups = ['perf', 'pair', 'python-group'];
    const ours = new Map<string, ReturnType<typeof offsetsOf>>();
    for (const group of groups) {
      ours.set(group, offsetsOf(await tool('consumer-groups', '--describe', '--group', group)));
    }
    const listed = (await tool('consumer-groups', '--list')).trim().split('\n').sort();
    await broker.stop();
    const peer = new KafkaPeer(dir, KAFKA_PORT);
    try {
      await peer.start();
      expect((await peer.tool('consumer-groups', '--list')).trim().split('\n').sort()).toEqual(listed);
      for (const group of groups) expect(await described(peer, group)).toEqual(ours.get(group));
      await produce(peer.address, 'lines', numbered('by Kafka ', 20));
      const read = ['--topic', 'lines', '--from-beginning', '--max-messages', '20', '--timeout-ms', '20000'];
      await peer.tool('console-consumer', ...read, '--group', 'of-kafka');
      const theirs = await described(peer, 'of-kafka');
      expect(theirs.size).toBe(2);
      await peer.stop();
      broker = await BrokerProcess.start(dataDir);
      const describe = async (group: string) =>
        offsetsOf(await tool('consumer-groups', '--describe', '--group', group));
      expect(await describe('of-kafka')).toEqual(theirs);
      for (const group of groups) expect(await describe(group)).toEqual(ours.get(group));
      expect((await tool('consumer-groups', '--list')).trim().split('\n').sort()).toEqual(
        [...listed, 'of-kafka'].sort(),
      );
    } finally {
      await peer.dispose();
    }
  });
});

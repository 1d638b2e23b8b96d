/** Kafka's own command-line tools produce to this broker and read it all back, also after SIGKILL and SIGTERM. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { BrokerProcess } from '../support/broker-process.ts';
import { kcatRead, type Measured, Meter, outputs } from '../support/command.ts';
import { KAFKA } from '../support/kafka-peer.ts';
import { FULL_SIZE, scaled } from '../support/scale.ts';

const CONSOLE_RECORDS = scaled(20_000, 1_000_000);
const VERIFIABLE_RECORDS = scaled(20_000, 1_000_000);
const PERF_RECORDS = scaled(100_000, 1_000_000);
const PERF_BYTES = 1024;
const dir = mkdtempSync(join(tmpdir(), 'broadsheet-tools-'));
let broker: BrokerProcess;

beforeAll(async () => {
  broker = await BrokerProcess.start(dir);
});
afterAll(async () => {
  await broker?.kill();
  rmSync(dir, { recursive: true, force: true });
});

/** For whoever reads the log of a full run. */
function print(line: string): void {
  if (FULL_SIZE) process.stdout.write(`${line}\n`);
}

function tool(name: string, ...args: (string | number)[]) {
  return outputs(KAFKA, ['tool', name, '--bootstrap-server', broker.address, ...args.map(String)]);
}

const lines = Array.from({ length: CONSOLE_RECORDS }, (_, n) => `line ${n} ${'é'.repeat(n % 30)}\n`).join('');
const consoleMeasure = measure(lines);

function measure(text: string): Measured {
  const meter = new Meter();
  meter.add(Buffer.from(text));
  return meter.result();
}

async function consoleConsumer(): Promise<Measured> {
  const meter = new Meter();
  const args = ['--topic', 'console', '--partition', '0', '--offset', 'earliest'];
  await outputs(
    KAFKA,
    [
      'tool',
      'console-consumer',
      '--bootstrap-server',
      broker.address,
      ...args,
      '--max-messages',
      String(CONSOLE_RECORDS),
    ],
    { onOutput: (chunk) => meter.add(chunk) },
  );
  return meter.result();
}

/** What the tools before wrote, as the tools and kcat read it. */
async function expectAllRead(): Promise<void> {
  expect(await consoleConsumer()).toEqual(consoleMeasure);
  expect(await kcatRead(broker.address, 'verifiable')).toEqual(
    measure(Array.from({ length: VERIFIABLE_RECORDS }, (_, n) => `${n}\n`).join('')),
  );
  for (const topic of ['perf', 'perf-lz4']) {
    expect(await kcatRead(broker.address, topic)).toMatchObject({
      lines: PERF_RECORDS,
      bytes: PERF_RECORDS * (PERF_BYTES + 1),
    });
  }
  // A new group each time, which joins and reads from the start.
  const args = [
    '--topic',
    'perf',
    '--num-records',
    PERF_RECORDS,
    '--group',
    `perf-${Date.now()}`,
    '--timeout',
    60_000,
  ];
  const { stdout } = await tool('consumer-perf-test', ...args, '--hide-header');
  const line = stdout.trim().split('\n').at(-1) ?? '';
  print(`consumer-perf-test: ${line}`);
  // start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, ...
  const figures = line.split(', ');
  expect(Number(figures[4]), stdout).toBe(PERF_RECORDS);
  expect(Number(figures[2])).toBeCloseTo((PERF_RECORDS * PERF_BYTES) / 2 ** 20, 2);
  const ends = (await tool('get-offsets', '--time', 'latest')).stdout.trim().split('\n').sort();
  expect(ends.filter((end) => !end.startsWith('__consumer_offsets:'))).toEqual([
    `console:0:${CONSOLE_RECORDS}`,
    `perf-lz4:0:${PERF_RECORDS}`,
    `perf:0:${PERF_RECORDS}`,
    `verifiable:0:${VERIFIABLE_RECORDS}`,
  ]);
}

describe("Kafka's tools", () => {
  it('console-producer sends lines and console-consumer reads the same', async () => {
    await outputs(
      KAFKA,
      ['tool', 'console-producer', '--bootstrap-server', broker.address, '--topic', 'console'],
      {
        input: lines,
      },
    );
    expect(await consoleConsumer()).toEqual(consoleMeasure);
  });

  it('verifiable-producer has each record acknowledged, once', async () => {
    const { stdout } = await tool(
      'verifiable-producer',
      '--topic',
      'verifiable',
      '--max-messages',
      VERIFIABLE_RECORDS,
    );
    const events = stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as Record<string, unknown>);
    const offsets = events.filter(({ name }) => name === 'producer_send_success').map(({ offset }) => offset);
    expect(offsets.sort((a, b) => Number(a) - Number(b))).toEqual(
      Array.from({ length: VERIFIABLE_RECORDS }, (_, n) => n),
    );
    expect(events.at(-1)).toMatchObject({
      name: 'tool_data',
      sent: VERIFIABLE_RECORDS,
      acked: VERIFIABLE_RECORDS,
    });
  });

  it.each(scaled(['consumer'], ['classic', 'consumer']))(
    'verifiable-consumer reads each record once and commits, by the %s protocol',
    async (protocol) => {
      const { stdout } = await tool(
        'verifiable-consumer',
        ...['--topic', 'verifiable', '--group-id', `verifiable-${protocol}`, '--group-protocol', protocol],
        ...['--max-messages', VERIFIABLE_RECORDS, '--reset-policy', 'earliest'],
      );
      const events = stdout
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line) as { name: string } & Record<string, unknown>);
      const of = (name: string) => events.filter((event) => event.name === name);
      expect(of('partitions_assigned')).toMatchObject([
        { partitions: [{ topic: 'verifiable', partition: 0 }] },
      ]);
      let next = 0;
      for (const { count, partitions } of of('records_consumed')) {
        expect(partitions).toMatchObject([{ count, minOffset: next, maxOffset: next + Number(count) - 1 }]);
        next += Number(count);
      }
      expect(next).toBe(VERIFIABLE_RECORDS);
      expect(of('offsets_committed').every(({ success }) => success === true)).toBe(true);
      expect(of('offsets_committed').at(-1)).toMatchObject({ offsets: [{ offset: VERIFIABLE_RECORDS }] });
      expect(events.map(({ name }) => name)).toContain('shutdown_complete');
    },
  );

  it.each([
    ['perf', 'none'],
    ['perf-lz4', 'lz4'],
  ])('producer-perf-test sends to %s with codec %s', async (topic, codec) => {
    const size = ['--num-records', PERF_RECORDS, '--record-size', PERF_BYTES, '--throughput', -1];
    const { stdout } = await tool(
      'producer-perf-test',
      '--topic',
      topic,
      ...size,
      '--command-property',
      `compression.type=${codec}`,
    );
    print(`producer-perf-test, ${codec}: ${stdout.trim().split('\n').at(-1)}`);
    expect(stdout.trim().split('\n').at(-1)).toMatch(new RegExp(`^${PERF_RECORDS} records sent`));
  });

  it('reads all of it', () => expectAllRead());

  it('reads all of it after SIGKILL', async () => {
    await broker.kill();
    broker = await BrokerProcess.start(dir);
    await expectAllRead();
  });

  it('reads all of it after SIGTERM', async () => {
    await broker.stop();
    broker = await BrokerProcess.start(dir);
    await expectAllRead();
  });
});

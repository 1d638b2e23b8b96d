/** A topic that is not there yet: its first sender sees no error. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Client, LATEST } from '../../src/client/client.ts';
import { BrokerProcess } from '../support/broker-process.ts';
import { kcatRead, outputs } from '../support/command.ts';
import { KAFKA } from '../support/kafka-peer.ts';

const SENDERS = 1_000;
const dir = mkdtempSync(join(tmpdir(), 'broadsheet-auto-'));
let broker: BrokerProcess;
beforeAll(async () => {
  broker = await BrokerProcess.start(dir, { config: { 'num.partitions': '3' } });
});
afterAll(async () => {
  await broker?.kill();
  rmSync(dir, { recursive: true, force: true });
});

/** Connects all first, so that the sends are as close together as they can be. */
async function firstSends(topicOf: (sender: number) => string): Promise<Set<string>> {
  const clients = await Promise.all(
    Array.from({ length: SENDERS }, () => Client.connect(broker.address, { timeoutMs: 120_000 })),
  );
  const outcomes = await Promise.all(
    clients.map((client, sender) =>
      client
        .produce(topicOf(sender), sender % 3, [{ timestamp: Date.now(), value: `sender ${sender}` }])
        .then(() => 'acknowledged', String),
    ),
  );
  await Promise.all(clients.map((client) => client.close()));
  return new Set(outcomes);
}

async function endOffsets(topic: string): Promise<number> {
  const client = await Client.connect(broker.address);
  let sum = 0;
  for (const partition of [0, 1, 2]) sum += (await client.listOffset(topic, partition, LATEST)).offset;
  await client.close();
  return sum;
}

describe('auto-creation', () => {
  it(`shows no error to ${SENDERS} concurrent first senders of one topic`, async () => {
    expect(await firstSends(() => 'one')).toEqual(new Set(['acknowledged']));
    expect(await endOffsets('one')).toBe(SENDERS);
  });

  it(`shows no error to ${SENDERS} concurrent first senders of as many topics`, async () => {
    expect(await firstSends((sender) => `each-${sender}`)).toEqual(new Set(['acknowledged']));
    for (const sender of [0, 1, 499, SENDERS - 1]) expect(await endOffsets(`each-${sender}`)).toBe(1);
  });

  it('gives the Java producer nothing to warn about', async () => {
    const produce = (address: string, ...args: string[]) =>
      outputs(
        KAFKA,
        ['tool', 'console-producer', '--bootstrap-server', address, '--topic', 'by-java', ...args],
        { input: 'hello\n' },
      );
    const { stdout, stderr } = await produce(broker.address);
    expect(stdout + stderr).not.toMatch(/WARN|ERROR|UNKNOWN_TOPIC/);
    expect(
      (await kcatRead(broker.address, 'by-java')).lines +
        (await kcatRead(broker.address, 'by-java', 1)).lines +
        (await kcatRead(broker.address, 'by-java', 2)).lines,
    ).toBe(1);
    // It would be seen: a broker that is not there is warned of.
    const lonely = await produce('127.0.0.1:1', '--command-property', 'max.block.ms=500').then(
      (texts) => texts.stdout + texts.stderr,
      String,
    );
    expect(lonely).toMatch(/WARN/);
  });

  it('shows kcat no error', async () => {
    const { stderr } = await outputs('kcat', ['-b', broker.address, '-P', '-t', 'by-kcat', '-p', '2'], {
      input: 'hello\n',
    });
    expect(stderr).toBe('');
    expect((await kcatRead(broker.address, 'by-kcat', 2)).lines).toBe(1);
  });
});

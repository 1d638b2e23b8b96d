/** The commands against an Apache Kafka 4.4. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { CliOf, cli } from '../support/cli.ts';
import { cliSuite } from '../support/cli-suite.ts';
import { outputs } from '../support/command.ts';
import { KAFKA, KafkaPeer, kafkaPort } from '../support/kafka-peer.ts';

const dir = mkdtempSync(join(tmpdir(), 'broadsheet-cli-kafka-'));
const kafka = new KafkaPeer(dir, kafkaPort());

beforeAll(() => kafka.start(), 300_000);
afterAll(async () => {
  await kafka.dispose();
  rmSync(dir, { recursive: true, force: true });
});

cliSuite(() => new CliOf(kafka.address));

describe("Kafka's own side of it", () => {
  it('partitions keys as the console producer does', async () => {
    const commands = new CliOf(kafka.address);
    await commands.text(['topic', 'create', 'keys', '-p', '12']);
    const input = Array.from({ length: 200 }, (_, n) => `key-${n}${'é'.repeat(n % 5)}\t${n}\n`).join('');
    await commands.text(['produce', 'keys', '-f', 'key,value'], input);
    await outputs(
      KAFKA,
      [
        ...['tool', 'console-producer', '--bootstrap-server', kafka.address, '--topic', 'keys'],
        ...['--property', 'parse.key=true'],
      ],
      { input },
    );
    const partitions = new Map<string, Set<string>>();
    for (const line of (await commands.text(['consume', 'keys', '-f', 'key,partition'])).trim().split('\n')) {
      const [key, partition] = line.split('\t') as [string, string];
      partitions.set(key, (partitions.get(key) ?? new Set()).add(partition));
    }
    expect(partitions.size).toBe(200);
    expect([...partitions.values()].every(({ size }) => size === 1)).toBe(true);
  });

  it('describes a group of the consumer protocol', async () => {
    const commands = new CliOf(kafka.address);
    await commands.text(['produce', 'modern'], 'a\nb\n');
    const args = ['--topic', 'modern', '--group', 'modern-group', '--from-beginning', '--max-messages', '2'];
    await outputs(KAFKA, [
      ...['tool', 'console-consumer', '--bootstrap-server', kafka.address, ...args],
      ...['--consumer-property', 'group.protocol=consumer'],
    ]);
    const { groups } = await commands.json<{ groups: object[] }>(['group', 'describe', 'modern-group']);
    expect(groups).toMatchObject([{ type: 'consumer', totalLag: 0, offsets: [{ committed: 2, end: 2 }] }]);
  });

  it('leaves a directory in which check finds nothing, and which dump reads', async () => {
    const used = await cli(['check', kafka.dataDir]);
    expect(used).toMatchObject({ code: 1, stderr: expect.stringContaining('stop that broker first') });
    await kafka.stop();
    const { code, stdout } = await cli(['check', kafka.dataDir, '--deep', '--json']);
    expect(JSON.parse(stdout.toString())).toMatchObject({ ok: true, faults: [] });
    expect(code).toBe(0);
    const log = join(kafka.dataDir, '__cluster_metadata-0', `${'0'.repeat(20)}.log`);
    const metadata = await cli(['dump', '--deep', '--json', log]);
    expect(metadata.code).toBe(0);
    expect(metadata.stdout.toString()).toMatch(
      /"type":"Topic","version":0,"key":null,"value":{"name":"keys"/,
    );
  });
});

/** Long streams through produce and consume: nothing is changed, little is kept in memory, and ends are clean. */
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { BrokerProcess, CLI } from '../support/broker-process.ts';
import { CliOf } from '../support/cli.ts';
import { scaled } from '../support/scale.ts';

const MIB = 2 ** 20;
const TOTAL_BYTES = scaled(64 * MIB, 1024 * MIB);
/** Resident memory of one command, whatever the length of its stream. Node alone takes some 60 MiB. */
const MOST_MEMORY = 256 * MIB;

const dir = mkdtempSync(join(tmpdir(), 'broadsheet-pipes-'));
let broker: BrokerProcess;
let commands: CliOf;

beforeAll(async () => {
  broker = await BrokerProcess.start(join(dir, 'data'));
  commands = new CliOf(broker.address);
});
afterAll(async () => {
  await broker?.kill();
  rmSync(dir, { recursive: true, force: true });
});

/** A block of words and lines of all lengths. */
function block(): Buffer {
  const lines: string[] = [];
  let seed = 42;
  for (let bytes = 0; bytes < MIB; ) {
    seed = (Math.imul(seed, 1103515245) + 12345) >>> 0;
    const line = `${seed.toString(36)} ${'wörter '.repeat((seed >>> 8) % 60)}\n`;
    lines.push(line);
    bytes += Buffer.byteLength(line);
  }
  return Buffer.from(lines.join(''));
}

/** The most that the process has had resident, bytes. */
function peakMemory(pid: number): number {
  const match = /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'));
  return Number(match?.[1] ?? 0) * 1024;
}

describe('a long stream', () => {
  it('comes back byte by byte, in bounded memory', async () => {
    await commands.text(['topic', 'create', 'long']);
    const lines = block();
    const sent = createHash('sha256');
    const producer = commands.start(['produce', 'long']);
    const stdin = producer.child.stdin!;
    let produced = 0;
    for (let bytes = 0; bytes < TOTAL_BYTES; bytes += lines.length) {
      sent.update(lines);
      if (!stdin.write(lines)) await new Promise((resolve) => stdin.once('drain', resolve));
      produced = peakMemory(producer.child.pid!);
    }
    stdin.end();
    expect(await producer.ended).toMatchObject({ code: 0, stderr: expect.stringMatching(/records written/) });
    expect(produced).toBeGreaterThan(0);
    expect(produced).toBeLessThan(MOST_MEMORY);

    const consumer = spawn(process.execPath, [CLI, 'consume', 'long', '-b', broker.address]);
    const received = createHash('sha256');
    let consumed = 0;
    for await (const chunk of consumer.stdout) {
      received.update(chunk as Buffer);
      // Once the last byte was read it may be gone.
      if (consumer.exitCode === null) consumed = Math.max(consumed, peakMemory(consumer.pid!));
    }
    expect(received.digest('hex')).toBe(sent.digest('hex'));
    expect(consumed).toBeGreaterThan(0);
    expect(consumed).toBeLessThan(MOST_MEMORY);
  }, 600_000);

  it('ends quietly when its reader has had enough', async () => {
    const text = `${Array.from({ length: 200_000 }, (_, n) => `line ${n}`).join('\n')}\n`;
    await commands.text(['produce', 'short'], text);
    for (const more of [[], ['--follow'], ['--follow', '-g', 'leaver']]) {
      const command = `"${process.execPath}" "${CLI}" consume short ${more.join(' ')} -b ${broker.address}`;
      const shell = spawn('bash', ['-c', `${command} | head -n 2; exit \${PIPESTATUS[0]}`]);
      const output: Buffer[] = [];
      const errors: Buffer[] = [];
      shell.stdout.on('data', (chunk: Buffer) => output.push(chunk));
      shell.stderr.on('data', (chunk: Buffer) => errors.push(chunk));
      const code = await new Promise((resolve) => shell.on('close', resolve));
      expect({ code, output: Buffer.concat(output).toString() }).toEqual({
        code: 0,
        output: 'line 0\nline 1\n',
      });
      expect(Buffer.concat(errors).toString()).toBe('');
    }
    // The member has left; nobody waits for its session to end.
    expect(await commands.text(['group', 'describe', 'leaver'])).toContain('  Empty  ');
  });

  it('of input is cut short by Ctrl-C, and what was read is written', async () => {
    await commands.text(['topic', 'create', 'cut']);
    const run = commands.start(['produce', 'cut']);
    run.child.stdin!.write('one\ntwo\nhalf');
    for (;;) if ((await commands.text(['consume', 'cut', '-q'])) === 'one\ntwo\n') break;
    run.child.kill('SIGINT');
    expect(await run.ended).toMatchObject({ code: 130, stderr: '2 records written to cut\n' });
    expect(await commands.text(['consume', 'cut'])).toBe('one\ntwo\n');
  });

  it('outlives a restart of the broker', async () => {
    await commands.text(['topic', 'create', 'bridge']);
    const port = Number(broker.address.split(':')[1]);
    const producer = commands.start(['produce', 'bridge']);
    const consumer = commands.start(['consume', 'bridge', '--follow']);
    producer.child.stdin!.write('before\n');
    await consumer.until((stdout) => stdout === 'before\n');
    await broker.kill();
    producer.child.stdin!.write('between\n');
    broker = await BrokerProcess.start(join(dir, 'data'), { port });
    producer.child.stdin!.end('after\n');
    expect(await producer.ended).toMatchObject({ code: 0, stderr: '3 records written to bridge\n' });
    await consumer.until((stdout) => stdout === 'before\nbetween\nafter\n');
    consumer.child.kill('SIGINT');
    expect((await consumer.ended).code).toBe(0);
  });
});

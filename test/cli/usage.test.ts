/** How the command is called, and how it ends. */
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import net from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { BrokerProcess } from '../support/broker-process.ts';
import { cli } from '../support/cli.ts';

const servers: net.Server[] = [];
afterEach(() => {
  for (const server of servers.splice(0)) server.close();
});

/** Somebody who listens and is no Kafka. */
async function stranger(onConnection: (socket: net.Socket) => void): Promise<string> {
  const server = net.createServer(onConnection);
  servers.push(server);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return `127.0.0.1:${(server.address() as net.AddressInfo).port}`;
}

describe('a start that cannot be', () => {
  it('says what to do: code 1', async () => {
    const dir = mkdtempSync(join(tmpdir(), 'broadsheet-start-'));
    const running = await BrokerProcess.start(join(dir, 'data'));
    try {
      const port = running.address.split(':')[1]!;
      const start = (data: string, ...more: string[]) => cli(['start', '--data', join(dir, data), ...more]);
      expect(await start('data', '--port', '0')).toMatchObject({
        code: 1,
        stderr: expect.stringContaining('uses that directory; stop it, or choose another with --data'),
      });
      expect(await start('other', '--host', '127.0.0.1', '--port', port)).toMatchObject({
        code: 1,
        stderr: expect.stringContaining('stop it, or choose another port with --port'),
      });
    } finally {
      await running.kill();
      rmSync(dir, { recursive: true, force: true });
    }
  });
});

describe('the command', () => {
  it('tells what there is', async () => {
    const { code, stdout } = await cli(['--help']);
    expect(code).toBe(0);
    const families = [...stdout.toString().matchAll(/^ {2}([a-z]+) /gm)].map(([, family]) => family);
    expect(families).toEqual([
      ...[
        'start',
        'topic',
        'group',
        'config',
        'produce',
        'consume',
        'dump',
        'compact',
        'backup',
        'restore',
        'check',
        'help',
      ],
    ]);
    for (const args of [
      ['help', 'group'],
      ['group', '--help'],
    ]) {
      expect(await cli(args)).toMatchObject({ code: 0 });
      expect((await cli(args)).stdout.toString()).toContain('reset-offsets');
    }
    for (const name of ['produce', 'consume']) {
      const help = (await cli([name, '--help'])).stdout.toString();
      expect(help).toMatch(/--separator .*\(default: a tab\)/);
      expect(help).not.toMatch(/default: [{[]/);
    }
    expect((await cli(['--version'])).stdout.toString()).toMatch(/^\d+\.\d+\.\d+\n$/);
  });

  it.each([
    [['topc'], 'Did you mean topic?'],
    [['topic', 'lst'], 'Did you mean list?'],
    [['topic', 'list', '--jsn'], 'Did you mean --json?'],
    [['topic', 'create'], "missing required argument 'topic'"],
    [['topic', 'create', 'a', '--partitions', '0'], 'a whole number from 1 on'],
    [['topic', 'list', '-b', 'nowhere'], 'not host:port: "nowhere"; did you mean nowhere:9092?'],
    [['topic', 'list', '-b', 'a:b:c'], 'not host:port: "a:b:c"; write it as in localhost:9092 or [::1]:9092'],
    [['group', 'list', '--state', 'Stable,Foo'], '"Foo" is none of Stable, Empty, PreparingRebalance'],
    [['group', 'list', '--type', 'foo'], '"foo" is none of classic, consumer, share, streams'],
    [
      ['start', '--config', '/no/such/file'],
      '--config /no/such/file: there is no such file; name a server.properties',
    ],
    [['consume', 'a', '--from', 'soon'], '-n for the last n'],
    [['consume', 'a', '--fields', 'value,colour'], 'fields are topic, partition'],
    [['produce', 'a', '--compression', 'rar'], 'none, gzip, snappy, lz4, zstd'],
    [['group', 'reset-offsets', 'g', 't', '--shift', 'far'], 'as in 100 or -100'],
  ])('%j is a usage error: code 2', async (args, text) => {
    const { code, stderr, stdout } = await cli(args);
    expect({ code, stderr, stdout: stdout.toString() }).toEqual({
      code: 2,
      stderr: expect.stringContaining(text),
      stdout: '',
    });
  });

  it('without a broker says where to get one: code 1', async () => {
    const { code, stderr } = await cli(['topic', 'list', '-b', '127.0.0.1:1']);
    expect(code).toBe(1);
    expect(stderr).toBe(
      'broadsheet: cannot connect to 127.0.0.1:1 (connect ECONNREFUSED 127.0.0.1:1): is a broker running there? ' +
        'Start one with `npx broadsheet start`, or name another with --bootstrap-server\n',
    );
  });

  it('says when it is not Kafka that answers', async () => {
    const web = await stranger((socket) => socket.end('HTTP/1.1 400 Bad Request\r\n\r\n'));
    const other = await stranger((socket) => socket.end('SSH-2.0-x\r\n'));
    const deaf = await stranger((socket) => socket.destroy());
    for (const [address, text] of [
      [web, "speaks HTTP, not Kafka's protocol"],
      [other, 'is that a plaintext Kafka listener?'],
      [deaf, 'is that a plaintext Kafka listener?'],
    ] as const) {
      const { code, stderr } = await cli(['topic', 'list', '-b', address]);
      expect(code).toBe(1);
      expect(stderr).toContain(text);
      expect(stderr).toContain('Name a broker with --bootstrap-server');
    }
  });

  it('gives up after --timeout', async () => {
    const silent = await stranger((socket) => socket.resume());
    const { code, stderr } = await cli(['topic', 'list', '-b', silent, '--timeout', '50']);
    expect(code).toBe(1);
    expect(stderr).toContain('within 50 ms');
    expect(stderr).toContain('takes connections, but does not answer as a Kafka broker does');
  });
});

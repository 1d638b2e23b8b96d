/** How the command is called, and how it ends. */
import { once } from 'node:events';
import net from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
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

describe('the command', () => {
  it('tells what there is', async () => {
    const { code, stdout } = await cli(['--help']);
    expect(code).toBe(0);
    for (const family of ['start', 'topic', 'group', 'config', 'produce', 'consume', 'dump', 'check']) {
      expect(stdout.toString()).toMatch(new RegExp(`^ {2}${family} `, 'm'));
    }
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
    [['topic', 'list', '-b', 'nowhere'], 'not host:port: "nowhere"'],
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
    const deaf = await stranger((socket) => socket.destroy());
    for (const address of [web, deaf]) {
      const { code, stderr } = await cli(['topic', 'list', '-b', address]);
      expect(code).toBe(1);
      expect(stderr).toContain('is that a plaintext Kafka listener?');
    }
  });

  it('gives up after --timeout', async () => {
    const silent = await stranger((socket) => socket.resume());
    const { code, stderr } = await cli(['topic', 'list', '-b', silent, '--timeout', '50']);
    expect(code).toBe(1);
    expect(stderr).toContain('within 50 ms');
  });
});

/** confluent-kafka for Python with assigned partitions: each codec, each acks, idempotence, offsets by time, watermarks,
 * topics; read again after SIGKILL and SIGTERM. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { BrokerProcess } from '../support/broker-process.ts';
import { outputs } from '../support/command.ts';
import { PYTHON } from '../support/interop-tools.ts';
import { scaled } from '../support/scale.ts';

const SCRIPT = fileURLToPath(new URL('../support/confluent-client.py', import.meta.url));
const COUNT = scaled(3_000, 100_000);
const dir = mkdtempSync(join(tmpdir(), 'broadsheet-python-'));
let broker: BrokerProcess;

beforeAll(async () => {
  broker = await BrokerProcess.start(dir);
});
afterAll(async () => {
  await broker?.kill();
  rmSync(dir, { recursive: true, force: true });
});

async function client(command: string, ...args: (string | number)[]): Promise<string> {
  return (await outputs(PYTHON, [SCRIPT, command, broker.address, ...args.map(String)])).stdout;
}

describe('confluent-kafka for Python', () => {
  it('produces and reads what it produced', async () => {
    expect(await client('write', COUNT)).toBe('write passed\n');
    expect(await client('read', COUNT)).toBe('read passed\n');
  });

  it('notices a record more and a record less', async () => {
    await expect(client('read', COUNT + 1)).rejects.toThrow('watermarks');
    await expect(client('read', COUNT - 1)).rejects.toThrow('watermarks');
  });

  it('creates and deletes topics', async () => {
    expect(await client('admin')).toBe('admin passed\n');
  });

  it('reads it after SIGKILL', async () => {
    await broker.kill();
    broker = await BrokerProcess.start(dir);
    expect(await client('read', COUNT)).toBe('read passed\n');
  });

  it('reads it after SIGTERM', async () => {
    await broker.stop();
    broker = await BrokerProcess.start(dir);
    expect(await client('read', COUNT)).toBe('read passed\n');
  });
});

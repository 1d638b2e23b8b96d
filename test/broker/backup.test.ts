/** Backups by call and by command: what is refused, what is left after a failure, what is linked. Under load: test/crash/. */
import { mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type Broker, createBroker } from '../../src/index.ts';
import { injectFileFaults } from '../../src/log/js-file.ts';
import { cli } from '../support/cli.ts';
import { withClient } from '../support/with-client.ts';

let root: string;
const brokers: Broker[] = [];

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'broadsheet-backup-'));
});
afterEach(async () => {
  for (const broker of brokers.splice(0)) await broker.close();
  rmSync(root, { recursive: true, force: true });
});

async function start(name: string, engine: 'native' | 'js'): Promise<Broker> {
  const broker = await createBroker({ dataDir: join(root, name), host: '127.0.0.1', port: 0, engine });
  brokers.push(broker);
  return broker;
}

describe('a backup', () => {
  async function filled(engine: 'native' | 'js' = 'native'): Promise<Broker> {
    const broker = await start('data', engine);
    await withClient(broker, async (client) => {
      await client.createTopics([
        { name: 't', partitions: 2, configs: { 'internal.segment.bytes': '20000' } },
      ]);
      for (let i = 0; i < 10; i++)
        await client.produce('t', 0, [{ timestamp: 1, value: Buffer.alloc(5000, String(i)) }]);
    });
    return broker;
  }
  const tree = (dir: string) => readdirSync(dir, { recursive: true }).sort();

  it('is refused where something lies, and inside the directory', async () => {
    const broker = await filled();
    const target = join(root, 'target');
    mkdirSync(target);
    writeFileSync(join(target, 'mine'), 'x');
    await expect(broker.backup(target)).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' });
    expect(readdirSync(target)).toEqual(['mine']);
    const inside = join(broker.dataDir, 'backup');
    await expect(broker.backup(inside)).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' });
    expect(readdirSync(broker.dataDir)).not.toContain('backup');
  });

  it('that is ended leaves nothing', async () => {
    const broker = await filled();
    const target = join(root, 'target');
    mkdirSync(target);
    const stopped = new AbortController();
    const backup = broker.backup(target, { signal: stopped.signal });
    stopped.abort(new Error('enough'));
    await expect(backup).rejects.toThrow('enough');
    expect(readdirSync(target)).toEqual([]);
    const other = broker.backup(join(root, 'other'));
    const failed = expect(other).rejects.toMatchObject({ code: 'CLOSED' });
    await broker.close();
    await failed;
    expect(readdirSync(root).sort()).toEqual(['data', 'target']);
  });

  it('that finds no space leaves nothing', async () => {
    const broker = await filled();
    let copies = 0;
    injectFileFaults((call) => (call === 'copy' && copies++ > 3 ? { errno: 28, limit: 0 } : undefined));
    try {
      await expect(broker.backup(join(root, 'target'))).rejects.toMatchObject({ code: 'NO_SPACE' });
    } finally {
      injectFileFaults(undefined);
    }
    expect(readdirSync(root)).toEqual(['data']);
  });

  it('has the partitions of a topic that is deleted meanwhile, under their own names', async () => {
    const broker = await filled();
    const [backup] = await Promise.all([
      broker.backup(join(root, 'target')),
      withClient(broker, (client) => client.deleteTopics(['t'])),
    ]);
    // Either side of the cut.
    if (backup.partitions === 3) expect(readdirSync(join(root, 'target'))).toContain('t-0');
    else expect(backup.partitions).toBe(1);
  });

  it('and its restore work by command, whether a broker uses the directory or not', async () => {
    const broker = await filled();
    const [live, dead, back] = ['live', 'dead', 'back'].map((name) => join(root, name)) as [
      string,
      string,
      string,
    ];
    expect((await cli(['backup', broker.dataDir, live])).code).toBe(0);
    expect((await cli(['restore', broker.dataDir, back])).code).toBe(1);
    await broker.close();
    expect((await cli(['backup', broker.dataDir, dead])).code).toBe(0);
    const first = (dir: string) => statSync(join(dir, 't-0/00000000000000000000.log'));
    expect(first(live).ino).toBe(first(broker.dataDir).ino);
    expect(first(dead).ino).toBe(first(broker.dataDir).ino);
    const restored = await cli(['restore', live, back]);
    expect(restored).toMatchObject({ code: 0, stderr: '' });
    expect(restored.stdout.toString()).toMatch(/all is well/);
    expect(first(back).ino).not.toBe(first(live).ino);
    expect(tree(back)).toEqual(tree(live));
    expect((await cli(['restore', live, back])).stderr).toMatch(/back is not empty/);
    rmSync(join(live, 'meta.properties'));
    expect((await cli(['restore', live, join(root, 'other')])).stderr).toMatch(
      /no backup, or one that was cut/,
    );
  });
});

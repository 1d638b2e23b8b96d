/**
 * Directories that earlier commits wrote, each as one file: test/log/fixtures/NAME.json.gz has all files of one, as a kill left them,
 * and what a client read from it before.
 *
 *   node --import ./scripts/typescript.js test/support/directory-fixture.ts TREE NAME [SETTING=VALUE...]
 *
 * makes one with the broker of a checkout (`.` for this one). What that broker does not serve is left out.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gunzipSync, gzipSync } from 'node:zlib';
import { Client, EARLIEST } from '../../src/client/client.ts';
import { commitOffsets, committedOffsets, listGroups } from '../../src/client/groups.ts';
import { BroadsheetError } from '../../src/runtime/errors.ts';
import { PARTITIONS, TOPIC, Transactor } from '../crash/transactor.ts';
import { Digester } from './digest.ts';
import { Random } from './random.ts';

const FOLDER = fileURLToPath(new URL('../log/fixtures/', import.meta.url));
const COMPACTED = 'keys';

/** What a client reads: committed records by partition, or the last value of each key of the compacted topic; and offsets. */
export interface DirectoryContent {
  readonly topics: Readonly<Record<string, unknown>>;
  readonly offsets: Readonly<Record<string, unknown>>;
}

interface DirectoryFixture {
  readonly content: DirectoryContent;
  /** Base64 by path. */
  readonly files: Readonly<Record<string, string>>;
}

export function fixtureNames(): string[] {
  return readdirSync(FOLDER).map((name) => name.replace('.json.gz', ''));
}

/** Writes the directory; gives what is to be read from it. */
export function unpackFixture(name: string, dir: string): DirectoryContent {
  const text = gunzipSync(readFileSync(`${FOLDER}${name}.json.gz`)).toString();
  const { content, files } = JSON.parse(text) as DirectoryFixture;
  for (const [path, bytes] of Object.entries(files)) {
    mkdirSync(dirname(join(dir, path)), { recursive: true });
    writeFileSync(join(dir, path), bytes, 'base64');
  }
  return content;
}

async function isServed<T>(work: () => Promise<T>): Promise<T | undefined> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof BroadsheetError && error.code === 'UNSUPPORTED') return undefined;
    throw error;
  }
}

export async function readDirectory(address: string): Promise<DirectoryContent> {
  const client = await Client.connect(address);
  const topics: Record<string, unknown> = {};
  for (const { name, partitions } of (await client.metadata()).topics) {
    if (name === null || name.startsWith('__')) continue;
    for (let partition = 0; partition < partitions.length; partition++)
      topics[`${name}-${partition}`] = await readPartition(client, name, partition);
  }
  const offsets: Record<string, unknown> = {};
  for (const { group } of (await isServed(() => listGroups(client))) ?? [])
    offsets[group] = await committedOffsets(client, group);
  await client.close();
  return { topics, offsets };
}

async function readPartition(client: Client, topic: string, partition: number): Promise<unknown> {
  const digester = new Digester();
  const last: Record<string, string> = {};
  const { offset } = await client.listOffset(topic, partition, EARLIEST);
  for await (const record of client.records(topic, partition, offset, { committedOnly: true })) {
    digester.add(record);
    last[Buffer.from(record.key ?? []).toString()] = Buffer.from(record.value ?? []).toString();
  }
  return topic === COMPACTED ? last : digester.result();
}

async function fill(address: string): Promise<void> {
  const client = await Client.connect(address);
  const record = (key: string, value: string) => ({
    timestamp: Date.now(),
    key: Buffer.from(key),
    value: Buffer.from(value),
  });
  const small = { 'internal.segment.bytes': '2000' };
  await client.createTopics([
    { name: 'plain', partitions: 2, configs: small },
    {
      name: COMPACTED,
      partitions: 1,
      configs: { ...small, 'cleanup.policy': 'compact', 'min.cleanable.dirty.ratio': '0.01' },
    },
    { name: TOPIC, partitions: PARTITIONS, configs: small },
    { name: 'deleted', partitions: 1 },
  ]);
  const producer = await client.initProducerId();
  for (let i = 0; i < 20; i++) {
    const compression = (['none', 'gzip', 'snappy', 'lz4', 'zstd'] as const)[i % 5]!;
    const records = Array.from({ length: 5 }, (_, n) => record(`k${n}`, `value ${i} ${'x'.repeat(50)}`));
    const identity = i % 2 === 0 ? {} : { ...producer, baseSequence: Math.floor(i / 2) * 5 };
    await client.produce('plain', i % 2, records, { compression, ...identity });
    await client.produce(COMPACTED, 0, records, { compression });
  }
  await client.produce('deleted', 0, [record('a', 'b')]);
  await client.deleteTopics(['deleted']);
  const at = [{ topic: 'plain', partition: 0, offset: 7 }];
  await isServed(() => commitOffsets(client, 'readers', at));
  await client.close();
  for (const [name, modern] of [
    ['old', false],
    ['new', true],
  ] as const) {
    const transactor = new Transactor(name, modern, new Random(1));
    await transactor.run(address, () => transactor.count('committed') > 2 && transactor.count('aborted') > 1);
    // A broker that serves no transactions.
    if (transactor.faults.length > 0) process.stdout.write(`${transactor.faults}\n`);
  }
  // The cleaner looks every 100 ms.
  await new Promise((resolve) => setTimeout(resolve, 2000));
}

async function make(tree: string, name: string, settings: readonly string[]): Promise<void> {
  const root = mkdtempSync(join(tmpdir(), 'broadsheet-fixture-'));
  const dir = join(root, 'data');
  const all = [
    'offsets.topic.num.partitions=1',
    'transaction.state.log.num.partitions=1',
    'log.cleaner.backoff.ms=100',
    ...settings,
  ];
  const cli = [
    '--import',
    './scripts/typescript.js',
    'src/cli.ts',
    'start',
    '--data',
    dir,
    '--host',
    '127.0.0.1',
    '--port',
    '0',
  ];
  const child = spawn(process.execPath, [...cli, ...all.flatMap((setting) => ['--set', setting])], {
    cwd: tree,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const exited = once(child, 'exit');
  try {
    let said = '';
    let address: string | undefined;
    for await (const chunk of child.stdout) {
      said += chunk;
      address = /listens on (127\S+?:\d+)/.exec(said)?.[1];
      if (address !== undefined) break;
    }
    if (address === undefined) throw new Error(`the broker of ${tree} did not start: ${said}`);
    await fill(address);
    const content = await readDirectory(address);
    child.kill('SIGKILL');
    await exited;
    const files: Record<string, string> = {};
    for (const path of readdirSync(dir, { recursive: true, encoding: 'utf8' }).sort()) {
      if (path !== '.lock' && statSync(join(dir, path)).isFile())
        files[path] = readFileSync(join(dir, path), 'base64');
    }
    mkdirSync(FOLDER, { recursive: true });
    const bytes = gzipSync(JSON.stringify({ content, files } satisfies DirectoryFixture), { level: 9 });
    writeFileSync(`${FOLDER}${name}.json.gz`, bytes);
    process.stdout.write(
      `${name}: ${Object.keys(files).length} files, ${bytes.length} bytes\n${JSON.stringify(content)}\n`,
    );
  } finally {
    child.kill('SIGKILL');
    rmSync(root, { recursive: true, force: true });
  }
}

const [script, tree, name, ...settings] = process.argv.slice(1);
if (script === fileURLToPath(import.meta.url)) {
  if (tree === undefined || name === undefined) throw new Error('a tree and a name, please');
  await make(resolve(tree), name, settings);
}

/** dump and check on a directory of this broker, whole and damaged. */
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Broker, createBroker } from '../../src/index.ts';
import { checkPartition } from '../../src/log/partition-check.ts';
import { CliOf, cli } from '../support/cli.ts';

const dir = mkdtempSync(join(tmpdir(), 'broadsheet-check-'));
const data = join(dir, 'data');
const BASE = '0'.repeat(20);
let second: string;
let broker: Broker;

interface CheckDocument {
  ok: boolean;
  partitions: number;
  segments: number;
  batches: number;
  faults: { file: string; what: string }[];
  remarks: { file: string; what: string }[];
  repaired: { file: string; what: string }[];
}

beforeAll(async () => {
  const config = { 'offsets.topic.num.partitions': '3' };
  broker = await createBroker({ dataDir: data, host: '127.0.0.1', port: 0, config });
  const commands = new CliOf(broker.bootstrapServers);
  // A segment of 1 MiB, then another; indexes with some entries.
  await commands.text(['topic', 'create', 't', '-c', 'segment.bytes=1048576']);
  const lines = Array.from({ length: 12_000 }, (_, n) => `${n} ${'text '.repeat(20)}\n`).join('');
  await commands.text(['produce', 't', '--batch-bytes', '8k'], lines);
  await commands.text(['produce', 'packed', '-z', 'gzip', '-f', 'key,headers,value'], 'k\th=1\tv\n');
  await commands.text(['consume', 'packed', '-g', 'readers']);
  const used = await cli(['check', data]);
  expect(used).toMatchObject({ code: 1, stderr: expect.stringContaining('stop that broker first') });
  await broker.close();
  second = readdirSync(join(data, 't-0'))
    .filter((name) => name.endsWith('.log'))
    .sort()[1]!
    .slice(0, 20);
});
afterAll(async () => {
  await broker?.close();
  rmSync(dir, { recursive: true, force: true });
});

async function check(folder: string, ...args: string[]): Promise<CheckDocument & { code: number | null }> {
  const { code, stdout, stderr } = await cli(['check', folder, '--json', ...args]);
  if (stdout.length === 0) throw new Error(stderr);
  return { code, ...(JSON.parse(stdout.toString()) as CheckDocument) };
}

async function jsonLines(...args: string[]): Promise<Record<string, unknown>[]> {
  const { stdout } = await cli(['dump', '--json', ...args]);
  return stdout
    .toString()
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Record<string, unknown>);
}

describe('check', () => {
  it('finds nothing in a directory that was closed', async () => {
    for (const args of [[], ['--deep']]) {
      const found = await check(data, ...args);
      expect(found).toMatchObject({ code: 0, ok: true, faults: [], remarks: [] });
      expect(found.segments).toBeGreaterThan(found.partitions);
      expect(found.batches).toBeGreaterThan(100);
    }
    expect((await cli(['check', data])).stdout.toString()).toMatch(/: all is well\n$/);
    expect(await check(join(data, 't-0'))).toMatchObject({ code: 0, partitions: 1, faults: [] });
  });

  it('keeps its hands off: the directory is as it was', async () => {
    const before = readdirSync(data, { recursive: true }).sort();
    await check(data);
    expect(readdirSync(data, { recursive: true }).sort()).toEqual(before);
  });

  it('refuses what is no directory of the kind', async () => {
    expect(await cli(['check', join(dir, 'nowhere')])).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('there is no'),
    });
    expect(await cli(['check', dir])).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('neither a data directory nor'),
    });
    const logs = join(dir, 'logs');
    mkdirSync(logs);
    writeFileSync(join(logs, 'app.log'), 'no segment');
    expect(await cli(['check', logs])).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('neither a data directory nor'),
    });
  });

  /** Where something was changed, and what must be said of which file. */
  const damages: [
    what: string,
    file: () => string,
    change: (bytes: Buffer) => Buffer | string,
    said: RegExp,
  ][] = [
    ['a flipped bit in a batch', () => `t-0/${BASE}.log`, flip(5000), /batch at position \d+: the CRC/],
    ['a batch length of nonsense', () => `t-0/${BASE}.log`, set(8, 0), /at position 0: a batch length of 0/],
    ['a segment cut short', () => `t-0/${BASE}.log`, cut(-7), /the file ends within a batch/],
    ['an offset that runs back', () => `t-0/${second}.log`, set(4, 1), /comes after offset|was there before/],
    ['an index entry beside a batch', () => `t-0/${BASE}.index`, add(-12, 1), /no batch begins at position/],
    ['an index that turns back', () => `t-0/${BASE}.index`, set(8, 0), /does not follow the one before/],
    ['a broken index length', () => `t-0/${BASE}.index`, cut(-3), /no number of entries/],
    ['a wrong timestamp', () => `t-0/${BASE}.timeindex`, add(4, -1), /is said to have timestamp/],
    ['a broken snapshot', () => `t-0/${second}.snapshot`, flip(20), /checksum/],
    [
      'a leader epoch of nobody',
      () => 't-0/leader-epoch-checkpoint',
      () => '0\n1\n7 0\n',
      /leader epoch 0, not 7/,
    ],
    ['a leader epoch checkpoint of nonsense', () => 't-0/leader-epoch-checkpoint', () => 'x', /not complete/],
    ['no topic id', () => 't-0/partition.metadata', () => 'version: 0\n', /has no version 0 and topic id/],
    ['a broken meta.properties', () => 'meta.properties', () => 'version=1\n', /cluster.id is missing/],
    [
      'a checkpoint past the end',
      () => 'recovery-point-offset-checkpoint',
      () => '0\n1\nt 0 99999\n',
      /t 0 is at 99999, and its log ends at 12000/,
    ],
    [
      'a checkpoint of nonsense',
      () => 'log-start-offset-checkpoint',
      () => '0\n5\nt 0 1\n',
      /5 lines announced/,
    ],
    [
      'an aborted transaction of nowhere',
      () => `t-0/${BASE}.txnindex`,
      () => Buffer.alloc(34, 1),
      /unknown version/,
    ],
    ['an index of no segment', () => 't-0/00000000000000099999.index', () => '', /it has no segment/],
  ];

  function flip(at: number) {
    return (bytes: Buffer) => {
      bytes[at]! ^= 4;
      return bytes;
    };
  }
  function set(at: number, value: number) {
    return (bytes: Buffer) => {
      bytes.writeInt32BE(value, at);
      return bytes;
    };
  }
  function add(at: number, value: number) {
    return (bytes: Buffer) => {
      const place = at < 0 ? bytes.length + at : at;
      bytes.writeInt32BE(bytes.readInt32BE(place) + value, place);
      return bytes;
    };
  }
  function cut(by: number) {
    return (bytes: Buffer) => bytes.subarray(0, by);
  }

  it.each(damages)('tells of %s', async (_what, file, change, said) => {
    const copy = mkdtempSync(join(dir, 'copy-'));
    cpSync(data, copy, { recursive: true });
    const path = join(copy, file());
    writeFileSync(path, change(existsSync(path) ? readFileSync(path) : Buffer.alloc(0)));
    const found = await check(copy);
    expect(found).toMatchObject({ code: 1, ok: false });
    const told = found.faults.filter((fault) => fault.file === file() && said.test(fault.what));
    expect(told, JSON.stringify(found.faults)).not.toEqual([]);
    const text = await cli(['check', copy]);
    expect(text.code).toBe(1);
    expect(text.stdout.toString()).toContain(`${file()}: ${told[0]!.what}\n`);
  });

  it('repairs with --repair, and a broker then serves all but the damaged batch', async () => {
    const copy = mkdtempSync(join(dir, 'copy-'));
    cpSync(data, copy, { recursive: true });
    const harm = (file: string, change: (bytes: Buffer) => Buffer | string) =>
      writeFileSync(join(copy, file), change(readFileSync(join(copy, file))));
    harm(`t-0/${BASE}.log`, flip(5000));
    harm(`t-0/${second}.snapshot`, flip(20));
    harm(`t-0/${second}.index`, cut(-3));
    harm('recovery-point-offset-checkpoint', () => '0\n1\nt 0 99999\n');
    const { faults } = await check(copy);
    const found = await check(copy, '--repair');
    expect(found).toMatchObject({ code: 0, ok: true, faults: [] });
    const { repaired } = found;
    expect(repaired.map((each) => each.file).sort()).toEqual(
      [...new Set(faults.map((each) => each.file))].sort(),
    );
    expect(JSON.stringify(repaired)).toMatch(/\d+ damaged bytes are moved to quarantine/);
    expect(readdirSync(join(copy, 't-0')).filter((name) => /\.log\..*quarantine$/.test(name))).toHaveLength(
      1,
    );
    const again = await check(copy, '--repair');
    expect(again).toMatchObject({ code: 0, repaired: [] });
  });

  it('keeps the end of a log whose last batch is damaged', async () => {
    const copy = mkdtempSync(join(dir, 'copy-'));
    cpSync(data, copy, { recursive: true });
    const folder = join(copy, 't-0');
    const { endOffset } = await checkPartition(folder, { clean: true });
    const last = readdirSync(folder)
      .filter((name) => name.endsWith('.log'))
      .sort()
      .at(-1)!;
    const bytes = readFileSync(join(folder, last));
    bytes[bytes.length - 1]! ^= 1;
    writeFileSync(join(folder, last), bytes);
    expect(await check(copy, '--repair')).toMatchObject({ code: 0, ok: true });
    expect(await checkPartition(folder, { clean: true })).toMatchObject({ endOffset, faults: [] });
  });

  it('reads records with --deep, whose batch has a right checksum', async () => {
    const copy = mkdtempSync(join(dir, 'copy-'));
    cpSync(data, copy, { recursive: true });
    const path = join(copy, `t-0/${BASE}.log`);
    const bytes = readFileSync(path);
    const { patchCrc } = await import('../../src/protocol/records/batch.ts');
    const size = 12 + bytes.readInt32BE(8);
    // One record fewer than there are.
    bytes.writeInt32BE(bytes.readInt32BE(57) - 1, 57);
    const first = bytes.subarray(0, size);
    patchCrc(first, 0, size);
    writeFileSync(path, bytes);
    expect(await check(copy)).toMatchObject({ ok: true });
    const deep = await check(copy, '--deep');
    expect(deep.faults).toEqual([
      { file: `t-0/${BASE}.log`, what: expect.stringMatching(/position 0: bytes are left after the/) },
    ]);
  });

  it('takes a torn end for what it is after a stop that was not clean', async () => {
    const copy = mkdtempSync(join(dir, 'copy-'));
    cpSync(data, copy, { recursive: true });
    const last = join(
      copy,
      't-0',
      readdirSync(join(copy, 't-0'))
        .filter((name) => name.endsWith('.log'))
        .sort()
        .at(-1)!,
    );
    writeFileSync(last, readFileSync(last).subarray(0, -5));
    expect(await check(copy)).toMatchObject({ code: 1, ok: false });
    rmSync(join(copy, '.kafka_cleanshutdown'));
    // It lies below what was on disk.
    expect(await check(copy)).toMatchObject({
      code: 1,
      faults: [{ what: expect.stringContaining('reached 12000') }],
    });
    rmSync(join(copy, 'recovery-point-offset-checkpoint'));
    const found = await check(copy);
    expect(found).toMatchObject({ code: 0, ok: true, faults: [] });
    expect(found.remarks.map(({ what }) => what).join()).toMatch(
      /not a clean one.*the file ends within a batch/,
    );
    rmSync(join(copy, 't-0', 'partition.metadata'));
    writeFileSync(join(copy, 'not-a-topic'), '');
    cpSync(join(copy, 't-0'), join(copy, 'lost+found'), { recursive: true });
    expect((await check(copy)).faults.map(({ file }) => file)).toContain('lost+found');
  });
});

describe('dump', () => {
  it('shows batches and, deep, records', async () => {
    const path = join(data, 'packed-0', `${BASE}.log`);
    expect(await jsonLines(path, '--deep')).toEqual([
      expect.objectContaining({
        kind: 'batch',
        position: 0,
        baseOffset: 0,
        lastOffset: 0,
        recordCount: 1,
        compression: 'gzip',
        baseSequence: 0,
        error: null,
      }),
      expect.objectContaining({
        kind: 'record',
        offset: 0,
        key: 'k',
        value: 'v',
        headers: [{ key: 'h', value: '1' }],
      }),
    ]);
    const text = (await cli(['dump', path, '--deep'])).stdout.toString();
    expect(text).toMatch(
      /^position 0 {2}offsets 0\.\.0 {2}records 1 {2}bytes \d+ {2}codec gzip {2}time \d{4}-/,
    );
    expect(text).toMatch(/^ {2}offset 0 {2}.* {2}header "h"="1" {2}key "k" {2}value "v"$/m);
    expect(await jsonLines(join(data, 't-0', `${BASE}.log`), '-n', '2')).toHaveLength(2);
  });

  it('shows what is damaged, and ends with code 1', async () => {
    const path = join(dir, `${BASE}.log`);
    const bytes = readFileSync(join(data, 't-0', `${BASE}.log`));
    bytes[100]! ^= 1;
    writeFileSync(path, bytes.subarray(0, -3));
    const { code, stdout, stderr } = await cli(['dump', path]);
    expect({ code, stderr }).toEqual({ code: 1, stderr: 'broadsheet: 2 faults found\n' });
    expect(stdout.toString()).toMatch(/DAMAGED: the CRC/);
    expect(stdout.toString()).toMatch(/the file ends within a batch: \d+ bytes are left\n$/);
  });

  it('shows indexes, snapshots and checkpoints', async () => {
    const folder = join(data, 't-0');
    const [index] = (await jsonLines(join(folder, `${second}.index`))) as [{ entries: { offset: number }[] }];
    expect(index).toMatchObject({ kind: 'offset index', baseOffset: Number(second) });
    expect(index.entries.every(({ offset }) => offset >= Number(second))).toBe(true);
    const [times] = (await jsonLines(join(folder, `${BASE}.timeindex`))) as [{ entries: object[] }];
    expect(times.entries[0]).toEqual({ timestamp: expect.any(Number), offset: expect.any(Number) });
    const [snapshot] = await jsonLines(join(folder, `${second}.snapshot`));
    expect(snapshot).toMatchObject({
      kind: 'producer snapshot',
      entries: [{ epoch: 0, lastOffset: Number(second) - 1 }],
    });
    expect(await jsonLines(join(folder, 'leader-epoch-checkpoint'))).toEqual([
      { kind: 'leader epochs', entries: [{ epoch: 0, startOffset: 0 }] },
    ]);
    const [points] = (await jsonLines(join(data, 'recovery-point-offset-checkpoint'))) as [
      { entries: object[] },
    ];
    expect(points.entries).toContainEqual({ topic: 't', partition: 0, offset: 12_000 });
    const { stdout } = await cli(['dump', join(folder, 'partition.metadata'), join(data, 'meta.properties')]);
    expect(stdout.toString()).toMatch(/topic_id: [\w-]{22}\n[\s\S]*cluster.id=/);
    expect(await cli(['dump', join(data, '.lock')])).toMatchObject({ code: 2 });
    expect(await cli(['dump', join(data, 'x.log')])).toMatchObject({ code: 1 });
  });

  it("decodes the records of Kafka's own topics", async () => {
    const metadata = await jsonLines('--deep', join(data, '__cluster_metadata-0', `${BASE}.log`));
    const types = metadata.filter(({ kind }) => kind === 'record').map(({ type }) => type);
    expect(types).toEqual(
      expect.arrayContaining([
        'LEADER_CHANGE',
        'KRAFT_VOTERS',
        'FeatureLevel',
        'RegisterBroker',
        'Topic',
        'Partition',
      ]),
    );
    expect(metadata.find(({ type }) => type === 'Topic')).toMatchObject({ value: { name: 't' } });
    const offsets: Record<string, unknown>[] = [];
    for (const name of readdirSync(data).filter((each) => each.startsWith('__consumer_offsets-'))) {
      const path = join(data, name, `${BASE}.log`);
      if (readFileSync(path).length > 0) offsets.push(...(await jsonLines('--deep', path)));
    }
    expect(offsets.find(({ type }) => type === 'OffsetCommit')).toMatchObject({
      key: { group: 'readers', topic: 'packed', partition: 0 },
      value: { offset: 1 },
    });
    expect(offsets.some(({ type }) => type === 'GroupMetadata')).toBe(true);
  });
});

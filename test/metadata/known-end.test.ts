/** A metadata log that does not reach what was noted of it: the start refuses, and leaves to `check --repair` what is to be done. */
import { cpSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { partitionMetadataText, RECOVERY_POINT_FILE } from '../../src/log/checkpoints.ts';
import type { LogEngine } from '../../src/log/log.ts';
import { ClusterMetadata } from '../../src/metadata/cluster-metadata.ts';
import { ConfigResource } from '../../src/metadata/image.ts';
import { RecordBatch, readBatches } from '../../src/protocol/records/reader.ts';
import { VirtualClock } from '../../src/runtime/clock.ts';
import { silentLogger } from '../../src/runtime/logging.ts';
import { cli } from '../support/cli.ts';
import { ENGINES } from '../support/engines.ts';
import { batch, OPTIONS, scratch } from '../support/logs.ts';
import { scaled } from '../support/scale.ts';

const FOLDER = '__cluster_metadata-0';
const LOG = `${FOLDER}/00000000000000000000.log`;
const NOTE = `${FOLDER}/${RECOVERY_POINT_FILE}`;
const NOTED_AFTER_MS = 60_000;

describe.each(ENGINES)('where the metadata log ended is known, engine=$name', ({ make }) => {
  async function start(dataDir: string) {
    const engine = make();
    const clock = new VirtualClock();
    try {
      const metadata = await ClusterMetadata.open({
        ...{ dataDir, engine, defaultPartitions: 1, maxPartitions: 1000, now: 1000 },
        validateTopicConfig: () => {},
      });
      await metadata.activate([{ name: 'PLAINTEXT', host: '127.0.0.1', port: 9092 }], 1000);
      await metadata.keepSnapshots({
        ...{ clock, logger: silentLogger, maxRecordBytes: 1_000_000, maxIntervalMs: 0 },
        ...{ retentionBytes: -1, retentionMs: -1, checkIntervalMs: 60_000, recoveryPointMs: NOTED_AFTER_MS },
      });
      return { metadata, clock, engine };
    } catch (error) {
      await engine.close();
      throw error;
    }
  }

  async function stop({ metadata, engine }: { metadata: ClusterMetadata; engine: LogEngine }) {
    const end = metadata.quorum.logEndOffset;
    await metadata.close();
    await engine.close();
    return end;
  }

  function create(metadata: ClusterMetadata, name: string) {
    const spec = { name, numPartitions: 2, replicationFactor: 1, assignments: [], configs: [] };
    expect(metadata.createTopics([spec], 1000)[0]).toMatchObject({ ok: true });
  }

  /** Topics t0 to t3, of which t1 gets a config and t3 goes, and a clean stop. */
  async function stopped(): Promise<string> {
    const dir = scratch(true);
    const run = await start(dir);
    for (let i = 0; i < 4; i++) create(run.metadata, `t${i}`);
    const config = { resourceType: ConfigResource.TOPIC, resourceName: 't1', name: 'flush.ms', value: '9' };
    run.metadata.change([{ type: 'Config', version: 0, data: config }], 1000);
    run.metadata.deleteTopics([{ name: 't3', topicId: 'AAAAAAAAAAAAAAAAAAAAAA' }], 1000);
    await stop(run);
    return dir;
  }

  const batchesIn = (path: string) => {
    let position = 0;
    return [...readBatches(readFileSync(path))].map((batch) => {
      if (!(batch instanceof RecordBatch)) throw new Error('an old message');
      const placed = { position, batch };
      position += batch.sizeInBytes;
      return placed;
    });
  };
  const holds = (dir: string, text: string) =>
    batchesIn(join(dir, LOG)).find(({ batch }) =>
      [...batch.records()].some(({ value }) => Buffer.from(value!).includes(text)),
    )!;
  const contents = (dir: string) =>
    readdirSync(join(dir, FOLDER)).map((name) => [name, readFileSync(join(dir, FOLDER, name), 'latin1')]);
  const flip = (path: string, at: number) => {
    const bytes = readFileSync(path);
    bytes[at]! ^= 0x10;
    writeFileSync(path, bytes);
  };

  it('refuses to start below it, changes nothing, and says what to do', async () => {
    const dir = await stopped();
    const size = readFileSync(join(dir, LOG)).length;
    const all = batchesIn(join(dir, LOG));
    const [work, pristine] = [join(dir, '..', `${dir}-work`), dir];
    for (let at = 0; at < size; at += scaled(61, 1)) {
      const { position } = all.findLast((each) => each.position <= at)!;
      for (const what of ['cut', 'flipped']) {
        rmSync(work, { recursive: true, force: true });
        cpSync(pristine, work, { recursive: true });
        if (what === 'cut') truncateSync(join(work, LOG), at);
        else flip(join(work, LOG), at);
        const before = contents(work);
        const where = `${what} at ${at}`;
        const failure = await start(work).then(
          () => undefined,
          (error: Error) => error,
        );
        expect(failure, where).toMatchObject({
          code: 'CORRUPT',
          message: expect.stringContaining(`broadsheet check ${work} --repair`),
        });
        expect(failure!.message).toMatch(new RegExp(`${LOG.slice(-24)}: .* at position \\d+`));
        if (what === 'cut') expect(failure!.message).toContain(`position ${position}`);
        expect(contents(work).filter(([name]) => !name!.endsWith('index'))).toEqual(
          before.filter(([name]) => !name!.endsWith('index')),
        );
      }
    }
    rmSync(work, { recursive: true, force: true });
    rmSync(join(dir, LOG));
    await expect(start(dir)).rejects.toThrow('has no segment, and its log is known to reach offset');
  });

  it('is repaired, where asked to: what is left goes on, behind what was acknowledged', async () => {
    const dir = await stopped();
    const last = batchesIn(join(dir, LOG)).at(-1)!.batch.lastOffset;
    flip(join(dir, LOG), holds(dir, 't1').position + 70);
    const found = await cli(['check', dir, '--json']);
    const faults = JSON.parse(found.stdout.toString()).faults as { file: string }[];
    expect(faults.map(({ file }) => file)).toContain(LOG);
    const { stdout, code } = await cli(['check', dir, '--repair', '--json']);
    const { ok, repaired } = JSON.parse(stdout.toString());
    expect([code, ok, repaired[0]?.file]).toEqual([0, true, LOG]);
    const run = await start(dir);
    // The config of t1 is not there without it.
    expect([...run.metadata.image.topicsByName.keys()]).toEqual(['t0', 't2']);
    expect(run.metadata.image.topicConfigs('t1').size).toBe(0);
    expect(batchesIn(join(dir, LOG)).map(({ batch }) => batch.baseOffset)).toContain(last + 1);
    create(run.metadata, 'later');
    await stop(run);
    const again = await start(dir);
    expect([...again.metadata.image.topicsByName.keys()]).toEqual(['t0', 't2', 'later']);
    await stop(again);
    expect(readdirSync(join(dir, FOLDER)).filter((name) => name.endsWith('.quarantine'))).toHaveLength(2);
  });

  it('is repaired where the end is missing: no offset is given again', async () => {
    const dir = await stopped();
    const end = batchesIn(join(dir, LOG)).at(-1)!.batch.lastOffset + 1;
    truncateSync(join(dir, LOG), batchesIn(join(dir, LOG)).at(-1)!.position);
    const { code } = await cli(['check', dir, '--repair', '--json']);
    expect(code).toBe(0);
    const run = await start(dir);
    // It was t3's removal that went.
    expect([...run.metadata.image.topicsByName.keys()]).toEqual(['t0', 't1', 't2', 't3']);
    expect(batchesIn(join(dir, LOG)).some(({ batch }) => batch.baseOffset === end)).toBe(true);
    await stop(run);
  });

  it('is noted some time after a flush; what lies behind is cut', async () => {
    const dir = scratch(true);
    const run = await start(dir);
    create(run.metadata, 'noted');
    await run.metadata.durable();
    run.clock.advance(NOTED_AFTER_MS);
    await expect.poll(() => readdirSync(join(dir, FOLDER))).toContain(RECOVERY_POINT_FILE);
    create(run.metadata, 'torn');
    await run.metadata.durable();
    // A kill.
    await run.engine.close();
    const whole = readFileSync(join(dir, LOG));
    truncateSync(join(dir, LOG), whole.length - 1);
    const next = await start(dir);
    expect([...next.metadata.image.topicsByName.keys()]).toEqual(['noted']);
    await next.engine.close();
    truncateSync(join(dir, LOG), holds(dir, 'noted').position + 1);
    await expect(start(dir)).rejects.toThrow('would be forgotten');
  });

  it('is not known without the note, or with one that is damaged or another log’s', async () => {
    const dir = await stopped();
    truncateSync(join(dir, LOG), readFileSync(join(dir, LOG)).length - 1);
    const note = readFileSync(join(dir, NOTE), 'latin1');
    for (const text of [
      undefined,
      note.replace(/\d\n#/, '77\n#'),
      note.slice(0, -20),
      '',
      '0\n1\n__cluster_metadata 0 99\n',
    ]) {
      const work = `${dir}-work`;
      cpSync(dir, work, { recursive: true });
      if (text === undefined) rmSync(join(work, NOTE));
      else writeFileSync(join(work, NOTE), text);
      const run = await start(work);
      expect([...run.metadata.image.topicsByName.keys()]).toEqual(['t0', 't1', 't2', 't3']);
      await stop(run);
      rmSync(work, { recursive: true });
    }
  });

  it('knows the leader epochs that check and repair go by', async () => {
    const dir = await stopped();
    const path = join(dir, LOG);
    const run = await start(dir);
    const topicId = run.metadata.image.topicsByName.get('t0')!.id;
    const log = await run.engine.open(join(dir, 't0-0'), OPTIONS);
    for (let i = 0; i < 3; i++) {
      const bytes = batch({ maxTimestamp: 1 });
      log.stage(bytes, 0, bytes.length, 0, 1000);
      run.engine.commit(() => {});
    }
    await log.close();
    writeFileSync(join(dir, 't0-0', 'partition.metadata'), partitionMetadataText(topicId));
    await stop(run);
    const files = [path, join(dir, 't0-0', '00000000000000000000.log')];
    const whole = files.map((file) => readFileSync(file));
    for (const file of files) flip(file, batchesIn(file).at(-1)!.position + 15);
    const { stdout, code } = await cli(['check', dir, '--repair', '--json']);
    // The second was known once the first was put right.
    expect([code, JSON.parse(stdout.toString()).faults]).toEqual([0, []]);
    expect(JSON.parse(stdout.toString()).repaired).toHaveLength(2);
    expect(files.map((file) => readFileSync(file))).toEqual(whole);
  });

  it('cuts behind it at a batch of a leader epoch that has not begun', async () => {
    const dir = await stopped();
    rmSync(join(dir, NOTE));
    const { position } = batchesIn(join(dir, LOG)).at(-1)!;
    // No checksum covers it.
    flip(join(dir, LOG), position + 15);
    const run = await start(dir);
    expect([...run.metadata.image.topicsByName.keys()]).toEqual(['t0', 't1', 't2', 't3']);
    expect(run.metadata.epoch).toBe(2);
    await stop(run);
  });
});

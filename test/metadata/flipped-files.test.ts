/** Every byte of the metadata's files, flipped, cut off and missing: what is not the log itself costs neither the start nor a change;
 * of the log no change is altered, and none goes: what was noted to be on disk is not cut. */
import { cpSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { ClusterMetadata } from '../../src/metadata/cluster-metadata.ts';
import { VirtualClock } from '../../src/runtime/clock.ts';
import { BroadsheetError } from '../../src/runtime/errors.ts';
import { silentLogger } from '../../src/runtime/logging.ts';
import { describeImage } from '../support/describe-image.ts';
import { ENGINES } from '../support/engines.ts';
import { scratch } from '../support/logs.ts';
import { Random } from '../support/random.ts';
import { FULL_SIZE } from '../support/scale.ts';
import { seedOf } from '../support/seed.ts';

const SAMPLE = 12;
const FOLDER = '__cluster_metadata-0';

/** Every bit of a short file; of a long one a bit per byte. */
function* harms(bytes: Buffer): Generator<[string, Buffer | undefined]> {
  yield ['missing', undefined];
  for (let at = 0; at < bytes.length; at++) {
    yield [`cut at ${at}`, bytes.subarray(0, at)];
    for (let bit = 0; bit < 8; bit++) {
      if (bytes.length > 500 && bit !== at % 8) continue;
      const flipped = Buffer.from(bytes);
      flipped[at]! ^= 1 << bit;
      yield [`bit ${bit} of byte ${at} flipped`, flipped];
    }
  }
}

describe.each(ENGINES)('damaged files of the metadata, engine=$name', ({ name, make }) => {
  async function withMetadata<T>(
    dataDir: string,
    work: (metadata: ClusterMetadata) => Promise<T>,
  ): Promise<T> {
    const engine = make();
    try {
      const metadata = await ClusterMetadata.open({
        ...{ dataDir, engine, defaultPartitions: 1, maxPartitions: 1000 },
        validateTopicConfig: () => {},
        now: 1000,
      });
      try {
        return await work(metadata);
      } finally {
        await metadata.close();
      }
    } finally {
      await engine.close();
    }
  }

  async function start(metadata: ClusterMetadata) {
    const clock = new VirtualClock();
    await metadata.activate([{ name: 'PLAINTEXT', host: '127.0.0.1', port: 9092 }], 1000);
    const keeper = await metadata.keepSnapshots({
      ...{ clock, logger: silentLogger, maxRecordBytes: 900, maxIntervalMs: 0 },
      ...{ retentionBytes: -1, retentionMs: -1, checkIntervalMs: 60_000, recoveryPointMs: 60_000 },
    });
    return { clock, keeper };
  }

  /** Two snapshots, and topics that only the log has. */
  const write = (dataDir: string) =>
    withMetadata(dataDir, async (metadata) => {
      const { clock, keeper } = await start(metadata);
      for (let i = 0; i < 7; i++) {
        const spec = { name: `t${i}`, numPartitions: 1, replicationFactor: 1, assignments: [] };
        expect(metadata.createTopics([{ ...spec, configs: [] }], 1000)[0]).toMatchObject({ ok: true });
        clock.advance(0);
        await keeper.idle();
      }
    });

  /** Who owns the directory, its topics, and all the rest; before this broker takes the lead and after. */
  const seen = (dataDir: string) =>
    withMetadata(dataDir, async (metadata) => {
      const { clusterId, nodeId, directoryId, image } = metadata;
      const topics = [...image.topicsByName.keys()];
      const before = JSON.stringify(describeImage(image), plain);
      await start(metadata);
      return { owner: `${clusterId} ${nodeId} ${directoryId}`, topics, before };
    });

  it('cost what they may', { timeout: 3_600_000 }, async () => {
    const pristine = scratch(true);
    const work = join(scratch(true), 'work');
    await write(pristine);
    const fresh = () => {
      rmSync(work, { recursive: true, force: true });
      cpSync(pristine, work, { recursive: true });
    };
    fresh();
    const expected = await seen(work);
    expect(expected.topics).toHaveLength(7);
    const paths = readdirSync(pristine, { recursive: true, encoding: 'utf8' }).filter((path) =>
      statSync(join(pristine, path)).isFile(),
    );
    const byPath = paths.map((path) =>
      [...harms(readFileSync(join(pristine, path)))].map(([what, bytes]) => ({ path, what, bytes })),
    );
    const cases = byPath.flat();
    const random = new Random(seedOf(`flipped files of the metadata, ${name}`, 6));
    const chosen = FULL_SIZE ? cases : Array.from({ length: SAMPLE }, () => random.pick(random.pick(byPath)));
    const faults: string[] = [];
    let refusals = 0;
    for (const { path, what, bytes } of chosen) {
      fresh();
      if (bytes === undefined) rmSync(join(work, path));
      else writeFileSync(join(work, path), bytes);
      const isLog = path.endsWith('.log');
      try {
        const found = await seen(work);
        if (JSON.stringify(found) !== JSON.stringify(expected))
          faults.push(`${path}: ${what}: ${found.owner}, ${found.topics}`);
      } catch (error) {
        if (isLog && error instanceof BroadsheetError && error.message.includes(FOLDER)) refusals++;
        else faults.push(`${path}: ${what}: ${(error as Error).message}`);
      }
    }
    process.stdout.write(
      `${name}: ${chosen.length} of ${cases.length} damages of ${paths.length} files, ${refusals} refusals, ${faults.length} faults\n`,
    );
    expect(faults.slice(0, 20)).toEqual([]);
  });

  it('say what to do where meta.properties has no copy, as in a directory of an earlier version', async () => {
    const work = scratch(true);
    await write(work);
    const copy = join(work, 'meta.properties.copy');
    const expected = await seen(work);
    const path = join(work, 'meta.properties');
    const whole = readFileSync(path);
    for (const [what, bytes] of harms(whole)) {
      if (what.startsWith('bit') && !FULL_SIZE && !what.startsWith('bit 7')) continue;
      rmSync(copy, { force: true });
      if (bytes === undefined) rmSync(path);
      else writeFileSync(path, bytes);
      const found = await seen(work).catch((error: BroadsheetError) => error);
      // A cluster's id is nowhere else: one that was altered and can be an id is taken for it.
      if (!(found instanceof BroadsheetError)) expect(found.topics, what).toEqual(expected.topics);
      else
        expect([found.code, found.message.includes(work)], `${what}: ${found.message}`).toEqual([
          'CORRUPT',
          true,
        ]);
    }
    rmSync(copy, { force: true });
    writeFileSync(path, whole.subarray(0, 20));
    await expect(seen(work)).rejects.toThrow(
      `${path}: cluster.id is missing; put that of a backup in its place`,
    );
    writeFileSync(path, 'version=0\n');
    await expect(seen(work)).rejects.toThrow(/migrate it to KRaft with Apache Kafka first$/);
  });
});

const plain = (_: string, value: unknown) =>
  value instanceof Map ? [...value] : typeof value === 'bigint' ? String(value) : value;

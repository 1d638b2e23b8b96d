import { readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { afterAll, beforeEach, describe, expect, it } from 'vitest';
import { RECOVERY_POINT_FILE } from '../../src/log/checkpoints.ts';
import { NativeEngine } from '../../src/log/native-engine.ts';
import { ClusterMetadata } from '../../src/metadata/cluster-metadata.ts';
import { scratch } from '../support/logs.ts';

let dir: string;
let logFile: string;
beforeEach(() => {
  dir = scratch(true);
  logFile = `${dir}/__cluster_metadata-0/00000000000000000000.log`;
});

const engine = new NativeEngine();
afterAll(() => engine.close());

async function open(): Promise<ClusterMetadata> {
  rmSync(`${dir}/__cluster_metadata-0/${RECOVERY_POINT_FILE}`, { force: true });
  return ClusterMetadata.open({
    dataDir: dir,
    engine,
    defaultPartitions: 1,
    maxPartitions: 1000,
    validateTopicConfig: () => {},
    now: 1000,
  });
}

function create(metadata: ClusterMetadata, name: string): void {
  const spec = { name, numPartitions: 3, replicationFactor: 1, assignments: [], configs: [] };
  expect(metadata.createTopics([spec], 1000)[0]).toMatchObject({ ok: true });
}

describe('a metadata log whose last batch is damaged, and was not noted to be on disk', () => {
  it('is cut there, at every byte, and goes on', async () => {
    const metadata = await open();
    await metadata.activate([], 1000);
    create(metadata, 'whole');
    await metadata.durable();
    const kept = readFileSync(logFile).length;
    create(metadata, 'torn');
    await metadata.close();
    const all = readFileSync(logFile);
    expect(all.length).toBeGreaterThan(kept + 100);

    for (let length = kept; length <= all.length; length++) {
      writeFileSync(logFile, all);
      truncateSync(logFile, length);
      const cut = await open();
      const names = length === all.length ? ['whole', 'torn'] : ['whole'];
      expect([...cut.image.topicsByName.keys()], `${length} bytes`).toEqual(names);
      expect(cut.image.partitionCount).toBe(3 * names.length);
      await cut.close();
      if (length % 16 !== 0) continue;
      // The next start writes over the cut, and the start after it reads that.
      const next = await open();
      await next.activate([], 1000);
      create(next, 'later');
      await next.close();
      const last = await open();
      expect([...last.image.topicsByName.keys()]).toEqual([...names, 'later']);
      await last.close();
    }
  });

  it('is cut when a byte of it is flipped', async () => {
    const metadata = await open();
    await metadata.activate([], 1000);
    await metadata.durable();
    const kept = readFileSync(logFile).length;
    create(metadata, 'torn');
    await metadata.close();
    const all = readFileSync(logFile);
    for (let at = kept; at < all.length; at++) {
      // Base offset and leader epoch are outside of the checksum.
      if (at - kept < 8 || (at - kept >= 12 && at - kept < 16)) continue;
      const flipped = Buffer.from(all);
      flipped[at] = (flipped[at] as number) ^ 0x10;
      writeFileSync(logFile, flipped);
      const cut = await open();
      expect(cut.image.topicsByName.size, `byte ${at}`).toBe(0);
      await cut.close();
    }
  });
});

import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { command, KafkaPeer, kafkaPort, PROTOCOL } from '../support/kafka-peer.ts';
import { expectServed, MetadataRun, type Written } from '../support/metadata-run.ts';

const PORT = kafkaPort();

let dir: string;
let peer: KafkaPeer;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'broadsheet-metadata-'));
  peer = new KafkaPeer(dir, PORT);
});
afterEach(async () => {
  await peer.dispose();
  rmSync(dir, { recursive: true, force: true });
});

describe('directories of other shapes', () => {
  it('opens one with voters by configuration, node 7 and a metadata.version of Kafka 3.5', async () => {
    peer.nodeId = 7;
    // A snapshot after every record: a record that the old metadata.version cannot hold would end Kafka.
    peer.settings.push(
      'node.id=7',
      `controller.quorum.voters=7@127.0.0.1:${PORT + 1}`,
      'controller.quorum.bootstrap.servers=',
      'metadata.log.max.record.bytes.between.snapshots=1',
    );
    await peer.format('static-voters', '--release-version', '3.5-IV2');
    const written: Written = new Map();
    const first = await new MetadataRun(peer.dataDir).start();
    expect(first.metadata).toMatchObject({ nodeId: 7, clusterId: 'static-voters' });
    expect(first.metadata.image.metadataVersion).toBe(11);
    await first.create('old');
    await first.write(written, 'old', 'first');
    await first.stop();

    await peer.start();
    await expectServed(peer, written);
    expect(await peer.tool('features', 'describe')).toMatch(
      /metadata\.version.*FinalizedVersionLevel: 3\.5-IV2/,
    );
    await peer.stop();
    const snapshots = () =>
      readdirSync(`${peer.dataDir}/__cluster_metadata-0`).filter((name) => name.endsWith('.checkpoint'));
    expect(snapshots().length).toBeGreaterThan(1);

    const second = await new MetadataRun(peer.dataDir).start();
    expect(second.metadata.nodeId).toBe(7);
    await second.create('older');
    await second.write(written, 'old', 'second');
    await second.write(written, 'older', 'second');
    await second.stop(false);
    await peer.start();
    await expectServed(peer, written);
    expect(readFileSync(`${peer.dir}/log`, 'utf8')).not.toMatch(/UnwritableMetadata|Encountered.*fault/);
  });

  it('opens one whose metadata log is gone but for its snapshots, and goes on where they end', async () => {
    await command('tar', '-xzf', `${PROTOCOL}/datadir/kafka-4.4-clean.tar.gz`, '-C', dir);
    const folder = `${peer.dataDir}/__cluster_metadata-0`;
    for (const name of readdirSync(folder)) {
      if (/\.(log|index|timeindex|snapshot)$|^leader-epoch|^quorum-state/.test(name))
        rmSync(join(folder, name));
    }
    const written: Written = new Map();
    const run = await new MetadataRun(peer.dataDir).start();
    expect(run.metadata.epoch).toBe(3);
    expect(run.metadata.image.topicsByName.size).toBe(15);
    expect(readdirSync(folder)).toContain('00000000000000000417.log');
    await run.create('added');
    await run.write(written, 'added', 'ours');
    await run.stop();
    const again = await new MetadataRun(peer.dataDir).start();
    expect(again.metadata.image.topicsByName.size).toBe(16);
    await again.stop();
    await peer.start();
    await expectServed(peer, written);
  });
});

import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
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

async function produce(written: Written, topic: string, partition: number, value: string): Promise<void> {
  const path = join(dir, 'value');
  await writeFile(path, value);
  await command('kcat', '-b', peer.address, '-P', '-t', topic, '-p', String(partition), path);
  const values = written.get(topic) ?? [[]];
  written.set(topic, values);
  values[partition]?.push(value);
}

describe('Apache Kafka', () => {
  it('opens what we wrote, and we what it wrote on top, in turns and also after kill -9', async () => {
    const written: Written = new Map();
    const first = await new MetadataRun(peer.dataDir).start();
    await first.create('ours', { 'retention.ms': '-1', 'segment.bytes': '1048576' });
    await first.create('second.topic');
    await first.write(written, 'ours', 'first');
    await first.stop();
    const { clusterId } = first.metadata;

    await peer.start();
    await expectServed(peer, written);
    await produce(written, 'ours', 2, 'by Kafka');
    await produce(written, 'made-by-kafka', 0, 'by Kafka too');
    await peer.tool('configs', '--alter', '--topic', 'ours', '--add-config', 'max.message.bytes=2000000');
    expect(await peer.tool('features', 'describe')).toMatch(/metadata\.version.*4\.4-IV2/);
    await peer.stop();

    const second = await new MetadataRun(peer.dataDir).start();
    expect(second.metadata.clusterId).toBe(clusterId);
    expect(Object.fromEntries(second.metadata.image.topicConfigs('ours'))).toEqual({
      'retention.ms': '-1',
      'segment.bytes': '1048576',
      'max.message.bytes': '2000000',
    });
    for (const topic of second.metadata.image.topicsByName.values()) {
      for (const partition of topic.partitions.values()) {
        expect(partition).toMatchObject({ leader: 1, isr: [1], directories: [second.metadata.directoryId] });
      }
    }
    await second.write(written, 'ours', 'second');
    await second.write(written, 'made-by-kafka', 'second');
    await second.create('third');
    await second.write(written, 'third', 'second');
    // As after a kill: no mark of a clean stop.
    await second.stop(false);

    await peer.start();
    await expectServed(peer, written);
    await produce(written, 'third', 1, 'by the Kafka that is killed');
    await peer.kill();

    const third = await new MetadataRun(peer.dataDir).start();
    expect(third.metadata.epoch).toBeGreaterThan(second.metadata.epoch + 1);
    await third.write(written, 'third', 'third');
    third.metadata.deleteTopics([{ name: 'second.topic', topicId: 'AAAAAAAAAAAAAAAAAAAAAA' }], Date.now());
    for (const id of [0, 1, 2]) rmSync(`${peer.dataDir}/second.topic-${id}`, { recursive: true });
    await third.stop();

    await peer.start();
    await expectServed(peer, written);
    expect(await peer.leaders()).not.toHaveProperty('second.topic-0');
    await peer.stop();
    const fourth = await new MetadataRun(peer.dataDir).start();
    expect([...fourth.metadata.image.topicsByName.keys()].sort()).toEqual(['made-by-kafka', 'ours', 'third']);
    await fourth.stop();
  });

  it('starts on a directory that it formatted and we started first', async () => {
    const id = 'abcdefghijklmnopqrstuA';
    await peer.format(id, '--standalone', '--add-scram', 'SCRAM-SHA-256=[name=alice,password=secret]');
    const written: Written = new Map();
    const ours = await new MetadataRun(peer.dataDir).start();
    expect(ours.metadata.clusterId).toBe(id);
    expect(ours.metadata.image.security.scram.has('alice')).toBe(true);
    expect(ours.metadata.image.features.get('eligible.leader.replicas.version')).toBe(1);
    expect([...ours.metadata.servedFeatures.keys()]).toEqual([
      'metadata.version',
      'group.version',
      'streams.version',
      'transaction.version',
      'kraft.version',
    ]);
    await ours.create('t');
    await ours.write(written, 't', 'ours');
    await ours.stop();
    await peer.start();
    await expectServed(peer, written);
    expect(await peer.tool('configs', '--describe', '--entity-type', 'users')).toMatch(/alice/);
    // With eligible leader replicas on, a stop leaves the in-sync set empty.
    await peer.stop();
    const again = await new MetadataRun(peer.dataDir).start();
    expect(again.metadata.image.topicsByName.get('t')?.partitions.get(0)).toMatchObject({
      leader: 1,
      isr: [1],
    });
    await again.write(written, 't', 'again');
    await again.stop(false);
    await peer.start();
    await expectServed(peer, written);
  });
});

interface ExpectedState {
  clusterId: string;
  topics: { name: string; topicId: string; partitions: number; configs: Record<string, string> }[];
  partitions: { topic: string; partition: number; endOffset: number; leaderEpoch?: number }[];
  transactions: { producerId: string }[];
  features: Record<string, number>;
  clientQuotas: { values: Record<string, number> }[];
  scramUsers: unknown[];
  acls: unknown[];
}

describe.each(['clean', 'killed'] as const)('the directory of a Kafka that was %s', (state) => {
  const expected = (
    JSON.parse(readFileSync(`${PROTOCOL}/datadir/expected.json`, 'utf8')) as Record<string, ExpectedState>
  )[state] as ExpectedState;

  it('opens, says what Kafka says, and is one that Kafka takes back', async () => {
    await command('tar', '-xzf', `${PROTOCOL}/datadir/kafka-4.4-${state}.tar.gz`, '-C', dir);
    const meta = readFileSync(`${peer.dataDir}/meta.properties`, 'utf8');
    const run = new MetadataRun(peer.dataDir);
    await run.start();
    const { image, clusterId, servedFeatures } = run.metadata;
    expect(readFileSync(`${peer.dataDir}/meta.properties`, 'utf8')).toBe(meta);
    expect(clusterId).toBe(expected.clusterId);
    const topics = [...image.topicsByName.values()]
      .map(({ name, id, partitions }) => ({
        name,
        topicId: id,
        partitions: partitions.size,
        configs: Object.fromEntries(image.topicConfigs(name)),
      }))
      .sort((a, b) => (a.name < b.name ? -1 : 1));
    expect(topics).toEqual(expected.topics);
    const features = Object.fromEntries(image.features);
    expect({ ...features, 'kraft.version': servedFeatures.get('kraft.version') }).toEqual(expected.features);
    expect([...servedFeatures.keys()]).toEqual([
      'metadata.version',
      'group.version',
      'streams.version',
      'transaction.version',
      'kraft.version',
    ]);
    const ids = expected.transactions.map(({ producerId }) => Number(producerId));
    expect(image.nextProducerId).toBeGreaterThan(Math.max(...ids));
    expect([...image.security.quotas()].length).toBe(expected.clientQuotas.length);
    expect(image.security.acls.size).toBe(expected.acls.length);
    expect(image.security.scram.get('alice')?.size).toBe(expected.scramUsers.length);
    for (const { topic, partition, leaderEpoch } of expected.partitions) {
      const found = image.topicsByName.get(topic)?.partitions.get(partition);
      expect(found).toMatchObject({ leader: 1, isr: [1], eligibleLeaderReplicas: [] });
      // Kafka's stop took the lead away and our start took it again.
      if (leaderEpoch !== undefined) expect(found?.leaderEpoch, topic).toBe(leaderEpoch + 2);
    }
    for (const { topic, partition, endOffset } of expected.partitions) {
      // A Kafka that starts again after a kill writes to its coordinators' topics before it can be asked.
      if (state === 'killed' && topic.startsWith('__')) continue;
      expect(await run.endOffset(topic, partition), `${topic}-${partition}`).toBe(endOffset);
    }
    await run.create('added-by-us');
    const written: Written = new Map();
    await run.write(written, 'added-by-us', 'ours');
    await run.stop(state === 'clean');

    await peer.start('transaction.abort.timed.out.transaction.cleanup.interval.ms=3600000');
    await expectServed(peer, written);
    const ends = await peer.endOffsets();
    for (const { topic, partition, endOffset } of expected.partitions) {
      // The coordinators write to their own topics as they load.
      if (topic.startsWith('__')) continue;
      expect(ends.get(`${topic}-${partition}`), `${topic}-${partition}`).toBe(endOffset);
    }
    expect(existsSync(`${peer.dataDir}/added-by-us-0/partition.metadata`)).toBe(true);
  });
});

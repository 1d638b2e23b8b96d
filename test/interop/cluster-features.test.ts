/** Features of an older directory, moved up and down by Apache Kafka and by this broker: the same answers, and Kafka opens
 * what this broker has finalized. */
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { APIS } from '../../src/client/apis.ts';
import { Connection } from '../../src/client/connection.ts';
import { BrokerProcess } from '../support/broker-process.ts';
import { answersOf, normalise } from '../support/cluster-answers.ts';
import { CALLS, type Case } from '../support/cluster-cases.ts';
import { KafkaPeer, kafkaPort } from '../support/kafka-peer.ts';

const PORT = kafkaPort();
const DYNAMIC = ['controller.quorum.voters=', `controller.quorum.bootstrap.servers=127.0.0.1:${PORT + 1}`];

let dir: string;
let kafka: KafkaPeer;
let other: KafkaPeer;
let broker: BrokerProcess | undefined;

/** Voters by configuration, so that kraft.version is 0. */
async function formatted(name: string, clusterId: string): Promise<KafkaPeer> {
  const peer = new KafkaPeer(join(dir, name), PORT);
  mkdirSync(peer.dir);
  peer.settings.push(
    `controller.quorum.voters=1@127.0.0.1:${PORT + 1}`,
    'controller.quorum.bootstrap.servers=',
  );
  await peer.format(clusterId, '--release-version', '4.2-IV1');
  return peer;
}

beforeEach(async () => {
  dir = mkdtempSync(join(tmpdir(), 'broadsheet-cluster-features-'));
  kafka = await formatted('kafka', 'theirs');
  other = await formatted('ours', 'ours');
});
afterEach(async () => {
  await broker?.kill();
  await kafka.dispose();
  await other.dispose();
  rmSync(dir, { recursive: true, force: true });
});

const UPGRADE = 1;
const SAFE_DOWNGRADE = 2;
const UNSAFE_DOWNGRADE = 3;

function update(feature: string, maxVersionLevel: number, upgradeType: number, validateOnly = false): Case {
  const featureUpdates = [{ feature, maxVersionLevel, upgradeType }];
  return {
    name: `${feature} to ${maxVersionLevel} by ${upgradeType}${validateOnly ? ', only checked' : ''}`,
    run: (asker) =>
      asker.request(
        CALLS.updateFeatures,
        { featureUpdates, validateOnly, timeoutMs: 10_000 },
        { version: 1 },
      ),
  };
}

const STEPS: readonly Case[] = [
  update('metadata.version', 28, UPGRADE),
  update('metadata.version', 22, SAFE_DOWNGRADE),
  update('metadata.version', 22, UNSAFE_DOWNGRADE),
  update('metadata.version', 25, SAFE_DOWNGRADE, true),
  update('metadata.version', 26, SAFE_DOWNGRADE),
  update('metadata.version', 27, SAFE_DOWNGRADE),
  update('metadata.version', 27, UPGRADE),
  update('group.version', 0, SAFE_DOWNGRADE),
  update('group.version', 1, SAFE_DOWNGRADE),
  update('group.version', 1, UPGRADE),
  update('group.version', 2, UPGRADE),
  update('kraft.version', 1, SAFE_DOWNGRADE),
  update('kraft.version', 1, UPGRADE, true),
  update('kraft.version', 1, UPGRADE),
  update('kraft.version', 0, UNSAFE_DOWNGRADE),
  update('metadata.version', 33, UPGRADE),
  update('metadata.version', 31, SAFE_DOWNGRADE),
];

function connect(address: string): Promise<Connection> {
  const [host, port] = address.split(':');
  return Connection.connect({ host: host!, port: Number(port), timeoutMs: 60_000 });
}

/** Finalized levels of what both serve. */
async function finalized(address: string): Promise<Record<string, number>> {
  const connection = await connect(address);
  const software = { clientSoftwareName: 'test', clientSoftwareVersion: '1' };
  const { finalizedFeatures } = await connection.request(APIS.apiVersions, software, { version: 4 });
  connection.close();
  const served = ['metadata.version', 'kraft.version', 'group.version'];
  const levels = finalizedFeatures.map(({ name, maxVersionLevel }) => [name, maxVersionLevel] as const);
  return Object.fromEntries(levels.filter(([name]) => served.includes(name)));
}

it('go up and down alike, and stay when the other opens the directory', { timeout: 600_000 }, async () => {
  await kafka.start();
  const ofKafka = await answersOf(STEPS, () => connect(kafka.address));
  const levels = { 'metadata.version': 33, 'kraft.version': 1, 'group.version': 1 };
  // Its broker learns of the last change a moment after the answer.
  await expect.poll(() => finalized(kafka.address), { timeout: 30_000 }).toEqual(levels);
  await kafka.stop();

  // Only formatted, this broker would name its voter in the log at once.
  await other.start();
  await other.stop();
  broker = await BrokerProcess.start(other.dataDir);
  const ours = await answersOf(STEPS, () => connect(broker!.address));
  for (const [name, answer] of ours) expect(normalise(answer), name).toEqual(normalise(ofKafka.get(name)));
  expect(await finalized(broker.address)).toEqual(levels);
  await broker.stop();
  broker = await BrokerProcess.start(other.dataDir);
  expect(await finalized(broker.address)).toEqual(levels);
  await broker.stop();

  // The voters are in the log now: without them in the configuration too.
  for (const settings of [[], DYNAMIC]) {
    await other.start(...settings);
    expect(await finalized(other.address)).toEqual(levels);
    await other.stop();
    expect(readFileSync(`${other.dir}/log`, 'utf8')).not.toMatch(/UnwritableMetadata|Encountered.*fault/);
  }
  broker = await BrokerProcess.start(kafka.dataDir);
  expect(await finalized(broker.address)).toEqual(levels);
});

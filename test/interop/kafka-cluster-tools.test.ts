/** Kafka's tools for the cluster as a whole, against Apache Kafka and against this broker: the same outputs, but for what is
 * listed here and in docs/DIFFERENCES.md. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type CompareOptions, type Difference, type ToolName, ToolPeers } from '../support/compare-tools.ts';
import { kafkaPort } from '../support/kafka-peer.ts';

const dir = mkdtempSync(join(tmpdir(), 'broadsheet-cluster-tools-'));
let peers: ToolPeers;

beforeAll(async () => {
  peers = await ToolPeers.start({ dir, kafkaPort: kafkaPort() });
});
afterAll(async () => {
  await peers?.close();
  rmSync(dir, { recursive: true, force: true });
});

/** Offsets and times of the metadata log, directory ids, and the words of refusals. */
function normalise(text: string): string {
  return text
    .replaceAll(/(directoryId\\?": \\?")[\w-]{22}/g, '$1<id>')
    .replaceAll(
      /^(\d+\s+)[\w-]{22}\s+\d+(\s+)\d+\s.*(Leader|Follower|Observer)/gm,
      '$1<id> <offset>$2<lag and times> $3',
    )
    .replaceAll(/^(HighWatermark:\s+)\d+/gm, '$1<offset>')
    .replaceAll(/(Epoch: )\d+/g, '$1<offset>')
    .replaceAll(/^((?:Could|Can) not \w+ [\w.]+(?: to \d+)?\.) .*$/gm, '$1 <text>')
    .replaceAll(/( request for \w+ ID \d+ failed:) .* \(org/g, '$1 <text> (org')
    .replaceAll(
      /are (SCRAM-\S+), (SCRAM-\S+)$/gm,
      (_, a: string, b: string) => `are ${[a, b].sort().join(', ')}`,
    )
    .replaceAll(/[ \t]+/g, ' ')
    .replaceAll(/ $/gm, '');
}

type Step = readonly [args: string, ...except: readonly Difference[]];

const QUORUM: readonly Step[] = [
  [
    'describe --status',
    {
      reason: 'there is no listener for controllers, the broker listens for all',
      kafka: /"CONTROLLER:\/\/127.0.0.1:\d+"/,
      ours: '"PLAINTEXT://<address>"',
    },
  ],
  ['describe --replication'],
  ['describe --replication --human-readable'],
  ['describe'],
  ['remove-controller --controller-id 1 --controller-directory-id QUFBQUFBQUFBQUFBQUFBQQ'],
  ['remove-controller --controller-id 7 --controller-directory-id QUFBQUFBQUFBQUFBQUFBQQ --dry-run'],
];

const UNSERVED = 'features of Kafka that are not served here are neither shown nor finalized';
const FEATURES: readonly Step[] = [
  [
    'describe',
    ...['eligible.leader.replicas', 'share'].map((feature) => ({
      reason: UNSERVED,
      kafka: new RegExp(`\\nFeature: ${feature.replaceAll('.', '\\.')}\\.version.*`),
      ours: '',
    })),
  ],
  ['upgrade --metadata 4.4-IV2'],
  ['upgrade --feature metadata.version=33'],
  ['upgrade --feature metadata.version=33 --dry-run'],
  ['upgrade --feature metadata.version=34'],
  ['upgrade --feature bogus=1'],
  ['downgrade --metadata 4.3-IV0'],
  ['downgrade --metadata 4.3-IV0 --unsafe'],
  ['downgrade --feature metadata.version=32 --dry-run'],
  ['downgrade --feature kraft.version=0'],
  ['disable --feature bogus'],
  ['disable --feature metadata.version'],
  ['disable --feature kraft.version --unsafe --dry-run'],
  ['version-mapping'],
  ['version-mapping --release-version 4.0-IV1'],
  ['feature-dependencies --feature group.version=1'],
];
const CLUSTER: readonly Step[] = [
  ['cluster-id'],
  ['list-endpoints'],
  ['list-endpoints --include-fenced-brokers'],
  ['unregister --id 42'],
  ['unregister-controller --id 42'],
  ['unregister-controller --id 1'],
];
const user = '--entity-type users --entity-name alice';
const CONFIGS: readonly Step[] = [
  ['--describe --entity-type users'],
  [`--alter ${user} --add-config producer_byte_rate=1024,consumer_byte_rate=2048`],
  ['--alter --entity-type users --entity-default --add-config request_percentage=150.5'],
  [`--alter ${user} --entity-type clients --entity-name app --add-config controller_mutation_rate=7`],
  [`--alter ${user} --entity-type clients --entity-default --add-config producer_byte_rate=1`],
  ['--alter --entity-type clients --entity-name app --add-config producer_byte_rate=99'],
  ['--alter --entity-type clients --entity-default --add-config consumer_byte_rate=98'],
  ['--alter --entity-type ips --entity-name 10.1.2.3 --add-config connection_creation_rate=9'],
  ['--alter --entity-type ips --entity-default --add-config connection_creation_rate=10'],
  ['--alter --client app2 --add-config producer_byte_rate=5'],
  ['--alter --user carol --client app2 --add-config producer_byte_rate=5'],
  ['--alter --ip 10.1.2.4 --add-config connection_creation_rate=5'],
  ['--alter --user-defaults --add-config producer_byte_rate=6'],
  [`--alter ${user} --add-config SCRAM-SHA-256=[iterations=5000,password=secret]`],
  [`--alter ${user} --add-config SCRAM-SHA-512=[password=secret]`],
  ['--alter --user bob --add-config SCRAM-SHA-256=[iterations=100,password=secret]'],
  ['--alter --user bob --add-config SCRAM-SHA-256=[password=secret]'],
  ['--alter --user bob --add-config SCRAM-SHA-256=[password=secret],SCRAM-SHA-512=[password=secret]'],
  ['--describe --entity-type users '],
  [`--describe ${user}`],
  ['--describe --entity-type users --entity-default'],
  [`--describe ${user} --entity-type clients`],
  ['--describe --entity-type users --entity-type clients'],
  ['--describe --entity-type clients'],
  ['--describe --entity-type clients --entity-name app'],
  ['--describe --client-defaults'],
  ['--describe --entity-type ips'],
  ['--describe --ip 10.1.2.3'],
  ['--describe --ip-defaults'],
  ['--describe --user nobody'],
  [`--alter ${user} --add-config bogus=1`],
  [`--alter ${user} --add-config producer_byte_rate=-1`],
  [`--alter ${user} --add-config producer_byte_rate=abc`],
  ['--alter --entity-type ips --entity-name 300.1.2.3 --add-config connection_creation_rate=9'],
  ['--alter --entity-type ips --entity-name 10.1.2.3 --add-config producer_byte_rate=9'],
  [`--alter ${user} --delete-config consumer_byte_rate,SCRAM-SHA-256`],
  [`--alter ${user} --delete-config SCRAM-SHA-256`],
  ['--alter --ip 10.1.2.3 --delete-config connection_creation_rate'],
  ['--describe  --entity-type users'],
  ['--describe  --entity-type ips'],
];

const TOOLS: readonly (readonly [ToolName, readonly Step[]])[] = [
  ['metadata-quorum', QUORUM],
  ['features', FEATURES],
  ['cluster', CLUSTER],
  ['configs', CONFIGS],
];

describe.each(TOOLS)('kafka-%s', (tool, steps) => {
  it.each(steps.map(([args, ...except]) => [args, except] as const))('%s', async (args, except) => {
    const words = args.split(' ').filter((word) => word !== '');
    const options: CompareOptions = { sorted: true, except, normalise };
    const { kafka, ours } = await peers.compare(tool, words, options);
    expect(ours).toBe(kafka);
  });
});

it('kafka-features upgrades nothing when the release has a feature that is not served', async () => {
  const { code, stdout } = await peers.run(peers.ours, 'features', [
    'upgrade',
    '--release-version',
    '4.4-IV2',
  ]);
  expect(code).toBe(1);
  expect(stdout).toContain('this broker does not serve the feature');
});

/** kafka-consumer-groups, with all of its options, and kafka-groups, against Apache Kafka and against this broker: the same
 * outputs, but for what is listed here and in docs/DIFFERENCES.md. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Difference, type ToolName, ToolPeers } from '../support/compare-tools.ts';
import { GroupWorld } from '../support/group-world.ts';
import { kafkaPort } from '../support/kafka-peer.ts';

const dir = mkdtempSync(join(tmpdir(), 'broadsheet-consumer-groups-'));
const PLAN = join(dir, 'plan.csv');
const PLAN_OF_MANY = join(dir, 'plan-of-many.csv');
let peers: ToolPeers;
const worlds: GroupWorld[] = [];

beforeAll(async () => {
  peers = await ToolPeers.start({ dir, kafkaPort: kafkaPort() });
  worlds.push(
    ...(await Promise.all([peers.kafka, peers.ours].map(({ address }) => GroupWorld.create(address)))),
  );
  writeFileSync(PLAN, 'orders,0,1\norders,2,3\n');
  writeFileSync(PLAN_OF_MANY, 'g-simple,orders,0,2\ng-classic-empty,audit,0,0\n');
}, 300_000);
afterAll(async () => {
  for (const world of worlds) await world.leave();
  await peers?.close();
  rmSync(dir, { recursive: true, force: true });
});

/** Member ids that a broker made up, and the widths of columns. */
function normalise(text: string): string {
  return text
    .replaceAll(/-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b/g, '-<uuid>')
    .replaceAll(/[ \t]+/g, ' ')
    .replaceAll(/ $/gm, '');
}

type Step = readonly [args: string, ...except: readonly Difference[]];

const each = (before: string, values: readonly string[]): Step[] =>
  values.map((value) => [`${before} ${value}`]);
const EVERY_GROUP = [
  '--group g-simple',
  '--group g-classic',
  '--group g-classic-empty',
  '--group g-consumer',
  '--group g-consumer-empty',
  '--group nobody',
  '--group g-classic --group g-consumer',
  '--all-groups',
];

const LIST: readonly Step[] = [
  ['--list'],
  ...each('--list --state', [
    '',
    'stable',
    'Stable,Empty',
    'empty',
    'Dead',
    'bogus',
    'assigning,reconciling',
  ]),
  ...each('--list --type', ['', 'classic', 'consumer', 'Classic,Consumer', 'share', 'bogus']),
  ['--list --state --type'],
  ['--list --state empty --type consumer'],
  ['--list --verbose'],
];
const DESCRIBE: readonly Step[] = [
  ...each('--describe', EVERY_GROUP),
  ...each('--describe --offsets', EVERY_GROUP),
  ...each('--describe --offsets --verbose', EVERY_GROUP),
  ...each('--describe --members', EVERY_GROUP),
  ...each('--describe --members --verbose', EVERY_GROUP),
  ...each('--describe --state', EVERY_GROUP),
  ...each('--describe --state --verbose', EVERY_GROUP),
  ['--describe'],
  ['--describe --group g-simple --timeout 5000'],
  ['--describe --group g-simple --members --state'],
];
const WAYS = [
  '--to-earliest',
  '--to-latest',
  '--to-current',
  '--to-offset 1',
  '--to-offset 1000',
  '--to-offset -1',
  '--shift-by 1',
  '--shift-by -1',
  '--shift-by -100',
  '--shift-by 100',
  '--to-datetime 2024-01-03T00:00:00.000',
  '--to-datetime 2024-01-03T00:00:00.001+00:00',
  '--to-datetime 2000-01-01T00:00:00.000',
  '--to-datetime 2100-01-01T00:00:00.000',
  '--to-datetime yesterday',
  '--by-duration PT1H',
  '--by-duration P30000D',
  '--by-duration long',
  `--from-file ${PLAN}`,
];
const RESET: readonly Step[] = [
  ...each('--reset-offsets --group g-simple --topic orders --dry-run', WAYS),
  ...each('--reset-offsets --group g-consumer-empty --all-topics --export', WAYS.slice(0, 10)),
  ['--reset-offsets --group g-simple --topic orders --to-earliest'],
  ['--reset-offsets --group g-simple --topic orders:0,2 --to-latest --dry-run'],
  ['--reset-offsets --group g-simple --topic orders:9 --to-latest --dry-run'],
  ['--reset-offsets --group g-simple --topic orders:x --to-latest --dry-run'],
  ['--reset-offsets --group g-simple --topic orders --topic audit --to-latest --dry-run'],
  ['--reset-offsets --group g-simple --topic nowhere --to-latest --dry-run'],
  ['--reset-offsets --group g-simple --topic empty --to-latest --dry-run'],
  ['--reset-offsets --group g-simple --to-latest --dry-run'],
  ['--reset-offsets --group nobody --topic orders --to-latest --dry-run'],
  ['--reset-offsets --group nobody --all-topics --to-latest --dry-run'],
  ['--reset-offsets --group g-classic --topic orders --to-latest --dry-run'],
  ['--reset-offsets --group g-classic --topic orders --to-latest --execute'],
  ['--reset-offsets --group g-consumer --topic orders --to-latest --execute'],
  ['--reset-offsets --all-groups --all-topics --to-latest --dry-run'],
  ['--reset-offsets --group g-simple --group g-classic-empty --all-topics --to-earliest --dry-run'],
  [`--reset-offsets --group g-simple --group g-classic-empty --from-file ${PLAN_OF_MANY} --dry-run`],
  ['--reset-offsets --group g-simple --all-topics --to-earliest --to-latest'],
  ['--reset-offsets --group g-simple --all-topics --to-earliest --execute --dry-run'],
  ...WAYS.flatMap((way): Step[] => [
    [`--reset-offsets --group g-simple --topic orders --execute ${way}`],
    [`--describe --group g-simple --offsets --timeout ${30_000 + WAYS.indexOf(way)}`],
  ]),
  ['--reset-offsets --group g-consumer-empty --topic orders:1 --to-offset 3 --execute'],
  ['--describe --group g-consumer-empty --offsets --timeout 29000'],
  ['--reset-offsets --group new-by-reset --topic orders --to-latest --execute'],
  ['--describe --group new-by-reset --offsets --state'],
  ['--describe --group new-by-reset --offsets'],
  ['--list --state --timeout 29000'],
];
const DELETE: readonly Step[] = [
  ['--delete-offsets --group g-simple --topic orders:0'],
  ['--delete-offsets --group g-simple --topic orders:0 --timeout 29000'],
  ['--delete-offsets --group g-simple --topic nowhere'],
  ['--delete-offsets --group g-simple --topic orders:9'],
  ['--delete-offsets --group g-simple --topic audit --topic orders:1'],
  ['--delete-offsets --group g-classic --topic orders'],
  ['--delete-offsets --group g-classic --topic audit'],
  ['--delete-offsets --group g-consumer --topic orders'],
  ['--delete-offsets --group g-consumer-empty --topic orders'],
  ['--delete-offsets --group nobody --topic orders'],
  ['--delete-offsets --group g-simple'],
  ['--describe --all-groups --timeout 28000'],
  ['--delete --group nobody'],
  ['--delete --group g-classic'],
  ['--delete --group g-consumer'],
  ['--delete --group g-simple --group nobody --group g-classic'],
  ['--delete --group g-consumer-empty'],
  ['--list --state --timeout 28000'],
  ['--delete --all-groups'],
  ['--delete --group g-simple --topic orders'],
  ['--list --state --type --timeout 27000'],
];
const REGEX: readonly Step[] = [
  ['--validate-regex a.*b'],
  ['--validate-regex [a'],
  ['--validate-regex (?!a)b'],
];
const GROUPS: readonly Step[] = [
  ['--list'],
  ['--list --consumer'],
  ['--list --share'],
  ['--list --streams'],
  ...each('--list --group-type', ['classic', 'consumer', 'share', 'streams', 'bogus']),
  ...each('--list --protocol', ['consumer', 'connect', '""']),
  ['--list --group-type classic --protocol consumer'],
];

const TOOLS: readonly (readonly [title: string, ToolName, readonly Step[]])[] = [
  ['kafka-groups', 'groups', GROUPS],
  ['kafka-consumer-groups --list', 'consumer-groups', LIST],
  ['kafka-consumer-groups --describe', 'consumer-groups', DESCRIBE],
  ['kafka-consumer-groups --reset-offsets', 'consumer-groups', RESET],
  ['kafka-consumer-groups --delete', 'consumer-groups', DELETE],
  ['kafka-consumer-groups --validate-regex', 'consumer-groups', REGEX],
];

describe.each(TOOLS)('%s', (_, tool, steps) => {
  it.each(steps.map(([args, ...except]) => [args, except] as const))('%s', async (args, except) => {
    const words = args
      .split(' ')
      .filter((word) => word !== '')
      .map((word) => (word === '""' ? '' : word));
    const { kafka, ours } = await peers.compare(tool, words, { sorted: true, except, normalise });
    expect(ours).toBe(kafka);
  });
});

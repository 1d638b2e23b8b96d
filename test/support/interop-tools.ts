/** Runs before the interop suite: says which tool is missing, and fails all of it then. Clients are missed by their own tests
 * only. */
import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { CLI } from './broker-process.ts';
import { KAFKA, PROTOCOL } from './kafka-peer.ts';

/** A Python with confluent-kafka. */
export const PYTHON = process.env.BROADSHEET_PYTHON ?? 'python3';

const TOOLS: readonly [command: string, args: readonly string[], remedy: string][] = [
  ['kcat', ['-V'], 'install it (Debian: apt-get install kcat)'],
  ['tar', ['--version'], 'install GNU tar'],
  ['java', ['-version'], 'install Java 17 or newer'],
  ['mvn', ['--version'], 'install Maven'],
  [KAFKA, ['tools'], 'BROADSHEET_KAFKA must name the command that installs and runs Apache Kafka'],
  [
    PYTHON,
    ['-c', 'import confluent_kafka'],
    'BROADSHEET_PYTHON must name a Python 3 that has confluent-kafka (pip install confluent-kafka)',
  ],
];

export default function setup(): void {
  const missing = TOOLS.flatMap(([command, args, remedy]) => {
    try {
      execFileSync(command, args, { stdio: 'pipe' });
      return [];
    } catch (error) {
      return [`${command}: ${remedy} (${(error as Error).message.split('\n')[0]})`];
    }
  });
  if (!existsSync(`${PROTOCOL}/datadir/expected.json`)) {
    missing.push(
      `${PROTOCOL}: BROADSHEET_PROTOCOL must name the folder with Kafka's directories and vectors`,
    );
  }
  if (!existsSync(CLI)) missing.push(`${CLI}: npm run build makes it`);
  if (missing.length > 0) throw new Error(`The interop suite needs what is not here.\n${missing.join('\n')}`);
}

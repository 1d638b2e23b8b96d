/** kafka-dump-log over whole directories. */
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { outputs } from './command.ts';
import { KAFKA } from './kafka-peer.ts';

/** How many files go to one run. */
const FILES = 200;
const FAULT = /Mismatch|mismatch|corrupt|[Ii]nvalid|isvalid: false|Exception|not found|out of order/;
/** Printed, under the heading "Non-consecutive offsets", for any segment that does not begin at 0, also for Kafka's own. */
const HARMLESS = / -1 is followed by /;

/** All files of the partitions in a directory that end so. */
export function partitionFiles(dataDir: string, ...suffixes: string[]): string[] {
  return readdirSync(dataDir)
    .filter((folder) => /-\d+$/.test(folder))
    .flatMap((folder) => readdirSync(join(dataDir, folder)).map((name) => join(dataDir, folder, name)))
    .filter((path) => suffixes.some((suffix) => path.endsWith(suffix)))
    .sort();
}

async function dump(
  files: readonly string[],
  onLine: (line: string) => void,
  ...flags: string[]
): Promise<void> {
  for (let at = 0; at < files.length; at += FILES) {
    let rest = '';
    const { stderr } = await outputs(
      KAFKA,
      ['tool', 'dump-log', ...flags, '--files', files.slice(at, at + FILES).join(',')],
      {
        onOutput: (chunk) => {
          const lines = (rest + chunk.toString('latin1')).split('\n');
          rest = lines.pop() ?? '';
          for (const line of lines) onLine(line);
        },
      },
    );
    for (const line of [rest, ...stderr.split('\n')]) onLine(line);
  }
}

/**
 * Everything that kafka-dump-log has to say against the segments and indexes of the directory, and what it should have
 * said and did not.
 */
export async function dumpLogFaults(dataDir: string): Promise<string[]> {
  const logs = partitionFiles(dataDir, '.log');
  const indexes = partitionFiles(dataDir, '.index', '.timeindex');
  const faults: string[] = [];
  let previous = '';
  let dumped = 0;
  const judge = (line: string) => {
    if (line.startsWith('Dumping ')) dumped++;
    if (FAULT.test(line) && !HARMLESS.test(line)) faults.push(line);
    // A list of faults: a heading that names the file, then indented lines.
    else if (/^ {2}\S/.test(line) && !HARMLESS.test(line)) faults.push(`${previous} ${line}`);
    previous = line;
  };
  // The tool may end at a fault.
  const failed = (error: Error) => faults.push(error.message);
  await dump(logs, judge, '--deep-iteration').catch(failed);
  await dump(indexes, judge, '--verify-index-only').catch(failed);
  if (dumped !== logs.length + indexes.length) {
    faults.push(`${dumped} of ${logs.length + indexes.length} files were dumped`);
  }
  const passed = new Set<string>();
  const onLine = (line: string) => {
    // An empty index has nothing to check: a short log has no entry.
    const verdict = / (passed sanity check|is empty)\.$/.exec(line);
    if (verdict !== null) passed.add(line.slice(0, verdict.index));
    else if (FAULT.test(line)) faults.push(line);
  };
  await dump(indexes, onLine, '--index-sanity-check').catch(failed);
  for (const index of indexes) if (!passed.has(index)) faults.push(`${index} did not pass its sanity check`);
  return faults;
}

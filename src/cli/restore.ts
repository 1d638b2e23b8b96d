/** `broadsheet restore`: a data directory from a backup, which stays as it is. */
import { resolve } from 'node:path';
import type { Command } from 'commander';
import { copyDirectory } from '../log/backup.ts';
import { BroadsheetError } from '../runtime/errors.ts';
import { interrupted, isDataDirectory, tell } from './backup.ts';
import { checkDirectory, lockDirectory } from './check.ts';
import { endWithReader } from './output.ts';

interface RestoreOptions {
  readonly check?: boolean;
  readonly json?: boolean;
}

async function restore(given: string, to: string, options: RestoreOptions): Promise<void> {
  endWithReader();
  const [dir, target] = [resolve(given), resolve(to)];
  if (!(await isDataDirectory(dir))) {
    const what = 'has no meta.properties: it is no backup, or one that was cut short';
    throw new BroadsheetError('NOT_FOUND', `${dir} ${what}`);
  }
  const signals = [interrupted()];
  const release = await lockDirectory(dir);
  const report = await copyDirectory(dir, target, { signals, link: false }).finally(release);
  const isChecked = options.check ?? true;
  // One document, that of the check, which counts the same.
  if (!isChecked || !options.json) await tell(report, target, options);
  if (isChecked) await checkDirectory(target, { json: options.json });
}

export function define(command: Command): void {
  command
    .argument('<backup>', 'what `broadsheet backup` made; it is left as it is')
    .argument('<dir>', 'a folder that does not exist or is empty')
    .option('--no-check', 'do not look for damage afterwards')
    .option('--json', 'print JSON')
    .action(restore);
}

/** `broadsheet backup`: a copy of a data directory, whether a broker uses it or not. */
import { access } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import type { Command } from 'commander';
import { holdRemotely } from '../broker/control-socket.ts';
import { copyCut, copyDirectory } from '../log/backup.ts';
import type { CopyReport } from '../log/copy-report.ts';
import type { CopyOptions } from '../log/directory-copy.ts';
import { BroadsheetError } from '../runtime/errors.ts';
import { lockDirectory } from './check.ts';
import { bytesText, counted, endWithReader, print, printJson } from './output.ts';

interface BackupOptions {
  readonly link?: boolean;
  readonly json?: boolean;
}

export async function isDataDirectory(dir: string): Promise<boolean> {
  return access(join(dir, 'meta.properties')).then(
    () => true,
    () => false,
  );
}

/** Ends by Ctrl-C and SIGTERM, with what was made removed. */
export function interrupted(): AbortSignal {
  const controller = new AbortController();
  const stop = (signal: NodeJS.Signals) =>
    controller.abort(new BroadsheetError('CLOSED', `${signal}: what was made is removed`));
  process.once('SIGINT', stop).once('SIGTERM', stop);
  return controller.signal;
}

export async function tell(report: CopyReport, what: string, options: { json?: boolean }): Promise<void> {
  if (options.json) return printJson(report);
  const { partitions, linkedFiles, linkedBytes, copiedFiles, copiedBytes } = report;
  const linked =
    linkedFiles === 0 ? '' : `, ${counted(linkedFiles, 'file')} linked (${bytesText(linkedBytes)})`;
  await print(
    `${what}: ${counted(partitions, 'partition')}${linked}, ${counted(copiedFiles, 'file')} copied (${bytesText(copiedBytes)})\n`,
  );
}

async function backup(given: string, to: string, options: BackupOptions): Promise<void> {
  endWithReader();
  const [dir, target] = [resolve(given), resolve(to)];
  if (!(await isDataDirectory(dir))) throw new BroadsheetError('NOT_FOUND', `${dir} is no data directory`);
  const signals = [interrupted()];
  const link = options.link ?? true;
  const release = await lockDirectory(dir).catch((error: unknown) => {
    if (error instanceof BroadsheetError && error.code === 'LOCKED') return undefined;
    throw error;
  });
  const report =
    release === undefined
      ? await backupLive(dir, target, { signals, link })
      : await copyDirectory(dir, target, { signals, link }).finally(release);
  await tell(report, target, options);
}

/** The broker says what to take, and this process takes it. */
async function backupLive(
  dir: string,
  target: string,
  options: CopyOptions & { signals: readonly AbortSignal[] },
): Promise<CopyReport> {
  const { cut, signal, release } = await holdRemotely(dir).catch((error: unknown) => {
    if (!(error instanceof BroadsheetError) || error.code !== 'UNSUPPORTED') throw error;
    throw new BroadsheetError(
      'LOCKED',
      `${dir} is used by a broker that serves no backups (${error.message}): stop that broker first`,
    );
  });
  try {
    return await copyCut(cut, target, { ...options, signals: [signal, ...options.signals] });
  } finally {
    release();
  }
}

export function define(command: Command): void {
  command
    .argument('<dir>', 'the data directory; a broker may be using it')
    .argument('<target>', 'a folder that does not exist or is empty')
    .option('--no-link', 'copy everything: no hard links')
    .option('--json', 'print JSON')
    .action(backup);
}

/** How a command ends when something went wrong: 1 failed, 2 was called wrongly. */
import { CommanderError } from 'commander';
import { BroadsheetError } from '../runtime/errors.ts';

export const FAILED = 1;
export const USAGE = 2;

/** Ends the process: one clear line for what a user can mend, a stack for what only we can. */
export function exitWith(error: unknown): never {
  // Commander has printed its own.
  if (error instanceof CommanderError) process.exit(error.exitCode === 0 ? 0 : USAGE);
  const known = error instanceof BroadsheetError;
  const text = known ? error.message : ((error as Error).stack ?? String(error));
  process.stderr.write(`broadsheet: ${text}\n`);
  process.exit(known && error.code === 'INVALID_ARGUMENT' ? USAGE : FAILED);
}

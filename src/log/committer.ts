/** One engine writes for many owners: each hears of its own logs, whoever asked for the commit. */
import type { BroadsheetError } from '../runtime/errors.ts';
import type { Log, LogEngine } from './log.ts';

export type CommitDone = (log: Log, error: BroadsheetError | undefined) => void;

export class LogCommitter {
  readonly #engine: LogEngine;
  readonly #owners = new Map<Log, CommitDone>();

  constructor(engine: LogEngine) {
    this.#engine = engine;
  }

  /** From now on `done` hears of every commit of the log. */
  register(log: Log, done: CommitDone): void {
    this.#owners.set(log, done);
  }

  unregister(log: Log): void {
    this.#owners.delete(log);
  }

  /** Writes what is staged on every log. Logs that nobody registered go to `done`. */
  readonly commit = (done?: CommitDone): void => {
    this.#engine.commit((log, error) => {
      const owner = this.#owners.get(log);
      if (owner !== undefined) owner(log, error);
      else done?.(log, error);
    });
  };
}

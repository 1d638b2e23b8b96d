/**
 * `engine=js`: logs over node:fs, for where the addon does not load. Its files are those of the native engine, byte for
 * byte, and so are its answers; where it does less is in docs/DIFFERENCES.md, "Engines".
 */
import type { BroadsheetError } from '../runtime/errors.ts';
import { descriptors } from './js-descriptors.ts';
import type { JsFile } from './js-file.ts';
import { JsFiles } from './js-files.ts';
import { jsInspector } from './js-inspector.ts';
import { JsLog, type LogHost } from './js-log.ts';
import { openLog } from './js-recovery.ts';
import type { Files, Log, LogEngine, OpenOptions } from './log.ts';

export class JsEngine implements LogEngine, LogHost {
  readonly name = 'js';
  readonly inspector = jsInspector;
  readonly files: Files = new JsFiles();
  readonly #open = new Set<JsLog>();
  #staged: JsLog[] = [];
  /** Files of ranges that were read in this turn of the loop. */
  readonly #kept = new Set<JsFile>();

  async open(dir: string, options: OpenOptions): Promise<Log> {
    const log = new JsLog(this, await openLog(dir, options), options);
    this.#open.add(log);
    return log;
  }

  commit(done: (log: Log, error: BroadsheetError | undefined) => void): void {
    if (this.#staged.length === 0) return;
    const logs = this.#staged;
    this.#staged = [];
    // All are written before anyone hears of it: a listener may stage again.
    const errors = logs.map((log) => log.commit());
    for (const [i, log] of logs.entries()) done(log, errors[i]);
  }

  async flushAll(logs: readonly Log[]): Promise<void> {
    const results = await Promise.allSettled(logs.map((log) => log.flush()));
    const failed = results.find((result) => result.status === 'rejected');
    if (failed !== undefined) throw failed.reason;
  }

  async close(): Promise<void> {
    await Promise.all([...this.#open].map((log) => log.close()));
  }

  staged(log: JsLog): void {
    this.#staged.push(log);
  }

  closed(log: JsLog): void {
    this.#open.delete(log);
    this.#staged = this.#staged.filter((other) => other !== log);
  }

  keep(file: JsFile): boolean {
    if (this.#kept.has(file)) return true;
    if (this.#kept.size >= Math.floor(descriptors.limit / 2)) return false;
    if (this.#kept.size === 0) setImmediate(() => this.#endTurn());
    this.#kept.add(file.retain());
    return true;
  }

  #endTurn(): void {
    for (const file of this.#kept) file.release();
    this.#kept.clear();
  }
}

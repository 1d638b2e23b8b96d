/** Has a thread clean segments (cleaner-worker.ts): it is made for the first job, and does not keep the process alive. */
import { extname } from 'node:path';
import { Worker } from 'node:worker_threads';
import { BroadsheetError } from '../runtime/errors.ts';
import type { CleanJob, CleanResult } from './cleaner-pass.ts';
import type { FromCleaner } from './cleaner-worker.ts';

export interface SegmentCleaner {
  /** One job at a time. */
  clean(job: CleanJob): Promise<CleanResult>;
  /** Gives up what runs, which then fails with CLOSED. */
  close(): Promise<void>;
}

export class CleanerThread implements SegmentCleaner {
  #worker: Worker | undefined;
  #answer: ((answer: FromCleaner) => void) | undefined;

  async clean(job: CleanJob): Promise<CleanResult> {
    const answer = await new Promise<FromCleaner>((resolve) => {
      this.#answer = resolve;
      this.#thread().postMessage(job);
    });
    if (answer.ok) return answer.result;
    throw new BroadsheetError(answer.code, answer.message);
  }

  #thread(): Worker {
    if (this.#worker !== undefined) return this.#worker;
    // The source beside this file, or what was built of it.
    const file = new URL(`./cleaner-worker${extname(import.meta.url)}`, import.meta.url);
    const worker = new Worker(file, { name: 'broadsheet-cleaner' });
    this.#worker = worker;
    worker.unref();
    worker.on('message', (answer: FromCleaner) => this.#answered(answer));
    worker.on('error', (error) => {
      this.#worker = undefined;
      this.#answered({ ok: false, code: 'IO', message: `the cleaner's thread failed: ${error.message}` });
    });
    return worker;
  }

  #answered(answer: FromCleaner): void {
    const heard = this.#answer;
    this.#answer = undefined;
    heard?.(answer);
  }

  async close(): Promise<void> {
    const worker = this.#worker;
    this.#worker = undefined;
    await worker?.terminate();
    this.#answered({ ok: false, code: 'CLOSED', message: 'the cleaner is closed' });
  }
}

/** The thread that cleans logs: see log-cleaner.ts. One job at a time. */
import { parentPort } from 'node:worker_threads';
import { BroadsheetError } from '../runtime/errors.ts';
import { type CleanJob, type CleanResult, cleanSegments } from './cleaner-pass.ts';
import { throttleTo } from './cleaner-throttle.ts';

export type FromCleaner =
  | { readonly ok: true; readonly result: CleanResult }
  | { readonly ok: false; readonly code: BroadsheetError['code']; readonly message: string };

const port = parentPort!;
const sleeping = new Int32Array(new SharedArrayBuffer(4));
/** In this thread nobody else waits for it. */
const sleep = (ms: number) => void Atomics.wait(sleeping, 0, 0, ms);

async function clean(job: CleanJob): Promise<FromCleaner> {
  try {
    const throttle = throttleTo(job.bytesPerSecond, () => performance.now(), sleep);
    return { ok: true, result: await cleanSegments(job, throttle) };
  } catch (error) {
    const code = error instanceof BroadsheetError ? error.code : 'IO';
    return { ok: false, code, message: (error as Error).message };
  }
}

port.on('message', (job: CleanJob) => {
  void clean(job).then((answer) => port.postMessage(answer));
});

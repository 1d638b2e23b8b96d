/** The thread that cleans logs: see log-cleaner.ts. One job at a time. */
import { parentPort } from 'node:worker_threads';
import { BroadsheetError } from '../runtime/errors.ts';
import { type CleanJob, type CleanResult, cleanSegments, type Throttle } from './cleaner-pass.ts';

export type FromCleaner =
  | { readonly ok: true; readonly result: CleanResult }
  | { readonly ok: false; readonly code: BroadsheetError['code']; readonly message: string };

const port = parentPort!;
const sleep = new Int32Array(new SharedArrayBuffer(4));

/** Keeps the average since the job began at the rate: who is ahead sleeps, which in this thread nobody else waits for. */
function throttleTo(bytesPerSecond: number): Throttle {
  if (bytesPerSecond >= Number.MAX_SAFE_INTEGER) return () => {};
  const begun = performance.now();
  let moved = 0;
  return (bytes) => {
    moved += bytes;
    const ahead = (moved / bytesPerSecond) * 1000 - (performance.now() - begun);
    if (ahead > 1) Atomics.wait(sleep, 0, 0, ahead);
  };
}

async function clean(job: CleanJob): Promise<FromCleaner> {
  try {
    return { ok: true, result: await cleanSegments(job, throttleTo(job.bytesPerSecond)) };
  } catch (error) {
    const code = error instanceof BroadsheetError ? error.code : 'IO';
    return { ok: false, code, message: (error as Error).message };
  }
}

port.on('message', (job: CleanJob) => {
  void clean(job).then((answer) => port.postMessage(answer));
});

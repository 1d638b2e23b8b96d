/**
 * What a failed flush leaves for the next start. The kernel tells of a page that it could not write once; from then on the page
 * cache shows records that no disk has, and the next fsync succeeds without them. So the partition says in a file how far it was
 * on disk, and the next start cuts it there before anything reads it.
 */
import { BroadsheetError } from '../runtime/errors.ts';
import type { Logger } from '../runtime/logging.ts';
import { parseCheckpoint } from './checkpoints.ts';
import type { StoredBatch } from './js-batch.ts';
import type { JsFile } from './js-file.ts';
import type { Files, Log } from './log.ts';
import { offsetOfFileName, SEGMENT_SUFFIXES, segmentFileName } from './segment-names.ts';

/** In the form of Kafka's checkpoints, two lines: the offset, and the end of the log; each once more, so that a flipped byte is
 * noticed. */
export const FAILED_FLUSH_FILE = 'failed-flush-checkpoint';

/** Writes the file if a flush of the log failed. Rejects with IO, NO_SPACE ... */
export async function noteFailedFlush(files: Files, log: Log): Promise<void> {
  const offset = log.failedFlushAt;
  const end = log.writtenOffset;
  if (offset === undefined || offset >= end) return;
  await files.writeAtomic(`${log.dir}/${FAILED_FLUSH_FILE}`, `0\n2\n${offset} ${offset}\n${end} ${end}\n`);
}

/** To be called once the log is open. */
export async function forgetFailedFlush(files: Files, dir: string): Promise<void> {
  await files.remove(`${dir}/${FAILED_FLUSH_FILE}`);
}

/** Cuts as cutFailedFlush does; where the file is damaged nothing is cut, and it is removed. */
export async function cutWhereSynced(
  files: Files,
  dir: string,
  logger: Logger,
): ReturnType<typeof cutFailedFlush> {
  try {
    const failed = await cutFailedFlush(files, dir);
    if (failed !== undefined)
      logger.warn({ dir, ...failed }, 'a flush failed before this start: what came behind it was cut off');
    return failed;
  } catch (error) {
    const { code, message } = error as BroadsheetError;
    if (!['CORRUPT', 'LIMIT'].includes(code)) throw error;
    // Records that may be lost by a power cut are better than records that are cut by a wrong number.
    logger.warn(
      { dir, reason: message },
      'a flush failed before this start, where is not known: nothing is cut',
    );
    await forgetFailedFlush(files, dir);
    return undefined;
  }
}

/**
 * Cuts the closed log of a folder where its failed flush says. Gives that offset, and how many bytes went; undefined when no
 * flush had failed, and where the log has grown since, which another broker (Apache Kafka) has recovered then and answers for.
 * Durable when resolved; may be done again after a kill. Rejects with IO, and CORRUPT, before anything was
 * cut, when the file is damaged.
 */
export async function cutFailedFlush(
  files: Files,
  dir: string,
): Promise<{ readonly offset: number; readonly bytesCut: number } | undefined> {
  const path = `${dir}/${FAILED_FLUSH_FILE}`;
  if (!(await files.exists(path))) return undefined;
  const lines = parseCheckpoint((await files.read(path, 1024)).toString('latin1'), 2);
  // Notes of earlier versions have no end.
  const [offset, end] = lines.map(([first]) => first!);
  if (offset === undefined || lines.length > 2 || lines.some(([first, again]) => first !== again))
    throw new BroadsheetError('CORRUPT', `${path} does not have each offset twice`);
  const sizes = new Map<number, number>();
  for (const { name, size } of await files.list(dir)) {
    const base = offsetOfFileName(name);
    if (base !== undefined && name === segmentFileName(base, '.log')) sizes.set(base, size);
  }
  const bases = [...sizes.keys()].sort((a, b) => a - b);
  const newest = bases.at(-1);
  if (newest !== undefined && end !== undefined && (await endOf(dir, newest, sizes.get(newest)!)) > end)
    return undefined;
  const last = bases.findLastIndex((base) => base <= offset);
  let bytesCut = 0;
  // The newest first: a kill leaves a log without a gap.
  for (const base of bases.slice(Math.max(last, 0) + 1).reverse()) {
    for (const suffix of SEGMENT_SUFFIXES) await files.remove(`${dir}/${segmentFileName(base, suffix)}`);
    bytesCut += sizes.get(base)!;
  }
  const base = bases[Math.max(last, 0)];
  if (base === undefined) return { offset, bytesCut };
  const size = sizes.get(base)!;
  return { offset, bytesCut: bytesCut + (await cutSegment(dir, base, size, offset)) };
}

/** Visits the batches of a segment file in their order, until told to stop or the first one that does not check out. */
async function walk(
  dir: string,
  base: number,
  size: number,
  mode: 'read' | 'read-write',
  visit: (batch: StoredBatch, file: JsFile) => Promise<boolean> | boolean,
): Promise<void> {
  // Loaded when they are needed, which is hardly ever.
  const [{ BatchWalker }, { withFile }] = await Promise.all([
    import('./js-batch.ts'),
    import('./js-file.ts'),
  ]);
  await withFile(`${dir}/${segmentFileName(base, '.log')}`, mode, async (file) => {
    const walker = new BatchWalker(file, base, 0, size);
    try {
      do {
        for (let batch = walker.take(); batch !== undefined; batch = walker.take())
          if (!(await visit(batch, file))) return;
      } while (await walker.fill());
    } catch (error) {
      // Recovery comes by here too, and says what is wrong.
      if (!(error instanceof BroadsheetError) || error.code !== 'CORRUPT') throw error;
    }
  });
}

/** The offset behind the last batch of a segment. */
async function endOf(dir: string, base: number, size: number): Promise<number> {
  let end = base;
  await walk(dir, base, size, 'read', ({ lastOffset }) => {
    end = lastOffset + 1;
    return true;
  });
  return end;
}

/** Gives the bytes that went. */
async function cutSegment(dir: string, base: number, size: number, offset: number): Promise<number> {
  let bytesCut = 0;
  await walk(dir, base, size, 'read-write', async ({ lastOffset, position }, file) => {
    if (lastOffset < offset) return true;
    await file.truncate(position);
    await file.fsync();
    bytesCut = size - position;
    return false;
  });
  return bytesCut;
}

/**
 * Backups. A running broker says what its directory holds at one moment, between two turns of its loop, so that partitions,
 * groups, transactions and metadata fit together: a backup is what a kill at that moment would have left. While the files are
 * taken nothing is removed (SegmentHold); they may be taken by another process. A directory that no broker uses is taken as it is.
 *
 * Segments that are closed and below the recovery point on disk are hard links: nobody writes into them any more, neither the
 * broker nor the recovery of a start, on either side. All else is copied, indexes too, since they may be made again in place.
 */
import { BroadsheetError } from '../runtime/errors.ts';
import { HIGH_WATERMARK_FILE, LOG_START_FILE, OffsetCheckpoint, RECOVERY_POINT_FILE } from './checkpoints.ts';
import { forEachConcurrently } from './concurrency.ts';
import type { CopyReport } from './copy-report.ts';
import { type CopyOptions, DirectoryCopy } from './directory-copy.ts';
import { indexBytesBelow } from './index-file.ts';
import { listFolder } from './js-file.ts';
import { JsFiles } from './js-files.ts';
import { type DirectoryCut, type LogCut, readRecoveryPoints } from './log-cut.ts';
import { readTopicId } from './partition-loader.ts';
import { parsePartitionFolder, partitionFolder, suffixOf } from './partition-names.ts';
import { offsetOfFileName, SEGMENT_SUFFIXES, segmentBases, segmentFileName } from './segment-names.ts';
import { hasTransactionIndex } from './txn-index.ts';

/**
 * Takes what a broker said, which holds its segments meanwhile, to `target` (absolute). Rejects with INVALID_ARGUMENT (the target
 * is not empty, or lies in the directory), NO_SPACE, IO, CORRUPT, or the signal's reason; the target is left as it was then.
 */
export function copyCut(cut: DirectoryCut, target: string, options: CopyOptions = {}): Promise<CopyReport> {
  const { dataDir, metadata, partitions } = cut;
  return DirectoryCopy.make(dataDir, target, options, async (copy) => {
    const files = new JsFiles();
    const recoveryPoints = OffsetCheckpoint.parse(cut.recoveryPoints);
    const points = new OffsetCheckpoint();
    const starts = new OffsetCheckpoint();
    const watermarks = new OffsetCheckpoint();
    await forEachConcurrently(partitions, async (log) => {
      const { topic, topicId, index, bases, endOffset, logStartOffset, highWatermark } = log;
      const known = recoveryPoints.of(topic, topicId, index);
      // The backup vouches for its points: one that nothing vouches for is none.
      const recoveryPoint = known.checked ? Math.min(known.offset, endOffset) : 0;
      await copyLog(copy, dataDir, log, recoveryPoint);
      // The file of a segment that is written to may have been replaced since the cut: its entries are found again then.
      const last = bases[bases.length - 1] ?? 0;
      const isReplaced = await hasTransactionIndex(files, `${target}/${partitionFolder(topic, index)}`, last);
      points.set(topic, index, isReplaced ? Math.min(recoveryPoint, last) : recoveryPoint, topicId);
      watermarks.set(topic, index, highWatermark);
      if (logStartOffset > (bases[0] ?? 0)) starts.set(topic, index, logStartOffset, topicId);
    });
    // Nothing of it is linked: it is opened without a recovery point.
    await copyLog(copy, dataDir, metadata, 0);
    // It ends where the backup does, all of which will be on disk.
    const metadataEnd = new OffsetCheckpoint();
    metadataEnd.set(metadata.topic, metadata.index, metadata.endOffset, metadata.topicId);
    const folder = partitionFolder(metadata.topic, metadata.index);
    await copy.text(`${folder}/${RECOVERY_POINT_FILE}`, metadataEnd.text());
    await copy.text(RECOVERY_POINT_FILE, points.text());
    await copy.text(LOG_START_FILE, starts.text());
    await copy.text(HIGH_WATERMARK_FILE, watermarks.text());
  });
}

async function copyLog(copy: DirectoryCopy, dataDir: string, log: LogCut, linkBelow: number): Promise<void> {
  const { topic, index } = log;
  const name = partitionFolder(topic, index);
  const from = await folderOf(dataDir, log);
  try {
    await copy.partition(name, () => copyFiles(copy, from, name, log, linkBelow));
  } catch (error) {
    if (!isMissing(error)) throw error;
    // Its topic was deleted meanwhile: the folder has another name, and waits with it.
    const now = await folderOf(dataDir, log);
    if (now === from) throw error;
    await copy.forget(name);
    await copy.partition(name, () => copyFiles(copy, now, name, log, linkBelow));
  }
}

const isMissing = (error: unknown) => error instanceof BroadsheetError && error.code === 'NOT_FOUND';

/** Under its own name, or that of a deleted topic. */
async function folderOf(dataDir: string, { topic, index, topicId }: LogCut): Promise<string> {
  const files = new JsFiles();
  const own = `${dataDir}/${partitionFolder(topic, index)}`;
  if ((await readTopicId(files, own)) === topicId) return own;
  for (const { name } of await listFolder(dataDir)) {
    if (suffixOf(name) !== 'delete' || !name.includes(`-${index}.`)) continue;
    if ((await readTopicId(files, `${dataDir}/${name}`)) === topicId) return `${dataDir}/${name}`;
  }
  throw new BroadsheetError('NOT_FOUND', `there is no ${own} of topic ${topicId}`);
}

async function copyFiles(
  copy: DirectoryCopy,
  from: string,
  to: string,
  log: LogCut,
  linkBelow: number,
): Promise<void> {
  const sizes = new Map((await listFolder(from)).map(({ name, size }) => [name, size]));
  const { bases, endOffset } = log;
  let left = log.sizeInBytes;
  for (const [i, base] of bases.entries()) {
    const name = segmentFileName(base, '.log');
    const next = bases[i + 1];
    const size = next === undefined ? left : sizes.get(name);
    if (size === undefined) throw new BroadsheetError('NOT_FOUND', `there is no ${from}/${name}`);
    left -= size;
    if (left < 0)
      throw new BroadsheetError('CORRUPT', `${from}: its segments are larger than its log by ${-left} bytes`);
    if (next !== undefined && next <= linkBelow)
      await copy.finished(`${from}/${name}`, `${to}/${name}`, size);
    else await copy.file(`${from}/${name}`, `${to}/${name}`, size);
    for (const suffix of SEGMENT_SUFFIXES) {
      const side = segmentFileName(base, suffix);
      if (side === name || !sizes.has(side)) continue;
      // The last one's indexes go on with its log.
      const known = (entries: Uint8Array) => indexBytesBelow(entries, suffix, base, endOffset);
      const bytes = next === undefined && suffix !== '.txnindex' ? known : undefined;
      await ifThere(copy.file(`${from}/${side}`, `${to}/${side}`, bytes));
    }
  }
  for (const name of sizes.keys()) {
    const offset = offsetOfFileName(name);
    const isSnapshot = offset !== undefined && name === segmentFileName(offset, '.snapshot');
    if (isSnapshot && offset <= endOffset) await ifThere(copy.file(`${from}/${name}`, `${to}/${name}`));
  }
  for (const name of log.files) {
    if (sizes.has(name)) await copy.file(`${from}/${name}`, `${to}/${name}`);
  }
}

/** What a start makes again where it is missing may go meanwhile. */
async function ifThere(copied: Promise<void>): Promise<void> {
  try {
    await copied;
  } catch (error) {
    if (!isMissing(error)) throw error;
  }
}

/**
 * Takes a directory that no broker uses, as it is: a backup of it, or the restore of a backup (with `link` false, so that the
 * backup stays untouched). Left out are deleted partitions and segments, and what was not finished. Rejects as copyCut does.
 */
export async function copyDirectory(
  dataDir: string,
  target: string,
  options: CopyOptions = {},
): Promise<CopyReport> {
  const text = await readRecoveryPoints(new JsFiles(), dataDir);
  return DirectoryCopy.make(dataDir, target, options, async (copy) => {
    const recoveryPoints = parsedOrNone(text);
    const entries = await listFolder(dataDir);
    await forEachConcurrently(entries, async ({ name, directory }) => {
      const partition = parsePartitionFolder(name);
      if (directory && partition !== undefined) {
        const { topic, index } = partition;
        const topicId = await readTopicId(new JsFiles(), `${dataDir}/${name}`);
        const { offset } = recoveryPoints.of(topic, topicId ?? '', index);
        await copy.partition(name, () => copyFolder(copy, dataDir, name, offset));
      } else if (!directory && isCheckpoint(name)) await copy.file(`${dataDir}/${name}`, name);
    });
  });
}

/** Of the files at a directory's root, meta.properties comes last, and locks and sockets are a broker's. */
const isCheckpoint = (name: string) => /-checkpoint(\.copy)?$/.test(name) || name === '.kafka_cleanshutdown';

function parsedOrNone(text: string): OffsetCheckpoint {
  try {
    return OffsetCheckpoint.parse(text);
  } catch {
    // A damaged one is copied as it is; links just need one that can be trusted.
    return new OffsetCheckpoint();
  }
}

async function copyFolder(
  copy: DirectoryCopy,
  dataDir: string,
  folder: string,
  linkBelow: number,
): Promise<void> {
  const entries = (await listFolder(`${dataDir}/${folder}`)).filter(({ directory }) => !directory);
  const bases = segmentBases(entries.map(({ name }) => name));
  for (const { name, size } of entries) {
    if (/\.(deleted|tmp)$/.test(name)) continue;
    const path = `${folder}/${name}`;
    const base = offsetOfFileName(name);
    const next = base === undefined ? undefined : bases.find((other) => other > base);
    const isClosed = name === segmentFileName(base ?? 0, '.log') && next !== undefined && next <= linkBelow;
    if (isClosed) await copy.finished(`${dataDir}/${path}`, path, size);
    else await copy.file(`${dataDir}/${path}`, path);
  }
}

/**
 * What `broadsheet check --repair` does about the faults that were found: the least that lets the next start make the rest again.
 * No log's end goes back, nor does its start: what vouches for them is obeyed, and never thrown away. What is replaced and can't be
 * made again stays beside it as `.quarantine`.
 */
import { readdir, readFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import {
  CLEANER_FILE,
  HIGH_WATERMARK_FILE,
  LEADER_EPOCH_FILE,
  LOG_START_FILE,
  OffsetCheckpoint,
  RECOVERY_POINT_FILE,
} from '../log/checkpoints.ts';
import { freeQuarantineName } from '../log/js-quarantine.ts';
import type { Files } from '../log/log.ts';
import { copyLogStarts, LOG_START_COPY_FILE } from '../log/log-starts.ts';
import { type Fault, type PartitionReport, segmentBaseOffset } from '../log/partition-check.ts';
import { parsePartitionFolder } from '../log/partition-names.ts';
import { decodeSnapshot, snapshotOffset } from '../log/producer-snapshot.ts';
import { segmentBases, segmentFileName } from '../log/segment-names.ts';
import { refill, repairSegment, rewriteEpochs } from '../log/segment-repair.ts';
import { encodeEntries, TRANSACTION_INDEX_CHECKPOINT } from '../log/txn-index.ts';
import { METADATA_FOLDER } from '../metadata/kraft-files.ts';
import {
  META_PROPERTIES_COPY_FILE,
  META_PROPERTIES_FILE,
  readMetaProperties,
} from '../metadata/meta-properties.ts';
import { repairMetadata } from '../metadata/metadata-repair.ts';
import { BroadsheetError } from '../runtime/errors.ts';
import { silentLogger } from '../runtime/logging.ts';

export interface RepairState {
  readonly files: Files;
  /** A data directory, or one partition's folder. */
  readonly dir: string;
  /** By the folder's name. */
  readonly partitions: ReadonlyMap<string, PartitionReport>;
  /** Those that parse, by file. */
  readonly checkpoints: ReadonlyMap<string, OffsetCheckpoint>;
  /** Where the log of a folder ended at least, by what is vouched for. */
  knownEnd(folder: string): number;
}

/** Gives what was done, a line for each file. */
export async function repair(state: RepairState, faults: readonly Fault[]): Promise<Fault[]> {
  const done: Fault[] = [];
  const files = [...new Set(faults.map((fault) => fault.file))];
  // What other files are beside the log's end is seen when it is where it was.
  const isLog = (file: string) => file.endsWith('.log');
  for (const file of [...files.filter(isLog), ...files.filter((each) => !isLog(each))]) {
    const what = await repairFile(state, file);
    if (what !== undefined) done.push({ file, what });
  }
  return done;
}

async function repairFile(state: RepairState, file: string): Promise<string | undefined> {
  const name = basename(file);
  if (/\.(index|timeindex)$/.test(name)) {
    await state.files.remove(join(state.dir, file));
    return 'is removed: the next start makes it again';
  }
  if (name.endsWith('.txnindex')) return repairTransactionIndex(state, file);
  if (name === LEADER_EPOCH_FILE || name === TRANSACTION_INDEX_CHECKPOINT)
    return setAside(state, file, 'the next start makes it again');
  if (name === META_PROPERTIES_FILE || name === META_PROPERTIES_COPY_FILE)
    return repairProperties(state, file);
  if (name === LOG_START_FILE || name === LOG_START_COPY_FILE) return repairLogStarts(state, file);
  if ([RECOVERY_POINT_FILE, HIGH_WATERMARK_FILE, CLEANER_FILE].includes(name))
    return repairOffsets(state, file);
  if (snapshotOffset(name) !== undefined) return repairSnapshot(state, file);
  const base = name.endsWith('.log') ? segmentBaseOffset(name) : undefined;
  const isMetadata = basename(dirname(join(state.dir, file))) === METADATA_FOLDER;
  return base === undefined ? undefined : repairLog(state, dirname(file), base, isMetadata);
}

async function setAside({ files, dir }: RepairState, file: string, then: string): Promise<string> {
  const kept = await keep(files, join(dir, file));
  await files.remove(join(dir, file));
  return `is set aside as ${kept}: ${then}`;
}

/** A copy that nobody reads. */
async function keep(files: Files, path: string): Promise<string> {
  const kept = await freeQuarantineName(dirname(path), basename(path), 0);
  await files.writeAtomic(join(dirname(path), kept), await readFile(path));
  return kept;
}

async function repairProperties(state: RepairState, file: string): Promise<string | undefined> {
  try {
    const found = await readMetaProperties(state.files, state.dir, silentLogger);
    if (found === undefined) return undefined;
    const kept = await keep(state.files, join(state.dir, file));
    await found.mend();
    return `is set aside as ${kept}, and written again from its other copy`;
  } catch (error) {
    // Both are damaged: nobody knows whose directory it is.
    if (!(error instanceof BroadsheetError) || !['CORRUPT', 'LIMIT'].includes(error.code)) throw error;
    return undefined;
  }
}

/** Lines that lie past the end of their log go, if nothing vouches for them. */
async function repairOffsets(state: RepairState, file: string): Promise<string> {
  const read = state.checkpoints.get(file);
  const left = new OffsetCheckpoint();
  for (const [folder, { endOffset, topicId, hasGaps }] of state.partitions) {
    const { topic, index } = parsePartitionFolder(folder)!;
    const known = read?.of(topic, topicId ?? '', index);
    const offset = read?.get(topic, index);
    if (known?.checked === true) left.set(topic, index, known.offset, topicId);
    else if (offset !== undefined && offset <= endOffset) left.set(topic, index, offset);
    // A start has to know what was compacted: in other logs a gap is damage.
    else if (hasGaps && file === CLEANER_FILE) left.set(topic, index, 0);
  }
  if (left.size === 0) return setAside(state, file, 'the next start makes it again');
  const kept = await keep(state.files, join(state.dir, file));
  await state.files.writeAtomic(join(state.dir, file), left.text());
  return `is set aside as ${kept}, and written again without what was wrong`;
}

/** Both files are made of what both say, so that no log start moves back: what nothing vouches for counts below the log's end. */
async function repairLogStarts(state: RepairState, file: string): Promise<string> {
  const [main, copy] = await Promise.all(
    [LOG_START_FILE, LOG_START_COPY_FILE].map((name) => readLines(state, name)),
  );
  const starts: { topic: string; topicId: string; index: number; offset: number }[] = [];
  const checkpoint = new OffsetCheckpoint();
  for (const [folder, { startOffset, endOffset, topicId }] of state.partitions) {
    const { topic, index } = parsePartitionFolder(folder)!;
    const found = [
      main!.of(topic, topicId ?? '', index),
      { offset: copy!.get(topicId ?? '', index) ?? 0, checked: copy!.checked },
    ];
    const isCounted = ({ offset, checked }: { offset: number; checked: boolean }) =>
      checked || offset <= endOffset;
    const offset = Math.max(0, ...found.filter(isCounted).map((each) => each.offset));
    if (offset <= startOffset) continue;
    checkpoint.set(topic, index, offset, topicId);
    if (topicId !== undefined) starts.push({ topic, topicId, index, offset });
  }
  const kept = await keep(state.files, join(state.dir, file));
  await copyLogStarts(state.files, state.dir, starts, false);
  await state.files.writeAtomic(join(state.dir, LOG_START_FILE), checkpoint.text());
  return `is set aside as ${kept}, and written again from ${LOG_START_FILE} and its copy`;
}

/** Also of a file that does not parse. */
async function readLines({ files, dir, checkpoints }: RepairState, name: string): Promise<OffsetCheckpoint> {
  const parsed = checkpoints.get(name);
  if (parsed !== undefined) return parsed;
  const path = join(dir, name);
  if (!(await files.exists(path))) return new OffsetCheckpoint();
  return OffsetCheckpoint.salvage((await files.read(path)).toString('latin1'));
}

/** An entry that is the last trace of a damaged marker stays. */
async function repairTransactionIndex(
  { files, dir, partitions }: RepairState,
  file: string,
): Promise<string> {
  const folder = basename(join(dir, dirname(file)));
  const entries = partitions.get(folder)?.aborted.get(basename(file)) ?? [];
  if (entries.length === 0) {
    await files.remove(join(dir, file));
    return 'is removed: no transaction of its segment was aborted';
  }
  await files.writeAtomic(join(dir, file), encodeEntries(entries));
  return 'is written again from the markers in the log';
}

/** One that is whole tells that the log reached it; one that is not is of no use. */
async function repairSnapshot(state: RepairState, file: string): Promise<string | undefined> {
  const folder = join(state.dir, dirname(file));
  const report = state.partitions.get(basename(folder));
  const last = report?.lastSegment === undefined ? undefined : segmentBaseOffset(report.lastSegment);
  if (!(await isWhole(join(state.dir, file)))) return setAside(state, file, 'the next start makes it again');
  if (last === undefined) return undefined;
  await repairLog(state, dirname(file), last, false);
  return 'is kept: the log goes on to it, by offsets that have no record';
}

async function isWhole(path: string): Promise<boolean> {
  try {
    decodeSnapshot(await readFile(path));
    return true;
  } catch (error) {
    if (!(error instanceof BroadsheetError)) throw error;
    return false;
  }
}

async function repairLog(
  state: RepairState,
  folderName: string,
  base: number,
  isMetadata: boolean,
): Promise<string | undefined> {
  const folder = join(state.dir, folderName);
  const names = await readdir(folder);
  const next = segmentBases(names).find((each) => each > base) ?? Number.POSITIVE_INFINITY;
  let end = state.knownEnd(basename(folder));
  for (const name of names) {
    const offset = snapshotOffset(name);
    if (offset !== undefined && offset > end && (await isWhole(join(folder, name)))) end = offset;
  }
  if (!names.includes(segmentFileName(base, '.log'))) {
    const offsets = await refill(state.files, folder, base, Number.isFinite(next) ? next : end);
    return offsets === 0 ? undefined : `is written again without records: ${offsets} offsets have none now`;
  }
  const name = segmentFileName(base, '.log');
  const report = state.partitions.get(basename(folder));
  // What no checksum covers costs no record: it is as the batches around it and the history say.
  const epochs = report?.epochs.get(name) ?? new Map<number, number>();
  if (epochs.size > 0) await rewriteEpochs(state.files, join(folder, name), epochs);
  const mend = isMetadata ? repairMetadata : repairSegment;
  // A segment that has to be mended is in memory.
  const onlyEpochs = !isMetadata && report?.damaged.has(name) === false && end <= report.endOffset;
  const repaired = onlyEpochs ? undefined : await mend(state.files, folder, base, next, { endOffset: end });
  const done: string[] = [];
  if (epochs.size > 0) done.push(`${epochs.size} leader epochs are written again`);
  if (repaired !== undefined && repaired.moved > 0)
    done.push(`${repaired.moved} altered offsets of batches are written again`);
  if (repaired !== undefined && repaired.bytes + repaired.offsets > 0)
    done.push(
      `${repaired.bytes} damaged bytes are moved to quarantine; ${repaired.offsets} offsets have no record now`,
    );
  return done.length === 0 ? undefined : done.join('; ');
}

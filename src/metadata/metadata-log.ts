/** Opens the metadata log beside its snapshots. */
import { dirname } from 'node:path';
import { PARTITION_METADATA_FILE } from '../log/checkpoints.ts';
import type { Files, Log, LogEngine } from '../log/log.ts';
import { parsePartitionFolder } from '../log/partition-names.ts';
import { segmentBases } from '../log/segment-names.ts';
import { BroadsheetError } from '../runtime/errors.ts';
import { METADATA_FOLDER, snapshotNames } from './kraft-files.ts';
import { type LoadedSnapshot, loadNewest } from './snapshot.ts';

export interface MetadataLogOptions {
  /** metadata.log.segment.bytes. */
  readonly segmentBytes: number;
  /** metadata.log.segment.ms. */
  readonly segmentMs: number;
}

export const DEFAULT_LOG_OPTIONS: MetadataLogOptions = {
  segmentBytes: 1024 * 1024 * 1024,
  segmentMs: 7 * 24 * 60 * 60 * 1000,
};
const SEGMENT_OR_SNAPSHOT = /^\d{20}[.-]/;
/** Kafka's defaults. */
const INDEX_OPTIONS = { indexBytes: 10 * 1024 * 1024, indexIntervalBytes: 4096 };

/** What is known of a log before it is opened. */
export interface LogFacts {
  /** Of the last leader; undefined: not known. */
  readonly latestLeaderEpoch: number | undefined;
  /** The log reached this offset, a batch's border; 0: not known. */
  readonly knownEnd: number;
  /** ms since the epoch. */
  readonly now: number;
}

export interface OpenedLog extends LoadedSnapshot {
  readonly log: Log;
}

/**
 * Reads the newest snapshot that is whole and opens the log; what no snapshot holds is recovered, however it was closed.
 * Throws CORRUPT when snapshot and log together do not hold everything; nothing was cut then.
 */
export async function openMetadataLog(
  engine: LogEngine,
  folder: string,
  names: readonly string[],
  options: MetadataLogOptions,
  facts: LogFacts,
): Promise<OpenedLog> {
  const [first] = segmentBases(names);
  const all = snapshotNames(names);
  // Below the log's start a snapshot is of no use.
  const usable = all.filter(({ endOffset }) => endOffset >= (first ?? 0));
  const loaded = await loadNewest(engine.files, folder, usable);
  const snapshotEnd = loaded.snapshot?.endOffset ?? 0;
  const fault = loaded.damaged[0]?.fault;
  // What a snapshot holds the log may lack.
  const knownEnd = facts.knownEnd > snapshotEnd ? facts.knownEnd : 0;
  const start = first ?? snapshotEnd;
  if (start > snapshotEnd) {
    throw (
      fault ??
      new BroadsheetError(
        'CORRUPT',
        `${folder}: the log begins at offset ${start} and no snapshot holds what came before`,
      )
    );
  }
  const { latestLeaderEpoch, now } = facts;
  const open = (logStartOffset: number) =>
    engine.open(folder, {
      ...options,
      ...INDEX_OPTIONS,
      logStartOffset,
      // A snapshot is made of what was flushed.
      recoveryPoint: snapshotEnd,
      cleanShutdown: false,
      dense: true,
      knownEnd,
      ...(latestLeaderEpoch === undefined ? {} : { latestLeaderEpoch }),
      now,
    });
  let log: Log;
  try {
    log = await open(start);
  } catch (error) {
    if (knownEnd === 0 || !(error instanceof BroadsheetError) || error.code !== 'CORRUPT') throw error;
    throw forgetful(folder, error.message);
  }
  // Without any segment it is a new one.
  if (log.logEndOffset < knownEnd) {
    await log.close();
    throw forgetful(folder, `${folder} has no segment, and its log is known to reach offset ${knownEnd}`);
  }
  const damagedEnd = loaded.damaged[0]?.name.endOffset ?? 0;
  if (fault !== undefined && log.logEndOffset < damagedEnd) {
    await log.close();
    throw fault;
  }
  if (log.logEndOffset >= snapshotEnd) return { ...loaded, log };
  // The snapshot holds all that the log does and more: the log goes on where it ends.
  await log.close();
  await removeLog(engine.files, folder);
  return { ...loaded, log: await open(snapshotEnd) };
}

/** A broker that forgets topics sets their folders aside: it is for whoever runs it to say that it may. */
function forgetful(folder: string, what: string): BroadsheetError {
  return new BroadsheetError(
    'CORRUPT',
    `${what}: topics or configs that were acknowledged would be forgotten. Restore a backup, or take the damage out: broadsheet check ${dirname(folder)} --repair`,
  );
}

async function removeLog(files: Files, folder: string): Promise<void> {
  for (const { name } of await files.list(folder)) {
    if (/^\d{20}\.(log|index|timeindex|snapshot|txnindex)$/.test(name))
      await files.remove(`${folder}/${name}`);
  }
}

/** A directory with partitions and no metadata log, or with logs and no meta.properties, is damaged, a backup that was cut short, or a
 * broker's whose controller is elsewhere. A new metadata log would disown its topics. */
export async function refuseOrphans(files: Files, dataDir: string): Promise<void> {
  if (!(await files.exists(dataDir))) return;
  const orphans: string[] = [];
  for (const { name, directory } of await files.list(dataDir)) {
    if (!directory || (name !== METADATA_FOLDER && parsePartitionFolder(name) === undefined)) continue;
    const entries = await files.list(`${dataDir}/${name}`);
    const isUsed = entries.some(
      (entry) =>
        (entry.name === PARTITION_METADATA_FILE && name !== METADATA_FOLDER) ||
        (entry.size > 0 && SEGMENT_OR_SNAPSHOT.test(entry.name)),
    );
    if (isUsed) orphans.push(name);
  }
  if (orphans.length === 0) return;
  throw new BroadsheetError(
    'CORRUPT',
    `${dataDir} holds ${orphans.length} partitions (${orphans[0]} ...) but no meta.properties or no ${METADATA_FOLDER}: it is damaged, a backup that was cut short, or belongs to a node whose controller is elsewhere`,
  );
}

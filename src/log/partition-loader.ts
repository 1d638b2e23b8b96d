/** Opens one partition folder: the log, then leader epochs and producer state, from their files or from the log. */
import type { TopicConfig } from '../config/topic-config.ts';
import type { BroadsheetError } from '../runtime/errors.ts';
import type { Logger } from '../runtime/logging.ts';
import {
  type CheckedOffset,
  LEADER_EPOCH_FILE,
  PARTITION_METADATA_FILE,
  parsePartitionMetadata,
} from './checkpoints.ts';
import { cutWhereSynced, FAILED_FLUSH_FILE, forgetFailedFlush } from './failed-flush.ts';
import { LeaderEpochs } from './leader-epochs.ts';
import type { Files, Log, LogEngine, OpenOptions } from './log.ts';
import type { LogStart } from './log-starts.ts';
import { logOptionsOf } from './partition.ts';
import { forEachBatch, loadProducerState, ProducerSnapshots } from './producer-snapshot.ts';
import { ProducerState } from './producer-state.ts';
import { segmentFileName } from './segment-names.ts';
import { TransactionIndex } from './txn-index.ts';

export interface LoadOptions {
  readonly config: TopicConfig;
  readonly logStart: LogStart;
  /** A checked one says that the log reached it, and that a batch begins there. */
  readonly recoveryPoint: CheckedOffset;
  /** Compaction may have taken offsets out, whatever cleanup.policy says now. */
  readonly wasCompacted: boolean;
  /** Of the partition, by the metadata: no batch is of a later one. */
  readonly leaderEpoch: number;
  readonly cleanShutdown: boolean;
  /** ms since the epoch. */
  readonly now: number;
  readonly producerExpirationMs: number;
}

export interface LoadedPartition {
  readonly log: Log;
  readonly epochs: LeaderEpochs;
  readonly producers: ProducerState;
  readonly aborted: TransactionIndex;
  readonly snapshots: ProducerSnapshots;
}

/** Rejects with what the engine rejects with; the log is closed then. */
export async function loadPartition(
  engine: LogEngine,
  dir: string,
  options: LoadOptions,
  logger: Logger,
): Promise<LoadedPartition> {
  const { config, logStart, now, cleanShutdown } = options;
  // After a clean stop no flush had failed.
  const failed = cleanShutdown ? undefined : await cutWhereSynced(engine.files, dir, logger);
  let recoveryPoint = Math.min(options.recoveryPoint.offset, failed?.offset ?? Number.POSITIVE_INFINITY);
  const open = async (knownEnd: number) => {
    const openOptions = {
      ...logOptionsOf(config),
      logStartOffset: logStart.checked ? logStart.offset : 0,
      recoveryPoint,
      cleanShutdown,
      dense: !options.wasCompacted && !config.cleanupPolicy.includes('compact'),
      knownEnd,
      latestLeaderEpoch: options.leaderEpoch,
      now,
    };
    const opened = await openOrRepair(engine, dir, openOptions, logStart, logger);
    const { bytesTruncated, fault } = opened.recovery;
    if (bytesTruncated > 0 || fault !== undefined)
      logger.warn({ dir, bytesTruncated, fault }, 'cut bytes that did not check out off the end of the log');
    return opened;
  };
  let log = await open(options.recoveryPoint.checked ? recoveryPoint : 0);
  try {
    if (!cleanShutdown && log.writtenOffset < recoveryPoint) {
      // Wrong, or what was on disk is not there any more: either way it vouches for nothing.
      logger.warn(
        { dir, recoveryPoint, end: log.writtenOffset },
        'the recovery point lies past the end: the whole log is checked',
      );
      await log.close();
      recoveryPoint = 0;
      log = await open(0);
    }
    if (!logStart.checked) applyUncheckedStart(log, logStart.offset, logger);
    // Where an acknowledgement means that it is on disk, that of a batch which is sent again after a crash does too.
    if (config.flushMessages <= 1 && log.flushedOffset < log.writtenOffset) await log.flush();
    const epochs = await loadEpochs(engine.files, log, { ...options, recoveryPoint }, logger);
    const snapshots = new ProducerSnapshots(engine.files, logger);
    const names = (await engine.files.list(dir)).map((entry) => entry.name);
    await snapshots.open(log, names);
    const aborted = new TransactionIndex();
    const trustedBelow = cleanShutdown ? Number.POSITIVE_INFINITY : recoveryPoint;
    const abortedFrom = await aborted.load(engine.files, log, names, trustedBelow, logger);
    const expirationMs = options.producerExpirationMs;
    const producers = await loadProducerState(log, snapshots, { now, expirationMs, aborted, abortedFrom });
    // Without its marker, which may be deleted next, a cleaning would let one go on through what its producer commits later.
    aborted.truncateFromStart(log.logStartOffset);
    // Also one that counts for nothing: a later start would cut what is appended from now on.
    if (names.includes(FAILED_FLUSH_FILE)) await forgetFailedFlush(engine.files, dir);
    return { log, epochs, producers, aborted, snapshots };
  } catch (error) {
    await log.close().catch(() => {});
    throw error;
  }
}

/** Damage below what is known to be on disk costs its records, not those behind it, nor are their offsets given to others. */
async function openOrRepair(
  engine: LogEngine,
  dir: string,
  options: OpenOptions & { readonly knownEnd: number },
  logStart: LogStart,
  logger: Logger,
): Promise<Log> {
  const { knownEnd } = options;
  let fault: string | undefined;
  try {
    const log = await engine.open(dir, options);
    const first = log.segmentBaseOffsets()[0]!;
    // Without any segment it begins anew.
    const lacksAll = log.logEndOffset < knownEnd;
    if (!lacksAll && (!logStart.exact || first <= logStart.offset)) return log;
    fault = `${segmentFileName(logStart.offset, '.log')} is missing`;
    await log.close();
  } catch (error) {
    const { code, message } = error as BroadsheetError;
    if (code !== 'CORRUPT' || knownEnd === 0) throw error;
    fault = message;
  }
  // Loaded when it is needed, which is hardly ever.
  const { repairEnd, repairStart } = await import('./segment-repair.ts');
  const repaired = [
    logStart.exact ? await repairStart(engine.files, dir, logStart.offset) : undefined,
    knownEnd > 0 ? await repairEnd(engine.files, dir, knownEnd) : undefined,
  ];
  const found = repaired.filter((each) => each !== undefined);
  if (found.length === 0) logger.warn({ dir, fault }, 'records that were on disk are missing');
  for (const each of found) {
    const what =
      each.bytes + each.offsets === 0
        ? 'offsets of batches were altered, and are written again'
        : 'records that were on disk are damaged or missing: their bytes went to quarantine, their offsets have no record now';
    logger.warn({ dir, fault, ...each }, what);
  }
  return engine.open(dir, { ...options, knownEnd: 0 });
}

/** Opens a folder that was made for a new partition and holds an empty segment at most: nothing else is looked for. */
export async function loadNewPartition(
  engine: LogEngine,
  dir: string,
  options: Pick<LoadOptions, 'config' | 'now'>,
  logger: Logger,
): Promise<LoadedPartition> {
  const log = await engine.open(dir, {
    ...logOptionsOf(options.config),
    logStartOffset: 0,
    recoveryPoint: 0,
    cleanShutdown: true,
    now: options.now,
  });
  const snapshots = new ProducerSnapshots(engine.files, logger);
  const aborted = new TransactionIndex();
  return { log, epochs: new LeaderEpochs(), producers: new ProducerState([]), aborted, snapshots };
}

/** One altered digit must not hide every record. */
function applyUncheckedStart(log: Log, offset: number, logger: Logger): void {
  if (offset <= log.writtenOffset) log.setLogStartOffset(Math.max(offset, log.logStartOffset));
  else
    logger.warn(
      { dir: log.dir, logStartOffset: offset, end: log.writtenOffset },
      'the log start lies past the end: it counts for nothing',
    );
}

/** After an unclean stop batches past the recovery point may tell of epochs that the file does not know; without a file
 * that parses, the whole log is asked. */
async function loadEpochs(
  files: Files,
  log: Log,
  options: Pick<LoadOptions, 'cleanShutdown' | 'leaderEpoch'> & { readonly recoveryPoint: number },
  logger: Logger,
): Promise<LeaderEpochs> {
  const path = `${log.dir}/${LEADER_EPOCH_FILE}`;
  let epochs = new LeaderEpochs();
  let scanFrom = options.cleanShutdown
    ? log.writtenOffset
    : Math.min(options.recoveryPoint, log.writtenOffset);
  try {
    epochs = LeaderEpochs.parse((await files.read(path)).toString('latin1'));
    // Cut off at its beginning a file looks like that of an empty partition.
    if (epochs.latest === undefined) scanFrom = log.logStartOffset;
  } catch (error) {
    const { code, message } = error as BroadsheetError;
    if (!['NOT_FOUND', 'CORRUPT', 'LIMIT'].includes(code)) throw error;
    if (code !== 'NOT_FOUND') logger.warn({ path, reason: message }, 'checkpoint is corrupt and is rebuilt');
    scanFrom = log.logStartOffset;
  }
  epochs.truncateFromEnd(log.writtenOffset);
  let beginsAt: number | undefined;
  const faults = await forEachBatch(log, scanFrom, false, (batch) => {
    // No checksum covers it: one that the partition never had was altered. At the beginning it was that of the next batch.
    if (batch.leaderEpoch < 0 || batch.leaderEpoch > options.leaderEpoch) {
      if (epochs.latest === undefined) beginsAt ??= batch.baseOffset;
      return;
    }
    if (batch.leaderEpoch > (epochs.latest?.epoch ?? -1))
      epochs.assign(batch.leaderEpoch, beginsAt ?? batch.baseOffset);
    beginsAt = undefined;
  });
  for (const fault of faults)
    logger.warn(
      { dir: log.dir, reason: fault.message },
      'a damaged segment tells nothing of its leader epochs',
    );
  epochs.truncateFromStart(log.logStartOffset);
  return epochs;
}

/** The topic id in the folder's partition.metadata, or undefined if there is none that parses. */
export async function readTopicId(files: Files, dir: string): Promise<string | undefined> {
  try {
    return parsePartitionMetadata(
      (await files.read(`${dir}/${PARTITION_METADATA_FILE}`, 4096)).toString('utf8'),
    );
  } catch (error) {
    if (['NOT_FOUND', 'CORRUPT', 'LIMIT'].includes((error as BroadsheetError).code)) return undefined;
    throw error;
  }
}

/** What a backup is told of logs: how far each went at one moment. */
import {
  LEADER_EPOCH_FILE,
  OffsetCheckpoint,
  PARTITION_METADATA_FILE,
  RECOVERY_POINT_FILE,
} from './checkpoints.ts';
import type { Files, Log } from './log.ts';
import type { Partition } from './partition.ts';
import { TRANSACTION_INDEX_CHECKPOINT } from './txn-index.ts';

/** A log as of one moment. Goes from process to process as JSON. */
export interface LogCut {
  readonly topic: string;
  readonly index: number;
  readonly topicId: string;
  /** Base offsets of its segments, ascending; the last one is written to. */
  readonly bases: readonly number[];
  /** Of all of them. */
  readonly sizeInBytes: number;
  readonly endOffset: number;
  readonly logStartOffset: number;
  readonly highWatermark: number;
  /** Other files of the folder that belong to it, besides those of segments and producers. */
  readonly files: readonly string[];
}

/** A data directory as of one moment. */
export interface DirectoryCut {
  readonly version: typeof CUT_VERSION;
  readonly dataDir: string;
  /** By topic and partition; from the checkpoint on disk, so that no later start writes below. */
  readonly recoveryPoints: string;
  readonly metadata: LogCut;
  readonly partitions: readonly LogCut[];
}

export const CUT_VERSION = 1;
/** Of a partition's folder. */
export const PARTITION_FILES = [PARTITION_METADATA_FILE, LEADER_EPOCH_FILE, TRANSACTION_INDEX_CHECKPOINT];

export function cutLog(
  log: Log,
  of: Pick<LogCut, 'topic' | 'index' | 'topicId' | 'files' | 'highWatermark'>,
): LogCut {
  return {
    ...of,
    bases: log.segmentBaseOffsets(),
    sizeInBytes: log.sizeInBytes,
    endOffset: log.writtenOffset,
    logStartOffset: log.logStartOffset,
  };
}

export function cutPartition(partition: Partition): LogCut {
  const { topic, index, topicId, highWatermark, log } = partition;
  return cutLog(log, { topic, index, topicId, highWatermark, files: PARTITION_FILES });
}

/** The text of the recovery points on disk; that of none where there are none. */
export async function readRecoveryPoints(files: Files, dataDir: string): Promise<string> {
  const path = `${dataDir}/${RECOVERY_POINT_FILE}`;
  if (!(await files.exists(path))) return new OffsetCheckpoint().text();
  return (await files.read(path)).toString('latin1');
}

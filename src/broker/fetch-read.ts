/** Reads what one fetch asks for, within its limits. */
import type { ReadResult } from '../log/log.ts';
import type { IsolationLevel, Partition } from '../log/partition.ts';
import type { AbortedTransaction } from '../log/txn-index.ts';
import { KafkaError, kafkaCodeOf } from '../protocol/errors.ts';
import type { EpochAndOffset, FetchPartitionResult } from '../protocol/fetch.ts';
import type { Part } from '../protocol/part.ts';
import { BroadsheetError } from '../runtime/errors.ts';
import { leaderEpochFault } from './leader-epoch.ts';

/** One partition of a fetch. */
export interface FetchTarget {
  /** Its name, or id where the request has ids. */
  readonly topic: string;
  readonly index: number;
  /** Undefined: no such partition here. */
  readonly partition: Partition | undefined;
  /** What to answer when the partition is missing, or goes away while the fetch waits. */
  readonly missingCode: number;
  readonly fetchOffset: number;
  readonly maxBytes: number;
  readonly currentLeaderEpoch: number;
  /** Epoch of the last record that the client has, or -1: it wants to hear where its log and ours part. */
  readonly lastFetchedEpoch: number;
}

/** As it is answered; without records it has no bytes, not null, as in Kafka. */
export interface FetchResult extends FetchPartitionResult {
  readonly divergingEpoch: EpochAndOffset | undefined;
  readonly records: Part;
  readonly abortedTransactions: readonly AbortedTransaction[] | null;
}

/** Records that could not be kept in the page cache long enough, and where the reading of them ended. */
export interface CopiedRecords {
  readonly bytes: Uint8Array;
  readonly upTo: number;
}

export interface FetchLimits {
  /** Of the whole answer; the first batch may exceed it. */
  readonly maxBytes: number;
  readonly isolation: IsolationLevel;
}

export interface ColdRange {
  readonly target: FetchTarget;
  readonly partition: Partition;
  readonly offset: number;
  readonly maxBytes: number;
  /** What the isolation level may see ends here. */
  readonly upTo: number;
}

export interface Reading {
  /** In the order of the targets. */
  readonly results: readonly FetchResult[];
  /** Records found, bytes. */
  readonly bytes: number;
  /** A partition has something to say besides records: the answer must not wait. */
  readonly urgent: boolean;
  /** Not in the page cache: warm these, then read again. */
  readonly cold: readonly ColdRange[];
  /** Partitions that could not be read, and why. */
  readonly broken: readonly BrokenPartition[];
}

export interface BrokenPartition {
  readonly partition: Partition;
  readonly offset: number;
  readonly error: BroadsheetError;
}

const NOWHERE = -1;
const NO_RECORDS = new Uint8Array(0);
/** Most readings have none of what a list is for. */
const NONE: readonly never[] = [];
/** Transactions that are named beside one partition's records, if it can be helped: where more were aborted, the records
 * end before the next one. */
const MAX_ABORTED = 500;

function failed(target: FetchTarget, errorCode: number): FetchResult {
  return {
    partitionIndex: target.index,
    errorCode,
    highWatermark: NOWHERE,
    lastStableOffset: NOWHERE,
    logStartOffset: NOWHERE,
    divergingEpoch: undefined,
    records: NO_RECORDS,
    abortedTransactions: null,
  };
}

/** Why a target cannot be read, or NONE. */
function faultOf(target: FetchTarget, partition: Partition): number {
  if (partition.deleted) return target.missingCode;
  if (partition.offline !== undefined) return KafkaError.KAFKA_STORAGE_ERROR;
  return leaderEpochFault(partition, target.currentLeaderEpoch);
}

/** Where the client's log parts from ours (KIP-595), undefined if it doesn't; 'unknown' for an epoch that is not ours. */
function divergence(target: FetchTarget, partition: Partition): FetchResult['divergingEpoch'] | 'unknown' {
  if (target.lastFetchedEpoch < 0) return undefined;
  const end = partition.epochs.endOffsetFor(target.lastFetchedEpoch, partition.logEndOffset);
  if (end.epoch < 0 || end.endOffset < 0) return 'unknown';
  return end.epoch < target.lastFetchedEpoch || end.endOffset < target.fetchOffset ? end : undefined;
}

interface BoundedRead {
  readonly read: ReadResult | BroadsheetError;
  /** No record at or past it was read. */
  readonly upTo: number;
}

function readOne(
  partition: Partition,
  offset: number,
  maxBytes: number,
  isolation: IsolationLevel,
): BoundedRead {
  const end = partition.endFor(isolation);
  try {
    for (let count = MAX_ABORTED; ; count *= 8) {
      const upTo =
        isolation === 'read_committed' && offset < end ? partition.aborted.boundFor(offset, end, count) : end;
      const read = partition.read(offset, maxBytes, isolation, true, upTo);
      // Nothing is left between the two offsets: compaction took it.
      if (read.kind !== 'empty' || upTo >= end) return { read, upTo };
    }
  } catch (error) {
    if (error instanceof BroadsheetError) return { read: error, upTo: end };
    throw error;
  }
}

function brokenCode(target: FetchTarget, error: BroadsheetError): number {
  if (error.code === 'CLOSED') return target.missingCode;
  return error.code === 'CORRUPT' ? KafkaError.CORRUPT_MESSAGE : kafkaCodeOf(error);
}

function coldRange(target: FetchTarget, partition: Partition, limit: number, upTo: number): ColdRange {
  return { target, partition, offset: target.fetchOffset, maxBytes: Math.max(limit, 1), upTo };
}

/**
 * Reads the targets in order. The first batch that is found is taken whole, however large; after it nothing exceeds the
 * limits, and no partition gets less than a whole batch. `copied` holds records that could not be kept in the page cache
 * long enough, or why what is cold can't be read, if there are any.
 */
export function readTargets(
  targets: readonly FetchTarget[],
  limits: FetchLimits,
  copied?: ReadonlyMap<FetchTarget, CopiedRecords | BroadsheetError>,
): Reading {
  // Of the right length from the start: what grows takes room for 16 more.
  const results = new Array<FetchResult>(targets.length);
  let cold: ColdRange[] | undefined;
  let broken: BrokenPartition[] | undefined;
  let bytes = 0;
  let urgent = false;
  for (let i = 0; i < targets.length; i++) {
    const target = targets[i]!;
    const { partition, fetchOffset } = target;
    const fault = partition === undefined ? target.missingCode : faultOf(target, partition);
    if (partition === undefined || fault !== KafkaError.NONE) {
      results[i] = failed(target, fault);
      urgent = true;
      continue;
    }
    const diverging = divergence(target, partition);
    const first = bytes === 0;
    const limit = Math.max(0, Math.min(target.maxBytes, limits.maxBytes - bytes));
    const brought = diverging === undefined ? copied?.get(target) : undefined;
    const failure = brought instanceof BroadsheetError ? brought : undefined;
    const copy = brought instanceof BroadsheetError ? undefined : brought;
    let records: Part = copy?.bytes ?? NO_RECORDS;
    let upTo = copy?.upTo ?? fetchOffset;
    if (diverging === undefined && copy === undefined) {
      const bounded = readOne(partition, fetchOffset, limit, limits.isolation);
      // A failure counts for what is still cold: meanwhile the log may have changed.
      const read =
        'kind' in bounded.read && bounded.read.kind === 'cold' ? (failure ?? bounded.read) : bounded.read;
      upTo = bounded.upTo;
      if (read instanceof BroadsheetError) {
        broken ??= [];
        broken.push({ partition, offset: fetchOffset, error: read });
        results[i] = failed(target, brokenCode(target, read));
        urgent = true;
        continue;
      }
      if (read.kind === 'out-of-range') {
        results[i] = failed(target, KafkaError.OFFSET_OUT_OF_RANGE);
        urgent = true;
        continue;
      }
      if (read.kind === 'cold') {
        if (first || limit > 0) {
          cold ??= [];
          cold.push(coldRange(target, partition, limit, upTo));
        }
      } else if (read.kind === 'range') records = read.range;
    } else if (diverging === 'unknown') {
      results[i] = failed(target, KafkaError.OFFSET_OUT_OF_RANGE);
      urgent = true;
      continue;
    } else if (diverging !== undefined) urgent = true;
    // Longer than asked for: the first batch alone does not fit.
    if (!first && records.length > limit) records = NO_RECORDS;
    bytes += records.length;
    results[i] = {
      partitionIndex: target.index,
      errorCode: KafkaError.NONE,
      highWatermark: partition.highWatermark,
      lastStableOffset: partition.lastStableOffset,
      logStartOffset: partition.logStartOffset,
      divergingEpoch: diverging,
      records,
      abortedTransactions:
        limits.isolation !== 'read_committed'
          ? null
          : records.length === 0
            ? NONE
            : partition.abortedTransactions(fetchOffset, upTo),
    };
  }
  return { results, bytes, urgent, cold: cold ?? NONE, broken: broken ?? NONE };
}

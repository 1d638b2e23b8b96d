/** Reads what one fetch asks for, within its limits. */
import type { ReadResult } from '../log/log.ts';
import type { IsolationLevel, Partition } from '../log/partition.ts';
import { KafkaError, kafkaCodeOf } from '../protocol/errors.ts';
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

export interface FetchResult {
  readonly index: number;
  readonly errorCode: number;
  readonly highWatermark: number;
  readonly lastStableOffset: number;
  readonly logStartOffset: number;
  readonly divergingEpoch: { readonly epoch: number; readonly endOffset: number } | undefined;
  readonly records: Part | undefined;
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
  readonly results: FetchResult[];
  /** Records found, bytes. */
  readonly bytes: number;
  /** A partition has something to say besides records: the answer must not wait. */
  readonly urgent: boolean;
  /** Not in the page cache: warm these, then read again. */
  readonly cold: ColdRange[];
  /** Partitions that could not be read, and why. */
  readonly broken: {
    readonly partition: Partition;
    readonly offset: number;
    readonly error: BroadsheetError;
  }[];
}

const NOWHERE = -1;

function failed(target: FetchTarget, errorCode: number): FetchResult {
  return {
    index: target.index,
    errorCode,
    highWatermark: NOWHERE,
    lastStableOffset: NOWHERE,
    logStartOffset: NOWHERE,
    divergingEpoch: undefined,
    records: undefined,
  };
}

/** Why a target cannot be read, or NONE. */
function faultOf(target: FetchTarget, partition: Partition, refused: ReadonlySet<Partition>): number {
  if (partition.deleted) return target.missingCode;
  if (partition.offline !== undefined) return KafkaError.KAFKA_STORAGE_ERROR;
  const epoch = leaderEpochFault(partition, target.currentLeaderEpoch);
  if (epoch !== KafkaError.NONE) return epoch;
  if (refused.has(partition)) return KafkaError.UNSUPPORTED_VERSION;
  return KafkaError.NONE;
}

/** Where the client's log parts from ours (KIP-595), undefined if it doesn't; 'unknown' for an epoch that is not ours. */
function divergence(target: FetchTarget, partition: Partition): FetchResult['divergingEpoch'] | 'unknown' {
  if (target.lastFetchedEpoch < 0) return undefined;
  const end = partition.epochs.endOffsetFor(target.lastFetchedEpoch, partition.logEndOffset);
  if (end.epoch < 0 || end.endOffset < 0) return 'unknown';
  return end.epoch < target.lastFetchedEpoch || end.endOffset < target.fetchOffset ? end : undefined;
}

function readOne(
  partition: Partition,
  offset: number,
  maxBytes: number,
  isolation: IsolationLevel,
): ReadResult | BroadsheetError {
  try {
    return partition.read(offset, maxBytes, isolation, true);
  } catch (error) {
    if (error instanceof BroadsheetError) return error;
    throw error;
  }
}

function brokenCode(target: FetchTarget, error: BroadsheetError): number {
  if (error.code === 'CLOSED') return target.missingCode;
  return error.code === 'CORRUPT' ? KafkaError.CORRUPT_MESSAGE : kafkaCodeOf(error);
}

function coldRange(
  target: FetchTarget,
  partition: Partition,
  limit: number,
  isolation: IsolationLevel,
): ColdRange {
  const upTo = isolation === 'read_committed' ? partition.lastStableOffset : partition.highWatermark;
  return { target, partition, offset: target.fetchOffset, maxBytes: Math.max(limit, 1), upTo };
}

/**
 * Reads the targets in order. The first batch that is found is taken whole, however large; after it nothing exceeds the
 * limits, and no partition gets less than a whole batch. `copied` holds records that could not be kept in the page cache
 * long enough; `refused` the partitions that read_committed must not read.
 */
export function readTargets(
  targets: readonly FetchTarget[],
  limits: FetchLimits,
  refused: ReadonlySet<Partition>,
  copied: ReadonlyMap<FetchTarget, Uint8Array>,
): Reading {
  const results: FetchResult[] = [];
  const cold: ColdRange[] = [];
  const broken: Reading['broken'] = [];
  let bytes = 0;
  let urgent = false;
  for (const target of targets) {
    const { partition, fetchOffset } = target;
    const fault = partition === undefined ? target.missingCode : faultOf(target, partition, refused);
    if (partition === undefined || fault !== KafkaError.NONE) {
      results.push(failed(target, fault));
      urgent = true;
      continue;
    }
    const diverging = divergence(target, partition);
    const first = bytes === 0;
    const limit = Math.max(0, Math.min(target.maxBytes, limits.maxBytes - bytes));
    let records: Part | undefined = diverging === undefined ? copied.get(target) : undefined;
    if (diverging === undefined && records === undefined) {
      const read = readOne(partition, fetchOffset, limit, limits.isolation);
      if (read instanceof BroadsheetError) {
        broken.push({ partition, offset: fetchOffset, error: read });
        results.push(failed(target, brokenCode(target, read)));
        urgent = true;
        continue;
      }
      if (read.kind === 'out-of-range') {
        results.push(failed(target, KafkaError.OFFSET_OUT_OF_RANGE));
        urgent = true;
        continue;
      }
      if (read.kind === 'cold') {
        if (first || limit > 0) cold.push(coldRange(target, partition, limit, limits.isolation));
      } else if (read.kind === 'range') records = { ...read.range };
    } else if (diverging === 'unknown') {
      results.push(failed(target, KafkaError.OFFSET_OUT_OF_RANGE));
      urgent = true;
      continue;
    } else if (diverging !== undefined) urgent = true;
    // Longer than asked for: the first batch alone does not fit.
    if (records !== undefined && (records.length === 0 || (!first && records.length > limit))) {
      records = undefined;
    }
    bytes += records?.length ?? 0;
    results.push({
      index: target.index,
      errorCode: KafkaError.NONE,
      highWatermark: partition.highWatermark,
      lastStableOffset: partition.lastStableOffset,
      logStartOffset: partition.logStartOffset,
      divergingEpoch: diverging,
      records,
    });
  }
  return { results, bytes, urgent, cold, broken };
}

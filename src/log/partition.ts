/**
 * One partition: its log, the state of its producers, its leader epochs, and who waits for it.
 *
 * Appends are staged by append() and written by LogManager.commitTick(), once a tick; their listeners hear of it in
 * order, when the records are below the high watermark. That is the written end of the log or, with flush.messages=1, its
 * flushed end. A write that fails takes back what its batches did to the producer state.
 */
import type { TopicConfig } from '../config/topic-config.ts';
import { KafkaError, kafkaCodeOf } from '../protocol/errors.ts';
import { ControlType, endTransactionMarker } from '../protocol/records/control.ts';
import { BroadsheetError } from '../runtime/errors.ts';
import type { LeaderEpochs } from './leader-epochs.ts';
import type { Log, LogOptions, ReadResult } from './log.ts';
import { encodeSnapshot } from './producer-snapshot.ts';
import {
  type AppendOrigin,
  abortedBy,
  type ProducedBatch,
  type ProducerEntry,
  type ProducerState,
  type TransactionMarker,
} from './producer-state.ts';
import type { AbortedTransaction, TransactionIndex } from './txn-index.ts';

/** Hears how appends ended, each exactly once, never from within append(). `token` is what append() was given. */
export interface AppendListener {
  /** The records are below the high watermark. logAppendTime: ms, or -1 where the topic keeps the producer's time (for
   * a duplicate the original's timestamp, as in Kafka). */
  onAppended(token: number, baseOffset: number, logAppendTime: number): void;
  /** Nothing was appended, or it can't be known to last (a failed flush). */
  onAppendFailed(token: number, error: BroadsheetError): void;
}

/** Why append() did not take a batch. */
export interface Rejection {
  /** A Kafka error code. */
  readonly code: number;
  readonly message: string;
}

/** Told what a delayed fetch waits for. Must not throw. */
export interface PartitionWatcher {
  /** The high watermark moved, and the last stable offset perhaps with it: `bytes` more can be read. */
  onVisible(partition: Partition, bytes: number): void;
  /** The log start offset moved, or the partition was deleted or went offline. */
  onChanged(partition: Partition): void;
}

export type IsolationLevel = 'read_uncommitted' | 'read_committed';

/** What a partition asks of its manager. */
export interface PartitionHost {
  /** Has work for the next commit: so many bytes of records, none for a duplicate. */
  onStaged(partition: Partition, bytes: number): void;
  onFlushNeeded(partition: Partition): void;
  /** State as of a segment's first offset; to be written once `offset` is below writtenOffset. */
  onSnapshot(partition: Partition, offset: number, bytes: Uint8Array): void;
  onOffline(partition: Partition, error: BroadsheetError): void;
  /** 0 <= x < 1. */
  random(): number;
}

export interface PartitionParts {
  readonly topic: string;
  /** 22 characters of base64url. */
  readonly topicId: string;
  readonly index: number;
  readonly log: Log;
  readonly producers: ProducerState;
  readonly aborted: TransactionIndex;
  readonly epochs: LeaderEpochs;
  readonly config: TopicConfig;
}

interface PendingAppend {
  readonly listener: AppendListener;
  readonly token: number;
  readonly baseOffset: number;
  /** One past the last offset. */
  readonly endOffset: number;
  readonly logAppendTime: number;
  /** -1: the producer state was not touched. */
  readonly producerId: number;
  readonly previous: ProducerEntry | undefined;
  /** Bytes; 0 for a duplicate. */
  readonly size: number;
}

/** What a log obeys; its active segment is closed so many ms before its time. */
export function logOptionsOf(config: TopicConfig, jitterMs = 0): LogOptions {
  return {
    segmentBytes: config.segmentBytes,
    segmentMs: segmentMsOf(config, jitterMs),
    indexBytes: config.segmentIndexBytes,
    indexIntervalBytes: config.indexIntervalBytes,
  };
}

function segmentMsOf(
  { cleanupPolicy, maxCompactionLagMs, segmentMs }: TopicConfig,
  jitterMs: number,
): number {
  // What is to be compacted within a time has to be closed by then.
  const compacted = cleanupPolicy.includes('compact') && maxCompactionLagMs > 0;
  const longest = compacted ? Math.min(segmentMs, maxCompactionLagMs) : segmentMs;
  return Math.max(0, longest - jitterMs);
}

export class Partition {
  readonly topic: string;
  readonly topicId: string;
  readonly index: number;
  readonly log: Log;
  readonly producers: ProducerState;
  readonly aborted: TransactionIndex;
  readonly epochs: LeaderEpochs;

  readonly #host: PartitionHost;
  readonly #watchers = new Set<PartitionWatcher>();
  #config: TopicConfig;
  /** How much sooner than segment.ms the active segment is closed: so those that were begun together do not roll together. It is
   * the segment's own, whatever becomes of the config, as in Kafka. */
  #jitterMs = 0;
  #leaderEpoch = -1;
  #highWatermark: number;
  /** Transactions whose marker is not below the high watermark yet: first offset and that of the marker. */
  #ending: { readonly firstOffset: number; readonly markerOffset: number }[] = [];
  /** In the order of append(). */
  #pending: PendingAppend[] = [];
  #flushRequestedAt: number;
  #deleted = false;
  #offlineSeen = false;

  constructor(parts: PartitionParts, host: PartitionHost) {
    this.topic = parts.topic;
    this.topicId = parts.topicId;
    this.index = parts.index;
    this.log = parts.log;
    this.producers = parts.producers;
    this.aborted = parts.aborted;
    this.epochs = parts.epochs;
    this.#config = parts.config;
    this.#host = host;
    this.log.setOptions(logOptionsOf(parts.config));
    this.#drawJitter();
    this.#highWatermark = parts.log.writtenOffset;
    this.#flushRequestedAt = parts.log.flushedOffset;
  }

  get config(): TopicConfig {
    return this.#config;
  }

  setConfig(config: TopicConfig): void {
    this.#config = config;
    this.log.setOptions(logOptionsOf(config, this.#jitterMs));
    this.settle(undefined);
  }

  /** How long the active segment takes batches, ms: segment.ms less its jitter. */
  get segmentMs(): number {
    return segmentMsOf(this.#config, this.#jitterMs);
  }

  /** Closes the active segment. Nothing may be staged. */
  roll(now: number): void {
    this.log.roll(now);
    this.#drawJitter();
  }

  /** A segment begins. */
  #drawJitter(): void {
    const most = Math.min(this.#config.segmentJitterMs, segmentMsOf(this.#config, 0));
    const jitterMs = Math.floor(this.#host.random() * most);
    if (jitterMs === this.#jitterMs) return;
    this.#jitterMs = jitterMs;
    this.log.setOptions(logOptionsOf(this.#config, jitterMs));
  }

  get leaderEpoch(): number {
    return this.#leaderEpoch;
  }

  /** This broker leads the partition in an epoch from now on. */
  becomeLeader(epoch: number): void {
    if (epoch < this.#leaderEpoch)
      throw new BroadsheetError('INVALID_ARGUMENT', `leader epoch ${epoch} is below ${this.#leaderEpoch}`);
    this.#leaderEpoch = epoch;
    this.epochs.assign(epoch, this.log.logEndOffset);
  }

  /** Judges the leader epoch that a client believes in (-1: none); a Kafka error code or 0. */
  checkLeaderEpoch(epoch: number): number {
    if (epoch < 0 || epoch === this.#leaderEpoch) return KafkaError.NONE;
    return epoch < this.#leaderEpoch ? KafkaError.FENCED_LEADER_EPOCH : KafkaError.UNKNOWN_LEADER_EPOCH;
  }

  /** Where the log of a reader whose last record is of lastFetchedEpoch parts from ours, or undefined if it does not.
   * {-1, -1}: the epoch is not known here. */
  divergingEpoch(
    lastFetchedEpoch: number,
    fetchOffset: number,
  ): { readonly epoch: number; readonly endOffset: number } | undefined {
    if (lastFetchedEpoch < 0) return undefined;
    const end = this.epochs.endOffsetFor(lastFetchedEpoch, this.log.logEndOffset);
    return end.epoch < lastFetchedEpoch || end.endOffset < fetchOffset ? end : undefined;
  }

  get logStartOffset(): number {
    return this.log.logStartOffset;
  }

  get logEndOffset(): number {
    return this.log.logEndOffset;
  }

  /** Readers see what is below. */
  get highWatermark(): number {
    return this.#highWatermark;
  }

  /** Below it no transaction is open: the bound of read_committed. */
  get lastStableOffset(): number {
    let stable = Math.min(this.producers.firstOpenOffset, this.#highWatermark);
    for (const { firstOffset } of this.#ending) stable = Math.min(stable, firstOffset);
    return Math.max(stable, this.log.logStartOffset);
  }

  /** What recovery may begin with after a kill: below it the log and the index of aborted transactions are on disk. */
  get recoveryPoint(): number {
    return Math.min(this.log.flushedOffset, this.aborted.unsavedFrom);
  }

  get deleted(): boolean {
    return this.#deleted;
  }

  /** Why the partition takes and gives nothing any more, or undefined. */
  get offline(): BroadsheetError | undefined {
    return this.log.offline;
  }

  /** Appends whose listener has not heard yet. */
  get pendingAppends(): number {
    return this.#pending.length;
  }

  /** Whether acknowledgements wait for the flush. */
  get flushesEveryAppend(): boolean {
    return this.#config.flushMessages <= 1;
  }

  /**
   * Takes one validated batch; `batch` holds its header facts as they will be stored. The bytes are patched in place and
   * must stay as they are until the next commitTick(). Unless it is rejected, the listener hears of it.
   */
  append(
    bytes: Uint8Array,
    start: number,
    end: number,
    batch: ProducedBatch,
    now: number,
    listener: AppendListener,
    token: number,
    origin: AppendOrigin = 'client',
  ): Rejection | undefined {
    const unusable = this.#unusable();
    if (unusable !== undefined) return unusable;

    const producerId = Math.max(batch.producerId, -1);
    if (producerId >= 0) {
      const verdict = this.producers.judge(batch, origin);
      if (verdict?.kind === 'duplicate') {
        const { lastOffset, offsetDelta, timestamp } = verdict.batch;
        this.#pend(listener, token, lastOffset - offsetDelta, lastOffset + 1, timestamp, -1, undefined, 0);
        return undefined;
      }
      if (verdict !== undefined) return { code: REJECTIONS[verdict.kind], message: verdict.message };
    }

    const baseOffset = this.#stage(bytes, start, end, now);
    if (typeof baseOffset !== 'number') return baseOffset;
    const lastOffset = baseOffset + batch.recordCount - 1;
    const previous = producerId >= 0 ? this.producers.append(batch, baseOffset, lastOffset) : undefined;
    const logAppendTime = this.#config.messageTimestampType === 'LogAppendTime' ? batch.maxTimestamp : -1;
    this.#pend(listener, token, baseOffset, lastOffset + 1, logAppendTime, producerId, previous, end - start);
    return undefined;
  }

  /** Writes the end of a producer's transaction here, whether one is open or not; the listener hears of it like of any
   * append. Rejected when the producer, or the coordinator, has a newer epoch here. */
  appendMarker(
    marker: TransactionMarker,
    now: number,
    listener: AppendListener,
    token: number,
  ): Rejection | undefined {
    const unusable = this.#unusable();
    if (unusable !== undefined) return unusable;
    const verdict = this.producers.judgeMarker(marker);
    if (verdict !== undefined) return { code: REJECTIONS[verdict.kind], message: verdict.message };
    const { producerId, producerEpoch, coordinatorEpoch, commit } = marker;
    const type = commit ? ControlType.COMMIT : ControlType.ABORT;
    const options = { timestamp: now };
    const bytes = endTransactionMarker(type, producerId, producerEpoch, coordinatorEpoch, options);
    const offset = this.#stage(bytes, 0, bytes.length, now);
    if (typeof offset !== 'number') return offset;
    const previous = this.producers.endTransaction(producerId, producerEpoch, now, coordinatorEpoch);
    const firstOffset = previous?.currentTxnFirstOffset ?? -1;
    if (firstOffset >= 0) this.#ending.push({ firstOffset, markerOffset: offset });
    const aborted = commit ? undefined : abortedBy(producerId, offset, previous, this.producers);
    if (aborted !== undefined) this.aborted.add(aborted);
    this.#pend(listener, token, offset, offset + 1, -1, producerId, previous, bytes.length);
    return undefined;
  }

  #unusable(): Rejection | undefined {
    if (this.#deleted) return UNKNOWN_PARTITION;
    const { offline } = this.log;
    return offline === undefined
      ? undefined
      : { code: KafkaError.KAFKA_STORAGE_ERROR, message: offline.message };
  }

  /** Gives the base offset. */
  #stage(bytes: Uint8Array, start: number, end: number, now: number): number | Rejection {
    try {
      const { baseOffset, rolled } = this.log.stage(bytes, start, end, Math.max(0, this.#leaderEpoch), now);
      if (rolled) {
        this.#drawJitter();
        this.#host.onSnapshot(this, baseOffset, encodeSnapshot(this.producers));
      }
      return baseOffset;
    } catch (error) {
      return { code: kafkaCodeOf(error), message: (error as Error).message };
    }
  }

  #pend(
    listener: AppendListener,
    token: number,
    baseOffset: number,
    endOffset: number,
    logAppendTime: number,
    producerId: number,
    previous: ProducerEntry | undefined,
    size: number,
  ): void {
    this.#pending.push({ listener, token, baseOffset, endOffset, logAppendTime, producerId, previous, size });
    this.#host.onStaged(this, size);
  }

  /**
   * Called by the manager after a commit or a flush: completes what is below the high watermark and fails what was cut off
   * the log. True if the high watermark moved.
   */
  settle(error: BroadsheetError | undefined): boolean {
    const offline = this.log.offline;
    if (error !== undefined || offline !== undefined) this.#fail(offline ?? (error as BroadsheetError));
    const moved = this.#moveHighWatermark();
    const ended = moved && this.#endTransactions();
    const bytes = this.#complete();
    // The end of a transaction lets readers see what was counted long ago.
    if (moved) this.#tell((watcher) => watcher.onVisible(this, ended ? Number.MAX_SAFE_INTEGER : bytes));
    if (offline !== undefined && !this.#offlineSeen) {
      this.#offlineSeen = true;
      this.#host.onOffline(this, offline);
      this.#changed();
    }
    return moved;
  }

  #moveHighWatermark(): boolean {
    const { writtenOffset, flushedOffset, offline } = this.log;
    let end = writtenOffset;
    if (this.flushesEveryAppend) {
      end = Math.min(flushedOffset, writtenOffset);
      if (writtenOffset > flushedOffset && offline === undefined) this.#requestFlush();
    } else if (
      writtenOffset - Math.max(flushedOffset, this.#flushRequestedAt) >=
      this.#config.flushMessages
    ) {
      this.#requestFlush();
    }
    if (end <= this.#highWatermark) return false;
    this.#highWatermark = end;
    return true;
  }

  /** Lets go of transactions whose marker readers can see now. */
  #endTransactions(): boolean {
    if (this.#ending.length === 0) return false;
    const before = this.#ending.length;
    this.#ending = this.#ending.filter(({ markerOffset }) => markerOffset >= this.#highWatermark);
    return this.#ending.length < before;
  }

  #requestFlush(): void {
    this.#flushRequestedAt = this.log.writtenOffset;
    this.#host.onFlushNeeded(this);
  }

  /** Gives the bytes of the appends that it completed. */
  #complete(): number {
    let done = 0;
    while (done < this.#pending.length && this.#pending[done]!.endOffset <= this.#highWatermark) done++;
    if (done === 0) return 0;
    const completed = done === this.#pending.length ? this.#pending : this.#pending.slice(0, done);
    this.#pending = done === this.#pending.length ? [] : this.#pending.slice(done);
    let bytes = 0;
    for (const append of completed) {
      bytes += append.size;
      append.listener.onAppended(append.token, append.baseOffset, append.logAppendTime);
    }
    return bytes;
  }

  /** Fails what is no longer in the log, and all that waits when the log went offline. */
  #fail(error: BroadsheetError): void {
    const kept: PendingAppend[] = [];
    const failed: PendingAppend[] = [];
    for (const append of this.#pending) {
      const covered =
        this.log.offline === undefined
          ? append.endOffset <= this.log.writtenOffset
          : append.endOffset <= this.#highWatermark;
      (covered ? kept : failed).push(append);
    }
    this.#pending = kept;
    // Newest first, so that each producer ends with the state before the oldest of its batches.
    for (let i = failed.length - 1; i >= 0; i--) {
      const append = failed[i]!;
      if (append.producerId >= 0) this.producers.restore(append.producerId, append.previous);
    }
    const cut = failed[0]?.baseOffset ?? Number.POSITIVE_INFINITY;
    this.#ending = this.#ending.filter(({ markerOffset }) => markerOffset < cut);
    this.aborted.truncate(cut);
    for (const append of failed) append.listener.onAppendFailed(append.token, error);
  }

  /** Where readers of an isolation level end. */
  endFor(isolation: IsolationLevel): number {
    return isolation === 'read_committed' ? this.lastStableOffset : this.#highWatermark;
  }

  /** Locates records from offset on, below `upTo` (default: what the isolation level may see). */
  read(
    offset: number,
    maxBytes: number,
    isolation: IsolationLevel,
    minOneMessage: boolean,
    upTo = this.endFor(isolation),
  ): ReadResult {
    if (offset < this.log.logStartOffset || offset > this.log.logEndOffset) return OUT_OF_RANGE;
    if (offset >= upTo) return EMPTY;
    return this.log.read(offset, maxBytes, upTo, minOneMessage);
  }

  /** Aborted transactions that have something in [from, upTo). */
  abortedTransactions(from: number, upTo: number): AbortedTransaction[] {
    return this.aborted.collect(from, upTo);
  }

  /** Moves the log start offset up (DeleteRecords, retention) and wakes whoever waits. */
  setLogStartOffset(offset: number): void {
    if (offset <= this.log.logStartOffset) return;
    this.log.setLogStartOffset(offset);
    this.epochs.truncateFromStart(offset);
    this.aborted.truncateFromStart(offset);
    this.#changed();
  }

  watch(watcher: PartitionWatcher): void {
    this.#watchers.add(watcher);
  }

  unwatch(watcher: PartitionWatcher): void {
    this.#watchers.delete(watcher);
  }

  get watcherCount(): number {
    return this.#watchers.size;
  }

  /** Called by the manager once the name is free. */
  markDeleted(): void {
    this.#deleted = true;
    this.#changed();
  }

  #changed(): void {
    this.#tell((watcher) => watcher.onChanged(this));
  }

  /** Tells those that watch now; whoever begins to watch meanwhile does not hear of it. */
  #tell(what: (watcher: PartitionWatcher) => void): void {
    if (this.#watchers.size === 0) return;
    for (const watcher of [...this.#watchers]) {
      if (this.#watchers.has(watcher)) what(watcher);
    }
  }
}

const UNKNOWN_PARTITION: Rejection = {
  code: KafkaError.UNKNOWN_TOPIC_OR_PARTITION,
  message: 'the partition was deleted',
};
const OUT_OF_RANGE: ReadResult = { kind: 'out-of-range' };
const EMPTY: ReadResult = { kind: 'empty' };

const REJECTIONS = {
  'stale-epoch': KafkaError.INVALID_PRODUCER_EPOCH,
  'stale-coordinator': KafkaError.TRANSACTION_COORDINATOR_FENCED,
  'out-of-order': KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER,
  'invalid-txn-state': KafkaError.INVALID_TXN_STATE,
} as const;

/**
 * What a partition knows of its producers: the state behind idempotent produce (KIP-98, KIP-360), rebuilt from the log
 * and kept in snapshots. Rules as seen in Apache Kafka 4.4:
 *
 * - A batch whose epoch and sequence range equal one of the producer's last five is a duplicate.
 * - An epoch below the last one is INVALID_PRODUCER_EPOCH; a new epoch begins at sequence 0, else
 *   OUT_OF_ORDER_SEQUENCE_NUMBER; within an epoch sequences follow one another and wrap from 2^31-1 to 0.
 * - A producer that is not known may begin anywhere: its state may have expired or been deleted with its records.
 *   UNKNOWN_PRODUCER_ID is never raised.
 *
 * Entries are immutable, so that whoever stages a batch keeps the previous entry to put back when the write fails.
 */
import type { BatchInfo } from './log.ts';
import type { AbortedTransaction } from './txn-index.ts';

export const NO_PRODUCER_ID = -1;
export const NO_PRODUCER_EPOCH = -1;
const NO_SEQUENCE = -1;
const MAX_SEQUENCE = 2 ** 31 - 1;
/** Batches of a producer that are remembered: a client has at most this many requests in flight. */
export const REMEMBERED_BATCHES = 5;

const TRANSACTIONAL_BIT = 0x10;
const CONTROL_BIT = 0x20;
/** The transaction.version whose markers bump the producer's epoch (KIP-890). */
const FIRST_VERSION_WITH_BUMP = 2;

/** One batch that was appended. */
export interface BatchMetadata {
  readonly lastSequence: number;
  readonly lastOffset: number;
  /** lastOffset minus the base offset. */
  readonly offsetDelta: number;
  /** Largest timestamp of the batch, ms. */
  readonly timestamp: number;
}

export interface ProducerEntry {
  readonly producerId: number;
  readonly epoch: number;
  /** Oldest first, at most REMEMBERED_BATCHES; empty after a marker with a new epoch. */
  readonly batches: readonly BatchMetadata[];
  /** Timestamp of the last batch or marker, ms; what expiry counts from. */
  readonly lastTimestamp: number;
  /** Of the transaction coordinator that wrote the last marker, or -1. */
  readonly coordinatorEpoch: number;
  /** First offset of the open transaction, or -1. */
  readonly currentTxnFirstOffset: number;
}

/** What is judged: header facts of a validated batch, as a client sent it. */
export interface ProducedBatch {
  readonly producerId: number;
  readonly producerEpoch: number;
  readonly baseSequence: number;
  readonly recordCount: number;
  readonly maxTimestamp: number;
  readonly attributes: number;
}

/** Who appends: what a coordinator writes has no sequence numbers. */
export type AppendOrigin = 'client' | 'coordinator';

/** A transaction's end in one partition, to be written as a control batch. */
export interface TransactionMarker {
  readonly producerId: number;
  readonly producerEpoch: number;
  readonly commit: boolean;
  /** Leader epoch of the coordinator's log. */
  readonly coordinatorEpoch: number;
  /** transaction.version of the transaction; from 2 on the marker's epoch is above that of its data. */
  readonly transactionVersion: number;
}

export type MarkerVerdict =
  | { readonly kind: 'stale-epoch'; readonly message: string }
  | { readonly kind: 'stale-coordinator'; readonly message: string };

export type SequenceVerdict =
  | { readonly kind: 'duplicate'; readonly batch: BatchMetadata }
  | { readonly kind: 'stale-epoch'; readonly message: string }
  | { readonly kind: 'out-of-order'; readonly message: string }
  | { readonly kind: 'invalid-txn-state'; readonly message: string };

export function incrementSequence(sequence: number, by: number): number {
  return sequence > MAX_SEQUENCE - by ? by - (MAX_SEQUENCE - sequence) - 1 : sequence + by;
}

export function decrementSequence(sequence: number, by: number): number {
  return sequence < by ? MAX_SEQUENCE - (by - sequence) + 1 : sequence - by;
}

export class ProducerState {
  readonly #producers = new Map<number, ProducerEntry>();
  /** Open transactions: producer id to first offset. */
  readonly #open = new Map<number, number>();
  #firstOpen = Number.POSITIVE_INFINITY;

  constructor(entries: Iterable<ProducerEntry> = []) {
    for (const entry of entries) this.restore(entry.producerId, entry);
  }

  get size(): number {
    return this.#producers.size;
  }

  get(producerId: number): ProducerEntry | undefined {
    return this.#producers.get(producerId);
  }

  entries(): IterableIterator<ProducerEntry> {
    return this.#producers.values();
  }

  /** First offset of the oldest open transaction, or Infinity. */
  get firstOpenOffset(): number {
    return this.#firstOpen;
  }

  /** Judges a batch of a client that carries a producer id; undefined means that it may be appended. */
  judge(batch: ProducedBatch, origin: AppendOrigin = 'client'): SequenceVerdict | undefined {
    const entry = this.#producers.get(batch.producerId);
    if (entry === undefined) return undefined;
    const { producerEpoch, baseSequence } = batch;
    const sequenced = origin === 'client';
    if (sequenced && producerEpoch === entry.epoch) {
      const lastSequence = incrementSequence(baseSequence, batch.recordCount - 1);
      for (const known of entry.batches) {
        if (
          known.lastSequence === lastSequence &&
          decrementSequence(known.lastSequence, known.offsetDelta) === baseSequence
        ) {
          return { kind: 'duplicate', batch: known };
        }
      }
    }
    if (producerEpoch < entry.epoch) {
      return {
        kind: 'stale-epoch',
        message: `producer ${batch.producerId} sent epoch ${producerEpoch}, its last epoch here is ${entry.epoch}`,
      };
    }
    if (sequenced && entry.epoch !== NO_PRODUCER_EPOCH) {
      const lastSequence =
        producerEpoch === entry.epoch
          ? (entry.batches[entry.batches.length - 1]?.lastSequence ?? NO_SEQUENCE)
          : NO_SEQUENCE;
      const expected = lastSequence === MAX_SEQUENCE ? 0 : lastSequence + 1;
      if (baseSequence !== expected) {
        return {
          kind: 'out-of-order',
          message: `producer ${batch.producerId} epoch ${producerEpoch} sent sequence ${baseSequence}, expected ${expected}`,
        };
      }
    }
    if (entry.currentTxnFirstOffset >= 0 && (batch.attributes & TRANSACTIONAL_BIT) === 0) {
      return {
        kind: 'invalid-txn-state',
        message: `producer ${batch.producerId} has an open transaction since offset ${entry.currentTxnFirstOffset}`,
      };
    }
    return undefined;
  }

  /** Judges an end-transaction marker; undefined means that it may be appended. */
  judgeMarker(marker: TransactionMarker): MarkerVerdict | undefined {
    const entry = this.#producers.get(marker.producerId);
    if (entry === undefined) return undefined;
    const { producerId, producerEpoch, coordinatorEpoch } = marker;
    const bumped = marker.transactionVersion >= FIRST_VERSION_WITH_BUMP;
    // Where nothing is open, a marker of the present epoch is one that is written again.
    const endsNext = bumped && producerEpoch === entry.epoch && entry.currentTxnFirstOffset >= 0;
    if (producerEpoch < entry.epoch || endsNext) {
      return {
        kind: 'stale-epoch',
        message: `a marker of producer ${producerId} has epoch ${producerEpoch}, its last epoch here is ${entry.epoch}`,
      };
    }
    if (coordinatorEpoch < entry.coordinatorEpoch) {
      return {
        kind: 'stale-coordinator',
        message: `a marker of producer ${producerId} has coordinator epoch ${coordinatorEpoch}, the last one was ${entry.coordinatorEpoch}`,
      };
    }
    return undefined;
  }

  /** Whether a producer has an open transaction in that very epoch. */
  hasOpenTransaction(producerId: number, epoch: number): boolean {
    const entry = this.#producers.get(producerId);
    return entry !== undefined && entry.currentTxnFirstOffset >= 0 && entry.epoch === epoch;
  }

  /** Whether somebody has or had the producer id here in a higher epoch. */
  isFenced(producerId: number, epoch: number): boolean {
    const entry = this.#producers.get(producerId);
    return entry !== undefined && epoch < entry.epoch;
  }

  /** Notes a data batch that was appended at [baseOffset, lastOffset]. Gives the entry as it was before, for
   * restore(). */
  append(batch: ProducedBatch, baseOffset: number, lastOffset: number): ProducerEntry | undefined {
    const previous = this.#producers.get(batch.producerId);
    const offsetDelta = lastOffset - baseOffset;
    const metadata: BatchMetadata = {
      lastSequence: batch.baseSequence < 0 ? NO_SEQUENCE : incrementSequence(batch.baseSequence, offsetDelta),
      lastOffset,
      offsetDelta,
      timestamp: batch.maxTimestamp,
    };
    let batches: BatchMetadata[];
    if (previous === undefined || previous.epoch !== batch.producerEpoch) {
      batches = [metadata];
    } else {
      batches = previous.batches.slice(previous.batches.length < REMEMBERED_BATCHES ? 0 : 1);
      batches.push(metadata);
    }
    let txnFirstOffset = previous?.currentTxnFirstOffset ?? -1;
    if (txnFirstOffset < 0 && (batch.attributes & TRANSACTIONAL_BIT) !== 0) {
      txnFirstOffset = baseOffset;
      this.#opened(batch.producerId, baseOffset);
    }
    this.#producers.set(batch.producerId, {
      producerId: batch.producerId,
      epoch: batch.producerEpoch,
      batches,
      lastTimestamp: batch.maxTimestamp,
      coordinatorEpoch: previous?.coordinatorEpoch ?? -1,
      currentTxnFirstOffset: txnFirstOffset,
    });
    return previous;
  }

  /** Notes an end-transaction marker. Gives the entry as it was before. */
  endTransaction(
    producerId: number,
    epoch: number,
    timestamp: number,
    coordinatorEpoch: number,
  ): ProducerEntry | undefined {
    const previous = this.#producers.get(producerId);
    this.#closed(producerId);
    this.#producers.set(producerId, {
      producerId,
      epoch,
      batches: previous === undefined || previous.epoch !== epoch ? [] : previous.batches,
      lastTimestamp: timestamp,
      coordinatorEpoch,
      currentTxnFirstOffset: -1,
    });
    return previous;
  }

  /** Notes a batch that is in the log, without judging it. `coordinatorEpoch` counts for end-transaction markers. */
  replay(batch: BatchInfo, coordinatorEpoch: number): void {
    if (batch.producerId <= NO_PRODUCER_ID) return;
    if ((batch.attributes & CONTROL_BIT) !== 0) {
      this.endTransaction(batch.producerId, batch.producerEpoch, batch.maxTimestamp, coordinatorEpoch);
    } else {
      this.append(batch, batch.baseOffset, batch.lastOffset);
    }
  }

  /** Puts an entry back (undefined: forgets the producer). */
  restore(producerId: number, entry: ProducerEntry | undefined): void {
    this.#closed(producerId);
    if (entry === undefined) {
      this.#producers.delete(producerId);
      return;
    }
    this.#producers.set(producerId, entry);
    if (entry.currentTxnFirstOffset >= 0) this.#opened(producerId, entry.currentTxnFirstOffset);
  }

  /** Forgets producers without an open transaction whose last timestamp is expirationMs or more before now. */
  expire(now: number, expirationMs: number): number {
    let expired = 0;
    for (const entry of this.#producers.values()) {
      if (!isExpired(entry, now, expirationMs)) continue;
      this.#producers.delete(entry.producerId);
      expired++;
    }
    return expired;
  }

  #opened(producerId: number, firstOffset: number): void {
    this.#open.set(producerId, firstOffset);
    if (firstOffset < this.#firstOpen) this.#firstOpen = firstOffset;
  }

  #closed(producerId: number): void {
    const firstOffset = this.#open.get(producerId);
    if (firstOffset === undefined) return;
    this.#open.delete(producerId);
    if (firstOffset !== this.#firstOpen) return;
    this.#firstOpen = Number.POSITIVE_INFINITY;
    for (const offset of this.#open.values()) {
      if (offset < this.#firstOpen) this.#firstOpen = offset;
    }
  }
}

export function isExpired(entry: ProducerEntry, now: number, expirationMs: number): boolean {
  return entry.currentTxnFirstOffset < 0 && now - entry.lastTimestamp >= expirationMs;
}

/** Whether a batch in the log is a control batch of a producer: an end-transaction marker. */
export function isMarker(batch: BatchInfo): boolean {
  return (batch.attributes & CONTROL_BIT) !== 0 && batch.producerId > NO_PRODUCER_ID;
}

/** The transaction that an abort marker ended, for the index; undefined if none was open. `before` is the producer's entry
 * as it was, `state` the state with the marker in it. */
export function abortedBy(
  producerId: number,
  markerOffset: number,
  before: ProducerEntry | undefined,
  state: ProducerState,
): AbortedTransaction | undefined {
  const firstOffset = before?.currentTxnFirstOffset ?? -1;
  if (firstOffset < 0) return undefined;
  const lastStableOffset = Math.min(state.firstOpenOffset, markerOffset + 1);
  return { producerId, firstOffset, lastOffset: markerOffset, lastStableOffset };
}

/**
 * The transaction coordinator: the states of all transactional ids, kept in `__transaction_state`, and what follows from
 * them: markers in the partitions of a transaction that ends, the abort of one whose time is up, and ids that are forgotten.
 *
 * A change is appended and applied in one call, so that the next request sees it; what it leads to, the answer included,
 * waits until it is written. An append that fails takes the id back to what is in the log. An EndTxn is answered when the
 * markers can be read, which is when the transaction's records can.
 */
import {
  type AppendDone,
  coordinatorCode,
  type KeyedRecord,
  type TopicVisitor,
} from '../log/coordinator-topic.ts';
import type { TransactionMarker } from '../log/producer-state.ts';
import { KafkaError } from '../protocol/errors.ts';
import type { Clock, Timer } from '../runtime/clock.ts';
import { BroadsheetError } from '../runtime/errors.ts';
import type { Logger } from '../runtime/logging.ts';
import { MarkerWriter } from './marker-writer.ts';
import { readTransactionRecord, transactionRecord, transactionTombstone } from './transaction-records.ts';
import {
  addPartitions,
  complete,
  type Decision,
  type EndRequest,
  endNeedsProducerId,
  endTransaction,
  fence,
  type InitRequest,
  initNeedsProducerId,
  initProducer,
  isOngoing,
  isOwner,
  isPreparing,
  isResting,
  NO_EPOCH,
  NO_PRODUCER_ID,
  newTransaction,
  type ProducerIdAndEpoch,
  type TransactionState,
  TransactionStatus,
  verifyPartition,
} from './transaction-state.ts';

/** The log of the coordinator, as it sees it; see CoordinatorTopic. */
export interface TransactionLog {
  prepare(): Promise<number> | undefined;
  isAvailable(transactionalId: string): boolean;
  append(transactionalId: string, records: readonly KeyedRecord[], done: AppendDone): void;
  load(visitor: TopicVisitor): Promise<void>;
  leaderEpoch(transactionalId: string): number;
}

/** Values of this moment. */
export interface TransactionSettings {
  /** transaction.max.timeout.ms */
  readonly maxTimeoutMs: number;
  /** transactional.id.expiration.ms */
  readonly expirationMs: number;
  /** transaction.remove.expired.transaction.cleanup.interval.ms */
  readonly expirationCheckMs: number;
  /** transaction.abort.timed.out.transaction.cleanup.interval.ms where it is set; else transactions end on time. */
  readonly timeoutCheckMs: number | undefined;
  /** The finalized level of transaction.version. */
  readonly transactionVersion: number;
}

/** Where the partitions are. */
export interface MarkerTarget {
  /** Writes a marker. `done` hears a Kafka error code once it can be read or was refused, never before this returns. */
  writeMarker(topic: string, index: number, marker: TransactionMarker, done: (code: number) => void): void;
}

export interface TransactionParts {
  readonly log: TransactionLog;
  readonly markers: MarkerTarget;
  readonly settings: TransactionSettings;
  readonly producerIds: { next(): Promise<number> };
  readonly clock: Clock;
  readonly logger: Logger;
}

export interface ProducerAnswer extends ProducerIdAndEpoch {
  readonly errorCode: number;
}

interface Entry {
  /** As of the last append. */
  state: TransactionState;
  /** What is written; undefined: nothing yet. */
  written: TransactionState | undefined;
  /** Appends that have not ended. */
  inFlight: number;
  /** Runs while a transaction is open, and perhaps a little longer. */
  timer: Timer | undefined;
  /** When it fires, ms since the epoch. */
  timerAt: number;
}

/** How long a marker or a state that could not be written waits for the next try, ms. */
const RETRY_MS = 1000;
/** Ids that expire are forgotten so many at a time, some 10 ms of work, with pauses in which others are served, ms. */
const FORGOTTEN_AT_ONCE = 500;
const FORGETTING_PAUSE_MS = 10;

function refusal(errorCode: number): ProducerAnswer {
  return { errorCode, producerId: NO_PRODUCER_ID, producerEpoch: NO_EPOCH };
}

export class TransactionCoordinator {
  readonly #parts: TransactionParts;
  readonly #entries = new Map<string, Entry>();
  readonly #timers = new Set<Timer>();
  readonly #markers: MarkerWriter;
  #closed = false;

  constructor(parts: TransactionParts) {
    this.#parts = parts;
    const after = (ms: number, fn: () => void) => this.#after(ms, fn);
    this.#markers = new MarkerWriter(parts.markers, after, RETRY_MS, parts.logger);
  }

  get #now(): number {
    return this.#parts.clock.now();
  }

  /** See CoordinatorTopic.prepare(). */
  prepare(): Promise<number> | undefined {
    return this.#parts.log.prepare();
  }

  /** NONE, or why nothing can be said of an id now. */
  availability(transactionalId: string): number {
    const available = !this.#closed && this.#parts.log.isAvailable(transactionalId);
    return available ? KafkaError.NONE : KafkaError.COORDINATOR_NOT_AVAILABLE;
  }

  state(transactionalId: string): TransactionState | undefined {
    return this.#entries.get(transactionalId)?.state;
  }

  *states(): Generator<TransactionState> {
    for (const { state } of this.#entries.values()) yield state;
  }

  // --- requests ---

  /** Gives a transactional id its producer id and epoch; whoever had them before is fenced. An open transaction is aborted
   * first: CONCURRENT_TRANSACTIONS tells the client to come again. */
  async initProducerId(transactionalId: string, request: InitRequest): Promise<ProducerAnswer> {
    const { log, settings, producerIds } = this.#parts;
    if (transactionalId === '') return refusal(KafkaError.INVALID_REQUEST);
    if (!(request.timeoutMs > 0 && request.timeoutMs <= settings.maxTimeoutMs))
      return refusal(KafkaError.INVALID_TRANSACTION_TIMEOUT);
    const creation = await log.prepare();
    if (creation !== undefined && creation !== KafkaError.NONE) return refusal(creation);
    const unavailable = this.availability(transactionalId);
    if (unavailable !== KafkaError.NONE) return refusal(unavailable);
    let newId = NO_PRODUCER_ID;
    for (;;) {
      const known = this.state(transactionalId);
      if (newId !== NO_PRODUCER_ID || (known !== undefined && !initNeedsProducerId(known, request))) break;
      newId = await producerIds.next();
    }
    return new Promise((resolve) => this.#init(transactionalId, request, newId, resolve));
  }

  #init(
    transactionalId: string,
    request: InitRequest,
    newId: number,
    respond: (answer: ProducerAnswer) => void,
  ): void {
    const now = this.#now;
    const known = this.#entries.get(transactionalId);
    const entry = known ?? {
      state: newTransaction(transactionalId, newId, request.timeoutMs, now),
      written: undefined,
      inFlight: 0,
      timer: undefined,
      timerAt: 0,
    };
    const { state } = entry;
    if (isOngoing(state) && isOwner(state, request.expected)) {
      this.#fence(entry, (code) => respond(refusal(code || KafkaError.CONCURRENT_TRANSACTIONS)));
      return;
    }
    const { code, next } = initProducer(state, request, newId, now);
    if (next === undefined) {
      respond(refusal(code));
      return;
    }
    if (known === undefined) this.#entries.set(transactionalId, entry);
    this.#change(entry, next, (errorCode) => {
      const { producerId, producerEpoch } = next;
      respond(errorCode === KafkaError.NONE ? { errorCode, producerId, producerEpoch } : refusal(errorCode));
    });
  }

  /** Adds partitions to the producer's transaction; `respond` hears an error code once that is written. */
  addPartitions(
    transactionalId: string,
    producer: ProducerIdAndEpoch,
    partitions: Iterable<readonly [topic: string, index: number]>,
    clientVersion: number,
    respond: (code: number) => void,
  ): void {
    const entry = this.#find(transactionalId);
    if (typeof entry === 'number') {
      respond(entry);
      return;
    }
    const decision = addPartitions(entry.state, producer, partitions, clientVersion, this.#now);
    if (decision.next !== undefined) this.#change(entry, decision.next, respond);
    // What it rests on may not be written yet.
    else if (decision.code === KafkaError.NONE && entry.inFlight > 0)
      this.#change(entry, entry.state, respond);
    else respond(decision.code);
  }

  /** Whether a partition is in the producer's open transaction, and that is written: an error code. What rests on a record that
   * may still fail would be left open for ever if it did. */
  verify(transactionalId: string, producer: ProducerIdAndEpoch, topic: string, index: number): number {
    const entry = this.#find(transactionalId);
    if (typeof entry === 'number') return entry;
    const { state, written } = entry;
    const code = verifyPartition(state, producer, topic, index);
    if (code !== KafkaError.NONE || written === state) return code;
    const isWritten =
      written !== undefined && verifyPartition(written, producer, topic, index) === KafkaError.NONE;
    return isWritten ? KafkaError.NONE : KafkaError.CONCURRENT_TRANSACTIONS;
  }

  /** Commits or aborts; `respond` hears of it when the transaction's records can be read, or never will be, with the
   * producer id and epoch that the client has from now on. */
  endTransaction(
    transactionalId: string,
    request: EndRequest,
    respond: (answer: ProducerAnswer) => void,
    newId = NO_PRODUCER_ID,
  ): void {
    const entry = this.#find(transactionalId);
    if (typeof entry === 'number') {
      respond(refusal(entry));
      return;
    }
    const { state } = entry;
    const { code, next }: Decision = endTransaction(state, request, newId, this.#now);
    if (next === undefined) {
      const { producerId, producerEpoch } = state;
      respond(code === KafkaError.NONE ? { errorCode: code, producerId, producerEpoch } : refusal(code));
      return;
    }
    if (endNeedsProducerId(state, request.clientVersion) && newId === NO_PRODUCER_ID) {
      this.#parts.producerIds.next().then(
        (id) => this.endTransaction(transactionalId, request, respond, id),
        () => respond(refusal(KafkaError.COORDINATOR_NOT_AVAILABLE)),
      );
      return;
    }
    this.#change(entry, next, (errorCode) => {
      if (errorCode !== KafkaError.NONE) {
        respond(refusal(errorCode));
        return;
      }
      this.#finish(entry, next, () => {
        const { producerId, producerEpoch } = complete(next, next.lastUpdateTimestamp);
        respond({ errorCode: KafkaError.NONE, producerId, producerEpoch });
      });
    });
  }

  #find(transactionalId: string): Entry | number {
    if (transactionalId === '') return KafkaError.INVALID_REQUEST;
    const unavailable = this.availability(transactionalId);
    if (unavailable !== KafkaError.NONE) return unavailable;
    return this.#entries.get(transactionalId) ?? KafkaError.INVALID_PRODUCER_ID_MAPPING;
  }

  /** False once the coordinator's topic was deleted under what the entry waits for. */
  #isKnown(entry: Entry): boolean {
    return this.#entries.get(entry.state.transactionalId) === entry;
  }

  // --- changes ---

  #change(entry: Entry, next: TransactionState, done: (code: number) => void): void {
    const { log, settings } = this.#parts;
    const { transactionalId } = next;
    entry.state = next;
    entry.inFlight++;
    if (isOngoing(next)) this.#watchTime(entry);
    const record = transactionRecord(next, settings.transactionVersion >= 1 ? 1 : 0);
    log.append(transactionalId, [record], (code) => {
      entry.inFlight--;
      if (code === KafkaError.NONE) entry.written = next;
      else if (entry.written !== undefined) entry.state = entry.written;
      else if (this.#entries.get(transactionalId) === entry) this.#entries.delete(transactionalId);
      done(coordinatorCode(code));
    });
  }

  /** Aborts an open transaction without its client. CONCURRENT_TRANSACTIONS: it changed before that could begin. */
  #fence(entry: Entry, done: (code: number) => void, newId = NO_PRODUCER_ID): void {
    const { state } = entry;
    const { producerIds, settings } = this.#parts;
    const { transactionVersion } = settings;
    if (endNeedsProducerId(state, transactionVersion) && newId === NO_PRODUCER_ID) {
      producerIds.next().then(
        (id) => {
          const isSame = !this.#closed && this.#isKnown(entry) && entry.state === state;
          if (isSame) this.#fence(entry, done, id);
          else done(KafkaError.CONCURRENT_TRANSACTIONS);
        },
        () => done(KafkaError.COORDINATOR_NOT_AVAILABLE),
      );
      return;
    }
    const next = fence(state, transactionVersion, newId, this.#now);
    this.#change(entry, next, (code) => {
      if (code === KafkaError.NONE) this.#finish(entry, next, () => {});
      done(code);
    });
  }

  /** Writes the markers of a prepared transaction, then that it is complete. `done` is called when all that could be
   * written at once is; the rest is tried again until it succeeds. */
  #finish(entry: Entry, prepared: TransactionState, done: () => void): void {
    const { transactionalId } = prepared;
    const marker: TransactionMarker = {
      producerId: prepared.producerId,
      producerEpoch: prepared.producerEpoch,
      commit: prepared.status === TransactionStatus.PrepareCommit,
      coordinatorEpoch: this.#parts.log.leaderEpoch(transactionalId),
      transactionVersion: prepared.clientVersion,
    };
    let answered = false;
    const once = () => {
      if (!answered) done();
      answered = true;
    };
    const completed = () => {
      if (this.#closed || !this.#isKnown(entry) || entry.state !== prepared) return once();
      this.#change(entry, complete(prepared, this.#now), (code) => {
        if (code !== KafkaError.NONE) this.#after(RETRY_MS, completed);
        once();
      });
    };
    this.#markers.write(marker, prepared.partitions, completed, once);
  }

  // --- time ---

  #after(ms: number, fn: () => void): void {
    if (this.#closed) return;
    const timer = this.#parts.clock.setTimer(ms, () => {
      this.#timers.delete(timer);
      if (!this.#closed) fn();
    });
    this.#timers.add(timer);
  }

  /** One timer an id, that is not set anew for each transaction: it finds out for how long it has to go on. Only one that would
   * come too late, since the id got a shorter timeout, is. */
  #watchTime(entry: Entry): void {
    if (this.#parts.settings.timeoutCheckMs !== undefined || this.#closed) return;
    const at = entry.state.startTimestamp + entry.state.timeoutMs;
    if (entry.timer !== undefined && entry.timerAt <= at) return;
    entry.timer?.cancel();
    entry.timerAt = at;
    entry.timer = this.#parts.clock.setTimer(at - this.#now, () => {
      entry.timer = undefined;
      if (!this.#closed && isOngoing(entry.state) && !this.#abortLate(entry)) this.#watchTime(entry);
    });
  }

  #abortLate(entry: Entry): boolean {
    const { transactionalId, startTimestamp, timeoutMs, producerId, producerEpoch } = entry.state;
    if (!this.#isKnown(entry) || !isOngoing(entry.state) || startTimestamp + timeoutMs > this.#now)
      return false;
    this.#parts.logger.info(
      { transactionalId, producerId, producerEpoch, timeoutMs },
      `the transaction of ${transactionalId} was open for longer than its timeout and is aborted`,
    );
    this.#fence(entry, (code) => {
      if (code !== KafkaError.NONE) this.#after(RETRY_MS, () => void this.#abortLate(entry));
    });
    return true;
  }

  #every(ms: () => number, task: () => void): void {
    this.#after(ms(), () => {
      task();
      this.#every(ms, task);
    });
  }

  /** Forgets ids that have not been used for long; some at a time, for there may be very many. */
  #expire(): void {
    const expired: string[] = [];
    for (const [transactionalId, { state, inFlight }] of this.#entries) {
      if (this.#isExpired(state) && inFlight === 0) expired.push(transactionalId);
    }
    if (expired.length > 0) this.#forget(expired, 0);
  }

  #isExpired(state: TransactionState): boolean {
    return isResting(state) && state.lastUpdateTimestamp <= this.#now - this.#parts.settings.expirationMs;
  }

  #forget(transactionalIds: readonly string[], from: number): void {
    const { log } = this.#parts;
    const upTo = from + FORGOTTEN_AT_ONCE;
    for (const transactionalId of transactionalIds.slice(from, upTo)) {
      const entry = this.#entries.get(transactionalId);
      // It may have been used since.
      if (entry === undefined || entry.inFlight > 0 || !this.#isExpired(entry.state)) continue;
      if (!log.isAvailable(transactionalId)) continue;
      this.#entries.delete(transactionalId);
      log.append(transactionalId, [transactionTombstone(transactionalId)], (code) => {
        if (code !== KafkaError.NONE && !this.#entries.has(transactionalId))
          this.#entries.set(transactionalId, entry);
      });
    }
    if (upTo < transactionalIds.length)
      this.#after(FORGETTING_PAUSE_MS, () => this.#forget(transactionalIds, upTo));
  }

  // --- life ---

  /** Reads all ids. Transactions that were about to end are ended, those that are open have until their timeout. */
  async load(): Promise<void> {
    const { log, logger, settings, clock } = this.#parts;
    const began = clock.monotonic();
    let broken = 0;
    await log.load({
      record: (key, value) => {
        try {
          const read = readTransactionRecord(key, value);
          if (read === undefined) broken++;
          else if (read.state === undefined || read.state.status === TransactionStatus.Dead)
            this.#entries.delete(read.transactionalId);
          else {
            const { state } = read;
            this.#entries.set(state.transactionalId, {
              state,
              written: state,
              inFlight: 0,
              timer: undefined,
              timerAt: 0,
            });
          }
        } catch (error) {
          if (!(error instanceof BroadsheetError) || error.code !== 'MALFORMED') throw error;
          broken++;
        }
      },
    });
    if (this.#closed) return;
    if (broken > 0)
      logger.error({ records: broken }, 'records of transactions that cannot be read were left out');
    if (this.#entries.size > 0) {
      const ms = Math.round(clock.monotonic() - began);
      logger.info({ transactionalIds: this.#entries.size, ms }, 'transactional ids are loaded');
    }
    for (const entry of this.#entries.values()) {
      if (isPreparing(entry.state)) this.#finish(entry, entry.state, () => {});
      else if (isOngoing(entry.state)) this.#watchTime(entry);
    }
    const { timeoutCheckMs } = settings;
    if (timeoutCheckMs !== undefined) {
      this.#every(
        () => timeoutCheckMs,
        () => {
          for (const entry of this.#entries.values()) this.#abortLate(entry);
        },
      );
    }
    this.#every(
      () => settings.expirationCheckMs,
      () => this.#expire(),
    );
  }

  /** The coordinator's own topic is gone, and with it all ids. */
  clear(): void {
    for (const { timer } of this.#entries.values()) timer?.cancel();
    this.#entries.clear();
  }

  close(): void {
    this.#closed = true;
    for (const timer of this.#timers) timer.cancel();
    this.#timers.clear();
    this.clear();
  }
}

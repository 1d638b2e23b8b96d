/**
 * What the coordinator knows of one transactional id, and how it may change: pure functions from a state, a request and the
 * time to the next state or a Kafka error code. Rules as in Apache Kafka 4.4 (KIP-98, KIP-360, KIP-890).
 *
 * A client of transaction.version 2 (TV2) gets a new epoch with the end of each transaction, and asks for partitions by
 * producing to them; the marker then has the new epoch. Before it the epoch changes with InitProducerId only.
 */
import { KafkaError } from '../protocol/errors.ts';

/** Codes as they lie in the log. */
export const TransactionStatus = {
  Empty: 0,
  Ongoing: 1,
  PrepareCommit: 2,
  PrepareAbort: 3,
  CompleteCommit: 4,
  CompleteAbort: 5,
  Dead: 6,
  PrepareEpochFence: 7,
} as const;
export type TransactionStatusName = keyof typeof TransactionStatus;
export type TransactionStatus = (typeof TransactionStatus)[TransactionStatusName];

const NAMES = Object.keys(TransactionStatus) as TransactionStatusName[];

export function statusName(status: TransactionStatus): TransactionStatusName {
  return NAMES[status]!;
}

export const NO_PRODUCER_ID = -1;
export const NO_EPOCH = -1;
/** Epochs from here on are not given to clients: one more is needed to fence the one before it. */
const EXHAUSTED_EPOCH = 2 ** 15 - 2;
/** Of markers that end the last transaction of a producer id; no client has it. */
const LAST_EPOCH = 2 ** 15 - 1;
/** The transaction.version from which on the epoch is bumped with each end. */
const EPOCH_BUMPS_SINCE = 2;

export function bumpsEpochs(transactionVersion: number): boolean {
  return transactionVersion >= EPOCH_BUMPS_SINCE;
}

/** Partitions by topic. */
export type TransactionPartitions = ReadonlyMap<string, ReadonlySet<number>>;

const NO_PARTITIONS: TransactionPartitions = new Map();

export interface TransactionState {
  readonly transactionalId: string;
  readonly producerId: number;
  /** That of the state before this one. */
  readonly previousProducerId: number;
  /** What the id will be once the transaction has ended, or -1: the epochs of the one it has are used up. */
  readonly nextProducerId: number;
  readonly producerEpoch: number;
  /** What the client had before its epoch was bumped at its own wish, or -1; not in the log. */
  readonly lastProducerEpoch: number;
  /** KIP-939; kept as it is. */
  readonly nextProducerEpoch: number;
  readonly timeoutMs: number;
  readonly status: TransactionStatus;
  readonly partitions: TransactionPartitions;
  /** ms since the epoch, -1 before the first transaction. */
  readonly startTimestamp: number;
  readonly lastUpdateTimestamp: number;
  /** transaction.version of the client that wrote this state. */
  readonly clientVersion: number;
}

/** Either the next state, or why there is none; NONE without a state: nothing is to be done. */
export interface Decision {
  readonly code: number;
  readonly next?: TransactionState;
}

const refused = (code: number): Decision => ({ code });

export interface ProducerIdAndEpoch {
  readonly producerId: number;
  readonly producerEpoch: number;
}

/** A transactional id that was never seen. */
export function newTransaction(
  transactionalId: string,
  producerId: number,
  timeoutMs: number,
  now: number,
): TransactionState {
  return {
    transactionalId,
    producerId,
    previousProducerId: NO_PRODUCER_ID,
    nextProducerId: NO_PRODUCER_ID,
    producerEpoch: NO_EPOCH,
    lastProducerEpoch: NO_EPOCH,
    nextProducerEpoch: NO_EPOCH,
    timeoutMs,
    status: TransactionStatus.Empty,
    partitions: NO_PARTITIONS,
    startTimestamp: -1,
    lastUpdateTimestamp: now,
    clientVersion: 0,
  };
}

type Changes = Partial<Omit<TransactionState, 'transactionalId' | 'previousProducerId'>>;

/** Every state that is written comes from here, and markers have the epoch of a state. One that ran over would let the owner of
 * an older epoch in again. */
function changed(state: TransactionState, now: number, changes: Changes): TransactionState {
  const next = { ...state, previousProducerId: state.producerId, lastUpdateTimestamp: now, ...changes };
  const { transactionalId, producerId, producerEpoch } = next;
  if (!(producerEpoch >= 0 && producerEpoch <= LAST_EPOCH))
    throw new Error(`${transactionalId} came to epoch ${producerEpoch} of producer ${producerId}`);
  return next;
}

function accepted(next: TransactionState): Decision {
  return { code: KafkaError.NONE, next };
}

export function isPreparing({ status }: TransactionState): boolean {
  return status === TransactionStatus.PrepareCommit || status === TransactionStatus.PrepareAbort;
}

export function isOngoing({ status }: TransactionState): boolean {
  return status === TransactionStatus.Ongoing;
}

/** Neither is a transaction open nor one ending. */
export function isResting({ status }: TransactionState): boolean {
  return (
    status === TransactionStatus.Empty ||
    status === TransactionStatus.CompleteCommit ||
    status === TransactionStatus.CompleteAbort
  );
}

export function epochIsExhausted(epoch: number): boolean {
  return epoch >= EXHAUSTED_EPOCH;
}

/** A state as it lies in the log. Former versions let epochs run over: such an id is at its last epoch, so that what is open
 * or ending is ended with that, and the next InitProducerId takes a new id. */
export function loaded(state: TransactionState): TransactionState {
  if (state.producerEpoch >= 0) return state;
  const clientVersion = Math.min(state.clientVersion, EPOCH_BUMPS_SINCE - 1);
  return { ...state, producerEpoch: LAST_EPOCH, clientVersion };
}

/** What an end of a transaction that bumps the epoch makes of it. Nobody should have the last one; who does all the same has his
 * transaction ended with it, as by a client of before transaction.version 2. */
function bumped(state: TransactionState, clientVersion: number): Changes {
  const { producerEpoch } = state;
  if (producerEpoch >= LAST_EPOCH) return { clientVersion: Math.min(clientVersion, EPOCH_BUMPS_SINCE - 1) };
  return { clientVersion, producerEpoch: producerEpoch + 1 };
}

export function contains(partitions: TransactionPartitions, topic: string, index: number): boolean {
  return partitions.get(topic)?.has(index) === true;
}

// --- InitProducerId ---

/** What a client asks InitProducerId for. */
export interface InitRequest {
  readonly timeoutMs: number;
  /** What the client has, if it goes on after an error (KIP-360). */
  readonly expected: ProducerIdAndEpoch | undefined;
}

/** Whether InitProducerId takes a new producer id in this state. */
export function initNeedsProducerId(state: TransactionState, { expected }: InitRequest): boolean {
  return (
    isResting(state) &&
    epochIsExhausted(state.producerEpoch) &&
    (expected === undefined || expected.producerEpoch === state.producerEpoch)
  );
}

/** `newProducerId` is used where initNeedsProducerId() says so. An open transaction has to be aborted first: see fence(). */
export function initProducer(
  state: TransactionState,
  request: InitRequest,
  newProducerId: number,
  now: number,
): Decision {
  const { expected, timeoutMs } = request;
  if (!isOwner(state, expected)) return refused(KafkaError.PRODUCER_FENCED);
  if (!isResting(state)) return refused(KafkaError.CONCURRENT_TRANSACTIONS);
  const { producerEpoch, lastProducerEpoch } = state;
  const empty = { status: TransactionStatus.Empty, partitions: NO_PARTITIONS, startTimestamp: -1, timeoutMs };
  if (initNeedsProducerId(state, request)) {
    const last = expected === undefined ? NO_EPOCH : producerEpoch;
    const fresh = { producerId: newProducerId, producerEpoch: 0, lastProducerEpoch: last };
    return accepted(changed(state, now, { ...empty, ...fresh }));
  }
  const bumped = { ...empty, producerEpoch: producerEpoch + 1 };
  if (expected === undefined)
    return accepted(changed(state, now, { ...bumped, lastProducerEpoch: NO_EPOCH }));
  if (producerEpoch === NO_EPOCH || expected.producerEpoch === producerEpoch)
    return accepted(changed(state, now, { ...bumped, lastProducerEpoch: producerEpoch }));
  // Asked again because the answer was lost: had anybody else come in between, the last epoch would be -1.
  if (expected.producerEpoch === lastProducerEpoch) return accepted(changed(state, now, empty));
  return refused(KafkaError.PRODUCER_FENCED);
}

/** Whether a client that names an id may have had it: now, or before its epochs were used up. */
export function isOwner(state: TransactionState, expected: ProducerIdAndEpoch | undefined): boolean {
  if (expected === undefined || state.producerEpoch === NO_EPOCH) return true;
  if (expected.producerId === state.producerId) return true;
  return expected.producerId === state.previousProducerId && epochIsExhausted(expected.producerEpoch);
}

// --- adding partitions ---

/** Adds partitions to the transaction, and begins one where none is open. `clientVersion` is the client's
 * transaction.version. */
export function addPartitions(
  state: TransactionState,
  producer: ProducerIdAndEpoch,
  added: Iterable<readonly [topic: string, index: number]>,
  clientVersion: number,
  now: number,
): Decision {
  const fault = producerFault(state, producer);
  if (fault !== KafkaError.NONE) return refused(fault);
  const ongoing = isOngoing(state);
  const partitions = new Map(ongoing ? state.partitions : NO_PARTITIONS);
  /** Topics whose partitions are no longer those of `state`. */
  const grown = new Map<string, Set<number>>();
  for (const [topic, index] of added) {
    if (contains(partitions, topic, index)) continue;
    let indexes = grown.get(topic);
    if (indexes === undefined) {
      indexes = new Set(partitions.get(topic));
      grown.set(topic, indexes);
      partitions.set(topic, indexes);
    }
    indexes.add(index);
  }
  if (ongoing && grown.size === 0) return refused(KafkaError.NONE);
  const startTimestamp = ongoing ? state.startTimestamp : now;
  const { Ongoing } = TransactionStatus;
  return accepted(changed(state, now, { status: Ongoing, partitions, startTimestamp, clientVersion }));
}

/** Why a producer may not go on with the id's transaction now, or NONE. */
function producerFault(state: TransactionState, { producerId, producerEpoch }: ProducerIdAndEpoch): number {
  if (state.producerId !== producerId) return KafkaError.INVALID_PRODUCER_ID_MAPPING;
  if (state.producerEpoch !== producerEpoch) return KafkaError.PRODUCER_FENCED;
  return isResting(state) || isOngoing(state) ? KafkaError.NONE : KafkaError.CONCURRENT_TRANSACTIONS;
}

/** Whether a partition is in the producer's open transaction: an error code. */
export function verifyPartition(
  state: TransactionState,
  producer: ProducerIdAndEpoch,
  topic: string,
  index: number,
): number {
  const fault = producerFault(state, producer);
  if (fault !== KafkaError.NONE) return fault;
  return isOngoing(state) && contains(state.partitions, topic, index)
    ? KafkaError.NONE
    : KafkaError.TRANSACTION_ABORTABLE;
}

// --- ending ---

export interface EndRequest extends ProducerIdAndEpoch {
  readonly commit: boolean;
  /** The client's transaction.version. */
  readonly clientVersion: number;
}

/** Whether ending the transaction takes a new producer id: its epoch cannot be bumped once more for the next one. */
export function endNeedsProducerId(state: TransactionState, clientVersion: number): boolean {
  return bumpsEpochs(clientVersion) && epochIsExhausted(state.producerEpoch);
}

/** Ends the transaction for its client: the next state is PrepareCommit or PrepareAbort. */
export function endTransaction(
  state: TransactionState,
  request: EndRequest,
  newProducerId: number,
  now: number,
): Decision {
  return bumpsEpochs(request.clientVersion)
    ? endWithBump(state, request, newProducerId, now)
    : endWithoutBump(state, request, now);
}

function endWithoutBump(state: TransactionState, request: EndRequest, now: number): Decision {
  const { producerId, producerEpoch, commit } = request;
  if (state.producerId !== producerId) return refused(KafkaError.INVALID_PRODUCER_ID_MAPPING);
  if (state.producerEpoch !== producerEpoch) return refused(KafkaError.PRODUCER_FENCED);
  switch (state.status) {
    case TransactionStatus.Ongoing:
      return accepted(prepareEnd(state, request, NO_PRODUCER_ID, now));
    case TransactionStatus.PrepareCommit:
      return refused(commit ? KafkaError.CONCURRENT_TRANSACTIONS : KafkaError.INVALID_TXN_STATE);
    case TransactionStatus.PrepareAbort:
      return refused(commit ? KafkaError.INVALID_TXN_STATE : KafkaError.CONCURRENT_TRANSACTIONS);
    case TransactionStatus.CompleteCommit:
      return refused(commit ? KafkaError.NONE : KafkaError.INVALID_TXN_STATE);
    case TransactionStatus.CompleteAbort:
      return refused(commit ? KafkaError.INVALID_TXN_STATE : KafkaError.NONE);
    default:
      return refused(KafkaError.INVALID_TXN_STATE);
  }
}

/** A request that is repeated shows in its epoch: the one before the bump. */
function endWithBump(
  state: TransactionState,
  request: EndRequest,
  newProducerId: number,
  now: number,
): Decision {
  const { producerId, producerEpoch, commit } = request;
  const { PrepareCommit, PrepareAbort, CompleteCommit, CompleteAbort, Ongoing } = TransactionStatus;
  const { status } = state;
  const isOfId = state.producerId === producerId;
  const beforeRotation =
    state.previousProducerId === producerId && producerEpoch === EXHAUSTED_EPOCH && state.producerEpoch === 0;
  if (!isOfId && !beforeRotation) return refused(KafkaError.INVALID_PRODUCER_ID_MAPPING);
  const beforeBump = isOfId && state.producerEpoch === producerEpoch + 1;
  const current = isOfId && state.producerEpoch === producerEpoch;
  const repeated = beforeBump || beforeRotation;
  const completed = status === CompleteCommit || status === CompleteAbort;
  const valid = isPreparing(state) ? beforeBump : current || (completed && repeated);
  if (!valid) return refused(KafkaError.PRODUCER_FENCED);
  const prepare = () => accepted(prepareEnd(state, request, newProducerId, now));
  switch (status) {
    case Ongoing:
      return prepare();
    case PrepareCommit:
      return refused(commit ? KafkaError.CONCURRENT_TRANSACTIONS : KafkaError.INVALID_TXN_STATE);
    case PrepareAbort:
      return refused(commit ? KafkaError.INVALID_TXN_STATE : KafkaError.CONCURRENT_TRANSACTIONS);
    case CompleteCommit:
      if (repeated) return refused(commit ? KafkaError.NONE : KafkaError.INVALID_TXN_STATE);
      break;
    case CompleteAbort:
      if (repeated && !commit) return refused(KafkaError.NONE);
      break;
    default:
  }
  // Nothing was produced: that can be aborted, and not committed.
  return commit ? refused(KafkaError.INVALID_TXN_STATE) : prepare();
}

function prepareEnd(
  state: TransactionState,
  { commit, clientVersion }: EndRequest,
  newProducerId: number,
  now: number,
): TransactionState {
  const bump = bumpsEpochs(clientVersion)
    ? { ...bumped(state, clientVersion), lastProducerEpoch: state.producerEpoch }
    : { clientVersion };
  return changed(state, now, {
    ...bump,
    status: commit ? TransactionStatus.PrepareCommit : TransactionStatus.PrepareAbort,
    nextProducerId: endNeedsProducerId(state, clientVersion) ? newProducerId : NO_PRODUCER_ID,
    startTimestamp: isOngoing(state) ? state.startTimestamp : now,
  });
}

/** Aborts an open transaction without its client (its time is up, or somebody asks for the id): the epoch that it has is
 * worth nothing from now on. With transaction.version 2 it may go on with InitProducerId, unless another came first.
 * `newProducerId` is used where endNeedsProducerId() says so. */
export function fence(
  state: TransactionState,
  clientVersion: number,
  newProducerId: number,
  now: number,
): TransactionState {
  return changed(state, now, {
    ...bumped(state, clientVersion),
    lastProducerEpoch: bumpsEpochs(clientVersion) ? state.producerEpoch : NO_EPOCH,
    status: TransactionStatus.PrepareAbort,
    nextProducerId: endNeedsProducerId(state, clientVersion) ? newProducerId : NO_PRODUCER_ID,
  });
}

/** All markers are written. */
export function complete(state: TransactionState, now: number): TransactionState {
  const { PrepareCommit, CompleteCommit, CompleteAbort } = TransactionStatus;
  const rotated = state.nextProducerId !== NO_PRODUCER_ID;
  return changed(state, now, {
    ...(rotated ? { producerId: state.nextProducerId, producerEpoch: 0 } : {}),
    nextProducerId: NO_PRODUCER_ID,
    status: state.status === PrepareCommit ? CompleteCommit : CompleteAbort,
    partitions: NO_PARTITIONS,
  });
}

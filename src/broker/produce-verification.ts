/**
 * Whether transactional batches may be appended (KIP-890): only where the coordinator knows that the partition is part of the
 * producer's open transaction. Producers of transaction.version 2 do not ask for partitions, producing to them is asking.
 */
import type { Partition } from '../log/partition.ts';
import { NO_PRODUCER_EPOCH } from '../log/producer-state.ts';
import { errorName, KafkaError } from '../protocol/errors.ts';
import {
  ATTRIBUTE_TRANSACTIONAL,
  ATTRIBUTES_AT,
  BASE_SEQUENCE_AT,
  BATCH_HEADER_BYTES,
  MAGIC_AT,
  PRODUCER_EPOCH_AT,
  PRODUCER_ID_AT,
} from '../protocol/records/batch.ts';
import { readInt64 } from '../protocol/records/int64.ts';
import type { TransactionCoordinator } from '../transaction/transaction-coordinator.ts';
import type { ProducerIdAndEpoch } from '../transaction/transaction-state.ts';

/** What a client of a certain age understands, newest first. */
export type VerificationSupport = 'adds-partitions' | 'knows-abortable' | 'none';

const MAGIC = 2;

export interface TransactionalBatch extends ProducerIdAndEpoch {
  readonly baseSequence: number;
}

/** Who sent a transactional batch, and its first sequence number; undefined for any other bytes. */
export function transactionalBatch(
  bytes: Uint8Array,
  start: number,
  end: number,
): TransactionalBatch | undefined {
  if (start < 0 || end - start < BATCH_HEADER_BYTES || bytes[start + MAGIC_AT] !== MAGIC) return undefined;
  if ((bytes[start + ATTRIBUTES_AT + 1]! & ATTRIBUTE_TRANSACTIONAL) === 0) return undefined;
  const view = new DataView(bytes.buffer, bytes.byteOffset + start, BATCH_HEADER_BYTES);
  return {
    producerId: readInt64(view, PRODUCER_ID_AT),
    producerEpoch: view.getInt16(PRODUCER_EPOCH_AT),
    baseSequence: view.getInt32(BASE_SEQUENCE_AT),
  };
}

export interface VerificationFault {
  readonly code: number;
  /** Null where the code says it all: clients then show their own text for it. */
  readonly message: string | null;
}

/** Whether the coordinator is asked about a batch: an open transaction of the producer allows it, and a higher epoch of it forbids
 * it, whatever became of its transactional id. */
export function isForCoordinator(
  { producers }: Partition,
  { producerId, producerEpoch }: ProducerIdAndEpoch,
): boolean {
  return (
    !producers.hasOpenTransaction(producerId, producerEpoch) && !producers.isFenced(producerId, producerEpoch)
  );
}

/** Why a transactional batch must not be appended now, or undefined. `added` is what became of adding the partition to the
 * transaction, where the request does that. */
export function verifyTransactional(
  transactions: TransactionCoordinator,
  transactionalId: string,
  producer: ProducerIdAndEpoch,
  partition: Partition,
  support: VerificationSupport,
  added: number,
): VerificationFault | undefined {
  const { producerId, producerEpoch } = producer;
  const { topic, index, producers } = partition;
  if (producers.hasOpenTransaction(producerId, producerEpoch)) return undefined;
  if (producers.isFenced(producerId, producerEpoch))
    return verificationFault(KafkaError.PRODUCER_FENCED, support);
  const code = added || transactions.verify(transactionalId, producer, topic, index);
  return code === KafkaError.NONE ? undefined : verificationFault(code, support);
}

/** Under transaction.version 2 each transaction begins with sequence 0: to a partition that does not know the producer, a later
 * batch has come before the first, which would be refused then (KIP-890). */
export function missesFirstBatch(
  { producers }: Partition,
  { producerId, baseSequence }: TransactionalBatch,
): VerificationFault | undefined {
  const epoch = producers.get(producerId)?.epoch ?? NO_PRODUCER_EPOCH;
  if (baseSequence <= 0 || epoch !== NO_PRODUCER_EPOCH) return undefined;
  const message = `producer ${producerId} is new to the partition and sent sequence ${baseSequence}, expected 0`;
  return { code: KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, message };
}

/** A code of the coordinator as producers of that age are told. */
export function verificationFault(code: number, support: VerificationSupport): VerificationFault {
  const reason = `the partition is not known to be part of the transaction: ${errorName(code)}`;
  switch (code) {
    case KafkaError.PRODUCER_FENCED:
      return { code: KafkaError.INVALID_PRODUCER_EPOCH, message: null };
    case KafkaError.TRANSACTION_ABORTABLE:
      return support === 'none'
        ? { code: KafkaError.INVALID_TXN_STATE, message: 'the partition was not added to the transaction' }
        : { code, message: null };
    case KafkaError.CONCURRENT_TRANSACTIONS:
      if (support === 'adds-partitions') return { code, message: reason };
      return { code: KafkaError.NOT_ENOUGH_REPLICAS, message: reason };
    case KafkaError.COORDINATOR_NOT_AVAILABLE:
    case KafkaError.COORDINATOR_LOAD_IN_PROGRESS:
    case KafkaError.NOT_COORDINATOR:
      return { code: KafkaError.NOT_ENOUGH_REPLICAS, message: reason };
    default:
      return { code, message: null };
  }
}

/** Records of `__transaction_state`: a key is int16 0 and the transactional id, a value an int16 version and the state of
 * the id; a null value means that the id is forgotten. */
import type { KeyedRecord } from '../log/coordinator-topic.ts';
import * as schemas from '../protocol/generated/transaction-log.ts';
import { Reader } from '../protocol/reader.ts';
import { Writer } from '../protocol/writer.ts';
import { BroadsheetError } from '../runtime/errors.ts';
import { loaded, NO_EPOCH, type TransactionState, TransactionStatus } from './transaction-state.ts';

const KEY_TYPE = 0;
const KEY_VERSION = 0;
const MAX_STATUS = TransactionStatus.PrepareEpochFence;

function keyOf(transactionalId: string): Uint8Array {
  const writer = new Writer(64);
  writer.int16(KEY_TYPE);
  schemas.writeTransactionLogKey(writer, KEY_VERSION, { transactionalId });
  return writer.bytes();
}

/** `valueVersion`: 0 below transaction.version 1, then 1. */
export function transactionRecord(state: TransactionState, valueVersion: number): KeyedRecord {
  const writer = new Writer(128);
  writer.int16(valueVersion);
  const partitions = Array.from(state.partitions, ([topic, ids]) => ({ topic, partitionIds: [...ids] }));
  const tagged =
    valueVersion < 1
      ? {}
      : {
          previousProducerId: state.previousProducerId,
          nextProducerId: state.nextProducerId,
          nextProducerEpoch: state.nextProducerEpoch,
          clientTransactionVersion: state.clientVersion,
        };
  schemas.writeTransactionLogValue(writer, valueVersion, {
    producerId: state.producerId,
    producerEpoch: state.producerEpoch,
    transactionTimeoutMs: state.timeoutMs,
    transactionStatus: state.status,
    transactionPartitions: state.status === TransactionStatus.Empty ? null : partitions,
    transactionLastUpdateTimestampMs: state.lastUpdateTimestamp,
    transactionStartTimestampMs: state.startTimestamp,
    ...tagged,
  });
  return { key: keyOf(state.transactionalId), value: writer.bytes() };
}

export function transactionTombstone(transactionalId: string): KeyedRecord {
  return { key: keyOf(transactionalId), value: null };
}

export interface TransactionLogEntry {
  readonly transactionalId: string;
  /** Undefined: the id is forgotten. */
  readonly state: TransactionState | undefined;
}

/** Throws MALFORMED; undefined for a record of a type or version that Apache Kafka 4.4 does not have. */
export function readTransactionRecord(
  key: Uint8Array,
  value: Uint8Array | null,
): TransactionLogEntry | undefined {
  const keyReader = new Reader(key);
  if (keyReader.int16() !== KEY_TYPE) return undefined;
  const { transactionalId } = schemas.readTransactionLogKey(keyReader, KEY_VERSION);
  if (value === null) return { transactionalId, state: undefined };
  const reader = new Reader(value);
  const version = reader.int16();
  const [lowest, highest] = schemas.VERSIONS.TransactionLogValue;
  if (version < lowest || version > highest) return undefined;
  const read = schemas.readTransactionLogValue(reader, version);
  const status = read.transactionStatus;
  if (status < 0 || status > MAX_STATUS)
    throw new BroadsheetError('MALFORMED', `transaction status ${status} is unknown`);
  return {
    transactionalId,
    state: loaded({
      transactionalId,
      producerId: read.producerId,
      previousProducerId: read.previousProducerId,
      nextProducerId: read.nextProducerId,
      producerEpoch: read.producerEpoch,
      lastProducerEpoch: NO_EPOCH,
      nextProducerEpoch: read.nextProducerEpoch,
      timeoutMs: read.transactionTimeoutMs,
      status: status as TransactionStatus,
      partitions: new Map(
        (read.transactionPartitions ?? []).map(({ topic, partitionIds }) => [topic, new Set(partitionIds)]),
      ),
      startTimestamp: read.transactionStartTimestampMs,
      lastUpdateTimestamp: read.transactionLastUpdateTimestampMs,
      clientVersion: read.clientTransactionVersion,
    }),
  };
}

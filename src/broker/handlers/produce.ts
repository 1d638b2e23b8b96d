/**
 * Produce (key 0), versions 3-13: appends one batch of records to each of some partitions. Advertised from 0, as in
 * Kafka: librdkafka compresses only for brokers that know the old versions; 0-2 close the connection all the same.
 *
 * - acks 0 gets no answer, and an error closes the connection; 1 and -1 are answered when the records are below the high
 *   watermark. A topic that is missing is made first where auto-creation is allowed.
 * - A transactional batch needs an open transaction that its partition is part of. From v12 on (transaction.version 2)
 *   producing makes it so; before, AddPartitionsToTxn does.
 * - v5 adds the log start offset, v8 errors of single records and a text, v10 the current leader (always this broker, so
 *   never sent). v13 names topics by id.
 *
 * Errors, per partition: INVALID_REQUIRED_ACKS, UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, INVALID_TOPIC_EXCEPTION
 * (no name of a topic, or an internal one), NOT_ENOUGH_REPLICAS (acks=-1 where min.insync.replicas is above 1),
 * CORRUPT_MESSAGE, INVALID_RECORD, MESSAGE_TOO_LARGE, INVALID_TIMESTAMP, UNSUPPORTED_COMPRESSION_TYPE, OUT_OF_ORDER_SEQUENCE_NUMBER,
 * INVALID_PRODUCER_EPOCH, TRANSACTIONAL_ID_AUTHORIZATION_FAILED (a transactional batch without a transactional id),
 * KAFKA_STORAGE_ERROR (for all of them where the disk is full); outside of an open transaction INVALID_TXN_STATE, from v11 on TRANSACTION_ABORTABLE, and
 * INVALID_PRODUCER_ID_MAPPING, NOT_ENOUGH_REPLICAS, from v12 on CONCURRENT_TRANSACTIONS.
 */
import type { Partition } from '../../log/partition.ts';
import { INTERNAL_TOPICS, topicNameFault } from '../../metadata/topic-names.ts';
import { errorName, KafkaError } from '../../protocol/errors.ts';
import { ProduceRequestReader, writeProduceResponse } from '../../protocol/produce.ts';
import type { ProducerIdAndEpoch } from '../../transaction/transaction-state.ts';
import type { BrokerContext } from '../context.ts';
import { PendingProduce } from '../pending-produce.ts';
import {
  isForCoordinator,
  missesFirstBatch,
  transactionalBatch,
  type VerificationFault,
  verifyTransactional,
} from '../produce-verification.ts';
import type { Request } from '../request.ts';
import type { HandlerRow } from './handler.ts';

const FIRST_WITH_ABORTABLE = 11;
const FIRST_THAT_ADDS_PARTITIONS = 12;
const FIRST_WITH_TOPIC_ID = 13;
/** The client's transaction.version, from FIRST_THAT_ADDS_PARTITIONS on. */
const TRANSACTION_VERSION = 2;
/** The one client that may write to internal topics, as in Kafka. */
const ADMIN_CLIENT_ID = '__admin_client';
const NONE: readonly never[] = [];

/** Used up before the call that fills it returns. */
const message = new ProduceRequestReader();

function handle(request: Request, broker: BrokerContext): void | Promise<void> {
  message.read(request.body(), request.version);
  const full = broker.disk.refusal(request.bodyEnd - request.bodyStart);
  if (full !== undefined) {
    // Before a topic is made for it, or a transaction changed.
    stage(request, broker, undefined, KafkaError.NONE, { code: KafkaError.KAFKA_STORAGE_ERROR, text: full });
    request.ordered = true;
    return;
  }
  const waits = topicsToWaitFor(request.version, broker);
  if (waits.length === 0) {
    if (!addsPartitions(request, broker, undefined)) {
      stage(request, broker, undefined, KafkaError.NONE);
      request.ordered = true;
    }
    return;
  }
  request.keep();
  return Promise.all(waits).then((settled) => {
    if (!request.open) return;
    const refusals = new Map(settled);
    message.read(request.body(), request.version);
    if (addsPartitions(request, broker, refusals)) return;
    stage(request, broker, refusals, KafkaError.NONE);
    request.markOrdered();
  });
}

/** Makes partitions part of the producer's transaction where the request says so by producing to them. True: it goes on once
 * that is written. */
function addsPartitions(
  request: Request,
  broker: BrokerContext,
  refusals: ReadonlyMap<string, number> | undefined,
): boolean {
  const { transactionalId } = message;
  const { version } = request;
  if (transactionalId === null || version < FIRST_THAT_ADDS_PARTITIONS) return false;
  let producer: ProducerIdAndEpoch | undefined;
  const added: [topic: string, index: number][] = [];
  for (let t = 0, p = 0; t < message.topicCount; t++) {
    const topic = message.topics[t]!;
    for (; p < message.partitionEnds[t]!; p++) {
      const index = message.partitions[p]!;
      const partition = find(topic, index, version, broker);
      const sender = transactionalBatch(request.bytes, message.recordsStart[p]!, message.recordsEnd[p]!);
      if (partition === undefined || sender === undefined) continue;
      if (!isForCoordinator(partition, sender)) continue;
      producer ??= sender;
      added.push([partition.topic, index]);
    }
  }
  if (producer === undefined) return false;
  request.keep();
  const goOn = (code: number) => {
    if (!request.open) return;
    try {
      message.read(request.body(), version);
      stage(request, broker, refusals, code);
      request.markOrdered();
    } catch (error) {
      request.connection.fail(request, error);
    }
  };
  broker.transactions.addPartitions(transactionalId, producer, added, TRANSACTION_VERSION, goOn);
  return true;
}

function find(topic: string, index: number, version: number, broker: BrokerContext): Partition | undefined {
  return version >= FIRST_WITH_TOPIC_ID ? broker.partitionById(topic, index) : broker.partition(topic, index);
}

/** Topics of the request that are being made, or are made now, each with what refused it. */
function topicsToWaitFor(version: number, broker: BrokerContext): readonly Promise<[string, number]>[] {
  if (version >= FIRST_WITH_TOPIC_ID) return NONE;
  let waits: Promise<[string, number]>[] | undefined;
  for (let t = 0; t < message.topicCount; t++) {
    const name = message.topics[t]!;
    const settled = broker.topics.settled(name);
    const missing = !broker.image.topicsByName.has(name);
    if (settled === undefined && !missing) continue;
    if (settled === undefined && !broker.topics.mayAutoCreate(name)) continue;
    // What became of a change by someone else shows in the metadata.
    const code = broker.topics.mayAutoCreate(name)
      ? broker.topics.autoCreate(name)
      : Promise.allSettled([settled]).then(() => KafkaError.NONE);
    waits ??= [];
    waits.push(code.then((refusal) => [name, refusal]));
  }
  return waits ?? NONE;
}

/** Hands every batch to its partition, unless all are refused; the answer follows when all appends have ended. `added` is what
 * became of adding partitions to the transaction. */
function stage(
  request: Request,
  broker: BrokerContext,
  refusals: ReadonlyMap<string, number> | undefined,
  added: number,
  refusal = refusalOf(),
): void {
  const { version, bytes } = request;
  const { acks, transactionalId } = message;
  const now = broker.clock.now();
  const { topicCount, partitionCount } = message;
  const produce = new PendingProduce(
    version,
    topicCount,
    partitionCount,
    broker.inspector,
    transactionalId !== null,
    (done) => answer(request, acks, done),
  );
  for (let t = 0, p = 0; t < message.topicCount; t++) {
    const topic = message.topics[t]!;
    produce.beginTopic(topic, message.partitionEnds[t]! - p);
    for (; p < message.partitionEnds[t]!; p++) {
      const index = message.partitions[p]!;
      if (refusal !== undefined) {
        produce.refuse(index, refusal.code, refusal.text);
        continue;
      }
      const partition = find(topic, index, version, broker);
      if (partition === undefined) {
        const code = refusals?.get(topic) || missingCode(topic, index, version, broker);
        produce.refuse(
          index,
          code,
          code === KafkaError.INVALID_TOPIC_EXCEPTION ? topicNameFault(topic)! : null,
        );
        continue;
      }
      if (INTERNAL_TOPICS.has(partition.topic) && request.clientId !== ADMIN_CLIENT_ID) {
        produce.refuse(
          index,
          KafkaError.INVALID_TOPIC_EXCEPTION,
          `${partition.topic} is written by the broker alone`,
        );
        continue;
      }
      if (acks === -1 && partition.config.minInsyncReplicas > 1) {
        produce.refuse(index, KafkaError.NOT_ENOUGH_REPLICAS, tooFewReplicas(partition));
        continue;
      }
      const start = message.recordsStart[p]!;
      const fault = transactionFault(request, broker, p, partition, added);
      if (fault !== undefined) {
        produce.refuse(index, fault.code, fault.message);
        continue;
      }
      // Null records are an empty set, which is no batch.
      if (start < 0) produce.append(partition, bytes, 0, 0, now);
      else produce.append(partition, bytes, start, message.recordsEnd[p]!, now);
    }
  }
  produce.staged();
}

/** What refuses the whole request. */
function refusalOf(): { code: number; text: string } | undefined {
  const { acks } = message;
  if (acks === -1 || acks === 0 || acks === 1) return undefined;
  return { code: KafkaError.INVALID_REQUIRED_ACKS, text: `acks must be 0, 1 or -1 (all), got ${acks}` };
}

/** Why the transactional batch for partition p of the request may not be appended. */
function transactionFault(
  request: Request,
  broker: BrokerContext,
  p: number,
  partition: Partition,
  added: number,
): VerificationFault | undefined {
  const { transactionalId } = message;
  if (transactionalId === null) return undefined;
  const producer = transactionalBatch(request.bytes, message.recordsStart[p]!, message.recordsEnd[p]!);
  if (producer === undefined) return undefined;
  const { version } = request;
  const adds = version >= FIRST_THAT_ADDS_PARTITIONS;
  if (!adds && !broker.config.boolean('transaction.partition.verification.enable')) return undefined;
  const support = adds ? 'adds-partitions' : version >= FIRST_WITH_ABORTABLE ? 'knows-abortable' : 'none';
  const { transactions } = broker;
  const fault = verifyTransactional(transactions, transactionalId, producer, partition, support, added);
  return fault ?? (adds ? missesFirstBatch(partition, producer) : undefined);
}

function tooFewReplicas(partition: Partition): string {
  const { topic, index, config } = partition;
  return `${topic}-${index} has 1 in-sync replica and min.insync.replicas is ${config.minInsyncReplicas}`;
}

function missingCode(topic: string, index: number, version: number, broker: BrokerContext): number {
  if (version < FIRST_WITH_TOPIC_ID) {
    return topicNameFault(topic) === undefined
      ? broker.missingCode(topic, index)
      : KafkaError.INVALID_TOPIC_EXCEPTION;
  }
  const name = broker.image.topicsById.get(topic)?.name;
  return name === undefined ? KafkaError.UNKNOWN_TOPIC_ID : broker.missingCode(name, index);
}

function answer(request: Request, acks: number, produce: PendingProduce): void {
  if (acks !== 0) {
    request.reply((writer) => writeProduceResponse(writer, request.version, produce.topics));
    return;
  }
  const error = produce.firstError;
  if (error === undefined) request.noReply();
  else {
    // The client would not hear of it otherwise.
    const reason = `${errorName(error.errorCode)}${error.errorMessage === null ? '' : ` (${error.errorMessage})`}`;
    request.connection.refuse(`a Produce with acks=0 failed: ${reason}`, { clientId: request.clientId });
  }
}

export const produce: HandlerRow = {
  key: 0,
  name: 'Produce',
  served: [3, 13],
  advertised: [0, 13],
  overlaps: true,
  authorisation: { operation: 'WRITE', resource: 'TOPIC' },
  handle,
};

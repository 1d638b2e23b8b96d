/**
 * Produce (key 0), versions 3-13: appends one batch of records to each of some partitions. Advertised from 0, as in
 * Kafka: librdkafka compresses only for brokers that know the old versions; 0-2 close the connection all the same.
 *
 * - acks 0 gets no answer, and an error closes the connection; 1 and -1 are answered when the records are below the high
 *   watermark. A topic that is missing is made first where auto-creation is allowed.
 * - v5 adds the log start offset, v8 errors of single records and a text, v10 the current leader (always this broker, so
 *   never sent). v13 names topics by id.
 *
 * Errors, per partition: INVALID_REQUIRED_ACKS, UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, INVALID_TOPIC_EXCEPTION
 * (no name of a topic, or an internal one), NOT_ENOUGH_REPLICAS (acks=-1 where min.insync.replicas is above 1),
 * CORRUPT_MESSAGE, INVALID_RECORD, MESSAGE_TOO_LARGE, INVALID_TIMESTAMP, UNSUPPORTED_COMPRESSION_TYPE, OUT_OF_ORDER_SEQUENCE_NUMBER,
 * INVALID_PRODUCER_EPOCH, TRANSACTIONAL_ID_AUTHORIZATION_FAILED (a transactional batch without a transactional id),
 * UNSUPPORTED_VERSION (a transactional id: this version has no transactions), KAFKA_STORAGE_ERROR.
 */
import type { Partition } from '../../log/partition.ts';
import { INTERNAL_TOPICS, topicNameFault } from '../../metadata/topic-names.ts';
import { errorName, KafkaError } from '../../protocol/errors.ts';
import { ProduceRequestReader, writeProduceResponse } from '../../protocol/produce.ts';
import type { BrokerContext } from '../context.ts';
import { PendingProduce } from '../pending-produce.ts';
import type { Request } from '../request.ts';
import type { HandlerRow } from './handler.ts';

const FIRST_WITH_TOPIC_ID = 13;
/** The one client that may write to internal topics, as in Kafka. */
const ADMIN_CLIENT_ID = '__admin_client';

/** Used up before the call that fills it returns. */
const message = new ProduceRequestReader();

function handle(request: Request, broker: BrokerContext): void | Promise<void> {
  message.read(request.body(), request.version);
  const waits = topicsToWaitFor(request.version, broker);
  if (waits.length === 0) {
    stage(request, broker, undefined);
    request.ordered = true;
    return;
  }
  request.keep();
  return Promise.all(waits).then((refusals) => {
    if (!request.open) return;
    message.read(request.body(), request.version);
    stage(request, broker, new Map(refusals));
    request.markOrdered();
  });
}

/** Topics of the request that are being made, or are made now, each with what refused it. */
function topicsToWaitFor(version: number, broker: BrokerContext): Promise<[string, number]>[] {
  const waits: Promise<[string, number]>[] = [];
  if (version >= FIRST_WITH_TOPIC_ID) return waits;
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
    waits.push(code.then((refusal) => [name, refusal]));
  }
  return waits;
}

/** Hands every batch to its partition; the answer follows when all appends have ended. */
function stage(
  request: Request,
  broker: BrokerContext,
  refusals: ReadonlyMap<string, number> | undefined,
): void {
  const { version, bytes } = request;
  const { acks } = message;
  const now = broker.clock.now();
  const produce = new PendingProduce(version, broker.inspector, (done) => answer(request, acks, done));
  const refusal = refusalOf(request, broker);
  for (let t = 0, p = 0; t < message.topicCount; t++) {
    const topic = message.topics[t]!;
    produce.beginTopic(topic);
    for (; p < message.partitionEnds[t]!; p++) {
      const index = message.partitions[p]!;
      if (refusal !== undefined) {
        produce.refuse(index, refusal.code, refusal.text);
        continue;
      }
      const partition =
        version >= FIRST_WITH_TOPIC_ID ? broker.partitionById(topic, index) : broker.partition(topic, index);
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
      // Null records are an empty set, which is no batch.
      if (start < 0) produce.append(partition, bytes, 0, 0, now);
      else produce.append(partition, bytes, start, message.recordsEnd[p]!, now);
    }
  }
  produce.staged();
}

/** What refuses the whole request. */
function refusalOf(request: Request, broker: BrokerContext): { code: number; text: string } | undefined {
  const { acks, transactionalId } = message;
  if (acks !== -1 && acks !== 0 && acks !== 1) {
    return { code: KafkaError.INVALID_REQUIRED_ACKS, text: `acks must be 0, 1 or -1 (all), got ${acks}` };
  }
  if (transactionalId === null) return undefined;
  broker.log.warn(
    { peer: request.connection.peerName, clientId: request.clientId, transactionalId },
    'a transactional produce was refused: this version of broadsheet has no transactions',
  );
  return {
    code: KafkaError.UNSUPPORTED_VERSION,
    text: `transactional id ${transactionalId}: this version of broadsheet has no transactions`,
  };
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

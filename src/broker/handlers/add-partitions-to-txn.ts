/**
 * AddPartitionsToTxn (key 24), versions 0-5: makes partitions part of a producer's transaction, all of them or none.
 * Producers of transaction.version 2 do not ask: producing does it.
 *
 * - From v2 on a fenced producer hears PRODUCER_FENCED, before it INVALID_PRODUCER_EPOCH. v4 is for brokers: many
 *   transactions in one request, and a request may only ask whether partitions are part of one. v5 is for transaction.version 2.
 *
 * Errors, per partition: UNKNOWN_TOPIC_OR_PARTITION, TOPIC_AUTHORIZATION_FAILED (an internal topic, before v4), and
 * OPERATION_NOT_ATTEMPTED for the others then; INVALID_REQUEST (an empty transactional id), INVALID_PRODUCER_ID_MAPPING,
 * PRODUCER_FENCED, CONCURRENT_TRANSACTIONS, TRANSACTION_ABORTABLE (not part of it), COORDINATOR_NOT_AVAILABLE.
 */
import { INTERNAL_TOPICS } from '../../metadata/topic-names.ts';
import { KafkaError } from '../../protocol/errors.ts';
import {
  type AddPartitionsToTxnRequestAddPartitionsToTxnTopic,
  type AddPartitionsToTxnResponseAddPartitionsToTxnTopicResultInput,
  readAddPartitionsToTxnRequest,
  writeAddPartitionsToTxnResponse,
} from '../../protocol/generated/AddPartitionsToTxn.ts';
import type { BrokerContext } from '../context.ts';
import type { Request } from '../request.ts';
import type { HandlerRow } from './handler.ts';

const VERSIONS = [0, 5] as const;
const FIRST_WITH_FENCED = 2;
const FIRST_WITH_BATCHES = 4;
const FIRST_WITH_BUMP = 5;

type Topics = readonly AddPartitionsToTxnRequestAddPartitionsToTxnTopic[];
type TopicResult = AddPartitionsToTxnResponseAddPartitionsToTxnTopicResultInput;

interface Asked {
  readonly transactionalId: string;
  readonly producerId: number;
  readonly producerEpoch: number;
  readonly verifyOnly: boolean;
  readonly topics: Topics;
}

function results(topics: Topics, codeOf: (topic: string, index: number) => number): TopicResult[] {
  return topics.map(({ name, partitions }) => ({
    name,
    resultsByPartition: partitions.map((partitionIndex) => ({
      partitionIndex,
      partitionErrorCode: codeOf(name, partitionIndex),
    })),
  }));
}

/** Calls `respond` once, with a code for each partition. */
function add(
  asked: Asked,
  version: number,
  broker: BrokerContext,
  respond: (results: TopicResult[]) => void,
): void {
  const { transactionalId, verifyOnly, topics } = asked;
  const exists = (topic: string, index: number) =>
    broker.image.topicsByName.get(topic)?.partitions.has(index) === true;
  const places = topics.flatMap(({ name, partitions }) => partitions.map((index) => [name, index] as const));
  const codeFor = (code: number) =>
    code === KafkaError.PRODUCER_FENCED && version < FIRST_WITH_FENCED
      ? KafkaError.INVALID_PRODUCER_EPOCH
      : code;
  const faultOf = (topic: string, index: number) => {
    // Only coordinators write to them.
    if (version < FIRST_WITH_BATCHES && INTERNAL_TOPICS.has(topic))
      return KafkaError.TOPIC_AUTHORIZATION_FAILED;
    return exists(topic, index) ? KafkaError.NONE : KafkaError.UNKNOWN_TOPIC_OR_PARTITION;
  };
  if (places.some(([topic, index]) => faultOf(topic, index) !== KafkaError.NONE)) {
    respond(results(topics, (topic, index) => faultOf(topic, index) || KafkaError.OPERATION_NOT_ATTEMPTED));
  } else if (verifyOnly) {
    respond(
      results(topics, (topic, index) => broker.transactions.verify(transactionalId, asked, topic, index)),
    );
  } else {
    const clientVersion = version >= FIRST_WITH_BUMP ? 2 : 0;
    broker.transactions.addPartitions(transactionalId, asked, places, clientVersion, (code) =>
      respond(results(topics, () => codeFor(code))),
    );
  }
}

function handle(request: Request, broker: BrokerContext): void {
  const { version } = request;
  const message = readAddPartitionsToTxnRequest(request.body(), version);
  if (version < FIRST_WITH_BATCHES) {
    const asked = {
      transactionalId: message.v3AndBelowTransactionalId,
      producerId: message.v3AndBelowProducerId,
      producerEpoch: message.v3AndBelowProducerEpoch,
      verifyOnly: false,
      topics: message.v3AndBelowTopics,
    };
    add(asked, version, broker, (resultsByTopicV3AndBelow) =>
      request.reply((writer) =>
        writeAddPartitionsToTxnResponse(writer, version, { throttleTimeMs: 0, resultsByTopicV3AndBelow }),
      ),
    );
    return;
  }
  const answers: TopicResult[][] = [];
  let left = message.transactions.length;
  const answer = () => {
    const resultsByTransaction = message.transactions.map(({ transactionalId }, i) => ({
      transactionalId,
      topicResults: answers[i]!,
    }));
    request.reply((writer) =>
      writeAddPartitionsToTxnResponse(writer, version, { throttleTimeMs: 0, resultsByTransaction }),
    );
  };
  if (left === 0) answer();
  for (const [i, asked] of message.transactions.entries()) {
    add(asked, version, broker, (found) => {
      answers[i] = found;
      if (--left === 0) answer();
    });
  }
}

export const addPartitionsToTxn: HandlerRow = {
  key: 24,
  name: 'AddPartitionsToTxn',
  served: VERSIONS,
  advertised: VERSIONS,
  overlaps: false,
  authorisation: { operation: 'WRITE', resource: 'TRANSACTIONAL_ID' },
  handle,
};

/**
 * AddOffsetsToTxn (key 25), versions 0-4: makes the partition with a group's offsets part of the producer's transaction.
 * Clients of transaction.version 2 do not ask: TxnOffsetCommit does it.
 *
 * - From v2 on a fenced producer hears PRODUCER_FENCED, before it INVALID_PRODUCER_EPOCH.
 *
 * Errors: INVALID_REQUEST (an empty transactional id), INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED,
 * CONCURRENT_TRANSACTIONS, COORDINATOR_NOT_AVAILABLE, what refuses the creation of the groups' topic.
 */
import { OFFSETS_TOPIC } from '../../group/group-log.ts';
import { KafkaError } from '../../protocol/errors.ts';
import {
  readAddOffsetsToTxnRequest,
  writeAddOffsetsToTxnResponse,
} from '../../protocol/generated/AddOffsetsToTxn.ts';
import type { BrokerContext } from '../context.ts';
import type { Request } from '../request.ts';
import type { HandlerRow } from './handler.ts';

const VERSIONS = [0, 4] as const;
const FIRST_WITH_FENCED = 2;
const CLIENT_VERSION = 0;

function handle(request: Request, broker: BrokerContext): void | Promise<void> {
  const { version } = request;
  const message = readAddOffsetsToTxnRequest(request.body(), version);
  const { transactionalId, producerId, producerEpoch, groupId } = message;
  const answer = (code: number) => {
    const fenced = code === KafkaError.PRODUCER_FENCED && version < FIRST_WITH_FENCED;
    const errorCode = fenced ? KafkaError.INVALID_PRODUCER_EPOCH : code;
    request.reply((writer) =>
      writeAddOffsetsToTxnResponse(writer, version, { throttleTimeMs: 0, errorCode }),
    );
  };
  const add = () => {
    const place = [OFFSETS_TOPIC, broker.groups.offsets.partitionOf(groupId)] as const;
    const producer = { producerId, producerEpoch };
    broker.transactions.addPartitions(transactionalId, producer, [place], CLIENT_VERSION, answer);
  };
  const creation = broker.groups.prepare();
  if (creation === undefined) return add();
  return creation.then((code) => (code === KafkaError.NONE ? add() : answer(code)));
}

export const addOffsetsToTxn: HandlerRow = {
  key: 25,
  name: 'AddOffsetsToTxn',
  served: VERSIONS,
  advertised: VERSIONS,
  overlaps: false,
  authorisation: { operation: 'WRITE', resource: 'TRANSACTIONAL_ID' },
  handle,
  failure: (writer, version, errorCode) =>
    writeAddOffsetsToTxnResponse(writer, version, { throttleTimeMs: 0, errorCode }),
};

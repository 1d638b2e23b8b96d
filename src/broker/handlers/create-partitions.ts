/**
 * CreatePartitions (key 37), versions 0-3: gives topics more partitions, or only checks that they could get them. The answer
 * comes when the partitions can be used. All versions mean the same.
 *
 * Errors, per topic and with a text: INVALID_REQUEST (a name twice in the request), UNKNOWN_TOPIC_OR_PARTITION,
 * INVALID_TOPIC_EXCEPTION (a coordinator's topic), INVALID_PARTITIONS (not more than there are),
 * INVALID_REPLICA_ASSIGNMENT, POLICY_VIOLATION (more than 10,000 in one request), KAFKA_STORAGE_ERROR. A timeout of 0 or
 * less does not cut the request short.
 */
import { KafkaError } from '../../protocol/errors.ts';
import {
  readCreatePartitionsRequest,
  writeCreatePartitionsResponse,
} from '../../protocol/generated/CreatePartitions.ts';
import type { BrokerContext } from '../context.ts';
import type { Request } from '../request.ts';
import type { HandlerRow } from './handler.ts';

const VERSIONS = [0, 3] as const;

async function handle(request: Request, broker: BrokerContext): Promise<void> {
  const { version } = request;
  const { topics, validateOnly } = readCreatePartitionsRequest(request.body(), version);
  const grown = await broker.topics.grow(topics, validateOnly);
  const results = grown.map((result) => ({
    name: result.name,
    errorCode: result.ok ? KafkaError.NONE : result.errorCode,
    errorMessage: result.ok ? null : result.message,
  }));
  request.reply((writer) => writeCreatePartitionsResponse(writer, version, { throttleTimeMs: 0, results }));
}

export const createPartitions: HandlerRow = {
  key: 37,
  name: 'CreatePartitions',
  served: VERSIONS,
  advertised: VERSIONS,
  overlaps: false,
  authorisation: { operation: 'ALTER', resource: 'TOPIC' },
  handle,
};

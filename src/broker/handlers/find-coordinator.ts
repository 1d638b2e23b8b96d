/**
 * FindCoordinator (key 10), versions 0-6: who coordinates a group or a transactional id. On one node that is always this
 * broker, and it is ready when it answers: what the coordinator keeps its state in is made first.
 *
 * - v0 asks about groups only; v1 adds the key type: 0 group, 1 transactional id, and from v6 on 2 a share partition
 *   (`group:topic id:partition`).
 * - v4 asks about many keys at once.
 *
 * Errors: INVALID_REQUEST (an unknown key type, a share key that is none), what refuses the topic's creation.
 */
import { errorName, KafkaError } from '../../protocol/errors.ts';
import {
  type FindCoordinatorRequest,
  type FindCoordinatorResponseCoordinatorInput,
  readFindCoordinatorRequest,
  writeFindCoordinatorResponse,
} from '../../protocol/generated/FindCoordinator.ts';
import type { BrokerContext } from '../context.ts';
import type { Request } from '../request.ts';
import type { HandlerRow } from './handler.ts';

const VERSIONS = [0, 6] as const;
const FIRST_WITH_BATCHES = 4;
const FIRST_WITH_SHARE = 6;

const GROUP = 0;
const TRANSACTION = 1;
const SHARE = 2;
const SHARE_KEY = /^.+:[A-Za-z0-9_-]{22}:\d+$/;

type Coordinator = FindCoordinatorResponseCoordinatorInput;

const NOBODY = { nodeId: -1, host: '', port: -1 };

function faultOf(key: string, keyType: number, version: number): number {
  if (keyType === GROUP || keyType === TRANSACTION) return KafkaError.NONE;
  const known = keyType === SHARE && version >= FIRST_WITH_SHARE;
  return known && SHARE_KEY.test(key) ? KafkaError.NONE : KafkaError.INVALID_REQUEST;
}

function answer(
  request: Request,
  broker: BrokerContext,
  { key, keyType, coordinatorKeys }: FindCoordinatorRequest,
  refusal: number,
): void {
  const { version } = request;
  const endpoint = broker.listeners.advertisedTo(request.connection.peer);
  const find = (wanted: string): Coordinator => {
    const errorCode = faultOf(wanted, keyType, version) || refusal;
    if (errorCode !== KafkaError.NONE) {
      return { key: wanted, errorCode, errorMessage: errorName(errorCode), ...NOBODY };
    }
    const { host, port } = endpoint;
    return { key: wanted, errorCode, errorMessage: '', nodeId: broker.nodeId, host, port };
  };
  request.reply((writer) => {
    if (version >= FIRST_WITH_BATCHES) {
      writeFindCoordinatorResponse(writer, version, { coordinators: coordinatorKeys.map(find) });
      return;
    }
    const { errorCode, nodeId, host, port } = find(key);
    writeFindCoordinatorResponse(writer, version, {
      errorCode,
      errorMessage: errorName(errorCode),
      nodeId,
      host,
      port,
    });
  });
}

function handle(request: Request, broker: BrokerContext): void | Promise<void> {
  const message = readFindCoordinatorRequest(request.body(), request.version);
  let creation: Promise<number> | undefined;
  if (message.keyType === GROUP) creation = broker.groups.prepare();
  if (message.keyType === TRANSACTION) creation = broker.transactions.prepare();
  if (creation === undefined) return answer(request, broker, message, KafkaError.NONE);
  return creation.then((code) => answer(request, broker, message, code));
}

export const findCoordinator: HandlerRow = {
  key: 10,
  name: 'FindCoordinator',
  served: VERSIONS,
  advertised: VERSIONS,
  overlaps: false,
  authorisation: { operation: 'DESCRIBE', resource: 'GROUP' },
  handle,
};

/**
 * AlterUserScramCredentials (key 51), version 0 (KIP-554): sets and removes users' SCRAM credentials. The client sends the
 * salted password; what is stored can check one and can't be used as one. No listener asks for credentials yet.
 *
 * Errors, per user, who is left as he is then: DUPLICATE_RESOURCE (a user twice), RESOURCE_NOT_FOUND (a deletion of what
 * is not there), UNSUPPORTED_SASL_MECHANISM, UNACCEPTABLE_CREDENTIAL (no name or password, iterations out of bounds),
 * UNSUPPORTED_VERSION (a metadata.version without credentials), KAFKA_STORAGE_ERROR.
 */
import type { ScramResult } from '../../metadata/controller-scram.ts';
import { kafkaCodeOf } from '../../protocol/errors.ts';
import {
  type AlterUserScramCredentialsRequest,
  readAlterUserScramCredentialsRequest,
  writeAlterUserScramCredentialsResponse,
} from '../../protocol/generated/AlterUserScramCredentials.ts';
import type { BrokerContext } from '../context.ts';
import type { Request } from '../request.ts';
import type { HandlerRow } from './handler.ts';

const VERSIONS = [0, 0] as const;

function failed({ deletions, upsertions }: AlterUserScramCredentialsRequest, error: unknown): ScramResult[] {
  const message = error instanceof Error ? error.message : String(error);
  const users = new Set([...deletions, ...upsertions].map(({ name }) => name));
  return [...users].map((user) => ({ user, errorCode: kafkaCodeOf(error), message }));
}

async function handle(request: Request, broker: BrokerContext): Promise<void> {
  const { version } = request;
  const message = readAlterUserScramCredentialsRequest(request.body(), version);
  const results = await broker.cluster
    .alterScram(message.deletions, message.upsertions)
    .catch((error: unknown) => failed(message, error));
  request.reply((writer) =>
    writeAlterUserScramCredentialsResponse(writer, version, {
      throttleTimeMs: 0,
      results: results.map(({ user, errorCode, message: errorMessage }) => ({
        user,
        errorCode,
        errorMessage,
      })),
    }),
  );
}

export const alterUserScramCredentials: HandlerRow = {
  key: 51,
  name: 'AlterUserScramCredentials',
  served: VERSIONS,
  advertised: VERSIONS,
  overlaps: false,
  authorisation: { operation: 'ALTER', resource: 'CLUSTER' },
  handle,
};

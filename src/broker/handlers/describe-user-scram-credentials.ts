/**
 * DescribeUserScramCredentials (key 50), version 0 (KIP-554): mechanisms and iterations of the users asked for, or of all.
 * Nothing that could stand for a password is told.
 *
 * Errors, per user: RESOURCE_NOT_FOUND, DUPLICATE_RESOURCE for one that is asked for twice.
 */
import { KafkaError } from '../../protocol/errors.ts';
import {
  type DescribeUserScramCredentialsResponseDescribeUserScramCredentialsResultInput,
  readDescribeUserScramCredentialsRequest,
  writeDescribeUserScramCredentialsResponse,
} from '../../protocol/generated/DescribeUserScramCredentials.ts';
import type { BrokerContext } from '../context.ts';
import type { Request } from '../request.ts';
import type { HandlerRow } from './handler.ts';

const VERSIONS = [0, 0] as const;

type Result = DescribeUserScramCredentialsResponseDescribeUserScramCredentialsResultInput;

function describe(user: string, times: number, broker: BrokerContext): Result {
  const fail = (errorCode: number, errorMessage: string): Result => ({
    user,
    errorCode,
    errorMessage,
    credentialInfos: [],
  });
  if (times > 1) return fail(KafkaError.DUPLICATE_RESOURCE, `${user} is in the request more than once`);
  const credentials = broker.image.security.scram.get(user);
  if (credentials === undefined) return fail(KafkaError.RESOURCE_NOT_FOUND, `${user} has no credential`);
  return {
    user,
    errorCode: KafkaError.NONE,
    // Kafka's, for success.
    errorMessage: '',
    credentialInfos: [...credentials.values()].map(({ mechanism, iterations }) => ({
      mechanism,
      iterations,
    })),
  };
}

function handle(request: Request, broker: BrokerContext): void {
  const { version } = request;
  const { users } = readDescribeUserScramCredentialsRequest(request.body(), version);
  const all = users === null || users.length === 0;
  const names = all ? [...broker.image.security.scram.keys()] : users.map(({ name }) => name);
  const times = new Map<string, number>();
  for (const name of names) times.set(name, (times.get(name) ?? 0) + 1);
  request.reply((writer) =>
    writeDescribeUserScramCredentialsResponse(writer, version, {
      throttleTimeMs: 0,
      errorCode: KafkaError.NONE,
      errorMessage: '',
      results: [...times].map(([user, count]) => describe(user, count, broker)),
    }),
  );
}

export const describeUserScramCredentials: HandlerRow = {
  key: 50,
  name: 'DescribeUserScramCredentials',
  served: VERSIONS,
  advertised: VERSIONS,
  overlaps: false,
  authorisation: { operation: 'DESCRIBE', resource: 'CLUSTER' },
  handle,
  failure: (writer, version, errorCode, errorMessage) =>
    writeDescribeUserScramCredentialsResponse(writer, version, {
      throttleTimeMs: 0,
      errorCode,
      errorMessage,
      results: [],
    }),
};

/** Changes of users' SCRAM credentials (RFC 5802), as pure functions. What is kept cannot be turned back into a password. */
import { createHash, createHmac } from 'node:crypto';
import { KafkaError } from '../protocol/errors.ts';
import { FIRST_WITH_SCRAM } from './features.ts';
import type { ClusterImage } from './image.ts';
import type { MetadataRecordInput } from './records.ts';

interface Mechanism {
  readonly hash: 'sha256' | 'sha512';
  readonly minIterations: number;
  readonly maxIterations: number;
}

/** By the number that stands for it on the wire and in records. */
const MECHANISMS: ReadonlyMap<number, Mechanism> = new Map([
  [1, { hash: 'sha256', minIterations: 4096, maxIterations: 16384 }],
  [2, { hash: 'sha512', minIterations: 4096, maxIterations: 16384 }],
]);
/** Most characters of a name, and bytes of a salt: Kafka reads no metadata batch above 8 MiB. */
const MAX_LENGTH = 65_536;

export interface ScramDeletion {
  readonly name: string;
  readonly mechanism: number;
}

export interface ScramUpsertion extends ScramDeletion {
  readonly iterations: number;
  readonly salt: Uint8Array;
  /** Hi(password, salt, iterations): the client never sends the password. */
  readonly saltedPassword: Uint8Array;
}

/** What became of one user. */
export interface ScramResult {
  readonly user: string;
  /** Kafka error code. */
  readonly errorCode: number;
  readonly message: string | null;
}

export interface ScramDecision {
  /** One for each user. */
  readonly results: readonly ScramResult[];
  readonly records: readonly MetadataRecordInput[];
}

type Fault = readonly [errorCode: number, message: string];

/** Sets and removes credentials. A user may come once in a request, whatever the mechanism; one with a fault is left as
 * it is, the others are changed. */
export function alterScram(
  image: ClusterImage,
  deletions: readonly ScramDeletion[],
  upsertions: readonly ScramUpsertion[],
): ScramDecision {
  const faults = new Map<string, Fault>();
  const records = new Map<string, MetadataRecordInput>();
  const take = (name: string, faultOf: () => Fault | undefined, record: () => MetadataRecordInput) => {
    if (faults.has(name)) return;
    const fault: Fault | undefined = records.delete(name)
      ? [KafkaError.DUPLICATE_RESOURCE, 'the user is in the request more than once']
      : faultOf();
    if (fault !== undefined) faults.set(name, fault);
    else records.set(name, record());
  };
  const unsupported: Fault | undefined =
    image.metadataVersion < FIRST_WITH_SCRAM
      ? [
          KafkaError.UNSUPPORTED_VERSION,
          `metadata.version ${image.metadataVersion} holds no credentials, ${FIRST_WITH_SCRAM} does`,
        ]
      : undefined;
  for (const deletion of deletions) {
    const { name, mechanism } = deletion;
    take(
      name,
      () => unsupported ?? deletionFault(image, deletion),
      () => ({ type: 'RemoveUserScramCredential', version: 0, data: { name, mechanism } }),
    );
  }
  for (const upsertion of upsertions) {
    take(
      upsertion.name,
      () => unsupported ?? upsertionFault(upsertion),
      () => credentialRecord(upsertion),
    );
  }
  const results: ScramResult[] = [
    ...[...records.keys()].map((user) => ({ user, errorCode: KafkaError.NONE, message: null })),
    ...[...faults].map(([user, [errorCode, message]]) => ({ user, errorCode, message })),
  ];
  return { results, records: [...records.values()] };
}

function userFault({ name, mechanism }: ScramDeletion): Fault | undefined {
  if (!MECHANISMS.has(mechanism)) {
    return [
      KafkaError.UNSUPPORTED_SASL_MECHANISM,
      `mechanism ${mechanism} is not 1 (SCRAM-SHA-256) or 2 (SCRAM-SHA-512)`,
    ];
  }
  if (name === '') return [KafkaError.UNACCEPTABLE_CREDENTIAL, 'the user name is empty'];
  if (name.length > MAX_LENGTH) {
    return [
      KafkaError.UNACCEPTABLE_CREDENTIAL,
      `a user name of ${name.length} characters, the limit is ${MAX_LENGTH}`,
    ];
  }
  return undefined;
}

function deletionFault(image: ClusterImage, deletion: ScramDeletion): Fault | undefined {
  const fault = userFault(deletion);
  if (fault !== undefined) return fault;
  const { name, mechanism } = deletion;
  if (image.security.scram.get(name)?.has(mechanism) === true) return undefined;
  return [KafkaError.RESOURCE_NOT_FOUND, `${name} has no credential of mechanism ${mechanism}`];
}

function upsertionFault(upsertion: ScramUpsertion): Fault | undefined {
  const fault = userFault(upsertion);
  if (fault !== undefined) return fault;
  const { iterations, salt, saltedPassword } = upsertion;
  const { minIterations, maxIterations } = MECHANISMS.get(upsertion.mechanism)!;
  if (iterations < minIterations || iterations > maxIterations) {
    return [
      KafkaError.UNACCEPTABLE_CREDENTIAL,
      `${iterations} iterations, must be ${minIterations} to ${maxIterations}`,
    ];
  }
  if (saltedPassword.length === 0) return [KafkaError.UNACCEPTABLE_CREDENTIAL, 'the password is empty'];
  if (salt.length > MAX_LENGTH) {
    return [KafkaError.UNACCEPTABLE_CREDENTIAL, `a salt of ${salt.length} bytes, the limit is ${MAX_LENGTH}`];
  }
  return undefined;
}

/** RFC 5802 section 3: StoredKey = H(HMAC(SaltedPassword, "Client Key")), ServerKey = HMAC(SaltedPassword, "Server Key"). */
function credentialRecord(upsertion: ScramUpsertion): MetadataRecordInput {
  const { name, mechanism, iterations, salt, saltedPassword } = upsertion;
  const { hash } = MECHANISMS.get(mechanism)!;
  const clientKey = createHmac(hash, saltedPassword).update('Client Key').digest();
  return {
    type: 'UserScramCredential',
    version: 0,
    data: {
      name,
      mechanism,
      salt,
      storedKey: createHash(hash).update(clientKey).digest(),
      serverKey: createHmac(hash, saltedPassword).update('Server Key').digest(),
      iterations,
    },
  };
}

/** Requests of cluster administration, in an order where each meets what the ones before have changed. The same cases go
 * to Apache Kafka and to this broker, and their answers are compared. */
import { type Api, api } from '../../src/client/apis.ts';
import type { RequestOptions } from '../../src/client/connection.ts';
import {
  type AddRaftVoterRequestInput,
  readAddRaftVoterResponse,
  writeAddRaftVoterRequest,
} from '../../src/protocol/generated/AddRaftVoter.ts';
import {
  type AlterClientQuotasRequestOpDataInput,
  readAlterClientQuotasResponse,
  writeAlterClientQuotasRequest,
} from '../../src/protocol/generated/AlterClientQuotas.ts';
import {
  type AlterUserScramCredentialsRequestScramCredentialDeletionInput,
  type AlterUserScramCredentialsRequestScramCredentialUpsertionInput,
  readAlterUserScramCredentialsResponse,
  writeAlterUserScramCredentialsRequest,
} from '../../src/protocol/generated/AlterUserScramCredentials.ts';
import { API_FACTS, ApiKey } from '../../src/protocol/generated/api-keys.ts';
import {
  readDescribeClientQuotasResponse,
  writeDescribeClientQuotasRequest,
} from '../../src/protocol/generated/DescribeClientQuotas.ts';
import {
  type DescribeClusterRequestInput,
  readDescribeClusterResponse,
  writeDescribeClusterRequest,
} from '../../src/protocol/generated/DescribeCluster.ts';
import {
  readDescribeQuorumResponse,
  writeDescribeQuorumRequest,
} from '../../src/protocol/generated/DescribeQuorum.ts';
import {
  readDescribeUserScramCredentialsResponse,
  writeDescribeUserScramCredentialsRequest,
} from '../../src/protocol/generated/DescribeUserScramCredentials.ts';
import {
  type RemoveRaftVoterRequestInput,
  readRemoveRaftVoterResponse,
  writeRemoveRaftVoterRequest,
} from '../../src/protocol/generated/RemoveRaftVoter.ts';
import {
  readUnregisterBrokerResponse,
  writeUnregisterBrokerRequest,
} from '../../src/protocol/generated/UnregisterBroker.ts';
import {
  readUnregisterControllerResponse,
  writeUnregisterControllerRequest,
} from '../../src/protocol/generated/UnregisterController.ts';
import {
  readUpdateFeaturesResponse,
  type UpdateFeaturesRequestFeatureUpdateKeyInput,
  writeUpdateFeaturesRequest,
} from '../../src/protocol/generated/UpdateFeatures.ts';

export const CALLS = {
  addRaftVoter: api(ApiKey.AddRaftVoter, writeAddRaftVoterRequest, readAddRaftVoterResponse),
  alterClientQuotas: api(
    ApiKey.AlterClientQuotas,
    writeAlterClientQuotasRequest,
    readAlterClientQuotasResponse,
  ),
  alterScram: api(
    ApiKey.AlterUserScramCredentials,
    writeAlterUserScramCredentialsRequest,
    readAlterUserScramCredentialsResponse,
  ),
  describeClientQuotas: api(
    ApiKey.DescribeClientQuotas,
    writeDescribeClientQuotasRequest,
    readDescribeClientQuotasResponse,
  ),
  describeCluster: api(ApiKey.DescribeCluster, writeDescribeClusterRequest, readDescribeClusterResponse),
  describeQuorum: api(ApiKey.DescribeQuorum, writeDescribeQuorumRequest, readDescribeQuorumResponse),
  describeScram: api(
    ApiKey.DescribeUserScramCredentials,
    writeDescribeUserScramCredentialsRequest,
    readDescribeUserScramCredentialsResponse,
  ),
  removeRaftVoter: api(ApiKey.RemoveRaftVoter, writeRemoveRaftVoterRequest, readRemoveRaftVoterResponse),
  unregisterBroker: api(ApiKey.UnregisterBroker, writeUnregisterBrokerRequest, readUnregisterBrokerResponse),
  unregisterController: api(
    ApiKey.UnregisterController,
    writeUnregisterControllerRequest,
    readUnregisterControllerResponse,
  ),
  updateFeatures: api(ApiKey.UpdateFeatures, writeUpdateFeaturesRequest, readUpdateFeaturesResponse),
} as const;

/** A connection, or what stands for one. */
export interface Asker {
  request<Request, Response>(
    call: Api<Request, Response>,
    body: Request,
    options: RequestOptions,
  ): Promise<Response>;
}

export interface Case {
  readonly name: string;
  /** It changes nothing: Apache Kafka may need a moment before its answer has what was changed before. */
  readonly reads?: boolean;
  readonly run: (asker: Asker) => Promise<unknown>;
}

function ask<Request, Response>(
  name: string,
  call: Api<Request, Response>,
  version: number,
  body: Request,
): Case {
  return {
    name: `${name} (v${version})`,
    reads: API_FACTS[call.key]!.name.startsWith('Describe'),
    run: (asker) => asker.request(call, body, { version }),
  };
}

// --- what the cluster is ---

const cluster = (name: string, version: number, body: Partial<DescribeClusterRequestInput> = {}) =>
  ask(name, CALLS.describeCluster, version, { includeClusterAuthorizedOperations: false, ...body });

const quorum = (name: string, version: number, ...topics: readonly [string, readonly number[]][]) =>
  ask(name, CALLS.describeQuorum, version, {
    topics: topics.map(([topicName, partitions]) => ({
      topicName,
      partitions: partitions.map((partitionIndex) => ({ partitionIndex })),
    })),
  });

export const CLUSTER_CASES: readonly Case[] = [
  ...[0, 1, 2].map((version) => cluster('the cluster', version)),
  cluster('with authorised operations', 2, { includeClusterAuthorizedOperations: true }),
  cluster('with fenced brokers', 2, { includeFencedBrokers: true }),
  cluster('controllers asked of a broker', 1, { endpointType: 2 }),
  cluster('an endpoint type that none is', 2, { endpointType: 3 }),
  cluster('endpoint type 0', 2, { endpointType: 0 }),
  ...[0, 1, 2].map((version) => quorum('the quorum', version, ['__cluster_metadata', [0]])),
  quorum('the quorum of another topic', 2, ['orders', [0]]),
  quorum('another partition of the metadata', 2, ['__cluster_metadata', [1]]),
  quorum('two partitions of the metadata', 2, ['__cluster_metadata', [0, 1]]),
  quorum('two topics', 2, ['__cluster_metadata', [0]], ['orders', [0]]),
  quorum('no topic', 2),
  quorum('no partition', 1, ['__cluster_metadata', []]),
];

// --- brokers, controllers and voters ---

const OTHER_DIRECTORY = 'QUFBQUFBQUFBQUFBQUFBQQ';
const ZERO = 'AAAAAAAAAAAAAAAAAAAAAA';

const addVoter = (name: string, body: Partial<AddRaftVoterRequestInput> = {}, version = 1) =>
  ask(name, CALLS.addRaftVoter, version, {
    clusterId: null,
    timeoutMs: 1000,
    voterId: 7,
    voterDirectoryId: OTHER_DIRECTORY,
    listeners: [{ name: 'CONTROLLER', host: '127.0.0.1', port: 1 }],
    ...body,
  });

const removeVoter = (name: string, body: Partial<RemoveRaftVoterRequestInput> = {}) =>
  ask(name, CALLS.removeRaftVoter, 0, {
    clusterId: null,
    voterId: 7,
    voterDirectoryId: OTHER_DIRECTORY,
    ...body,
  });

export const NODE_CASES: readonly Case[] = [
  ask('a broker that is not', CALLS.unregisterBroker, 0, { brokerId: 42 }),
  ask('a broker below 0', CALLS.unregisterBroker, 0, { brokerId: -1 }),
  ask('a controller that is not', CALLS.unregisterController, 0, { controllerId: 42 }),
  ask('a controller below 0', CALLS.unregisterController, 0, { controllerId: -1 }),
  ask('the active controller', CALLS.unregisterController, 0, { controllerId: 1 }),
  addVoter('a voter of another cluster', { clusterId: 'another' }),
  addVoter('a voter below 0', { voterId: -1 }),
  addVoter('a voter without directory', { voterDirectoryId: ZERO }),
  addVoter('a voter without listener', { listeners: [] }),
  addVoter('a voter with another listener only', { listeners: [{ name: 'OTHER', host: 'h', port: 9 }] }),
  addVoter('the voter that is', { voterId: 1 }),
  addVoter('the voter that is, without acknowledgement', { voterId: 1, ackWhenCommitted: false }),
  removeVoter('no voter of another cluster', { clusterId: 'another' }),
  removeVoter('no voter below 0', { voterId: -1 }),
  removeVoter('no voter without directory', { voterDirectoryId: ZERO }),
  removeVoter('a voter that is not'),
  removeVoter('the voter in another directory', { voterId: 1 }),
];

// --- features ---

type Update = Partial<UpdateFeaturesRequestFeatureUpdateKeyInput> &
  Pick<UpdateFeaturesRequestFeatureUpdateKeyInput, 'feature' | 'maxVersionLevel'>;

const features = (name: string, version: number, validateOnly: boolean, ...featureUpdates: Update[]) =>
  ask(name, CALLS.updateFeatures, version, { timeoutMs: 10_000, validateOnly, featureUpdates });

const UPGRADE = 1;
const SAFE_DOWNGRADE = 2;
const UNSAFE_DOWNGRADE = 3;

/** Up to here the answers do not hang on which features besides metadata.version and kraft.version a broker serves. */
export const FEATURE_CASES: readonly Case[] = [
  features('no update', 1, true),
  features('no update, v2', 2, false),
  ...[0, 1, 2].map((version) =>
    features('a feature that none serves', version, version > 0, { feature: 'bogus', maxVersionLevel: 1 }),
  ),
  features('a feature that none serves at 0', 2, true, {
    feature: 'bogus',
    maxVersionLevel: 0,
    upgradeType: UNSAFE_DOWNGRADE,
  }),
  features(
    'the same twice',
    1,
    true,
    { feature: 'bogus', maxVersionLevel: 1 },
    { feature: 'bogus', maxVersionLevel: 1 },
  ),
  features('an empty name', 1, true, { feature: '', maxVersionLevel: 1 }),
  ...[0, 1, 2].map((version) =>
    features('metadata.version as it is', version, false, {
      feature: 'metadata.version',
      maxVersionLevel: 33,
    }),
  ),
  features('metadata.version too high', 1, true, { feature: 'metadata.version', maxVersionLevel: 34 }),
  features('metadata.version too low', 1, true, {
    feature: 'metadata.version',
    maxVersionLevel: 6,
    upgradeType: UNSAFE_DOWNGRADE,
  }),
  features('metadata.version 0', 1, true, {
    feature: 'metadata.version',
    maxVersionLevel: 0,
    upgradeType: UNSAFE_DOWNGRADE,
  }),
  features('metadata.version -1', 1, true, {
    feature: 'metadata.version',
    maxVersionLevel: -1,
    upgradeType: UNSAFE_DOWNGRADE,
  }),
  features('an upgrade type that is none', 1, true, {
    feature: 'metadata.version',
    maxVersionLevel: 33,
    upgradeType: 9,
  }),
  features('upgrade type 0', 1, true, { feature: 'metadata.version', maxVersionLevel: 33, upgradeType: 0 }),
  features('a downgrade as an upgrade', 1, true, { feature: 'metadata.version', maxVersionLevel: 32 }),
  features('a downgrade as an upgrade, v0', 0, false, { feature: 'metadata.version', maxVersionLevel: 32 }),
  ...[32, 31, 30, 29, 26, 25, 24, 20, 14, 7].map((maxVersionLevel) =>
    features(`a safe downgrade to ${maxVersionLevel}`, 1, true, {
      feature: 'metadata.version',
      maxVersionLevel,
      upgradeType: SAFE_DOWNGRADE,
    }),
  ),
  ...[32, 30, 7].map((maxVersionLevel) =>
    features(`an unsafe downgrade to ${maxVersionLevel}`, 1, true, {
      feature: 'metadata.version',
      maxVersionLevel,
      upgradeType: UNSAFE_DOWNGRADE,
    }),
  ),
  features('kraft.version as it is', 1, true, { feature: 'kraft.version', maxVersionLevel: 1 }),
  features('kraft.version down', 1, true, {
    feature: 'kraft.version',
    maxVersionLevel: 0,
    upgradeType: UNSAFE_DOWNGRADE,
  }),
  features('kraft.version too high', 1, true, { feature: 'kraft.version', maxVersionLevel: 2 }),
  features(
    'one good and one bad',
    1,
    true,
    { feature: 'metadata.version', maxVersionLevel: 33 },
    { feature: 'bogus', maxVersionLevel: 1 },
  ),
  features(
    'one bad and one good',
    2,
    true,
    { feature: 'bogus', maxVersionLevel: 1 },
    { feature: 'metadata.version', maxVersionLevel: 33 },
  ),
  features('a downgrade that stays', 1, false, {
    feature: 'metadata.version',
    maxVersionLevel: 32,
    upgradeType: SAFE_DOWNGRADE,
  }),
  features('and up again', 2, false, {
    feature: 'metadata.version',
    maxVersionLevel: 33,
    upgradeType: UPGRADE,
  }),
];

// --- quotas ---

const EXACT = 0;
const DEFAULT = 1;
const ANY = 2;
type Entity = readonly (readonly [string, string | null])[];
type Component = readonly [entityType: string, matchType: number, match?: string | null];

const quotas = (name: string, strict: boolean, ...components: readonly Component[]) =>
  ask(name, CALLS.describeClientQuotas, 1, {
    strict,
    components: components.map(([entityType, matchType, match]) => ({
      entityType,
      matchType,
      match: match ?? null,
    })),
  });

const entry = (entity: Entity, ops: Readonly<Record<string, number | null>>) => ({
  entity: entity.map(([entityType, entityName]) => ({ entityType, entityName })),
  ops: Object.entries(ops).map(
    ([key, value]): AlterClientQuotasRequestOpDataInput => ({
      key,
      value: value ?? 0,
      remove: value === null,
    }),
  ),
});

const setQuota = (
  name: string,
  entity: Entity,
  ops: Readonly<Record<string, number | null>>,
  validateOnly = false,
) => ask(name, CALLS.alterClientQuotas, 1, { entries: [entry(entity, ops)], validateOnly });

const RATE = { producer_byte_rate: 1024 };

export const QUOTA_CASES: readonly Case[] = [
  quotas('nothing yet', false),
  setQuota('one user set', [['user', 'alice']], { producer_byte_rate: 1024, consumer_byte_rate: 2048 }),
  setQuota('the default user set', [['user', null]], { request_percentage: 50.5 }),
  setQuota('a client', [['client-id', 'c1']], { controller_mutation_rate: 3 }),
  setQuota('the default client', [['client-id', null]], RATE),
  setQuota(
    'a user and a client',
    [
      ['user', 'alice'],
      ['client-id', 'c1'],
    ],
    RATE,
  ),
  setQuota(
    'a client and a user',
    [
      ['client-id', 'c2'],
      ['user', 'alice'],
    ],
    RATE,
  ),
  setQuota(
    'a user and the default client',
    [
      ['user', 'alice'],
      ['client-id', null],
    ],
    RATE,
  ),
  setQuota(
    'both defaults',
    [
      ['user', null],
      ['client-id', null],
    ],
    RATE,
  ),
  setQuota('an address', [['ip', '10.0.0.1']], { connection_creation_rate: 5 }),
  setQuota('the default address set', [['ip', null]], { connection_creation_rate: 100 }),
  setQuota('a host name', [['ip', 'localhost']], { connection_creation_rate: 5 }),
  setQuota('a version 6 address', [['ip', '::1']], { connection_creation_rate: 5 }),
  setQuota('a user with odd characters', [['user', 'CN=a b,O=ä/+%']], RATE),
  setQuota('only checked', [['user', 'bob']], RATE, true),
  setQuota('nothing to change', [['user', 'carol']], {}),
  setQuota('a value that is not there removed', [['user', 'alice']], { request_percentage: null }),
  setQuota('the same value again', [['user', 'alice']], { producer_byte_rate: 1024 }),
  // What is refused.
  setQuota('no entity', [], RATE),
  setQuota('a strange type of entity', [['planet', 'mars']], RATE),
  setQuota('an empty type', [['', 'mars']], RATE),
  setQuota('an empty user', [['user', '']], RATE),
  setQuota('an empty client', [['client-id', '']], RATE),
  setQuota('an empty address', [['ip', '']], { connection_creation_rate: 5 }),
  setQuota(
    'the same type twice',
    [
      ['user', 'a'],
      ['user', 'b'],
    ],
    RATE,
  ),
  setQuota(
    'an address with a user',
    [
      ['user', 'a'],
      ['ip', '10.0.0.1'],
    ],
    RATE,
  ),
  setQuota(
    'an address with a client',
    [
      ['client-id', 'a'],
      ['ip', '10.0.0.1'],
    ],
    { connection_creation_rate: 5 },
  ),
  setQuota('no address', [['ip', 'not an address']], { connection_creation_rate: 5 }),
  setQuota('an address out of range', [['ip', '1.2.3.456']], { connection_creation_rate: 5 }),
  setQuota('a key that is none', [['user', 'dave']], { bogus: 1 }),
  setQuota('a key of addresses for a user', [['user', 'dave']], { connection_creation_rate: 1 }),
  setQuota('a key of users for an address', [['ip', '10.0.0.2']], RATE),
  setQuota('0', [['user', 'dave']], { producer_byte_rate: 0 }),
  setQuota('below 0', [['user', 'dave']], { producer_byte_rate: -1 }),
  setQuota('0 percent', [['user', 'dave']], { request_percentage: 0 }),
  setQuota('a fraction of a byte', [['user', 'dave']], { producer_byte_rate: 0.5 }),
  setQuota('bytes and a fraction', [['user', 'dave']], { producer_byte_rate: 1.5 }),
  setQuota('nearly a whole byte', [['user', 'nearly']], { producer_byte_rate: 1.0000000001 }),
  setQuota('a fraction of a mutation', [['user', 'dave']], { controller_mutation_rate: 0.5 }),
  setQuota('a fraction of a connection', [['ip', '10.0.0.2']], { connection_creation_rate: 1.5 }),
  setQuota('a large number', [['user', 'dave']], { producer_byte_rate: 2 ** 62 }),
  setQuota('too large a number', [['user', 'dave']], { producer_byte_rate: 1e30 }),
  setQuota('too large a percentage', [['user', 'dave']], { request_percentage: 1e30 }),
  setQuota('too many connections', [['ip', '10.0.0.3']], { connection_creation_rate: 2147483648 }),
  setQuota('not a number', [['user', 'erin']], { producer_byte_rate: Number.NaN }),
  setQuota('not a percentage', [['user', 'erin']], { request_percentage: Number.NaN }),
  setQuota('infinite', [['user', 'erin']], { producer_byte_rate: Number.POSITIVE_INFINITY }),
  setQuota('infinite percentage', [['user', 'erin']], { request_percentage: Number.POSITIVE_INFINITY }),
  setQuota('a bad key removed', [['user', 'alice']], { bogus: null }),
  setQuota('one bad key among good ones', [['user', 'frank']], { producer_byte_rate: 1, bogus: 1 }),
  ask('two entries, one bad', CALLS.alterClientQuotas, 1, {
    entries: [entry([['user', 'gina']], RATE), entry([['planet', 'mars']], RATE)],
    validateOnly: false,
  }),
  ask('two entries of one entity', CALLS.alterClientQuotas, 1, {
    entries: [
      entry([['user', 'hugo']], { producer_byte_rate: 1 }),
      entry([['user', 'hugo']], { consumer_byte_rate: 2 }),
    ],
    validateOnly: false,
  }),
  ask('one key twice', CALLS.alterClientQuotas, 1, {
    entries: [
      {
        entity: [{ entityType: 'user', entityName: 'ida' }],
        ops: [
          { key: 'producer_byte_rate', value: 1, remove: false },
          { key: 'producer_byte_rate', value: 2, remove: false },
        ],
      },
    ],
    validateOnly: false,
  }),
  ask('no entries', CALLS.alterClientQuotas, 1, { entries: [], validateOnly: false }),
  ask('an old version', CALLS.alterClientQuotas, 0, {
    entries: [entry([['user', 'old']], RATE)],
    validateOnly: false,
  }),
  // What is found.
  quotas('all', false),
  quotas('all, strictly', true),
  ask('all, v0', CALLS.describeClientQuotas, 0, { components: [], strict: false }),
  quotas('users', false, ['user', ANY]),
  quotas('users alone', true, ['user', ANY]),
  quotas('the default user', false, ['user', DEFAULT]),
  quotas('the default user alone', true, ['user', DEFAULT]),
  quotas('one user', false, ['user', EXACT, 'alice']),
  quotas('one user alone', true, ['user', EXACT, 'alice']),
  quotas('one user, any client', true, ['user', EXACT, 'alice'], ['client-id', ANY]),
  quotas('one user, the default client', true, ['client-id', DEFAULT], ['user', EXACT, 'alice']),
  quotas('any user, one client', false, ['user', ANY], ['client-id', EXACT, 'c1']),
  quotas('clients', false, ['client-id', ANY]),
  quotas('addresses', false, ['ip', ANY]),
  quotas('one address', true, ['ip', EXACT, '10.0.0.1']),
  quotas('the default address', true, ['ip', DEFAULT]),
  quotas('a user that is not', false, ['user', EXACT, 'nobody']),
  quotas('exactly nobody', false, ['user', EXACT, null]),
  quotas('an exact empty name', false, ['user', EXACT, '']),
  quotas('a default with a name', false, ['user', DEFAULT, 'x']),
  quotas('any with a name', false, ['user', ANY, 'x']),
  quotas('a type of match that is none', false, ['user', 7]),
  quotas('a type of entity that is none', false, ['planet', ANY]),
  quotas('an empty type of entity', false, ['', ANY]),
  quotas('one type twice', false, ['user', ANY], ['user', EXACT, 'alice']),
  quotas('an address and a user', false, ['ip', ANY], ['user', ANY]),
  quotas('an address and a client', true, ['ip', ANY], ['client-id', ANY]),
  setQuota('all values of a user removed', [['user', 'alice']], {
    producer_byte_rate: null,
    consumer_byte_rate: null,
  }),
  setQuota('an address removed', [['ip', '10.0.0.1']], { connection_creation_rate: null }),
  quotas('what is left', false),
];

// --- SCRAM ---

const SHA_256 = 1;
const SHA_512 = 2;
type Deletion = AlterUserScramCredentialsRequestScramCredentialDeletionInput;
type Upsertion = AlterUserScramCredentialsRequestScramCredentialUpsertionInput;

const described = (name: string, ...users: readonly string[]) =>
  ask(name, CALLS.describeScram, 0, { users: users.map((user) => ({ name: user })) });

const upsertion = (name: string, more: Partial<Upsertion> = {}): Upsertion => ({
  name,
  mechanism: SHA_256,
  iterations: 4096,
  salt: new Uint8Array([1, 2, 3, 4]),
  saltedPassword: new Uint8Array(32).fill(7),
  ...more,
});

const alterScram = (name: string, upsertions: readonly Upsertion[], deletions: readonly Deletion[] = []) =>
  ask(name, CALLS.alterScram, 0, { deletions, upsertions });

export const SCRAM_CASES: readonly Case[] = [
  ask('all users, none yet', CALLS.describeScram, 0, { users: null }),
  described('no users asked for, none yet'),
  described('a user that is not', 'nobody'),
  alterScram('nothing', []),
  alterScram('one user', [upsertion('alice')]),
  alterScram('the other mechanism', [
    upsertion('alice', { mechanism: SHA_512, iterations: 8192, saltedPassword: new Uint8Array(64) }),
  ]),
  alterScram('two users', [upsertion('bob'), upsertion('carol', { mechanism: SHA_512 })]),
  alterScram('once more', [upsertion('bob', { iterations: 5000 })]),
  alterScram('most iterations', [upsertion('dave', { iterations: 16384 })]),
  alterScram('too many iterations', [upsertion('x', { iterations: 16385 })]),
  alterScram('too few iterations', [upsertion('x', { iterations: 4095 })]),
  alterScram('too few iterations for the other', [upsertion('x', { mechanism: SHA_512, iterations: 4095 })]),
  alterScram('negative iterations', [upsertion('x', { iterations: -1 })]),
  alterScram('a mechanism that is none', [upsertion('x', { mechanism: 9 })]),
  alterScram('mechanism 0', [upsertion('x', { mechanism: 0 })]),
  alterScram('a user without a name', [upsertion('')]),
  alterScram('an empty salt', [upsertion('salt', { salt: new Uint8Array() })]),
  alterScram('an empty password', [upsertion('password', { saltedPassword: new Uint8Array() })]),
  alterScram('one mechanism twice', [upsertion('x'), upsertion('x', { iterations: 5000 })]),
  alterScram('one user with both mechanisms', [upsertion('erin'), upsertion('erin', { mechanism: SHA_512 })]),
  alterScram('one user set and deleted', [upsertion('alice')], [{ name: 'alice', mechanism: SHA_256 }]),
  alterScram(
    'one mechanism set, the other deleted',
    [upsertion('alice')],
    [{ name: 'alice', mechanism: SHA_512 }],
  ),
  alterScram('a deletion of what is not', [], [{ name: 'nobody', mechanism: SHA_256 }]),
  alterScram('a deletion of a mechanism that is not', [], [{ name: 'bob', mechanism: SHA_512 }]),
  alterScram('a deletion of no mechanism', [], [{ name: 'bob', mechanism: 0 }]),
  alterScram('a deletion of a strange mechanism', [], [{ name: 'bob', mechanism: 9 }]),
  alterScram('a deletion without a name', [], [{ name: '', mechanism: SHA_256 }]),
  alterScram(
    'the same deletion twice',
    [],
    [
      { name: 'carol', mechanism: SHA_512 },
      { name: 'carol', mechanism: SHA_512 },
    ],
  ),
  alterScram('one good and one bad', [upsertion('frank'), upsertion('gina', { iterations: 1 })]),
  alterScram('two faults of one user', [
    upsertion('hugo', { iterations: 1 }),
    upsertion('hugo', { mechanism: SHA_512, iterations: 99999 }),
  ]),
  alterScram('a good and a bad one of one user', [
    upsertion('ida'),
    upsertion('ida', { mechanism: SHA_512, iterations: 1 }),
  ]),
  ask('all users', CALLS.describeScram, 0, { users: null }),
  described('no users asked for'),
  described('some users', 'bob', 'nobody', 'alice'),
  described('one user twice', 'bob', 'bob', 'alice'),
  described('an empty name', ''),
  described('a user and an empty name', 'bob', ''),
  alterScram('a deletion', [], [{ name: 'bob', mechanism: SHA_256 }]),
  described('what was deleted', 'bob'),
  ask('all users that are left', CALLS.describeScram, 0, { users: null }),
];

export const CASES = {
  cluster: CLUSTER_CASES,
  nodes: NODE_CASES,
  features: FEATURE_CASES,
  quotas: QUOTA_CASES,
  scram: SCRAM_CASES,
} as const;

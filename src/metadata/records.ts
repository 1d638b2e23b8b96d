/**
 * Records of the cluster metadata log. A record's value is three unsigned varints (frame version 1, api key, record
 * version) and then the record's body; its key is null.
 */
import * as schemas from '../protocol/generated/kraft-metadata.ts';
import { Reader } from '../protocol/reader.ts';
import type { Writer } from '../protocol/writer.ts';
import { BroadsheetError } from '../runtime/errors.ts';

const FRAME_VERSION = 1;

interface Codec<N extends string, Read, Input> {
  readonly name: N;
  readonly key: number;
  readonly maxVersion: number;
  readonly read: (reader: Reader, version: number) => Read;
  readonly write: (writer: Writer, version: number, data: Input) => void;
}

type ShortName<N> = N extends `${infer Short}Record` ? Short : never;

function codec<N extends ShortName<keyof typeof schemas.RecordId>, Read, Input>(
  name: N,
  read: (reader: Reader, version: number) => Read,
  write: (writer: Writer, version: number, data: Input) => void,
): Codec<N, Read, Input> {
  return {
    name,
    key: schemas.RecordId[`${name}Record`],
    maxVersion: schemas.VERSIONS[`${name}Record`][1],
    read,
    write,
  };
}

const CODECS = [
  codec('RegisterBroker', schemas.readRegisterBrokerRecord, schemas.writeRegisterBrokerRecord),
  codec('UnregisterBroker', schemas.readUnregisterBrokerRecord, schemas.writeUnregisterBrokerRecord),
  codec('Topic', schemas.readTopicRecord, schemas.writeTopicRecord),
  codec('Partition', schemas.readPartitionRecord, schemas.writePartitionRecord),
  codec('Config', schemas.readConfigRecord, schemas.writeConfigRecord),
  codec('PartitionChange', schemas.readPartitionChangeRecord, schemas.writePartitionChangeRecord),
  codec('FenceBroker', schemas.readFenceBrokerRecord, schemas.writeFenceBrokerRecord),
  codec('UnfenceBroker', schemas.readUnfenceBrokerRecord, schemas.writeUnfenceBrokerRecord),
  codec('RemoveTopic', schemas.readRemoveTopicRecord, schemas.writeRemoveTopicRecord),
  codec('DelegationToken', schemas.readDelegationTokenRecord, schemas.writeDelegationTokenRecord),
  codec('UserScramCredential', schemas.readUserScramCredentialRecord, schemas.writeUserScramCredentialRecord),
  codec('FeatureLevel', schemas.readFeatureLevelRecord, schemas.writeFeatureLevelRecord),
  codec('ClientQuota', schemas.readClientQuotaRecord, schemas.writeClientQuotaRecord),
  codec('ProducerIds', schemas.readProducerIdsRecord, schemas.writeProducerIdsRecord),
  codec(
    'BrokerRegistrationChange',
    schemas.readBrokerRegistrationChangeRecord,
    schemas.writeBrokerRegistrationChangeRecord,
  ),
  codec('AccessControlEntry', schemas.readAccessControlEntryRecord, schemas.writeAccessControlEntryRecord),
  codec(
    'RemoveAccessControlEntry',
    schemas.readRemoveAccessControlEntryRecord,
    schemas.writeRemoveAccessControlEntryRecord,
  ),
  codec('NoOp', schemas.readNoOpRecord, schemas.writeNoOpRecord),
  codec('ZkMigrationState', schemas.readZkMigrationStateRecord, schemas.writeZkMigrationStateRecord),
  codec(
    'RemoveUserScramCredential',
    schemas.readRemoveUserScramCredentialRecord,
    schemas.writeRemoveUserScramCredentialRecord,
  ),
  codec('BeginTransaction', schemas.readBeginTransactionRecord, schemas.writeBeginTransactionRecord),
  codec('EndTransaction', schemas.readEndTransactionRecord, schemas.writeEndTransactionRecord),
  codec('AbortTransaction', schemas.readAbortTransactionRecord, schemas.writeAbortTransactionRecord),
  codec(
    'RemoveDelegationToken',
    schemas.readRemoveDelegationTokenRecord,
    schemas.writeRemoveDelegationTokenRecord,
  ),
  codec('RegisterController', schemas.readRegisterControllerRecord, schemas.writeRegisterControllerRecord),
  codec('ClearElr', schemas.readClearElrRecord, schemas.writeClearElrRecord),
  codec(
    'UnregisterController',
    schemas.readUnregisterControllerRecord,
    schemas.writeUnregisterControllerRecord,
  ),
] as const;

type Codecs = (typeof CODECS)[number];

/** A record as read: every field is there. */
export type MetadataRecord = {
  [C in Codecs as C['name']]: {
    readonly type: C['name'];
    readonly version: number;
    readonly data: ReturnType<C['read']>;
  };
}[Codecs['name']];

/** A record to write: fields with a default may be left out. */
export type MetadataRecordInput = {
  [C in Codecs as C['name']]: {
    readonly type: C['name'];
    readonly version: number;
    readonly data: Parameters<C['write']>[2];
  };
}[Codecs['name']];

type AnyCodec = Codec<MetadataRecord['type'], MetadataRecord['data'], never>;

const ALL: readonly AnyCodec[] = CODECS as readonly unknown[] as readonly AnyCodec[];
const BY_KEY = new Map(ALL.map((entry) => [entry.key, entry]));
const BY_NAME = new Map(ALL.map((entry) => [entry.name, entry]));

/** Writes a record's frame and body. */
export function encodeMetadataRecord(writer: Writer, record: MetadataRecordInput): void {
  const { key, write } = BY_NAME.get(record.type)!;
  writer.unsignedVarint(FRAME_VERSION);
  writer.unsignedVarint(key);
  writer.unsignedVarint(record.version);
  write(writer, record.version, record.data as never);
}

/**
 * Reads a record's value. Throws CORRUPT for a type or version that Apache Kafka 4.4 does not know: what such a record
 * changed would be lost.
 */
export function decodeMetadataRecord(value: Uint8Array): MetadataRecord {
  const reader = new Reader(value);
  const frame = reader.unsignedVarint();
  if (frame !== FRAME_VERSION)
    throw new BroadsheetError('CORRUPT', `metadata record with frame version ${frame}`);
  const key = reader.unsignedVarint();
  const version = reader.unsignedVarint();
  const found = BY_KEY.get(key);
  if (found === undefined) {
    throw new BroadsheetError(
      'CORRUPT',
      `metadata record of unknown type ${key}: written by a newer Kafka than 4.4?`,
    );
  }
  if (version > found.maxVersion) {
    throw new BroadsheetError(
      'CORRUPT',
      `metadata record ${found.name} has version ${version}, at most ${found.maxVersion} is known: written by a newer Kafka than 4.4?`,
    );
  }
  return { type: found.name, version, data: found.read(reader, version) } as MetadataRecord;
}

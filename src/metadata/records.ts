/**
 * Records of the cluster metadata log. A record's value is three unsigned varints (frame version 1, api key, record
 * version) and then the record's body; its key is null.
 */
import * as schemas from '../protocol/generated/kraft-metadata.ts';
import { Reader } from '../protocol/reader.ts';
import { Writer } from '../protocol/writer.ts';
import { BroadsheetError } from '../runtime/errors.ts';

const FRAME_VERSION = 1;

interface Codec<N extends string, Read, Input> {
  readonly name: N;
  readonly maxVersion: number;
  readonly read: (reader: Reader, version: number) => Read;
  readonly write: (writer: Writer, version: number, data: Input) => void;
}

function codec<N extends string, Read, Input>(
  name: N,
  maxVersion: number,
  read: (reader: Reader, version: number) => Read,
  write: (writer: Writer, version: number, data: Input) => void,
): Codec<N, Read, Input> {
  return { name, maxVersion, read, write };
}

/** By api key. */
const CODECS = {
  0: codec('RegisterBroker', 4, schemas.readRegisterBrokerRecord, schemas.writeRegisterBrokerRecord),
  1: codec('UnregisterBroker', 0, schemas.readUnregisterBrokerRecord, schemas.writeUnregisterBrokerRecord),
  2: codec('Topic', 0, schemas.readTopicRecord, schemas.writeTopicRecord),
  3: codec('Partition', 2, schemas.readPartitionRecord, schemas.writePartitionRecord),
  4: codec('Config', 0, schemas.readConfigRecord, schemas.writeConfigRecord),
  5: codec('PartitionChange', 2, schemas.readPartitionChangeRecord, schemas.writePartitionChangeRecord),
  7: codec('FenceBroker', 0, schemas.readFenceBrokerRecord, schemas.writeFenceBrokerRecord),
  8: codec('UnfenceBroker', 0, schemas.readUnfenceBrokerRecord, schemas.writeUnfenceBrokerRecord),
  9: codec('RemoveTopic', 0, schemas.readRemoveTopicRecord, schemas.writeRemoveTopicRecord),
  10: codec('DelegationToken', 0, schemas.readDelegationTokenRecord, schemas.writeDelegationTokenRecord),
  11: codec(
    'UserScramCredential',
    0,
    schemas.readUserScramCredentialRecord,
    schemas.writeUserScramCredentialRecord,
  ),
  12: codec('FeatureLevel', 0, schemas.readFeatureLevelRecord, schemas.writeFeatureLevelRecord),
  14: codec('ClientQuota', 0, schemas.readClientQuotaRecord, schemas.writeClientQuotaRecord),
  15: codec('ProducerIds', 0, schemas.readProducerIdsRecord, schemas.writeProducerIdsRecord),
  17: codec(
    'BrokerRegistrationChange',
    3,
    schemas.readBrokerRegistrationChangeRecord,
    schemas.writeBrokerRegistrationChangeRecord,
  ),
  18: codec(
    'AccessControlEntry',
    0,
    schemas.readAccessControlEntryRecord,
    schemas.writeAccessControlEntryRecord,
  ),
  19: codec(
    'RemoveAccessControlEntry',
    0,
    schemas.readRemoveAccessControlEntryRecord,
    schemas.writeRemoveAccessControlEntryRecord,
  ),
  20: codec('NoOp', 0, schemas.readNoOpRecord, schemas.writeNoOpRecord),
  21: codec('ZkMigrationState', 0, schemas.readZkMigrationStateRecord, schemas.writeZkMigrationStateRecord),
  22: codec(
    'RemoveUserScramCredential',
    0,
    schemas.readRemoveUserScramCredentialRecord,
    schemas.writeRemoveUserScramCredentialRecord,
  ),
  23: codec('BeginTransaction', 0, schemas.readBeginTransactionRecord, schemas.writeBeginTransactionRecord),
  24: codec('EndTransaction', 0, schemas.readEndTransactionRecord, schemas.writeEndTransactionRecord),
  25: codec('AbortTransaction', 0, schemas.readAbortTransactionRecord, schemas.writeAbortTransactionRecord),
  26: codec(
    'RemoveDelegationToken',
    0,
    schemas.readRemoveDelegationTokenRecord,
    schemas.writeRemoveDelegationTokenRecord,
  ),
  27: codec(
    'RegisterController',
    0,
    schemas.readRegisterControllerRecord,
    schemas.writeRegisterControllerRecord,
  ),
  28: codec('ClearElr', 0, schemas.readClearElrRecord, schemas.writeClearElrRecord),
  29: codec(
    'UnregisterController',
    0,
    schemas.readUnregisterControllerRecord,
    schemas.writeUnregisterControllerRecord,
  ),
} as const;

type Codecs = (typeof CODECS)[keyof typeof CODECS];

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

const BY_KEY = new Map<number, AnyCodec>();
const KEY_BY_NAME = new Map<string, number>();
for (const [key, entry] of Object.entries(CODECS)) {
  BY_KEY.set(Number(key), entry as unknown as AnyCodec);
  KEY_BY_NAME.set(entry.name, Number(key));
}

/** Writes a record's frame and body. */
export function encodeMetadataRecord(writer: Writer, record: MetadataRecordInput): void {
  const key = KEY_BY_NAME.get(record.type)!;
  writer.unsignedVarint(FRAME_VERSION);
  writer.unsignedVarint(key);
  writer.unsignedVarint(record.version);
  BY_KEY.get(key)!.write(writer, record.version, record.data as never);
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

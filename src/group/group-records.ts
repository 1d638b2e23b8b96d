/**
 * Records of `__consumer_offsets`: a key is an int16 that says what it is, then its body; a value is an int16 version,
 * then its body; a null value takes back what the key said. Written in the versions that Apache Kafka 4.4 writes.
 */
import type { JournalRecord } from '../metadata/journal.ts';
import * as schemas from '../protocol/generated/group-coordinator.ts';
import { Reader } from '../protocol/reader.ts';
import type { ClassicGroup } from './classic-group.ts';
import { CONSUMER_RECORDS, type ConsumerChange, readConsumerRecord } from './consumer-records.ts';
import { bytesOf } from './record-bytes.ts';
import { readStreamsRecord, STREAMS_RECORDS, type StreamsChange } from './streams-records.ts';

export interface CommittedOffset {
  readonly offset: number;
  /** -1: not given. */
  readonly leaderEpoch: number;
  readonly metadata: string;
  /** ms since the epoch. */
  readonly commitTimestamp: number;
  /** ms since the epoch, -1 where the broker's retention holds. */
  readonly expireTimestamp: number;
  /** 22 characters of base64url; the zero id when not known. */
  readonly topicId: string;
}

export const ZERO_ID = 'AAAAAAAAAAAAAAAAAAAAAA';

/** Groups of a protocol that is not served. */
export type ForeignType = 'Share';

export type GroupRecord =
  | {
      readonly kind: 'offset';
      readonly groupId: string;
      readonly topic: string;
      readonly partition: number;
      readonly value: CommittedOffset | null;
    }
  | { readonly kind: 'classic'; readonly groupId: string; readonly value: schemas.GroupMetadataValue | null }
  | { readonly kind: 'consumer'; readonly groupId: string; readonly change: ConsumerChange }
  | { readonly kind: 'streams'; readonly groupId: string; readonly change: StreamsChange }
  | {
      readonly kind: 'foreign';
      readonly groupId: string;
      readonly type: ForeignType;
      /** Tells of one member of the group. */
      readonly ofMember: boolean;
      readonly key: Uint8Array;
      readonly removed: boolean;
    }
  /** Of a type or version that Apache Kafka 4.4 does not have. */
  | { readonly kind: 'unknown'; readonly type: number };

const KEY_VERSION = 0;
const GROUP_VALUE_VERSION = 3;
const OFFSET_VALUE_VERSION = 4;
/** The last one with an expire timestamp. */
const EXPIRING_OFFSET_VALUE_VERSION = 1;

const ID = schemas.RecordId;

const FOREIGN = new Map<number, { type: ForeignType; ofMember: boolean }>(
  Object.entries(ID).flatMap(([name, id]) => {
    if (!name.startsWith('ShareGroup')) return [];
    return [[id, { type: 'Share' as const, ofMember: name.endsWith('GroupMemberMetadata') }]];
  }),
);

function offsetKey(group: string, topic: string, partition: number): Uint8Array {
  return bytesOf(ID.OffsetCommit, (w) =>
    schemas.writeOffsetCommitKey(w, KEY_VERSION, { group, topic, partition }),
  );
}

export function offsetRecord(
  groupId: string,
  topic: string,
  partition: number,
  committed: CommittedOffset,
): JournalRecord {
  const expires = committed.expireTimestamp >= 0;
  const version = expires ? EXPIRING_OFFSET_VALUE_VERSION : OFFSET_VALUE_VERSION;
  return {
    key: offsetKey(groupId, topic, partition),
    value: bytesOf(version, (w) => schemas.writeOffsetCommitValue(w, version, committed)),
  };
}

export function offsetTombstone(groupId: string, topic: string, partition: number): JournalRecord {
  return { key: offsetKey(groupId, topic, partition), value: null };
}

function groupKey(group: string): Uint8Array {
  return bytesOf(ID.GroupMetadata, (w) => schemas.writeGroupMetadataKey(w, KEY_VERSION, { group }));
}

/** What is to be known of a group after a restart: its generation, members and these assignments. */
export function groupRecord(
  group: ClassicGroup,
  assignments: ReadonlyMap<string, Uint8Array>,
  generation = group.generationId,
): JournalRecord {
  const value: schemas.GroupMetadataValueInput = {
    protocolType: group.protocolType ?? '',
    generation,
    protocol: group.protocolName,
    leader: group.members.leaderId,
    currentStateTimestamp: group.stateTimestamp,
    members: group.members.all().map((member) => ({
      memberId: member.memberId,
      groupInstanceId: member.groupInstanceId,
      clientId: member.clientId,
      clientHost: member.clientHost,
      rebalanceTimeout: member.rebalanceTimeoutMs,
      sessionTimeout: member.sessionTimeoutMs,
      subscription: member.metadata(group.protocolName),
      assignment: assignments.get(member.memberId) ?? new Uint8Array(),
    })),
  };
  return {
    key: groupKey(group.groupId),
    value: bytesOf(GROUP_VALUE_VERSION, (w) =>
      schemas.writeGroupMetadataValue(w, GROUP_VALUE_VERSION, value),
    ),
  };
}

export function groupTombstone(groupId: string): JournalRecord {
  return { key: groupKey(groupId), value: null };
}

/** The value's body and its version, or undefined for one that is too new. */
function versionedValue<T>(
  value: Uint8Array,
  maxVersion: number,
  read: (reader: Reader, version: number) => T,
): T | undefined {
  const reader = new Reader(value);
  const version = reader.int16();
  return version < 0 || version > maxVersion ? undefined : read(reader, version);
}

/** Reads one record. Throws MALFORMED for bytes that are not what their type says. */
export function readGroupRecord(key: Uint8Array, value: Uint8Array | null): GroupRecord {
  const reader = new Reader(key);
  const type = reader.int16();
  if (type === ID.LegacyOffsetCommit || type === ID.OffsetCommit) {
    const { group: groupId, topic, partition } = schemas.readOffsetCommitKey(reader, KEY_VERSION);
    if (value === null) return { kind: 'offset', groupId, topic, partition, value: null };
    const read = versionedValue(value, schemas.VERSIONS.OffsetCommitValue[1], schemas.readOffsetCommitValue);
    if (read === undefined) return { kind: 'unknown', type };
    const { offset, leaderEpoch, metadata, commitTimestamp, expireTimestamp, topicId } = read;
    return {
      kind: 'offset',
      groupId,
      topic,
      partition,
      value: { offset, leaderEpoch, metadata, commitTimestamp, expireTimestamp, topicId },
    };
  }
  if (type === ID.GroupMetadata) {
    const { group: groupId } = schemas.readGroupMetadataKey(reader, KEY_VERSION);
    if (value === null) return { kind: 'classic', groupId, value: null };
    const read = versionedValue(
      value,
      schemas.VERSIONS.GroupMetadataValue[1],
      schemas.readGroupMetadataValue,
    );
    return read === undefined ? { kind: 'unknown', type } : { kind: 'classic', groupId, value: read };
  }
  if (CONSUMER_RECORDS.has(type)) {
    const read = readConsumerRecord(type, reader, value);
    return read === undefined ? { kind: 'unknown', type } : { kind: 'consumer', ...read };
  }
  if (STREAMS_RECORDS.has(type)) {
    const read = readStreamsRecord(type, reader, value);
    return read === undefined ? { kind: 'unknown', type } : { kind: 'streams', ...read };
  }
  const foreign = FOREIGN.get(type);
  if (foreign === undefined) return { kind: 'unknown', type };
  // The keys of all of them begin with the group's id.
  return { kind: 'foreign', groupId: reader.string(), ...foreign, key, removed: value === null };
}

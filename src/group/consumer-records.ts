/** Records of a consumer group in `__consumer_offsets`, as Apache Kafka 4.4 writes them. See group-records.ts. */
import type { JournalRecord } from '../metadata/journal.ts';
import * as schemas from '../protocol/generated/group-coordinator.ts';
import type { Reader } from '../protocol/reader.ts';
import type { Writer } from '../protocol/writer.ts';
import { BroadsheetError } from '../runtime/errors.ts';
import type { MemberAssignment } from './assignor.ts';
import type { EpochPartitions, MemberProgress, MemberSubscription } from './consumer-member.ts';
import type { ResolvedPattern } from './consumer-types.ts';
import { bytesOf, mapped, readHash, versioned, writeHash } from './record-bytes.ts';
import type { TargetChange } from './target-table.ts';

const VERSION = 0;
const ID = schemas.RecordId;
const HASH_TAG = 0;

/** What a record says of a group; a null value takes it back. */
export type ConsumerChange =
  | {
      readonly type: 'group';
      readonly value: { readonly epoch: number; readonly metadataHash: bigint } | null;
    }
  | { readonly type: 'member'; readonly memberId: string; readonly value: MemberSubscription | null }
  | TargetChange<MemberAssignment>
  | { readonly type: 'progress'; readonly memberId: string; readonly value: MemberProgress | null }
  | { readonly type: 'pattern'; readonly pattern: string; readonly value: ResolvedPattern | null }
  /** Of an Apache Kafka before 4.1; nothing in it counts any more. */
  | { readonly type: 'partitions'; readonly value: true | null };

function keyBytes(groupId: string, change: ConsumerChange): Uint8Array {
  switch (change.type) {
    case 'group':
      return bytesOf(ID.ConsumerGroupMetadata, (w) =>
        schemas.writeConsumerGroupMetadataKey(w, VERSION, { groupId }),
      );
    case 'member':
      return bytesOf(ID.ConsumerGroupMemberMetadata, (w) =>
        schemas.writeConsumerGroupMemberMetadataKey(w, VERSION, { groupId, memberId: change.memberId }),
      );
    case 'targetEpoch':
      return bytesOf(ID.ConsumerGroupTargetAssignmentMetadata, (w) =>
        schemas.writeConsumerGroupTargetAssignmentMetadataKey(w, VERSION, { groupId }),
      );
    case 'target':
      return bytesOf(ID.ConsumerGroupTargetAssignmentMember, (w) =>
        schemas.writeConsumerGroupTargetAssignmentMemberKey(w, VERSION, {
          groupId,
          memberId: change.memberId,
        }),
      );
    case 'progress':
      return bytesOf(ID.ConsumerGroupCurrentMemberAssignment, (w) =>
        schemas.writeConsumerGroupCurrentMemberAssignmentKey(w, VERSION, {
          groupId,
          memberId: change.memberId,
        }),
      );
    case 'pattern':
      return bytesOf(ID.ConsumerGroupRegularExpression, (w) =>
        schemas.writeConsumerGroupRegularExpressionKey(w, VERSION, {
          groupId,
          regularExpression: change.pattern,
        }),
      );
    case 'partitions':
      return bytesOf(ID.ConsumerGroupPartitionMetadata, (w) =>
        schemas.writeConsumerGroupPartitionMetadataKey(w, VERSION, { groupId }),
      );
  }
}

/** By hand: the hash takes all 64 bits, which the generated code's numbers do not. */
function writeGroupValue(w: Writer, epoch: number, metadataHash: bigint): void {
  w.int32(epoch);
  w.unsignedVarint(metadataHash === 0n ? 0 : 1);
  if (metadataHash === 0n) return;
  w.unsignedVarint(HASH_TAG);
  w.unsignedVarint(8);
  writeHash(w, metadataHash);
}

function readGroupValue(r: Reader): { epoch: number; metadataHash: bigint } {
  const epoch = r.int32();
  let metadataHash = 0n;
  for (let left = r.tagCount(); left > 0; left--) {
    const tag = r.unsignedVarint();
    const end = r.tagEnd();
    if (tag === HASH_TAG) {
      metadataHash = readHash(r);
      r.tagDone(tag, end);
    } else r.unknownTag(undefined, tag, end);
  }
  return { epoch, metadataHash };
}

function topicsWithEpochs(partitions: EpochPartitions) {
  return [...partitions].map(([topicId, epochs]) => ({
    topicId,
    partitions: [...epochs.keys()],
    assignmentEpochs: [...epochs.values()],
  }));
}

function valueBytes(change: ConsumerChange): Uint8Array | null {
  if (change.value === null) return null;
  switch (change.type) {
    case 'group': {
      const { epoch, metadataHash } = change.value;
      return bytesOf(VERSION, (w) => writeGroupValue(w, epoch, metadataHash));
    }
    case 'member': {
      const { value } = change;
      return bytesOf(VERSION, (w) =>
        schemas.writeConsumerGroupMemberMetadataValue(w, VERSION, {
          instanceId: value.instanceId,
          rackId: value.rackId,
          clientId: value.clientId,
          clientHost: value.clientHost,
          subscribedTopicNames: value.topicNames,
          subscribedTopicRegex: value.topicRegex,
          rebalanceTimeoutMs: value.rebalanceTimeoutMs,
          serverAssignor: value.serverAssignor,
          classicMemberMetadata:
            value.classic === null
              ? null
              : {
                  sessionTimeoutMs: value.classic.sessionTimeoutMs,
                  supportedProtocols: value.classic.protocols,
                },
        }),
      );
    }
    case 'targetEpoch': {
      const { epoch: assignmentEpoch, timestamp: assignmentTimestamp } = change.value;
      return bytesOf(VERSION, (w) =>
        schemas.writeConsumerGroupTargetAssignmentMetadataValue(w, VERSION, {
          assignmentEpoch,
          assignmentTimestamp,
        }),
      );
    }
    case 'target': {
      const topicPartitions = [...change.value].map(([topicId, partitions]) => ({ topicId, partitions }));
      return bytesOf(VERSION, (w) =>
        schemas.writeConsumerGroupTargetAssignmentMemberValue(w, VERSION, { topicPartitions }),
      );
    }
    case 'progress': {
      const { memberEpoch, previousMemberEpoch, state, assigned, pendingRevocation } = change.value;
      return bytesOf(VERSION, (w) =>
        schemas.writeConsumerGroupCurrentMemberAssignmentValue(w, VERSION, {
          memberEpoch,
          previousMemberEpoch,
          state,
          assignedPartitions: topicsWithEpochs(assigned),
          partitionsPendingRevocation: topicsWithEpochs(pendingRevocation),
        }),
      );
    }
    case 'pattern': {
      const { topics, version, timestamp } = change.value;
      return bytesOf(VERSION, (w) =>
        schemas.writeConsumerGroupRegularExpressionValue(w, VERSION, { topics, version, timestamp }),
      );
    }
    case 'partitions':
      throw new Error('no value of this record is ever written');
  }
}

export function consumerRecord(groupId: string, change: ConsumerChange): JournalRecord {
  return { key: keyBytes(groupId, change), value: valueBytes(change) };
}

// --- reading ---

function readEpochs(
  topics: schemas.ConsumerGroupCurrentMemberAssignmentValue['assignedPartitions'],
  memberEpoch: number,
): EpochPartitions {
  const read = new Map<string, Map<number, number>>();
  for (const { topicId, partitions, assignmentEpochs } of topics) {
    // A Kafka before 4.4 writes no epochs of assignment: the member's is a safe one.
    const pairs = partitions.map(
      (partition, at) => [partition, assignmentEpochs?.[at] ?? memberEpoch] as const,
    );
    read.set(topicId, new Map(pairs.sort(([a], [b]) => a - b)));
  }
  return read;
}

function readMember(read: schemas.ConsumerGroupMemberMetadataValue): MemberSubscription {
  const { classicMemberMetadata: classic } = read;
  return {
    instanceId: read.instanceId,
    rackId: read.rackId,
    clientId: read.clientId,
    clientHost: read.clientHost,
    rebalanceTimeoutMs: read.rebalanceTimeoutMs,
    topicNames: [...new Set(read.subscribedTopicNames)].sort(),
    topicRegex: read.subscribedTopicRegex ?? '',
    serverAssignor: read.serverAssignor,
    classic:
      classic === null
        ? null
        : {
            sessionTimeoutMs: classic.sessionTimeoutMs,
            protocols: classic.supportedProtocols.map(({ name, metadata }) => ({
              name,
              metadata: Buffer.from(metadata),
            })),
          },
  };
}

type Read = { readonly groupId: string; readonly change: ConsumerChange };

/** The types of record that readConsumerRecord() takes. */
export const CONSUMER_RECORDS: ReadonlySet<number> = new Set([
  ID.ConsumerGroupMetadata,
  ID.ConsumerGroupPartitionMetadata,
  ID.ConsumerGroupMemberMetadata,
  ID.ConsumerGroupTargetAssignmentMetadata,
  ID.ConsumerGroupTargetAssignmentMember,
  ID.ConsumerGroupCurrentMemberAssignment,
  ID.ConsumerGroupRegularExpression,
]);

/** `key` stands behind the type. Undefined for a value that is too new. Throws MALFORMED. */
export function readConsumerRecord(type: number, key: Reader, value: Uint8Array | null): Read | undefined {
  const groupId = key.string();
  const change = readChange(type, key, value);
  return change.value === undefined ? undefined : { groupId, change: change as ConsumerChange };
}

function readChange(type: number, key: Reader, value: Uint8Array | null) {
  switch (type) {
    case ID.ConsumerGroupMetadata:
      return { type: 'group' as const, value: versioned(value, VERSION, readGroupValue) };
    case ID.ConsumerGroupPartitionMetadata:
      return { type: 'partitions' as const, value: value === null ? null : true };
    case ID.ConsumerGroupMemberMetadata: {
      const memberId = key.string();
      const read = versioned(value, VERSION, schemas.readConsumerGroupMemberMetadataValue);
      return { type: 'member' as const, memberId, value: mapped(read, readMember) };
    }
    case ID.ConsumerGroupTargetAssignmentMetadata: {
      const read = versioned(value, VERSION, schemas.readConsumerGroupTargetAssignmentMetadataValue);
      const facts = mapped(read, ({ assignmentEpoch, assignmentTimestamp }) => ({
        epoch: assignmentEpoch,
        timestamp: assignmentTimestamp,
      }));
      return { type: 'targetEpoch' as const, value: facts };
    }
    case ID.ConsumerGroupTargetAssignmentMember: {
      const memberId = key.string();
      const read = versioned(value, VERSION, schemas.readConsumerGroupTargetAssignmentMemberValue);
      const target = mapped(
        read,
        ({ topicPartitions }) =>
          new Map(topicPartitions.map((t) => [t.topicId, [...t.partitions].sort((a, b) => a - b)])),
      );
      return { type: 'target' as const, memberId, value: target };
    }
    case ID.ConsumerGroupCurrentMemberAssignment: {
      const memberId = key.string();
      const read = versioned(value, VERSION, schemas.readConsumerGroupCurrentMemberAssignmentValue);
      const progress = mapped(read, (p) => ({
        memberEpoch: p.memberEpoch,
        previousMemberEpoch: p.previousMemberEpoch,
        state: p.state,
        assigned: readEpochs(p.assignedPartitions, p.memberEpoch),
        pendingRevocation: readEpochs(p.partitionsPendingRevocation, p.memberEpoch),
      }));
      return { type: 'progress' as const, memberId, value: progress };
    }
    case ID.ConsumerGroupRegularExpression: {
      const pattern = key.string();
      const read = versioned(value, VERSION, schemas.readConsumerGroupRegularExpressionValue);
      const resolved = mapped(read, ({ topics, version, timestamp }) => ({
        topics: [...topics].sort(),
        version,
        timestamp,
      }));
      return { type: 'pattern' as const, pattern, value: resolved };
    }
    default:
      throw new BroadsheetError('MALFORMED', `record type ${type} is not one of a consumer group`);
  }
}

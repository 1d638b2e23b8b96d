/** Records of a streams group in `__consumer_offsets`, as Apache Kafka 4.4 writes them. See group-records.ts. */
import type { JournalRecord } from '../metadata/journal.ts';
import * as schemas from '../protocol/generated/group-coordinator.ts';
import type { Reader } from '../protocol/reader.ts';
import type { Writer } from '../protocol/writer.ts';
import { BroadsheetError } from '../runtime/errors.ts';
import type { MemberAssignment } from './assignor.ts';
import type { EpochPartitions } from './consumer-member.ts';
import { bytesOf, mapped, readHash, versioned, writeHash } from './record-bytes.ts';
import type { StreamsMemberFacts, TaskProgress } from './streams-member.ts';
import type { TaskAssignment } from './streams-tasks.ts';
import { plainTopology, type StreamsTopology } from './streams-topology.ts';
import type { KeyValue } from './streams-types.ts';
import type { TargetChange } from './target-table.ts';

const VERSION = 0;
const ID = schemas.RecordId;
/** The records count states from 1. */
const FIRST_STATE = 1;
/** Bytes of epoch and hash in a group's value. */
const EPOCH_BYTES = 4;
const HASH_BYTES = 8;

export interface StreamsGroupFacts {
  readonly epoch: number;
  readonly metadataHash: bigint;
  /** Of the topology that was found to be ready, -1: none was. */
  readonly validatedTopologyEpoch: number;
  /** What the last target was computed with. */
  readonly assignmentConfigs: readonly KeyValue[];
}

/** What a record says of a group; a null value takes it back. */
export type StreamsChange =
  | { readonly type: 'group'; readonly value: StreamsGroupFacts | null }
  | { readonly type: 'topology'; readonly value: StreamsTopology | null }
  | { readonly type: 'member'; readonly memberId: string; readonly value: StreamsMemberFacts | null }
  | TargetChange<TaskAssignment>
  | { readonly type: 'progress'; readonly memberId: string; readonly value: TaskProgress | null };

function keyBytes(groupId: string, change: StreamsChange): Uint8Array {
  switch (change.type) {
    case 'group':
      return bytesOf(ID.StreamsGroupMetadata, (w) =>
        schemas.writeStreamsGroupMetadataKey(w, VERSION, { groupId }),
      );
    case 'topology':
      return bytesOf(ID.StreamsGroupTopology, (w) =>
        schemas.writeStreamsGroupTopologyKey(w, VERSION, { groupId }),
      );
    case 'targetEpoch':
      return bytesOf(ID.StreamsGroupTargetAssignmentMetadata, (w) =>
        schemas.writeStreamsGroupTargetAssignmentMetadataKey(w, VERSION, { groupId }),
      );
    default: {
      const { type, memberId } = change;
      const write = MEMBER_KEYS[type];
      return bytesOf(write.id, (w) => write.key(w, VERSION, { groupId, memberId }));
    }
  }
}

const MEMBER_KEYS = {
  member: { id: ID.StreamsGroupMemberMetadata, key: schemas.writeStreamsGroupMemberMetadataKey },
  target: {
    id: ID.StreamsGroupTargetAssignmentMember,
    key: schemas.writeStreamsGroupTargetAssignmentMemberKey,
  },
  progress: {
    id: ID.StreamsGroupCurrentMemberAssignment,
    key: schemas.writeStreamsGroupCurrentMemberAssignmentKey,
  },
};

function taskIds(tasks: MemberAssignment) {
  return [...tasks].map(([subtopologyId, partitions]) => ({ subtopologyId, partitions }));
}

function tasksWithEpochs(tasks: EpochPartitions) {
  return [...tasks].map(([subtopologyId, epochs]) => ({
    subtopologyId,
    partitions: [...epochs.keys()],
    assignmentEpochs: [...epochs.values()],
  }));
}

/** Without epochs, which copies do not have. */
function copies(tasks: EpochPartitions) {
  return [...tasks].map(([subtopologyId, epochs]) => ({ subtopologyId, partitions: [...epochs.keys()] }));
}

/** By hand in the middle, since the hash takes all 64 bits. */
function groupValue(facts: StreamsGroupFacts): Uint8Array {
  const bytes = bytesOf(VERSION, (w) => {
    schemas.writeStreamsGroupMetadataValue(w, VERSION, {
      epoch: facts.epoch,
      metadataHash: 0,
      validatedTopologyEpoch: facts.validatedTopologyEpoch,
      lastAssignmentConfigs: facts.assignmentConfigs,
    });
  });
  const hash = bytesOf(VERSION, (w) => writeHash(w, facts.metadataHash));
  const versionBytes = hash.length - HASH_BYTES;
  bytes.set(hash.subarray(versionBytes), versionBytes + EPOCH_BYTES);
  return bytes;
}

function readGroupValue(r: Reader, version: number): StreamsGroupFacts {
  const from = r.position;
  const epoch = r.int32();
  const metadataHash = readHash(r);
  r.position = from;
  const read = schemas.readStreamsGroupMetadataValue(r, version);
  const assignmentConfigs = (read.lastAssignmentConfigs ?? []).map(({ key, value }) => ({ key, value }));
  return { epoch, metadataHash, validatedTopologyEpoch: read.validatedTopologyEpoch, assignmentConfigs };
}

function valueBytes(change: StreamsChange): Uint8Array | null {
  if (change.value === null) return null;
  if (change.type === 'group') return groupValue(change.value);
  return bytesOf(VERSION, (w) => writeValue(w, change));
}

function writeValue(w: Writer, change: StreamsChange): void {
  switch (change.type) {
    case 'topology':
      schemas.writeStreamsGroupTopologyValue(w, VERSION, change.value!);
      return;
    case 'member':
      schemas.writeStreamsGroupMemberMetadataValue(w, VERSION, change.value!);
      return;
    case 'targetEpoch': {
      const { epoch: assignmentEpoch, timestamp: assignmentTimestamp } = change.value!;
      schemas.writeStreamsGroupTargetAssignmentMetadataValue(w, VERSION, {
        assignmentEpoch,
        assignmentTimestamp,
      });
      return;
    }
    case 'target': {
      const { active, standby, warmup } = change.value!;
      schemas.writeStreamsGroupTargetAssignmentMemberValue(w, VERSION, {
        activeTasks: taskIds(active),
        standbyTasks: taskIds(standby),
        warmupTasks: taskIds(warmup),
      });
      return;
    }
    case 'progress': {
      const { memberEpoch, previousMemberEpoch, state, assigned, pendingRevocation: pending } = change.value!;
      schemas.writeStreamsGroupCurrentMemberAssignmentValue(w, VERSION, {
        memberEpoch,
        previousMemberEpoch,
        state: state + FIRST_STATE,
        activeTasks: tasksWithEpochs(assigned.active),
        standbyTasks: copies(assigned.standby),
        warmupTasks: copies(assigned.warmup),
        activeTasksPendingRevocation: tasksWithEpochs(pending.active),
        standbyTasksPendingRevocation: copies(pending.standby),
        warmupTasksPendingRevocation: copies(pending.warmup),
      });
      return;
    }
    default:
      throw new Error(`the value of a record of type ${change.type} is written elsewhere`);
  }
}

export function streamsRecord(groupId: string, change: StreamsChange): JournalRecord {
  return { key: keyBytes(groupId, change), value: valueBytes(change) };
}

// --- reading ---

interface ReadTasks {
  readonly subtopologyId: string;
  readonly partitions: readonly number[];
  readonly assignmentEpochs?: readonly number[] | null;
}

function readTasks(tasks: readonly ReadTasks[]): MemberAssignment {
  return new Map(tasks.map((t) => [t.subtopologyId, [...t.partitions].sort((a, b) => a - b)]));
}

function readEpochs(tasks: readonly ReadTasks[], memberEpoch: number): EpochPartitions {
  return new Map(
    tasks.map(({ subtopologyId, partitions, assignmentEpochs }) => {
      const pairs = partitions.map((p, at) => [p, assignmentEpochs?.[at] ?? memberEpoch] as const);
      return [subtopologyId, new Map(pairs.sort(([a], [b]) => a - b))];
    }),
  );
}

function readMember(read: schemas.StreamsGroupMemberMetadataValue): StreamsMemberFacts {
  const { userEndpoint: endpoint } = read;
  return {
    instanceId: read.instanceId,
    rackId: read.rackId,
    clientId: read.clientId,
    clientHost: read.clientHost,
    rebalanceTimeoutMs: read.rebalanceTimeoutMs,
    topologyEpoch: read.topologyEpoch,
    processId: read.processId,
    userEndpoint: endpoint === null ? null : { host: endpoint.host, port: endpoint.port },
    clientTags: read.clientTags.map(({ key, value }) => ({ key, value })),
  };
}

function readProgress(p: schemas.StreamsGroupCurrentMemberAssignmentValue): TaskProgress {
  const epochs = (tasks: readonly ReadTasks[]) => readEpochs(tasks, p.memberEpoch);
  return {
    memberEpoch: p.memberEpoch,
    previousMemberEpoch: p.previousMemberEpoch,
    state: p.state - FIRST_STATE,
    assigned: {
      active: epochs(p.activeTasks),
      standby: epochs(p.standbyTasks),
      warmup: epochs(p.warmupTasks),
    },
    pendingRevocation: {
      active: epochs(p.activeTasksPendingRevocation),
      standby: epochs(p.standbyTasksPendingRevocation),
      warmup: epochs(p.warmupTasksPendingRevocation),
    },
  };
}

type Read = { readonly groupId: string; readonly change: StreamsChange };

/** The types of record that readStreamsRecord() takes. */
export const STREAMS_RECORDS: ReadonlySet<number> = new Set([
  ID.StreamsGroupMetadata,
  ID.StreamsGroupTopology,
  ID.StreamsGroupMemberMetadata,
  ID.StreamsGroupTargetAssignmentMetadata,
  ID.StreamsGroupTargetAssignmentMember,
  ID.StreamsGroupCurrentMemberAssignment,
]);

/** `key` stands behind the type. Undefined for a value that is too new. Throws MALFORMED. */
export function readStreamsRecord(type: number, key: Reader, value: Uint8Array | null): Read | undefined {
  const groupId = key.string();
  const change = readChange(type, key, value);
  return change.value === undefined ? undefined : { groupId, change: change as StreamsChange };
}

function readChange(type: number, key: Reader, value: Uint8Array | null) {
  switch (type) {
    case ID.StreamsGroupMetadata:
      return { type: 'group' as const, value: versioned(value, VERSION, readGroupValue) };
    case ID.StreamsGroupTopology: {
      const read = versioned(value, VERSION, schemas.readStreamsGroupTopologyValue);
      return { type: 'topology' as const, value: mapped(read, plainTopology) };
    }
    case ID.StreamsGroupTargetAssignmentMetadata: {
      const read = versioned(value, VERSION, schemas.readStreamsGroupTargetAssignmentMetadataValue);
      const facts = mapped(read, (r) => ({ epoch: r.assignmentEpoch, timestamp: r.assignmentTimestamp }));
      return { type: 'targetEpoch' as const, value: facts };
    }
    case ID.StreamsGroupMemberMetadata: {
      const read = versioned(value, VERSION, schemas.readStreamsGroupMemberMetadataValue);
      return { type: 'member' as const, memberId: key.string(), value: mapped(read, readMember) };
    }
    case ID.StreamsGroupTargetAssignmentMember: {
      const read = versioned(value, VERSION, schemas.readStreamsGroupTargetAssignmentMemberValue);
      const target = mapped(read, ({ activeTasks, standbyTasks, warmupTasks }) => ({
        active: readTasks(activeTasks),
        standby: readTasks(standbyTasks),
        warmup: readTasks(warmupTasks),
      }));
      return { type: 'target' as const, memberId: key.string(), value: target };
    }
    case ID.StreamsGroupCurrentMemberAssignment: {
      const read = versioned(value, VERSION, schemas.readStreamsGroupCurrentMemberAssignmentValue);
      return { type: 'progress' as const, memberId: key.string(), value: mapped(read, readProgress) };
    }
    default:
      throw new BroadsheetError('MALFORMED', `record type ${type} is not one of a streams group`);
  }
}

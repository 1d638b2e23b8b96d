/** What goes into a streams group (KIP-1071), what comes out, and what it needs of its coordinator. */
import type { JournalRecord } from '../metadata/journal.ts';
import type { Clock } from '../runtime/clock.ts';
import type { ConsumerFault, TopicsView } from './consumer-types.ts';
import type { TaskAssignment } from './streams-tasks.ts';
import type { StreamsTopology } from './streams-topology.ts';

export type StreamsState = 'Empty' | 'NotReady' | 'Assigning' | 'Reconciling' | 'Stable' | 'Dead';

/** What a member hears besides its tasks; codes as in KIP-1071 and Apache Kafka 4.4. */
export const StreamsStatus = {
  STALE_TOPOLOGY: 0,
  MISSING_SOURCE_TOPICS: 1,
  INCORRECTLY_PARTITIONED_TOPICS: 2,
  MISSING_INTERNAL_TOPICS: 3,
  SHUTDOWN_APPLICATION: 4,
  ASSIGNMENT_DELAYED: 5,
} as const;

export interface StatusDetail {
  /** One of StreamsStatus. */
  readonly statusCode: number;
  readonly statusDetail: string;
}

/** `group.streams.*`, and what a group's own `streams.*` put over it; the values of this moment. */
export interface StreamsSettings {
  /** group.streams.max.size */
  readonly maxSize: number;
  sessionTimeoutMs(groupId: string): number;
  /** `fixed`: someone has set it, and heartbeats of a group at rest come no sooner. */
  heartbeatInterval(groupId: string): { readonly ms: number; readonly fixed: boolean };
  /** 0: every change of a group is followed by an assignment at once. */
  assignmentIntervalMs(groupId: string): number;
  /** 0: the first member gets its tasks at once. */
  initialRebalanceDelayMs(groupId: string): number;
  taskOffsetIntervalMs(groupId: string): number;
  /** Records. */
  acceptableRecoveryLag(groupId: string): number;
  /** By Kafka's name. */
  assignorName(groupId: string): string;
  /** Standby copies of each task that has state. */
  standbyReplicas(groupId: string): number;
  /** streams.rack.aware.assignment.tags */
  rackTags(groupId: string): readonly string[];
}

/** What a group needs of its coordinator. */
export interface StreamsHost {
  readonly clock: Clock;
  readonly streams: StreamsSettings;
  readonly topics: TopicsView;
  /** Grows whenever a topic is made, deleted or gets partitions. */
  readonly topicsVersion: number;
  /** Members of all streams groups. */
  readonly streamsMembers: number;
  /** Appends records of a group as one batch; `done` hears a Kafka error code, never before this returns, in the order of
   * the appends. */
  append(groupId: string, records: readonly JournalRecord[], done: (errorCode: number) => void): void;
  /** The group has more or fewer members than it had. */
  membersChanged(by: number): void;
  /** Why topics of the group could not be made; empty when none was tried, or they were. */
  creationFailure(groupId: string): string;
  log(groupId: string, message: string): void;
}

export interface Endpoint {
  readonly host: string;
  readonly port: number;
}

export interface KeyValue {
  readonly key: string;
  readonly value: string;
}

export interface TaskOffset {
  readonly subtopologyId: string;
  readonly partition: number;
  readonly offset: number;
}

/** A StreamsGroupHeartbeat request; null is "as before". */
export interface StreamsHeartbeat {
  readonly groupId: string;
  readonly memberId: string;
  readonly memberEpoch: number;
  readonly endpointInformationEpoch: number;
  readonly instanceId: string | null;
  readonly rackId: string | null;
  /** -1: as before. */
  readonly rebalanceTimeoutMs: number;
  readonly topology: StreamsTopology | null;
  /** What the member owns now; all roles are given, or none. */
  readonly owned: TaskAssignment | null;
  /** Whether some of the roles were given, and others were not. */
  readonly ownsInPart: boolean;
  readonly processId: string | null;
  readonly userEndpoint: Endpoint | null;
  readonly clientTags: readonly KeyValue[] | null;
  readonly taskOffsets: readonly TaskOffset[] | null;
  readonly taskEndOffsets: readonly TaskOffset[] | null;
  readonly shutdownApplication: boolean;
  readonly clientId: string;
  /** `/address`, as Kafka writes it. */
  readonly clientHost: string;
}

/** What can be asked of one endpoint (interactive queries). */
export interface EndpointPartitions {
  readonly userEndpoint: Endpoint;
  readonly activePartitions: readonly { readonly topic: string; readonly partitions: number[] }[];
  readonly standbyPartitions: readonly { readonly topic: string; readonly partitions: number[] }[];
}

export interface StreamsHeartbeatAnswer {
  readonly errorCode: number;
  readonly errorMessage: string | null;
  readonly memberId: string;
  readonly memberEpoch: number;
  readonly heartbeatIntervalMs: number;
  readonly taskOffsetIntervalMs: number;
  /** -1: not told. */
  readonly acceptableRecoveryLag: number;
  readonly status: readonly StatusDetail[];
  /** Null: as the member was last told. */
  readonly tasks: TaskAssignment | null;
  readonly endpointInformationEpoch: number;
  /** Null: as the member was last told. */
  readonly endpoints: readonly EndpointPartitions[] | null;
}

export type RespondStreams = (answer: StreamsHeartbeatAnswer) => void;

/** The answer to a member that leaves, or that is refused. */
export function bareAnswer(
  errorCode: number,
  errorMessage: string | null,
  memberId = '',
  memberEpoch = 0,
): StreamsHeartbeatAnswer {
  return {
    errorCode,
    errorMessage,
    memberId,
    memberEpoch,
    heartbeatIntervalMs: 0,
    taskOffsetIntervalMs: 0,
    acceptableRecoveryLag: -1,
    status: [],
    tasks: null,
    endpointInformationEpoch: 0,
    endpoints: null,
  };
}

export function refusedStreams({ errorCode, message }: ConsumerFault): StreamsHeartbeatAnswer {
  return bareAnswer(errorCode, message);
}

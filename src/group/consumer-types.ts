/** What goes into a group of the consumer protocol (KIP-848), what comes out, and what it needs of its coordinator. */
import type { JournalRecord } from '../metadata/journal.ts';
import { KafkaError } from '../protocol/errors.ts';
import type { Clock } from '../runtime/clock.ts';
import type { Assignor, MemberAssignment } from './assignor.ts';
import type { ConsumerGroup } from './consumer-group.ts';

export type ConsumerState = 'Empty' | 'Assigning' | 'Reconciling' | 'Stable' | 'Dead';

/** Member epochs with a meaning of their own. */
export const JOIN_EPOCH = 0;
export const LEAVE_EPOCH = -1;
/** A static member leaves and will come back. */
export const STATIC_LEAVE_EPOCH = -2;

/** `group.consumer.*`, and what a group's own configs put over it; the values of this moment. */
export interface ConsumerSettings {
  /** group.consumer.max.size */
  readonly maxSize: number;
  sessionTimeoutMs(groupId: string): number;
  /** `fixed`: someone has set it, and heartbeats of a group at rest come no sooner. */
  heartbeatInterval(groupId: string): { readonly ms: number; readonly fixed: boolean };
  /** 0: every change of a group is followed by an assignment at once. */
  assignmentIntervalMs(groupId: string): number;
  /** group.consumer.migration.policy */
  readonly upgrades: boolean;
  readonly downgrades: boolean;
}

/** The topics that exist, as groups see them. */
export interface TopicsView {
  /** Undefined for a topic that does not exist. */
  idOf(name: string): string | undefined;
  nameOf(topicId: string): string | undefined;
  /** 0 for a topic that does not exist. */
  partitionCount(topicId: string): number;
  names(): Iterable<string>;
}

/** The topics that a subscription pattern matches. */
export interface ResolvedPattern {
  /** Ascending. */
  readonly topics: readonly string[];
  /** Of the metadata that it was resolved with. */
  readonly version: number;
  /** ms since the epoch. */
  readonly timestamp: number;
}

/** Subscription patterns, which are resolved beside the groups. */
export interface PatternsView {
  /** Grows whenever topics of any pattern become known, or change. */
  readonly version: number;
  /** The topics that are known to match a pattern; undefined while it is not resolved. Asks for them. */
  latest(pattern: string): ResolvedPattern | undefined;
  /** Why a pattern has no topics and will have none. */
  fault(pattern: string): ConsumerFault | undefined;
}

/** What a group needs of its coordinator. */
export interface ConsumerHost {
  readonly clock: Clock;
  readonly consumer: ConsumerSettings;
  readonly topics: TopicsView;
  readonly patterns: PatternsView;
  /** Grows whenever a topic is made, deleted or gets partitions. */
  readonly topicsVersion: number;
  /** In the order of `group.consumer.assignors`: the first is the default. */
  readonly assignors: readonly Assignor[];
  /** Members of all groups of the consumer protocol. */
  readonly consumerMembers: number;
  newMemberId(): string;
  /** Appends records of a group, of any size; `done` hears a Kafka error code, never before this returns, in the order of
   * the appends. */
  append(groupId: string, records: readonly JournalRecord[], done: (errorCode: number) => void): void;
  /** The group has more or fewer members than it had. */
  membersChanged(by: number): void;
  log(groupId: string, message: string): void;
  /** Members that speak the consumer protocol have left, or were replaced: perhaps the classic one will do. */
  membersLeft(group: ConsumerGroup): void;
}

/** A ConsumerGroupHeartbeat request; null is "as before". */
export interface ConsumerHeartbeat {
  readonly version: number;
  readonly groupId: string;
  readonly memberId: string;
  readonly memberEpoch: number;
  readonly instanceId: string | null;
  readonly rackId: string | null;
  /** -1: as before. */
  readonly rebalanceTimeoutMs: number;
  readonly subscribedTopicNames: readonly string[] | null;
  readonly subscribedTopicRegex: string | null;
  readonly serverAssignor: string | null;
  /** What the member owns now. */
  readonly topicPartitions: MemberAssignment | null;
  readonly clientId: string;
  /** `/address`, as Kafka writes it. */
  readonly clientHost: string;
}

export interface ConsumerHeartbeatAnswer {
  readonly errorCode: number;
  readonly errorMessage: string | null;
  readonly memberId: string | null;
  readonly memberEpoch: number;
  readonly heartbeatIntervalMs: number;
  /** Null: as the member was last told. */
  readonly assignment: MemberAssignment | null;
}

export type RespondConsumer = (answer: ConsumerHeartbeatAnswer) => void;

/** An error for the one who asked. */
export interface ConsumerFault {
  readonly errorCode: number;
  readonly message: string;
}

export function fault(errorCode: number, message: string): ConsumerFault {
  return { errorCode, message };
}

export function refusedHeartbeat(errorCode: number, errorMessage: string | null): ConsumerHeartbeatAnswer {
  return {
    errorCode,
    errorMessage,
    memberId: null,
    memberEpoch: 0,
    heartbeatIntervalMs: 0,
    assignment: null,
  };
}

/** Of all topics that a member names: what Apache Kafka can write of one. */
const MAX_NAMES_LENGTH = 1_000_000;

function lengthOf(names: readonly string[]): number {
  let sum = 0;
  for (const { length } of names) sum += length;
  return sum;
}

/** What is wrong with a heartbeat whatever the group is like; undefined if nothing is. `assignors` are the names that may
 * be asked for. */
export function heartbeatFault(
  request: ConsumerHeartbeat,
  assignors: readonly string[],
): ConsumerFault | undefined {
  const invalid = (message: string) => fault(KafkaError.INVALID_REQUEST, message);
  const { memberEpoch, memberId, instanceId, serverAssignor } = request;
  if (request.groupId.trim() === '') return invalid('a group id must be given');
  if (instanceId?.trim() === '') return invalid('an instance id must not be empty');
  if (request.rackId?.trim() === '') return invalid('a rack id must not be empty');
  if (lengthOf(request.subscribedTopicNames ?? []) > MAX_NAMES_LENGTH) {
    return invalid(`the names of the topics have more than ${MAX_NAMES_LENGTH} characters together`);
  }
  // From version 1 on members make their own ids.
  if ((request.version >= 1 || memberEpoch !== JOIN_EPOCH) && memberId.trim() === '') {
    return invalid('a member id must be given');
  }
  if (memberEpoch === JOIN_EPOCH) {
    if (request.rebalanceTimeoutMs === -1) return invalid('who joins gives a rebalance timeout');
    if (request.topicPartitions === null || request.topicPartitions.size > 0) {
      return invalid('who joins owns no partitions');
    }
    if (request.subscribedTopicNames === null && request.subscribedTopicRegex === null) {
      return invalid('who joins subscribes to topics or to a pattern');
    }
  } else if (memberEpoch === STATIC_LEAVE_EPOCH) {
    if (instanceId === null) return invalid('only a member with an instance id leaves for a time');
  } else if (memberEpoch < STATIC_LEAVE_EPOCH) return invalid(`there is no member epoch ${memberEpoch}`);
  if (serverAssignor !== null && !assignors.includes(serverAssignor)) {
    return {
      errorCode: KafkaError.UNSUPPORTED_ASSIGNOR,
      message: `there is no assignor ${serverAssignor}, only ${assignors.join(', ')}`,
    };
  }
  return undefined;
}

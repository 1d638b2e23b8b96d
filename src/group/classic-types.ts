/** What goes into a group of the classic protocol, and what it needs of its coordinator. */
import type { Clock } from '../runtime/clock.ts';
import type { ClassicGroup } from './classic-group.ts';
import type { GroupProtocol } from './classic-member.ts';

export type ClassicState = 'Empty' | 'PreparingRebalance' | 'CompletingRebalance' | 'Stable' | 'Dead';

export interface ClassicSettings {
  /** group.max.size */
  readonly maxSize: number;
  /** group.initial.rebalance.delay.ms */
  readonly initialRebalanceDelayMs: number;
}

/** What a group needs of its coordinator. */
export interface ClassicHost {
  readonly clock: Clock;
  readonly settings: ClassicSettings;
  newMemberId(prefix: string): string;
  /** Appends the group's record with these assignments, by member id; `done` is told the error code when it can be read
   * or has failed, never before this returns. */
  persist(
    group: ClassicGroup,
    assignments: ReadonlyMap<string, Uint8Array>,
    done: (errorCode: number) => void,
  ): void;
  debug(group: ClassicGroup, message: string): void;
}

export interface JoinRequest {
  readonly memberId: string;
  readonly groupInstanceId: string | null;
  readonly clientId: string;
  readonly clientHost: string;
  readonly protocolType: string;
  readonly protocols: readonly GroupProtocol[];
  readonly sessionTimeoutMs: number;
  readonly rebalanceTimeoutMs: number;
  readonly reason: string | null;
  /** A new dynamic member is told its id and joins again with it (from version 4 on). */
  readonly requireKnownMemberId: boolean;
  /** From version 9 on. */
  readonly supportsSkippingAssignment: boolean;
}

export interface SyncRequest {
  readonly memberId: string;
  readonly groupInstanceId: string | null;
  readonly generationId: number;
  readonly protocolType: string | null;
  readonly protocolName: string | null;
  /** By member id; the leader's. */
  readonly assignments: ReadonlyMap<string, Uint8Array>;
}

export interface LeavingMember {
  readonly memberId: string;
  readonly groupInstanceId: string | null;
  readonly reason: string | null;
}

/** What a record tells of a group's generation. */
export interface GenerationFacts {
  readonly protocolType: string | null;
  readonly generationId: number;
  readonly protocolName: string | null;
  readonly leaderId: string | null;
  /** ms since the epoch, -1: not known. */
  readonly stateTimestamp: number;
}

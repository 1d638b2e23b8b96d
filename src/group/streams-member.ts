/** One member of a streams group: what it said of itself, and which tasks it has. */
import type { Timer } from '../runtime/clock.ts';
import type { SessionTimer } from './classic-member.ts';
import { MemberState } from './consumer-member.ts';
import { type HeldTasks, NOTHING_HELD } from './streams-tasks.ts';
import type { Endpoint, KeyValue, TaskOffset } from './streams-types.ts';

/** What a member says of itself. */
export interface StreamsMemberFacts {
  readonly instanceId: string | null;
  readonly rackId: string | null;
  readonly clientId: string;
  readonly clientHost: string;
  readonly rebalanceTimeoutMs: number;
  readonly topologyEpoch: number;
  /** Members of one process share its state directory. */
  readonly processId: string;
  readonly userEndpoint: Endpoint | null;
  /** In order of key. */
  readonly clientTags: readonly KeyValue[];
}

/** How far a member has come. */
export interface TaskProgress {
  readonly memberEpoch: number;
  readonly previousMemberEpoch: number;
  /** One of MemberState. */
  readonly state: number;
  readonly assigned: HeldTasks;
  /** It has been told to give these up. */
  readonly pendingRevocation: HeldTasks;
}

const NO_FACTS: StreamsMemberFacts = {
  instanceId: null,
  rackId: null,
  clientId: '',
  clientHost: '',
  rebalanceTimeoutMs: -1,
  topologyEpoch: -1,
  processId: '',
  userEndpoint: null,
  clientTags: [],
};

const NEW_PROGRESS: TaskProgress = {
  memberEpoch: 0,
  previousMemberEpoch: -1,
  state: MemberState.STABLE,
  assigned: NOTHING_HELD,
  pendingRevocation: NOTHING_HELD,
};

export class StreamsMember {
  readonly memberId: string;
  facts: StreamsMemberFacts = NO_FACTS;
  progress: TaskProgress = NEW_PROGRESS;
  /** As it last told; not kept over a restart. */
  taskOffsets: readonly TaskOffset[] = [];
  taskEndOffsets: readonly TaskOffset[] = [];
  session: SessionTimer | undefined;
  /** Runs while it has something to revoke. */
  revocation: Timer | undefined;

  constructor(memberId: string) {
    this.memberId = memberId;
  }

  get memberEpoch(): number {
    return this.progress.memberEpoch;
  }

  get instanceId(): string | null {
    return this.facts.instanceId;
  }

  isReconciledTo(targetEpoch: number): boolean {
    return this.progress.state === MemberState.STABLE && this.progress.memberEpoch === targetEpoch;
  }

  stop(): void {
    this.session?.cancel();
    this.revocation?.cancel();
    this.revocation = undefined;
  }
}

export function sameFacts(a: StreamsMemberFacts, b: StreamsMemberFacts): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}

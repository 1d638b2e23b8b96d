/**
 * A group of the classic protocol: the state machine behind JoinGroup, SyncGroup, Heartbeat and LeaveGroup (KIP-394 known
 * member ids, KIP-345 static members, KIP-800 reasons, KIP-814 skipAssignment). Rules as in Apache Kafka 4.4.
 *
 * - Empty: no members; offsets may be there.
 * - PreparingRebalance: joins wait until all members have come, or the rebalance timeout is over.
 * - CompletingRebalance: a generation has begun, and its members wait for the leader's assignment.
 * - Stable: the assignment is written and given out.
 * - Dead: removed; whoever still holds the object must look the group up again.
 *
 * Time, the log and ids come from the host. Answers are callbacks, each called exactly once. What has to be durable is
 * applied when the log says that it is: a failed append changes nothing.
 */
import { KafkaError } from '../protocol/errors.ts';
import type { Timer } from '../runtime/clock.ts';
import {
  ClassicMember,
  type JoinAnswer,
  type JoinedMember,
  NO_BYTES,
  NO_MEMBER_ID,
  refusedJoin,
  refusedSync,
  SessionTimer,
  type SyncAnswer,
} from './classic-member.ts';
import { ClassicMembers } from './classic-members.ts';
import type {
  ClassicHost,
  ClassicState,
  GenerationFacts,
  JoinRequest,
  LeavingMember,
  SyncRequest,
} from './classic-types.ts';
import { PendingMembers } from './pending-members.ts';
import { subscribedTopics } from './subscription.ts';

/** How long a member that may not know its id yet waits for its first join's answer, ms. */
export const NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000;
export class ClassicGroup {
  readonly groupId: string;
  readonly members = new ClassicMembers();
  readonly #host: ClassicHost;
  #state: ClassicState = 'Empty';
  #previousState: ClassicState = 'Empty';
  #stateTimestamp = -1;
  generationId = 0;
  protocolType: string | null = null;
  protocolName: string | null = null;
  /** Of the current generation; undefined if they can't be told. */
  #subscribedTopics: ReadonlySet<string> | undefined;
  /** Ids given out that have not joined yet. */
  readonly #pending = new PendingMembers();
  /** Members of this generation whose sync has not come. */
  readonly #pendingSync = new Set<string>();
  #joinTimer: Timer | undefined;
  #syncTimer: Timer | undefined;
  #newMemberAdded = false;

  constructor(groupId: string, host: ClassicHost) {
    this.groupId = groupId;
    this.#host = host;
    this.#stateTimestamp = host.clock.now();
  }

  get state(): ClassicState {
    return this.#state;
  }

  /** When the state began, ms since the epoch; -1 if not known. */
  get stateTimestamp(): number {
    return this.#stateTimestamp;
  }

  get pendingMembers(): number {
    return this.#pending.size;
  }

  /** Whether its members are consumers, whose subscriptions can be read. */
  get usesConsumerProtocol(): boolean {
    return this.protocolType === 'consumer';
  }

  /** Topics that the members subscribe to; undefined when they can't be told. */
  get subscribedTopics(): ReadonlySet<string> | undefined {
    return this.#subscribedTopics;
  }

  subscribesTo(topic: string): boolean {
    return this.#subscribedTopics?.has(topic) ?? this.usesConsumerProtocol;
  }

  /** Takes the state that a record tells of. Members' sessions begin with resume(). */
  restore(facts: GenerationFacts, members: readonly ClassicMember[]): void {
    for (const { memberId } of this.members.all()) this.members.remove(memberId);
    for (const member of members) this.members.add(member);
    this.members.leaderId = facts.leaderId ?? this.members.leaderId;
    this.protocolType = facts.protocolType;
    this.generationId = facts.generationId;
    this.protocolName = facts.protocolName;
    this.#state = members.length === 0 ? 'Empty' : 'Stable';
    this.#stateTimestamp = facts.stateTimestamp;
    this.#computeSubscriptions();
  }

  /** After restore(): the members' sessions run from now on; they rebalance if there is a reason. */
  resume(reason?: string): void {
    for (const member of this.members.all()) this.#touch(member);
    const over = this.members.size > this.#host.settings.maxSize;
    if (over || reason !== undefined) this.#prepareRebalance(reason ?? 'group.max.size was lowered');
  }

  // --- joining ---

  /** Answers at once or later. The function that it may return gives up the wait of a client that can never come back:
   * its connection is gone and it was not told its member id. */
  join(request: JoinRequest, respond: (answer: JoinAnswer) => void): (() => void) | undefined {
    const { memberId } = request;
    const refuse = (errorCode: number): undefined => respond(refusedJoin(errorCode, memberId)) as undefined;
    if (this.#state === 'Dead') return refuse(KafkaError.COORDINATOR_NOT_AVAILABLE);
    if (!this.#accepts(memberId)) {
      this.#forget(memberId);
      return refuse(KafkaError.GROUP_MAX_SIZE_REACHED);
    }
    if (!this.#supports(request)) return refuse(KafkaError.INCONSISTENT_GROUP_PROTOCOL);
    if (memberId === NO_MEMBER_ID) return this.#joinNew(request, respond);
    if (this.#pending.has(memberId)) {
      if (request.groupInstanceId !== null) return refuse(KafkaError.UNKNOWN_SERVER_ERROR);
      this.#addMember(memberId, request, respond);
      return undefined;
    }
    const fault = this.members.fault(memberId, request.groupInstanceId);
    if (fault !== KafkaError.NONE) return refuse(fault);
    this.#rejoin(this.members.get(memberId)!, request, respond);
    return undefined;
  }

  /** Bounds the group by group.max.size: while a rebalance is prepared those who came first stay. */
  #accepts(memberId: string): boolean {
    const { maxSize } = this.#host.settings;
    if (this.#state === 'Empty') return true;
    if (this.#state === 'PreparingRebalance') {
      return this.members.get(memberId)?.awaitsJoin === true || this.members.awaitingJoin < maxSize;
    }
    return this.members.has(memberId) || this.members.size < maxSize;
  }

  #supports({ protocolType, protocols }: JoinRequest): boolean {
    if (this.#state === 'Empty') return protocolType !== '' && protocols.length > 0;
    if (protocolType !== this.protocolType) return false;
    return this.members.size === 0 ? protocols.length > 0 : this.members.supportsAny(protocols);
  }

  #forget(memberId: string): void {
    this.#pending.delete(memberId);
    const member = this.members.get(memberId);
    if (member !== undefined) this.#drop(member, 'the group is full');
  }

  #joinNew(request: JoinRequest, respond: (answer: JoinAnswer) => void): (() => void) | undefined {
    const { groupInstanceId, clientId } = request;
    const memberId = this.#host.newMemberId(groupInstanceId ?? clientId);
    if (groupInstanceId !== null) {
      const existing = this.members.staticMemberId(groupInstanceId);
      if (existing === undefined) this.#addMember(memberId, request, respond);
      else this.#replaceStatic(this.members.get(existing)!, memberId, request, respond);
      return undefined;
    }
    if (request.requireKnownMemberId) {
      const { sessionTimeoutMs } = request;
      this.#pending.add(memberId, sessionTimeoutMs, this.#host.clock, () => this.#maybeCompleteJoin());
      respond(refusedJoin(KafkaError.MEMBER_ID_REQUIRED, memberId));
      return undefined;
    }
    const member = this.#addMember(memberId, request, respond);
    return () => {
      if (member.isNew && this.members.get(memberId) === member) this.#expelAndUpdate(member, 'disconnected');
    };
  }

  #addMember(memberId: string, request: JoinRequest, respond: (answer: JoinAnswer) => void): ClassicMember {
    this.#pending.delete(memberId);
    const member = new ClassicMember({ ...request, memberId });
    member.isNew = true;
    if (this.#state === 'PreparingRebalance' && this.#previousState === 'Empty') this.#newMemberAdded = true;
    if (this.members.size === 0) this.protocolType = request.protocolType;
    this.members.add(member);
    this.members.awaitJoin(member, respond);
    // It does not know its id yet, so it sends no heartbeats; a client that is gone must not stay for ever.
    this.#touch(member, NEW_MEMBER_JOIN_TIMEOUT_MS);
    this.#rebalanceOrComplete(`member ${memberId} joins: ${request.reason ?? 'no reason given'}`);
    return member;
  }

  #rejoin(member: ClassicMember, request: JoinRequest, respond: (answer: JoinAnswer) => void): void {
    const { memberId } = member;
    const unchanged = member.matches(request.protocols);
    const isLeader = this.members.leaderId === memberId;
    // It may not have got the answer to its join. A leader of a stable group that joins again wants to assign anew, for
    // topics that changed, say.
    const answered = this.#state === 'CompletingRebalance' || (this.#state === 'Stable' && !isLeader);
    if (answered && unchanged) {
      respond(this.#joined(member));
      return;
    }
    this.#updateMember(member, request, respond);
    this.#rebalanceOrComplete(`member ${memberId} rejoins: ${request.reason ?? 'no reason given'}`);
  }

  #updateMember(member: ClassicMember, request: JoinRequest, respond: (answer: JoinAnswer) => void): void {
    // An earlier join of its own that still waits: that client asked twice.
    this.members.answerJoin(member, refusedJoin(KafkaError.REBALANCE_IN_PROGRESS, member.memberId));
    this.members.setProtocols(member, request.protocols);
    member.rebalanceTimeoutMs = request.rebalanceTimeoutMs;
    member.sessionTimeoutMs = request.sessionTimeoutMs;
    this.members.awaitJoin(member, respond);
  }

  /** A static member comes back without its id: it takes the place of its former self, which is fenced. */
  #replaceStatic(
    member: ClassicMember,
    memberId: string,
    request: JoinRequest,
    respond: (answer: JoinAnswer) => void,
  ): void {
    const before = {
      memberId: member.memberId,
      protocols: member.protocols,
      rebalanceTimeoutMs: member.rebalanceTimeoutMs,
      sessionTimeoutMs: member.sessionTimeoutMs,
    };
    const previousLeader = this.members.leaderId ?? NO_MEMBER_ID;
    this.members.answerJoin(member, refusedJoin(KafkaError.FENCED_INSTANCE_ID, before.memberId));
    member.answerSync(refusedSync(KafkaError.FENCED_INSTANCE_ID));
    this.members.rename(member, memberId);
    if (this.#pendingSync.delete(before.memberId)) this.#pendingSync.add(memberId);
    this.#touch(member);
    this.#updateMember(member, request, respond);
    if (this.#state !== 'Stable') {
      this.#rebalanceOrComplete(`static member ${member.groupInstanceId} comes back as ${memberId}`);
      return;
    }
    if (this.members.selectProtocol() !== this.protocolName) {
      this.#rebalanceOrComplete(`static member ${member.groupInstanceId} changes the protocol`);
      return;
    }
    const { generationId } = this;
    this.#host.persist(this, this.assignments(), (errorCode) => {
      // Another rebalance has begun, and answers it.
      if (this.#state !== 'Stable' || generationId !== this.generationId || member.memberId !== memberId)
        return;
      if (errorCode !== KafkaError.NONE) {
        this.members.answerJoin(member, refusedJoin(errorCode, memberId));
        this.members.rename(member, before.memberId);
        this.members.setProtocols(member, before.protocols);
        member.rebalanceTimeoutMs = before.rebalanceTimeoutMs;
        member.sessionTimeoutMs = before.sessionTimeoutMs;
        return;
      }
      const skips = request.supportsSkippingAssignment;
      const leads = this.members.leaderId === memberId;
      // A client that can't skip the assignment is told the former leader's id, so that it acts as a follower.
      const answer = this.#joined(member);
      this.members.answerJoin(member, {
        ...answer,
        leader: skips ? answer.leader : previousLeader,
        skipAssignment: skips && leads,
        members: skips ? answer.members : [],
      });
    });
  }

  #joined(member: ClassicMember): JoinAnswer {
    const leader = this.members.leaderId ?? NO_MEMBER_ID;
    return {
      errorCode: KafkaError.NONE,
      memberId: member.memberId,
      generationId: this.generationId,
      protocolType: this.protocolType,
      protocolName: this.protocolName,
      leader,
      skipAssignment: false,
      members: leader === member.memberId ? this.#joinedMembers() : [],
    };
  }

  #joinedMembers(): JoinedMember[] {
    return this.members.all().map((member) => ({
      memberId: member.memberId,
      groupInstanceId: member.groupInstanceId,
      metadata: member.metadata(this.protocolName),
    }));
  }

  // --- rebalancing ---

  #rebalanceOrComplete(reason: string): void {
    if (this.#state === 'PreparingRebalance') this.#maybeCompleteJoin();
    else if (this.#state !== 'Dead') this.#prepareRebalance(reason);
  }

  #maybeCompleteJoin(): void {
    // A first rebalance is ended by its timer alone.
    if (this.#state !== 'PreparingRebalance' || this.#previousState === 'Empty') return;
    if (this.#allJoined()) this.#completeJoin();
  }

  #allJoined(): boolean {
    return this.#pending.size === 0 && this.members.awaitingJoin === this.members.size;
  }

  #prepareRebalance(reason: string): void {
    if (this.#state === 'CompletingRebalance') this.#failSyncs(KafkaError.REBALANCE_IN_PROGRESS);
    this.#syncTimer?.cancel();
    this.#syncTimer = undefined;
    this.#host.debug(this, `prepares a rebalance: ${reason}`);
    const first = this.#state === 'Empty';
    this.#transition('PreparingRebalance');
    if (first) {
      const { initialRebalanceDelayMs } = this.#host.settings;
      const left = Math.max(this.members.rebalanceTimeoutMs() - initialRebalanceDelayMs, 0);
      if (initialRebalanceDelayMs <= 0) this.#completeJoin();
      else this.#awaitFirstMembers(initialRebalanceDelayMs, left);
    } else if (this.#allJoined()) this.#completeJoin();
    else this.#scheduleCompletion();
  }

  /** The first rebalance of a group waits for more members, again and again while some came in the last delay, at most
   * `left` ms more. */
  #awaitFirstMembers(delayMs: number, left: number): void {
    this.#joinTimer?.cancel();
    this.#joinTimer = this.#host.clock.setTimer(delayMs, () => {
      if (!this.#newMemberAdded || left === 0) {
        this.#completeJoin();
        return;
      }
      this.#newMemberAdded = false;
      const next = Math.min(this.#host.settings.initialRebalanceDelayMs, left);
      this.#awaitFirstMembers(next, Math.max(left - delayMs, 0));
    });
  }

  #scheduleCompletion(): void {
    this.#joinTimer?.cancel();
    this.#joinTimer = this.#host.clock.setTimer(this.members.rebalanceTimeoutMs(), () =>
      this.#completeJoin(),
    );
  }

  /** Begins the next generation with those who came. */
  #completeJoin(): void {
    this.#joinTimer?.cancel();
    this.#joinTimer = undefined;
    if (this.#state !== 'PreparingRebalance') return;
    for (const member of this.members.all()) {
      if (member.awaitsJoin || member.isStatic) continue;
      this.#drop(member, 'did not rejoin');
    }
    if (this.members.size > 0 && !this.members.electJoinedLeader()) {
      // Only static members are left and none has come: wait until one does or their sessions end.
      this.#scheduleCompletion();
      return;
    }
    this.#newMemberAdded = false;
    this.#pendingSync.clear();
    this.generationId = this.generationId === 2 ** 31 - 1 ? 0 : this.generationId + 1;
    if (this.members.size === 0) {
      this.protocolName = null;
      this.#transition('Empty');
      this.#computeSubscriptions();
      this.#host.persist(this, new Map(), () => {});
      return;
    }
    this.protocolName = this.members.selectProtocol();
    this.#transition('CompletingRebalance');
    this.#computeSubscriptions();
    const { generationId } = this;
    this.#syncTimer = this.#host.clock.setTimer(this.members.rebalanceTimeoutMs(), () =>
      this.#expireSync(generationId),
    );
    for (const member of this.members.all()) {
      this.#pendingSync.add(member.memberId);
      this.#touch(member);
      member.isNew = false;
    }
    for (const member of this.members.all()) this.members.answerJoin(member, this.#joined(member));
  }

  #computeSubscriptions(): void {
    const { protocolName, usesConsumerProtocol } = this;
    const readable = usesConsumerProtocol && protocolName !== null;
    if (this.members.size === 0) this.#subscribedTopics = this.protocolType === null ? undefined : new Set();
    else if (!readable) this.#subscribedTopics = undefined;
    else this.#subscribedTopics = subscribedTopics(this.members.all().map((m) => m.metadata(protocolName)));
  }

  /** Members that joined and did not sync in time are removed. */
  #expireSync(generationId: number): void {
    this.#syncTimer = undefined;
    if (generationId !== this.generationId || this.#pendingSync.size === 0) return;
    if (this.#state !== 'CompletingRebalance' && this.#state !== 'Stable') return;
    for (const memberId of [...this.#pendingSync]) {
      const member = this.members.get(memberId);
      if (member !== undefined) this.#drop(member, 'did not sync');
    }
    this.#prepareRebalance('members did not sync in time');
  }

  /** Answers all syncs that wait. Who is cooperative goes on with what it had, so that this stays its assignment. */
  #failSyncs(errorCode: number): void {
    for (const member of this.members.all()) {
      if (member.answerSync(refusedSync(errorCode))) this.#touch(member);
    }
  }

  // --- syncing ---

  #syncFault({ memberId, groupInstanceId, generationId, protocolType, protocolName }: SyncRequest): number {
    if (this.#state === 'Dead') return KafkaError.COORDINATOR_NOT_AVAILABLE;
    const fault = this.members.fault(memberId, groupInstanceId);
    if (fault !== KafkaError.NONE) return fault;
    if (generationId !== this.generationId) return KafkaError.ILLEGAL_GENERATION;
    const differs = (asked: string | null, own: string | null) =>
      asked !== null && own !== null && asked !== own;
    if (differs(protocolType, this.protocolType) || differs(protocolName, this.protocolName)) {
      return KafkaError.INCONSISTENT_GROUP_PROTOCOL;
    }
    if (this.#state === 'PreparingRebalance') return KafkaError.REBALANCE_IN_PROGRESS;
    return this.#state === 'Empty' ? KafkaError.UNKNOWN_MEMBER_ID : KafkaError.NONE;
  }

  sync(request: SyncRequest, respond: (answer: SyncAnswer) => void): void {
    const fault = this.#syncFault(request);
    if (fault !== KafkaError.NONE) {
      respond(refusedSync(fault));
      return;
    }
    const { memberId } = request;
    const member = this.members.get(memberId)!;
    this.#synced(memberId);
    if (this.#state === 'Stable') {
      this.#touch(member);
      respond(this.#assigned(member));
      return;
    }
    // An earlier sync of its own that still waits: that client asked twice.
    member.answerSync(refusedSync(KafkaError.REBALANCE_IN_PROGRESS));
    member.awaitSync(respond);
    if (this.members.leaderId === memberId) this.#assign(request.assignments);
  }

  #synced(memberId: string): void {
    this.#pendingSync.delete(memberId);
    if (this.#pendingSync.size > 0) return;
    this.#syncTimer?.cancel();
    this.#syncTimer = undefined;
  }

  /** The leader's assignment is written before anyone hears of it. */
  #assign(given: ReadonlyMap<string, Uint8Array>): void {
    const { generationId } = this;
    const assignments = new Map<string, Uint8Array>();
    for (const { memberId } of this.members.all()) assignments.set(memberId, given.get(memberId) ?? NO_BYTES);
    this.#host.persist(this, assignments, (errorCode) => {
      if (this.#state !== 'CompletingRebalance' || generationId !== this.generationId) return;
      if (errorCode !== KafkaError.NONE) {
        this.#failSyncs(errorCode);
        this.#prepareRebalance('the assignment could not be written');
        return;
      }
      this.#transition('Stable');
      const members = this.members.all();
      for (const member of members) member.assignment = assignments.get(member.memberId) ?? NO_BYTES;
      for (const member of members) {
        if (member.answerSync(this.#assigned(member))) this.#touch(member);
      }
    });
  }

  #assigned(member: ClassicMember): SyncAnswer {
    return {
      errorCode: KafkaError.NONE,
      protocolType: this.protocolType,
      protocolName: this.protocolName,
      assignment: member.assignment,
    };
  }

  /** By member id. */
  assignments(): Map<string, Uint8Array> {
    return new Map(this.members.all().map((member) => [member.memberId, member.assignment]));
  }

  // --- heartbeats, commits, leaving ---

  heartbeat(memberId: string, groupInstanceId: string | null, generationId: number): number {
    if (this.#state === 'Dead') return KafkaError.COORDINATOR_NOT_AVAILABLE;
    const fault = this.members.fault(memberId, groupInstanceId);
    if (fault !== KafkaError.NONE) return fault;
    if (generationId !== this.generationId) return KafkaError.ILLEGAL_GENERATION;
    if (this.#state === 'Empty') return KafkaError.UNKNOWN_MEMBER_ID;
    this.#touch(this.members.get(memberId)!);
    return this.#state === 'PreparingRebalance' ? KafkaError.REBALANCE_IN_PROGRESS : KafkaError.NONE;
  }

  /** Whether offsets may be committed; a member's commit is a sign of life. */
  judgeCommit(memberId: string, groupInstanceId: string | null, generationId: number): number {
    if (this.#state === 'Dead') return KafkaError.COORDINATOR_NOT_AVAILABLE;
    // Not a member but an admin client, or a consumer that assigns its partitions by itself.
    if (generationId < 0 && this.#state === 'Empty') return KafkaError.NONE;
    if (generationId >= 0 || memberId !== NO_MEMBER_ID || groupInstanceId !== null) {
      const fault = this.members.fault(memberId, groupInstanceId);
      if (fault !== KafkaError.NONE) return fault;
      if (generationId !== this.generationId) return KafkaError.ILLEGAL_GENERATION;
    } else if (this.#state !== 'Empty') return KafkaError.UNKNOWN_MEMBER_ID;
    if (this.#state === 'CompletingRebalance') return KafkaError.REBALANCE_IN_PROGRESS;
    const member = this.members.get(memberId);
    if (member !== undefined) this.#touch(member);
    return KafkaError.NONE;
  }

  /** An error code for each. */
  leave(leaving: readonly LeavingMember[]): number[] {
    if (this.#state === 'Dead') return leaving.map(() => KafkaError.COORDINATOR_NOT_AVAILABLE);
    let left = false;
    const codes = leaving.map(({ memberId, groupInstanceId, reason }) => {
      let id = memberId;
      if (memberId === NO_MEMBER_ID) {
        // An administrator removes a static member, whose id it does not know.
        const known = groupInstanceId === null ? undefined : this.members.staticMemberId(groupInstanceId);
        if (known === undefined) return KafkaError.UNKNOWN_MEMBER_ID;
        id = known;
      } else if (this.#pending.delete(memberId)) {
        left = true;
        return KafkaError.NONE;
      } else {
        const fault = this.members.fault(memberId, groupInstanceId);
        if (fault !== KafkaError.NONE) return fault;
      }
      this.#drop(this.members.get(id)!, `left: ${reason ?? 'no reason given'}`);
      left = true;
      return KafkaError.NONE;
    });
    if (left) this.#afterRemoval('members left');
    return codes;
  }

  #touch(member: ClassicMember, ms = member.sessionTimeoutMs): void {
    member.session ??= new SessionTimer(this.#host.clock, () => {
      // Whoever waits for an answer is alive; its session goes on when it gets it.
      if (!member.isNew && (member.awaitsJoin || member.awaitsSync)) return;
      if (this.members.get(member.memberId) === member) this.#expelAndUpdate(member, 'session timed out');
    });
    member.session.touch(ms);
  }

  #expelAndUpdate(member: ClassicMember, reason: string): void {
    this.#drop(member, reason);
    this.#afterRemoval(`member ${member.memberId}: ${reason}`);
  }

  #afterRemoval(reason: string): void {
    if (this.#state === 'Stable' || this.#state === 'CompletingRebalance') this.#prepareRebalance(reason);
    else this.#maybeCompleteJoin();
  }

  #drop(member: ClassicMember, reason: string): void {
    this.#host.debug(this, `member ${member.memberId} ${reason}`);
    // Unknown, so that a client that is still there joins again.
    this.members.answerJoin(member, refusedJoin(KafkaError.UNKNOWN_MEMBER_ID, NO_MEMBER_ID));
    member.answerSync(refusedSync(KafkaError.UNKNOWN_MEMBER_ID));
    member.session?.cancel();
    this.#pendingSync.delete(member.memberId);
    this.members.remove(member.memberId);
  }

  #transition(state: ClassicState): void {
    this.#previousState = this.#state;
    this.#state = state;
    this.#stateTimestamp = this.#host.clock.now();
  }

  /** Ends the group: all timers stop, whoever waits hears the code: by default to look for it anew. */
  close(errorCode: number = KafkaError.NOT_COORDINATOR): void {
    for (const member of this.members.all()) {
      this.members.answerJoin(member, refusedJoin(errorCode, member.memberId));
      member.answerSync(refusedSync(errorCode));
      member.session?.cancel();
    }
    this.#pending.clear();
    this.#joinTimer?.cancel();
    this.#syncTimer?.cancel();
    this.#transition('Dead');
  }
}

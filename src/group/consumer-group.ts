/**
 * A group of the consumer protocol (KIP-848): the state machine behind ConsumerGroupHeartbeat. Rules as in Apache Kafka 4.4.
 *
 * - Empty: no members; offsets may be there.
 * - Assigning: the group's epoch is ahead of its target assignment.
 * - Reconciling: members are on their way to the target.
 * - Stable: all have reached it.
 * - Dead: removed; whoever still holds the object must look the group up again.
 *
 * A change of members, subscriptions or topics raises the group's epoch; a target assignment is computed for that epoch; each
 * member comes to it at its own pace (consumer-reconcile.ts). Time, log and topics come from the host.
 */
import { KafkaError } from '../protocol/errors.ts';
import type { AssignorMember, MemberAssignment } from './assignor.ts';
import { SessionTimer } from './classic-member.ts';
import { ConsumerJournal } from './consumer-journal.ts';
import {
  ConsumerMember,
  type MemberProgress,
  MemberState,
  type MemberSubscription,
  NO_PARTITIONS,
  NOTHING_ASSIGNED,
  partitionsOf,
  sameAssignment,
  sameNames,
  samePartitions,
  sameSubscription,
  withoutEpochs,
} from './consumer-member.ts';
import { ConsumerMembers } from './consumer-members.ts';
import { metadataHash } from './consumer-metadata-hash.ts';
import { heartbeatIntervalMs } from './consumer-pace.ts';
import { reconcile, type Target } from './consumer-reconcile.ts';
import { type ConsumerChange, consumerRecord } from './consumer-records.ts';
import { ConsumerSubscriptions, type ResolvedPattern, resolvePattern } from './consumer-subscriptions.ts';
import {
  type ConsumerFault,
  type ConsumerHeartbeat,
  type ConsumerHeartbeatAnswer,
  type ConsumerHost,
  type ConsumerState,
  JOIN_EPOCH,
  LEAVE_EPOCH,
  type RespondConsumer,
  refusedHeartbeat,
  STATIC_LEAVE_EPOCH,
} from './consumer-types.ts';

const MAX_EPOCH = 2 ** 31 - 1;

function fault(errorCode: number, message: string): ConsumerFault {
  return { errorCode, message };
}

export class ConsumerGroup {
  readonly groupId: string;
  readonly members = new ConsumerMembers();
  readonly subscriptions = new ConsumerSubscriptions(this.members);
  readonly #host: ConsumerHost;
  readonly #journal: ConsumerJournal;
  readonly #targets = new Map<string, MemberAssignment>();
  #epoch = 0;
  #metadataHash = 0n;
  #assignmentEpoch = 0;
  /** ms since the epoch. */
  #assignmentTimestamp = 0;
  /** Of the host's monotonic time: when members were last given something new to do. */
  #changedAt = 0;
  /** Topics may have changed since the hash was computed. */
  #topicsChanged = true;
  #hasPartitionsRecord = false;
  /** Whether the log knows of the group. */
  #isWritten = true;
  #dead = false;

  constructor(groupId: string, host: ConsumerHost) {
    this.groupId = groupId;
    this.#host = host;
    this.#changedAt = host.clock.monotonic();
    this.#journal = new ConsumerJournal((records, done) => host.append(groupId, records, done));
  }

  get state(): ConsumerState {
    if (this.#dead) return 'Dead';
    if (this.members.size === 0) return 'Empty';
    if (this.#epoch > this.#assignmentEpoch) return 'Assigning';
    return this.members.allReconciled ? 'Stable' : 'Reconciling';
  }

  get epoch(): number {
    return this.#epoch;
  }

  get assignmentEpoch(): number {
    return this.#assignmentEpoch;
  }

  get assignorName(): string {
    return this.members.preferredAssignor ?? this.#host.assignors[0]!.name;
  }

  target(memberId: string): MemberAssignment {
    return this.#targets.get(memberId) ?? NOTHING_ASSIGNED;
  }

  subscribesTo(topic: string): boolean {
    return this.subscriptions.subscribesTo(topic);
  }

  // --- what is written ---

  #write(change: ConsumerChange): void {
    this.#journal.add(consumerRecord(this.groupId, change));
  }

  /** The group is a new one. Its epoch is above that of joining members. */
  begin(): void {
    this.#epoch = 1;
    this.#isWritten = false;
  }

  /** Takes all of it back; `done` hears an error code. */
  bury(done?: (errorCode: number) => void): void {
    const memberIds = [...this.members.all()].map(({ memberId }) => memberId);
    for (const memberId of memberIds) this.#write({ type: 'progress', memberId, value: null });
    for (const memberId of memberIds) this.#write({ type: 'target', memberId, value: null });
    this.#write({ type: 'targetEpoch', value: null });
    for (const memberId of memberIds) this.#write({ type: 'member', memberId, value: null });
    for (const pattern of this.subscriptions.patterns())
      this.#write({ type: 'pattern', pattern, value: null });
    if (this.#hasPartitionsRecord) this.#write({ type: 'partitions', value: null });
    this.#write({ type: 'group', value: null });
    this.#journal.flush(done);
  }

  // --- loading ---

  /** Takes what a record says. */
  replay(change: ConsumerChange): void {
    switch (change.type) {
      case 'group':
        this.#epoch = change.value?.epoch ?? 0;
        this.#metadataHash = change.value?.metadataHash ?? 0n;
        return;
      case 'targetEpoch':
        this.#assignmentEpoch = change.value?.epoch ?? 0;
        this.#assignmentTimestamp = change.value?.timestamp ?? 0;
        this.members.targetEpoch = this.#assignmentEpoch;
        return;
      case 'target':
        if (change.value === null) this.#targets.delete(change.memberId);
        else this.#targets.set(change.memberId, change.value);
        return;
      case 'pattern':
        if (change.value === null) this.subscriptions.delete(change.pattern);
        else this.subscriptions.set(change.pattern, change.value);
        return;
      case 'partitions':
        this.#hasPartitionsRecord = change.value !== null;
        return;
      default:
        this.#replayMember(change);
    }
  }

  #replayMember(
    change: ConsumerChange & { readonly memberId: string; readonly type: 'member' | 'progress' },
  ): void {
    const { memberId } = change;
    let member = this.members.get(memberId);
    if (change.value === null) {
      if (member === undefined) return;
      if (change.type === 'member') this.members.remove(member);
      else
        this.members.setProgress(member, {
          ...member.progress,
          assigned: NO_PARTITIONS,
          pendingRevocation: NO_PARTITIONS,
        });
      return;
    }
    if (member === undefined) {
      member = new ConsumerMember(memberId);
      this.members.add(member);
    }
    if (change.type === 'member') this.members.setSubscription(member, change.value);
    else this.members.setProgress(member, change.value);
  }

  /** After loading: members have a session to come back in. */
  resume(): void {
    this.#host.membersChanged(this.members.size);
    for (const member of this.members.all()) {
      this.#touch(member);
      this.#watchRevocation(member);
    }
  }

  // --- heartbeats ---

  /** Answers once what the answer tells of is written. */
  heartbeat(request: ConsumerHeartbeat, respond: RespondConsumer): void {
    const failed = this.#serve(request, respond);
    if (failed !== undefined) respond(refusedHeartbeat(failed.errorCode, failed.message));
  }

  #serve(request: ConsumerHeartbeat, respond: RespondConsumer): ConsumerFault | undefined {
    if (this.#dead) return fault(KafkaError.NOT_COORDINATOR, 'the group was removed');
    if (request.memberEpoch < JOIN_EPOCH) return this.#leave(request, respond);
    const pattern = this.#newPattern(request);
    const member = this.#memberOf(request);
    if ('errorCode' in member) return member;
    const { assigned } = member.progress;
    const changes = this.#update(member, request, pattern);
    this.#refresh(changes);
    this.#assignIfDue();
    this.#reconcile(member, request.topicPartitions);
    this.#touch(member);
    const { progress } = member;
    const isFull =
      request.rebalanceTimeoutMs !== -1 &&
      (request.subscribedTopicNames !== null || request.subscribedTopicRegex !== null) &&
      request.topicPartitions !== null;
    const tells =
      isFull || request.memberEpoch === JOIN_EPOCH || !samePartitions(assigned, progress.assigned);
    this.#answer(respond, {
      errorCode: KafkaError.NONE,
      errorMessage: null,
      memberId: member.memberId,
      memberEpoch: progress.memberEpoch,
      heartbeatIntervalMs: this.#interval(member),
      assignment: tells ? partitionsOf(progress.assigned) : null,
    });
    return undefined;
  }

  #answer(respond: RespondConsumer, answer: ConsumerHeartbeatAnswer): void {
    this.#journal.flush((errorCode) => {
      respond(errorCode === KafkaError.NONE ? answer : refusedHeartbeat(errorCode, null));
    });
  }

  #interval(member: ConsumerMember): number {
    const { clock, consumer, consumerMembers } = this.#host;
    return heartbeatIntervalMs({
      configured: consumer.heartbeatInterval(this.groupId),
      brokerMembers: consumerMembers,
      groupMembers: this.members.size,
      isReconciled: this.#epoch === this.#assignmentEpoch && member.isReconciledTo(this.#assignmentEpoch),
      quietMs: clock.monotonic() - this.#changedAt,
    });
  }

  /** A pattern that no member has had yet, resolved. It was found to be one. */
  #newPattern({ subscribedTopicRegex: pattern }: ConsumerHeartbeat): ResolvedPattern | undefined {
    if (pattern === null || pattern === '' || this.subscriptions.get(pattern) !== undefined) return undefined;
    const { topics, clock } = this.#host;
    return resolvePattern(pattern, topics, clock.now());
  }

  /** The member that a request is of, a new one if it joins. */
  #memberOf(request: ConsumerHeartbeat): ConsumerMember | ConsumerFault {
    const { memberId, memberEpoch, instanceId } = request;
    const known = this.members.get(memberId);
    if (known === undefined && this.members.size >= this.#host.consumer.maxSize) {
      const replaces = instanceId !== null && this.members.byInstance(instanceId) !== undefined;
      if (!replaces) return fault(KafkaError.GROUP_MAX_SIZE_REACHED, 'the group is full');
    }
    if (instanceId !== null) return this.#staticMemberOf(request, instanceId);
    if (known !== undefined) return this.#epochFault(known, request) ?? known;
    if (memberEpoch === JOIN_EPOCH) return this.#newMember(memberId);
    return fault(KafkaError.UNKNOWN_MEMBER_ID, `member ${memberId} is not in the group`);
  }

  #staticMemberOf(request: ConsumerHeartbeat, instanceId: string): ConsumerMember | ConsumerFault {
    const { memberId, memberEpoch } = request;
    const known = this.members.byInstance(instanceId);
    if (memberEpoch === JOIN_EPOCH) {
      if (known === undefined) return this.#newMember(memberId);
      if (known.memberEpoch !== STATIC_LEAVE_EPOCH) {
        return fault(KafkaError.UNRELEASED_INSTANCE_ID, `instance ${instanceId} is still in use`);
      }
      return known.memberId === memberId ? known : this.#replace(known, memberId);
    }
    const unknown = this.#instanceFault(known, memberId, instanceId);
    return unknown ?? this.#epochFault(known!, request) ?? known!;
  }

  #instanceFault(
    known: ConsumerMember | undefined,
    memberId: string,
    instanceId: string,
  ): ConsumerFault | undefined {
    if (known === undefined) {
      return fault(KafkaError.UNKNOWN_MEMBER_ID, `instance ${instanceId} is not in the group`);
    }
    if (known.memberId === memberId) return undefined;
    return fault(KafkaError.FENCED_INSTANCE_ID, `instance ${instanceId} is member ${known.memberId} now`);
  }

  /** Whoever is not where the group thinks it is has to join anew; but for one whose last answer was lost. */
  #epochFault(member: ConsumerMember, { memberEpoch, topicPartitions }: ConsumerHeartbeat) {
    const { progress } = member;
    // Who joins again owns nothing any more.
    if (memberEpoch === progress.memberEpoch || memberEpoch === JOIN_EPOCH) return undefined;
    const repeats =
      memberEpoch === progress.previousMemberEpoch &&
      memberEpoch < progress.memberEpoch &&
      topicPartitions !== null &&
      isWithin(topicPartitions, progress);
    return repeats
      ? undefined
      : fault(
          KafkaError.FENCED_MEMBER_EPOCH,
          `the member's epoch is ${progress.memberEpoch}, not ${memberEpoch}: it has to give up all partitions and join`,
        );
  }

  #newMember(memberId: string): ConsumerMember {
    const member = new ConsumerMember(memberId === '' ? this.#host.newMemberId('') : memberId);
    this.members.add(member);
    this.#host.membersChanged(1);
    return member;
  }

  /** A static member that went away comes back under another id, and finds all as it left it. */
  #replace(former: ConsumerMember, memberId: string): ConsumerMember {
    const member = new ConsumerMember(memberId);
    member.subscription = former.subscription;
    member.progress = { ...former.progress, memberEpoch: JOIN_EPOCH };
    const target = this.target(former.memberId);
    this.#remove(former);
    this.members.add(member);
    this.#host.membersChanged(1);
    this.#targets.set(memberId, target);
    this.#write({ type: 'member', memberId, value: member.subscription });
    this.#write({ type: 'target', memberId, value: target });
    this.#write({ type: 'progress', memberId, value: member.progress });
    return member;
  }

  /** Notes what the member says of itself; true if its subscription is another. */
  #update(member: ConsumerMember, request: ConsumerHeartbeat, pattern: ResolvedPattern | undefined): boolean {
    const before = member.subscription;
    const names = request.subscribedTopicNames;
    const after: MemberSubscription = {
      instanceId: request.instanceId ?? before.instanceId,
      rackId: request.rackId ?? before.rackId,
      clientId: request.clientId,
      clientHost: request.clientHost,
      rebalanceTimeoutMs:
        request.rebalanceTimeoutMs === -1 ? before.rebalanceTimeoutMs : request.rebalanceTimeoutMs,
      topicNames: names === null ? before.topicNames : [...new Set(names)].sort(),
      topicRegex: request.subscribedTopicRegex ?? before.topicRegex,
      serverAssignor: request.serverAssignor ?? before.serverAssignor,
      classic: null,
    };
    if (sameSubscription(before, after)) return false;
    this.members.setSubscription(member, after);
    this.#write({ type: 'member', memberId: member.memberId, value: after });
    if (pattern !== undefined) this.#setPattern(after.topicRegex, pattern);
    if (before.topicRegex !== after.topicRegex) this.#dropPattern(before.topicRegex);
    return !sameNames(before.topicNames, after.topicNames) || before.topicRegex !== after.topicRegex;
  }

  #setPattern(pattern: string, resolved: ResolvedPattern): void {
    this.subscriptions.set(pattern, resolved);
    this.#write({ type: 'pattern', pattern, value: resolved });
  }

  #dropPattern(pattern: string): void {
    if (this.subscriptions.get(pattern) === undefined || this.members.usesPattern(pattern)) return;
    this.subscriptions.delete(pattern);
    this.#write({ type: 'pattern', pattern, value: null });
  }

  // --- epochs and targets ---

  /** Topics were made, deleted or got partitions: the next heartbeat sees to it. */
  topicsChanged(): void {
    this.#topicsChanged = true;
  }

  /** Raises the group's epoch when its members, their subscriptions or the topics are others than before. */
  #refresh(changed: boolean): void {
    if (!changed && !this.#topicsChanged) return;
    const { topics, clock } = this.#host;
    if (this.#topicsChanged) {
      for (const pattern of [...this.subscriptions.patterns()]) {
        const resolved = resolvePattern(pattern, topics, clock.now());
        const before = this.subscriptions.get(pattern)!;
        if (!sameNames(before.topics, resolved.topics)) this.#setPattern(pattern, resolved);
      }
    }
    this.#topicsChanged = false;
    const hash = metadataHash(this.subscriptions.topics(), topics);
    const bumps = changed || hash !== this.#metadataHash;
    this.#metadataHash = hash;
    if (bumps) this.#bump();
    else if (!this.#isWritten) this.#writeGroup();
  }

  #bump(): void {
    this.#epoch = Math.min(this.#epoch + 1, MAX_EPOCH);
    this.#changedAt = this.#host.clock.monotonic();
    if (this.#hasPartitionsRecord) {
      this.#hasPartitionsRecord = false;
      this.#write({ type: 'partitions', value: null });
    }
    this.#writeGroup();
  }

  #writeGroup(): void {
    this.#isWritten = true;
    this.#write({ type: 'group', value: { epoch: this.#epoch, metadataHash: this.#metadataHash } });
  }

  #assignIfDue(): void {
    if (this.#epoch <= this.#assignmentEpoch) return;
    const { clock, consumer } = this.#host;
    const intervalMs = consumer.assignmentIntervalMs(this.groupId);
    const sinceMs = clock.now() - this.#assignmentTimestamp;
    // A clock that was set back does not hold it up.
    if (intervalMs > 0 && sinceMs >= 0 && sinceMs < intervalMs) return;
    this.#assign();
  }

  /** Computes a target for the group's epoch. */
  #assign(): void {
    const { assignors, topics, clock } = this.#host;
    const assignor = assignors.find(({ name }) => name === this.assignorName) ?? assignors[0]!;
    const topicIds = this.subscriptions.topicIds(topics);
    const members: AssignorMember[] = [];
    for (const member of this.members.all()) {
      const { memberId, subscription } = member;
      members.push({
        memberId,
        instanceId: subscription.instanceId,
        rackId: subscription.rackId,
        subscribedTopicIds: topicIds(member),
        owned: this.target(memberId),
      });
    }
    const assigned = assignor.assign(members, (topicId) => topics.partitionCount(topicId));
    for (const { memberId } of members) {
      const target = assigned.get(memberId) ?? NOTHING_ASSIGNED;
      const before = this.#targets.get(memberId);
      if (before !== undefined && sameAssignment(before, target)) continue;
      this.#targets.set(memberId, target);
      this.#write({ type: 'target', memberId, value: target });
    }
    this.#setAssignmentEpoch(clock.now());
    this.#host.log(
      this.groupId,
      `assigned for epoch ${this.#epoch} by ${assignor.name} to ${members.length} members`,
    );
  }

  #setAssignmentEpoch(timestamp: number): void {
    this.#assignmentEpoch = this.#epoch;
    this.#assignmentTimestamp = timestamp;
    this.#changedAt = this.#host.clock.monotonic();
    this.members.targetEpoch = this.#assignmentEpoch;
    this.#write({
      type: 'targetEpoch',
      value: { epoch: this.#assignmentEpoch, timestamp },
    });
  }

  #reconcile(member: ConsumerMember, owned: MemberAssignment | null): void {
    const { memberId, progress } = member;
    if (member.isReconciledTo(this.#assignmentEpoch)) return;
    const target: Target = { epoch: this.#assignmentEpoch, partitions: this.target(memberId) };
    const next = reconcile(progress, target, owned, (topicId, partition) => {
      const holder = this.members.holder(topicId, partition);
      return holder !== undefined && holder !== memberId;
    });
    if (next === progress) return;
    if (next.pendingRevocation !== progress.pendingRevocation) {
      this.#changedAt = this.#host.clock.monotonic();
    }
    this.members.setProgress(member, next);
    this.#write({ type: 'progress', memberId, value: next });
    this.#watchRevocation(member);
  }

  // --- timeouts ---

  /** A member that does not give up what it has to within its rebalance timeout is removed. */
  #watchRevocation(member: ConsumerMember): void {
    const { state, pendingRevocation } = member.progress;
    if (state !== MemberState.UNREVOKED || pendingRevocation.size === 0) {
      member.revocation?.cancel();
      member.revocation = undefined;
      return;
    }
    if (member.revocation !== undefined) return;
    member.revocation = this.#host.clock.setTimer(member.subscription.rebalanceTimeoutMs, () =>
      this.#expel(member, 'did not give up its partitions in time'),
    );
  }

  #touch(member: ConsumerMember): void {
    member.session ??= new SessionTimer(this.#host.clock, () => this.#expel(member, 'session timed out'));
    member.session.touch(this.#host.consumer.sessionTimeoutMs(this.groupId));
  }

  #expel(member: ConsumerMember, reason: string): void {
    if (this.#dead || this.members.get(member.memberId) !== member) return;
    this.#host.log(this.groupId, `member ${member.memberId} ${reason}`);
    this.#removeAndBump(member);
    this.#journal.flush();
  }

  #removeAndBump(member: ConsumerMember): void {
    this.#remove(member);
    this.#dropPattern(member.subscription.topicRegex);
    this.#metadataHash = metadataHash(this.subscriptions.topics(), this.#host.topics);
    this.#bump();
    // Nobody is left to assign anything to.
    if (this.members.size === 0) this.#setAssignmentEpoch(0);
  }

  #remove(member: ConsumerMember): void {
    const { memberId } = member;
    this.members.remove(member);
    this.#targets.delete(memberId);
    this.#host.membersChanged(-1);
    this.#write({ type: 'progress', memberId, value: null });
    this.#write({ type: 'target', memberId, value: null });
    this.#write({ type: 'member', memberId, value: null });
  }

  // --- leaving ---

  #leave(request: ConsumerHeartbeat, respond: RespondConsumer): ConsumerFault | undefined {
    const { memberId, memberEpoch, instanceId } = request;
    let member = this.members.get(memberId);
    if (instanceId !== null) {
      const known = this.members.byInstance(instanceId);
      const unknown = this.#instanceFault(known, memberId, instanceId);
      if (unknown !== undefined) return unknown;
      member = known;
    }
    if (member === undefined) {
      return fault(KafkaError.UNKNOWN_MEMBER_ID, `member ${memberId} is not in the group`);
    }
    if (memberEpoch === STATIC_LEAVE_EPOCH) this.#leaveForATime(member);
    else {
      this.#host.log(this.groupId, `member ${memberId} leaves`);
      this.#removeAndBump(member);
    }
    this.#answer(respond, {
      errorCode: KafkaError.NONE,
      errorMessage: null,
      memberId,
      memberEpoch: memberEpoch === STATIC_LEAVE_EPOCH ? STATIC_LEAVE_EPOCH : LEAVE_EPOCH,
      heartbeatIntervalMs: 0,
      assignment: null,
    });
    return undefined;
  }

  /** A static member keeps its place until its session ends. */
  #leaveForATime(member: ConsumerMember): void {
    const progress: MemberProgress = {
      ...member.progress,
      memberEpoch: STATIC_LEAVE_EPOCH,
      assigned: withoutEpochs(member.progress.assigned),
      pendingRevocation: NO_PARTITIONS,
    };
    this.members.setProgress(member, progress);
    this.#write({ type: 'progress', memberId: member.memberId, value: progress });
    this.#watchRevocation(member);
  }

  /** Ends the group: all timers stop, whoever waits is sent to look for it anew. */
  close(): void {
    if (this.#dead) return;
    this.#dead = true;
    for (const member of this.members.all()) member.stop();
    this.#host.membersChanged(-this.members.size);
    this.#journal.close();
  }
}

/** Whether a member has all that it says it owns. */
function isWithin(owned: MemberAssignment, { assigned }: MemberProgress): boolean {
  for (const [topicId, partitions] of owned) {
    const own = assigned.get(topicId);
    if (own === undefined || !partitions.every((partition) => own.has(partition))) return false;
  }
  return true;
}

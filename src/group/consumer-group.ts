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
 * member comes to it at its own pace (consumer-reconcile.ts). Time, log and topics come from the host. Members may speak the
 * classic protocol (consumer-classic.ts).
 */
import { KafkaError } from '../protocol/errors.ts';
import type { MemberAssignment } from './assignor.ts';
import { SessionTimer } from './classic-member.ts';
import { ConsumerClassicMembers } from './consumer-classic.ts';
import { type ConsumerMember, MemberState, partitionsOf, samePartitions } from './consumer-member.ts';
import type { ConsumerMembers } from './consumer-members.ts';
import { heartbeatIntervalMs } from './consumer-pace.ts';
import type { ConsumerChange } from './consumer-records.ts';
import { ConsumerGroupState } from './consumer-state.ts';
import {
  type ConsumerFault,
  type ConsumerHeartbeat,
  type ConsumerHeartbeatAnswer,
  type ConsumerHost,
  type ConsumerState,
  fault,
  JOIN_EPOCH,
  LEAVE_EPOCH,
  type RespondConsumer,
  refusedHeartbeat,
  STATIC_LEAVE_EPOCH,
} from './consumer-types.ts';
import { epochFault, instanceFault, ownsOnly, watchRevocation } from './member-rules.ts';

export class ConsumerGroup {
  readonly groupId: string;
  readonly facts: ConsumerGroupState;
  /** Members that speak the classic protocol. */
  readonly classic: ConsumerClassicMembers;
  readonly #host: ConsumerHost;
  #dead = false;

  constructor(groupId: string, host: ConsumerHost) {
    this.groupId = groupId;
    this.#host = host;
    this.facts = new ConsumerGroupState(groupId, host);
    this.classic = new ConsumerClassicMembers(this, host);
  }

  get state(): ConsumerState {
    return this.#dead ? 'Dead' : this.facts.name;
  }

  get members(): ConsumerMembers {
    return this.facts.members;
  }

  get epoch(): number {
    return this.facts.epoch;
  }

  get assignmentEpoch(): number {
    return this.facts.assignmentEpoch;
  }

  get assignorName(): string {
    return this.facts.assignorName;
  }

  target(memberId: string): MemberAssignment {
    return this.facts.target(memberId);
  }

  subscribesTo(topic: string): boolean {
    return this.facts.subscriptions.subscribesTo(topic);
  }

  /** Takes what a record says. */
  replay(change: ConsumerChange): void {
    this.facts.replay(change);
  }

  /** After loading: members have a session to come back in. */
  resume(): void {
    this.#host.membersChanged(this.members.size);
    this.watchAll();
  }

  /** All timers run. */
  watchAll(): void {
    for (const member of this.members.all()) {
      this.touch(member);
      this.#watchRevocation(member);
    }
  }

  // --- heartbeats ---

  /** Answers once what the answer tells of is written. */
  heartbeat(request: ConsumerHeartbeat, respond: RespondConsumer): void {
    const failed = this.#serve(request, respond);
    if (failed === undefined) return;
    // The group may have just become one of this protocol.
    this.facts.flush();
    respond(refusedHeartbeat(failed.errorCode, failed.message));
  }

  #serve(request: ConsumerHeartbeat, respond: RespondConsumer): ConsumerFault | undefined {
    if (this.#dead) return fault(KafkaError.NOT_COORDINATOR, 'the group was removed');
    if (request.memberEpoch < JOIN_EPOCH) return this.#leave(request, respond);
    const member = this.#patternFault(request) ?? this.#memberOf(request);
    if ('errorCode' in member) return member;
    const { facts } = this;
    const { assigned } = member.progress;
    facts.refresh(this.#update(member, request));
    facts.assignIfDue();
    this.reconcile(member, request.topicPartitions);
    this.touch(member);
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
    this.facts.flush((errorCode) => {
      respond(errorCode === KafkaError.NONE ? answer : refusedHeartbeat(errorCode, null));
    });
  }

  #interval(member: ConsumerMember): number {
    const { consumer, consumerMembers } = this.#host;
    return heartbeatIntervalMs({
      configured: consumer.heartbeatInterval(this.groupId),
      brokerMembers: consumerMembers,
      groupMembers: this.members.size,
      isReconciled: this.facts.isSettled(member),
      quietMs: this.facts.quietMs,
    });
  }

  /** What is wrong with a member's pattern, if it has no topics by it: one that joined while the pattern was looked at hears it. */
  #patternFault({ memberId, subscribedTopicRegex }: ConsumerHeartbeat): ConsumerFault | undefined {
    const pattern = subscribedTopicRegex ?? this.members.get(memberId)?.subscription.topicRegex ?? '';
    if (pattern === '' || this.facts.subscriptions.get(pattern) !== undefined) return undefined;
    return this.#host.patterns.fault(pattern);
  }

  /** The member that a request is of, a new one if it joins. */
  #memberOf(request: ConsumerHeartbeat): ConsumerMember | ConsumerFault {
    const { memberId, memberEpoch, instanceId } = request;
    const known = this.members.get(memberId);
    if (known === undefined && this.isFull(instanceId)) {
      return fault(KafkaError.GROUP_MAX_SIZE_REACHED, 'the group is full');
    }
    if (instanceId !== null) return this.#staticMemberOf(request, instanceId);
    if (known !== undefined) return this.#epochFault(known, request) ?? known;
    if (memberEpoch === JOIN_EPOCH) {
      return this.facts.addMember(memberId === '' ? this.#host.newMemberId() : memberId);
    }
    return fault(KafkaError.UNKNOWN_MEMBER_ID, `member ${memberId} is not in the group`);
  }

  /** Whether there is no room for another member. */
  isFull(instanceId: string | null): boolean {
    if (this.members.size < this.#host.consumer.maxSize) return false;
    return instanceId === null || this.members.byInstance(instanceId) === undefined;
  }

  #staticMemberOf(request: ConsumerHeartbeat, instanceId: string): ConsumerMember | ConsumerFault {
    const { memberId, memberEpoch } = request;
    const known = this.members.byInstance(instanceId);
    if (memberEpoch === JOIN_EPOCH) {
      if (known === undefined) return this.facts.addMember(memberId);
      // One that speaks the classic protocol never says that it leaves for a time.
      if (known.memberEpoch !== STATIC_LEAVE_EPOCH && !known.isClassic) {
        return fault(KafkaError.UNRELEASED_INSTANCE_ID, `instance ${instanceId} is still in use`);
      }
      return known.memberId === memberId ? known : this.facts.replaceMember(known, memberId);
    }
    const unknown = instanceFault(known, memberId, instanceId);
    return unknown ?? this.#epochFault(known!, request) ?? known!;
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
      ownsOnly(topicPartitions, progress.assigned);
    return repeats ? undefined : epochFault(progress.memberEpoch, memberEpoch);
  }

  /** Notes what the member says of itself; true if its subscription is another. */
  #update(member: ConsumerMember, request: ConsumerHeartbeat): boolean {
    const before = member.subscription;
    const names = request.subscribedTopicNames;
    return this.facts.setSubscription(member, {
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
    });
  }

  /** See ConsumerGroupState.reconcile(). */
  reconcile(member: ConsumerMember, owned: MemberAssignment | null): void {
    this.facts.reconcile(member, owned);
    this.#watchRevocation(member);
  }

  // --- timeouts ---

  /** A member that does not give up what it has to within its rebalance timeout is removed. */
  #watchRevocation(member: ConsumerMember): void {
    const { state, pendingRevocation } = member.progress;
    const revokes = state === MemberState.UNREVOKED && pendingRevocation.size > 0;
    const timeoutMs = revokes ? member.subscription.rebalanceTimeoutMs : undefined;
    watchRevocation(member, this.#host.clock, timeoutMs, () =>
      this.expel(member, 'did not give up its partitions in time'),
    );
  }

  /** The member was heard. */
  touch(member: ConsumerMember): void {
    member.session ??= new SessionTimer(this.#host.clock, () => this.expel(member, 'session timed out'));
    const { classic } = member.subscription;
    member.session.touch(classic?.sessionTimeoutMs ?? this.#host.consumer.sessionTimeoutMs(this.groupId));
  }

  expel(member: ConsumerMember, reason: string): void {
    if (this.#dead || this.members.get(member.memberId) !== member) return;
    this.remove([member], reason);
    this.facts.flush();
    this.#host.membersLeft(this);
  }

  remove(members: readonly ConsumerMember[], reason: string): void {
    for (const { memberId } of members) this.#host.log(this.groupId, `member ${memberId} ${reason}`);
    this.facts.removeMembers(members);
  }

  // --- leaving ---

  #leave(request: ConsumerHeartbeat, respond: RespondConsumer): ConsumerFault | undefined {
    const { memberId, memberEpoch, instanceId } = request;
    let member = this.members.get(memberId);
    if (instanceId !== null) {
      const known = this.members.byInstance(instanceId);
      const unknown = instanceFault(known, memberId, instanceId);
      if (unknown !== undefined) return unknown;
      member = known;
    }
    if (member === undefined) {
      return fault(KafkaError.UNKNOWN_MEMBER_ID, `member ${memberId} is not in the group`);
    }
    if (memberEpoch === STATIC_LEAVE_EPOCH) {
      this.facts.leaveForATime(member);
      this.#watchRevocation(member);
    } else this.remove([member], 'leaves');
    this.#answer(respond, {
      errorCode: KafkaError.NONE,
      errorMessage: null,
      memberId,
      memberEpoch: memberEpoch === STATIC_LEAVE_EPOCH ? STATIC_LEAVE_EPOCH : LEAVE_EPOCH,
      heartbeatIntervalMs: 0,
      assignment: null,
    });
    if (memberEpoch === LEAVE_EPOCH) this.#host.membersLeft(this);
    return undefined;
  }

  /** Ends the group: all timers stop. What was said to members and is being written is answered. */
  retire(): void {
    if (this.#dead) return;
    this.#dead = true;
    for (const member of this.members.all()) member.stop();
    this.#host.membersChanged(-this.members.size);
  }

  /** As retire(); and whoever waits is sent to look for the group anew. */
  close(): void {
    this.retire();
    this.facts.close();
  }
}

/**
 * A streams group (KIP-1071): the state machine behind StreamsGroupHeartbeat. Rules as in Apache Kafka 4.4.
 *
 * - Empty: no members; offsets may be there.
 * - NotReady: topics are missing, or their partitions do not fit the topology; nobody has tasks.
 * - Assigning: the group's epoch is ahead of its target assignment.
 * - Reconciling: members are on their way to the target.
 * - Stable: all have reached it.
 * - Dead: removed; whoever still holds the object must look the group up again.
 *
 * Like a consumer group (consumer-group.ts), with tasks in place of partitions. Time, log and topics come from the host.
 */
import { KafkaError } from '../protocol/errors.ts';
import type { Timer } from '../runtime/clock.ts';
import type { MemberAssignment } from './assignor.ts';
import { SessionTimer } from './classic-member.ts';
import { MemberState } from './consumer-member.ts';
import { heartbeatIntervalMs } from './consumer-pace.ts';
import { type ConsumerFault, fault, JOIN_EPOCH, LEAVE_EPOCH, STATIC_LEAVE_EPOCH } from './consumer-types.ts';
import { epochFault, instanceFault, ownsOnly, watchRevocation } from './member-rules.ts';
import { endpointPartitions } from './streams-endpoints.ts';
import type { StreamsMember } from './streams-member.ts';
import type { StreamsMembers } from './streams-members.ts';
import type { StreamsChange } from './streams-records.ts';
import { StreamsGroupState } from './streams-state.ts';
import { type HeldTasks, hasTasks, ROLES, sameHeld, type TaskAssignment, tasksOf } from './streams-tasks.ts';
import { configureTopology, type StreamsTopology, sameTopology } from './streams-topology.ts';
import {
  bareAnswer,
  type RespondStreams,
  refusedStreams,
  type StatusDetail,
  type StreamsHeartbeat,
  type StreamsHeartbeatAnswer,
  type StreamsHost,
  type StreamsState,
  StreamsStatus,
} from './streams-types.ts';

export class StreamsGroup {
  readonly groupId: string;
  readonly facts: StreamsGroupState;
  readonly #host: StreamsHost;
  #dead = false;
  /** Runs while a group that was empty waits for more members. */
  #initialDelay: Timer | undefined;
  /** The member that asked all others to end. */
  #shutdownBy: string | undefined;
  /** Grows when other partitions can be asked for at an endpoint; not kept over a restart. */
  #endpointEpoch = 0;

  constructor(groupId: string, host: StreamsHost) {
    this.groupId = groupId;
    this.#host = host;
    this.facts = new StreamsGroupState(groupId, host);
  }

  get state(): StreamsState {
    return this.#dead ? 'Dead' : this.facts.name;
  }

  get members(): StreamsMembers {
    return this.facts.members;
  }

  /** By Kafka's name. */
  get assignorName(): string {
    return this.#host.streams.assignorName(this.groupId);
  }

  /** Whether a member may read the topic. */
  subscribesTo(topic: string): boolean {
    if (this.members.size === 0) return false;
    const { subtopologies = [] } = this.facts.topology ?? {};
    return subtopologies.some(
      (s) => s.sourceTopics.includes(topic) || s.repartitionSourceTopics.some(({ name }) => name === topic),
    );
  }

  /** A member, and since which epoch it processes which partitions. */
  committingMember(memberId: string) {
    const member = this.members.get(memberId);
    if (member === undefined) return undefined;
    const { assigned, pendingRevocation } = member.progress;
    const heldSince = ({ topic, partition }: { readonly topic: string; readonly partition: number }) => {
      for (const [id, { inputs }] of this.facts.configured?.subtopologies ?? []) {
        if (!inputs.includes(topic)) continue;
        return assigned.active.get(id)?.get(partition) ?? pendingRevocation.active.get(id)?.get(partition);
      }
      return undefined;
    };
    return { memberEpoch: member.memberEpoch, isClassic: false, heldSince };
  }

  /** Takes what a record says. */
  replay(change: StreamsChange): void {
    this.facts.replay(change);
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
  heartbeat(request: StreamsHeartbeat, respond: RespondStreams): void {
    const failed = this.#serve(request, respond);
    if (failed === undefined) return;
    this.facts.flush();
    respond(refusedStreams(failed));
  }

  #serve(request: StreamsHeartbeat, respond: RespondStreams): ConsumerFault | undefined {
    if (this.#dead) return fault(KafkaError.NOT_COORDINATOR, 'the group was removed');
    if (request.memberEpoch < JOIN_EPOCH) return this.#leave(request, respond);
    const isFirst = this.members.size === 0;
    const member = this.#topologyFault(request.topology) ?? this.#memberOf(request);
    if ('errorCode' in member) return member;
    const foreign = this.#ownedFault(request.owned);
    if (foreign !== undefined) return foreign;
    const { facts } = this;
    const { assigned } = member.progress;
    const { userEndpoint } = member.facts;
    const { processId } = member.facts;
    const changed = this.#update(member, request);
    // Who comes back in another process has no state there, and others of that process may have some of its tasks.
    if (request.memberEpoch === JOIN_EPOCH && processId !== member.facts.processId) facts.release(member);
    if (facts.topology === undefined) facts.setTopology(request.topology!);
    facts.refresh(changed);
    if (isFirst) this.#delayFirstAssignment();
    const isAssigned = this.#initialDelay === undefined && facts.assignIfDue();
    facts.reconcile(member, request.owned);
    this.#watchRevocation(member);
    this.#touch(member);
    if (request.shutdownApplication) this.#shutdownBy = member.memberId;
    const changes = !sameHeld(assigned, member.progress.assigned);
    // Who is alone tells nobody but itself.
    if (!isFirst && (changes || userEndpoint !== member.facts.userEndpoint)) this.#endpointChanged(member);
    this.#answer(respond, this.#answerOf(member, request, changes, isAssigned));
    return undefined;
  }

  #answerOf(
    member: StreamsMember,
    request: StreamsHeartbeat,
    changes: boolean,
    isAssigned: boolean,
  ): StreamsHeartbeatAnswer {
    const { facts, groupId } = this;
    const { streams, topics, streamsMembers } = this.#host;
    const { progress } = member;
    const tells =
      changes || request.memberEpoch === JOIN_EPOCH || ownsOther(request.owned, progress.assigned);
    const tellsEndpoints = request.endpointInformationEpoch !== this.#endpointEpoch;
    return {
      errorCode: KafkaError.NONE,
      errorMessage: null,
      memberId: member.memberId,
      memberEpoch: progress.memberEpoch,
      heartbeatIntervalMs: heartbeatIntervalMs({
        configured: streams.heartbeatInterval(groupId),
        brokerMembers: streamsMembers,
        groupMembers: this.members.size,
        isReconciled: facts.isSettled(member),
        quietMs: facts.quietMs,
      }),
      taskOffsetIntervalMs: streams.taskOffsetIntervalMs(groupId),
      acceptableRecoveryLag: streams.acceptableRecoveryLag(groupId),
      status: this.#statuses(member, isAssigned),
      tasks: tells ? tasksOf(progress.assigned) : null,
      endpointInformationEpoch: this.#endpointEpoch,
      endpoints: tellsEndpoints ? endpointPartitions(this.members.all(), facts.configured!, topics) : null,
    };
  }

  #statuses(member: StreamsMember, isAssigned: boolean): StatusDetail[] {
    const { topology, configured } = this.facts;
    const { topologyEpoch } = member.facts;
    const statuses: StatusDetail[] = [];
    const add = (statusCode: number, statusDetail: string) => statuses.push({ statusCode, statusDetail });
    if (topologyEpoch < topology!.epoch) {
      add(
        StreamsStatus.STALE_TOPOLOGY,
        `the member's topology epoch ${topologyEpoch} is behind the group's, ${topology!.epoch}`,
      );
    }
    const { status } = configured!;
    if (status !== undefined) {
      const failure = this.#host.creationFailure(this.groupId);
      const tellsFailure = status.statusCode === StreamsStatus.MISSING_INTERNAL_TOPICS && failure !== '';
      add(status.statusCode, tellsFailure ? `${status.statusDetail}; ${failure}` : status.statusDetail);
    }
    if (this.#shutdownBy !== undefined) {
      const detail = `member ${this.#shutdownBy} of the streams group failed, and asked all of the application to end`;
      add(StreamsStatus.SHUTDOWN_APPLICATION, detail);
    }
    if (!isAssigned) {
      const by = this.#initialDelay === undefined ? 'assignment interval' : 'initial rebalance delay';
      add(StreamsStatus.ASSIGNMENT_DELAYED, `the assignment is delayed by the ${by} that is configured`);
    }
    return statuses;
  }

  #answer(respond: RespondStreams, answer: StreamsHeartbeatAnswer): void {
    this.facts.flush((errorCode) => {
      respond(errorCode === KafkaError.NONE ? answer : bareAnswer(errorCode, null));
    });
  }

  /** A group has one topology, as long as it lasts. */
  #topologyFault(topology: StreamsTopology | null): ConsumerFault | undefined {
    const { topology: known, configured } = this.facts;
    if (topology === null || known === undefined) {
      const fresh = topology === null ? configured : configureTopology(topology, this.#host.topics);
      return fresh?.fault;
    }
    if (sameTopology(known, topology)) return configured!.fault;
    return fault(
      KafkaError.INVALID_REQUEST,
      'the topology differs from the one of the group, which has to be deleted before it can have another',
    );
  }

  /** What is wrong with the tasks that a member says it owns. */
  #ownedFault(owned: TaskAssignment | null): ConsumerFault | undefined {
    const { configured } = this.facts;
    if (owned === null || configured === undefined || configured.status !== undefined) return undefined;
    for (const role of ROLES) {
      for (const [id, partitions] of owned[role]) {
        const tasks = configured.subtopologies.get(id)?.tasks ?? 0;
        const wrong = partitions.find((partition) => partition < 0 || partition >= tasks);
        if (wrong === undefined && tasks > 0) continue;
        const message = `there is no task ${wrong} of subtopology ${id}, which has ${tasks}`;
        return fault(KafkaError.INVALID_REQUEST, message);
      }
    }
    return undefined;
  }

  /** The member that a request is of, a new one if it joins. */
  #memberOf(request: StreamsHeartbeat): StreamsMember | ConsumerFault {
    const { memberId, memberEpoch, instanceId } = request;
    const known = this.members.get(memberId);
    const isJoining = memberEpoch === JOIN_EPOCH;
    if (known === undefined && isJoining && this.#isFull(instanceId)) {
      return fault(KafkaError.GROUP_MAX_SIZE_REACHED, 'the group is full');
    }
    if (instanceId !== null) return this.#staticMemberOf(request, instanceId);
    if (known !== undefined) return this.#epochFault(known, request) ?? known;
    if (isJoining) return this.facts.addMember(memberId);
    return fault(KafkaError.UNKNOWN_MEMBER_ID, `member ${memberId} is not in the group`);
  }

  #isFull(instanceId: string | null): boolean {
    if (this.members.size < this.#host.streams.maxSize) return false;
    return instanceId === null || this.members.byInstance(instanceId) === undefined;
  }

  #staticMemberOf(request: StreamsHeartbeat, instanceId: string): StreamsMember | ConsumerFault {
    const { memberId, memberEpoch } = request;
    const known = this.members.byInstance(instanceId);
    if (memberEpoch !== JOIN_EPOCH) {
      return instanceFault(known, memberId, instanceId) ?? this.#epochFault(known!, request) ?? known!;
    }
    if (known === undefined) return this.facts.addMember(memberId);
    if (known.memberId === memberId) return known;
    if (known.memberEpoch === STATIC_LEAVE_EPOCH) return this.facts.replaceMember(known, memberId);
    return fault(KafkaError.UNRELEASED_INSTANCE_ID, `instance ${instanceId} is still in use`);
  }

  /** Whoever is not where the group thinks it is has to join anew; but for one whose last answer was lost. */
  #epochFault(member: StreamsMember, { memberEpoch, owned }: StreamsHeartbeat): ConsumerFault | undefined {
    const { progress } = member;
    if (memberEpoch === progress.memberEpoch || memberEpoch === JOIN_EPOCH) return undefined;
    const repeats =
      memberEpoch === progress.previousMemberEpoch &&
      memberEpoch < progress.memberEpoch &&
      owned !== null &&
      ROLES.every((role) => ownsOnly(owned[role], progress.assigned[role]));
    return repeats ? undefined : epochFault(progress.memberEpoch, memberEpoch);
  }

  /** Notes what the member says of itself; true if it is something new. */
  #update(member: StreamsMember, request: StreamsHeartbeat): boolean {
    const before = member.facts;
    if (request.taskOffsets !== null) member.taskOffsets = request.taskOffsets;
    if (request.taskEndOffsets !== null) member.taskEndOffsets = request.taskEndOffsets;
    return this.facts.setFacts(member, {
      instanceId: request.instanceId ?? before.instanceId,
      rackId: request.rackId ?? before.rackId,
      clientId: request.clientId,
      clientHost: request.clientHost,
      rebalanceTimeoutMs:
        request.rebalanceTimeoutMs === -1 ? before.rebalanceTimeoutMs : request.rebalanceTimeoutMs,
      topologyEpoch: request.topology?.epoch ?? before.topologyEpoch,
      processId: request.processId ?? before.processId,
      userEndpoint: request.userEndpoint ?? before.userEndpoint,
      clientTags: request.clientTags ?? before.clientTags,
    });
  }

  #endpointChanged(member: StreamsMember): void {
    if (member.facts.userEndpoint !== null) this.#endpointEpoch++;
  }

  // --- timeouts ---

  /** A group that was empty waits for `group.streams.initial.rebalance.delay.ms`, so that those who start together are
   * assigned together. */
  #delayFirstAssignment(): void {
    const delayMs = this.#host.streams.initialRebalanceDelayMs(this.groupId);
    if (delayMs === 0 || this.#initialDelay !== undefined) return;
    this.#initialDelay = this.#host.clock.setTimer(delayMs, () => {
      this.#initialDelay = undefined;
      if (this.members.size > 0) this.facts.assignIfDue();
      this.facts.flush();
    });
  }

  /** A member that does not give up what it has to within its rebalance timeout is removed. */
  #watchRevocation(member: StreamsMember): void {
    const { state, pendingRevocation } = member.progress;
    const revokes = state === MemberState.UNREVOKED && hasTasks(pendingRevocation);
    watchRevocation(member, this.#host.clock, revokes ? member.facts.rebalanceTimeoutMs : undefined, () =>
      this.expel(member, 'did not give up its tasks in time'),
    );
  }

  #touch(member: StreamsMember): void {
    const { clock, streams } = this.#host;
    member.session ??= new SessionTimer(clock, () => this.expel(member, 'session timed out'));
    member.session.touch(streams.sessionTimeoutMs(this.groupId));
  }

  expel(member: StreamsMember, reason: string): void {
    if (this.#dead || this.members.get(member.memberId) !== member) return;
    this.#remove(member, reason);
    this.facts.flush();
  }

  #remove(member: StreamsMember, reason: string): void {
    this.#host.log(this.groupId, `member ${member.memberId} ${reason}`);
    this.facts.removeMember(member);
    this.#endpointChanged(member);
    if (this.members.size > 0) return;
    this.#shutdownBy = undefined;
    this.#initialDelay?.cancel();
    this.#initialDelay = undefined;
  }

  // --- leaving ---

  #leave(request: StreamsHeartbeat, respond: RespondStreams): ConsumerFault | undefined {
    const { memberId, memberEpoch, instanceId } = request;
    if (instanceId !== null) {
      const unknown = instanceFault(this.members.byInstance(instanceId), memberId, instanceId);
      if (unknown !== undefined) return unknown;
    }
    const member = this.members.get(memberId);
    if (member === undefined) {
      return fault(KafkaError.UNKNOWN_MEMBER_ID, `member ${memberId} is not in the group`);
    }
    if (request.shutdownApplication) this.#shutdownBy = memberId;
    if (memberEpoch === STATIC_LEAVE_EPOCH) {
      this.facts.leaveForATime(member);
      this.#watchRevocation(member);
    } else this.#remove(member, 'leaves');
    const epoch = memberEpoch === STATIC_LEAVE_EPOCH ? STATIC_LEAVE_EPOCH : LEAVE_EPOCH;
    this.#answer(respond, bareAnswer(KafkaError.NONE, null, memberId, epoch));
    return undefined;
  }

  /** Ends the group: all timers stop, and whoever waits is sent to look for the group anew. */
  close(): void {
    if (this.#dead) return;
    this.#dead = true;
    this.#initialDelay?.cancel();
    for (const member of this.members.all()) member.stop();
    this.#host.membersChanged(-this.members.size);
    this.facts.close();
  }
}

/** Whether a member does not own what it has been told to: perhaps the answer was lost. */
function ownsOther(owned: TaskAssignment | null, held: HeldTasks): boolean {
  if (owned === null) return false;
  const told = tasksOf(held);
  return ROLES.some(
    (role) => !ownsOnly(owned[role], held[role]) || !ownsOnly(told[role], asHeld(owned[role])),
  );
}

function asHeld(owned: MemberAssignment): HeldTasks['active'] {
  return new Map([...owned].map(([id, partitions]) => [id, new Map(partitions.map((p) => [p, 0]))]));
}

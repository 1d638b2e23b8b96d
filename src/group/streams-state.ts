/** What a streams group consists of: topology, members, epochs, target assignment; and the records of every change. It changes in
 * the call, and is written by flush(). Knows no requests and no timers. */
import { ConsumerJournal } from './consumer-journal.ts';
import { MemberState } from './consumer-member.ts';
import { metadataHash } from './consumer-metadata-hash.ts';
import { JOIN_EPOCH, STATIC_LEAVE_EPOCH } from './consumer-types.ts';
import { assignTasks } from './streams-assignor.ts';
import { StreamsMember, type StreamsMemberFacts, sameFacts, type TaskProgress } from './streams-member.ts';
import { StreamsMembers } from './streams-members.ts';
import { reconcileTasks } from './streams-reconcile.ts';
import { type StreamsChange, type StreamsGroupFacts, streamsRecord } from './streams-records.ts';
import {
  hasTasks,
  heldWithoutEpochs,
  NO_TASKS,
  NOTHING_HELD,
  sameTasks,
  type TaskAssignment,
} from './streams-tasks.ts';
import {
  type ConfiguredTopology,
  configureTopology,
  type StreamsTopology,
  topicsOf,
} from './streams-topology.ts';
import type { KeyValue, StreamsHost, StreamsState } from './streams-types.ts';
import { TargetTable } from './target-table.ts';

const MAX_EPOCH = 2 ** 31 - 1;
const NOT_VALIDATED = -1;

export class StreamsGroupState {
  readonly groupId: string;
  readonly members = new StreamsMembers();
  readonly #host: StreamsHost;
  readonly #journal: ConsumerJournal;
  readonly #targets = new TargetTable<TaskAssignment>(NO_TASKS, sameTasks, (change) => this.#write(change));
  #topology: StreamsTopology | undefined;
  /** With the topics of `#topicsVersion`. */
  #configured: ConfiguredTopology | undefined;
  #group: StreamsGroupFacts = {
    epoch: 0,
    metadataHash: 0n,
    validatedTopologyEpoch: NOT_VALIDATED,
    assignmentConfigs: [],
  };
  /** Of the host's monotonic time. */
  #changedAt: number;
  #topicsVersion = -1;

  constructor(groupId: string, host: StreamsHost) {
    this.groupId = groupId;
    this.#host = host;
    this.#changedAt = host.clock.monotonic();
    this.#journal = new ConsumerJournal((records, done) => host.append(groupId, records, done));
  }

  get name(): Exclude<StreamsState, 'Dead'> {
    if (this.members.size === 0) return 'Empty';
    if (this.configured?.status !== undefined) return 'NotReady';
    if (this.epoch > this.#targets.epoch) return 'Assigning';
    return this.members.allReconciled ? 'Stable' : 'Reconciling';
  }

  get epoch(): number {
    return this.#group.epoch;
  }

  get assignmentEpoch(): number {
    return this.#targets.epoch;
  }

  get topology(): StreamsTopology | undefined {
    return this.#topology;
  }

  /** The topology with the topics of this moment; undefined without a topology. */
  get configured(): ConfiguredTopology | undefined {
    const { topics, topicsVersion } = this.#host;
    if (this.#topology === undefined) return undefined;
    if (this.#configured === undefined || this.#topicsVersion !== topicsVersion) {
      this.#configured = configureTopology(this.#topology, topics);
      this.#topicsVersion = topicsVersion;
    }
    return this.#configured;
  }

  /** Since members were last given something new to do, ms. */
  get quietMs(): number {
    return this.#host.clock.monotonic() - this.#changedAt;
  }

  target(memberId: string): TaskAssignment {
    return this.#targets.get(memberId);
  }

  /** Whether a member has all that it is to have, for now. */
  isSettled(member: StreamsMember): boolean {
    return this.epoch === this.#targets.epoch && member.isReconciledTo(this.#targets.epoch);
  }

  // --- what is written ---

  #write(change: StreamsChange): void {
    this.#journal.add(streamsRecord(this.groupId, change));
  }

  /** See ConsumerJournal.flush(). */
  flush(answered?: (errorCode: number) => void): void {
    this.#journal.flush(answered);
  }

  close(): void {
    this.#journal.close();
  }

  /** The group is a new one. Its epochs are above that of joining members. */
  begin(): void {
    this.#group = { ...this.#group, epoch: 1 };
    this.#targets.replay({ type: 'targetEpoch', value: { epoch: 1, timestamp: 0 } });
    this.members.targetEpoch = 1;
  }

  /** Takes all of it back, with the next flush(). */
  bury(): void {
    const memberIds = [...this.members.all()].map(({ memberId }) => memberId);
    for (const memberId of memberIds) this.#writeTombstones(memberId);
    this.#write({ type: 'targetEpoch', value: null });
    this.#write({ type: 'topology', value: null });
    this.#write({ type: 'group', value: null });
  }

  #writeTombstones(memberId: string): void {
    for (const type of ['progress', 'target', 'member'] as const)
      this.#write({ type, memberId, value: null });
  }

  /** Takes what a record says. */
  replay(change: StreamsChange): void {
    switch (change.type) {
      case 'group':
        if (change.value !== null) this.#group = change.value;
        return;
      case 'topology':
        this.#topology = change.value ?? undefined;
        this.#configured = undefined;
        return;
      case 'targetEpoch':
        this.#targets.replay(change);
        this.members.targetEpoch = this.#targets.epoch;
        return;
      case 'target':
        this.#targets.replay(change);
        return;
      case 'member': {
        const { memberId, value } = change;
        if (value !== null) this.members.setFacts(this.#replayed(memberId), value);
        else {
          const member = this.members.get(memberId);
          if (member !== undefined) this.members.remove(member);
        }
        return;
      }
      default: {
        const { memberId, value } = change;
        if (value !== null) this.members.setProgress(this.#replayed(memberId), value);
        else {
          const member = this.members.get(memberId);
          const nothing = { assigned: NOTHING_HELD, pendingRevocation: NOTHING_HELD };
          if (member !== undefined) this.members.setProgress(member, { ...member.progress, ...nothing });
        }
      }
    }
  }

  #replayed(memberId: string): StreamsMember {
    const known = this.members.get(memberId);
    if (known !== undefined) return known;
    const member = new StreamsMember(memberId);
    this.members.add(member);
    return member;
  }

  // --- members ---

  addMember(memberId: string): StreamsMember {
    const member = new StreamsMember(memberId);
    this.members.add(member);
    this.#host.membersChanged(1);
    return member;
  }

  /** A static member comes back under another id, and finds all as it left it. */
  replaceMember(former: StreamsMember, memberId: string): StreamsMember {
    const { facts, progress } = former;
    const target = this.target(former.memberId);
    this.#drop(former);
    const member = this.addMember(memberId);
    this.members.setFacts(member, facts);
    this.#write({ type: 'member', memberId, value: facts });
    this.#targets.set(memberId, target);
    this.#setProgress(member, {
      ...progress,
      memberEpoch: JOIN_EPOCH,
      assigned: heldWithoutEpochs(progress.assigned),
    });
    return member;
  }

  #drop(member: StreamsMember): void {
    const { memberId } = member;
    this.members.remove(member);
    this.#targets.replay({ type: 'target', memberId, value: null });
    this.#host.membersChanged(-1);
    this.#writeTombstones(memberId);
  }

  /** Removes a member and raises the epoch. */
  removeMember(member: StreamsMember): void {
    this.#drop(member);
    this.#bump({});
    // Nobody is left to assign anything to.
    if (this.members.size === 0) this.#setAssignmentEpoch(0);
  }

  /** A static member keeps its place until its session ends. */
  leaveForATime(member: StreamsMember): void {
    this.#setProgress(member, {
      ...member.progress,
      memberEpoch: STATIC_LEAVE_EPOCH,
      assigned: heldWithoutEpochs(member.progress.assigned),
      pendingRevocation: NOTHING_HELD,
    });
  }

  /** A member that owns nothing has nothing any more; it takes up its target anew. */
  release(member: StreamsMember): void {
    const { progress } = member;
    if (!hasTasks(progress.assigned) && !hasTasks(progress.pendingRevocation)) return;
    const nothing = { assigned: NOTHING_HELD, pendingRevocation: NOTHING_HELD };
    this.#setProgress(member, {
      ...progress,
      ...nothing,
      state: MemberState.STABLE,
      memberEpoch: JOIN_EPOCH,
    });
  }

  /** Notes what a member says of itself; true if it is something new. */
  setFacts(member: StreamsMember, after: StreamsMemberFacts): boolean {
    if (sameFacts(member.facts, after)) return false;
    this.members.setFacts(member, after);
    this.#write({ type: 'member', memberId: member.memberId, value: after });
    return true;
  }

  #setProgress(member: StreamsMember, progress: TaskProgress): void {
    this.members.setProgress(member, progress);
    this.#write({ type: 'progress', memberId: member.memberId, value: progress });
  }

  /** Brings a member as far towards its target as what it and others hold allows. */
  reconcile(member: StreamsMember, owned: TaskAssignment | null): void {
    const { memberId, progress } = member;
    const target = { epoch: this.#targets.epoch, tasks: this.target(memberId) };
    const next = reconcileTasks(progress, target, owned, (role, subtopologyId, partition) =>
      this.members.isHeldByOthers(member, role, subtopologyId, partition),
    );
    if (next === progress) return;
    if (next.pendingRevocation !== progress.pendingRevocation) this.#changedAt = this.#host.clock.monotonic();
    this.#setProgress(member, next);
  }

  // --- epochs and targets ---

  /** The first member brings the topology. It is sound. */
  setTopology(topology: StreamsTopology): void {
    this.#topology = topology;
    this.#configured = undefined;
    this.#write({ type: 'topology', value: topology });
  }

  /** Raises the group's epoch when members have changed, or topics, or what the assignor is told. */
  refresh(membersChanged: boolean): void {
    const { configured, groupId } = this;
    if (this.#topology === undefined || configured === undefined) return;
    const { topics, streams } = this.#host;
    const hash = metadataHash([...topicsOf(this.#topology)].sort(), topics);
    const validated = configured.status === undefined ? this.#topology.epoch : NOT_VALIDATED;
    const configs: KeyValue[] = [
      { key: 'num.standby.replicas', value: String(streams.standbyReplicas(groupId)) },
    ];
    const tags = streams.rackTags(groupId);
    if (tags.length > 0) configs.push({ key: 'rack.aware.assignment.tags', value: tags.join() });
    const { metadataHash: hashBefore, validatedTopologyEpoch, assignmentConfigs } = this.#group;
    const differs =
      hash !== hashBefore ||
      validated !== validatedTopologyEpoch ||
      JSON.stringify(configs) !== JSON.stringify(assignmentConfigs);
    if (!membersChanged && !differs) return;
    this.#bump({ metadataHash: hash, validatedTopologyEpoch: validated, assignmentConfigs: configs });
  }

  #bump(facts: Partial<StreamsGroupFacts>): void {
    this.#group = { ...this.#group, ...facts, epoch: Math.min(this.epoch + 1, MAX_EPOCH) };
    this.#changedAt = this.#host.clock.monotonic();
    this.#write({ type: 'group', value: this.#group });
  }

  /** Computes a target for the group's epoch, if it has none and `group.streams.assignment.interval.ms` is over; false if
   * it is not. */
  assignIfDue(): boolean {
    if (this.epoch <= this.#targets.epoch) return true;
    const intervalMs = this.#host.streams.assignmentIntervalMs(this.groupId);
    if (this.#targets.isTooSoon(this.#host.clock.now(), intervalMs)) return false;
    this.#assign();
    return true;
  }

  #assign(): void {
    const { streams, clock } = this.#host;
    const { groupId } = this;
    const members = [...this.members.all()];
    const assigned = assignTasks({
      members: members.map(({ memberId, facts: { processId, clientTags } }) => ({
        memberId,
        processId,
        clientTags,
        owned: this.target(memberId),
      })),
      subtopologies: this.configured?.subtopologies ?? new Map(),
      standbyReplicas: streams.standbyReplicas(groupId),
      rackTags: streams.rackTags(groupId),
    });
    this.#targets.assign(
      members.map(({ memberId }) => memberId),
      assigned,
    );
    this.#setAssignmentEpoch(clock.now());
    this.#host.log(groupId, `tasks assigned for epoch ${this.epoch} to ${members.length} members`);
  }

  #setAssignmentEpoch(timestamp: number): void {
    this.#changedAt = this.#host.clock.monotonic();
    this.#targets.setEpoch({ epoch: this.epoch, timestamp });
    this.members.targetEpoch = this.epoch;
  }
}

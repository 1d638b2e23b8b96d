/**
 * What a consumer group consists of: members, epochs, target assignment, resolved patterns; and the records of every change. It
 * changes in the call, and is written by flush(). Knows no requests and no timers.
 */
import type { JournalRecord } from '../metadata/journal.ts';
import type { AssignorMember, MemberAssignment } from './assignor.ts';
import { ConsumerJournal } from './consumer-journal.ts';
import {
  ConsumerMember,
  type MemberProgress,
  type MemberSubscription,
  NO_PARTITIONS,
  NOTHING_ASSIGNED,
  sameAssignment,
  sameNames,
  sameSubscription,
  withoutEpochs,
} from './consumer-member.ts';
import { ConsumerMembers } from './consumer-members.ts';
import { metadataHash } from './consumer-metadata-hash.ts';
import { reconcile, type Target } from './consumer-reconcile.ts';
import { type ConsumerChange, consumerRecord } from './consumer-records.ts';
import { ConsumerSubscriptions } from './consumer-subscriptions.ts';
import {
  type ConsumerHost,
  type ConsumerState,
  JOIN_EPOCH,
  type ResolvedPattern,
  STATIC_LEAVE_EPOCH,
} from './consumer-types.ts';
import { TargetTable } from './target-table.ts';

const MAX_EPOCH = 2 ** 31 - 1;

/** For so many members, computing a target is long from so many ms on, and is not done again before so many times that. */
const MANY = 32;
const LONG_MS = 20;
const LONG_PAUSE = 5;

export class ConsumerGroupState {
  readonly groupId: string;
  readonly members = new ConsumerMembers();
  readonly subscriptions = new ConsumerSubscriptions(this.members);
  readonly #host: ConsumerHost;
  readonly #journal: ConsumerJournal;
  readonly #targets = new TargetTable<MemberAssignment>(NOTHING_ASSIGNED, sameAssignment, (change) =>
    this.#write(change),
  );
  #epoch = 0;
  #metadataHash = 0n;
  /** Of the host's monotonic time. */
  #changedAt: number;
  /** When the last target was computed, and how long that took, ms. */
  #assignedAt = 0;
  #assigningMs = 0;
  /** What the host's was when the hash was computed, -1: not yet. */
  #topicsVersion = -1;
  /** What the host's was when patterns were looked at, -1: not yet. */
  #patternsVersion = -1;
  #hasPartitionsRecord = false;
  /** Whether the log knows of the group. */
  #isWritten = true;

  constructor(groupId: string, host: ConsumerHost) {
    this.groupId = groupId;
    this.#host = host;
    this.#changedAt = host.clock.monotonic();
    this.#journal = new ConsumerJournal((records, done) => host.append(groupId, records, done));
  }

  get name(): Exclude<ConsumerState, 'Dead'> {
    if (this.members.size === 0) return 'Empty';
    if (this.#epoch > this.#targets.epoch) return 'Assigning';
    return this.members.allReconciled ? 'Stable' : 'Reconciling';
  }

  get epoch(): number {
    return this.#epoch;
  }

  get assignmentEpoch(): number {
    return this.#targets.epoch;
  }

  get assignorName(): string {
    return this.members.preferredAssignor ?? this.#host.assignors[0]!.name;
  }

  /** Since members were last given something new to do, ms. */
  get quietMs(): number {
    return this.#host.clock.monotonic() - this.#changedAt;
  }

  target(memberId: string): MemberAssignment {
    return this.#targets.get(memberId);
  }

  /** Whether a member has all that it is to have, for now. */
  isSettled(member: ConsumerMember): boolean {
    const { topicRegex } = member.subscription;
    if (topicRegex !== '' && this.subscriptions.get(topicRegex) === undefined) return false;
    return this.#epoch === this.#targets.epoch && member.isReconciledTo(this.#targets.epoch);
  }

  /** Whether all that a member waits for is held by others still. */
  waitsForOthers(member: ConsumerMember): boolean {
    const { assigned } = member.progress;
    for (const [topicId, partitions] of this.target(member.memberId)) {
      const own = assigned.get(topicId);
      for (const partition of partitions) {
        if (!own?.has(partition) && this.members.holder(topicId, partition) !== undefined) return true;
      }
    }
    return false;
  }

  // --- what is written ---

  #write(change: ConsumerChange): void {
    this.#journal.add(consumerRecord(this.groupId, change));
  }

  /** Records of another kind that go with the next ones. */
  addRecord(record: JournalRecord): void {
    this.#journal.add(record);
  }

  /** See ConsumerJournal.flush(). */
  flush(answered?: (errorCode: number) => void): void {
    this.#journal.flush(answered);
  }

  close(): void {
    this.#journal.close();
  }

  /** The group is a new one. Its epoch is above that of joining members. */
  begin(): void {
    this.#epoch = 1;
    this.#isWritten = false;
  }

  /** The group was one of the classic protocol, in this generation; its members are added with adopt(). */
  beginAt(generationId: number): void {
    this.#epoch = generationId;
    this.#targets.replay({ type: 'targetEpoch', value: { epoch: generationId, timestamp: 0 } });
    this.members.targetEpoch = generationId;
  }

  /** Takes over a member with what it has. */
  adopt(
    memberId: string,
    subscription: MemberSubscription,
    progress: MemberProgress,
    target: MemberAssignment,
  ): void {
    const member = new ConsumerMember(memberId);
    this.members.add(member);
    this.members.setSubscription(member, subscription);
    this.members.setProgress(member, progress);
    this.#targets.replay({ type: 'target', memberId, value: target });
    this.#host.membersChanged(1);
  }

  /** Writes all that there is. */
  writeAll(): void {
    this.#metadataHash = metadataHash(this.subscriptions.topics(), this.#host.topics);
    const members = [...this.members.all()];
    for (const { memberId, subscription: value } of members) this.#write({ type: 'member', memberId, value });
    this.#writeGroup();
    for (const { memberId } of members)
      this.#write({ type: 'target', memberId, value: this.target(memberId) });
    this.#setAssignmentEpoch(this.#targets.timestamp);
    for (const { memberId, progress: value } of members) this.#write({ type: 'progress', memberId, value });
  }

  /** Takes all of it back, with the next flush(). */
  bury(): void {
    const memberIds = [...this.members.all()].map(({ memberId }) => memberId);
    for (const memberId of memberIds) this.#write({ type: 'progress', memberId, value: null });
    for (const memberId of memberIds) this.#write({ type: 'target', memberId, value: null });
    this.#write({ type: 'targetEpoch', value: null });
    for (const memberId of memberIds) this.#write({ type: 'member', memberId, value: null });
    for (const pattern of this.subscriptions.patterns())
      this.#write({ type: 'pattern', pattern, value: null });
    if (this.#hasPartitionsRecord) this.#write({ type: 'partitions', value: null });
    this.#write({ type: 'group', value: null });
  }

  /** Takes what a record says. */
  replay(change: ConsumerChange): void {
    switch (change.type) {
      case 'group':
        this.#epoch = change.value?.epoch ?? 0;
        this.#metadataHash = change.value?.metadataHash ?? 0n;
        return;
      case 'targetEpoch':
        this.#targets.replay(change);
        this.members.targetEpoch = this.#targets.epoch;
        return;
      case 'target':
        this.#targets.replay(change);
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
    const { memberId, type, value } = change;
    let member = this.members.get(memberId);
    if (value === null) {
      if (member === undefined) return;
      const nothing = { ...member.progress, assigned: NO_PARTITIONS, pendingRevocation: NO_PARTITIONS };
      if (type === 'member') this.members.remove(member);
      else this.members.setProgress(member, nothing);
      return;
    }
    if (member === undefined) {
      member = new ConsumerMember(memberId);
      this.members.add(member);
    }
    if (type === 'member') this.members.setSubscription(member, value);
    else this.members.setProgress(member, value);
  }

  // --- members ---

  addMember(memberId: string): ConsumerMember {
    const member = new ConsumerMember(memberId);
    this.members.add(member);
    this.#host.membersChanged(1);
    return member;
  }

  /** A static member comes back under another id, and finds all as it left it. */
  replaceMember(former: ConsumerMember, memberId: string): ConsumerMember {
    const { subscription, progress } = former;
    const target = this.target(former.memberId);
    this.#drop(former);
    const member = this.addMember(memberId);
    this.members.setSubscription(member, subscription);
    this.members.setProgress(member, {
      ...progress,
      memberEpoch: JOIN_EPOCH,
      assigned: withoutEpochs(progress.assigned),
    });
    this.#write({ type: 'member', memberId, value: member.subscription });
    this.#targets.set(memberId, target);
    this.#write({ type: 'progress', memberId, value: member.progress });
    return member;
  }

  #drop(member: ConsumerMember): void {
    const { memberId } = member;
    this.members.remove(member);
    this.#targets.replay({ type: 'target', memberId, value: null });
    this.#host.membersChanged(-1);
    this.#write({ type: 'progress', memberId, value: null });
    this.#write({ type: 'target', memberId, value: null });
    this.#write({ type: 'member', memberId, value: null });
  }

  /** Removes members and raises the epoch. */
  removeMembers(members: readonly ConsumerMember[]): void {
    for (const member of members) this.#drop(member);
    for (const member of members) this.#dropPattern(member.subscription.topicRegex);
    this.#metadataHash = metadataHash(this.subscriptions.topics(), this.#host.topics);
    this.#bump();
    // Nobody is left to assign anything to.
    if (this.members.size === 0) this.#setAssignmentEpoch(0);
  }

  /** A static member keeps its place until its session ends. */
  leaveForATime(member: ConsumerMember): void {
    this.#setProgress(member, {
      ...member.progress,
      memberEpoch: STATIC_LEAVE_EPOCH,
      assigned: withoutEpochs(member.progress.assigned),
      pendingRevocation: NO_PARTITIONS,
    });
  }

  /** Notes what a member says of itself; true if it subscribes to something else than before. */
  setSubscription(member: ConsumerMember, after: MemberSubscription): boolean {
    const before = member.subscription;
    if (sameSubscription(before, after)) return false;
    this.members.setSubscription(member, after);
    this.#write({ type: 'member', memberId: member.memberId, value: after });
    if (after.topicRegex !== '') this.#takePattern(after.topicRegex);
    if (before.topicRegex !== after.topicRegex) this.#dropPattern(before.topicRegex);
    return !sameNames(before.topicNames, after.topicNames) || before.topicRegex !== after.topicRegex;
  }

  /** Takes what is known of a pattern by now; true if its topics are others than before. */
  #takePattern(pattern: string): boolean {
    const resolved = this.#host.patterns.latest(pattern);
    const before = this.subscriptions.get(pattern);
    if (resolved === undefined || (before !== undefined && sameNames(before.topics, resolved.topics)))
      return false;
    this.#setPattern(pattern, resolved);
    return before !== undefined || resolved.topics.length > 0;
  }

  /** As takePattern() for all. */
  #takePatterns(): boolean {
    const { version } = this.#host.patterns;
    if (this.#patternsVersion === version) return false;
    let changes = false;
    for (const pattern of [...this.members.patterns()]) if (this.#takePattern(pattern)) changes = true;
    this.#patternsVersion = version;
    return changes;
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

  #setProgress(member: ConsumerMember, progress: MemberProgress): void {
    this.members.setProgress(member, progress);
    this.#write({ type: 'progress', memberId: member.memberId, value: progress });
  }

  /** Brings a member as far towards its target as what it and others hold allows. */
  reconcile(member: ConsumerMember, owned: MemberAssignment | null): void {
    const { memberId, progress } = member;
    if (member.isReconciledTo(this.#targets.epoch)) return;
    const target: Target = { epoch: this.#targets.epoch, partitions: this.target(memberId) };
    const next = reconcile(progress, target, owned, (topicId, partition) => {
      const holder = this.members.holder(topicId, partition);
      return holder !== undefined && holder !== memberId;
    });
    if (next === progress) return;
    if (next.pendingRevocation !== progress.pendingRevocation) this.#changedAt = this.#host.clock.monotonic();
    this.#setProgress(member, next);
  }

  // --- epochs and targets ---

  /** Raises the group's epoch when subscriptions have changed, or topics. */
  refresh(subscriptionChanged: boolean): void {
    const { topics, topicsVersion } = this.#host;
    const changed = this.#takePatterns() || subscriptionChanged;
    if (!changed && this.#topicsVersion === topicsVersion) return;
    this.#topicsVersion = topicsVersion;
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

  /** Computes a target for the group's epoch, if it has none and `group.consumer.assignment.interval.ms` is over. */
  assignIfDue(): void {
    if (this.#epoch <= this.#targets.epoch) return;
    const { clock, consumer } = this.#host;
    const intervalMs = consumer.assignmentIntervalMs(this.groupId);
    if (this.#targets.isTooSoon(clock.now(), intervalMs)) return;
    const began = clock.monotonic();
    // What takes long is done for several changes at once: the broker has other groups.
    const isLong = this.members.size >= MANY && this.#assigningMs > LONG_MS;
    if (isLong && began - this.#assignedAt < this.#assigningMs * LONG_PAUSE) return;
    this.#assign();
    this.#assignedAt = clock.monotonic();
    this.#assigningMs = this.#assignedAt - began;
  }

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
    this.#targets.assign(
      members.map(({ memberId }) => memberId),
      assigned,
    );
    this.#setAssignmentEpoch(clock.now());
    this.#host.log(
      this.groupId,
      `assigned for epoch ${this.#epoch} by ${assignor.name} to ${members.length} members`,
    );
  }

  #setAssignmentEpoch(timestamp: number): void {
    this.#changedAt = this.#host.clock.monotonic();
    this.#targets.setEpoch({ epoch: this.#epoch, timestamp });
    this.members.targetEpoch = this.#epoch;
  }
}

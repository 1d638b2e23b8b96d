/**
 * Members of a consumer group that speak the classic protocol, while a group moves from one to the other (KIP-848, online
 * migration): their JoinGroup, SyncGroup, Heartbeat and LeaveGroup. Nobody leads; a generation is a member's epoch, and what
 * they are assigned is the group's target. Rules as in Apache Kafka 4.4.
 */
import { KafkaError } from '../protocol/errors.ts';
import type { GroupProtocol, JoinAnswer, SyncAnswer } from './classic-member.ts';
import { NO_MEMBER_ID, refusedJoin, refusedSync } from './classic-member.ts';
import type { JoinRequest, LeavingMember, SyncRequest } from './classic-types.ts';
import type { ConsumerGroup } from './consumer-group.ts';
import { type ConsumerMember, MemberState, partitionsOf } from './consumer-member.ts';
import { byTopicId, readSubscription, writeAssignment } from './consumer-protocol-bytes.ts';
import type { ConsumerHost } from './consumer-types.ts';

const PROTOCOL_TYPE = 'consumer';

export class ConsumerClassicMembers {
  readonly #group: ConsumerGroup;
  readonly #host: ConsumerHost;

  constructor(group: ConsumerGroup, host: ConsumerHost) {
    this.#group = group;
    this.#host = host;
  }

  /** Answers when what the answer tells of is written. */
  join(request: JoinRequest, respond: (answer: JoinAnswer) => void): void {
    const group = this.#group;
    const { facts } = group;
    const found = this.#joining(request);
    if (typeof found === 'number') {
      const asksAgain = found === KafkaError.MEMBER_ID_REQUIRED;
      respond(refusedJoin(found, asksAgain ? this.#host.newMemberId() : request.memberId));
      return;
    }
    const { member, owned } = found;
    facts.refresh(found.changes);
    facts.assignIfDue();
    group.reconcile(member, owned);
    group.touch(member);
    this.#await(member, 'sync');
    const answer: JoinAnswer = {
      errorCode: KafkaError.NONE,
      memberId: member.memberId,
      generationId: member.memberEpoch,
      protocolType: PROTOCOL_TYPE,
      protocolName: protocolOf(member).name,
      leader: NO_MEMBER_ID,
      skipAssignment: false,
      members: [],
    };
    facts.flush((code) => respond(code === KafkaError.NONE ? answer : refusedJoin(code, member.memberId)));
    this.#host.membersLeft(group);
  }

  #joining(request: JoinRequest) {
    const { memberId, groupInstanceId, protocols } = request;
    const group = this.#group;
    const { members } = group;
    if (members.get(memberId) === undefined && group.isFull(groupInstanceId)) {
      return KafkaError.GROUP_MAX_SIZE_REACHED;
    }
    const subscription = protocols[0] === undefined ? undefined : readSubscription(protocols[0].metadata);
    if (subscription === undefined || !this.#supports(request)) return KafkaError.INCONSISTENT_GROUP_PROTOCOL;
    const member = this.#memberOf(request);
    if (typeof member === 'number') return member;
    const changes = group.facts.setSubscription(member, {
      instanceId: groupInstanceId ?? member.subscription.instanceId,
      rackId: subscription.rackId ?? member.subscription.rackId,
      clientId: request.clientId,
      clientHost: request.clientHost,
      rebalanceTimeoutMs: request.rebalanceTimeoutMs,
      topicNames: [...new Set(subscription.topics)].sort(),
      topicRegex: '',
      serverAssignor: null,
      classic: { sessionTimeoutMs: request.sessionTimeoutMs, protocols },
    });
    return { member, changes, owned: byTopicId(subscription.ownedPartitions, this.#host.topics) };
  }

  /** There must be a protocol that all who speak the classic one have. */
  #supports({ memberId, protocolType, protocols }: JoinRequest): boolean {
    if (protocolType !== PROTOCOL_TYPE) return false;
    const offered = new Map<string, number>();
    let others = 0;
    for (const member of this.#group.members.all()) {
      const { classic } = member.subscription;
      if (classic === null || member.memberId === memberId) continue;
      others++;
      for (const { name } of classic.protocols) offered.set(name, (offered.get(name) ?? 0) + 1);
    }
    return protocols.some(({ name }) => (offered.get(name) ?? 0) === others);
  }

  #memberOf(request: JoinRequest): ConsumerMember | number {
    const { memberId, groupInstanceId, requireKnownMemberId } = request;
    const { members, facts } = this.#group;
    if (groupInstanceId === null) {
      if (memberId === NO_MEMBER_ID) {
        if (requireKnownMemberId) return KafkaError.MEMBER_ID_REQUIRED;
        return facts.addMember(this.#host.newMemberId());
      }
      return members.get(memberId) ?? facts.addMember(memberId);
    }
    const known = members.byInstance(groupInstanceId);
    if (memberId !== NO_MEMBER_ID) {
      if (known === undefined) return KafkaError.UNKNOWN_MEMBER_ID;
      return known.memberId === memberId ? known : KafkaError.FENCED_INSTANCE_ID;
    }
    const newId = this.#host.newMemberId();
    return known === undefined ? facts.addMember(newId) : facts.replaceMember(known, newId);
  }

  /** The member that speaks the classic protocol and is in that generation, or an error code. */
  #memberIn(memberId: string, instanceId: string | null, generationId: number): ConsumerMember | number {
    const { members } = this.#group;
    const member = members.get(memberId);
    if (instanceId !== null) {
      const known = members.byInstance(instanceId);
      if (known === undefined) return KafkaError.UNKNOWN_MEMBER_ID;
      if (known !== member) return KafkaError.FENCED_INSTANCE_ID;
    }
    if (member === undefined || !member.isClassic) return KafkaError.UNKNOWN_MEMBER_ID;
    return member.memberEpoch === generationId ? member : KafkaError.ILLEGAL_GENERATION;
  }

  sync(request: SyncRequest, respond: (answer: SyncAnswer) => void): void {
    const { memberId, groupInstanceId, generationId, protocolType, protocolName } = request;
    const group = this.#group;
    const member = this.#memberIn(memberId, groupInstanceId, generationId);
    if (typeof member === 'number') {
      respond(refusedSync(member));
      return;
    }
    const protocol = protocolOf(member);
    if (
      (protocolType ?? PROTOCOL_TYPE) !== PROTOCOL_TYPE ||
      (protocolName ?? protocol.name) !== protocol.name
    ) {
      respond(refusedSync(KafkaError.INCONSISTENT_GROUP_PROTOCOL));
      return;
    }
    group.touch(member);
    // One that has something to give up gets what is left first.
    if (member.progress.state !== MemberState.UNREVOKED && member.memberEpoch < group.epoch) {
      this.#await(member, 'join');
      respond(refusedSync(KafkaError.REBALANCE_IN_PROGRESS));
      return;
    }
    member.stopAwaiting();
    const assignment = writeAssignment(
      partitionsOf(member.progress.assigned),
      protocol.metadata,
      this.#host.topics,
    );
    const answer: SyncAnswer = {
      errorCode: KafkaError.NONE,
      protocolType: PROTOCOL_TYPE,
      protocolName: protocol.name,
      assignment,
    };
    group.facts.flush((code) => respond(code === KafkaError.NONE ? answer : refusedSync(code)));
  }

  /** REBALANCE_IN_PROGRESS for one that has something to give up or to take up. */
  heartbeat(memberId: string, instanceId: string | null, generationId: number): number {
    const group = this.#group;
    const member = this.#memberIn(memberId, instanceId, generationId);
    if (typeof member === 'number') return member;
    group.touch(member);
    group.facts.refresh(false);
    const { state } = member.progress;
    const rejoins =
      member.memberEpoch < group.epoch ||
      state === MemberState.UNREVOKED ||
      (state === MemberState.UNRELEASED && !group.facts.waitsForOthers(member));
    group.facts.flush();
    if (!rejoins) return KafkaError.NONE;
    if (member.rejoin?.awaits !== 'join') this.#await(member, 'join');
    return KafkaError.REBALANCE_IN_PROGRESS;
  }

  /** An error code for each; an administrator may remove members of either kind. */
  leave(leaving: readonly LeavingMember[]): number[] {
    const group = this.#group;
    const left = new Set<ConsumerMember>();
    const codes = leaving.map(({ memberId, groupInstanceId }) => {
      const known =
        groupInstanceId === null ? group.members.get(memberId) : group.members.byInstance(groupInstanceId);
      if (known === undefined || left.has(known)) return KafkaError.UNKNOWN_MEMBER_ID;
      if (memberId !== NO_MEMBER_ID && known.memberId !== memberId) return KafkaError.FENCED_INSTANCE_ID;
      left.add(known);
      return KafkaError.NONE;
    });
    if (left.size > 0) {
      group.remove([...left], 'leaves');
      group.facts.flush();
      this.#host.membersLeft(group);
    }
    return codes;
  }

  /** It has its rebalance timeout to join again, or to sync. */
  #await(member: ConsumerMember, awaits: 'join' | 'sync'): void {
    member.stopAwaiting();
    const timer = this.#host.clock.setTimer(member.subscription.rebalanceTimeoutMs, () =>
      this.#group.expel(member, `did not ${awaits} in time`),
    );
    member.rejoin = { awaits, timer };
  }
}

function protocolOf(member: ConsumerMember): GroupProtocol {
  return member.subscription.classic!.protocols[0]!;
}

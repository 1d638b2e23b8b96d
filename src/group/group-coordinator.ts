/**
 * The group coordinator: finds the group that a request is about, or makes it, and keeps what must last in
 * `__consumer_offsets`. All its state is loaded before the broker takes connections, so that no client is ever told to
 * wait for that.
 */
import { randomUUID } from 'node:crypto';
import { KafkaError } from '../protocol/errors.ts';
import type { Clock, Timer } from '../runtime/clock.ts';
import type { Logger } from '../runtime/logging.ts';
import type { Assignor } from './assignor.ts';
import { ClassicGroup } from './classic-group.ts';
import {
  type JoinAnswer,
  NO_MEMBER_ID,
  refusedJoin,
  refusedSync,
  type SyncAnswer,
} from './classic-member.ts';
import type {
  ClassicHost,
  ClassicSettings,
  JoinRequest,
  LeavingMember,
  SyncRequest,
} from './classic-types.ts';
import { ConsumerCoordinator } from './consumer-coordinator.ts';
import {
  type ConsumerHeartbeat,
  type ConsumerSettings,
  type RespondConsumer,
  refusedHeartbeat,
  type TopicsView,
} from './consumer-types.ts';
import { loadGroups } from './group-loader.ts';
import { type GroupLog, groupCode } from './group-log.ts';
import { groupRecord, groupTombstone, offsetTombstone } from './group-records.ts';
import { type Group, GroupTable } from './group-table.ts';
import { MemberConnections } from './member-connections.ts';
import { OffsetManager, type OffsetSettings } from './offset-manager.ts';
import type { MatcherEvents, PatternMatcher } from './pattern-matcher.ts';
import { StreamsCoordinator } from './streams-coordinator.ts';
import type { InternalTopic } from './streams-topology.ts';
import {
  bareAnswer,
  type RespondStreams,
  type StreamsHeartbeat,
  type StreamsSettings,
} from './streams-types.ts';

export interface GroupSettings extends ClassicSettings, OffsetSettings {
  /** group.min.session.timeout.ms and group.max.session.timeout.ms */
  readonly minSessionTimeoutMs: number;
  readonly maxSessionTimeoutMs: number;
  /** offsets.retention.check.interval.ms */
  readonly retentionCheckMs: number;
  readonly consumer: ConsumerSettings;
  readonly streams: StreamsSettings;
  /** group.member.removal.on.disconnect */
  readonly removesDisconnected: boolean;
}

export interface CoordinatorParts {
  readonly topic: GroupLog;
  readonly settings: GroupSettings;
  readonly clock: Clock;
  readonly log: Logger;
  readonly topics: TopicsView;
  /** What finds the topics of subscription patterns. */
  readonly matcher: (events: MatcherEvents) => PatternMatcher;
  /** In the order of `group.consumer.assignors`. */
  readonly assignors: readonly Assignor[];
  /** See StreamsCoordinatorParts. */
  readonly createTopics: (topics: readonly InternalTopic[]) => Promise<string>;
  /** Default: a random UUID behind the prefix. */
  readonly newMemberId?: (prefix: string) => string;
}

export interface ListedGroup {
  readonly groupId: string;
  readonly protocolType: string;
  readonly state: string;
  /** `classic`, `consumer`, `share` or `streams`. */
  readonly type: string;
}

export class GroupCoordinator implements ClassicHost {
  readonly clock: Clock;
  readonly settings: GroupSettings;
  readonly offsets: OffsetManager;
  readonly #topic: GroupLog;
  readonly #log: Logger;
  readonly #table = new GroupTable();
  readonly newMemberId: (prefix: string) => string;
  readonly #consumer: ConsumerCoordinator;
  readonly #streams: StreamsCoordinator;
  readonly #connections = new MemberConnections();
  #expiry: Timer | undefined;
  #closed = false;

  constructor(parts: CoordinatorParts) {
    const { topic, settings, clock, log } = parts;
    this.clock = clock;
    this.settings = settings;
    this.#topic = topic;
    this.#log = log;
    this.newMemberId = parts.newMemberId ?? ((prefix) => `${prefix}-${randomUUID()}`);
    this.offsets = new OffsetManager(this.#table, topic, clock, settings);
    this.#consumer = new ConsumerCoordinator({
      table: this.#table,
      log: topic,
      clock,
      settings: settings.consumer,
      topics: parts.topics,
      matcher: parts.matcher,
      assignors: parts.assignors,
      logger: log,
      classicHost: this,
    });
    this.#streams = new StreamsCoordinator({
      table: this.#table,
      log: topic,
      clock,
      settings: settings.streams,
      topics: parts.topics,
      logger: log,
      createTopics: parts.createTopics,
    });
  }

  /** Reads all groups. Members that were in one when the broker stopped have a session from now on to come back in. */
  async load(): Promise<void> {
    const began = this.clock.monotonic();
    await loadGroups(
      this.#topic,
      this.#table,
      { classic: this, consumer: this.#consumer, streams: this.#streams },
      this.#log,
    );
    if (this.#closed) return;
    for (const { classic, modern } of this.#table.all()) {
      classic?.resume();
      modern?.resume();
    }
    this.#scheduleExpiry();
    if (this.#table.size > 0) {
      const ms = Math.round(this.clock.monotonic() - began);
      this.#log.info({ groups: this.#table.size, ms }, 'groups are loaded');
    }
  }

  #scheduleExpiry(): void {
    if (this.#closed) return;
    this.#expiry = this.clock.setTimer(this.settings.retentionCheckMs, () => {
      this.offsets.expire();
      this.#scheduleExpiry();
    });
  }

  /** Resolves when nothing is left. */
  close(): Promise<void> {
    this.#closed = true;
    this.#expiry?.cancel();
    this.#table.clear();
    return this.#consumer.patterns.close();
  }

  /** See GroupLog.prepare(). */
  prepare(): Promise<number> | undefined {
    return this.#topic.prepare();
  }

  /** NONE, or why nothing can be said of a group now. */
  availability(groupId: string): number {
    if (this.#closed || !this.#topic.isAvailable(groupId)) return KafkaError.COORDINATOR_NOT_AVAILABLE;
    return KafkaError.NONE;
  }

  // --- what a group asks of its host ---

  persist(
    group: ClassicGroup,
    assignments: ReadonlyMap<string, Uint8Array>,
    done: (errorCode: number) => void,
  ): void {
    this.#topic.append(group.groupId, [groupRecord(group, assignments)], (code) => done(groupCode(code)));
  }

  debug(group: ClassicGroup, message: string): void {
    const { groupId, generationId, state } = group;
    this.#log.debug(
      { groupId, generationId, state, members: group.members.size },
      `group ${groupId} ${message}`,
    );
  }

  // --- the classic protocol ---

  #fault(groupId: string): number {
    return groupId === '' ? KafkaError.INVALID_GROUP_ID : this.availability(groupId);
  }

  /** See ClassicGroup.join(). */
  join(
    groupId: string,
    request: JoinRequest,
    respond: (answer: JoinAnswer) => void,
  ): (() => void) | undefined {
    const { memberId, sessionTimeoutMs } = request;
    const { minSessionTimeoutMs, maxSessionTimeoutMs } = this.settings;
    let fault = this.#fault(groupId);
    if (
      fault === KafkaError.NONE &&
      (sessionTimeoutMs < minSessionTimeoutMs || sessionTimeoutMs > maxSessionTimeoutMs)
    ) {
      fault = KafkaError.INVALID_SESSION_TIMEOUT;
    }
    if (fault !== KafkaError.NONE) {
      respond(refusedJoin(fault, memberId));
      return undefined;
    }
    const group = this.#groupToJoin(groupId, memberId);
    if (group === undefined) {
      respond(refusedJoin(KafkaError.UNKNOWN_MEMBER_ID, memberId));
      return undefined;
    }
    if (group.foreign !== undefined || (group.streams !== undefined && !group.isVacant)) {
      respond(refusedJoin(KafkaError.INCONSISTENT_GROUP_PROTOCOL, memberId));
      return undefined;
    }
    if (group.consumer !== undefined && !group.isVacant) {
      group.consumer.classic.join(request, respond);
      return undefined;
    }
    let { classic } = group;
    if (classic === undefined) {
      group.modern?.facts.bury();
      group.modern?.facts.flush();
      group.modern?.close();
      classic = new ClassicGroup(groupId, this);
      group.protocol = classic;
      this.persist(classic, new Map(), () => {});
    }
    return classic.join(request, respond);
  }

  /** Only a newcomer makes a group. */
  #groupToJoin(groupId: string, memberId: string): Group | undefined {
    const known = this.#table.get(groupId);
    return known ?? (memberId === NO_MEMBER_ID ? this.#table.getOrCreate(groupId) : undefined);
  }

  sync(groupId: string, request: SyncRequest, respond: (answer: SyncAnswer) => void): void {
    const fault = this.#fault(groupId);
    if (fault !== KafkaError.NONE) {
      respond(refusedSync(fault));
      return;
    }
    const group = this.#table.get(groupId);
    const classic = group?.classic ?? group?.consumer?.classic;
    if (classic === undefined) {
      respond(refusedSync(KafkaError.UNKNOWN_MEMBER_ID));
      return;
    }
    classic.sync(request, respond);
  }

  /** A Kafka error code. */
  heartbeat(groupId: string, memberId: string, groupInstanceId: string | null, generationId: number): number {
    const fault = this.#fault(groupId);
    if (fault !== KafkaError.NONE) return fault;
    const group = this.#table.get(groupId);
    const classic = group?.classic ?? group?.consumer?.classic;
    return classic?.heartbeat(memberId, groupInstanceId, generationId) ?? KafkaError.UNKNOWN_MEMBER_ID;
  }

  /** A code for the whole, and one for each member. */
  leave(groupId: string, members: readonly LeavingMember[]): { errorCode: number; codes: number[] } {
    const fault = this.#fault(groupId);
    if (fault !== KafkaError.NONE) return { errorCode: fault, codes: [] };
    const group = this.#table.get(groupId);
    const classic = group?.classic ?? group?.consumer?.classic;
    const codes = classic?.leave(members) ?? members.map(() => KafkaError.UNKNOWN_MEMBER_ID);
    return { errorCode: KafkaError.NONE, codes };
  }

  // --- the consumer protocol ---

  /** Answers sooner or later, once; not at all if nobody waits any more (`isWanted`) when a pattern is resolved. */
  consumerHeartbeat(
    request: ConsumerHeartbeat,
    respond: RespondConsumer,
    isWanted: () => boolean = () => true,
  ): void {
    const isAvailable = () => {
      const fault = this.availability(request.groupId);
      if (fault !== KafkaError.NONE) respond(refusedHeartbeat(fault, null));
      return fault === KafkaError.NONE;
    };
    if (isAvailable()) this.#consumer.heartbeat(request, respond, () => isWanted() && isAvailable());
  }

  // --- streams groups ---

  /** As consumerHeartbeat(); waits while topics are made. */
  streamsHeartbeat(request: StreamsHeartbeat, respond: RespondStreams, isWanted: () => boolean): void {
    const isAvailable = () => {
      const fault = this.availability(request.groupId);
      if (fault !== KafkaError.NONE) respond(bareAnswer(fault, null));
      return fault === KafkaError.NONE;
    };
    if (isAvailable()) this.#streams.heartbeat(request, respond, () => isWanted() && isAvailable());
  }

  /** A topic was made, deleted or got partitions. */
  topicChanged(name: string): void {
    this.#consumer.topicChanged(name);
    this.#streams.topicChanged();
  }

  // --- connections ---

  /** A member was heard on a connection. */
  heardOn(connection: number, groupId: string, memberId: string): void {
    if (this.settings.removesDisconnected) this.#connections.heard(connection, groupId, memberId);
  }

  /** A connection is gone, and with it the dynamic members that were last heard on it. A static one may come back in its
   * place. */
  connectionClosed(connection: number): void {
    if (this.#closed) return;
    for (const { groupId, memberId } of this.#connections.closed(connection)) {
      const group = this.#table.get(groupId);
      const reason = 'its connection was closed';
      const consumer = group?.consumer?.members.get(memberId);
      if (consumer?.instanceId === null) group!.consumer!.expel(consumer, reason);
      const streams = group?.streams?.members.get(memberId);
      if (streams?.instanceId === null) group!.streams!.expel(streams, reason);
      const classic = group?.classic?.members.get(memberId);
      if (classic !== undefined && !classic.isStatic) {
        group!.classic!.leave([{ memberId, groupInstanceId: null, reason }]);
      }
    }
  }

  // --- administration ---

  get(groupId: string): Group | undefined {
    return this.#table.get(groupId);
  }

  list(): ListedGroup[] {
    return [...this.#table.all()].map(({ groupId, classic, consumer, streams, foreign }) => {
      let other = foreign?.type.toLowerCase();
      if (consumer !== undefined) other = 'consumer';
      else if (streams !== undefined) other = 'streams';
      if (other !== undefined) {
        return { groupId, protocolType: other, state: (foreign ?? consumer ?? streams)!.state, type: other };
      }
      return {
        groupId,
        protocolType: classic?.protocolType ?? '',
        state: classic?.state ?? 'Empty',
        type: 'classic',
      };
    });
  }

  /** Removes a group with its offsets; `respond` gets a Kafka error code. */
  delete(groupId: string, respond: (errorCode: number) => void): void {
    const fault = this.availability(groupId);
    if (fault !== KafkaError.NONE) {
      respond(fault);
      return;
    }
    const group = this.#table.get(groupId);
    if (group === undefined) {
      respond(KafkaError.GROUP_ID_NOT_FOUND);
      return;
    }
    const { classic, modern, foreign } = group;
    if ((classic ?? modern ?? { state: 'Empty' }).state !== 'Empty') {
      respond(KafkaError.NON_EMPTY_GROUP);
      return;
    }
    const removed: { topic: string; partition: number }[] = [];
    for (const [topic, partitions] of group.offsets.topics()) {
      for (const partition of partitions.keys()) removed.push({ topic, partition });
    }
    for (const { topic, partition } of this.#table.pending.of(groupId)) {
      if (group.offsets.get(topic, partition) === undefined) removed.push({ topic, partition });
    }
    const records = removed.map(({ topic, partition }) => offsetTombstone(groupId, topic, partition));
    for (const { key } of foreign?.keys.values() ?? []) records.push({ key, value: null });
    const written = (code: number) => {
      if (code === KafkaError.NONE) {
        for (const { topic, partition } of removed) group.offsets.delete(topic, partition);
        this.#table.pending.forget(groupId);
        const ends = foreign ?? (modern?.state === 'Empty' ? modern : undefined);
        if (ends !== undefined && group.protocol === ends) {
          modern?.close();
          group.protocol = undefined;
        }
        // Somebody may have joined meanwhile, or committed.
        if (group.isVacant && group.offsets.isEmpty && group.commitsInFlight === 0)
          this.#table.remove(groupId);
      }
      respond(groupCode(code));
    };
    if (modern === undefined) records.push(groupTombstone(groupId));
    else {
      modern.facts.bury();
      // Without offsets its own tombstones are all that is written.
      modern.facts.flush(records.length === 0 ? written : undefined);
    }
    if (records.length > 0) this.#topic.appendMany(groupId, records, written);
  }

  /** A topic is gone, and with it what was committed for it; with the coordinator's own topic all groups are. */
  topicDeleted(topic: string, isOwnTopic: boolean): void {
    if (isOwnTopic) this.#table.clear();
    else this.offsets.topicDeleted(topic);
  }
}

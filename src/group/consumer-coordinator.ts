/** All groups of the consumer protocol: finds the group that a heartbeat is about, or makes it, and gives groups what they need of
 * the broker. */
import { randomUUID } from 'node:crypto';
import type { JournalRecord } from '../metadata/journal.ts';
import { KafkaError } from '../protocol/errors.ts';
import type { Clock } from '../runtime/clock.ts';
import type { Logger } from '../runtime/logging.ts';
import type { Assignor } from './assignor.ts';
import type { ClassicHost } from './classic-types.ts';
import { ConsumerGroup } from './consumer-group.ts';
import { downgraded, upgraded } from './consumer-migration.ts';
import {
  type ConsumerFault,
  type ConsumerHeartbeat,
  type ConsumerHost,
  type ConsumerSettings,
  heartbeatFault,
  JOIN_EPOCH,
  type RespondConsumer,
  refusedHeartbeat,
  type TopicsView,
} from './consumer-types.ts';
import { type GroupLog, groupCode } from './group-log.ts';
import { groupTombstone } from './group-records.ts';
import type { Group, GroupTable } from './group-table.ts';
import type { MatcherEvents, PatternMatcher } from './pattern-matcher.ts';
import { TopicPatterns } from './topic-patterns.ts';

export interface ConsumerCoordinatorParts {
  readonly table: GroupTable;
  readonly log: GroupLog;
  readonly clock: Clock;
  readonly settings: ConsumerSettings;
  readonly topics: TopicsView;
  readonly matcher: (events: MatcherEvents) => PatternMatcher;
  /** In order of preference. */
  readonly assignors: readonly Assignor[];
  readonly logger: Logger;
  readonly classicHost: ClassicHost;
}

export class ConsumerCoordinator implements ConsumerHost {
  readonly clock: Clock;
  readonly consumer: ConsumerSettings;
  readonly topics: TopicsView;
  readonly assignors: readonly Assignor[];
  readonly patterns: TopicPatterns;
  consumerMembers = 0;
  topicsVersion = 0;
  readonly #table: GroupTable;
  readonly #log: GroupLog;
  readonly #logger: Logger;
  readonly #classicHost: ClassicHost;
  readonly #assignorNames: readonly string[];

  constructor(parts: ConsumerCoordinatorParts) {
    this.clock = parts.clock;
    this.consumer = parts.settings;
    this.topics = parts.topics;
    this.assignors = parts.assignors;
    this.#assignorNames = parts.assignors.map(({ name }) => name);
    this.#table = parts.table;
    this.#log = parts.log;
    this.#logger = parts.logger;
    this.#classicHost = parts.classicHost;
    const { topics, clock, logger: log, matcher } = parts;
    this.patterns = new TopicPatterns({ topics, clock, log, matcher, inUse: () => this.#patternsInUse() });
  }

  // --- what a group asks of its host ---

  newMemberId(): string {
    return Buffer.from(randomUUID().replaceAll('-', ''), 'hex').toString('base64url');
  }

  append(groupId: string, records: readonly JournalRecord[], done: (errorCode: number) => void): void {
    // Of a large group they are more than a batch may hold. What is left of them when a kill comes between is a step on the way.
    this.#log.appendMany(groupId, records, (code) => done(groupCode(code)));
  }

  membersChanged(by: number): void {
    this.consumerMembers += by;
  }

  log(groupId: string, message: string): void {
    this.#logger.debug({ groupId }, `group ${groupId}: ${message}`);
  }

  membersLeft(group: ConsumerGroup): void {
    const { groupId } = group;
    const held = this.#table.get(groupId);
    if (held?.protocol !== group) return;
    const classic = downgraded(group, this, this.#classicHost);
    if (classic === undefined) return;
    held.protocol = classic;
    this.log(groupId, 'goes back to the classic protocol');
  }

  // --- heartbeats ---

  /** See ConsumerGroup.heartbeat(). One with a pattern that its group does not have yet waits until that is resolved; `begins`
   * says whether it may begin then. */
  heartbeat(request: ConsumerHeartbeat, respond: RespondConsumer, begins: () => boolean): void {
    const refuse = ({ errorCode, message }: ConsumerFault) => respond(refusedHeartbeat(errorCode, message));
    const bad = heartbeatFault(request, this.#assignorNames);
    if (bad !== undefined) {
      refuse(bad);
      return;
    }
    const pattern = this.#newPattern(request);
    const serve = (failed: ConsumerFault | undefined) => {
      if (pattern !== undefined && !begins()) return;
      const group = failed ?? this.#groupOf(request);
      if ('errorCode' in group) refuse(group);
      else group.heartbeat(request, respond);
    };
    if (pattern === undefined) serve(undefined);
    else this.patterns.whenResolved(pattern, serve);
  }

  #newPattern({ groupId, subscribedTopicRegex: pattern }: ConsumerHeartbeat): string | undefined {
    if (pattern === null || pattern === '') return undefined;
    return this.#table.get(groupId)?.consumer?.members.usesPattern(pattern) ? undefined : pattern;
  }

  #patternsInUse(): ReadonlySet<string> {
    const all = new Set<string>();
    for (const { consumer } of this.#table.all()) {
      for (const pattern of consumer?.members.patterns() ?? []) all.add(pattern);
    }
    return all;
  }

  #groupOf({ groupId, memberEpoch }: ConsumerHeartbeat): ConsumerGroup | ConsumerFault {
    const known = this.#table.get(groupId);
    if (known?.consumer !== undefined) return known.consumer;
    const message = `there is no group ${groupId} of the consumer protocol`;
    const missing: ConsumerFault = { errorCode: KafkaError.GROUP_ID_NOT_FOUND, message };
    // Only a newcomer makes a group.
    if (memberEpoch !== JOIN_EPOCH || known?.foreign !== undefined) return missing;
    if (known?.classic !== undefined && !known.isVacant) {
      const consumer = upgraded(known.classic, this);
      if (consumer === undefined) return missing;
      known.protocol = consumer;
      this.log(groupId, 'goes over to the consumer protocol');
      return consumer;
    }
    return this.#begin(known ?? this.#table.getOrCreate(groupId));
  }

  #begin(group: Group): ConsumerGroup {
    const { groupId, classic } = group;
    if (classic !== undefined) {
      classic.close();
      this.#log.append(groupId, [groupTombstone(groupId)], () => {});
    }
    const consumer = new ConsumerGroup(groupId, this);
    consumer.facts.begin();
    group.protocol = consumer;
    return consumer;
  }

  /** A topic was made, deleted or got partitions: groups see to it with their next heartbeats. */
  topicChanged(name: string): void {
    this.topicsVersion++;
    this.patterns.topicChanged(name);
  }
}

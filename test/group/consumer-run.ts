/** Consumer groups without a broker: a clock and topics that a test changes, and a log that answers when the test says so. */
import type { MemberAssignment } from '../../src/group/assignor.ts';
import { rangeAssignor } from '../../src/group/assignor-range.ts';
import { uniformAssignor } from '../../src/group/assignor-uniform.ts';
import type { ConsumerGroup } from '../../src/group/consumer-group.ts';
import type { ConsumerHeartbeat, ConsumerHeartbeatAnswer } from '../../src/group/consumer-types.ts';
import { GroupCoordinator } from '../../src/group/group-coordinator.ts';
import type { StreamsSettings } from '../../src/group/streams-types.ts';
import { VirtualClock } from '../../src/runtime/clock.ts';
import { silentLogger } from '../../src/runtime/logging.ts';
import { ModelLog } from './group-model.ts';
import { STREAMS_SETTINGS } from './streams-settings.ts';
import { TestMatcher } from './test-matcher.ts';

export const SESSION_MS = 45_000;

/** Ids look like Kafka's: 22 characters of base64url. */
function idOf(name: string): string {
  return Buffer.alloc(16, name).toString('base64url');
}

export class TestTopics {
  readonly #counts = new Map<string, number>();

  set(name: string, partitions: number): void {
    this.#counts.set(name, partitions);
  }

  delete(name: string): void {
    this.#counts.delete(name);
  }

  idOf(name: string): string | undefined {
    return this.#counts.has(name) ? idOf(name) : undefined;
  }

  nameOf(topicId: string): string | undefined {
    for (const name of this.#counts.keys()) if (idOf(name) === topicId) return name;
    return undefined;
  }

  partitionCount(topicId: string): number {
    return this.#counts.get(this.nameOf(topicId) ?? '') ?? 0;
  }

  names(): Iterable<string> {
    return this.#counts.keys();
  }
}

export class ConsumerRun {
  readonly clock = new VirtualClock();
  readonly log = new ModelLog();
  readonly topics = new TestTopics();
  matcher!: TestMatcher;
  readonly consumer = {
    maxSize: 1000,
    sessionTimeoutMs: () => SESSION_MS,
    heartbeatInterval: () => ({ ms: 5000, fixed: false }),
    assignmentMs: 0,
    assignmentIntervalMs: (): number => this.consumer.assignmentMs,
    upgrades: true,
    downgrades: true,
  };
  /** Of this run alone. */
  readonly streams: { -readonly [K in keyof StreamsSettings]: StreamsSettings[K] } = { ...STREAMS_SETTINGS };
  /** Why internal topics of streams groups can't be made. */
  failure = '';
  coordinator: GroupCoordinator;

  constructor(topics: Record<string, number> = { t: 4 }) {
    for (const [name, partitions] of Object.entries(topics)) this.topics.set(name, partitions);
    this.coordinator = this.#coordinator();
  }

  #coordinator(): GroupCoordinator {
    return new GroupCoordinator({
      topic: this.log,
      settings: {
        maxSize: 100,
        initialRebalanceDelayMs: 0,
        minSessionTimeoutMs: 1,
        maxSessionTimeoutMs: 1_000_000,
        metadataMaxLength: 4096,
        retentionMs: 1e12,
        retentionCheckMs: 1e9,
        removesDisconnected: false,
        streams: this.streams,
        consumer: this.consumer,
      },
      clock: this.clock,
      log: silentLogger,
      topics: this.topics,
      matcher: (events) => {
        this.matcher = new TestMatcher(events);
        return this.matcher;
      },
      createTopics: (missing) => {
        if (this.failure === '') for (const { name, partitions } of missing) this.topic(name, partitions);
        return Promise.resolve(this.failure);
      },
      assignors: [uniformAssignor, rangeAssignor],
    });
  }

  get group(): ConsumerGroup {
    return this.coordinator.get('g')!.consumer!;
  }

  /** The broker is killed and started again: what was not written is gone. */
  async restart(): Promise<void> {
    this.log.crash();
    this.coordinator.close();
    this.coordinator = this.#coordinator();
    await this.coordinator.load();
  }

  topic(name: string, partitions: number): void {
    this.topics.set(name, partitions);
    this.coordinator.topicChanged(name);
  }

  /** Sends without writing the log. */
  send(request: Partial<ConsumerHeartbeat> & { memberId: string }): { answers: ConsumerHeartbeatAnswer[] } {
    const answers: ConsumerHeartbeatAnswer[] = [];
    const full: ConsumerHeartbeat = {
      version: 1,
      groupId: 'g',
      memberEpoch: 0,
      instanceId: null,
      rackId: null,
      rebalanceTimeoutMs: -1,
      subscribedTopicNames: null,
      subscribedTopicRegex: null,
      serverAssignor: null,
      topicPartitions: null,
      clientId: 'c',
      clientHost: '/h',
      ...request,
    };
    this.coordinator.consumerHeartbeat(full, (answer) => answers.push(answer));
    return { answers };
  }

  ask(request: Partial<ConsumerHeartbeat> & { memberId: string }): ConsumerHeartbeatAnswer {
    const { answers } = this.send(request);
    this.log.write();
    if (answers.length !== 1) throw new Error(`${answers.length} answers came`);
    return answers[0]!;
  }

  member(memberId: string, options: Partial<ConsumerHeartbeat> = {}): TestMember {
    return new TestMember(this, memberId, options);
  }
}

/** A client that does what it is told, when the test says so. */
export class TestMember {
  readonly #run: ConsumerRun;
  readonly #options: Partial<ConsumerHeartbeat>;
  readonly memberId: string;
  epoch = 0;
  owned: MemberAssignment = new Map();
  answer: ConsumerHeartbeatAnswer | undefined;

  constructor(run: ConsumerRun, memberId: string, options: Partial<ConsumerHeartbeat>) {
    this.#run = run;
    this.memberId = memberId;
    this.#options = options;
  }

  /** Topic names with their partitions: `t 0,1`. */
  get has(): string {
    const { topics } = this.#run;
    return [...this.owned].map(([id, partitions]) => `${topics.nameOf(id)} ${partitions.join()}`).join(' ');
  }

  join(): ConsumerHeartbeatAnswer {
    this.epoch = 0;
    this.owned = new Map();
    const names = this.#options.subscribedTopicRegex == null ? ['t'] : null;
    return this.#take({
      rebalanceTimeoutMs: 60_000,
      subscribedTopicNames: names,
      ...this.#options,
      topicPartitions: new Map(),
    });
  }

  /** Says what it owns; and then owns what it hears. */
  heartbeat(extra: Partial<ConsumerHeartbeat> = {}): ConsumerHeartbeatAnswer {
    const { instanceId = null } = this.#options;
    return this.#take({ instanceId, topicPartitions: this.owned, ...extra });
  }

  leave(epoch = -1): ConsumerHeartbeatAnswer {
    const { instanceId = null } = this.#options;
    return this.#run.ask({ memberId: this.memberId, memberEpoch: epoch, instanceId });
  }

  #take(request: Partial<ConsumerHeartbeat>): ConsumerHeartbeatAnswer {
    const answer = this.#run.ask({ memberId: this.memberId, memberEpoch: this.epoch, ...request });
    this.answer = answer;
    if (answer.errorCode !== 0) return answer;
    this.epoch = answer.memberEpoch;
    if (answer.assignment !== null) this.owned = answer.assignment;
    return answer;
  }
}

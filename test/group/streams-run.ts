/** Streams groups without a broker: a clock and topics that a test changes, and a log that answers when the test says so. */
import type { StreamsGroup } from '../../src/group/streams-group.ts';
import { NO_TASKS, ROLES, type TaskAssignment } from '../../src/group/streams-tasks.ts';
import type { StreamsTopology, Subtopology, TopicInfo } from '../../src/group/streams-topology.ts';
import type { StreamsHeartbeat, StreamsHeartbeatAnswer } from '../../src/group/streams-types.ts';
import { ConsumerRun } from './consumer-run.ts';

export function subtopology(facts: Partial<Subtopology> = {}): Subtopology {
  return {
    subtopologyId: '0',
    sourceTopics: [],
    sourceTopicRegex: [],
    stateChangelogTopics: [],
    repartitionSinkTopics: [],
    repartitionSourceTopics: [],
    copartitionGroups: [],
    ...facts,
  };
}

export function internalTopic(name: string, partitions = 0): TopicInfo {
  return { name, partitions, replicationFactor: 0, topicConfigs: [] };
}

export function topology(...subtopologies: Subtopology[]): StreamsTopology {
  return { epoch: 0, subtopologies };
}

/** One subtopology that reads `t` and keeps nothing. */
export const STATELESS = topology(subtopology({ sourceTopics: ['t'] }));
/** One that reads `t` and keeps a store. */
export const STATEFUL = topology(
  subtopology({ sourceTopics: ['t'], stateChangelogTopics: [internalTopic('changes')] }),
);

/** `0_0,0_1 standby 1_0`, say. */
export function tasksText(tasks: TaskAssignment): string {
  return ROLES.filter((role) => tasks[role].size > 0)
    .map((role) => {
      const names = [...tasks[role]].flatMap(([id, partitions]) => partitions.map((p) => `${id}_${p}`));
      return `${role === 'active' ? '' : `${role} `}${names.join()}`;
    })
    .join(' ');
}

export class StreamsRun extends ConsumerRun {
  get streamsGroup(): StreamsGroup {
    return this.coordinator.get('g')!.streams!;
  }

  async askStreams(
    request: Partial<StreamsHeartbeat> & { memberId: string },
  ): Promise<StreamsHeartbeatAnswer> {
    const answers: StreamsHeartbeatAnswer[] = [];
    const full: StreamsHeartbeat = {
      groupId: 'g',
      memberEpoch: 0,
      endpointInformationEpoch: 0,
      instanceId: null,
      rackId: null,
      rebalanceTimeoutMs: -1,
      topology: null,
      owned: null,
      ownsInPart: false,
      processId: null,
      userEndpoint: null,
      clientTags: null,
      taskOffsets: null,
      taskEndOffsets: null,
      shutdownApplication: false,
      clientId: 'c',
      clientHost: '/h',
      ...request,
    };
    const answered = (answer: StreamsHeartbeatAnswer) => answers.push(answer);
    this.coordinator.streamsHeartbeat(full, answered, () => true);
    // Topics that are made take a moment.
    for (let i = 0; i < 4; i++) await Promise.resolve();
    this.log.write();
    if (answers.length !== 1) throw new Error(`${answers.length} answers came`);
    return answers[0]!;
  }

  streamsMember(memberId: string, options: Partial<StreamsHeartbeat> = {}): StreamsTestMember {
    return new StreamsTestMember(this, memberId, options);
  }
}

/** A client that does what it is told, when the test says so. */
export class StreamsTestMember {
  readonly #run: StreamsRun;
  readonly #options: Partial<StreamsHeartbeat>;
  readonly memberId: string;
  epoch = 0;
  owned: TaskAssignment = NO_TASKS;

  constructor(run: StreamsRun, memberId: string, options: Partial<StreamsHeartbeat>) {
    this.#run = run;
    this.memberId = memberId;
    this.#options = options;
  }

  get has(): string {
    return tasksText(this.owned);
  }

  join(): Promise<StreamsHeartbeatAnswer> {
    this.epoch = 0;
    this.owned = NO_TASKS;
    return this.#take({
      rebalanceTimeoutMs: 60_000,
      topology: STATELESS,
      processId: this.memberId,
      clientTags: [],
      ...this.#options,
      owned: NO_TASKS,
    });
  }

  /** Says what it owns; and then owns what it hears. */
  heartbeat(extra: Partial<StreamsHeartbeat> = {}): Promise<StreamsHeartbeatAnswer> {
    const { instanceId = null } = this.#options;
    return this.#take({ instanceId, owned: this.owned, ...extra });
  }

  leave(epoch = -1): Promise<StreamsHeartbeatAnswer> {
    const { instanceId = null } = this.#options;
    return this.#run.askStreams({ memberId: this.memberId, memberEpoch: epoch, instanceId });
  }

  async #take(request: Partial<StreamsHeartbeat>): Promise<StreamsHeartbeatAnswer> {
    const answer = await this.#run.askStreams({
      memberId: this.memberId,
      memberEpoch: this.epoch,
      ...request,
    });
    if (answer.errorCode !== 0) return answer;
    this.epoch = answer.memberEpoch;
    if (answer.tasks !== null) this.owned = answer.tasks;
    return answer;
  }
}

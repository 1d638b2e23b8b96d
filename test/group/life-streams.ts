/** The life of a streams group (KIP-1071), and clients of it. A task is processed once, and a process has a task in one role. */
import { type ByRole, byRole, ROLES, type TaskAssignment } from '../../src/group/streams-tasks.ts';
import { GROUP, GroupLife, REBALANCE_MS, SESSION_MS } from './group-life.ts';
import { type EpochAnswer, EpochClient, type EpochOptions } from './life-epoch.ts';
import { internalTopic, subtopology, topology } from './streams-run.ts';

/** Without state, with state, and with both behind a repartition topic. */
const TOPOLOGY = topology(
  subtopology({ sourceTopics: ['t0'], repartitionSinkTopics: ['r'] }),
  subtopology({
    subtopologyId: '1',
    repartitionSourceTopics: [internalTopic('r')],
    stateChangelogTopics: [internalTopic('c1')],
  }),
  subtopology({
    subtopologyId: '2',
    sourceTopics: ['t1'],
    stateChangelogTopics: [internalTopic('c2')],
  }),
);

export interface StreamsLifeOptions {
  readonly standbyReplicas: number;
  readonly assignmentIntervalMs: number;
}

export class StreamsLife extends GroupLife {
  readonly #standbyReplicas: number;

  constructor(random: () => number, { standbyReplicas, assignmentIntervalMs }: StreamsLifeOptions) {
    super(random, {
      streams: {
        sessionTimeoutMs: () => SESSION_MS,
        assignmentIntervalMs: () => assignmentIntervalMs,
        standbyReplicas: () => standbyReplicas,
      },
    });
    this.#standbyReplicas = standbyReplicas;
  }

  get streams() {
    return this.coordinator.get(GROUP)?.streams;
  }

  protected override get restingState(): string {
    if (this.living.length === 0) return 'Empty';
    return this.streams?.facts.configured?.status === undefined ? 'Stable' : 'NotReady';
  }

  /** Throws unless all tasks are processed, and have as many copies as there are processes for. */
  override expectConverged(): void {
    this.expectAtRest();
    const clients = this.living as StreamsClient[];
    const wanted: string[] = [];
    const { subtopologies = new Map() } = this.streams?.facts.configured ?? {};
    const processes = new Set(clients.map(({ processId }) => processId)).size;
    const copies = Math.max(0, Math.min(this.#standbyReplicas, processes - 1));
    for (const [id, { tasks, hasState }] of clients.length > 0 ? subtopologies : []) {
      for (let partition = 0; partition < tasks; partition++) {
        wanted.push(`active ${id} ${partition}`);
        for (let i = 0; hasState && i < copies; i++) wanted.push(`standby ${id} ${partition}`);
      }
    }
    const owned = clients.flatMap((client) => [...client.owned]);
    if (owned.sort().join() !== wanted.sort().join()) {
      throw new Error(`of ${wanted.join()} are owned ${owned.join()}`);
    }
    const loads = clients.map((client) => [...client.owned].filter((key) => key.startsWith('active')).length);
    if (Math.max(0, ...loads) - Math.min(...loads) > 1) throw new Error(`tasks are spread ${loads.join()}`);
  }
}

function keysOf(tasks: TaskAssignment): Set<string> {
  const keys = new Set<string>();
  for (const role of ROLES) {
    for (const [id, partitions] of tasks[role]) for (const p of partitions) keys.add(`${role} ${id} ${p}`);
  }
  return keys;
}

function tasksOf(keys: ReadonlySet<string>): ByRole<Map<string, number[]>> {
  const tasks = byRole(() => new Map<string, number[]>());
  for (const key of keys) {
    const [role, id, partition] = key.split(' ') as ['active' | 'standby' | 'warmup', string, string];
    tasks[role].set(id, [...(tasks[role].get(id) ?? []), Number(partition)]);
  }
  return tasks;
}

export interface StreamsOptions extends EpochOptions {
  readonly processId: string;
}

export class StreamsClient extends EpochClient {
  readonly processId: string;
  readonly #life: StreamsLife;

  constructor(life: StreamsLife, options: StreamsOptions) {
    super(life, 'streams', options);
    this.#life = life;
    this.processId = options.processId;
  }

  get subscription(): string[] {
    return [];
  }

  override get claims(): ReadonlySet<string> {
    const claims = new Set<string>();
    for (const key of this.owned) {
      const [role, id, partition] = key.split(' ');
      if (role === 'active') claims.add(`task ${id}_${partition}`);
      claims.add(`state of ${id}_${partition} in ${this.processId}`);
    }
    return claims;
  }

  protected override epochs() {
    const group = this.#life.streams;
    return [group?.members.get(this.memberId)?.memberEpoch, group?.facts.epoch] as const;
  }

  protected override send(
    memberEpoch: number,
    full: boolean,
    owned: ReadonlySet<string>,
    respond: (answer: EpochAnswer) => void,
    isWanted: () => boolean,
  ): void {
    const joins = memberEpoch === 0;
    this.#life.coordinator.streamsHeartbeat(
      {
        groupId: GROUP,
        memberId: this.memberId,
        memberEpoch,
        endpointInformationEpoch: 0,
        instanceId: this.instanceId,
        rackId: null,
        rebalanceTimeoutMs: full ? REBALANCE_MS : -1,
        topology: joins ? TOPOLOGY : null,
        owned: memberEpoch < 0 ? null : tasksOf(joins ? new Set() : owned),
        ownsInPart: false,
        processId: full ? this.processId : null,
        userEndpoint: null,
        clientTags: full ? [] : null,
        taskOffsets: null,
        taskEndOffsets: null,
        shutdownApplication: false,
        clientId: 'c',
        clientHost: '/h',
      },
      (answer) => respond({ ...answer, told: answer.tasks === null ? null : keysOf(answer.tasks) }),
      isWanted,
    );
  }
}

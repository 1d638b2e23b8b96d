/**
 * The life of one group whose members speak the consumer protocol, the classic one, or both: topics come, grow and go, members
 * as well, the log fails, the broker is killed. Whoever owns a partition says so here, and may not share it.
 */
import { rangeAssignor } from '../../src/group/assignor-range.ts';
import { uniformAssignor } from '../../src/group/assignor-uniform.ts';
import type { ConsumerGroup } from '../../src/group/consumer-group.ts';
import { GroupCoordinator } from '../../src/group/group-coordinator.ts';
import type { StreamsSettings } from '../../src/group/streams-types.ts';
import { KafkaError } from '../../src/protocol/errors.ts';
import { VirtualClock } from '../../src/runtime/clock.ts';
import { silentLogger } from '../../src/runtime/logging.ts';
import { ModelLog } from './group-model.ts';
import { STREAMS_SETTINGS } from './streams-settings.ts';
import { TestMatcher } from './test-matcher.ts';

export const GROUP = 'group';
export const SESSION_MS = 20_000;
export const REBALANCE_MS = 30_000;
/** No turn takes longer: who does not act until then acts too late. */
export const TURN_MS = 4_000;

/** A client as its user sees it. */
export interface LifeClient {
  readonly name: string;
  readonly instanceId: string | null;
  readonly memberId: string;
  readonly alive: boolean;
  /** What it reads now. */
  readonly owned: ReadonlySet<string>;
  /** What nobody else may have at the same time; `owned` where it is not given. */
  readonly claims?: ReadonlySet<string>;
  /** Names of topics it subscribes to, now. */
  readonly subscription: readonly string[];
  /** Has nothing more to do; else why not. */
  readonly unrest: string | undefined;
  /** Does what is due. */
  step(): void;
  /** What it asked gets no answer. */
  disconnected(): void;
  /** It does nothing for so long. */
  pause(ms: number): void;
  die(): void;
  leave(): void;
  commit(): void;
  /** Commits what it has lost, as who does not know yet. */
  commitLate(): void;
}

export function keyOf(topicId: string, partition: number): string {
  return `${topicId} ${partition}`;
}

/** A topic that is made again is another one. */
class LifeTopics {
  readonly #byName = new Map<string, { readonly id: string; partitions: number }>();
  #made = 0;

  add(name: string, partitions: number): void {
    const id = Buffer.alloc(16);
    id.writeUInt32BE(++this.#made, 12);
    this.#byName.set(name, { id: id.toString('base64url'), partitions });
  }

  grow(name: string, by: number): void {
    this.#byName.get(name)!.partitions += by;
  }

  delete(name: string): void {
    this.#byName.delete(name);
  }

  idOf(name: string): string | undefined {
    return this.#byName.get(name)?.id;
  }

  nameOf(topicId: string): string | undefined {
    for (const [name, { id }] of this.#byName) if (id === topicId) return name;
    return undefined;
  }

  partitionCount(topicId: string): number {
    for (const { id, partitions } of this.#byName.values()) if (id === topicId) return partitions;
    return 0;
  }

  names(): string[] {
    return [...this.#byName.keys()];
  }
}

export interface LifeOptions {
  /** group.consumer.max.size and group.max.size */
  readonly maxSize?: number;
  readonly assignmentIntervalMs?: number;
  readonly streams?: Partial<StreamsSettings>;
}

export class GroupLife {
  readonly clock = new VirtualClock();
  readonly log = new ModelLog();
  readonly topics = new LifeTopics();
  #matcher!: TestMatcher;
  coordinator: GroupCoordinator;
  clients: LifeClient[] = [];
  /** How often clients were out of the group, or took themselves to be. */
  fenced = 0;
  readonly #random: () => number;
  readonly #options: LifeOptions;
  /** What was committed last for each `topic partition`, as far as someone was told so. */
  readonly #committed = new Map<string, number>();
  #commits = 0;
  #ids = 0;
  #fault: string | undefined;

  /** `random` gives numbers in [0, 1). */
  constructor(random: () => number, options: LifeOptions = {}) {
    this.#random = random;
    this.#options = options;
    this.coordinator = this.#coordinator();
  }

  #coordinator(): GroupCoordinator {
    const { maxSize = 100, assignmentIntervalMs = 0 } = this.#options;
    return new GroupCoordinator({
      topic: this.log,
      settings: {
        maxSize,
        initialRebalanceDelayMs: 0,
        minSessionTimeoutMs: 1,
        maxSessionTimeoutMs: 1_000_000,
        metadataMaxLength: 4096,
        retentionMs: 1e12,
        retentionCheckMs: 1e9,
        removesDisconnected: false,
        streams: { ...STREAMS_SETTINGS, ...this.#options.streams },
        consumer: {
          maxSize,
          sessionTimeoutMs: () => SESSION_MS,
          heartbeatInterval: () => ({ ms: 5_000, fixed: false }),
          assignmentIntervalMs: () => assignmentIntervalMs,
          upgrades: true,
          downgrades: true,
        },
      },
      clock: this.clock,
      log: silentLogger,
      topics: this.topics,
      matcher: (events) => {
        this.#matcher = new TestMatcher(events);
        this.#matcher.holds = true;
        return this.#matcher;
      },
      createTopics: (missing) => {
        for (const { name, partitions } of missing) this.topic(name, () => this.topics.add(name, partitions));
        return Promise.resolve('');
      },
      assignors: [uniformAssignor, rangeAssignor],
      newMemberId: (prefix) => `${prefix}-${this.#ids++}`,
    });
  }

  /** Below n. */
  random(n: number): number {
    return Math.floor(this.#random() * n);
  }

  /** A number that no one got before. */
  newId(): number {
    return this.#ids++;
  }

  get living(): LifeClient[] {
    return this.clients.filter((client) => client.alive);
  }

  get group(): ConsumerGroup | undefined {
    return this.coordinator.get(GROUP)?.consumer;
  }

  topic(name: string, change: () => void): void {
    change();
    this.coordinator.topicChanged(name);
  }

  /** The broker is killed and started again. */
  async restart(): Promise<void> {
    this.log.crash();
    this.coordinator.close();
    for (const client of this.clients) client.disconnected();
    this.coordinator = this.#coordinator();
    await this.coordinator.load();
    this.#checkCommitted();
  }

  /** A client that someone else reads from too can't be right. */
  checkOwned(): void {
    const owners = new Map<string, LifeClient>();
    for (const client of this.living) {
      for (const key of client.claims ?? client.owned) {
        const other = owners.get(key);
        if (other !== undefined) {
          this.#fault ??= `${key} is owned twice: by ${other.name} and ${client.name}`;
        }
        owners.set(key, client);
      }
    }
  }

  /** Commits for a client; `stale` when another one may own the partition by now. */
  commit(by: LifeClient, epoch: number, key: string, stale: boolean): void {
    const [topicId, partition] = key.split(' ') as [string, string];
    const topic = this.topics.nameOf(topicId);
    if (topic === undefined) return;
    const offset = ++this.#commits;
    // In its own epoch a member may commit anything, as in Kafka.
    const { consumer, classic } = this.coordinator.get(GROUP) ?? {};
    const current = consumer?.members.get(by.memberId)?.memberEpoch ?? classic?.generationId;
    const isCurrent = current === epoch;
    const stolen =
      stale && !isCurrent && this.living.some((client) => client !== by && client.owned.has(key));
    this.coordinator.offsets.commit(
      {
        groupId: GROUP,
        memberId: by.memberId,
        groupInstanceId: by.instanceId,
        generationId: epoch,
        retentionTimeMs: -1,
        version: 9,
        offsets: [{ topic, topicId, partition: Number(partition), offset, leaderEpoch: -1, metadata: null }],
      },
      ([code]) => {
        if (code !== KafkaError.NONE) return;
        if (stolen) this.#fault ??= `${by.name} committed ${key} in epoch ${epoch}, which another owned`;
        this.#committed.set(`${topic} ${partition}`, offset);
      },
    );
  }

  #checkCommitted(): void {
    for (const [key, offset] of this.#committed) {
      const [topic, partition] = key.split(' ') as [string, string];
      const kept = this.coordinator.get(GROUP)?.offsets.get(topic, Number(partition))?.offset;
      if (kept !== offset) this.#fault ??= `offset ${offset} was committed for ${key}, ${kept} is kept`;
    }
  }

  /** Everyone does what is due, and the log is written. Throws when a rule was broken. */
  async turn(ms: number, errorCode: number = KafkaError.NONE): Promise<void> {
    this.clock.advance(ms);
    if (this.random(3) > 0) this.#matcher.deliver();
    const clients = this.living;
    const from = this.random(clients.length || 1);
    for (let i = 0; i < clients.length; i++) {
      clients[(i + from) % clients.length]!.step();
      this.checkOwned();
    }
    await Promise.resolve();
    this.log.write(errorCode);
    await Promise.resolve();
    this.checkOwned();
    if (this.#fault !== undefined) throw new Error(this.#fault);
  }

  /** Throws unless the living share all partitions they subscribe to, and the group holds nobody else. */
  expectConverged(): void {
    this.expectAtRest();
    const { living } = this;
    const wanted = new Set<string>();
    for (const name of new Set(living.flatMap(({ subscription }) => subscription))) {
      const topicId = this.topics.idOf(name);
      if (topicId === undefined) continue;
      const count = this.topics.partitionCount(topicId);
      for (let partition = 0; partition < count; partition++) wanted.add(keyOf(topicId, partition));
    }
    const owned = living.flatMap((client) => [...client.owned]);
    if (owned.sort().join() !== [...wanted].sort().join()) {
      throw new Error(`of ${[...wanted].join()} are owned ${owned.join()}`);
    }
  }

  /** Throws unless nobody has anything more to do, and the group holds nobody but the living. */
  protected expectAtRest(): void {
    this.#checkCommitted();
    if (this.#fault !== undefined) throw new Error(this.#fault);
    const { living } = this;
    for (const client of living) {
      if (client.unrest !== undefined) throw new Error(`${client.name} ${client.unrest}`);
    }
    const { modern, classic } = this.coordinator.get(GROUP) ?? {};
    const size = modern?.members.size ?? classic?.members.size ?? 0;
    if (size !== living.length) throw new Error(`the group has ${size} members, ${living.length} live`);
    const state = modern?.state ?? classic?.state ?? 'Empty';
    if (state !== this.restingState) throw new Error(`the group is ${state}`);
  }

  /** The state of a group that is at rest. */
  protected get restingState(): string {
    return this.living.length > 0 ? 'Stable' : 'Empty';
  }
}

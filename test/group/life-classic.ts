/** A client of the classic protocol as Kafka's consumers are, eager or cooperative (KIP-429), in a world where answers get lost. */
import { uniformAssignor } from '../../src/group/assignor-uniform.ts';
import {
  readAssignment,
  readSubscription,
  writeAssignment,
} from '../../src/group/consumer-protocol-bytes.ts';
import { KafkaError } from '../../src/protocol/errors.ts';
import { writeConsumerProtocolSubscription } from '../../src/protocol/generated/consumer-protocol.ts';
import { Writer } from '../../src/protocol/writer.ts';
import {
  GROUP,
  type GroupLife,
  keyOf,
  type LifeClient,
  REBALANCE_MS,
  SESSION_MS,
  TURN_MS,
} from './group-life.ts';

const HEARTBEAT_MS = 3_000;
const RETRY_MS = 1_000;
const SUBSCRIPTION_VERSION = 2;

export interface ClassicOptions {
  readonly instanceId?: string | null;
  readonly topics: readonly string[];
  readonly cooperative: boolean;
}

export class ClassicClient implements LifeClient {
  readonly #life: GroupLife;
  readonly #options: ClassicOptions;
  readonly name: string;
  readonly instanceId: string | null;
  memberId = '';
  alive = true;
  #state: 'unjoined' | 'waiting' | 'member' = 'unjoined';
  #owned = new Set<string>();
  #generation = -1;
  #nextAt = 0;
  /** When it sent what was answered last without a rebalance. */
  #heardOf = Number.POSITIVE_INFINITY;
  #isLeader = false;
  /** The topics that it joined with. */
  #seen = '';
  #turn = 0;
  #pausedUntil = 0;
  readonly #lost: { readonly key: string; readonly generation: number }[] = [];

  constructor(life: GroupLife, options: ClassicOptions) {
    this.#life = life;
    this.#options = options;
    this.name = `classic${life.newId()}`;
    this.instanceId = options.instanceId ?? null;
  }

  get owned(): ReadonlySet<string> {
    return this.#owned;
  }

  get subscription(): string[] {
    return this.#life.topics.names().filter((name) => this.#options.topics.includes(name));
  }

  get unrest(): string | undefined {
    const { classic, consumer } = this.#life.coordinator.get(GROUP) ?? {};
    const generation = classic?.generationId ?? consumer?.epoch;
    if (this.#state === 'member' && this.#generation === generation) return undefined;
    return `is ${this.#state} in generation ${this.#generation} of ${generation}`;
  }

  get #protocol(): string {
    return this.#options.cooperative ? 'cooperative-sticky' : 'range';
  }

  step(): void {
    const now = this.#life.clock.now();
    if (now + TURN_MS >= this.#heardOf + SESSION_MS) this.#out('');
    if (now < this.#pausedUntil || now < this.#nextAt) return;
    if (this.#state === 'unjoined') this.#join();
    // The leader of a classic group sees to it that topics are assigned as they are.
    else if (this.#state === 'member' && this.#isLeader && this.#seen !== this.#topics()) this.#join();
    else if (this.#state === 'member') this.#heartbeat(now);
  }

  #topics(): string {
    const { topics } = this.#life;
    return topics
      .names()
      .map((name) => `${topics.idOf(name)} ${topics.partitionCount(topics.idOf(name)!)}`)
      .join();
  }

  #own(keys: ReadonlySet<string>): void {
    for (const key of this.#owned) if (!keys.has(key)) this.#lost.push({ key, generation: this.#generation });
    this.#owned = new Set(keys);
  }

  /** No member any more, for all it knows. */
  #out(memberId: string): void {
    this.#life.fenced++;
    this.#turn++;
    this.#own(new Set());
    this.memberId = memberId;
    this.#state = 'unjoined';
    this.#heardOf = Number.POSITIVE_INFINITY;
  }

  disconnected(): void {
    if (this.#state !== 'waiting') return;
    this.#turn++;
    this.#state = 'unjoined';
  }

  pause(ms: number): void {
    this.#pausedUntil = this.#life.clock.now() + ms;
  }

  die(): void {
    this.#turn++;
    this.alive = false;
    this.#owned = new Set();
  }

  /** A static member just goes. */
  leave(): void {
    if (this.instanceId === null && this.memberId !== '') {
      this.#life.coordinator.leave(GROUP, [{ memberId: this.memberId, groupInstanceId: null, reason: null }]);
    }
    this.die();
  }

  commit(): void {
    const keys = [...this.#owned];
    const key = keys[this.#life.random(keys.length)];
    if (key !== undefined) this.#life.commit(this, this.#generation, key, false);
  }

  commitLate(): void {
    const lost = this.#lost[this.#life.random(this.#lost.length)];
    if (lost !== undefined && !this.#owned.has(lost.key))
      this.#life.commit(this, lost.generation, lost.key, true);
  }

  #metadata(): Uint8Array {
    const byTopic = new Map<string, number[]>();
    for (const key of this.#owned) {
      const [topicId, partition] = key.split(' ') as [string, string];
      const name = this.#life.topics.nameOf(topicId);
      if (name !== undefined) byTopic.set(name, [...(byTopic.get(name) ?? []), Number(partition)]);
    }
    const w = new Writer(256);
    w.int16(SUBSCRIPTION_VERSION);
    writeConsumerProtocolSubscription(w, SUBSCRIPTION_VERSION, {
      topics: this.#options.topics,
      userData: null,
      ownedPartitions: [...byTopic].map(([topic, partitions]) => ({ topic, partitions })),
      generationId: this.#generation,
    });
    return Buffer.from(w.bytes());
  }

  #refused(errorCode: number): void {
    this.#state = 'unjoined';
    switch (errorCode) {
      case KafkaError.REBALANCE_IN_PROGRESS:
        return;
      case KafkaError.UNKNOWN_MEMBER_ID:
        this.#out('');
        return;
      case KafkaError.ILLEGAL_GENERATION:
        this.#out(this.memberId);
        return;
      case KafkaError.FENCED_INSTANCE_ID:
        this.die();
        return;
      default:
        this.#nextAt = this.#life.clock.now() + RETRY_MS;
    }
  }

  #join(): void {
    const { coordinator, clock } = this.#life;
    const sentAt = clock.now();
    if (!this.#options.cooperative) this.#own(new Set());
    this.#state = 'waiting';
    // The coordinator waits as long as a join waits.
    this.#heardOf = Number.POSITIVE_INFINITY;
    const turn = ++this.#turn;
    coordinator.join(
      GROUP,
      {
        memberId: this.memberId,
        groupInstanceId: this.instanceId,
        clientId: this.name,
        clientHost: '/h',
        protocolType: 'consumer',
        protocols: [{ name: this.#protocol, metadata: this.#metadata() }],
        sessionTimeoutMs: SESSION_MS,
        rebalanceTimeoutMs: REBALANCE_MS,
        reason: null,
        requireKnownMemberId: true,
        supportsSkippingAssignment: true,
      },
      (answer) => {
        if (turn !== this.#turn) return;
        if (answer.errorCode === KafkaError.MEMBER_ID_REQUIRED) {
          this.memberId = answer.memberId;
          this.#state = 'unjoined';
          return;
        }
        if (answer.errorCode !== KafkaError.NONE) {
          this.#heardOf = sentAt;
          this.#refused(answer.errorCode);
          return;
        }
        this.memberId = answer.memberId;
        this.#generation = answer.generationId;
        this.#heardOf = clock.now();
        this.#isLeader = answer.leader === answer.memberId;
        this.#seen = this.#topics();
        const leads = answer.leader === answer.memberId && !answer.skipAssignment;
        this.#sync(leads ? this.#assign(answer.members) : new Map());
      },
    );
  }

  /** As its leader: cooperative ones get nothing that another has to give up first. */
  #assign(
    members: readonly { readonly memberId: string; readonly metadata: Uint8Array }[],
  ): Map<string, Uint8Array> {
    const { topics } = this.#life;
    const holders = new Map<string, string>();
    const asked = members.map(({ memberId, metadata }) => {
      const said = readSubscription(metadata)!;
      const owned = new Map<string, number[]>();
      for (const { topic, partitions } of said.ownedPartitions) {
        const topicId = topics.idOf(topic);
        if (topicId === undefined) continue;
        owned.set(topicId, [...partitions]);
        for (const partition of partitions) holders.set(keyOf(topicId, partition), memberId);
      }
      const ids = said.topics.flatMap((name) => topics.idOf(name) ?? []);
      return { memberId, instanceId: null, rackId: null, subscribedTopicIds: new Set(ids), owned };
    });
    const assigned = uniformAssignor.assign(asked, (topicId) => topics.partitionCount(topicId));
    return new Map(
      members.map(({ memberId, metadata }) => {
        const given = new Map<string, number[]>();
        for (const [topicId, partitions] of assigned.get(memberId)!) {
          const free = partitions.filter((partition) => {
            const holder = holders.get(keyOf(topicId, partition));
            return holder === undefined || holder === memberId;
          });
          if (free.length > 0) given.set(topicId, free);
        }
        return [memberId, writeAssignment(given, metadata, topics)];
      }),
    );
  }

  #sync(assignments: ReadonlyMap<string, Uint8Array>): void {
    const { coordinator, clock } = this.#life;
    const sentAt = clock.now();
    const turn = ++this.#turn;
    coordinator.sync(
      GROUP,
      {
        memberId: this.memberId,
        groupInstanceId: this.instanceId,
        generationId: this.#generation,
        protocolType: 'consumer',
        protocolName: this.#protocol,
        assignments,
      },
      (answer) => {
        if (turn !== this.#turn) return;
        if (answer.errorCode !== KafkaError.NONE) {
          this.#refused(answer.errorCode);
          return;
        }
        this.#heardOf = sentAt;
        const told = new Set<string>();
        for (const [topicId, partitions] of readAssignment(answer.assignment, this.#life.topics)!) {
          for (const partition of partitions) told.add(keyOf(topicId, partition));
        }
        const gaveUp = [...this.#owned].some((key) => !told.has(key));
        this.#own(told);
        // A cooperative one joins again, so that others may have what it gave up.
        this.#state = gaveUp ? 'unjoined' : 'member';
        this.#nextAt = gaveUp ? 0 : clock.now() + HEARTBEAT_MS;
      },
    );
  }

  #heartbeat(now: number): void {
    const { coordinator } = this.#life;
    const code = coordinator.heartbeat(GROUP, this.memberId, this.instanceId, this.#generation);
    this.#nextAt = now + HEARTBEAT_MS;
    if (code === KafkaError.NONE) this.#heardOf = now;
    else {
      this.#nextAt = now;
      this.#refused(code);
    }
  }
}

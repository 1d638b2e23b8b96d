/** Clients that behave as Kafka's do, on one group of a coordinator whose log, clock and fate a seeded run decides. */

import { uniformAssignor } from '../../src/group/assignor-uniform.ts';
import { GroupCoordinator } from '../../src/group/group-coordinator.ts';
import type { AppendDone, GroupLog } from '../../src/group/group-log.ts';
import { ZERO_ID } from '../../src/group/group-records.ts';
import type { TopicVisitor } from '../../src/log/coordinator-topic.ts';
import type { JournalRecord } from '../../src/metadata/journal.ts';
import { KafkaError } from '../../src/protocol/errors.ts';
import { VirtualClock } from '../../src/runtime/clock.ts';
import { silentLogger } from '../../src/runtime/logging.ts';
import { STREAMS_SETTINGS } from './streams-settings.ts';
import { TestMatcher } from './test-matcher.ts';

export const GROUP = 'group';
export const PARTITIONS = 12;
export const SESSION_MS = 10_000;
export const REBALANCE_MS = 15_000;
const HEARTBEAT_MS = 3_000;

/** A log in memory. What is appended lasts once it is written; a `lying` one says so before. */
export class ModelLog implements GroupLog {
  readonly records: JournalRecord[] = [];
  lying = false;
  #staged: { readonly records: readonly JournalRecord[]; readonly done: AppendDone }[] = [];

  prepare(): undefined {
    return undefined;
  }

  isAvailable(): boolean {
    return true;
  }

  append(_: string, records: readonly JournalRecord[], done: AppendDone): void {
    if (!this.lying) {
      this.#staged.push({ records, done });
      return;
    }
    this.#staged.push({ records, done: () => {} });
    queueMicrotask(() => done(KafkaError.NONE));
  }

  appendMany(groupId: string, records: readonly JournalRecord[], done: AppendDone): void {
    if (records.length === 0) throw new Error('nothing to write is never answered');
    this.append(groupId, records, done);
  }

  /** The end of a tick. */
  write(errorCode: number = KafkaError.NONE): void {
    for (const { records, done } of this.#staged.splice(0)) {
      if (errorCode === KafkaError.NONE) this.records.push(...records);
      done(errorCode);
    }
  }

  /** What was not written is gone. */
  crash(): void {
    this.#staged = [];
  }

  async load(visitor: TopicVisitor): Promise<void> {
    for (const { key, value } of this.records) visitor.record(key!, value);
  }

  indexOf(): number {
    return 0;
  }
}

type ClientState = 'unjoined' | 'joining' | 'syncing' | 'member' | 'gone';

export class ModelClient {
  readonly #model: GroupModel;
  readonly instanceId: string | null;
  readonly #version: { readonly requireKnownMemberId: boolean; readonly supportsSkippingAssignment: boolean };
  readonly name: string;
  memberId = '';
  generationId = -1;
  state: ClientState = 'unjoined';
  partitions: readonly number[] = [];
  #before: { readonly partitions: readonly number[]; readonly generationId: number } = {
    partitions: [],
    generationId: -1,
  };
  #lastHeartbeat = 0;
  /** Answers to earlier requests do not count. */
  #turn = 0;

  constructor(model: GroupModel, name: string, instanceId: string | null, modern: boolean) {
    this.#model = model;
    this.name = name;
    this.instanceId = instanceId;
    this.#version = { requireKnownMemberId: modern, supportsSkippingAssignment: modern };
  }

  get alive(): boolean {
    return this.state !== 'gone';
  }

  /** Does what is due. */
  step(): void {
    if (this.state === 'unjoined') this.#join();
    else if (this.state === 'member') this.#heartbeat();
  }

  /** Its requests got no answers: the connection is lost. */
  disconnected(): void {
    this.#turn++;
    if (this.state === 'joining' || this.state === 'syncing') this.state = 'unjoined';
  }

  die(): void {
    this.#turn++;
    this.state = 'gone';
    this.partitions = [];
  }

  leave(): void {
    this.#model.coordinator.leave(GROUP, [
      { memberId: this.memberId, groupInstanceId: this.instanceId, reason: null },
    ]);
    this.die();
  }

  rejoin(): void {
    if (this.state === 'member') this.#join();
  }

  /** Commits for one of its partitions, or for any that it had once as who does not know yet. */
  commit(late: boolean): void {
    const { partitions, generationId } = late ? this.#before : this;
    const partition = partitions[this.#model.random(partitions.length)];
    if (partition !== undefined) this.#model.commit(this, generationId, partition);
  }

  #lost(errorCode: number): void {
    this.partitions = [];
    this.state = 'unjoined';
    if (errorCode === KafkaError.FENCED_INSTANCE_ID) this.die();
    else if (errorCode !== KafkaError.REBALANCE_IN_PROGRESS) this.memberId = '';
  }

  #join(): void {
    this.state = 'joining';
    // An eager client gives up what it has before it joins.
    this.partitions = [];
    const turn = ++this.#turn;
    this.#model.coordinator.join(
      GROUP,
      {
        memberId: this.memberId,
        groupInstanceId: this.instanceId,
        clientId: this.name,
        clientHost: '/h',
        protocolType: 'consumer',
        protocols: [{ name: 'range', metadata: Buffer.from(this.name) }],
        sessionTimeoutMs: SESSION_MS,
        rebalanceTimeoutMs: REBALANCE_MS,
        reason: null,
        ...this.#version,
      },
      (answer) => {
        if (turn !== this.#turn) return;
        if (answer.errorCode === KafkaError.MEMBER_ID_REQUIRED) {
          this.memberId = answer.memberId;
          this.state = 'unjoined';
          return;
        }
        if (answer.errorCode !== KafkaError.NONE) {
          this.#lost(answer.errorCode);
          return;
        }
        this.memberId = answer.memberId;
        this.generationId = answer.generationId;
        const leads = answer.leader === answer.memberId && !answer.skipAssignment;
        this.#sync(leads ? answer.members.map((member) => member.memberId) : []);
      },
    );
  }

  #sync(members: readonly string[]): void {
    this.state = 'syncing';
    const turn = ++this.#turn;
    const { generationId } = this;
    const assignments = new Map<string, Uint8Array>();
    // Another order each time, so that a generation given out twice shows.
    const from = this.#model.random(members.length || 1);
    members.forEach((memberId, index) => {
      const own = (index + from) % members.length;
      const partitions = Array.from({ length: PARTITIONS }, (_, p) => p).filter(
        (p) => p % members.length === own,
      );
      assignments.set(memberId, Uint8Array.from(partitions));
    });
    this.#model.coordinator.sync(
      GROUP,
      {
        memberId: this.memberId,
        groupInstanceId: this.instanceId,
        generationId,
        protocolType: 'consumer',
        protocolName: 'range',
        assignments,
      },
      (answer) => {
        if (turn !== this.#turn) return;
        if (answer.errorCode !== KafkaError.NONE) {
          this.#lost(answer.errorCode);
          return;
        }
        this.state = 'member';
        this.partitions = [...answer.assignment];
        this.#before = { partitions: this.partitions, generationId };
        this.#lastHeartbeat = this.#model.clock.now();
        this.#model.owns(this);
      },
    );
  }

  #heartbeat(): void {
    const now = this.#model.clock.now();
    if (now - this.#lastHeartbeat < HEARTBEAT_MS) return;
    this.#lastHeartbeat = now;
    const code = this.#model.coordinator.heartbeat(GROUP, this.memberId, this.instanceId, this.generationId);
    if (code !== KafkaError.NONE) this.#lost(code);
  }
}

export class GroupModel {
  readonly clock = new VirtualClock();
  readonly log = new ModelLog();
  coordinator: GroupCoordinator;
  clients: ModelClient[] = [];
  /** Who owned what in each generation: `generation partition` to the client. */
  readonly #owners = new Map<string, ModelClient>();
  readonly #random: () => number;
  /** What was committed last for each partition, as far as someone was told so. */
  readonly #committed = new Map<number, number>();
  #commits = 0;
  #ids = 0;
  #fault: string | undefined;

  /** `random` gives numbers in [0, 1). */
  constructor(random: () => number) {
    this.#random = random;
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
        streams: STREAMS_SETTINGS,
        consumer: {
          maxSize: 1e6,
          sessionTimeoutMs: () => SESSION_MS,
          heartbeatInterval: () => ({ ms: HEARTBEAT_MS, fixed: false }),
          assignmentIntervalMs: () => 0,
          upgrades: true,
          downgrades: true,
        },
      },
      clock: this.clock,
      log: silentLogger,
      matcher: (events) => new TestMatcher(events),
      topics: {
        idOf: () => undefined,
        nameOf: () => undefined,
        partitionCount: () => 0,
        names: () => [],
      },
      createTopics: () => Promise.resolve(''),
      assignors: [uniformAssignor],
      newMemberId: (prefix) => `${prefix}-${this.#ids++}`,
    });
  }

  /** Below n. */
  random(n: number): number {
    return Math.floor(this.#random() * n);
  }

  add(instanceId: string | null, modern: boolean): ModelClient {
    const client = new ModelClient(this, `client${this.#ids++}`, instanceId, modern);
    this.clients.push(client);
    return client;
  }

  get living(): ModelClient[] {
    return this.clients.filter((client) => client.alive);
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

  /** Nobody may commit what is another one's in a later generation, and what was committed is kept. */
  commit(by: ModelClient, generationId: number, partition: number): void {
    const offset = ++this.#commits;
    const stolen = this.living.some(
      (client) =>
        client !== by && client.generationId > generationId && client.partitions.includes(partition),
    );
    const at = { topic: 't', topicId: ZERO_ID, partition, offset, leaderEpoch: -1, metadata: null };
    this.coordinator.offsets.commit(
      {
        groupId: GROUP,
        memberId: by.memberId,
        groupInstanceId: by.instanceId,
        generationId,
        retentionTimeMs: -1,
        version: 9,
        offsets: [at],
      },
      ([code]) => {
        if (code !== KafkaError.NONE) return;
        if (stolen) this.#fault ??= `${by.name} committed ${partition} in generation ${generationId}`;
        this.#committed.set(partition, offset);
      },
    );
  }

  #checkCommitted(): void {
    for (const [partition, offset] of this.#committed) {
      const kept = this.coordinator.get(GROUP)?.offsets.get('t', partition)?.offset;
      if (kept !== offset) this.#fault ??= `offset ${offset} was committed for ${partition}, ${kept} is kept`;
    }
  }

  /** Checks what a client was given; turn() throws what it finds. A static member's place may pass to its next self. */
  owns(client: ModelClient): void {
    for (const partition of client.partitions) {
      const key = `${client.generationId} ${partition}`;
      const owner = this.#owners.get(key);
      const successor = owner?.instanceId !== null && owner?.instanceId === client.instanceId;
      if (owner !== undefined && owner !== client && !successor) {
        this.#fault ??= `partition ${partition} is owned twice in generation ${client.generationId}: by ${owner.name} and ${client.name}`;
      }
      this.#owners.set(key, client);
    }
  }

  /** Everyone does what is due, and the log is written. Throws when a partition was given twice. */
  async turn(ms: number, errorCode: number = KafkaError.NONE): Promise<void> {
    this.clock.advance(ms);
    for (const client of this.living) client.step();
    await Promise.resolve();
    this.log.write(errorCode);
    await Promise.resolve();
    if (this.#fault !== undefined) throw new Error(this.#fault);
  }

  /** Throws unless the living share all partitions in one generation, and the group holds nobody else. */
  expectConverged(): void {
    this.#checkCommitted();
    if (this.#fault !== undefined) throw new Error(this.#fault);
    const { living } = this;
    const group = this.coordinator.get(GROUP)?.classic;
    const facts = living
      .map(({ name, state, generationId }) => `${name} ${state} ${generationId}`)
      .join(', ');
    const all = living.flatMap((client) => client.partitions).sort((a, b) => a - b);
    const expected = living.length === 0 ? [] : Array.from({ length: PARTITIONS }, (_, p) => p);
    if (all.join() !== expected.join()) throw new Error(`partitions ${all.join()} are owned: ${facts}`);
    if (new Set(living.map((client) => client.generationId)).size > 1)
      throw new Error(`generations differ: ${facts}`);
    if ((group?.members.size ?? 0) !== living.length) {
      throw new Error(`the group has ${group?.members.size} members, ${living.length} live: ${facts}`);
    }
  }
}

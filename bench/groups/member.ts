/** Members of groups at the level of requests, alike for every broker: no fetching, no more state than the protocol needs. */
import { randomUUID } from 'node:crypto';
import { api } from '../../src/client/apis.ts';
import { Connection } from '../../src/client/connection.ts';
import { KafkaError } from '../../src/protocol/errors.ts';
import { ApiKey } from '../../src/protocol/generated/api-keys.ts';
import {
  type ConsumerGroupHeartbeatRequestInput,
  readConsumerGroupHeartbeatResponse,
  writeConsumerGroupHeartbeatRequest,
} from '../../src/protocol/generated/ConsumerGroupHeartbeat.ts';
import { readHeartbeatResponse, writeHeartbeatRequest } from '../../src/protocol/generated/Heartbeat.ts';
import { readJoinGroupResponse, writeJoinGroupRequest } from '../../src/protocol/generated/JoinGroup.ts';
import { readLeaveGroupResponse, writeLeaveGroupRequest } from '../../src/protocol/generated/LeaveGroup.ts';
import { readSyncGroupResponse, writeSyncGroupRequest } from '../../src/protocol/generated/SyncGroup.ts';

const JOIN = api(ApiKey.JoinGroup, writeJoinGroupRequest, readJoinGroupResponse);
const SYNC = api(ApiKey.SyncGroup, writeSyncGroupRequest, readSyncGroupResponse);
const HEARTBEAT = api(ApiKey.Heartbeat, writeHeartbeatRequest, readHeartbeatResponse);
const LEAVE = api(ApiKey.LeaveGroup, writeLeaveGroupRequest, readLeaveGroupResponse);
const CONSUMER = api(
  ApiKey.ConsumerGroupHeartbeat,
  writeConsumerGroupHeartbeatRequest,
  readConsumerGroupHeartbeatResponse,
);

/** The Java consumer's defaults, ms. */
const HEARTBEAT_MS = 3_000;
const SESSION_MS = 45_000;
const REBALANCE_MS = 300_000;
const RETRY_MS = 100;
/** A join waits for all others. */
const TIMEOUT_MS = 400_000;

export interface MemberOf {
  readonly port: number;
  readonly groupId: string;
  readonly topic: string;
  readonly partitions: number;
  /** Called when a member's epoch or partitions have changed. */
  readonly changed: () => void;
  readonly failed: (error: Error) => void;
}

async function connect(port: number): Promise<Connection> {
  const connection = await Connection.connect({ host: '127.0.0.1', port, timeoutMs: TIMEOUT_MS });
  await connection.negotiate();
  return connection;
}

export abstract class Member {
  protected readonly of: MemberOf;
  protected connection!: Connection;
  protected memberId = '';
  /** Epoch or generation; 0 while it has no assignment. */
  epoch = 0;
  owned: readonly number[] = [];
  #stopped = false;
  #sleeping: (() => void) | undefined;
  #ended: Promise<void> | undefined;

  constructor(of: MemberOf) {
    this.of = of;
  }

  protected get stopped(): boolean {
    return this.#stopped;
  }

  async start(): Promise<void> {
    this.connection = await connect(this.of.port);
    this.#ended = this.run().catch((error: Error) => {
      if (!this.#stopped) this.of.failed(error);
    });
  }

  /** Leaves the group, over another connection since its own may wait for a rebalance. */
  async stop(): Promise<void> {
    this.#stopped = true;
    this.#sleeping?.();
    const connection = await connect(this.of.port);
    if (this.memberId !== '') await this.leave(connection);
    connection.close();
    this.connection.close();
    await this.#ended;
  }

  protected async sleep(ms: number): Promise<void> {
    if (this.#stopped) return;
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, ms);
      this.#sleeping = () => {
        clearTimeout(timer);
        resolve();
      };
    });
    this.#sleeping = undefined;
  }

  protected set(epoch: number, owned: readonly number[]): void {
    this.epoch = epoch;
    this.owned = owned;
    this.of.changed();
  }

  protected abstract run(): Promise<void>;
  protected abstract leave(connection: Connection): Promise<void>;
}

const isRetriable = (code: number): boolean =>
  code === KafkaError.COORDINATOR_NOT_AVAILABLE ||
  code === KafkaError.COORDINATOR_LOAD_IN_PROGRESS ||
  code === KafkaError.NOT_COORDINATOR;

/** KIP-848, server-side assignor. Acknowledges at once what it has given up or taken up, as the Java consumer does. */
export class ConsumerMember extends Member {
  override memberId = Buffer.from(randomUUID().replaceAll('-', ''), 'hex').toString('base64url');
  #topicId = '';
  #told: string | undefined;
  #all = true;

  async run(): Promise<void> {
    let epoch = 0;
    while (!this.stopped) {
      const answer = await this.connection.request(CONSUMER, this.#request(epoch));
      if (isRetriable(answer.errorCode)) {
        this.#all = true;
        await this.sleep(RETRY_MS);
        continue;
      }
      if (answer.errorCode !== KafkaError.NONE) {
        const isOut =
          answer.errorCode === KafkaError.UNKNOWN_MEMBER_ID ||
          answer.errorCode === KafkaError.FENCED_MEMBER_EPOCH;
        if (!isOut) throw new Error(`a heartbeat was refused with ${answer.errorCode}`);
        epoch = 0;
        this.#all = true;
        this.set(0, []);
        continue;
      }
      epoch = answer.memberEpoch;
      this.#all = false;
      const [first] = answer.assignment?.topicPartitions ?? [];
      if (first !== undefined) this.#topicId = first.topicId;
      this.set(epoch, answer.assignment === null ? this.owned : (first?.partitions ?? []));
      // Its user has seen to what changed: it says so.
      if (this.owned.join() !== this.#told) continue;
      await this.sleep(answer.heartbeatIntervalMs);
    }
  }

  #request(epoch: number): ConsumerGroupHeartbeatRequestInput {
    const { groupId, topic } = this.of;
    const all = this.#all || epoch === 0;
    const owned = this.owned.join();
    const tells = all || owned !== this.#told;
    this.#told = owned;
    const topicPartitions = this.owned.length > 0 ? [{ topicId: this.#topicId, partitions: this.owned }] : [];
    return {
      groupId,
      memberId: this.memberId,
      memberEpoch: epoch,
      rebalanceTimeoutMs: all ? REBALANCE_MS : -1,
      subscribedTopicNames: all ? [topic] : null,
      serverAssignor: all ? 'uniform' : null,
      topicPartitions: tells ? topicPartitions : null,
    };
  }

  async leave(connection: Connection): Promise<void> {
    const { groupId } = this.of;
    await connection.request(CONSUMER, { groupId, memberId: this.memberId, memberEpoch: -1 });
  }
}

/** The classic protocol, eager, the leader assigns. */
export class ClassicMember extends Member {
  async run(): Promise<void> {
    while (!this.stopped) {
      const generation = await this.#join();
      if (generation === undefined) continue;
      while (!this.stopped) {
        await this.sleep(HEARTBEAT_MS);
        if (this.stopped || !(await this.#heartbeat(generation))) break;
      }
    }
  }

  /** Undefined when it has to be tried again. */
  async #join(): Promise<number | undefined> {
    const { groupId, topic, partitions } = this.of;
    this.set(0, []);
    const joined = await this.connection.request(JOIN, {
      groupId,
      memberId: this.memberId,
      sessionTimeoutMs: SESSION_MS,
      rebalanceTimeoutMs: REBALANCE_MS,
      protocolType: 'consumer',
      protocols: [{ name: 'range', metadata: Buffer.from(topic) }],
    });
    if (joined.errorCode === KafkaError.MEMBER_ID_REQUIRED) {
      this.memberId = joined.memberId;
      return undefined;
    }
    if (joined.errorCode !== KafkaError.NONE) return this.#failed(joined.errorCode);
    this.memberId = joined.memberId;
    const { generationId, members } = joined;
    const share = Math.ceil(partitions / members.length);
    const synced = await this.connection.request(SYNC, {
      groupId,
      memberId: this.memberId,
      generationId,
      protocolType: 'consumer',
      protocolName: 'range',
      assignments: members.map(({ memberId }, index) => {
        const first = index * share;
        const count = Math.max(0, Math.min(share, partitions - first));
        const assignment = Buffer.from(new Int32Array([first, count]).buffer);
        return { memberId, assignment };
      }),
    });
    if (synced.errorCode !== KafkaError.NONE) return this.#failed(synced.errorCode);
    const bytes = Buffer.from(synced.assignment);
    const first = bytes.readInt32LE(0);
    this.set(
      generationId,
      Array.from({ length: bytes.readInt32LE(4) }, (_, index) => first + index),
    );
    return generationId;
  }

  async #failed(code: number): Promise<undefined> {
    if (code === KafkaError.REBALANCE_IN_PROGRESS) return;
    if (isRetriable(code)) return this.sleep(RETRY_MS) as Promise<undefined>;
    if (code !== KafkaError.UNKNOWN_MEMBER_ID && code !== KafkaError.ILLEGAL_GENERATION) {
      throw new Error(`a join or sync was refused with ${code}`);
    }
    this.memberId = '';
  }

  /** False when it has to join again. */
  async #heartbeat(generationId: number): Promise<boolean> {
    const { groupId } = this.of;
    const { errorCode } = await this.connection.request(HEARTBEAT, {
      groupId,
      memberId: this.memberId,
      generationId,
    });
    if (errorCode === KafkaError.NONE) return true;
    await this.#failed(errorCode);
    return false;
  }

  async leave(connection: Connection): Promise<void> {
    const { groupId } = this.of;
    await connection.request(LEAVE, { groupId, members: [{ memberId: this.memberId }] });
  }
}

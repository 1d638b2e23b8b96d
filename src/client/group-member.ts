/**
 * A member of a group, by the classic protocol, with the assignors `range` and `roundrobin`: joins, assigns where it is the
 * leader, sends heartbeats, commits, leaves. The caller fetches, and joins again when `rejoin` says so.
 */
import { KafkaError } from '../protocol/errors.ts';
import { ApiKey } from '../protocol/generated/api-keys.ts';
import {
  readConsumerProtocolSubscription,
  writeConsumerProtocolAssignment,
  writeConsumerProtocolSubscription,
} from '../protocol/generated/consumer-protocol.ts';
import { readHeartbeatResponse, writeHeartbeatRequest } from '../protocol/generated/Heartbeat.ts';
import {
  type JoinGroupResponse,
  readJoinGroupResponse,
  writeJoinGroupRequest,
} from '../protocol/generated/JoinGroup.ts';
import { readLeaveGroupResponse, writeLeaveGroupRequest } from '../protocol/generated/LeaveGroup.ts';
import { readSyncGroupResponse, writeSyncGroupRequest } from '../protocol/generated/SyncGroup.ts';
import { Reader } from '../protocol/reader.ts';
import { Writer } from '../protocol/writer.ts';
import { BroadsheetError } from '../runtime/errors.ts';
import { api } from './apis.ts';
import { BrokerRefusal, type Client } from './client.ts';
import { refuse, withCoordinator } from './coordinator.ts';
import { commitOffsets, decodeAssignment } from './groups.ts';
import type { PartitionOf } from './offsets.ts';

const APIS = {
  heartbeat: api(ApiKey.Heartbeat, writeHeartbeatRequest, readHeartbeatResponse),
  joinGroup: api(ApiKey.JoinGroup, writeJoinGroupRequest, readJoinGroupResponse),
  leaveGroup: api(ApiKey.LeaveGroup, writeLeaveGroupRequest, readLeaveGroupResponse),
  syncGroup: api(ApiKey.SyncGroup, writeSyncGroupRequest, readSyncGroupResponse),
} as const;

export type AssignorName = 'range' | 'roundrobin';

export interface GroupMemberOptions {
  readonly groupId: string;
  readonly topics: readonly string[];
  /** Default 45 000, as Kafka's. */
  readonly sessionTimeoutMs?: number;
  /** How long the group waits for this member in a rebalance, ms. Default 60 000. */
  readonly rebalanceTimeoutMs?: number;
}

const PROTOCOL_TYPE = 'consumer';
const SUBSCRIPTION_VERSION = 1;
const ASSIGNMENT_VERSION = 1;
const HEARTBEAT_MS = 3_000;
/** What a join may take besides the rebalance itself. */
const JOIN_SLACK_MS = 10_000;
const FIRST_LEAVE_OF_MANY = 3;
/** This member is no longer in the group. */
const LOST: ReadonlySet<number> = new Set([KafkaError.UNKNOWN_MEMBER_ID, KafkaError.ILLEGAL_GENERATION]);

export class GroupMember {
  readonly #client: Client;
  readonly #options: GroupMemberOptions;
  #memberId = '';
  #generation = -1;
  #heartbeat: NodeJS.Timeout | undefined;
  #rejoin = true;
  #failure: BroadsheetError | undefined;

  constructor(client: Client, options: GroupMemberOptions) {
    this.#client = client;
    this.#options = options;
  }

  /** Whether join() is due: before the first one, and when the group rebalances. Throws what ended the membership. */
  get rejoin(): boolean {
    if (this.#failure !== undefined) throw this.#failure;
    return this.#rejoin;
  }

  get memberId(): string {
    return this.#memberId;
  }

  /** Joins, or takes part in a rebalance; what this member has then. Throws BROKER_REFUSED. */
  async join(): Promise<PartitionOf[]> {
    clearInterval(this.#heartbeat);
    for (;;) {
      try {
        const assigned = await this.#joinOnce();
        this.#rejoin = false;
        this.#heartbeat = setInterval(() => this.#beat(), HEARTBEAT_MS);
        return assigned;
      } catch (error) {
        if (!(error instanceof BrokerRefusal)) throw error;
        if (LOST.has(error.kafkaCode)) this.#memberId = '';
        else if (error.kafkaCode !== KafkaError.REBALANCE_IN_PROGRESS) throw error;
      }
    }
  }

  /** Commits what was consumed of what this member has. In a rebalance that is already under way it may be refused: throws
   * BROKER_REFUSED, unless the group just wants this member to join again. */
  async commit(offsets: readonly (PartitionOf & { readonly offset: number })[]): Promise<void> {
    const committer = { memberId: this.#memberId, generation: this.#generation };
    try {
      await commitOffsets(this.#client, this.#options.groupId, offsets, committer);
    } catch (error) {
      if (!(error instanceof BrokerRefusal) || !this.#isRebalance(error.kafkaCode)) throw error;
    }
  }

  /** Leaves the group at once. */
  async leave(): Promise<void> {
    clearInterval(this.#heartbeat);
    if (this.#memberId === '') return;
    const { groupId } = this.#options;
    const memberId = this.#memberId;
    this.#memberId = '';
    await withCoordinator(this.#client, groupId, (to) =>
      this.#client.request(
        APIS.leaveGroup,
        (version) =>
          version >= FIRST_LEAVE_OF_MANY
            ? { groupId, members: [{ memberId, groupInstanceId: null }] }
            : { groupId, memberId },
        { to },
      ),
    );
  }

  async #joinOnce(): Promise<PartitionOf[]> {
    const { groupId, topics, sessionTimeoutMs = 45_000, rebalanceTimeoutMs = 60_000 } = this.#options;
    const subscription = new Writer();
    subscription.int16(SUBSCRIPTION_VERSION);
    writeConsumerProtocolSubscription(subscription, SUBSCRIPTION_VERSION, {
      topics: [...topics].sort(),
      userData: null,
      ownedPartitions: [],
    });
    const metadata = subscription.bytes().slice();
    const joined = await withCoordinator(this.#client, groupId, async (to) => {
      const response = await this.#client.request(
        APIS.joinGroup,
        {
          groupId,
          sessionTimeoutMs,
          rebalanceTimeoutMs,
          memberId: this.#memberId,
          protocolType: PROTOCOL_TYPE,
          protocols: [
            { name: 'range', metadata },
            { name: 'roundrobin', metadata },
          ],
        },
        { to, timeoutMs: rebalanceTimeoutMs + JOIN_SLACK_MS },
      );
      if (response.errorCode === KafkaError.MEMBER_ID_REQUIRED) return response;
      refuse(response.errorCode, `joining group ${groupId}`);
      return response;
    });
    this.#memberId = joined.memberId;
    // The id that it was given is what it must join with (KIP-394).
    if (joined.errorCode !== 0) return this.#joinOnce();
    this.#generation = joined.generationId;
    const leads = joined.leader === joined.memberId && !joined.skipAssignment;
    const assignments = leads ? await this.#assign(joined) : [];
    const synced = await withCoordinator(this.#client, groupId, async (to) => {
      const response = await this.#client.request(
        APIS.syncGroup,
        {
          groupId,
          generationId: this.#generation,
          memberId: this.#memberId,
          protocolType: PROTOCOL_TYPE,
          protocolName: joined.protocolName,
          assignments,
        },
        { to, timeoutMs: rebalanceTimeoutMs + JOIN_SLACK_MS },
      );
      refuse(response.errorCode, `joining group ${groupId}`);
      return response;
    });
    return decodeAssignment(synced.assignment).flatMap(({ topic, partitions }) =>
      partitions.map((partition) => ({ topic, partition })),
    );
  }

  async #assign(joined: JoinGroupResponse): Promise<{ memberId: string; assignment: Uint8Array }[]> {
    const members = joined.members.map(({ memberId, groupInstanceId, metadata }) => {
      const reader = new Reader(metadata);
      const version = Math.min(reader.int16(), SUBSCRIPTION_VERSION);
      const { topics } = readConsumerProtocolSubscription(reader, version);
      return { memberId, order: groupInstanceId ?? memberId, topics };
    });
    const counts = new Map<string, number>();
    for (const topic of new Set(members.flatMap(({ topics }) => topics))) {
      const { topics } = await this.#client.metadata([topic]);
      counts.set(topic, topics[0]?.partitions.length ?? 0);
    }
    const assigned = assign(joined.protocolName as AssignorName, members, counts);
    return members.map(({ memberId }) => {
      const writer = new Writer();
      writer.int16(ASSIGNMENT_VERSION);
      writeConsumerProtocolAssignment(writer, ASSIGNMENT_VERSION, {
        assignedPartitions: [...(assigned.get(memberId) ?? [])].map(([topic, partitions]) => ({
          topic,
          partitions,
        })),
        userData: null,
      });
      return { memberId, assignment: writer.bytes().slice() };
    });
  }

  async #beat(): Promise<void> {
    const { groupId } = this.#options;
    if (this.#rejoin || this.#memberId === '') return;
    const request = { groupId, generationId: this.#generation, memberId: this.#memberId };
    try {
      await withCoordinator(this.#client, groupId, async (to) => {
        const response = await this.#client.request(APIS.heartbeat, request, { to });
        refuse(response.errorCode, `group ${groupId}`);
      });
    } catch (error) {
      // An answer to an earlier generation says nothing of this one.
      if (request.generationId !== this.#generation || this.#memberId === '') return;
      if (error instanceof BrokerRefusal && this.#isRebalance(error.kafkaCode)) return;
      this.#failure ??= error as BroadsheetError;
    }
  }

  #isRebalance(code: number): boolean {
    if (LOST.has(code)) this.#memberId = '';
    else if (code !== KafkaError.REBALANCE_IN_PROGRESS) return false;
    this.#rejoin = true;
    return true;
  }
}

export interface Subscriber {
  readonly memberId: string;
  /** Sorts members: the instance id where there is one. */
  readonly order: string;
  readonly topics: readonly string[];
}

/** Partitions by member and topic. `range` gives each member of a topic a run of its partitions, `roundrobin` deals all out
 * one by one: both as Kafka's assignors of these names do. */
export function assign(
  name: AssignorName,
  members: readonly Subscriber[],
  counts: ReadonlyMap<string, number>,
): Map<string, Map<string, number[]>> {
  if (name !== 'range' && name !== 'roundrobin') {
    throw new BroadsheetError('UNSUPPORTED', `the group chose the assignor ${name}, which is not known here`);
  }
  const sorted = [...members].sort((a, b) => (a.order < b.order ? -1 : 1));
  const assigned = new Map<string, Map<string, number[]>>();
  const give = (member: Subscriber, topic: string, partition: number) => {
    const mine = assigned.get(member.memberId) ?? new Map<string, number[]>();
    assigned.set(member.memberId, mine);
    mine.set(topic, [...(mine.get(topic) ?? []), partition]);
  };
  let turn = 0;
  for (const [topic, count] of [...counts].sort(([a], [b]) => (a < b ? -1 : 1))) {
    const interested = sorted.filter(({ topics }) => topics.includes(topic));
    if (interested.length === 0) continue;
    for (let partition = 0; partition < count; partition++) {
      if (name === 'range') {
        const share = Math.floor(count / interested.length);
        const larger = count % interested.length;
        // The first `larger` members have one more.
        const bound = larger * (share + 1);
        const index =
          partition < bound
            ? Math.floor(partition / (share + 1))
            : larger + Math.floor((partition - bound) / share);
        give(interested[index]!, topic, partition);
      } else {
        while (!sorted[turn % sorted.length]!.topics.includes(topic)) turn++;
        give(sorted[turn++ % sorted.length]!, topic, partition);
      }
    }
  }
  return assigned;
}

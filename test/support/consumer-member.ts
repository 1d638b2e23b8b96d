/** A member of a group by the consumer protocol (KIP-848) that reads nothing: it takes whatever it is assigned. */
import { api } from '../../src/client/apis.ts';
import { BrokerRefusal, type Client } from '../../src/client/client.ts';
import { commitOffsets } from '../../src/client/groups.ts';
import type { PartitionOf } from '../../src/client/offsets.ts';
import { ApiKey } from '../../src/protocol/generated/api-keys.ts';
import {
  type ConsumerGroupHeartbeatRequestInput,
  type ConsumerGroupHeartbeatResponse,
  type ConsumerGroupHeartbeatResponseTopicPartitions,
  readConsumerGroupHeartbeatResponse,
  writeConsumerGroupHeartbeatRequest,
} from '../../src/protocol/generated/ConsumerGroupHeartbeat.ts';

const HEARTBEAT = api(
  ApiKey.ConsumerGroupHeartbeat,
  writeConsumerGroupHeartbeatRequest,
  readConsumerGroupHeartbeatResponse,
);
const LEAVE_EPOCH = -1;
const HEARTBEAT_MS = 2_000;
const HURRY_MS = 200;

export class ConsumerMember {
  readonly #client: Client;
  readonly #groupId: string;
  readonly #memberId: string;
  readonly #more: Partial<ConsumerGroupHeartbeatRequestInput>;
  #epoch = 0;
  #owned: ConsumerGroupHeartbeatResponseTopicPartitions[] = [];
  #timer: NodeJS.Timeout | undefined;
  #failure: unknown;

  constructor(
    client: Client,
    groupId: string,
    memberId: string,
    more: Partial<ConsumerGroupHeartbeatRequestInput>,
  ) {
    this.#client = client;
    this.#groupId = groupId;
    this.#memberId = memberId;
    this.#more = more;
  }

  /** Joins, and resolves when it has so many partitions; heartbeats go on until leave(). */
  async join(partitions: number): Promise<void> {
    this.#take(
      await this.#beat({ memberEpoch: 0, rebalanceTimeoutMs: 60_000, topicPartitions: [], ...this.#more }),
    );
    while (this.#owned.reduce((sum, topic) => sum + topic.partitions.length, 0) < partitions) {
      await new Promise((resolve) => setTimeout(resolve, HURRY_MS));
      await this.#again();
    }
    this.#timer = setInterval(() => {
      void this.#again().catch((error: unknown) => {
        this.#failure = error;
      });
    }, HEARTBEAT_MS);
  }

  /** Says what it owns, and takes what it is given. */
  async #again(): Promise<void> {
    this.#take(await this.#beat({ memberEpoch: this.#epoch, topicPartitions: this.#owned }));
  }

  #take(answer: ConsumerGroupHeartbeatResponse): void {
    this.#epoch = answer.memberEpoch;
    if (answer.assignment !== null) this.#owned = answer.assignment.topicPartitions;
  }

  async #beat(more: Partial<ConsumerGroupHeartbeatRequestInput>): Promise<ConsumerGroupHeartbeatResponse> {
    const answer = await this.#client.request(HEARTBEAT, {
      groupId: this.#groupId,
      memberId: this.#memberId,
      memberEpoch: this.#epoch,
      ...more,
    });
    if (answer.errorCode !== 0) {
      throw new BrokerRefusal(answer.errorCode, `heartbeat of ${this.#memberId}`, answer.errorMessage);
    }
    return answer;
  }

  /** Commits as this member. */
  async commit(offsets: readonly (PartitionOf & { readonly offset: number })[]): Promise<void> {
    const committer = { memberId: this.#memberId, generation: this.#epoch };
    await commitOffsets(this.#client, this.#groupId, offsets, committer);
  }

  /** Leaves at once. Throws what a heartbeat has met since it joined. */
  async leave(): Promise<void> {
    clearInterval(this.#timer);
    if (this.#failure !== undefined) throw this.#failure;
    await this.#beat({ memberEpoch: LEAVE_EPOCH });
  }
}

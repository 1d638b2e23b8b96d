/** A member of a streams group (KIP-1071) that processes nothing: it takes whatever tasks it is assigned. */
import { api } from '../../src/client/apis.ts';
import type { Client } from '../../src/client/client.ts';
import { refuse, withCoordinator } from '../../src/client/coordinator.ts';
import { commitOffsets } from '../../src/client/groups.ts';
import type { PartitionOf } from '../../src/client/offsets.ts';
import { ApiKey } from '../../src/protocol/generated/api-keys.ts';
import {
  readStreamsGroupHeartbeatResponse,
  type StreamsGroupHeartbeatRequestInput,
  type StreamsGroupHeartbeatResponse,
  writeStreamsGroupHeartbeatRequest,
} from '../../src/protocol/generated/StreamsGroupHeartbeat.ts';

export const STREAMS_HEARTBEAT = api(
  ApiKey.StreamsGroupHeartbeat,
  writeStreamsGroupHeartbeatRequest,
  readStreamsGroupHeartbeatResponse,
);

type Topology = NonNullable<StreamsGroupHeartbeatRequestInput['topology']>;
export type SubtopologyInput = Topology['subtopologies'][number];

export function subtopologyInput(facts: Partial<SubtopologyInput>): SubtopologyInput {
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

export function topicInput(name: string, partitions = 0) {
  return { name, partitions, replicationFactor: 0, topicConfigs: [] };
}

/** What a member says when it joins. */
export function joinInput(
  groupId: string,
  memberId: string,
  subtopologies: readonly SubtopologyInput[],
): StreamsGroupHeartbeatRequestInput {
  return {
    groupId,
    memberId,
    memberEpoch: 0,
    endpointInformationEpoch: -1,
    rebalanceTimeoutMs: 60_000,
    topology: { epoch: 0, subtopologies },
    activeTasks: [],
    standbyTasks: [],
    warmupTasks: [],
    processId: `process of ${memberId}`,
    clientTags: [],
  };
}

const HEARTBEAT_MS = 2_000;
const HURRY_MS = 200;

export class StreamsWireMember {
  readonly #client: Client;
  readonly #groupId: string;
  readonly #memberId: string;
  #epoch = 0;
  #owned: Pick<StreamsGroupHeartbeatRequestInput, 'activeTasks' | 'standbyTasks' | 'warmupTasks'> = {};
  #timer: NodeJS.Timeout | undefined;
  #failure: unknown;

  constructor(client: Client, groupId: string, memberId: string) {
    this.#client = client;
    this.#groupId = groupId;
    this.#memberId = memberId;
  }

  /** Joins, and resolves when it has so many active tasks; heartbeats go on until leave(). */
  async join(subtopologies: readonly SubtopologyInput[], tasks: number): Promise<void> {
    await this.#beat(joinInput(this.#groupId, this.#memberId, subtopologies));
    while (this.#tasks < tasks) {
      await new Promise((resolve) => setTimeout(resolve, HURRY_MS));
      await this.again();
    }
    this.#timer = setInterval(() => {
      void this.again().catch((error: unknown) => {
        this.#failure = error;
      });
    }, HEARTBEAT_MS);
  }

  get #tasks(): number {
    return (this.#owned.activeTasks ?? []).reduce((sum, { partitions }) => sum + partitions.length, 0);
  }

  /** Says what it owns, and takes what it is given. */
  async again(): Promise<void> {
    await this.#beat({
      groupId: this.#groupId,
      memberId: this.#memberId,
      memberEpoch: this.#epoch,
      endpointInformationEpoch: -1,
      ...this.#owned,
    });
  }

  async #beat(request: StreamsGroupHeartbeatRequestInput): Promise<StreamsGroupHeartbeatResponse> {
    const answer = await withCoordinator(this.#client, this.#groupId, async (to) => {
      const response = await this.#client.request(STREAMS_HEARTBEAT, request, { to });
      refuse(response.errorCode, `heartbeat of ${this.#memberId}`, response.errorMessage);
      return response;
    });
    const { activeTasks, standbyTasks, warmupTasks } = answer;
    this.#epoch = answer.memberEpoch;
    if (activeTasks !== null) this.#owned = { activeTasks, standbyTasks, warmupTasks };
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
    const leaves = { memberEpoch: -1, endpointInformationEpoch: -1 };
    await this.#beat({ groupId: this.#groupId, memberId: this.#memberId, ...leaves });
  }
}

/** A client of the consumer protocol (KIP-848). */
import type { MemberAssignment } from '../../src/group/assignor.ts';
import { compileTopicRegex } from '../../src/group/topic-regex.ts';
import { GROUP, type GroupLife, keyOf, REBALANCE_MS } from './group-life.ts';
import { type EpochAnswer, EpochClient, type EpochOptions } from './life-epoch.ts';

export interface ConsumerOptions extends EpochOptions {
  readonly topics?: readonly string[];
  readonly pattern?: string;
  readonly assignor?: string | null;
}

function keysOf(assignment: MemberAssignment): Set<string> {
  const keys = new Set<string>();
  for (const [topicId, partitions] of assignment) for (const p of partitions) keys.add(keyOf(topicId, p));
  return keys;
}

function assignmentOf(keys: ReadonlySet<string>): Map<string, number[]> {
  const assignment = new Map<string, number[]>();
  for (const key of keys) {
    const [topicId, partition] = key.split(' ') as [string, string];
    const partitions = assignment.get(topicId);
    if (partitions === undefined) assignment.set(topicId, [Number(partition)]);
    else partitions.push(Number(partition));
  }
  for (const partitions of assignment.values()) partitions.sort((a, b) => a - b);
  return assignment;
}

export class ConsumerClient extends EpochClient {
  readonly #options: ConsumerOptions;

  constructor(life: GroupLife, options: ConsumerOptions = {}) {
    super(life, 'consumer', options);
    this.#options = options;
  }

  get subscription(): string[] {
    const { topics = [], pattern = '' } = this.#options;
    const names = this.life.topics.names();
    const regex = pattern === '' ? undefined : compileTopicRegex(pattern);
    return names.filter((name) => topics.includes(name) || regex?.matches(name));
  }

  protected override epochs() {
    const { group } = this.life;
    return [group?.members.get(this.memberId)?.memberEpoch, group?.epoch] as const;
  }

  protected override send(
    memberEpoch: number,
    full: boolean,
    owned: ReadonlySet<string>,
    respond: (answer: EpochAnswer) => void,
  ): void {
    // All is said, since a static member has what its former self had where it says nothing.
    const { topics = [], pattern = '', assignor = null } = this.#options;
    const joins = memberEpoch === 0;
    this.life.coordinator.consumerHeartbeat(
      {
        version: 1,
        groupId: GROUP,
        memberId: this.memberId,
        memberEpoch,
        instanceId: this.instanceId,
        rackId: null,
        rebalanceTimeoutMs: full ? REBALANCE_MS : -1,
        subscribedTopicNames: full ? topics : null,
        subscribedTopicRegex: full ? pattern : null,
        serverAssignor: full ? assignor : null,
        topicPartitions: memberEpoch < 0 ? null : joins ? new Map() : assignmentOf(owned),
        clientId: this.name,
        clientHost: '/h',
      },
      (answer) => {
        const told = answer.assignment === null ? null : keysOf(answer.assignment);
        respond({ ...answer, told });
      },
    );
  }
}

import { describe, expect, it } from 'vitest';
import type { JoinAnswer, SyncAnswer } from '../../src/group/classic-member.ts';
import { readAssignment } from '../../src/group/consumer-protocol-bytes.ts';
import { KafkaError } from '../../src/protocol/errors.ts';
import {
  writeConsumerProtocolAssignment,
  writeConsumerProtocolSubscription,
} from '../../src/protocol/generated/consumer-protocol.ts';
import { Writer } from '../../src/protocol/writer.ts';
import { ConsumerRun } from './consumer-run.ts';

const VERSION = 3;

function bytes(write: (writer: Writer) => void): Uint8Array {
  const writer = new Writer();
  writer.int16(VERSION);
  write(writer);
  return writer.bytes().slice();
}

/** A consumer that speaks the classic protocol, and follows its assignor. */
class ClassicMember {
  readonly #run: ConsumerRun;
  readonly instanceId: string | null;
  memberId = '';
  generation = -1;
  partitions: readonly number[] = [];
  joined: JoinAnswer | undefined;
  synced: SyncAnswer | undefined;

  constructor(run: ConsumerRun, instanceId: string | null = null) {
    this.#run = run;
    this.instanceId = instanceId;
  }

  join(protocols: readonly string[] = ['range']): void {
    const metadata = bytes((w) =>
      writeConsumerProtocolSubscription(w, VERSION, {
        topics: ['t'],
        ownedPartitions: this.partitions.length === 0 ? [] : [{ topic: 't', partitions: this.partitions }],
      }),
    );
    this.joined = undefined;
    this.#run.coordinator.join(
      'g',
      {
        memberId: this.memberId,
        groupInstanceId: this.instanceId,
        clientId: 'classic',
        clientHost: '/h',
        protocolType: 'consumer',
        protocols: protocols.map((name) => ({ name, metadata })),
        sessionTimeoutMs: 10_000,
        rebalanceTimeoutMs: 20_000,
        reason: null,
        requireKnownMemberId: false,
        supportsSkippingAssignment: true,
      },
      (answer) => {
        this.joined = answer;
        if (answer.errorCode !== 0) return;
        this.memberId = answer.memberId;
        this.generation = answer.generationId;
      },
    );
    this.#run.log.write();
  }

  /** A leader gives all to itself. */
  sync(): number {
    const leads = this.joined?.leader === this.memberId;
    const all = bytes((w) =>
      writeConsumerProtocolAssignment(w, VERSION, {
        assignedPartitions: [{ topic: 't', partitions: [0, 1, 2, 3] }],
      }),
    );
    this.#run.coordinator.sync(
      'g',
      {
        memberId: this.memberId,
        groupInstanceId: this.instanceId,
        generationId: this.generation,
        protocolType: 'consumer',
        protocolName: 'range',
        assignments: new Map(leads ? [[this.memberId, all]] : []),
      },
      (answer) => {
        this.synced = answer;
      },
    );
    this.#run.log.write();
    const { errorCode, assignment } = this.synced!;
    if (errorCode === 0)
      this.partitions = [...(readAssignment(assignment, this.#run.topics)?.values() ?? [])].flat();
    return errorCode;
  }

  heartbeat(): number {
    const code = this.#run.coordinator.heartbeat('g', this.memberId, this.instanceId, this.generation);
    this.#run.log.write();
    return code;
  }
}

/** A group with one classic member that has all partitions. */
function classicGroup(): { run: ConsumerRun; classic: ClassicMember } {
  const run = new ConsumerRun();
  const classic = new ClassicMember(run);
  classic.join();
  classic.sync();
  expect([run.coordinator.list()[0]!.type, classic.partitions]).toEqual(['classic', [0, 1, 2, 3]]);
  return { run, classic };
}

describe('a group that goes over to the consumer protocol', () => {
  it('does so when the first such member joins, and nobody loses what is not asked back', () => {
    const { run, classic } = classicGroup();
    const modern = run.member('m');
    modern.join();
    expect(run.coordinator.list()[0]!.type).toBe('consumer');
    expect(modern.has).toBe('');
    expect(classic.heartbeat()).toBe(KafkaError.REBALANCE_IN_PROGRESS);
    // It owns everything still, and is told to give some up.
    classic.join();
    expect(classic.sync()).toBe(0);
    expect(classic.partitions).toEqual([0, 1]);
    modern.heartbeat();
    expect(modern.has).toBe('');
    expect(classic.heartbeat()).toBe(KafkaError.REBALANCE_IN_PROGRESS);
    classic.join();
    classic.sync();
    expect([classic.heartbeat(), classic.partitions]).toEqual([0, [0, 1]]);
    modern.heartbeat();
    expect(modern.has).toBe('t 2,3');
    expect(run.group.state).toBe('Stable');
  });

  it('lets members of the classic protocol join it, and holds them to their timeouts', () => {
    const run = new ConsumerRun();
    const modern = run.member('m');
    modern.join();
    const classic = new ClassicMember(run);
    classic.join(['range', 'x']);
    expect(classic.joined).toMatchObject({ errorCode: 0, leader: '', protocolName: 'range', members: [] });
    expect(classic.sync()).toBe(0);
    expect(classic.partitions).toEqual([]);
    const other = new ClassicMember(run);
    other.join(['y']);
    expect(other.joined?.errorCode).toBe(KafkaError.INCONSISTENT_GROUP_PROTOCOL);
    expect(run.coordinator.heartbeat('g', 'm', null, modern.epoch)).toBe(KafkaError.UNKNOWN_MEMBER_ID);
    run.clock.advance(10_000);
    expect(classic.heartbeat()).toBe(KafkaError.UNKNOWN_MEMBER_ID);
    expect(run.group.members.size).toBe(1);
  });

  it('keeps both kinds over a restart', async () => {
    const { run, classic } = classicGroup();
    const modern = run.member('m');
    modern.join();
    classic.join();
    classic.sync();
    await run.restart();
    expect(run.group.members.classicCount).toBe(1);
    classic.join();
    classic.sync();
    modern.heartbeat();
    expect([classic.partitions, modern.has]).toEqual([[0, 1], 't 2,3']);
  });

  it('stays where the policy forbids it', () => {
    const { run } = classicGroup();
    run.consumer.upgrades = false;
    expect(run.member('m').join().errorCode).toBe(KafkaError.GROUP_ID_NOT_FOUND);
    expect(run.coordinator.list()[0]!.type).toBe('classic');
  });
});

describe('a group that goes back to the classic protocol', () => {
  it('does so when the last member of the other leaves', () => {
    const { run, classic } = classicGroup();
    const modern = run.member('m');
    modern.join();
    classic.join();
    classic.sync();
    classic.heartbeat();
    classic.join();
    classic.sync();
    expect(modern.leave().errorCode).toBe(0);
    expect(run.coordinator.list()[0]).toMatchObject({ type: 'classic', state: 'PreparingRebalance' });
    expect(classic.heartbeat()).toBe(KafkaError.REBALANCE_IN_PROGRESS);
    classic.join();
    expect(classic.joined?.leader).toBe(classic.memberId);
    classic.sync();
    expect([classic.heartbeat(), classic.partitions]).toEqual([0, [0, 1, 2, 3]]);
  });

  it('does so when its session ends, and is a classic one after a restart', async () => {
    const { run, classic } = classicGroup();
    run.member('m').join();
    for (let i = 0; i < 9; i++) {
      run.clock.advance(5_000);
      if (classic.heartbeat() === KafkaError.REBALANCE_IN_PROGRESS) {
        classic.join();
        classic.sync();
      }
    }
    run.log.write();
    await run.restart();
    expect(run.coordinator.list()).toMatchObject([{ type: 'classic' }]);
    expect(run.coordinator.get('g')!.classic!.members.size).toBe(1);
  });

  it('stays where the policy forbids it', () => {
    const { run, classic } = classicGroup();
    run.consumer.downgrades = false;
    const modern = run.member('m');
    modern.join();
    classic.join();
    classic.sync();
    modern.leave();
    expect(run.coordinator.list()[0]!.type).toBe('consumer');
  });
});

import { describe, expect, it } from 'vitest';
import { KafkaError } from '../../src/protocol/errors.ts';
import { GroupRun, protocols } from './group-run.ts';

const text = (bytes: Uint8Array | undefined) => Buffer.from(bytes ?? []).toString();

describe('joining', () => {
  it('makes the first member the leader, and begins a generation with it at once', () => {
    const run = new GroupRun();
    const { answer } = run.join();
    expect(answer).toMatchObject({ errorCode: 0, memberId: 'c-0', leader: 'c-0', generationId: 1 });
    expect(answer!.members.map((member) => member.memberId)).toEqual(['c-0']);
    expect(run.group.state).toBe('CompletingRebalance');
  });

  it('waits for all members, and tells the leader of them', () => {
    const run = new GroupRun();
    const [leader] = run.stable(1);
    const second = run.join();
    expect(second.answers).toBe(0);
    expect(run.group.heartbeat(leader!, null, 1)).toBe(KafkaError.REBALANCE_IN_PROGRESS);
    const rejoined = run.join(leader!);
    expect(rejoined.answer).toMatchObject({ generationId: 2, leader });
    expect(rejoined.answer!.members).toHaveLength(2);
    expect(second.answer).toMatchObject({ generationId: 2, leader, members: [] });
  });

  it('drops members that do not rejoin within the rebalance timeout', () => {
    const run = new GroupRun();
    const [first] = run.stable(1);
    const second = run.join();
    for (let heartbeats = 0; heartbeats < 12; heartbeats++) {
      run.clock.advance(5_000);
      run.group.heartbeat(first!, null, 1);
    }
    expect(second.answer).toMatchObject({ generationId: 2, leader: 'c-1' });
    expect(run.group.heartbeat(first!, null, 1)).toBe(KafkaError.UNKNOWN_MEMBER_ID);
  });

  it('gives a new member its id first where it must be known, and forgets ids that are not used', () => {
    const run = new GroupRun();
    const { answer } = run.join('', { requireKnownMemberId: true });
    expect(answer).toMatchObject({ errorCode: KafkaError.MEMBER_ID_REQUIRED, memberId: 'c-0' });
    expect(run.group.state).toBe('Empty');
    expect(run.join('c-0').answer).toMatchObject({ errorCode: 0, generationId: 1 });
    run.join('', { requireKnownMemberId: true });
    expect(run.group.pendingMembers).toBe(1);
    run.clock.advance(10_000);
    expect(run.group.pendingMembers).toBe(0);
    expect(run.join('c-1').answer?.errorCode).toBe(KafkaError.UNKNOWN_MEMBER_ID);
  });

  it('bounds the ids that wait to be used', () => {
    const run = new GroupRun();
    for (let i = 0; i < 10_000; i++) run.join('', { requireKnownMemberId: true });
    expect(run.group.pendingMembers).toBe(5_000);
    expect(run.join('c-9999').answer?.errorCode).toBe(0);
  });

  it('lets go of newcomers whose connection is gone', () => {
    const run = new GroupRun();
    run.stable(1);
    for (let i = 0; i < 10_000; i++) run.join().abandon?.();
    expect(run.group.members.size).toBe(1);
  });

  it('drops newcomers after five minutes', () => {
    const run = new GroupRun();
    const [leader] = run.stable(1, { rebalanceTimeoutMs: 3_600_000 });
    const second = run.join('', { rebalanceTimeoutMs: 3_600_000 });
    for (let i = 0; i < 61; i++) {
      run.clock.advance(5_000);
      run.group.heartbeat(leader!, null, 1);
    }
    expect(second.answer?.errorCode).toBe(KafkaError.UNKNOWN_MEMBER_ID);
    expect(run.group.members.size).toBe(1);
  });

  it('refuses what shares no protocol with the others', () => {
    const run = new GroupRun();
    run.stable(1);
    const refused = (options: object) => run.join('', options).answer?.errorCode;
    expect(refused({ protocols: protocols('b') })).toBe(KafkaError.INCONSISTENT_GROUP_PROTOCOL);
    expect(refused({ protocolType: 'connect' })).toBe(KafkaError.INCONSISTENT_GROUP_PROTOCOL);
    expect(new GroupRun().join('', { protocols: [] }).answer?.errorCode).toBe(
      KafkaError.INCONSISTENT_GROUP_PROTOCOL,
    );
  });

  it('takes the protocol that most prefer among those that all offer', () => {
    const run = new GroupRun();
    const first = run.join('', { protocols: protocols('x', 'b', 'a') }).answer!.memberId;
    run.join('', { protocols: protocols('a', 'b') });
    run.join('', { protocols: protocols('a', 'b', 'y') });
    const { answer } = run.join(first, { protocols: protocols('x', 'b', 'a') });
    expect(answer?.protocolName).toBe('a');
  });

  it('bounds the group by its maximum size', () => {
    const run = new GroupRun({ maxSize: 2 });
    run.stable(2);
    expect(run.join().answer?.errorCode).toBe(KafkaError.GROUP_MAX_SIZE_REACHED);
  });

  it('answers a member that joins again at once, unless it leads or has news', () => {
    const run = new GroupRun();
    const [leader, follower] = run.stable(2);
    expect(run.join(follower!).answer).toMatchObject({ generationId: 2, leader, members: [] });
    expect(run.group.state).toBe('Stable');
    const news = run.join(follower!, { protocols: [{ name: 'a', metadata: Buffer.from('other') }] });
    expect(run.group.state).toBe('PreparingRebalance');
    expect(run.join(leader!).answer?.generationId).toBe(3);
    expect(news.answer?.generationId).toBe(3);
    run.sync(leader!, 3);
    run.written();
    run.join(leader!);
    expect(run.group.state).toBe('PreparingRebalance');
  });

  it('delays the first rebalance while members come', () => {
    const run = new GroupRun({ initialRebalanceDelayMs: 3_000 });
    const first = run.join();
    run.clock.advance(2_000);
    const second = run.join();
    run.clock.advance(2_000);
    expect([first.answers, second.answers]).toEqual([0, 0]);
    run.clock.advance(2_000);
    expect([first.answer?.generationId, second.answer?.generationId]).toEqual([1, 1]);
  });
});

describe('syncing', () => {
  it('gives nobody what is not written', () => {
    const run = new GroupRun();
    const { memberId } = run.join().answer!;
    const sync = run.sync(memberId, 1, { [memberId]: 'all' });
    expect(sync.answers).toBe(0);
    expect(run.group.state).toBe('CompletingRebalance');
    run.written();
    expect(text(sync.answer?.assignment)).toBe('all');
    expect(run.group.state).toBe('Stable');
  });

  it('rebalances when the assignment could not be written', () => {
    const run = new GroupRun();
    const { memberId } = run.join().answer!;
    const sync = run.sync(memberId, 1, { [memberId]: 'all' });
    run.written(KafkaError.NOT_COORDINATOR);
    expect(sync.answer?.errorCode).toBe(KafkaError.NOT_COORDINATOR);
    expect(run.group.state).toBe('PreparingRebalance');
    expect(run.join(memberId).answer?.generationId).toBe(2);
  });

  it('lets followers wait for the leader, and sends them back when a rebalance comes first', () => {
    const run = new GroupRun();
    const [leader] = run.stable(1);
    const second = run.join();
    run.join(leader!);
    const follower = second.answer!.memberId;
    const waiting = run.sync(follower, 2);
    run.join();
    expect(waiting.answer?.errorCode).toBe(KafkaError.REBALANCE_IN_PROGRESS);
    expect(run.sync(follower, 2).answer?.errorCode).toBe(KafkaError.REBALANCE_IN_PROGRESS);
  });

  it('ignores a write that ends when the generation has gone', () => {
    const run = new GroupRun();
    const { memberId } = run.join().answer!;
    run.sync(memberId, 1, { [memberId]: 'old' });
    const second = run.join();
    run.written();
    expect(run.group.state).toBe('PreparingRebalance');
    expect(run.join(memberId).answer?.generationId).toBe(2);
    expect(second.answer?.generationId).toBe(2);
    expect(text(run.group.members.get(memberId)?.assignment)).toBe('');
  });

  it('drops members that never sync', () => {
    const run = new GroupRun();
    const first = run.join().answer!.memberId;
    const second = run.join('', { sessionTimeoutMs: 300_000 });
    run.join(first);
    run.sync(first, 2);
    run.written();
    const silent = second.answer!.memberId;
    for (let i = 0; i < 13; i++) {
      run.clock.advance(5_000);
      run.group.heartbeat(first, null, 2);
      run.group.heartbeat(silent, null, 2);
    }
    expect(run.group.heartbeat(silent, null, 2)).toBe(KafkaError.UNKNOWN_MEMBER_ID);
    expect(run.group.state).toBe('PreparingRebalance');
  });

  it('judges generation, member and protocol', () => {
    const run = new GroupRun();
    const [leader] = run.stable(1);
    expect(run.sync(leader!, 2).answer?.errorCode).toBe(KafkaError.ILLEGAL_GENERATION);
    expect(run.sync('nobody', 1).answer?.errorCode).toBe(KafkaError.UNKNOWN_MEMBER_ID);
    expect(text(run.sync(leader!, 1).answer?.assignment)).toBe(`for ${leader}`);
  });
});

describe('sessions', () => {
  it('end without heartbeats, and the others rebalance', () => {
    const run = new GroupRun();
    const [first, second] = run.stable(2);
    run.clock.advance(9_000);
    expect(run.group.heartbeat(first!, null, 2)).toBe(0);
    run.clock.advance(1_000);
    expect(run.group.heartbeat(second!, null, 2)).toBe(KafkaError.UNKNOWN_MEMBER_ID);
    expect(run.group.heartbeat(first!, null, 2)).toBe(KafkaError.REBALANCE_IN_PROGRESS);
    expect(run.join(first!).answer?.members).toHaveLength(1);
  });

  it('last while a join waits', () => {
    const run = new GroupRun();
    const [first, second] = run.stable(2, { rebalanceTimeoutMs: 100_000 });
    const waiting = run.join(first!, { rebalanceTimeoutMs: 100_000 });
    for (let i = 0; i < 10; i++) {
      run.clock.advance(5_000);
      run.group.heartbeat(second!, null, 2);
    }
    expect(waiting.answers).toBe(0);
    run.join(second!);
    expect(waiting.answer?.errorCode).toBe(0);
  });

  it('leave an empty group behind', () => {
    const run = new GroupRun();
    run.stable(3);
    run.clock.advance(20_000);
    expect(run.group.members.size).toBe(0);
    // The first to go began a rebalance; those who rejoin it are none.
    expect(run.group.state).toBe('Empty');
    expect(run.group.generationId).toBe(3);
    expect(run.clock.pendingTimers).toBe(0);
  });
});

describe('leaving', () => {
  it('is at once, for many, with a code for each', () => {
    const run = new GroupRun();
    const [first, second, third] = run.stable(3);
    const identities = [second, 'nobody', third].map((memberId) => ({
      memberId: memberId!,
      groupInstanceId: null,
      reason: null,
    }));
    expect(run.group.leave(identities)).toEqual([0, KafkaError.UNKNOWN_MEMBER_ID, 0]);
    expect(run.group.state).toBe('PreparingRebalance');
    expect(run.join(first!).answer?.members).toHaveLength(1);
  });

  it('empties a group', () => {
    const run = new GroupRun();
    const [only] = run.stable(1);
    run.group.leave([{ memberId: only!, groupInstanceId: null, reason: null }]);
    expect(run.group).toMatchObject({
      state: 'Empty',
      generationId: 2,
      protocolType: 'consumer',
      protocolName: null,
    });
    expect(run.persisted.at(-1)?.size).toBe(0);
  });
});

describe('static members', () => {
  const instance = { groupInstanceId: 'i' };

  function staticGroup(run: GroupRun): string {
    const { memberId } = run.join('', instance).answer!;
    run.sync(memberId, 1, { [memberId]: 'mine' }, 'i');
    run.written();
    return memberId;
  }

  it('keep their assignment without a rebalance when they come back, once that is written', () => {
    const run = new GroupRun();
    const before = staticGroup(run);
    const back = run.join('', instance);
    expect(back.answers).toBe(0);
    run.written();
    const { memberId } = back.answer!;
    expect(memberId).not.toBe(before);
    expect(back.answer).toMatchObject({ generationId: 1, leader: memberId, skipAssignment: true });
    expect(back.answer!.members).toHaveLength(1);
    expect(text(run.sync(memberId, 1, {}, 'i').answer?.assignment)).toBe('mine');
    expect(run.group.heartbeat(before, 'i', 1)).toBe(KafkaError.FENCED_INSTANCE_ID);
    expect(run.group.judgeCommit(before, 'i', 1)).toBe(KafkaError.FENCED_INSTANCE_ID);
  });

  it('act as followers where the client can not skip the assignment', () => {
    const run = new GroupRun();
    const before = staticGroup(run);
    const back = run.join('', { ...instance, supportsSkippingAssignment: false });
    run.written();
    expect(back.answer).toMatchObject({ leader: before, skipAssignment: false, members: [] });
  });

  it('get their former id back when it could not be written', () => {
    const run = new GroupRun();
    const before = staticGroup(run);
    const back = run.join('', instance);
    run.written(KafkaError.NOT_COORDINATOR);
    expect(back.answer?.errorCode).toBe(KafkaError.NOT_COORDINATOR);
    expect(run.group.heartbeat(before, 'i', 1)).toBe(0);
  });

  it('rebalance when they change the protocol', () => {
    const run = new GroupRun();
    staticGroup(run);
    const back = run.join('', { ...instance, protocols: protocols('b', 'a') });
    expect(back.answer).toMatchObject({ generationId: 2, protocolName: 'b' });
  });

  it('fence a former self that waits', () => {
    const run = new GroupRun();
    const first = staticGroup(run);
    const second = run.join('', { groupInstanceId: 'j' });
    const again = run.join('', { groupInstanceId: 'j' });
    expect(second.answer?.errorCode).toBe(KafkaError.FENCED_INSTANCE_ID);
    expect(again.answers).toBe(0);
    run.join(first, instance);
    expect(again.answer).toMatchObject({ errorCode: 0, generationId: 2 });
  });

  it('stay until their session ends, though they do not rejoin', () => {
    const run = new GroupRun();
    const first = run.join('', { ...instance, sessionTimeoutMs: 500_000 }).answer!.memberId;
    run.sync(first, 1, {}, 'i');
    run.written();
    const second = run.join();
    run.clock.advance(60_000);
    expect(second.answer).toMatchObject({ errorCode: 0, generationId: 2 });
    expect(run.group.members.size).toBe(2);
  });

  it('are removed by their instance id alone', () => {
    const run = new GroupRun();
    staticGroup(run);
    expect(run.group.leave([{ memberId: '', groupInstanceId: 'i', reason: null }])).toEqual([0]);
    expect(run.group.state).toBe('Empty');
  });
});

describe('commits', () => {
  it('are judged by generation and member, and by who may commit to an empty group', () => {
    const run = new GroupRun();
    expect(run.group.judgeCommit('', null, -1)).toBe(0);
    const [member] = run.stable(1);
    expect(run.group.judgeCommit(member!, null, 1)).toBe(0);
    expect(run.group.judgeCommit(member!, null, 2)).toBe(KafkaError.ILLEGAL_GENERATION);
    expect(run.group.judgeCommit('', null, -1)).toBe(KafkaError.UNKNOWN_MEMBER_ID);
    run.join(member!);
    expect(run.group.judgeCommit(member!, null, 2)).toBe(KafkaError.REBALANCE_IN_PROGRESS);
  });
});

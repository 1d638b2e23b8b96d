import { describe, expect, it } from 'vitest';
import { KafkaError } from '../../src/protocol/errors.ts';
import { ConsumerRun, SESSION_MS } from './consumer-run.ts';

describe('joining and leaving', () => {
  it('gives the first member everything with the first answer', () => {
    const run = new ConsumerRun();
    const a = run.member('a');
    expect(a.join()).toMatchObject({ errorCode: 0, memberId: 'a', memberEpoch: 2 });
    expect(a.has).toBe('t 0,1,2,3');
    expect(run.group.state).toBe('Stable');
    expect(a.heartbeat().assignment).toBeNull();
  });

  it('moves a partition only after its owner has given it up', () => {
    const run = new ConsumerRun();
    const [a, b] = [run.member('a'), run.member('b')];
    a.join();
    b.join();
    expect([b.epoch, b.has]).toEqual([3, '']);
    expect(run.group.state).toBe('Reconciling');
    b.heartbeat();
    expect(b.has).toBe('');
    const told = a.heartbeat();
    // It stays in its epoch until it has let go.
    expect([told.memberEpoch, a.has]).toEqual([2, 't 0,1']);
    expect(b.heartbeat().assignment).toBeNull();
    expect(a.heartbeat()).toMatchObject({ memberEpoch: 3, assignment: null });
    b.heartbeat();
    expect(b.has).toBe('t 2,3');
    expect(run.group.state).toBe('Stable');
  });

  it('gives what a member leaves behind to the others', () => {
    const run = new ConsumerRun();
    const [a, b] = [run.member('a'), run.member('b')];
    a.join();
    b.join();
    for (let i = 0; i < 2; i++) for (const member of [a, b]) member.heartbeat();
    expect(a.leave()).toMatchObject({ errorCode: 0, memberEpoch: -1 });
    expect(run.group.state).toBe('Assigning');
    b.heartbeat();
    expect(b.has).toBe('t 0,1,2,3');
    b.leave();
    expect(run.group.state).toBe('Empty');
    expect(b.heartbeat().errorCode).toBe(KafkaError.UNKNOWN_MEMBER_ID);
  });

  it('removes a member that is silent, and one that does not revoke', () => {
    const run = new ConsumerRun();
    const [a, b] = [run.member('a', { rebalanceTimeoutMs: 10_000 }), run.member('b')];
    a.join();
    b.join();
    a.heartbeat();
    expect(a.has).toBe('t 0,1');
    run.clock.advance(9_999);
    a.heartbeat({ topicPartitions: null });
    expect(run.group.members.size).toBe(2);
    run.clock.advance(1);
    expect(run.group.members.size).toBe(1);
    run.clock.advance(SESSION_MS);
    expect(run.group.state).toBe('Empty');
  });

  it('is there again after a restart, as it was', async () => {
    const run = new ConsumerRun();
    const [a, b] = [run.member('a'), run.member('b')];
    a.join();
    b.join();
    a.heartbeat();
    await run.restart();
    expect(run.group.epoch).toBe(3);
    expect(run.group.state).toBe('Reconciling');
    expect(a.heartbeat()).toMatchObject({ errorCode: 0, memberEpoch: 3 });
    b.heartbeat();
    expect([a.has, b.has]).toEqual(['t 0,1', 't 2,3']);
    run.clock.advance(SESSION_MS);
    expect(run.group.state).toBe('Empty');
    run.log.write();
    await run.restart();
    expect(run.group.state).toBe('Empty');
  });
});

describe('members that are not who they say', () => {
  it('have to join again when their epoch is another, but for a lost answer', () => {
    const run = new ConsumerRun();
    const [a, b] = [run.member('a'), run.member('b')];
    a.join();
    b.join();
    a.heartbeat();
    a.heartbeat();
    expect(a.epoch).toBe(3);
    const own = a.owned;
    const said = (memberEpoch: number, topicPartitions: typeof own | null) =>
      run.ask({ memberId: 'a', memberEpoch, topicPartitions }).errorCode;
    expect(said(2, own)).toBe(0);
    expect(said(2, null)).toBe(KafkaError.FENCED_MEMBER_EPOCH);
    expect(said(2, new Map([[own.keys().next().value!, [0, 1, 2]]]))).toBe(KafkaError.FENCED_MEMBER_EPOCH);
    expect(said(1, own)).toBe(KafkaError.FENCED_MEMBER_EPOCH);
    expect(said(4, own)).toBe(KafkaError.FENCED_MEMBER_EPOCH);
    expect(run.ask({ memberId: 'c', memberEpoch: 3 }).errorCode).toBe(KafkaError.UNKNOWN_MEMBER_ID);
    expect(a.join()).toMatchObject({ errorCode: 0, memberEpoch: 3 });
    expect(a.has).toBe('t 0,1');
  });

  it('are refused when the group is full, or the request makes no sense', () => {
    const run = new ConsumerRun();
    run.consumer.maxSize = 1;
    run.member('a').join();
    expect(run.member('b').join().errorCode).toBe(KafkaError.GROUP_MAX_SIZE_REACHED);
    const code = (options: object) => run.member('c', options).join().errorCode;
    expect(code({ serverAssignor: 'none' })).toBe(KafkaError.UNSUPPORTED_ASSIGNOR);
    expect(code({ rebalanceTimeoutMs: -1 })).toBe(KafkaError.INVALID_REQUEST);
    expect(code({ instanceId: '' })).toBe(KafkaError.INVALID_REQUEST);
    expect(code({ subscribedTopicRegex: '(' })).toBe(KafkaError.INVALID_REGULAR_EXPRESSION);
    const other = { groupId: 'other', memberId: 'a', memberEpoch: 1 };
    expect(run.ask(other).errorCode).toBe(KafkaError.GROUP_ID_NOT_FOUND);
  });
});

describe('static members', () => {
  const instance = { instanceId: 'i' };

  it('come back to what they had, without a rebalance', () => {
    const run = new ConsumerRun();
    const [first, second, next] = ['1', '2', '3'].map((id) => run.member(id, instance));
    first!.join();
    expect(second!.join().errorCode).toBe(KafkaError.UNRELEASED_INSTANCE_ID);
    expect(first!.leave(-2)).toMatchObject({ errorCode: 0, memberEpoch: -2 });
    expect(next!.join()).toMatchObject({ errorCode: 0, memberEpoch: 2 });
    expect([next!.has, run.group.epoch]).toEqual(['t 0,1,2,3', 2]);
    expect(first!.heartbeat().errorCode).toBe(KafkaError.FENCED_INSTANCE_ID);
    expect(first!.leave().errorCode).toBe(KafkaError.FENCED_INSTANCE_ID);
    expect(next!.leave().errorCode).toBe(0);
    expect(run.group.state).toBe('Empty');
  });

  it('lose their place when they do not come back in time, over a restart too', async () => {
    const run = new ConsumerRun();
    const member = run.member('1', instance);
    member.join();
    member.leave(-2);
    await run.restart();
    run.clock.advance(SESSION_MS - 1);
    expect(run.group.members.size).toBe(1);
    run.clock.advance(1);
    expect(run.group.members.size).toBe(0);
  });
});

describe('topics', () => {
  it('raise the epoch when they are made, grow or go, and only then', () => {
    const run = new ConsumerRun();
    const a = run.member('a', { subscribedTopicRegex: '[tu]' });
    a.join();
    const told = () => {
      a.heartbeat();
      return [a.has, run.group.epoch];
    };
    run.topic('x', 1);
    expect(told()).toEqual(['t 0,1,2,3', 2]);
    run.topic('u', 1);
    expect(told()).toEqual(['t 0,1,2,3 u 0', 3]);
    run.topic('t', 5);
    expect(told()).toEqual(['t 0,1,2,3,4 u 0', 4]);
    run.topics.delete('t');
    run.coordinator.topicChanged('t');
    expect(told()).toEqual(['u 0', 5]);
    expect(run.group.subscribesTo('x')).toBe(false);
  });
});

describe('the pace of heartbeats', () => {
  it('is quick while a member waits for another, and slows down', () => {
    const run = new ConsumerRun();
    const [a, b] = [run.member('a'), run.member('b')];
    a.join();
    expect(b.join().heartbeatIntervalMs).toBe(10);
    run.clock.advance(200);
    expect(b.heartbeat().heartbeatIntervalMs).toBe(50);
    a.heartbeat();
    a.heartbeat();
    b.heartbeat();
    run.clock.advance(60_000);
    // Both are gone but for their last heartbeat: the session is over.
    expect(run.group.state).toBe('Empty');
    expect(a.join().heartbeatIntervalMs).toBeLessThanOrEqual(100);
  });

  it('waits for group.consumer.assignment.interval.ms where one is set', () => {
    const run = new ConsumerRun();
    run.consumer.assignmentMs = 1000;
    const [a, b] = [run.member('a'), run.member('b')];
    a.join();
    expect(a.has).toBe('t 0,1,2,3');
    b.join();
    expect(run.group.state).toBe('Assigning');
    run.clock.advance(1000);
    a.heartbeat();
    expect([run.group.state, a.has]).toEqual(['Reconciling', 't 0,1']);
  });
});

describe('a write that fails', () => {
  it('is told, and made up for with the next', async () => {
    const run = new ConsumerRun();
    const { answers } = run.send({
      memberId: 'a',
      rebalanceTimeoutMs: 1000,
      subscribedTopicNames: ['t'],
      topicPartitions: new Map(),
    });
    expect(answers).toEqual([]);
    run.log.write(KafkaError.KAFKA_STORAGE_ERROR);
    expect(answers).toMatchObject([{ errorCode: KafkaError.NOT_COORDINATOR, assignment: null }]);
    const a = run.member('a');
    expect(a.join()).toMatchObject({ errorCode: 0, memberEpoch: 2 });
    await run.restart();
    expect([run.group.state, run.group.epoch]).toEqual(['Stable', 2]);
    expect(a.heartbeat().errorCode).toBe(0);
  });
});

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

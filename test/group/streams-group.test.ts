import { describe, expect, it } from 'vitest';
import { StreamsStatus } from '../../src/group/streams-types.ts';
import { KafkaError } from '../../src/protocol/errors.ts';
import { SESSION_MS } from './consumer-run.ts';
import { internalTopic, STATEFUL, StreamsRun, subtopology, topology } from './streams-run.ts';

const statusOf = ({ status }: { readonly status: readonly { readonly statusCode: number }[] }) =>
  status.map(({ statusCode }) => statusCode);

describe('a streams group', () => {
  it('gives its first member all tasks with the first answer', async () => {
    const run = new StreamsRun();
    const a = run.streamsMember('a');
    expect(await a.join()).toMatchObject({ errorCode: 0, memberId: 'a', memberEpoch: 2, status: [] });
    expect(a.has).toBe('0_0,0_1,0_2,0_3');
    expect(run.streamsGroup.state).toBe('Stable');
    expect((await a.heartbeat()).tasks).toBeNull();
    expect(run.coordinator.list()).toMatchObject([{ groupId: 'g', type: 'streams', state: 'Stable' }]);
  });

  it('moves a task only after its owner has given it up', async () => {
    const run = new StreamsRun();
    const [a, b] = [run.streamsMember('a'), run.streamsMember('b')];
    await a.join();
    await b.join();
    expect([b.epoch, b.has]).toEqual([3, '']);
    expect(run.streamsGroup.state).toBe('Reconciling');
    const told = await a.heartbeat();
    expect([told.memberEpoch, a.has]).toEqual([2, '0_0,0_1']);
    expect((await b.heartbeat()).tasks).toBeNull();
    expect(await a.heartbeat()).toMatchObject({ memberEpoch: 3, tasks: null });
    await b.heartbeat();
    expect(b.has).toBe('0_2,0_3');
    expect(run.streamsGroup.state).toBe('Stable');
  });

  it('gives what a member leaves behind to the others, and ends empty', async () => {
    const run = new StreamsRun();
    const [a, b] = [run.streamsMember('a'), run.streamsMember('b')];
    await a.join();
    await b.join();
    for (let i = 0; i < 2; i++) for (const member of [a, b]) await member.heartbeat();
    expect(await a.leave()).toMatchObject({ errorCode: 0, memberEpoch: -1 });
    await b.heartbeat();
    expect(b.has).toBe('0_0,0_1,0_2,0_3');
    run.clock.advance(SESSION_MS);
    expect(run.streamsGroup.state).toBe('Empty');
    expect((await b.heartbeat()).errorCode).toBe(KafkaError.UNKNOWN_MEMBER_ID);
    let deleted = -1;
    run.coordinator.delete('g', (code) => {
      deleted = code;
    });
    run.log.write();
    expect([deleted, run.coordinator.get('g')]).toEqual([0, undefined]);
    await run.restart();
    expect(run.coordinator.list()).toEqual([]);
  });

  it('removes a member that does not give up its tasks in time', async () => {
    const run = new StreamsRun();
    const [a, b] = [run.streamsMember('a', { rebalanceTimeoutMs: 10_000 }), run.streamsMember('b')];
    await a.join();
    await b.join();
    await a.heartbeat();
    run.clock.advance(9_999);
    await a.heartbeat({ owned: null });
    expect(run.streamsGroup.members.size).toBe(2);
    run.clock.advance(1);
    expect(run.streamsGroup.members.size).toBe(1);
  });

  it('is there again after a restart, as it was', async () => {
    const run = new StreamsRun();
    const [a, b] = [
      run.streamsMember('a', { topology: STATEFUL }),
      run.streamsMember('b', { topology: STATEFUL }),
    ];
    await a.join();
    await b.join();
    await a.heartbeat();
    await run.restart();
    expect(run.streamsGroup.state).toBe('Reconciling');
    expect(run.streamsGroup.facts.topology).toEqual(STATEFUL);
    expect(await a.heartbeat()).toMatchObject({ errorCode: 0, memberEpoch: 3 });
    await b.heartbeat();
    expect([a.has, b.has]).toEqual(['0_0,0_1', '0_2,0_3']);
    expect(run.streamsGroup.facts.epoch).toBe(3);
  });
});

describe('the topology of a streams group', () => {
  const chain = topology(
    subtopology({ sourceTopics: ['t'], repartitionSinkTopics: ['r'] }),
    subtopology({
      subtopologyId: '1',
      repartitionSourceTopics: [internalTopic('r')],
      stateChangelogTopics: [internalTopic('c')],
    }),
  );

  it('has its internal topics made before the answer', async () => {
    const run = new StreamsRun();
    const a = run.streamsMember('a', { topology: chain });
    expect(await a.join()).toMatchObject({ errorCode: 0, status: [] });
    expect(a.has).toBe('0_0,0_1,0_2,0_3,1_0,1_1,1_2,1_3');
    expect(['r', 'c'].map((name) => run.topics.partitionCount(run.topics.idOf(name)!))).toEqual([4, 4]);
  });

  it('leaves members without tasks while topics are missing or do not fit', async () => {
    const run = new StreamsRun({});
    const a = run.streamsMember('a', { topology: chain });
    expect(statusOf(await a.join())).toEqual([StreamsStatus.MISSING_SOURCE_TOPICS]);
    expect(run.streamsGroup.state).toBe('NotReady');
    run.failure = 'no room';
    run.topic('t', 2);
    const failed = await a.heartbeat();
    expect(statusOf(failed)).toEqual([StreamsStatus.MISSING_INTERNAL_TOPICS]);
    expect(failed.status[0]!.statusDetail).toBe('Internal topics are missing: c, r; no room');
    run.failure = '';
    run.clock.advance(5_000);
    await a.heartbeat();
    expect(a.has).toBe('0_0,0_1,1_0,1_1');
    run.topic('c', 3);
    expect(statusOf(await a.heartbeat())).toEqual([StreamsStatus.INCORRECTLY_PARTITIONED_TOPICS]);
    expect(a.has).toBe('');
    run.topic('c', 2);
    await a.heartbeat();
    await a.heartbeat();
    expect(a.has).toBe('0_0,0_1,1_0,1_1');
  });

  it('stays as the first member gave it', async () => {
    const run = new StreamsRun();
    await run.streamsMember('a').join();
    const other = await run.streamsMember('b', { topology: chain }).join();
    expect(other.errorCode).toBe(KafkaError.INVALID_REQUEST);
    expect(run.topics.idOf('r')).toBeUndefined();
    expect(run.streamsGroup.members.size).toBe(1);
  });

  it('is refused where no topics could fit it', async () => {
    const run = new StreamsRun();
    const join = async (...subtopologies: Parameters<typeof topology>) =>
      (await run.streamsMember('a', { topology: topology(...subtopologies) }).join()).errorCode;
    const invalid = KafkaError.STREAMS_INVALID_TOPOLOGY;
    expect(await join(subtopology())).toBe(invalid);
    expect(await join(subtopology({ repartitionSourceTopics: [internalTopic('r')] }))).toBe(invalid);
    expect(await join(subtopology({ sourceTopics: ['__consumer_offsets'] }))).toBe(invalid);
    expect(await join(subtopology({ sourceTopics: ['a b'] }))).toBe(invalid);
    const index = { sourceTopics: [1], sourceTopicRegex: [], repartitionSourceTopics: [] };
    expect(await join(subtopology({ sourceTopics: ['t'], copartitionGroups: [index] }))).toBe(invalid);
    expect(await join(subtopology({ sourceTopicRegex: ['t.*'] }))).toBe(KafkaError.INVALID_REQUEST);
    expect(run.coordinator.get('g')).toBeUndefined();
  });

  it('has topics of one copartition group equal', async () => {
    const both = { sourceTopics: [0], sourceTopicRegex: [], repartitionSourceTopics: [0] };
    const joined = (partitions: number) =>
      topology(
        subtopology({ sourceTopics: ['u'], repartitionSinkTopics: ['r'] }),
        subtopology({
          subtopologyId: '1',
          sourceTopics: ['t'],
          repartitionSourceTopics: [internalTopic('r', partitions)],
          copartitionGroups: [both],
        }),
      );
    const run = new StreamsRun({ t: 4, u: 2 });
    await run.streamsMember('a', { topology: joined(0) }).join();
    expect(run.topics.partitionCount(run.topics.idOf('r')!)).toBe(4);
    const other = new StreamsRun({ t: 4, u: 2 });
    const answer = await other.streamsMember('a', { topology: joined(3) }).join();
    expect(statusOf(answer)).toEqual([StreamsStatus.INCORRECTLY_PARTITIONED_TOPICS]);
  });
});

describe('copies', () => {
  it('stand by in other processes, and become active there', async () => {
    const run = new StreamsRun({ t: 2 });
    run.streams.standbyReplicas = () => 1;
    const member = (name: string) => run.streamsMember(name, { topology: STATEFUL });
    const [a, b] = [member('a'), member('b')];
    await a.join();
    expect(a.has).toBe('0_0,0_1');
    await b.join();
    for (let i = 0; i < 3; i++) for (const each of [a, b]) await each.heartbeat();
    expect([a.has, b.has]).toEqual(['0_0 standby 0_1', '0_1 standby 0_0']);
    await a.leave();
    await b.heartbeat();
    await b.heartbeat();
    expect(b.has).toBe('0_0,0_1');
  });

  it('are handed over at once within a member', async () => {
    const run = new StreamsRun({ t: 2 });
    run.streams.standbyReplicas = () => 1;
    const member = (name: string) => run.streamsMember(name, { topology: STATEFUL });
    const [a, b] = [member('a'), member('b')];
    await a.join();
    await b.join();
    const told = await a.heartbeat();
    // It still has to say that it no longer processes 0_1.
    expect([told.memberEpoch, a.has]).toEqual([2, '0_0 standby 0_1']);
    await b.heartbeat();
    expect(b.has).toBe('standby 0_0');
    await a.heartbeat();
    await b.heartbeat();
    expect(b.has).toBe('0_1 standby 0_0');
  });
});

describe('a member', () => {
  it('of an instance leaves for a time, and comes back to its tasks under another id', async () => {
    const run = new StreamsRun();
    const [first, next] = [
      run.streamsMember('first', { instanceId: 'i', processId: 'p' }),
      run.streamsMember('next', { instanceId: 'i', processId: 'p' }),
    ];
    await first.join();
    expect((await next.join()).errorCode).toBe(KafkaError.UNRELEASED_INSTANCE_ID);
    expect(await first.leave(-2)).toMatchObject({ errorCode: 0, memberEpoch: -2 });
    expect(run.streamsGroup.state).toBe('Reconciling');
    expect(await next.join()).toMatchObject({ errorCode: 0, memberEpoch: 2 });
    expect(next.has).toBe('0_0,0_1,0_2,0_3');
    expect((await first.heartbeat()).errorCode).toBe(KafkaError.FENCED_INSTANCE_ID);
  });

  it('has to join again when its epoch is another, but for a lost answer', async () => {
    const run = new StreamsRun();
    const [a, b] = [run.streamsMember('a'), run.streamsMember('b')];
    await a.join();
    await b.join();
    await a.heartbeat();
    await a.heartbeat();
    expect(a.epoch).toBe(3);
    const { owned } = a;
    const said = async (memberEpoch: number, all: typeof owned | null) =>
      (await run.askStreams({ memberId: 'a', memberEpoch, owned: all })).errorCode;
    expect(await said(2, owned)).toBe(0);
    expect(await said(2, null)).toBe(KafkaError.FENCED_MEMBER_EPOCH);
    expect(await said(4, owned)).toBe(KafkaError.FENCED_MEMBER_EPOCH);
    const foreign = { ...owned, active: new Map([['0', [9]]]) };
    expect(await said(3, foreign)).toBe(KafkaError.INVALID_REQUEST);
  });

  it('is told again what it does not know that it has', async () => {
    const run = new StreamsRun();
    const [a, b] = [run.streamsMember('a'), run.streamsMember('b')];
    await a.join();
    await b.join();
    // Answers are lost.
    await run.askStreams({ memberId: 'a', memberEpoch: 2, owned: a.owned });
    await a.heartbeat();
    expect(a.has).toBe('0_0,0_1');
    await a.heartbeat();
    await run.askStreams({ memberId: 'b', memberEpoch: 3, owned: b.owned });
    expect(b.has).toBe('');
    await b.heartbeat();
    expect(b.has).toBe('0_2,0_3');
    expect((await b.heartbeat()).tasks).toBeNull();
  });

  it('tells all others to end, until nobody is left', async () => {
    const run = new StreamsRun();
    const [a, b] = [run.streamsMember('a'), run.streamsMember('b')];
    await a.join();
    await b.join();
    await a.heartbeat({ shutdownApplication: true });
    expect(statusOf(await b.heartbeat())).toEqual([StreamsStatus.SHUTDOWN_APPLICATION]);
    await a.leave();
    await b.leave();
    expect(statusOf(await a.join())).toEqual([]);
  });

  it('hears where which partitions can be asked for when that has changed', async () => {
    const run = new StreamsRun({ t: 2 });
    const a = run.streamsMember('a', {
      userEndpoint: { host: 'h', port: 1 },
      endpointInformationEpoch: -1,
    });
    const { endpointInformationEpoch: epoch, endpoints } = await a.join();
    expect(endpoints).toEqual([
      {
        userEndpoint: { host: 'h', port: 1 },
        activePartitions: [{ topic: 't', partitions: [0, 1] }],
        standbyPartitions: [],
      },
    ]);
    expect((await a.heartbeat({ endpointInformationEpoch: epoch })).endpoints).toBeNull();
    expect((await a.heartbeat({ endpointInformationEpoch: -1 })).endpoints).toHaveLength(1);
  });
});

describe('an assignment that is delayed', () => {
  it('waits for more members of a new group where a delay is set', async () => {
    const run = new StreamsRun();
    run.streams.initialRebalanceDelayMs = () => 3_000;
    const [a, b] = [run.streamsMember('a'), run.streamsMember('b')];
    expect(statusOf(await a.join())).toEqual([StreamsStatus.ASSIGNMENT_DELAYED]);
    expect([a.epoch, a.has, run.streamsGroup.state]).toEqual([1, '', 'Assigning']);
    await b.join();
    run.clock.advance(3_000);
    await a.heartbeat();
    await b.heartbeat();
    expect([a.has, b.has]).toEqual(['0_0,0_2', '0_1,0_3']);
  });

  it('waits for group.streams.assignment.interval.ms', async () => {
    const run = new StreamsRun();
    run.streams.assignmentIntervalMs = () => 1_000;
    await run.streamsMember('a').join();
    const b = run.streamsMember('b');
    expect(statusOf(await b.join())).toEqual([StreamsStatus.ASSIGNMENT_DELAYED]);
    run.clock.advance(1_000);
    expect(statusOf(await b.heartbeat())).toEqual([]);
  });
});

describe('offsets of a streams group', () => {
  const offsetOf = (run: StreamsRun, partition: number) => ({
    topic: 't',
    topicId: run.topics.idOf('t')!,
    partition,
    offset: 5,
    leaderEpoch: -1,
    metadata: null,
  });

  async function commit(
    run: StreamsRun,
    memberId: string,
    generationId: number,
    partition = 0,
  ): Promise<number> {
    let code = -1;
    run.coordinator.offsets.commit(
      {
        groupId: 'g',
        memberId,
        groupInstanceId: null,
        generationId,
        retentionTimeMs: -1,
        version: 9,
        offsets: [offsetOf(run, partition)],
      },
      ([first]) => {
        code = first!;
      },
    );
    run.log.write();
    return code;
  }

  it('are committed by whoever processes the task since that epoch', async () => {
    const run = new StreamsRun();
    const [a, b] = [run.streamsMember('a'), run.streamsMember('b')];
    await a.join();
    await b.join();
    for (let i = 0; i < 2; i++) for (const member of [a, b]) await member.heartbeat();
    expect([a.epoch, b.epoch]).toEqual([3, 3]);
    expect(await commit(run, 'a', 3)).toBe(0);
    expect(await commit(run, 'a', 2)).toBe(0);
    expect(await commit(run, 'a', 2, 3)).toBe(KafkaError.STALE_MEMBER_EPOCH);
    expect(await commit(run, 'b', 2, 3)).toBe(KafkaError.STALE_MEMBER_EPOCH);
    expect(await commit(run, 'c', 3)).toBe(KafkaError.UNKNOWN_MEMBER_ID);
    expect(await commit(run, '', -1)).toBe(KafkaError.UNKNOWN_MEMBER_ID);
    const inTransaction = (memberId: string, generationId: number) => {
      let codes: readonly number[] = [];
      run.coordinator.offsets.commitInTransaction(
        {
          groupId: 'g',
          memberId,
          groupInstanceId: null,
          generationId,
          offsets: [offsetOf(run, 0)],
          producerId: 1,
          producerEpoch: 0,
        },
        (each) => {
          codes = each;
        },
      );
      run.log.write();
      return codes;
    };
    expect(inTransaction('a', 3)).toEqual([0]);
    expect(inTransaction('b', 1)).toEqual([KafkaError.ILLEGAL_GENERATION]);
    await a.leave();
    await b.leave();
    expect(await commit(run, '', -1)).toBe(0);
  });
});

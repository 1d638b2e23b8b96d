import { describe, expect, it } from 'vitest';
import { KafkaError } from '../../src/protocol/errors.ts';
import { statusName } from '../../src/transaction/transaction-state.ts';
import { SETTINGS, World } from './fake-world.ts';

const { NONE, CONCURRENT_TRANSACTIONS, INVALID_PRODUCER_ID_MAPPING, KAFKA_STORAGE_ERROR, PRODUCER_FENCED } =
  KafkaError;

function shown(world: World, id = 'tx'): string {
  const state = world.coordinator.state(id);
  return state === undefined
    ? 'unknown'
    : `${statusName(state.status)} ${state.producerId}/${state.producerEpoch}`;
}

describe('a transaction', () => {
  it('is committed step by step, and answered when the markers are written', async () => {
    const world = new World();
    const p = await world.init('tx');
    expect(p).toEqual({ errorCode: NONE, producerId: 1000, producerEpoch: 0 });
    const added = [...world.add('tx', p, 't'), ...world.add('tx', p, 'u')];
    expect([added, shown(world)]).toEqual([[], 'Ongoing 1000/0']);
    world.settle();
    const answers = world.end('tx', p, true);
    expect([shown(world), world.partitions.waiting]).toEqual(['PrepareCommit 1000/1', 0]);
    world.log.write();
    expect(world.partitions.waiting).toBe(2);
    world.partitions.write();
    expect([shown(world), answers]).toEqual(['CompleteCommit 1000/1', []]);
    world.log.write();
    expect(answers).toEqual([{ errorCode: NONE, producerId: 1000, producerEpoch: 1 }]);
    expect(world.partitions.written).toEqual(['t-0 COMMIT 1000/1', 'u-0 COMMIT 1000/1']);
    expect(world.end('tx', p, true)).toEqual([{ errorCode: NONE, producerId: 1000, producerEpoch: 1 }]);
  });

  it('of another instance is aborted when an instance begins', async () => {
    const world = new World();
    const p = await world.init('tx');
    world.add('tx', p);
    world.settle();
    expect((await world.init('tx')).errorCode).toBe(CONCURRENT_TRANSACTIONS);
    world.settle();
    expect(world.partitions.written).toEqual(['t-0 ABORT 1000/1']);
    expect(await world.init('tx')).toEqual({ errorCode: NONE, producerId: 1000, producerEpoch: 2 });
    expect(world.end('tx', p, true, 0)[0]!.errorCode).toBe(PRODUCER_FENCED);
  });

  it('whose time is up is aborted then, and its producer can go on', async () => {
    const world = new World();
    await world.coordinator.load();
    const p = await world.init('tx', { timeoutMs: 5000 });
    world.add('tx', p);
    world.settle();
    world.clock.advance(4999);
    expect(world.log.waiting).toBe(0);
    world.clock.advance(1);
    world.settle();
    expect([shown(world), world.partitions.written]).toEqual(['CompleteAbort 1000/1', ['t-0 ABORT 1000/1']]);
    expect(await world.init('tx', { expected: p })).toEqual({
      errorCode: NONE,
      producerId: 1000,
      producerEpoch: 1,
    });
  });

  it('has all of its time, however often one began before it', async () => {
    const world = new World();
    let p = await world.init('tx', { timeoutMs: 5000 });
    for (let i = 0; i < 3; i++) {
      world.add('tx', p);
      world.settle();
      world.clock.advance(3000);
      const answers = world.end('tx', p, true);
      world.settle();
      p = answers[0]!;
      expect(p.errorCode).toBe(NONE);
    }
    expect(world.partitions.written.filter((marker) => marker.includes('ABORT'))).toEqual([]);
  });

  it('ends after the timeout that its id has now, not after a longer one that it had before', async () => {
    const world = new World();
    const p = await world.init('tx', { timeoutMs: 600_000 });
    world.add('tx', p);
    world.settle();
    world.end('tx', p, true);
    world.settle();
    const next = await world.init('tx', { timeoutMs: 5000 });
    world.add('tx', next);
    world.settle();
    world.clock.advance(5000);
    world.settle();
    expect(shown(world)).toContain('CompleteAbort');
  });

  it('takes no batch of a partition before it is written that the partition is in it', async () => {
    const world = new World();
    const p = await world.init('tx');
    const codes = world.add('tx', p);
    expect(world.coordinator.verify('tx', p, 't', 0)).toBe(CONCURRENT_TRANSACTIONS);
    world.settle();
    expect([codes, world.coordinator.verify('tx', p, 't', 0)]).toEqual([[NONE], NONE]);
    world.add('tx', p, 'u');
    expect(world.coordinator.verify('tx', p, 't', 0)).toBe(NONE);
    expect(world.coordinator.verify('tx', p, 'u', 0)).toBe(CONCURRENT_TRANSACTIONS);
    expect(world.coordinator.verify('tx', p, 'v', 0)).toBe(KafkaError.TRANSACTION_ABORTABLE);
    world.settle();
    world.end('tx', p, true);
    expect(world.coordinator.verify('tx', p, 't', 0)).not.toBe(NONE);
  });

  it('is let go of when the topic with its state is deleted under it', async () => {
    const world = new World();
    await world.coordinator.load();
    const p = await world.init('tx', { timeoutMs: 5000 });
    world.add('tx', p);
    world.settle();
    world.end('tx', p, true);
    world.log.write();
    world.coordinator.clear();
    world.partitions.write();
    world.clock.advance(60_000);
    expect([world.log.waiting, shown(world)]).toEqual([0, 'unknown']);
    expect(world.partitions.written).toEqual(['t-0 COMMIT 1000/1']);
  });

  it.each([
    ['its time is up', 2, (world: World) => world.clock.advance(5000)],
    ['its time is up', 0, (world: World) => world.clock.advance(5000)],
    ['another instance begins', 2, (world: World) => void world.init('tx')],
    ['another instance begins', 0, (world: World) => void world.init('tx')],
  ])('gets a new producer id when %s at the last epoch (client of version %i)', async (_, version, fence) => {
    const world = new World();
    await world.coordinator.load();
    await world.init('tx', { timeoutMs: 5000 });
    Object.assign(world.coordinator.state('tx')!, { producerEpoch: 32766 });
    const last = { errorCode: NONE, producerId: 1000, producerEpoch: 32766 };
    world.add('tx', last, 't', version);
    world.settle();
    fence(world);
    await new Promise((resolve) => setImmediate(resolve));
    world.settle();
    expect([shown(world), world.partitions.written]).toEqual([
      'CompleteAbort 1001/0',
      ['t-0 ABORT 1000/32767'],
    ]);
    expect(world.end('tx', last, true, 0)[0]!.errorCode).toBe(INVALID_PRODUCER_ID_MAPPING);
    expect(await world.init('tx', { expected: last })).toEqual({
      errorCode: NONE,
      producerId: 1001,
      producerEpoch: 0,
    });
    expect((await world.init('tx', { expected: last })).errorCode).toBe(PRODUCER_FENCED);
  });

  it.each([
    ['open', 1, ['Ongoing 1000/32767', 'CompleteAbort 2000/0', 't-0 ABORT 1000/32767']],
    ['ending', 2, ['CompleteCommit 1000/32767', 'CompleteCommit 1000/32767', 't-0 COMMIT 1000/32767']],
    ['over', 3, ['CompleteCommit 1000/32767', 'CompleteCommit 1000/32767', '']],
  ])('that is %s in the log with an epoch that ran over is made good', async (_, at, outcome) => {
    const world = new World();
    const p = await world.init('tx', { timeoutMs: 5000 });
    world.add('tx', p);
    world.settle();
    world.end('tx', p, true);
    world.settle();
    const { value } = world.log.records[at]!;
    // After the version of the record and the producer id.
    Buffer.from(value!.buffer, value!.byteOffset).writeInt16BE(-32768, 10);
    const next = await new World(world.log, world.clock).restart(at + 1);
    next.settle();
    const atOnce = shown(next);
    next.clock.advance(5000);
    await new Promise((resolve) => setImmediate(resolve));
    next.settle();
    expect([atOnce, shown(next), next.partitions.written.join()]).toEqual(outcome);
    const { errorCode, producerId } = await next.init('tx');
    expect([errorCode, producerId === 1000]).toEqual([NONE, false]);
  });

  it('gets a new producer id when the epochs are used up', async () => {
    const world = new World();
    const p = await world.init('tx');
    world.settle();
    const state = world.coordinator.state('tx')!;
    Object.assign(state, { producerEpoch: 32766 });
    const last = { ...p, producerEpoch: 32766 };
    world.add('tx', last);
    world.settle();
    const answers = world.end('tx', last, true);
    await Promise.resolve();
    await Promise.resolve();
    world.settle();
    expect(answers).toEqual([{ errorCode: NONE, producerId: 1001, producerEpoch: 0 }]);
    expect(world.partitions.written).toEqual(['t-0 COMMIT 1000/32767']);
  });
});

describe('a SIGKILL', () => {
  it('at any record leaves an id that goes on: what was prepared is completed, what was open times out', async () => {
    const world = new World();
    const p = await world.init('tx', { timeoutMs: 5000 });
    world.add('tx', p, 't');
    world.add('tx', p, 'u');
    world.settle();
    world.end('tx', p, true);
    world.settle();
    const outcomes: string[] = [];
    for (let records = 0; records <= world.log.records.length; records++) {
      const written = new World(world.log, world.clock);
      const next = await written.restart(records);
      next.settle();
      const atOnce = shown(next);
      next.clock.advance(5000);
      next.settle();
      outcomes.push(`${atOnce}, ${shown(next)}: ${next.partitions.written}`);
      expect((await next.init('tx')).errorCode).toBe(NONE);
      next.coordinator.close();
    }
    expect(outcomes).toEqual([
      'unknown, unknown: ',
      'Empty 1000/0, Empty 1000/0: ',
      'Ongoing 1000/0, CompleteAbort 1000/1: t-0 ABORT 1000/1',
      'Ongoing 1000/0, CompleteAbort 1000/1: t-0 ABORT 1000/1,u-0 ABORT 1000/1',
      'CompleteCommit 1000/1, CompleteCommit 1000/1: t-0 COMMIT 1000/1,u-0 COMMIT 1000/1',
      'CompleteCommit 1000/1, CompleteCommit 1000/1: ',
    ]);
  });
});

describe('a failed write', () => {
  it('leaves the id as it was', async () => {
    const world = new World();
    const p = await world.init('tx');
    const codes = world.add('tx', p);
    world.log.write(KAFKA_STORAGE_ERROR);
    expect([codes, shown(world)]).toEqual([[KafkaError.NOT_COORDINATOR], 'Empty 1000/0']);
    world.add('tx', p);
    world.settle();
    const answers = world.end('tx', p, true);
    world.log.write(KAFKA_STORAGE_ERROR);
    expect([answers[0]!.errorCode, shown(world)]).toEqual([KafkaError.NOT_COORDINATOR, 'Ongoing 1000/0']);
  });

  it('of the first state leaves nothing', async () => {
    const world = new World();
    const answer = world.coordinator.initProducerId('tx', { timeoutMs: 1000, expected: undefined });
    while (world.log.waiting === 0) await Promise.resolve();
    world.log.write(KAFKA_STORAGE_ERROR);
    expect([(await answer).errorCode, shown(world)]).toEqual([KafkaError.NOT_COORDINATOR, 'unknown']);
  });

  it('of a marker is tried again, while the client has its answer', async () => {
    const world = new World();
    const p = await world.init('tx');
    world.add('tx', p, 'bad');
    world.add('tx', p, 'good');
    world.add('tx', p, 'gone');
    world.settle();
    world.partitions.refusals.set('bad', KAFKA_STORAGE_ERROR);
    world.partitions.refusals.set('gone', KafkaError.UNKNOWN_TOPIC_OR_PARTITION);
    const answers = world.end('tx', p, true);
    world.settle();
    expect([answers[0]!.errorCode, shown(world)]).toEqual([NONE, 'PrepareCommit 1000/1']);
    expect(world.add('tx', answers[0]!)).toEqual([CONCURRENT_TRANSACTIONS]);
    world.partitions.asked = 0;
    for (let second = 0; second < 60; second++) {
      world.clock.advance(1000);
      world.settle();
    }
    expect(shown(world)).toBe('PrepareCommit 1000/1');
    expect(world.partitions.asked).toBe(60);
    expect(world.logger.of('warn')).toHaveLength(1);
    world.partitions.refusals.delete('bad');
    world.clock.advance(1000);
    world.settle();
    expect([shown(world), answers.length]).toEqual(['CompleteCommit 1000/1', 1]);
    expect(world.partitions.written).toEqual(['good-0 COMMIT 1000/1', 'bad-0 COMMIT 1000/1']);
  });
});

describe('a prepared end', () => {
  it('is completed after a restart, though one of its topics was deleted', async () => {
    const world = new World();
    const p = await world.init('tx');
    world.add('tx', p, 'gone');
    world.add('tx', p, 'here');
    world.settle();
    world.end('tx', p, true);
    world.log.write();
    const next = await world.restart();
    next.partitions.refusals.set('gone', KafkaError.UNKNOWN_TOPIC_OR_PARTITION);
    next.settle();
    expect([shown(next), next.partitions.written]).toEqual([
      'CompleteCommit 1000/1',
      ['here-0 COMMIT 1000/1'],
    ]);
  });
});

describe('an id', () => {
  it('that is not used for long is forgotten, unless its transaction is open', async () => {
    const world = new World();
    await world.coordinator.load();
    await world.init('idle');
    const p = await world.init('open', { timeoutMs: 900_000 });
    world.clock.advance(900_000);
    world.add('open', p);
    world.settle();
    world.clock.advance(SETTINGS.expirationMs - 900_000 + SETTINGS.expirationCheckMs);
    world.settle();
    expect([shown(world, 'idle'), shown(world, 'open')]).toEqual(['unknown', 'Ongoing 1001/0']);
    const next = await world.restart();
    expect([shown(next, 'idle'), shown(next, 'open')]).toEqual(['unknown', 'Ongoing 1001/0']);
  });

  it('is forgotten with very many others, some at a time, unless it is used meanwhile', async () => {
    const world = new World();
    await world.coordinator.load();
    const ids = Array.from({ length: 1200 }, (_, i) => `id-${i}`);
    for (const id of ids) await world.init(id);
    world.clock.advance(SETTINGS.expirationMs);
    const known = () => [...world.coordinator.states()].length;
    expect([world.log.waiting, known()]).toEqual([500, 700]);
    world.settle();
    await world.init('id-1100');
    world.clock.advance(20);
    world.settle();
    expect([...world.coordinator.states()].map(({ transactionalId }) => transactionalId)).toEqual([
      'id-1100',
    ]);
    expect([...(await world.restart()).coordinator.states()].length).toBe(1);
  });

  it('is unknown to all but InitProducerId until it began', () => {
    const world = new World();
    const nobody = { errorCode: 0, producerId: 1, producerEpoch: 0 };
    expect(world.add('tx', nobody)).toEqual([KafkaError.INVALID_PRODUCER_ID_MAPPING]);
    expect(world.end('tx', nobody, true)[0]!.errorCode).toBe(KafkaError.INVALID_PRODUCER_ID_MAPPING);
    expect(world.end('', nobody, true)[0]!.errorCode).toBe(KafkaError.INVALID_REQUEST);
    world.log.available = false;
    expect(world.add('tx', nobody)).toEqual([KafkaError.COORDINATOR_NOT_AVAILABLE]);
  });
});

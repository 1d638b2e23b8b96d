/** What is asked of two brokers about transactions, right and wrong, under both protocols. */
import type { TransactionScript } from './transaction-script.ts';

type Scene = (script: TransactionScript) => Promise<void>;

const A = ['ta', 0] as const;
const B = ['ta', 1] as const;

export const SCENES: Readonly<Record<string, Scene>> = {
  async 'the classic protocol'(s) {
    const p = await s.init('c1');
    await s.end('c1', p, true, { version: 4 });
    await s.end('c1', p, false, { version: 4 });
    await s.produce('c1', p, A, 0, ['not added'], { version: 11 });
    await s.produce('c1', p, A, 0, ['not added'], { version: 10 });
    await s.add('c1', p, [A], { version: 3 });
    await s.describe('c1');
    await s.add('c1', p, [A, B], { version: 0 });
    await s.add('c1', p, [B], { version: 4, verifyOnly: true });
    await s.add('c1', p, [['tb', 0]], { version: 4, verifyOnly: true });
    await s.add('c1', p, [['missing', 0], A], { version: 3 });
    await s.add('c1', p, [['ta', 7]], { version: 4 });
    await s.produce('c1', p, A, 0, ['a', 'b'], { version: 11 });
    await s.produce('c1', p, B, 0, ['c'], { version: 9 });
    await s.produce('c1', p, ['tb', 0], 0, ['not added'], { version: 11 });
    await s.produce('c1', p, ['tb', 0], 0, ['not added'], { version: 9 });
    await s.produce('c1', p, A, 2, ['plain'], { version: 11, transactional: false });
    await s.produce(null, p, A, 2, ['no id'], { version: 11 });
    await s.producers('ta', 0);
    await s.read('ta', 0, true);
    await s.read('ta', 0, false);
    await s.end('c1', p, true, { version: 4 });
    await s.describe('c1', 'CompleteCommit');
    await s.end('c1', p, true, { version: 4 });
    await s.end('c1', p, false, { version: 3 });
    await s.read('ta', 0, true, 3);
    await s.producers('ta', 0);
    await s.add('c1', p, [A], { version: 3 });
    await s.produce('c1', p, A, 2, ['d'], { version: 11 });
    await s.end('c1', p, false, { version: 0 });
    await s.describe('c1', 'CompleteAbort');
    await s.end('c1', p, false, { version: 0 });
    await s.end('c1', p, true, { version: 0 });
    await s.read('ta', 0, true, 5);
  },

  async 'transaction.version 2'(s) {
    let p = await s.init('v2');
    await s.end('v2', p, true);
    await s.end('v2', p, false);
    await s.describe('v2', 'CompleteAbort');
    p = { ...p, epoch: p.epoch + 1 };
    await s.produce('v2', { ...p, epoch: p.epoch - 1 }, ['tc', 0], 0, ['old']);
    await s.produce('v2', { ...p, epoch: p.epoch + 1 }, ['tc', 0], 0, ['too new']);
    await s.produce('v2', p, ['tc', 0], 0, ['a', 'b']);
    await s.describe('v2');
    await s.produce('v2', p, ['tc', 1], 0, ['c']);
    await s.produce('v2', p, ['tc', 0], 0, ['a', 'b']);
    await s.produce('v2', p, ['tc', 0], 5, ['gap']);
    await s.producers('tc', 0);
    const next = await s.end('v2', p, true);
    await s.describe('v2', 'CompleteCommit');
    await s.end('v2', p, true);
    await s.end('v2', p, false);
    await s.end('v2', next, true);
    await s.read('tc', 0, true, 3);
    await s.producers('tc', 0);
    await s.produce('v2', p, ['tc', 0], 2, ['old epoch']);
    await s.produce('v2', next, ['tc', 0], 3, ['wrong sequence']);
    await s.produce('v2', next, ['tc', 0], 0, ['d']);
    await s.produce('v2', next, ['tc', 1], 0, ['e']);
    const last = await s.end('v2', next, false);
    await s.describe('v2', 'CompleteAbort');
    await s.end('v2', next, false);
    await s.end('v2', next, true);
    await s.end('v2', last, false);
    await s.read('tc', 0, true, 5);
    await s.read('tc', 1, false, 4);
    await s.describe('v2', 'CompleteAbort');
  },

  async 'who is not the producer'(s) {
    const p = await s.init('w');
    for (const version of [0, 1, 2, 3]) {
      await s.add('w', { ...p, epoch: p.epoch - 1 }, [A], { version });
      await s.add('w', { ...p, epoch: p.epoch + 1 }, [A], { version });
      await s.add('w', { ...p, id: p.id + 5000 }, [A], { version });
      await s.addOffsets('w', { ...p, epoch: p.epoch + 1 }, 'g', version);
    }
    for (const version of [0, 1, 2, 4, 5]) {
      await s.end('w', { ...p, epoch: p.epoch - 1 }, true, { version });
      await s.end('w', { ...p, epoch: p.epoch + 1 }, false, { version });
      await s.end('w', { ...p, id: p.id + 5000 }, true, { version });
    }
    await s.add('nobody', p, [A]);
    await s.end('nobody', p, true);
    await s.end('nobody', p, true, { version: 3 });
    await s.addOffsets('nobody', p, 'g');
    await s.add('', p, [A]);
    await s.end('', p, true);
    await s.describe('nobody');
    await s.describe('');
    await s.produce('nobody', p, A, 0, ['x']);
    await s.produce('nobody', p, A, 0, ['x'], { version: 11 });
    await s.produce('w', { ...p, epoch: p.epoch + 1 }, A, 0, ['x']);
    await s.produce('w', { ...p, epoch: p.epoch + 1 }, A, 0, ['x'], { version: 11 });
    await s.produce('w', { ...p, epoch: p.epoch + 1 }, A, 0, ['x'], { version: 10 });
    await s.produce('w', { ...p, id: p.id + 5000 }, A, 0, ['x'], { version: 11 });
  },

  async 'who had the producer id before'(s) {
    const p = await s.init('b');
    await s.init('b2');
    await s.produce('b', p, ['tj', 0], 0, ['x']);
    await s.addOffsets('b', p, 'bg');
    await s.commitOffsets('b', p, 'bg', 'ta', 1);
    const next = await s.end('b', p, true);
    await s.describe('b', 'CompleteCommit');
    for (const id of ['b', 'b2', 'nobody']) {
      for (const version of [3, 10, 11, 12]) {
        await s.produce(id, p, ['tj', 0], 0, ['old'], { version });
        await s.produce(id, p, ['tj', 1], 0, ['old'], { version });
        if (id !== 'b') await s.produce(id, next, ['tj', 0], 0, ['of another id'], { version });
      }
      for (const version of [3, 4, 5]) {
        await s.commitOffsets(id, p, 'bg', 'ta', 2, { version });
        if (id !== 'b') await s.commitOffsets(id, next, 'bg', 'ta', 2, { version });
      }
    }
    await s.markers({ ...next, epoch: next.epoch + 4 }, ['tj', 0], false);
    await s.produce('b', next, ['tj', 0], 0, ['below a marker'], { version: 11 });
    await s.produce('b', next, ['tj', 0], 0, ['below a marker']);
    await s.describe('b');
    await s.read('tj', 0, true);
  },

  async "epochs at a client's wish"(s) {
    const first = await s.init('e', { version: 0 });
    const second = await s.init('e');
    await s.init('e', { expected: first });
    await s.init('e', { expected: first, version: 3 });
    const third = await s.init('e', { expected: second });
    await s.init('e', { expected: second });
    await s.init('e', { expected: third, version: 4 });
    await s.init('e', { expected: { id: third.id + 5000, epoch: 0 } });
    await s.init('e', { expected: { id: 0, epoch: 0 } });
    await s.init('e-new', { expected: { id: 0, epoch: 0 } });
    await s.init('e', { timeoutMs: 0 });
    await s.init('e', { timeoutMs: -1 });
    await s.init('e', { timeoutMs: 900_001 });
    await s.init('', {});
    await s.describe('e');
  },

  async 'another instance takes over, classic'(s) {
    const p = await s.init('i');
    await s.add('i', p, [['td', 0]]);
    await s.produce('i', p, ['td', 0], 0, ['zombie'], { version: 11 });
    await s.init('i', { impatient: true });
    const q = await s.init('i');
    await s.read('td', 0, true, 2);
    await s.end('i', p, true, { version: 4 });
    await s.end('i', p, true, { version: 1 });
    await s.produce('i', p, ['td', 0], 1, ['zombie'], { version: 11 });
    await s.add('i', q, [['td', 0]]);
    await s.produce('i', q, ['td', 0], 0, ['new'], { version: 11 });
    await s.init('i', { expected: q, impatient: true });
    await s.init('i', { expected: q });
    await s.describe('i', 'Empty');
    await s.read('td', 0, false, 4);
  },

  async 'another instance takes over, version 2'(s) {
    const p = await s.init('j');
    await s.produce('j', p, ['td', 1], 0, ['zombie']);
    await s.init('j', { impatient: true });
    const q = await s.init('j');
    await s.read('td', 1, true, 2);
    await s.end('j', p, true);
    await s.produce('j', p, ['td', 1], 1, ['zombie']);
    await s.produce('j', q, ['td', 1], 0, ['new']);
    const r = await s.end('j', q, true);
    await s.read('td', 1, true, 4);
    await s.init('j', { expected: r });
    await s.describe('j');
  },

  async 'a timeout'(s) {
    const p = await s.init('t', { timeoutMs: 500 });
    await s.produce('t', p, ['te', 0], 0, ['late']);
    await s.read('te', 0, true, 2);
    await s.describe('t', 'CompleteAbort');
    await s.end('t', p, true);
    await s.produce('t', p, ['te', 0], 1, ['later']);
    await s.init('t', { expected: p });
    const q = await s.init('t-classic', { timeoutMs: 500 });
    await s.add('t-classic', q, [['te', 1]]);
    await s.produce('t-classic', q, ['te', 1], 0, ['late'], { version: 11 });
    await s.read('te', 1, true, 2);
    await s.describe('t-classic', 'CompleteAbort');
    await s.end('t-classic', q, true, { version: 4 });
    await s.end('t-classic', q, true, { version: 1 });
    await s.produce('t-classic', q, ['te', 1], 1, ['later'], { version: 11 });
    await s.init('t-classic', { expected: q });
  },

  async 'offsets in a transaction'(s) {
    const p = await s.init('o');
    await s.commitOffsets('o', p, 'g1', 'ta', 5, { version: 3 });
    await s.commitOffsets('o', p, 'g1', 'ta', 5, { version: 4 });
    await s.addOffsets('o', p, 'g1');
    await s.describe('o');
    await s.commitOffsets('o', p, 'g1', 'ta', 5, { version: 3 });
    await s.commitOffsets('o', p, 'g1', 'ta', 6, { version: 0 });
    await s.offset('g1', 'ta', true);
    await s.offset('g1', 'ta', false);
    await s.commitOffsets('o', p, 'g1', 'missing', 6, { version: 3 });
    await s.commitOffsets('o', p, 'g1', 'ta', 6, { version: 3, index: 9 });
    await s.commitOffsets('o', p, 'g1', 'ta', 6, { version: 3, memberId: 'm', generation: 3 });
    await s.commitOffsets('o', p, 'g-none', 'ta', 6, { version: 3, memberId: 'm', generation: 3 });
    await s.commitOffsets('o', p, 'g1', 'ta', 6, { version: 3, memberId: 'm' });
    await s.commitOffsets('o', { ...p, epoch: p.epoch + 1 }, 'g1', 'ta', 6, { version: 3 });
    await s.end('o', p, true, { version: 4 });
    await s.offset('g1', 'ta', true, 6);
    await s.offset('g1', 'ta', false);
    let q = await s.init('o2');
    await s.commitOffsets('o2', { ...q, epoch: q.epoch + 1 }, 'g1', 'ta', 6);
    await s.commitOffsets('nobody', q, 'g1', 'ta', 6);
    await s.commitOffsets('o2', q, '', 'ta', 6);
    await s.commitOffsets('o2', q, 'g1', 'ta', 8);
    await s.commitOffsets('o2', q, 'g1', 'tc', 8, { version: 6 });
    await s.commitOffsets('o2', q, 'g1', 'missing', 8, { version: 6 });
    await s.offset('g1', 'ta', true);
    await s.offset('g1', 'ta', false);
    q = await s.end('o2', q, false);
    await s.offset('g1', 'ta', true, 6);
    await s.commitOffsets('o2', q, 'g1', 'ta', 9);
    await s.commitOffsets('o2', q, 'g2', 'ta', 1);
    await s.end('o2', q, true);
    await s.offset('g1', 'ta', true, 9);
    await s.offset('g2', 'ta', true, 1);
  },

  async 'markers by hand'(s) {
    const p = await s.init('m');
    await s.produce('m', p, ['tg', 0], 0, ['hanging']);
    await s.markers(p, ['tg', 0], false, { version: 2, transactionVersion: 2 });
    await s.markers(p, ['missing', 0], false);
    await s.markers(p, ['tg', 9], false);
    await s.markers(p, ['tg', 0], false, { coordinatorEpoch: 3 });
    await s.read('tg', 0, true, 2);
    await s.producers('tg', 0);
    await s.markers(p, ['tg', 0], false, { coordinatorEpoch: 2 });
    await s.markers(p, ['tg', 0], true, { coordinatorEpoch: 3 });
    await s.markers({ id: p.id + 7000, epoch: 0 }, ['tg', 0], true);
    const second = { version: 2, transactionVersion: 2, coordinatorEpoch: 3 };
    await s.markers({ ...p, epoch: p.epoch + 1 }, ['tg', 0], true, second);
    await s.markers({ ...p, epoch: p.epoch + 1 }, ['tg', 0], true, second);
    await s.markers(p, ['tg', 0], true, second);
    await s.producers('tg', 0);
    await s.producers('missing', 0);
    await s.producers('tg', 5);
    await s.read('tg', 0, false);
  },

  async lists(s) {
    const p = await s.init('list-a');
    await s.init('list-b');
    const c = await s.init('list-c');
    await s.produce('list-a', p, ['th', 0], 0, ['x']);
    await s.produce('list-c', c, ['th', 0], 0, ['x']);
    await s.end('list-c', c, true);
    await s.describe('list-c', 'CompleteCommit');
    const transactionalIdPattern = 'list-.';
    await s.list({ transactionalIdPattern });
    await s.list({ transactionalIdPattern, stateFilters: ['Ongoing'] });
    await s.list({ transactionalIdPattern, stateFilters: ['Ongoing', 'Nonsense', 'ongoing'] });
    await s.list({ transactionalIdPattern, stateFilters: ['Nonsense'] });
    await s.list({ transactionalIdPattern, producerIdFilters: [p.id] });
    await s.list({ producerIdFilters: [p.id, c.id] }, 0);
    await s.list({ producerIdFilters: [p.id], stateFilters: ['Empty'] }, 1);
    await s.list({ transactionalIdPattern, durationFilter: 0 });
    await s.list({ transactionalIdPattern, durationFilter: 3_600_000 });
    await s.list({ transactionalIdPattern: '', producerIdFilters: [p.id] });
    await s.list({ transactionalIdPattern: 'list-(' });
    await s.list({ transactionalIdPattern: 'list' });
    await s.end('list-a', p, false);
  },

  async 'retention passes open transactions'(s) {
    const place = ['ti', 0] as const;
    const plain = await s.init(null);
    let committed = await s.init('kept-c');
    let aborted = await s.init('kept-a');
    let from = 0;
    for (const round of [0, 1]) {
      await s.produce('kept-c', committed, place, 0, [`committed ${round}`]);
      await s.produce('kept-a', aborted, place, 0, [`aborted ${round}`]);
      for (let i = 0; i < 12; i++) {
        const value = String(i).padStart(200);
        await s.produce(null, plain, place, 12 * round + i, [value], { transactional: false });
      }
      await s.configure('ti', 'retention.bytes', '1');
      from = await s.begins('ti', 0, from + 2);
      await s.configure('ti', 'retention.bytes', '-1');
      await s.read('ti', 0, true);
      await s.read('ti', 0, true, undefined, from);
      await s.producers('ti', 0);
      await s.produce('kept-a', aborted, place, 1, ['aborted, too']);
      await s.describe('kept-a');
      aborted = await s.end('kept-a', aborted, false);
      await s.describe('kept-a', 'CompleteAbort');
      await s.read('ti', 0, true, undefined, from);
      committed = await s.end('kept-c', committed, true);
      await s.describe('kept-c', 'CompleteCommit');
      await s.read('ti', 0, true, undefined, from);
      await s.producers('ti', 0);
    }
  },
};

/** All scenes on one broker, in order. */
export async function play(script: TransactionScript, only: readonly string[] = []): Promise<void> {
  for (const name of ['ta', 'tb', 'tc', 'td', 'te', 'tg', 'th', 'tj']) await script.topic(name, 2);
  await script.topic('ti', 1, { 'internal.segment.bytes': '1000' });
  await script.coordinator('c1', 1);
  await script.coordinator('g1', 0);
  for (const [name, scene] of Object.entries(SCENES)) {
    if (only.length > 0 && !only.includes(name)) continue;
    script.title(name);
    await scene(script);
  }
}

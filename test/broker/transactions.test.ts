/** Transactions on a whole broker: what readers of committed records get after rolls, compaction, retention and restarts, and
 * what becomes of a transaction whose topics change under it. */
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createPartitions, deleteRecords } from '../../src/client/admin.ts';
import { Client, EARLIEST, LATEST } from '../../src/client/client.ts';
import { deleteGroup, deleteOffsets } from '../../src/client/groups.ts';
import { type Broker, createBroker } from '../../src/index.ts';
import { errorName } from '../../src/protocol/errors.ts';
import { type RecordBatch, readBatches } from '../../src/protocol/records/reader.ts';
import { BatchBuilder } from '../../src/protocol/records/writer.ts';
import { Random } from '../support/random.ts';
import { CALLS } from '../support/transaction-calls.ts';
import { type Producer, TransactionScript } from '../support/transaction-script.ts';

let root: string;
let broker: Broker;
let client: Client;
let script: TransactionScript;

async function start(): Promise<void> {
  broker = await createBroker({
    dataDir: join(root, 'data'),
    host: '127.0.0.1',
    port: 0,
    config: { 'transaction.state.log.num.partitions': '2', 'offsets.topic.num.partitions': '2' },
  });
  client = await Client.connect(broker.bootstrapServers.split(',')[0]!);
  script = new TransactionScript(client.connection);
}

async function stop(): Promise<void> {
  await client.close();
  await broker.close();
}

async function restart(): Promise<void> {
  await stop();
  await start();
}

beforeEach(async () => {
  root = mkdtempSync(join(tmpdir(), 'broadsheet-transactions-'));
  await start();
});
afterEach(async () => {
  await stop();
  rmSync(root, { recursive: true, force: true });
});

describe('committed records', () => {
  /** `key=value` of a partition, as readers of an isolation level get them. */
  async function contents(topic: string, committedOnly: boolean): Promise<string[]> {
    const { offset } = await client.listOffset(topic, 0, EARLIEST);
    const found: string[] = [];
    for await (const { key, value } of client.records(topic, 0, offset, { committedOnly }))
      found.push(`${Buffer.from(key ?? [])}=${Buffer.from(value ?? [])}`);
    return found;
  }

  /** One transaction of a producer with records of some keys. */
  async function transact(
    id: string,
    topic: string,
    entries: readonly (readonly [string, string])[],
    commit: boolean | undefined,
  ): Promise<Producer> {
    const producer = await script.init(id);
    const options = { producerId: producer.id, producerEpoch: producer.epoch, transactional: true };
    const builder = new BatchBuilder({ ...options, baseSequence: 0 });
    for (const [key, value] of entries) builder.append({ timestamp: Date.now(), key, value });
    await script.add(id, producer, [[topic, 0]]);
    const { errorCode } = (await client.produceBytes(topic, 0, builder.build(), { transactionalId: id }))!;
    expect(errorCode).toBe(0);
    if (commit !== undefined) await script.end(id, producer, commit, { version: 4 });
    return producer;
  }

  it('stay so over rolls, compaction, retention and restarts', async () => {
    const random = new Random(3);
    const configs = {
      'cleanup.policy': 'compact',
      'internal.segment.bytes': '2000',
      'min.cleanable.dirty.ratio': '0.01',
      'min.compaction.lag.ms': '0',
    };
    await client.createTopics([{ name: 'kept', configs }]);
    const all: string[] = [];
    const last = new Map<string, string>();
    for (let n = 0; n < 80; n++) {
      const commit = random.int(2) === 0;
      const entries = Array.from(
        { length: 1 + random.int(4) },
        (_, i) => [`k${random.int(12)}`, `${n}.${i}${commit ? '' : ' aborted'}`] as const,
      );
      await transact(`id-${n % 3}`, 'kept', entries, commit);
      if (!commit) continue;
      for (const [key, value] of entries) {
        all.push(`${key}=${value}`);
        last.set(key, value);
      }
    }
    const open = await transact('open', 'kept', [['k0', 'open']], undefined);
    const check = async (compacted: boolean) => {
      const found = await contents('kept', true);
      if (!compacted) expect(found).toEqual(all);
      expect(Object.fromEntries(found.map((entry) => entry.split('=')))).toEqual(Object.fromEntries(last));
      expect((await client.listOffset('kept', 0, LATEST, true)).offset).toBe(end - 1);
      expect((await client.listOffset('kept', 0, LATEST)).offset).toBe(end);
      // Each is one that was committed, in order.
      const places = found.map((entry) => all.indexOf(entry));
      expect(places).toEqual([...places].sort((a, b) => a - b));
      expect(places).not.toContain(-1);
    };
    const { offset: end } = await client.listOffset('kept', 0, LATEST);
    await check(false);
    expect((await contents('kept', false)).some((entry) => entry.includes('aborted'))).toBe(true);
    await restart();
    await check(false);
    const folder = join(root, 'data', 'kept-0');
    const indexes = () => readdirSync(folder).filter((name) => name.endsWith('.txnindex'));
    expect(indexes().length).toBeGreaterThan(3);
    const before = (await contents('kept', false)).length;
    await broker.compact(['kept']);
    await check(true);
    const after = await contents('kept', false);
    expect(after.length).toBeLessThan(before / 2);
    await restart();
    await check(true);
    // The open one outlives all that, and ends as it would have.
    await script.end('open', open, true, { version: 4 });
    expect(script.lines.at(-1)).toMatch(/-> NONE/);
    expect((await contents('kept', true)).at(-1)).toBe('k0=open');
  });

  it('are right from wherever the log begins', async () => {
    await client.createTopics([{ name: 'short', configs: { 'internal.segment.bytes': '500' } }]);
    const offsets: number[] = [];
    const wanted: [number, string][] = [];
    for (let n = 0; n < 20; n++) {
      const commit = n % 3 !== 0;
      const { offset } = await client.listOffset('short', 0, LATEST);
      await transact(
        'id',
        'short',
        [
          ['a', `${n}`],
          ['b', `${n}`],
        ],
        commit,
      );
      offsets.push(offset + 1);
      if (commit) wanted.push([offset, `a=${n}`], [offset + 1, `b=${n}`]);
    }
    // In the middle of a transaction, each time.
    for (const from of offsets) {
      await deleteRecords(client, [{ topic: 'short', partition: 0, offset: from }]);
      const left = wanted.filter(([offset]) => offset >= from).map(([, entry]) => entry);
      expect(await contents('short', true)).toEqual(left);
      if (from % 5 !== 0) continue;
      await restart();
      expect(await contents('short', true)).toEqual(left);
    }
  });
});

describe('a transaction', () => {
  it('ends where its partitions still are, when a topic is deleted under it', async () => {
    await script.topic('gone');
    await script.topic('stays');
    const p = await script.init('tx');
    await script.produce('tx', p, ['gone', 0], 0, ['x']);
    await script.produce('tx', p, ['stays', 0], 0, ['y']);
    await client.deleteTopics(['gone']);
    const next = await script.end('tx', p, true);
    await script.read('stays', 0, true);
    await script.describe('tx');
    await script.produce('tx', next, ['stays', 0], 0, ['z']);
    await script.topic('gone');
    const last = await script.end('tx', next, false);
    // Of the same name, and not in the transaction.
    await script.produce('tx', last, ['gone', 0], 0, ['new']);
    await script.end('tx', last, true);
    await script.read('gone', 0, true);
    expect(script.lines.slice(-7)).toEqual([
      'read stays-0 committed -> NONE stable 2 high 2 aborted  | 0 P0/0 txn y | 1 P0/1 txn COMMIT 000000000000',
      'describe tx -> NONE CompleteCommit P0/1 60000 ms, since a time []',
      'produce tx P0/1 stays-0 seq 0 [z] v12 -> NONE at 2',
      'abort tx P0/1 v5 -> NONE P0/2',
      'produce tx P0/2 gone-0 seq 0 [new] v12 -> NONE at 0',
      'commit tx P0/2 v5 -> NONE P0/3',
      'read gone-0 committed -> NONE stable 2 high 2 aborted  | 0 P0/2 txn new | 1 P0/3 txn COMMIT 000000000000',
    ]);
  });

  it('takes partitions that its topic got since', async () => {
    await script.topic('grows');
    const p = await script.init('tx');
    await script.produce('tx', p, ['grows', 0], 0, ['x']);
    await createPartitions(client, 'grows', 2);
    await script.produce('tx', p, ['grows', 1], 0, ['y']);
    await script.end('tx', p, true);
    await script.read('grows', 1, true);
    expect(script.lines.at(-1)).toContain('stable 2 high 2 aborted  | 0 P0/0 txn y | 1 P0/1 txn COMMIT');
  });

  it.each([
    ['the group', (groupId: string) => deleteGroup(client, groupId)],
    [
      'its offset',
      async (groupId: string) => {
        const [deleted] = await deleteOffsets(client, groupId, [{ topic: 'read', partition: 0 }]);
        expect(deleted?.errorCode).toBe(0);
      },
    ],
  ])('commits no offset of before %s was deleted, also after a restart', async (_, remove) => {
    const answers: (string | undefined)[] = [];
    const ask = async (until?: number) => {
      await script.offset('g', 'read', true, until);
      answers.push(script.lines.at(-1)?.replace(/.* -> /, ''));
    };
    await script.topic('read');
    let p = await script.init('tx');
    await script.commitOffsets('tx', p, 'g', 'read', 5);
    p = await script.end('tx', p, true);
    await ask(5);
    await script.commitOffsets('tx', p, 'g', 'read', 50);
    await remove('g');
    await ask();
    await restart();
    await ask();
    await script.end('tx', p, true);
    await script.describe('tx', 'CompleteCommit');
    await ask();
    await restart();
    await ask();
    expect(answers).toEqual(["NONE 5 'm'", ...Array.from({ length: 4 }, () => "NONE -1 ''")]);
  });

  it('has a transaction.version that is one', async () => {
    await script.topic('t');
    const p = await script.init('tx');
    await script.produce('tx', p, ['t', 0], 0, ['x']);
    for (const transactionVersion of [-1, -128, 127]) {
      const next = { ...p, epoch: p.epoch + 1 };
      await script.markers(next, ['t', 0], false, { version: 2, transactionVersion });
    }
    await script.read('t', 0, false);
    expect(script.lines.slice(-4).map((line) => line.replace(/^.*-> /, ''))).toEqual([
      'INVALID_REQUEST',
      'INVALID_REQUEST',
      'NONE',
      'NONE stable 2 high 2 aborted null | 0 P0/0 txn x | 1 P0/1 txn ABORT 000000000000',
    ]);
  });

  it.each([4, 5])(
    'that is named twice in a request gets what either asks for (AddPartitionsToTxn v%i)',
    async (version) => {
      await script.topic('t', 4);
      const { id, epoch } = await script.init('tx');
      const asked = (partitions: number[], more = {}) => ({
        transactionalId: 'tx',
        producerId: id,
        producerEpoch: epoch,
        verifyOnly: false,
        topics: [{ name: 't', partitions }],
        ...more,
      });
      const ask = async (...transactions: ReturnType<typeof asked>[]) => {
        const answer = await client.connection.request(CALLS.add, { transactions }, { version });
        return answer.resultsByTransaction.map(({ transactionalId, topicResults }) => {
          const found = topicResults[0]!.resultsByPartition;
          const codes = found.map((each) => `${each.partitionIndex} ${errorName(each.partitionErrorCode)}`);
          return `${transactionalId}: ${codes}`;
        });
      };
      const wrong = { producerEpoch: epoch + 1 };
      expect(await ask(asked([0]), asked([1, 0]))).toEqual(['tx: 0 NONE', 'tx: 1 NONE,0 NONE']);
      expect(await ask(asked([2]), asked([3], wrong))).toEqual(['tx: 2 NONE', 'tx: 3 PRODUCER_FENCED']);
      expect(await ask(asked([0, 1, 2], { verifyOnly: true }), asked([3], { verifyOnly: true }))).toEqual([
        'tx: 0 NONE,1 NONE,2 NONE',
        'tx: 3 TRANSACTION_ABORTABLE',
      ]);
      await script.describe('tx');
      expect(script.lines.at(-1)).toMatch(/Ongoing .*\[t-0,1,2\]$/);
    },
  );

  it('has a producer id that is one', async () => {
    await script.topic('t');
    await script.markers({ id: -1, epoch: 0 }, ['t', 0], true);
    expect(script.lines.at(-1)).toContain('-> INVALID_PRODUCER_ID_MAPPING');
    await script.producers('t', 0);
    expect(script.lines.at(-1)).toBe('producers t-0 -> NONE []');
  });

  it('is not ended by a client whose marker has an older epoch, and not twice', async () => {
    await script.topic('t');
    await script.init('tx');
    const p = await script.init('tx');
    await script.produce('tx', p, ['t', 0], 0, ['x']);
    await script.markers({ ...p, epoch: p.epoch - 1 }, ['t', 0], true);
    await script.markers({ ...p, epoch: -7 }, ['t', 0], true);
    await script.read('t', 0, true);
    await script.end('tx', p, true);
    await script.markers({ ...p, epoch: p.epoch }, ['t', 0], false);
    await script.read('t', 0, true);
    expect(script.lines.slice(-6)).toEqual([
      'commit marker P0/0 t-0 v1 coordinator 0 tv 0 -> INVALID_PRODUCER_EPOCH',
      'commit marker P0/-7 t-0 v1 coordinator 0 tv 0 -> INVALID_PRODUCER_EPOCH',
      'read t-0 committed -> NONE stable 0 high 1 aborted  | ',
      'commit tx P0/1 v5 -> NONE P0/2',
      'abort marker P0/1 t-0 v1 coordinator 0 tv 0 -> INVALID_PRODUCER_EPOCH',
      'read t-0 committed -> NONE stable 2 high 2 aborted  | 0 P0/1 txn x | 1 P0/2 txn COMMIT 000000000000',
    ]);
  });

  it.each([9, 11, 12])(
    'is not for who had the producer id in an older epoch, whatever his transactional id has now (Produce v%i)',
    async (version) => {
      await script.topic('t', 2);
      const p = await script.init('tx');
      await script.init('other');
      await script.produce('tx', p, ['t', 0], 0, ['x']);
      const next = await script.end('tx', p, true);
      const asked = { version, impatient: true };
      await script.produce('other', p, ['t', 0], 0, ['y'], asked);
      await script.produce('nobody', p, ['t', 0], 0, ['y'], asked);
      await script.produce('other', next, ['t', 0], 0, ['y'], asked);
      await script.produce('other', p, ['t', 1], 0, ['y'], asked);
      await script.markers({ ...next, epoch: next.epoch + 4 }, ['t', 0], false);
      await script.produce('tx', next, ['t', 0], 0, ['y'], asked);
      // It was not made part of a transaction.
      await script.describe('tx');
      expect(script.lines.slice(-7).map((line) => line.replace(/^.*-> /, ''))).toEqual([
        'INVALID_PRODUCER_EPOCH at -1',
        'INVALID_PRODUCER_EPOCH at -1',
        'INVALID_PRODUCER_ID_MAPPING at -1',
        'INVALID_PRODUCER_ID_MAPPING at -1',
        'NONE',
        'INVALID_PRODUCER_EPOCH at -1',
        expect.stringMatching(/^NONE CompleteCommit P0\/1 /),
      ]);
    },
  );

  it.each([3, 4, 5])(
    'has no offsets of who had the producer id in an older epoch (TxnOffsetCommit v%i)',
    async (version) => {
      await script.topic('t');
      const p = await script.init('tx');
      await script.init('other');
      await script.commitOffsets('tx', p, 'g', 't', 3);
      const next = await script.end('tx', p, true);
      for (const producer of [p, next])
        await script.commitOffsets('other', producer, 'g', 't', 4, { version });
      expect(script.lines.slice(-2).map((line) => line.replace(/^.*-> /, ''))).toEqual([
        'INVALID_PRODUCER_EPOCH',
        'INVALID_PRODUCER_ID_MAPPING',
      ]);
    },
  );

  it('hangs where damage took its end, and is aborted by what kafka-transactions finds and sends', async () => {
    await script.topic('hurt');
    const p = await script.init('tx');
    await script.produce('tx', p, ['hurt', 0], 0, ['x']);
    await script.end('tx', p, true);
    await client.produce('hurt', 0, [{ timestamp: 1, value: 'z' }]);
    await stop();
    // As after a kill: the snapshots of producers are older than the marker, the recovery point is not.
    const folder = join(root, 'data', 'hurt-0');
    rmSync(join(root, 'data', '.kafka_cleanshutdown'));
    for (const name of readdirSync(folder)) if (name.endsWith('.snapshot')) rmSync(join(folder, name));
    const path = join(folder, '00000000000000000000.log');
    const bytes = readFileSync(path);
    const [first, marker] = [...readBatches(bytes)] as RecordBatch[];
    expect(marker!.isControl).toBe(true);
    bytes[first!.sizeInBytes + 65]! ^= 1;
    writeFileSync(path, bytes);
    await start();
    const stable = async () => (await client.listOffset('hurt', 0, LATEST, true)).offset;
    expect(await stable()).toBe(0);
    // It hangs: the partition says that it is open, its coordinator that it has ended.
    await script.describe('tx', 'CompleteCommit');
    const asked = { topics: [{ name: 'hurt', partitionIndexes: [0] }] };
    const { topics } = await client.connection.request(CALLS.producers, asked, { version: 0 });
    const [found] = topics[0]!.partitions[0]!.activeProducers;
    expect(found).toMatchObject({ producerId: p.id, currentTxnStartOffset: 0 });
    const producer = { id: found!.producerId, epoch: found!.producerEpoch };
    await script.markers(producer, ['hurt', 0], false, {
      coordinatorEpoch: Math.max(found!.coordinatorEpoch, 0),
    });
    expect(script.lines.at(-1)).toMatch(/-> NONE$/);
    expect(await stable()).toBe(4);
    const left: string[] = [];
    for await (const { value } of client.records('hurt', 0, 0, { committedOnly: true }))
      left.push(`${Buffer.from(value!)}`);
    expect(left).toEqual(['z']);
    // Its producer goes on.
    const next = await script.init('tx');
    await script.produce('tx', next, ['hurt', 0], 0, ['y']);
    await script.end('tx', next, true);
    expect(script.lines.at(-1)).toMatch(/-> NONE/);
  });

  it('takes a marker again where nothing is open', async () => {
    await script.topic('t');
    await script.init('tx');
    const p = await script.init('tx');
    const second = { version: 2, transactionVersion: 2, coordinatorEpoch: 5 };
    const next = { ...p, epoch: p.epoch + 1 };
    await script.markers({ ...p, id: p.id + 1000 }, ['t', 0], true, second);
    await script.markers({ ...p, id: p.id + 1000 }, ['t', 0], false, second);
    await script.produce('tx', p, ['t', 0], 0, ['x']);
    await script.markers(p, ['t', 0], true, second);
    await script.markers(next, ['t', 0], true, second);
    await script.markers(next, ['t', 0], true, second);
    await script.read('t', 0, true);
    expect(script.lines.slice(-7).map((line) => line.replace(/^.*-> /, ''))).toEqual([
      'NONE',
      'NONE',
      'NONE at 2',
      'INVALID_PRODUCER_EPOCH',
      'NONE',
      'NONE',
      'NONE stable 5 high 5 aborted  | 0 P1/1 txn COMMIT 000000000005 | 1 P1/1 txn ABORT 000000000005 | 2 P0/1 txn x | 3 P0/2 txn COMMIT 000000000005 | 4 P0/2 txn COMMIT 000000000005',
    ]);
  });
});

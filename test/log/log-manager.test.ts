import { beforeEach, describe, expect, it } from 'vitest';
import { LogCommitter } from '../../src/log/committer.ts';
import { LogManager, type PartitionDescription } from '../../src/log/log-manager.ts';
import type { AppendListener, Partition } from '../../src/log/partition.ts';
import { decodeSnapshot } from '../../src/log/producer-snapshot.ts';
import { VirtualClock } from '../../src/runtime/clock.ts';
import { BroadsheetError } from '../../src/runtime/errors.ts';
import type { Logger } from '../../src/runtime/logging.ts';
import { type RawBatchFields, rawBatch } from '../support/batches.ts';
import { epochsText, offsetsText } from '../support/checkpoint-text.ts';
import { batchInfoOf, MemoryEngine, type MemoryLog } from '../support/memory-log.ts';
import { LOG_SETTINGS, topicConfigForTests } from '../support/topic-config.ts';

const ID_A = 'OeXl6uY5Tm2ppr3C3B0cZQ';
const ID_B = 'CKd2ROAwRh6cFasLIWPGHw';

const settle = () => new Promise((resolve) => setImmediate(resolve));
const silent: AppendListener = { onAppended() {}, onAppendFailed() {} };

let engine: MemoryEngine;
let clock: VirtualClock;
let logged: string[];
/** What the metadata says: folder name to description. */
let known: Map<string, PartitionDescription>;

const describePartition = (topic: string, index: number) => known.get(`${topic}-${index}`);

function description(topicId = ID_A, leaderEpoch = 0): PartitionDescription {
  return { topicId, leaderEpoch, config: topicConfigForTests() };
}

const logger: Logger = {
  debug() {},
  info() {},
  warn: (fields, message) => logged.push(`warn ${message} ${JSON.stringify(fields)}`),
  error: (fields, message) => logged.push(`error ${message} ${JSON.stringify(fields)}`),
  child: () => logger,
};

function open(how = LOG_SETTINGS): Promise<LogManager> {
  return LogManager.open(
    { dataDir: '/d', engine, committer: new LogCommitter(engine), clock, logger, settings: how },
    describePartition,
  );
}

async function create(manager: LogManager, topic: string, index = 0, topicId = ID_A): Promise<Partition> {
  known.set(`${topic}-${index}`, description(topicId));
  return manager.create(topic, index, description(topicId));
}

function append(manager: LogManager, partition: Partition, fields: RawBatchFields = {}): void {
  const bytes = rawBatch(fields);
  expect(
    partition.append(bytes, 0, bytes.length, batchInfoOf(bytes, 0), clock.now(), silent, 0),
  ).toBeUndefined();
  manager.commitTick();
}

const text = (name: string) => engine.files.content.get(`/d/${name}`)?.toString();
const folders = async () =>
  (await engine.files.list('/d')).filter((entry) => entry.directory).map((entry) => entry.name);

/** Stops as SIGKILL does: nothing is written. */
async function kill(): Promise<void> {
  await engine.close();
}

beforeEach(async () => {
  engine = new MemoryEngine();
  await engine.files.mkdir('/d');
  clock = new VirtualClock();
  logged = [];
  known = new Map();
});

describe('creating', () => {
  it('writes partition.metadata first and is found by name and by id', async () => {
    const manager = await open();
    const partition = await create(manager, 't', 2);
    expect(text('t-2/partition.metadata')).toBe(`version: 0\ntopic_id: ${ID_A}`);
    expect(manager.partition('t', 2)).toBe(partition);
    expect(manager.partitionById(ID_A, 2)).toBe(partition);
    expect(manager.partition('t', 0)).toBeUndefined();
    expect(manager.partition('u', 0)).toBeUndefined();
    expect(manager.partitions()).toEqual([partition]);
  });

  it('refuses what exists, also while it is being made', async () => {
    const manager = await open();
    const first = create(manager, 't');
    await expect(create(manager, 't')).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' });
    await first;
    await expect(create(manager, 't')).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' });
  });
});

describe('a clean stop', () => {
  it('leaves snapshots, epochs, checkpoints and the broker epoch, and nothing is lost', async () => {
    let manager = await open();
    const partition = await create(manager, 't');
    await create(manager, 'empty', 0, ID_B);
    append(manager, partition, {
      producerId: 5,
      producerEpoch: 0,
      baseSequence: 0,
      recordCount: 4,
      maxTimestamp: clock.now(),
    });
    append(manager, partition, { recordCount: 2 });
    partition.setLogStartOffset(1);
    await manager.close(77);
    await manager.close(78);
    expect(text('recovery-point-offset-checkpoint')).toBe(offsetsText(`t 0 6 ${ID_A}`, `empty 0 0 ${ID_B}`));
    expect(text('replication-offset-checkpoint')).toBe(offsetsText('t 0 6', 'empty 0 0'));
    expect(text('log-start-offset-checkpoint')).toBe(offsetsText(`t 0 1 ${ID_A}`));
    expect(text('.kafka_cleanshutdown')).toBe('{"version":0,"brokerEpoch":77}');
    expect(text('t-0/leader-epoch-checkpoint')).toBe(epochsText('0 1'));
    expect(text('empty-0/leader-epoch-checkpoint')).toBe(epochsText('0 0'));
    const snapshot = engine.files.content.get('/d/t-0/00000000000000000006.snapshot');
    expect(decodeSnapshot(snapshot!).map((entry) => entry.producerId)).toEqual([5]);
    expect(engine.files.content.has('/d/empty-0/00000000000000000000.snapshot')).toBe(false);
    expect(clock.pendingTimers).toBe(0);

    known.set('t-0', description(ID_A, 4));
    manager = await open();
    expect(text('.kafka_cleanshutdown')).toBeUndefined();
    const again = manager.partition('t', 0)!;
    expect([again.logStartOffset, again.highWatermark, again.logEndOffset]).toEqual([1, 6, 6]);
    expect(again.producers.get(5)?.batches[0]?.lastSequence).toBe(3);
    expect(again.epochs.text()).toBe(epochsText('0 1', '4 6'));
    expect(logged).toEqual([]);
  });

  it('is not claimed when a partition failed, or no epoch is known', async () => {
    const manager = await open();
    const partition = await create(manager, 't');
    engine.files.failNextWrite.set('/d/t-0/leader-epoch-checkpoint', new BroadsheetError('NO_SPACE', 'full'));
    append(manager, partition);
    await manager.close(77);
    expect(text('.kafka_cleanshutdown')).toBeUndefined();
    expect(logged).toHaveLength(1);
    const next = await open();
    await next.close(undefined);
    expect(text('.kafka_cleanshutdown')).toBeUndefined();
  });

  it('refuses what comes after it', async () => {
    const manager = await open();
    await manager.close(1);
    await expect(create(manager, 't')).rejects.toMatchObject({ code: 'CLOSED' });
    await expect(manager.deleteTopic('t')).rejects.toMatchObject({ code: 'CLOSED' });
  });
});

describe('after a kill', () => {
  it('rebuilds producer state and leader epochs from the log', async () => {
    const manager = await open();
    const partition = await create(manager, 't');
    append(manager, partition, {
      producerId: 5,
      producerEpoch: 0,
      baseSequence: 0,
      recordCount: 2,
      maxTimestamp: clock.now(),
    });
    partition.becomeLeader(2);
    append(manager, partition, {
      producerId: 5,
      producerEpoch: 0,
      baseSequence: 2,
      recordCount: 2,
      maxTimestamp: clock.now(),
    });
    await kill();
    known.set('t-0', description(ID_A, 3));
    const again = (await open()).partition('t', 0)!;
    expect(again.highWatermark).toBe(4);
    expect(again.producers.get(5)?.batches.map((batch) => batch.lastSequence)).toEqual([1, 3]);
    expect(again.epochs.text()).toBe(epochsText('0 0', '2 2', '3 4'));
  });

  it('knows the last five batches of a producer, though a snapshot holds but one', async () => {
    const manager = await open();
    const partition = await create(manager, 't');
    for (let sequence = 0; sequence < 7; sequence++) {
      append(manager, partition, {
        producerId: 5,
        producerEpoch: 0,
        baseSequence: sequence,
        maxTimestamp: clock.now(),
      });
    }
    await manager.close(77);
    const sequences = (each: LogManager) =>
      each
        .partition('t', 0)!
        .producers.get(5)
        ?.batches.map((batch) => batch.lastSequence);
    expect(sequences(await open())).toEqual([2, 3, 4, 5, 6]);
    await kill();
    expect(sequences(await open())).toEqual([2, 3, 4, 5, 6]);
  });

  it('survives corrupt files', async () => {
    const manager = await open();
    append(manager, await create(manager, 't'));
    await manager.close(1);
    for (const name of [
      'recovery-point-offset-checkpoint',
      'log-start-offset-checkpoint',
      't-0/leader-epoch-checkpoint',
      't-0/00000000000000000001.snapshot',
      '.kafka_cleanshutdown',
    ])
      engine.files.content.set(`/d/${name}`, Buffer.from('garbage'));
    const again = (await open()).partition('t', 0)!;
    expect(again.logEndOffset).toBe(1);
    expect(again.epochs.entries).toEqual([{ epoch: 0, startOffset: 0 }]);
    expect(logged.filter((line) => line.includes('corrupt'))).toHaveLength(4);
  });
});

describe('folders that are not ours', () => {
  it('are set aside when their topic is unknown, with a warning that says how much is in them', async () => {
    let manager = await open();
    append(manager, await create(manager, 't'));
    await manager.close(1);
    engine.files.content.set('/d/t-0/00000000000000000000.log', Buffer.alloc(61));
    known.set('t-0', description(ID_B));
    manager = await open();
    expect(manager.partition('t', 0)).toBeUndefined();
    const [stray] = await folders();
    expect(stray).toMatch(/^t-0\.[0-9a-f]{32}-stray$/);
    expect(logged).toHaveLength(1);
    expect(logged[0]).toContain('"logBytes":61');
    await manager.create('t', 0, description(ID_B));
    expect(manager.partition('t', 0)?.logEndOffset).toBe(0);
    await manager.close(1);
    logged = [];
    await open();
    expect(logged.join()).toContain('set aside');
    expect(await folders()).toContain(stray);
  });

  it('are ours all the same when the file with the topic id is missing or damaged', async () => {
    for (const harm of [undefined, '', 'version: 0\ntopic_id: short']) {
      const topic = `t${harm?.length ?? ''}`;
      let manager = await open();
      append(manager, await create(manager, topic));
      await manager.close(1);
      const path = `/d/${topic}-0/partition.metadata`;
      // The engine of this test keeps its logs in memory: a file stands for the segment.
      engine.files.content.set(`/d/${topic}-0/00000000000000000000.log`, Buffer.alloc(61));
      if (harm === undefined) await engine.files.remove(path);
      else engine.files.content.set(path, Buffer.from(harm));
      logged = [];
      manager = await open();
      expect(manager.partition(topic, 0)?.logEndOffset).toBe(1);
      expect(text(`${topic}-0/partition.metadata`)).toBe(`version: 0\ntopic_id: ${ID_A}`);
      expect(logged.filter((line) => line.includes('written again'))).toHaveLength(1);
      expect((await folders()).filter((name) => name.endsWith('-stray'))).toEqual([]);
      await manager.close(1);
    }
  });

  it('are removed when a creation or a deletion was cut short', async () => {
    known.set('half-0', description());
    await engine.files.mkdir('/d/half-0');
    await engine.files.mkdir('/d/gone-0.0123456789abcdef0123456789abcdef-delete');
    const manager = await open();
    await settle();
    expect(await folders()).toEqual([]);
    await create(manager, 'half');
  });

  it('are left alone otherwise', async () => {
    await engine.files.mkdir('/d/lost+found');
    await engine.files.mkdir('/d/__cluster_metadata-0');
    await open();
    expect((await folders()).sort()).toEqual(['__cluster_metadata-0', 'lost+found']);
    expect(logged).toEqual([expect.stringContaining('/d/lost+found')]);
  });
});

describe('a partition that does not open', () => {
  it('is reported, and the others go on', async () => {
    let manager = await open();
    await create(manager, 'good', 0, ID_A);
    await create(manager, 'bad', 0, ID_B);
    await manager.close(1);
    const openLog = engine.open.bind(engine);
    engine.open = async (dir, options) => {
      if (dir === '/d/bad-0') throw new BroadsheetError('IO', 'bad disk', 5);
      return openLog(dir, options);
    };
    manager = await open();
    expect(manager.partition('good', 0)).toBeDefined();
    expect(manager.partition('bad', 0)).toBeUndefined();
    expect(manager.failure('bad', 0)?.message).toBe('bad disk');
    expect(manager.failure('good', 0)).toBeUndefined();
    await manager.close(2);
    expect(text('.kafka_cleanshutdown')).toBeUndefined();
  });
});

describe('deleting', () => {
  it('frees the name at once and the files after file.delete.delay.ms', async () => {
    const manager = await open();
    const partition = await create(manager, 't');
    append(manager, partition);
    partition.setLogStartOffset(1);
    clock.advance(60_000);
    await settle();
    expect(text('log-start-offset-checkpoint')).toBe(offsetsText(`t 0 1 ${ID_A}`));
    const deleted = manager.deleteTopic('t');
    expect(partition.deleted).toBe(true);
    expect(manager.partition('t', 0)).toBeUndefined();
    await deleted;
    expect(await folders()).toEqual([expect.stringMatching(/^t-0\.[0-9a-f]{32}-delete$/)]);
    expect(text('log-start-offset-checkpoint')).toBe(offsetsText());
    expect(text('recovery-point-offset-checkpoint')).toBe(offsetsText());

    const next = await create(manager, 't', 0, ID_B);
    expect(next.logEndOffset).toBe(0);
    expect(manager.partitionById(ID_A, 0)).toBeUndefined();
    expect(manager.partitionById(ID_B, 0)).toBe(next);
    clock.advance(59_999);
    await settle();
    expect(await folders()).toHaveLength(2);
    clock.advance(1);
    await settle();
    expect(await folders()).toEqual(['t-0']);
  });

  it('answers what was staged, and takes nothing more', async () => {
    const manager = await open();
    const partition = await create(manager, 't');
    const heard: string[] = [];
    const listener: AppendListener = {
      onAppended: (token, baseOffset) => heard.push(`${token} at ${baseOffset}`),
      onAppendFailed: (token, error) => heard.push(`${token} failed ${error.code}`),
    };
    const bytes = rawBatch({});
    partition.append(bytes, 0, bytes.length, batchInfoOf(bytes, 0), 0, listener, 1);
    const deleted = manager.deleteTopic('t');
    expect(partition.append(bytes, 0, bytes.length, batchInfoOf(bytes, 0), 0, listener, 2)?.code).toBe(3);
    manager.commitTick();
    expect(heard).toEqual(['1 at 0']);
    await deleted;
    await manager.close(1);
    expect(engine.logs.size).toBe(0);
  });

  it('answers what waits for a flush before the files go', async () => {
    const manager = await open();
    const config = topicConfigForTests({ flushMessages: 1, fileDeleteDelayMs: 0 });
    const partition = await manager.create('t', 0, { ...description(), config });
    const log = partition.log as MemoryLog;
    log.holdFlushes = true;
    const heard: string[] = [];
    const listener: AppendListener = {
      onAppended: (token) => heard.push(`${token}`),
      onAppendFailed: (token, error) => heard.push(`${token} failed ${error.code}`),
    };
    const bytes = rawBatch({});
    partition.append(bytes, 0, bytes.length, batchInfoOf(bytes, 0), 0, listener, 1);
    manager.commitTick();
    await manager.deleteTopic('t');
    clock.advance(1);
    await settle();
    expect(heard).toEqual([]);
    log.releaseFlushes();
    await settle();
    expect(heard).toEqual(['1']);
    expect(await folders()).toEqual([]);
  });

  it('of an unknown topic is nothing', async () => {
    await (await open()).deleteTopic('nope');
  });
});

describe('periodic work', () => {
  it('flushes all that is dirty once so many bytes were written to all logs together', async () => {
    const manager = await open({ ...LOG_SETTINGS, dirtyBytes: 250 });
    const [one, two] = [await create(manager, 't'), await create(manager, 'u', 0, ID_B)];
    const flushed = async () => {
      await settle();
      return [one, two].map(({ log }) => log.flushedOffset);
    };
    const size = rawBatch({}).length;
    expect(size * 3).toBeLessThan(250);
    append(manager, one);
    append(manager, two);
    append(manager, one);
    expect(await flushed()).toEqual([0, 0]);
    for (let bytes = size * 3; bytes < 250; bytes += size) append(manager, one);
    const end = one.log.writtenOffset;
    expect(await flushed()).toEqual([end, 1]);
    // Counted anew from there; what is flushed with its append does not count.
    append(manager, two);
    manager.setConfig(one, topicConfigForTests({ flushMessages: 1 }));
    for (let bytes = 0; bytes < 500; bytes += size) append(manager, one);
    expect(await flushed()).toEqual([one.log.writtenOffset, 1]);
  });

  it('writes checkpoints that changed, flushes what is dirty and forgets old producers', async () => {
    const manager = await open();
    const partition = await create(manager, 't');
    append(manager, partition, {
      producerId: 5,
      producerEpoch: 0,
      baseSequence: 0,
      maxTimestamp: clock.now(),
    });
    clock.advance(5_000);
    await settle();
    expect(text('replication-offset-checkpoint')).toBe(offsetsText('t 0 1'));
    expect(text('recovery-point-offset-checkpoint')).toBeUndefined();
    for (let i = 0; i < 24; i++) {
      clock.advance(5_000);
      await settle();
    }
    expect(partition.log.flushedOffset).toBe(1);
    expect(text('recovery-point-offset-checkpoint')).toBe(offsetsText(`t 0 1 ${ID_A}`));
    expect(text('t-0/leader-epoch-checkpoint')).toBe(epochsText('0 0'));
    expect(partition.producers.size).toBe(1);
    for (let i = 0; i < 150; i++) {
      clock.advance(600_000);
      await settle();
    }
    expect(partition.producers.size).toBe(0);
    await manager.close(1);
  });

  it('goes on after a write that failed', async () => {
    const manager = await open();
    await create(manager, 't');
    engine.files.failNextWrite.set('/d/replication-offset-checkpoint', new BroadsheetError('IO', 'bad', 5));
    clock.advance(5_000);
    await settle();
    expect(logged).toEqual([expect.stringContaining('bad')]);
    clock.advance(5_000);
    await settle();
    expect(text('replication-offset-checkpoint')).toBe(offsetsText('t 0 0'));
    await manager.close(1);
  });
});

describe('LogCommitter', () => {
  it("tells each owner of its own logs, and the caller of nobody's", async () => {
    const committer = new LogCommitter(engine);
    const openOptions = {
      segmentBytes: 1 << 20,
      segmentMs: 1e12,
      indexBytes: 1024,
      indexIntervalBytes: 4096,
      logStartOffset: 0,
      recoveryPoint: 0,
      cleanShutdown: true,
      now: 0,
    };
    const [owned, journal] = await Promise.all([
      engine.open('/d/a-0', openOptions),
      engine.open('/d/b-0', openOptions),
    ]);
    const heard: string[] = [];
    committer.register(owned, (log) => heard.push(`owner of ${log.dir}`));
    for (const log of [owned, journal]) {
      const bytes = rawBatch({});
      log.stage(bytes, 0, bytes.length, 0, 0);
    }
    committer.commit((log) => heard.push(`caller for ${log.dir}`));
    expect(heard).toEqual(['owner of /d/a-0', 'caller for /d/b-0']);
  });
});

describe('retention', () => {
  const DAY = 86_400_000;

  async function aged(config: Partial<Parameters<typeof topicConfigForTests>[0]>) {
    known.set('t-0', {
      topicId: ID_A,
      leaderEpoch: 0,
      config: topicConfigForTests({ segmentBytes: 200, ...config }),
    });
    const manager = await open();
    const partition = await manager.create('t', 0, known.get('t-0')!);
    for (let i = 0; i < 6; i++) {
      append(manager, partition, { recordCount: 2, maxTimestamp: clock.now() });
      clock.advance(DAY);
      await settle();
    }
    return { manager, partition };
  }

  it('deletes what is too old by itself, and what is left outlives a kill', async () => {
    const { manager, partition } = await aged({ retentionMs: 3 * DAY });
    const changed: number[] = [];
    partition.watch({ onVisible() {}, onChanged: () => changed.push(partition.logStartOffset) });
    await manager.retain();
    const start = partition.logStartOffset;
    expect(start).toBeGreaterThan(0);
    expect(changed.at(-1) ?? start).toBe(start);
    expect(partition.log.segmentBaseOffsets()[0]).toBe(start);
    expect(partition.logEndOffset).toBe(12);
    await kill();
    const again = (await open()).partition('t', 0)!;
    expect([again.logStartOffset, again.logEndOffset]).toEqual([start, 12]);
  });

  it('keeps all logs together to a size while they grow, and no compacted one loses anything', async () => {
    const maxBytes = 6 << 20;
    const manager = await open({ ...LOG_SETTINGS, maxBytes });
    const small = { segmentBytes: 1 << 20, retentionMs: -1 };
    const make = (topic: string, id: string, cleanupPolicy: string[]) => {
      const config = topicConfigForTests({ ...small, cleanupPolicy });
      known.set(`${topic}-0`, { topicId: id, leaderEpoch: 0, config });
      return manager.create(topic, 0, known.get(`${topic}-0`)!);
    };
    const deleting = await make('t', ID_A, ['delete']);
    const compacted = await make('u', ID_B, ['compact', 'delete']);
    for (let i = 0; i < 100; i++) {
      for (const partition of [deleting, compacted]) {
        if (partition === compacted && i >= 30) continue;
        append(manager, partition, { maxTimestamp: clock.now(), payload: new Uint8Array(100_000) });
      }
      for (let turn = 0; turn < 3; turn++) await settle();
      const bytes = deleting.log.sizeInBytes + compacted.log.sizeInBytes;
      // The active segment, and what comes between two looks.
      expect(bytes).toBeLessThan(maxBytes + (1 << 20) + 200_000);
    }
    expect(compacted.logStartOffset).toBe(0);
    expect(compacted.log.sizeInBytes).toBeGreaterThan(3e6);
    expect(deleting.logStartOffset).toBeGreaterThan(40);
    expect(deleting.log.sizeInBytes).toBeGreaterThan(1 << 20);
  });

  it('empties a log without traffic, the active segment too, and keeps its end and its producers', async () => {
    known.set('t-0', { topicId: ID_A, leaderEpoch: 0, config: topicConfigForTests({ retentionMs: DAY }) });
    let manager = await open();
    let partition = await manager.create('t', 0, known.get('t-0')!);
    append(manager, partition, {
      producerId: 5,
      producerEpoch: 0,
      baseSequence: 0,
      recordCount: 4,
      maxTimestamp: clock.now(),
    });
    for (let i = 0; i < 2 * DAY; i += 300_000) {
      clock.advance(300_000);
      for (let n = 0; n < 3; n++) await settle();
    }
    expect([partition.logStartOffset, partition.logEndOffset]).toEqual([4, 4]);
    expect(partition.log.sizeInBytes).toBe(0);
    await manager.close(1);
    manager = await open();
    partition = manager.partition('t', 0)!;
    expect([partition.logStartOffset, partition.logEndOffset]).toEqual([4, 4]);
    expect(text('t-0/00000000000000000004.snapshot')).toBeDefined();
    append(manager, partition, { maxTimestamp: clock.now() });
    expect(partition.logEndOffset).toBe(5);
  });

  it('has the producers of what it deletes on disk, where a kill came before the snapshot of a roll', async () => {
    known.set('t-0', { topicId: ID_A, leaderEpoch: 0, config: topicConfigForTests({ segmentBytes: 100 }) });
    let manager = await open();
    let partition = await manager.create('t', 0, known.get('t-0')!);
    const maxTimestamp = clock.now();
    append(manager, partition, { producerId: 5, producerEpoch: 0, baseSequence: 0, maxTimestamp });
    for (let i = 0; i < 5; i++) append(manager, partition, { maxTimestamp });
    for (let n = 0; n < 5; n++) await settle();
    await kill();
    for (const name of [...engine.files.content.keys()])
      if (name.endsWith('.snapshot')) engine.files.content.delete(name);
    manager = await open();
    partition = manager.partition('t', 0)!;
    partition.setLogStartOffset(3);
    await manager.retain();
    expect(partition.log.segmentBaseOffsets()).toEqual([3, 4, 5]);
    await kill();
    partition = (await open()).partition('t', 0)!;
    expect(partition.producers.get(5)?.batches.map((batch) => batch.lastSequence)).toEqual([0]);
  });

  it('has the log start on disk before it deletes, and deletes nothing when that fails', async () => {
    const { manager, partition } = await aged({ retentionMs: -1 });
    manager.setConfig(partition, { ...partition.config, retentionMs: 3 * DAY });
    const bases = partition.log.segmentBaseOffsets();
    engine.files.failNextWrite.set('/d/log-start-offset-checkpoint', new BroadsheetError('IO', 'broken'));
    await manager.retain();
    expect(partition.log.segmentBaseOffsets()).toEqual(bases);
    expect(logged.filter((line) => line.startsWith('error'))).toHaveLength(1);
    const start = partition.logStartOffset;
    await manager.retain();
    expect(partition.log.segmentBaseOffsets()[0]).toBe(start);
  });
});

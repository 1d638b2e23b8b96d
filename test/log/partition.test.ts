import { beforeEach, describe, expect, it } from 'vitest';
import type { TopicConfig } from '../../src/config/topic-config.ts';
import { LogCommitter } from '../../src/log/committer.ts';
import { LogManager } from '../../src/log/log-manager.ts';
import type { AppendListener, Partition, Rejection } from '../../src/log/partition.ts';
import { decodeSnapshot } from '../../src/log/producer-snapshot.ts';
import { KafkaError } from '../../src/protocol/errors.ts';
import { VirtualClock } from '../../src/runtime/clock.ts';
import { BroadsheetError } from '../../src/runtime/errors.ts';
import { silentLogger } from '../../src/runtime/logging.ts';
import { type RawBatchFields, rawBatch } from '../support/batches.ts';
import { batchInfoOf, MemoryEngine, type MemoryLog } from '../support/memory-log.ts';
import { LOG_SETTINGS, topicConfigForTests } from '../support/topic-config.ts';

/** Lets what waits on resolved promises run. */
const settle = () => new Promise((resolve) => setImmediate(resolve));

class Recorder implements AppendListener {
  readonly events: string[] = [];

  onAppended(token: number, baseOffset: number, logAppendTime: number): void {
    this.events.push(`${token} at ${baseOffset}${logAppendTime === -1 ? '' : ` time ${logAppendTime}`}`);
  }

  onAppendFailed(token: number, error: BroadsheetError): void {
    this.events.push(`${token} failed ${error.code}`);
  }

  take(): string[] {
    return this.events.splice(0);
  }
}

let engine: MemoryEngine;
let clock: VirtualClock;
let manager: LogManager;
let partition: Partition;
let log: MemoryLog;
let recorder: Recorder;
let watched: string[];
let activity: number;

async function start(config: Partial<TopicConfig> = {}): Promise<void> {
  engine = new MemoryEngine();
  await engine.files.mkdir('/d');
  clock = new VirtualClock();
  watched = [];
  activity = 0;
  manager = await LogManager.open(
    {
      dataDir: '/d',
      engine,
      committer: new LogCommitter(engine),
      clock,
      logger: silentLogger,
      settings: LOG_SETTINGS,
      watcher: {
        onVisible: (p, bytes) => watched.push(`visible ${p.index} ${bytes} to ${p.highWatermark}`),
        onChanged: (p) => watched.push(`changed ${p.index}`),
      },
      onActivity: () => {
        activity++;
      },
    },
    () => undefined,
  );
  partition = await manager.create('t', 0, {
    topicId: 'OeXl6uY5Tm2ppr3C3B0cZQ',
    leaderEpoch: 3,
    config: topicConfigForTests(config),
  });
  log = partition.log as MemoryLog;
  recorder = new Recorder();
}

function append(token: number, fields: RawBatchFields = {}): Rejection | undefined {
  const bytes = rawBatch(fields);
  return partition.append(bytes, 0, bytes.length, batchInfoOf(bytes, 0), clock.now(), recorder, token);
}

const idempotent = (baseSequence: number, recordCount = 1): RawBatchFields => ({
  producerId: 7,
  producerEpoch: 0,
  baseSequence,
  recordCount,
  maxTimestamp: 1234,
});

beforeEach(() => start());

describe('append', () => {
  it('completes many appends of a tick in order, by one commit, never from within append()', () => {
    expect(append(1, { recordCount: 2 })).toBeUndefined();
    expect(append(2)).toBeUndefined();
    expect(append(3)).toBeUndefined();
    expect(recorder.events).toEqual([]);
    expect(partition.highWatermark).toBe(0);
    expect(partition.logEndOffset).toBe(4);
    expect(manager.commitTick()).toEqual([partition]);
    expect(recorder.take()).toEqual(['1 at 0', '2 at 2', '3 at 3']);
    expect(partition.highWatermark).toBe(4);
    expect(watched).toEqual(['visible 0 183 to 4']);
    expect(manager.commitTick()).toEqual([]);
  });

  it('stamps batches with the leader epoch', async () => {
    append(1);
    manager.commitTick();
    partition.becomeLeader(5);
    append(2);
    manager.commitTick();
    expect((await log.scanBatches(0, 2, false)).map((batch) => batch.leaderEpoch)).toEqual([3, 5]);
    expect(partition.epochs.text()).toBe('0\n4\n3 0\n3 0\n5 1\n5 1\n');
    expect(() => partition.becomeLeader(4)).toThrow(/below/);
  });

  it('answers a duplicate with the first offset and its timestamp, in the same tick and later', () => {
    append(1, idempotent(0, 2));
    expect(append(2, idempotent(0, 2))).toBeUndefined();
    manager.commitTick();
    expect(recorder.take()).toEqual(['1 at 0', '2 at 0 time 1234']);
    append(3, idempotent(0, 2));
    expect(recorder.events).toEqual([]);
    manager.commitTick();
    expect(recorder.take()).toEqual(['3 at 0 time 1234']);
    expect(partition.logEndOffset).toBe(2);
  });

  it('rejects what the producer may not send', () => {
    append(1, idempotent(0));
    expect(append(2, idempotent(5))?.code).toBe(KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER);
    append(3, { ...idempotent(0), producerEpoch: 2 });
    expect(append(4, idempotent(1))?.code).toBe(KafkaError.INVALID_PRODUCER_EPOCH);
    expect(append(5, { ...idempotent(1), producerEpoch: 2, attributes: 0x10 })).toBeUndefined();
    expect(append(6, { ...idempotent(2), producerEpoch: 2 })?.code).toBe(KafkaError.INVALID_TXN_STATE);
    manager.commitTick();
    expect(recorder.take()).toEqual(['1 at 0', '3 at 1', '5 at 2']);
  });

  it('gives the time of the append where the topic wants it', async () => {
    await start({ messageTimestampType: 'LogAppendTime' });
    append(1, { maxTimestamp: 5555, attributes: 8 });
    manager.commitTick();
    expect(recorder.take()).toEqual(['1 at 0 time 5555']);
  });

  it('takes back the producer state of a failed write, and only that', () => {
    append(1, idempotent(0));
    manager.commitTick();
    recorder.take();
    engine.failNextCommit.set('/d/t-0', new BroadsheetError('NO_SPACE', 'disk full'));
    append(2, idempotent(1));
    append(3, idempotent(2));
    append(4, { ...idempotent(0), producerId: 8 });
    append(5, idempotent(1));
    append(6, idempotent(0));
    expect(manager.commitTick()).toEqual([partition]);
    expect(recorder.take()).toEqual([
      '2 failed NO_SPACE',
      '3 failed NO_SPACE',
      '4 failed NO_SPACE',
      '5 failed NO_SPACE',
      '6 at 0 time 1234',
    ]);
    expect(partition.producers.get(8)).toBeUndefined();
    expect(partition.highWatermark).toBe(1);
    append(7, idempotent(1));
    manager.commitTick();
    expect(recorder.take()).toEqual(['7 at 1']);
  });

  it('hears of commits that others asked for', () => {
    append(1);
    new LogCommitter(engine).commit((_log, error) => partition.settle(error));
    expect(recorder.take()).toEqual(['1 at 0']);
  });
});

describe('flushing', () => {
  it('with flush.messages=1 lets nothing be seen or acknowledged before it is flushed', async () => {
    await start({ flushMessages: 1 });
    log.holdFlushes = true;
    append(1);
    manager.commitTick();
    expect(recorder.events).toEqual([]);
    expect(partition.highWatermark).toBe(0);
    expect(partition.read(0, 1000, 'read_uncommitted', true)).toEqual({ kind: 'empty' });
    append(2);
    manager.commitTick();
    log.releaseFlushes();
    await settle();
    expect(recorder.take()).toEqual(['1 at 0', '2 at 1']);
    expect(partition.highWatermark).toBe(2);
    expect(watched).toEqual(['visible 0 61 to 1', 'visible 0 61 to 2']);
    expect(log.flushes).toBe(2);
    expect(activity).toBe(2);
  });

  it('takes the partition offline when a flush fails', async () => {
    await start({ flushMessages: 1 });
    log.failNextFlush = new BroadsheetError('IO', 'bad disk', 5);
    append(1, idempotent(0));
    manager.commitTick();
    await settle();
    expect(recorder.take()).toEqual(['1 failed IO']);
    expect(watched).toEqual(['changed 0']);
    expect(append(2)).toEqual({ code: KafkaError.KAFKA_STORAGE_ERROR, message: 'bad disk' });
    expect(partition.highWatermark).toBe(0);
    expect(partition.offline?.code).toBe('IO');
  });

  it('flushes every flush.messages records, without making anyone wait', async () => {
    await start({ flushMessages: 3 });
    append(1, { recordCount: 2 });
    manager.commitTick();
    await settle();
    expect(log.flushes).toBe(0);
    append(2, { recordCount: 1 });
    manager.commitTick();
    expect(recorder.take()).toEqual(['1 at 0', '2 at 2']);
    await settle();
    expect(log.flushes).toBe(1);
    expect(log.flushedOffset).toBe(3);
  });

  it('flushes flush.ms after a write', async () => {
    await start({ flushMs: 1000 });
    append(1);
    manager.commitTick();
    clock.advance(999);
    expect(log.flushes).toBe(0);
    clock.advance(1);
    await settle();
    expect(log.flushedOffset).toBe(1);
    clock.advance(10_000);
    await settle();
    expect(log.flushes).toBe(1);
  });
});

describe('rolling', () => {
  it('writes a snapshot as of the first offset of the new segment, and flushes the old one', async () => {
    await start({ segmentBytes: 150 });
    append(1, idempotent(0));
    append(2, idempotent(1));
    append(3, idempotent(2));
    expect(engine.files.content.has('/d/t-0/00000000000000000002.snapshot')).toBe(false);
    manager.commitTick();
    await settle();
    const snapshot = engine.files.content.get('/d/t-0/00000000000000000002.snapshot');
    expect(decodeSnapshot(snapshot!)[0]?.batches[0]).toMatchObject({ lastSequence: 1, lastOffset: 1 });
    expect(log.flushedOffset).toBe(3);
  });

  it('writes none when the write failed', async () => {
    await start({ segmentBytes: 150 });
    append(1, idempotent(0));
    append(2, idempotent(1));
    manager.commitTick();
    engine.failNextCommit.set('/d/t-0', new BroadsheetError('NO_SPACE', 'disk full'));
    append(3, idempotent(2));
    manager.commitTick();
    await settle();
    expect([...engine.files.content.keys()].some((path) => path.endsWith('.snapshot'))).toBe(false);
  });
});

describe('read', () => {
  it('is bounded by the isolation level', () => {
    append(1);
    append(2, { producerId: 9, producerEpoch: 0, baseSequence: 0, attributes: 0x10 });
    append(3);
    expect(partition.read(0, 1000, 'read_uncommitted', true)).toEqual({ kind: 'empty' });
    manager.commitTick();
    expect(partition.lastStableOffset).toBe(1);
    expect(partition.read(0, 1000, 'read_uncommitted', true)).toMatchObject({ range: { length: 183 } });
    expect(partition.read(0, 1000, 'read_committed', true)).toMatchObject({ range: { length: 61 } });
    expect(partition.read(1, 1000, 'read_committed', true)).toEqual({ kind: 'empty' });
    expect(partition.read(3, 1000, 'read_uncommitted', true)).toEqual({ kind: 'empty' });
    expect(partition.read(4, 1000, 'read_uncommitted', true)).toEqual({ kind: 'out-of-range' });
  });

  it('begins at the log start offset, which wakes whoever waits', () => {
    append(1);
    append(2);
    manager.commitTick();
    watched.length = 0;
    partition.setLogStartOffset(1);
    partition.setLogStartOffset(0);
    expect(watched).toEqual(['changed 0']);
    expect(partition.read(0, 1000, 'read_uncommitted', true)).toEqual({ kind: 'out-of-range' });
    expect(partition.epochs.entries).toEqual([{ epoch: 3, startOffset: 1 }]);
  });
});

describe('watchers', () => {
  it('can come and go', () => {
    const seen: string[] = [];
    const watcher = {
      onVisible: () => {
        seen.push('visible');
        partition.unwatch(watcher);
      },
      onChanged: () => {},
    };
    partition.watch(watcher);
    append(1);
    manager.commitTick();
    append(2);
    manager.commitTick();
    expect(seen).toEqual(['visible']);
    expect(partition.watcherCount).toBe(1);
  });
});

describe('a watcher that watches again when it is told', () => {
  it('is told once', () => {
    let told = 0;
    const watchAgain = () => {
      const watcher = {
        onVisible: () => {},
        onChanged: () => {
          told++;
          partition.unwatch(watcher);
          if (told < 100) watchAgain();
        },
      };
      partition.watch(watcher);
    };
    watchAgain();
    append(1);
    manager.commitTick();
    partition.setLogStartOffset(1);
    expect(told).toBe(1);
  });
});

describe('leader epochs of readers', () => {
  it('are judged against the current one', () => {
    expect(partition.checkLeaderEpoch(-1)).toBe(0);
    expect(partition.checkLeaderEpoch(3)).toBe(0);
    expect(partition.checkLeaderEpoch(2)).toBe(KafkaError.FENCED_LEADER_EPOCH);
    expect(partition.checkLeaderEpoch(4)).toBe(KafkaError.UNKNOWN_LEADER_EPOCH);
  });

  it('diverge where their epoch ended', () => {
    append(1, { recordCount: 4 });
    manager.commitTick();
    partition.becomeLeader(6);
    append(2, { recordCount: 4 });
    manager.commitTick();
    expect(partition.divergingEpoch(-1, 2)).toBeUndefined();
    expect(partition.divergingEpoch(3, 4)).toBeUndefined();
    expect(partition.divergingEpoch(3, 5)).toEqual({ epoch: 3, endOffset: 4 });
    expect(partition.divergingEpoch(5, 5)).toEqual({ epoch: 3, endOffset: 4 });
    expect(partition.divergingEpoch(6, 8)).toBeUndefined();
    expect(partition.divergingEpoch(7, 8)).toEqual({ epoch: -1, endOffset: -1 });
  });
});

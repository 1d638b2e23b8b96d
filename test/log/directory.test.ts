/** The log manager over each engine and real files. */
import {
  cpSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { LogCommitter } from '../../src/log/committer.ts';
import type { LogEngine } from '../../src/log/log.ts';
import { LogManager, type PartitionDescription } from '../../src/log/log-manager.ts';
import type { AppendListener, Partition } from '../../src/log/partition.ts';
import { decodeSnapshot } from '../../src/log/producer-snapshot.ts';
import { crc32c } from '../../src/protocol/crc32c.ts';
import { VirtualClock } from '../../src/runtime/clock.ts';
import { silentLogger } from '../../src/runtime/logging.ts';
import { rawBatch } from '../support/batches.ts';
import { offsetsText } from '../support/checkpoint-text.ts';
import { ENGINES } from '../support/engines.ts';
import { batchInfoOf } from '../support/memory-log.ts';
import { LOG_SETTINGS, topicConfigForTests } from '../support/topic-config.ts';

let dataDir: string;
let engine: LogEngine;
let clock: VirtualClock;
const known = new Map<string, PartitionDescription>();

describe.each(ENGINES)('engine=$name', ({ make }) => {
  async function open(): Promise<LogManager> {
    engine = make();
    return LogManager.open(
      {
        dataDir,
        engine,
        committer: new LogCommitter(engine),
        clock,
        logger: silentLogger,
        settings: LOG_SETTINGS,
      },
      (topic, index) => known.get(`${topic}-${index}`),
    );
  }

  beforeEach(() => {
    dataDir = mkdtempSync(join(tmpdir(), 'broadsheet-manager-'));
    clock = new VirtualClock();
    known.clear();
  });

  afterEach(async () => {
    await engine.close();
    rmSync(dataDir, { recursive: true, force: true });
  });

  function describeTopic(folder: string, topicId: string, overrides = {}): PartitionDescription {
    const description = { topicId, leaderEpoch: 0, config: topicConfigForTests(overrides) };
    known.set(folder, description);
    return description;
  }

  class Answers implements AppendListener {
    readonly offsets: number[] = [];
    readonly failures: string[] = [];
    onAppended(_token: number, baseOffset: number): void {
      this.offsets.push(baseOffset);
    }
    onAppendFailed(_token: number, error: Error): void {
      this.failures.push(error.message);
    }
  }

  function append(partition: Partition, answers: Answers, sequence: number, payloadBytes = 100): void {
    const bytes = rawBatch({
      producerId: 9,
      producerEpoch: 0,
      baseSequence: sequence,
      maxTimestamp: clock.now(),
      payload: new Uint8Array(payloadBytes),
    });
    new DataView(bytes.buffer).setUint32(17, crc32c(bytes, 21, bytes.length));
    const info = batchInfoOf(bytes, 0);
    expect(partition.append(bytes, 0, bytes.length, info, clock.now(), answers, sequence)).toBeUndefined();
  }

  const ID_A = 'OeXl6uY5Tm2ppr3C3B0cZQ';
  const ID_B = 'CKd2ROAwRh6cFasLIWPGHw';

  describe('a directory', () => {
    it('is written, closed and opened again', async () => {
      let manager = await open();
      const partition = await manager.create('t', 0, describeTopic('t-0', ID_A, { segmentBytes: 1000 }));
      const answers = new Answers();
      for (let i = 0; i < 20; i++) {
        append(partition, answers, i);
        if (i % 3 === 0) manager.commitTick();
      }
      manager.commitTick();
      expect(answers).toEqual({ offsets: Array.from({ length: 20 }, (_, i) => i), failures: [] });
      expect(partition.read(0, 1 << 20, 'read_uncommitted', true).kind).toBe('range');
      partition.setLogStartOffset(3);
      await manager.close(5);
      await engine.close();

      const names = readdirSync(join(dataDir, 't-0'));
      const bases = names.filter((name) => name.endsWith('.log')).map((name) => Number(name.slice(0, 20)));
      expect(bases).toEqual([0, 6, 12, 18]);
      const snapshots = names.filter((name) => name.endsWith('.snapshot'));
      expect(snapshots.map((name) => Number(name.slice(0, 20)))).toEqual([6, 12, 18, 20]);
      const at12 = decodeSnapshot(readFileSync(join(dataDir, 't-0', snapshots[1]!)));
      expect(at12[0]?.batches[0]).toMatchObject({ lastOffset: 11, lastSequence: 11 });
      expect(readFileSync(join(dataDir, 'recovery-point-offset-checkpoint'), 'utf8')).toBe(
        offsetsText(`t 0 20 ${ID_A}`),
      );
      expect(readFileSync(join(dataDir, 'log-start-offset-checkpoint'), 'utf8')).toBe(
        offsetsText(`t 0 3 ${ID_A}`),
      );
      expect(readFileSync(join(dataDir, '.kafka_cleanshutdown'), 'utf8')).toBe(
        '{"version":0,"brokerEpoch":5}',
      );

      manager = await open();
      const again = manager.partition('t', 0)!;
      expect([again.logStartOffset, again.highWatermark]).toEqual([3, 20]);
      expect(again.log.recovery.bytesScanned).toBe(0);
      expect(again.producers.get(9)?.batches.at(-1)?.lastSequence).toBe(19);
      append(again, answers, 20);
      manager.commitTick();
      expect(answers.offsets.at(-1)).toBe(20);
      await manager.close(6);
    });

    it('is opened after a stop that wrote nothing, and cut where it was torn', async () => {
      let manager = await open();
      const partition = await manager.create('t', 0, describeTopic('t-0', ID_A));
      const answers = new Answers();
      for (let i = 0; i < 10; i++) append(partition, answers, i);
      manager.commitTick();
      await engine.close();
      const file = join(dataDir, 't-0', '00000000000000000000.log');
      writeFileSync(file, readFileSync(file).subarray(0, -50));

      manager = await open();
      const again = manager.partition('t', 0)!;
      expect(again.logEndOffset).toBe(9);
      expect(again.producers.get(9)?.batches.map((batch) => batch.lastSequence)).toEqual([4, 5, 6, 7, 8]);
      expect(again.epochs.entries).toEqual([{ epoch: 0, startOffset: 0 }]);
      await manager.close(1);
    });

    it('waits for the disk with flush.messages=1', async () => {
      const manager = await open();
      const partition = await manager.create('t', 0, describeTopic('t-0', ID_A, { flushMessages: 1 }));
      const answers = new Answers();
      append(partition, answers, 0);
      manager.commitTick();
      expect(answers.offsets).toEqual([]);
      await manager.close(1);
      expect(answers).toEqual({ offsets: [0], failures: [] });
    });

    it('syncs what a crash left, where an acknowledgement means that it is on disk', async () => {
      const manager = await open();
      const answers = new Answers();
      for (const [topic, id, flushMessages] of [
        ['lazy', ID_A, 100],
        ['synced', ID_B, 1],
      ] as const) {
        const overrides = { flushMessages };
        append(await manager.create(topic, 0, describeTopic(`${topic}-0`, id, overrides)), answers, 0);
      }
      manager.commitTick();
      // As the directory is now, a kill would leave it.
      const first = engine;
      const left = `${dataDir}-left`;
      cpSync(dataDir, left, { recursive: true });
      await manager.close(1);
      await first.close();
      rmSync(dataDir, { recursive: true });
      renameSync(left, dataDir);
      const again = await open();
      const flushed = (topic: string) => again.partition(topic, 0)!.log.flushedOffset;
      expect([flushed('lazy'), flushed('synced')]).toEqual([0, 1]);
      await again.close(2);
    });

    it('opens with what a damaged old segment still has', async () => {
      const manager = await open();
      const answers = new Answers();
      const config = { segmentBytes: 400 };
      const partition = await manager.create('t', 0, describeTopic('t-0', ID_A, config));
      for (let sequence = 0; sequence < 20; sequence++) {
        append(partition, answers, sequence);
        manager.commitTick();
      }
      const end = partition.log.logEndOffset;
      await manager.close(1);
      await engine.close();
      // The first batch of the log is no batch any more, and both its readers are made to look there.
      const first = join(dataDir, 't-0', `${'0'.repeat(20)}.log`);
      writeFileSync(first, readFileSync(first).fill(9, 16, 17));
      rmSync(join(dataDir, 't-0', 'leader-epoch-checkpoint'));
      const again = await open();
      const opened = again.partition('t', 0);
      expect(opened?.log.logEndOffset).toBe(end);
      expect(opened?.producers.get(9)?.batches.at(-1)?.lastSequence).toBe(19);
      await again.close(2);
    });

    it('frees a name at once when a topic is deleted', async () => {
      const manager = await open();
      const answers = new Answers();
      const first = await manager.create('t', 0, describeTopic('t-0', ID_A));
      append(first, answers, 0);
      manager.commitTick();
      await manager.deleteTopic('t');
      expect(readdirSync(dataDir).filter((name) => name.endsWith('-delete'))).toHaveLength(1);
      const second = await manager.create('t', 0, describeTopic('t-0', ID_B));
      expect(second.logEndOffset).toBe(0);
      await manager.close(1);
      await engine.close();
      const next = await open();
      await next.close(2);
      expect(readdirSync(dataDir).filter((name) => name.endsWith('-delete'))).toEqual([]);
      expect(existsSync(join(dataDir, 't-0', 'partition.metadata'))).toBe(true);
    });
  });

  describe('where a log starts', () => {
    const START = 'log-start-offset-checkpoint';
    const at = (name: string) => join(dataDir, name);
    const facts = (manager: LogManager) => {
      const { logStartOffset, logEndOffset } = manager.partition('t', 0)!;
      return [logStartOffset, logEndOffset];
    };
    const readable = async (manager: LogManager) => {
      const { log } = manager.partition('t', 0)!;
      return (await log.scanBatches(log.logStartOffset, log.writtenOffset, false)).length;
    };

    /** 20 records in 4 segments, the log starts at 3; stopped. */
    async function stopped(): Promise<void> {
      const manager = await open();
      const partition = await manager.create('t', 0, describeTopic('t-0', ID_A, { segmentBytes: 1000 }));
      for (let i = 0; i < 20; i++) append(partition, new Answers(), i);
      manager.commitTick();
      partition.setLogStartOffset(3);
      await manager.close(5);
      await engine.close();
    }

    it.each([
      ['a missing file', () => rmSync(at(START))],
      ['a missing copy', () => rmSync(at(`${START}.copy`))],
      ['an empty file', () => writeFileSync(at(START), '')],
      [
        'an altered offset',
        () => writeFileSync(at(START), offsetsText(`t 0 3 ${ID_A}`).replace('t 0 3', 't 0 7')),
      ],
      [
        'an altered name',
        () => writeFileSync(at(START), offsetsText(`t 0 3 ${ID_A}`).replace('t 0 3', 'u 0 3')),
      ],
      [
        "a copy that is older than Kafka's file",
        () => {
          writeFileSync(at(START), '0\n1\nt 0 3\n');
          writeFileSync(at(`${START}.copy`), offsetsText(`${ID_A} 0 2`));
        },
      ],
      [
        "a copy of an earlier topic's",
        () => {
          writeFileSync(at(START), '0\n1\nt 0 3\n');
          writeFileSync(at(`${START}.copy`), offsetsText(`${ID_B} 0 9`));
        },
      ],
    ])('outlives %s', async (_, harm) => {
      await stopped();
      harm();
      const manager = await open();
      expect([...facts(manager), await readable(manager)]).toEqual([3, 20, 17]);
      await manager.close(6);
    });

    it('is not believed without a checksum where it lies past the end', async () => {
      await stopped();
      writeFileSync(at(START), '0\n1\nt 0 21\n');
      rmSync(at(`${START}.copy`));
      const manager = await open();
      expect([...facts(manager), await readable(manager)]).toEqual([0, 20, 20]);
      await manager.close(6);
    });

    it('and ends stay where they are when the topic id of an empty partition is damaged', async () => {
      await stopped();
      let manager = await open();
      manager.setConfig(
        manager.partition('t', 0)!,
        topicConfigForTests({ retentionMs: 1, segmentBytes: 1000 }),
      );
      clock.advance(1e9);
      await manager.retain();
      expect(facts(manager)).toEqual([20, 20]);
      await manager.close(6);
      await engine.close();
      const path = at('t-0/partition.metadata');
      for (const harmed of ['', readFileSync(path, 'latin1').replace('OeXl', 'OeXm')]) {
        writeFileSync(path, harmed);
        manager = await open();
        expect(facts(manager)).toEqual([20, 20]);
        await manager.close(6);
        await engine.close();
      }
    });

    it('a recovery point past the end vouches for nothing', async () => {
      await stopped();
      rmSync(at('.kafka_cleanshutdown'));
      writeFileSync(at('recovery-point-offset-checkpoint'), '0\n1\nt 0 99\n');
      const path = at('t-0/00000000000000000006.log');
      const bytes = readFileSync(path);
      bytes[bytes.length - 1]! ^= 1;
      writeFileSync(path, bytes);
      const manager = await open();
      expect([...facts(manager), await readable(manager)]).toEqual([3, 11, 8]);
      await manager.close(6);
    });
  });
});

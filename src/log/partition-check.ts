/**
 * Checks the folder of a partition that nobody uses: every batch's frame, checksum and offsets, the indexes against the
 * batches, producer snapshots, leader epochs. What is wrong is told, never mended.
 */
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { crc32c } from '../protocol/crc32c.ts';
import { LegacyBatch } from '../protocol/records/legacy.ts';
import type { RecordBatch } from '../protocol/records/reader.ts';
import { BroadsheetError } from '../runtime/errors.ts';
import { AbortedCheck } from './aborted-check.ts';
import {
  LEADER_EPOCH_FILE,
  PARTITION_METADATA_FILE,
  parseCheckpoint,
  parsePartitionMetadata,
} from './checkpoints.ts';
import {
  type OffsetIndexEntry,
  parseOffsetIndex,
  parseTimeIndex,
  parseTransactionIndex,
  type TimeIndexEntry,
} from './index-file.ts';
import { LeaderEpochs } from './leader-epochs.ts';
import { decodeSnapshot, snapshotOffset } from './producer-snapshot.ts';
import { SegmentFile } from './segment-file.ts';
import { type AbortedTransaction, TRANSACTION_INDEX_CHECKPOINT, transactionIndexName } from './txn-index.ts';

export interface Fault {
  /** Path from the folder that was asked for. */
  readonly file: string;
  readonly what: string;
}

export interface CheckOptions {
  /** Whether the last stop was clean: then nothing may be left half written. */
  readonly clean: boolean;
  /** Whether records are read too: unpacked, counted, their offsets compared. */
  readonly deep?: boolean;
  /** The latest leader epoch that the partition has had. Default: it is not known. */
  readonly latestLeaderEpoch?: number | undefined;
  /** Called with every so many bytes of segments that were read. */
  readonly onBytes?: (bytes: number) => void;
}

export interface PartitionReport {
  readonly segments: number;
  readonly batches: number;
  readonly bytes: number;
  /** Base offset of the first segment, 0 without one. */
  readonly startOffset: number;
  readonly endOffset: number;
  /** Name of the last segment's file. */
  readonly lastSegment: string | undefined;
  /** Whether offsets have no batch, as compaction leaves a log. */
  readonly hasGaps: boolean;
  /** What transaction indexes ought to hold, by name, of those that hold something else. */
  readonly aborted: ReadonlyMap<string, readonly AbortedTransaction[]>;
  readonly topicId: string | undefined;
  /** Leader epochs that batches ought to have, by segment file and position, of those that can't have the one that they have. */
  readonly epochs: ReadonlyMap<string, ReadonlyMap<number, number>>;
  /** Files with faults that are no leader epochs of batches. */
  readonly damaged: ReadonlySet<string>;
  /** What is wrong. */
  readonly faults: readonly Fault[];
  /** What is not, but worth knowing: a torn end that the next start cuts off. */
  readonly remarks: readonly Fault[];
}

/** Of one file no more are told. */
const FAULTS_PER_FILE = 20;
const SEGMENT = /^(\d{20})\.log$/;

/** The base offset in the name of a segment or one of its indexes; undefined for other files. */
export function segmentBaseOffset(name: string): number | undefined {
  const digits = /^(\d{20})\.(?:log|index|timeindex|txnindex)$/.exec(name)?.[1];
  const offset = Number(digits ?? Number.NaN);
  return Number.isSafeInteger(offset) ? offset : undefined;
}

export async function checkPartition(folder: string, options: CheckOptions): Promise<PartitionReport> {
  return new PartitionCheck(folder, options).run();
}

class PartitionCheck {
  readonly #folder: string;
  readonly #options: CheckOptions;
  readonly #faults: Fault[] = [];
  readonly #remarks: Fault[] = [];
  readonly #told = new Map<string, number>();
  readonly #damaged = new Set<string>();
  #names: readonly string[] = [];
  #epochs: LeaderEpochs | undefined;
  readonly #aborted = new Map<string, readonly AbortedTransaction[]>();
  #transactions = new AbortedCheck(0);
  #batches = 0;
  #bytes = 0;
  #endOffset = 0;
  #hasGaps = false;
  #epochCheck: EpochCheck | undefined;

  constructor(folder: string, options: CheckOptions) {
    this.#folder = folder;
    this.#options = options;
  }

  async run(): Promise<PartitionReport> {
    this.#names = (await readdir(this.#folder)).sort();
    const topicId = await this.#parsed(PARTITION_METADATA_FILE, (bytes) =>
      parsePartitionMetadata(bytes.toString()),
    );
    this.#epochs = await this.#parsed(LEADER_EPOCH_FILE, (bytes) =>
      LeaderEpochs.parse(bytes.toString('latin1')),
    );
    const epochCheck = new EpochCheck(this.#options, this.#epochs, (file, what) => this.#tell(file, what));
    this.#epochCheck = epochCheck;
    const segments = this.#names.filter((name) => SEGMENT.test(name));
    const startOffset = segments.length === 0 ? 0 : Number(segments[0]!.slice(0, 20));
    this.#endOffset = startOffset;
    this.#transactions = new AbortedCheck(startOffset);
    for (const [index, name] of segments.entries()) {
      await this.#segment(name, index === segments.length - 1);
    }
    epochCheck.finish();
    await this.#checksums();
    await this.#others(segments);
    return {
      segments: segments.length,
      batches: this.#batches,
      bytes: this.#bytes,
      startOffset,
      endOffset: this.#endOffset,
      lastSegment: segments.at(-1),
      hasGaps: this.#hasGaps,
      aborted: this.#aborted,
      epochs: epochCheck.wrong,
      damaged: this.#damaged,
      topicId,
      faults: this.#faults,
      remarks: this.#remarks,
    };
  }

  #fault(file: string, what: string): void {
    this.#damaged.add(file);
    this.#tell(file, what);
  }

  #tell(file: string, what: string): void {
    const told = (this.#told.get(file) ?? 0) + 1;
    this.#told.set(file, told);
    if (told < FAULTS_PER_FILE) this.#faults.push({ file, what });
    else if (told === FAULTS_PER_FILE) this.#faults.push({ file, what: 'and more' });
  }

  /** Something past the log's end: what a machine that lost its power may leave, and the next start mends. */
  #ahead(file: string, what: string): void {
    if (this.#options.clean) this.#fault(file, what);
    else this.#remarks.push({ file, what });
  }

  /** Undefined if there is no such file, or if it does not parse, which is a fault. */
  async #parsed<T>(name: string, parse: (bytes: Buffer) => T): Promise<T | undefined> {
    if (!this.#names.includes(name)) return undefined;
    try {
      return parse(await readFile(join(this.#folder, name)));
    } catch (error) {
      this.#fault(name, (error as Error).message);
      return undefined;
    }
  }

  async #segment(name: string, isLast: boolean): Promise<void> {
    const baseOffset = Number(name.slice(0, 20));
    if (baseOffset < this.#endOffset) {
      this.#fault(name, `it begins at ${baseOffset}, and the one before ends at ${this.#endOffset}`);
    }
    const stem = name.slice(0, 20);
    const offsets = new OffsetIndexCheck(
      (await this.#parsed(`${stem}.index`, (bytes) => parseOffsetIndex(bytes, baseOffset))) ?? [],
      (what) => this.#fault(`${stem}.index`, what),
    );
    const times = new TimeIndexCheck(
      (await this.#parsed(`${stem}.timeindex`, (bytes) => parseTimeIndex(bytes, baseOffset))) ?? [],
      (what) => this.#fault(`${stem}.timeindex`, what),
    );
    const aborted = `${stem}.txnindex`;
    this.#transactions.begin((await this.#parsed(aborted, parseTransactionIndex)) ?? [], {
      fault: (what) => this.#fault(aborted, what),
      missing: (what) => this.#ahead(aborted, what),
    });
    this.#endOffset = Math.max(this.#endOffset, baseOffset);
    const file = await SegmentFile.open(join(this.#folder, name));
    let seen = 0;
    try {
      for await (const placed of file.batches()) {
        for (const { position, batch } of placed) {
          this.#batch(name, position, batch);
          offsets.next(position, batch);
          times.next(batch);
        }
        this.#options.onBytes?.(file.end - seen);
        seen = file.end;
      }
      this.#bytes += file.end;
      if (file.fault !== undefined) {
        const what = `at position ${file.end}: ${file.fault}`;
        // A broker that was killed may leave such an end, and cuts it off when it starts.
        if (isLast) this.#ahead(name, what);
        else this.#fault(name, what);
      } else {
        offsets.finish();
        times.finish();
      }
    } finally {
      await file.close();
    }
    const expected = this.#transactions.finish();
    if (expected !== undefined) this.#aborted.set(aborted, expected);
  }

  #batch(name: string, position: number, batch: RecordBatch | LegacyBatch): void {
    this.#batches++;
    const fault = (what: string) => this.#fault(name, `batch at position ${position}: ${what}`);
    try {
      batch.ensureValid();
    } catch (error) {
      fault((error as Error).message);
      return;
    }
    const first = batch instanceof LegacyBatch ? batch.offset : batch.baseOffset;
    const last = batch instanceof LegacyBatch ? batch.offset : batch.lastOffset;
    if (last < first) fault(`its last offset ${last} is below its first, ${first}`);
    if (last < this.#endOffset) fault(`offset ${last} comes after offset ${this.#endOffset - 1}`);
    else if (batch instanceof LegacyBatch === false && first < this.#endOffset) {
      fault(`it begins at offset ${first}, and ${this.#endOffset - 1} was there before`);
    }
    if (batch instanceof LegacyBatch === false && first > this.#endOffset) this.#hasGaps = true;
    this.#endOffset = Math.max(this.#endOffset, last + 1);
    if (batch instanceof LegacyBatch) return;
    this.#epochCheck?.next({ file: name, position, offset: first, epoch: batch.leaderEpoch });
    this.#transactions.next(batch);
    if (this.#options.deep) this.#records(batch, fault);
  }

  #records(batch: RecordBatch, fault: (what: string) => void): void {
    let expected = batch.baseOffset;
    try {
      for (const { offset } of batch.records()) {
        // The log cleaner leaves gaps, but never goes back.
        if (offset < expected || offset > batch.lastOffset) fault(`a record in it has offset ${offset}`);
        expected = offset + 1;
      }
    } catch (error) {
      if (!(error instanceof BroadsheetError)) throw error;
      fault(error.message);
    }
  }

  /** What does not have the checksum that our own file says is made again by the next start: Apache Kafka writes none. */
  async #checksums(): Promise<void> {
    const lines = await this.#parsed(TRANSACTION_INDEX_CHECKPOINT, (bytes) =>
      parseCheckpoint(bytes.toString('latin1'), 2),
    );
    for (const [base, checksum] of lines ?? []) {
      const name = transactionIndexName(base!);
      if (!this.#names.includes(name) || crc32c(await readFile(join(this.#folder, name))) === checksum)
        continue;
      this.#remarks.push({
        file: name,
        what: `has not the checksum that ${TRANSACTION_INDEX_CHECKPOINT} says`,
      });
    }
  }

  /** Files that belong to no segment. */
  async #others(segments: readonly string[]): Promise<void> {
    const bases = new Set(segments.map((name) => name.slice(0, 20)));
    for (const name of this.#names) {
      const snapshot = snapshotOffset(name);
      if (snapshot !== undefined) {
        await this.#parsed(name, decodeSnapshot);
        if (snapshot > this.#endOffset && segments.length > 0) {
          this.#ahead(name, `it is of offset ${snapshot}, and the log ends at ${this.#endOffset}`);
        }
      } else if (segmentBaseOffset(name) !== undefined && !bases.has(name.slice(0, 20))) {
        this.#fault(name, 'it has no segment');
      }
    }
    const last = this.#epochs?.latest;
    if (last !== undefined && last.startOffset > this.#endOffset) {
      this.#ahead(
        LEADER_EPOCH_FILE,
        `epoch ${last.epoch} begins at ${last.startOffset}, and the log ends at ${this.#endOffset}`,
      );
    }
  }
}

interface PlacedEpoch {
  /** Of the segment. */
  readonly file: string;
  readonly position: number;
  readonly offset: number;
  readonly epoch: number;
}

/** Leader epochs of batches in order: no checksum covers them. They do not descend, nor pass the partition's; one that leaps over
 * that of the batch behind it was altered, not that one. One that fits is compared with the history. */
class EpochCheck {
  readonly wrong = new Map<string, Map<number, number>>();
  readonly #latest: number;
  readonly #clean: boolean;
  readonly #history: LeaderEpochs | undefined;
  readonly #fault: (file: string, what: string) => void;
  #isHistoryWrong = false;
  /** Of the batches before those that are held. */
  #before = -1;
  /** At most two: what comes behind tells which one of them was altered. */
  readonly #held: PlacedEpoch[] = [];

  constructor(
    { latestLeaderEpoch, clean }: CheckOptions,
    history: LeaderEpochs | undefined,
    fault: (file: string, what: string) => void,
  ) {
    this.#latest = latestLeaderEpoch ?? Number.POSITIVE_INFINITY;
    this.#clean = clean;
    this.#history = history;
    this.#fault = fault;
  }

  next(batch: PlacedEpoch): void {
    this.#held.push(batch);
    if (this.#held.length > 2) this.#judge(this.#held.shift()!);
  }

  finish(): void {
    while (this.#held.length > 0) this.#judge(this.#held.shift()!);
  }

  #judge({ file, position, offset, epoch }: PlacedEpoch): void {
    const before = this.#before;
    const fault = (what: string) =>
      this.#fault(file, `batch at position ${position}: leader epoch ${epoch} ${what}`);
    // -1: below the log start offset, where the history was cut off.
    const noted = this.#history?.epochOf(offset) ?? -1;
    let behind = this.#latest;
    const [next, after] = this.#held.map((each) => each.epoch);
    if (next !== undefined && next >= before && next < epoch) {
      const isNextWrong = noted === epoch || (after !== undefined && after >= epoch && after <= this.#latest);
      if (!isNextWrong) behind = Math.min(next, behind);
    }
    const fits = epoch >= before && epoch <= behind;
    const isBatchWrong = noted >= before && noted <= behind && this.#contradicts(noted, epoch);
    if (fits && !isBatchWrong) {
      this.#before = epoch;
      // Past its end a history that a kill left behind says nothing.
      const says = this.#clean || epoch <= (this.#history?.latest?.epoch ?? -1);
      if (says && noted >= 0 && noted !== epoch) {
        this.#isHistoryWrong = true;
        this.#fault(LEADER_EPOCH_FILE, `offset ${offset} has leader epoch ${epoch}, not ${noted}`);
      }
      return;
    }
    if (fits) fault(`is not ${noted}, which ${LEADER_EPOCH_FILE} has for offset ${offset}`);
    else if (epoch < before) fault(`comes after ${before}`);
    else if (epoch > this.#latest) fault(`has not begun: the partition's is ${this.#latest}`);
    else fault(`comes before ${behind}`);
    let right = noted >= before && noted <= behind ? noted : before;
    if (right < 0) right = Math.max(0, Math.min(next ?? 0, behind));
    const ofFile = this.wrong.get(file) ?? new Map<number, number>();
    this.wrong.set(file, ofFile.set(position, right));
  }

  /** Whether the history tells that the batch before those that are held was altered; else it may be the history that was. */
  #contradicts(noted: number, epoch: number): boolean {
    const history = this.#history;
    if (history === undefined || noted === epoch || this.#isHistoryWrong) return false;
    const [next] = this.#held;
    if (next !== undefined && next.epoch !== history.epochOf(next.offset)) return false;
    if (history.checked && this.#clean && Number.isFinite(this.#latest)) return true;
    return next !== undefined && !history.has(epoch);
  }
}

/** Compares an offset index with the batches, both in order: each entry names the position of a batch that begins at or
 * before its offset. */
class OffsetIndexCheck {
  readonly #entries: readonly OffsetIndexEntry[];
  readonly #fault: (what: string) => void;
  #at = 0;

  constructor(entries: readonly OffsetIndexEntry[], fault: (what: string) => void) {
    this.#entries = entries;
    this.#fault = fault;
    for (const [index, { offset, position }] of entries.entries()) {
      const before = entries[index - 1];
      if (before !== undefined && (offset <= before.offset || position <= before.position)) {
        fault(`entry ${index} (offset ${offset}, position ${position}) does not follow the one before`);
      }
    }
  }

  next(position: number, batch: RecordBatch | LegacyBatch): void {
    for (; this.#at < this.#entries.length; this.#at++) {
      const entry = this.#entries[this.#at]!;
      if (entry.position > position) return;
      const first = batch instanceof LegacyBatch ? batch.offset : batch.baseOffset;
      if (entry.position < position) this.#fault(`no batch begins at position ${entry.position}`);
      else if (entry.offset < first && batch instanceof LegacyBatch === false) {
        this.#fault(`offset ${entry.offset} is said to lie at position ${position}, where ${first} begins`);
      }
    }
  }

  finish(): void {
    for (; this.#at < this.#entries.length; this.#at++) {
      this.#fault(`no batch begins at position ${this.#entries[this.#at]!.position}`);
    }
  }
}

/** Compares a time index with the batches: each entry has the largest timestamp of the batch that holds its offset, and no
 * later entry a smaller one. */
class TimeIndexCheck {
  readonly #entries: readonly TimeIndexEntry[];
  readonly #fault: (what: string) => void;
  #at = 0;

  constructor(entries: readonly TimeIndexEntry[], fault: (what: string) => void) {
    this.#entries = entries;
    this.#fault = fault;
    for (const [index, { timestamp, offset }] of entries.entries()) {
      const before = entries[index - 1];
      if (before !== undefined && (timestamp < before.timestamp || offset < before.offset)) {
        fault(`entry ${index} (timestamp ${timestamp}, offset ${offset}) does not follow the one before`);
      }
    }
  }

  next(batch: RecordBatch | LegacyBatch): void {
    const last = batch instanceof LegacyBatch ? batch.offset : batch.lastOffset;
    for (; this.#at < this.#entries.length; this.#at++) {
      const { offset, timestamp } = this.#entries[this.#at]!;
      if (offset > last) return;
      if (batch instanceof LegacyBatch === false && batch.maxTimestamp !== timestamp) {
        this.#fault(
          `offset ${offset} is said to have timestamp ${timestamp}, its batch has ${batch.maxTimestamp}`,
        );
      }
    }
  }

  finish(): void {
    for (; this.#at < this.#entries.length; this.#at++) {
      this.#fault(`offset ${this.#entries[this.#at]!.offset} lies past the segment's end`);
    }
  }
}

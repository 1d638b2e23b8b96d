/**
 * Snapshots of producer state, `<20 digits of the offset>.snapshot`: the state as of that offset. Bytes: int16 version 1,
 * uint32 CRC-32C of the rest, int32 number of entries, entries of 46 bytes (schema ProducerSnapshot). Only the last batch
 * of a producer is kept in them, as in Kafka.
 */
import { crc32c } from '../protocol/crc32c.ts';
import { readProducerSnapshot, writeProducerSnapshot } from '../protocol/generated/files.ts';
import { Reader } from '../protocol/reader.ts';
import { Writer } from '../protocol/writer.ts';
import { BroadsheetError } from '../runtime/errors.ts';
import type { Logger } from '../runtime/logging.ts';
import type { BatchInfo, Files, Log } from './log.ts';
import { abortedBy, isExpired, isMarker, type ProducerEntry, ProducerState } from './producer-state.ts';
import { segmentFileName } from './segment-names.ts';
import { MarkerReader } from './transaction-marker.ts';
import type { TransactionIndex } from './txn-index.ts';

const VERSION = 1;
const PREFIX_BYTES = 10;
const ENTRY_BYTES = 46;
/** Where the checksummed bytes begin. */
const CHECKED_FROM = 6;
const SNAPSHOT_NAME = /^(\d{20})\.snapshot$/;

export function snapshotName(offset: number): string {
  return segmentFileName(offset, '.snapshot');
}

/** The offset in a snapshot's file name, or undefined for any other file. */
export function snapshotOffset(name: string): number | undefined {
  const digits = SNAPSHOT_NAME.exec(name)?.[1];
  const offset = Number(digits ?? Number.NaN);
  return Number.isSafeInteger(offset) ? offset : undefined;
}

export function encodeSnapshot(state: ProducerState): Uint8Array {
  const writer = new Writer(PREFIX_BYTES + state.size * ENTRY_BYTES);
  writer.int16(VERSION);
  const producerEntries = Array.from(state.entries(), (entry) => {
    const last = entry.batches[entry.batches.length - 1];
    return {
      producerId: entry.producerId,
      epoch: entry.epoch,
      lastSequence: last?.lastSequence ?? -1,
      lastOffset: last?.lastOffset ?? -1,
      offsetDelta: last?.offsetDelta ?? 0,
      timestamp: entry.lastTimestamp,
      coordinatorEpoch: entry.coordinatorEpoch,
      currentTxnFirstOffset: entry.currentTxnFirstOffset,
    };
  });
  writeProducerSnapshot(writer, VERSION, { crc: 0, producerEntries });
  const bytes = writer.bytes();
  writer.patchInt32(2, crc32c(bytes, CHECKED_FROM, bytes.length) | 0);
  return writer.bytes();
}

/** Throws CORRUPT, MALFORMED. */
export function decodeSnapshot(bytes: Uint8Array): ProducerEntry[] {
  const reader = new Reader(bytes);
  const version = reader.int16();
  if (version !== VERSION) throw new BroadsheetError('CORRUPT', `unknown version ${version}`);
  const { crc, producerEntries } = readProducerSnapshot(reader, VERSION);
  if (crc !== crc32c(bytes, CHECKED_FROM, bytes.length))
    throw new BroadsheetError('CORRUPT', 'the checksum does not match');
  if (reader.remaining !== 0) throw new BroadsheetError('CORRUPT', `${reader.remaining} bytes too many`);
  return producerEntries.map((entry) => ({
    producerId: entry.producerId,
    epoch: entry.epoch,
    batches:
      entry.lastOffset < 0
        ? []
        : [
            {
              lastSequence: entry.lastSequence,
              lastOffset: entry.lastOffset,
              offsetDelta: entry.offsetDelta,
              timestamp: entry.timestamp,
            },
          ],
    lastTimestamp: entry.timestamp,
    coordinatorEpoch: entry.coordinatorEpoch,
    currentTxnFirstOffset: Math.max(-1, entry.currentTxnFirstOffset),
  }));
}

/** The snapshot files of one partition. */
export class ProducerSnapshots {
  readonly #files: Files;
  readonly #logger: Logger;
  /** Ascending. */
  #offsets: number[] = [];

  constructor(files: Files, logger: Logger) {
    this.#files = files;
    this.#logger = logger;
  }

  get offsets(): readonly number[] {
    return this.#offsets;
  }

  /** Lists the folder. What lies past the log's end, or neither begins a segment nor is the newest, is removed. */
  async open(log: Log, names: readonly string[]): Promise<void> {
    const all = names
      .map(snapshotOffset)
      .filter((offset) => offset !== undefined)
      .sort((a, b) => a - b);
    const inLog = all.filter((offset) => offset <= log.logEndOffset);
    const newest = inLog[inLog.length - 1];
    const bases = new Set(log.segmentBaseOffsets());
    this.#offsets = inLog.filter((offset) => offset === newest || bases.has(offset));
    const kept = new Set(this.#offsets);
    for (const offset of all) {
      if (!kept.has(offset)) await this.#files.remove(`${log.dir}/${snapshotName(offset)}`);
    }
  }

  /** Entries of the newest snapshot between two offsets that checks out, and its offset; those that don't are removed. */
  async newest(
    dir: string,
    atLeast: number,
    atMost = Number.POSITIVE_INFINITY,
  ): Promise<{ offset: number; entries: ProducerEntry[] } | undefined> {
    for (;;) {
      const at = this.#offsets.findLastIndex((offset) => offset <= atMost);
      const offset = this.#offsets[at];
      if (offset === undefined || offset < atLeast) return undefined;
      const path = `${dir}/${snapshotName(offset)}`;
      try {
        return { offset, entries: decodeSnapshot(await this.#files.read(path)) };
      } catch (error) {
        if (!['CORRUPT', 'MALFORMED', 'LIMIT', 'NOT_FOUND'].includes((error as BroadsheetError).code))
          throw error;
        this.#logger.warn(
          { path, reason: (error as Error).message },
          'producer snapshot is corrupt, ignored',
        );
        this.#offsets.splice(at, 1);
        await this.#files.remove(path);
      }
    }
  }

  warnUnread(dir: string, fault: BroadsheetError): void {
    this.#logger.warn({ dir, reason: fault.message }, 'a damaged segment tells nothing of its producers');
  }

  async write(dir: string, offset: number, bytes: Uint8Array): Promise<void> {
    await this.#files.writeAtomic(`${dir}/${snapshotName(offset)}`, bytes);
    if (this.#offsets.includes(offset)) return;
    this.#offsets.push(offset);
    this.#offsets.sort((a, b) => a - b);
  }

  /** Removes those below the first segment that is left. */
  async removeBelow(dir: string, offset: number): Promise<void> {
    while (this.#offsets.length > 0 && this.#offsets[0]! < offset) {
      await this.#files.remove(`${dir}/${snapshotName(this.#offsets.shift()!)}`);
    }
  }
}

/** Batches before a snapshot that are looked at for those that it left out, at least: headers only, read in about a
 * millisecond. */
const RECALLED_BATCHES = 500;

export interface LoadProducersOptions {
  /** ms since the epoch. */
  readonly now: number;
  readonly expirationMs: number;
  /** Gets the aborted transactions that are met on the way. */
  readonly aborted?: TransactionIndex;
  /** Those whose markers lie at or past this offset have to be met. */
  readonly abortedFrom?: number;
}

/**
 * Producer state as of the log's end: the newest snapshot without what expired, then the headers of what comes after it.
 * Those stay until the next check even when their timestamps are old, as in Kafka: a producer that was cut off by the stop
 * is about to send its last batches again. For the same reason the batches that the snapshot left out are looked up in the
 * log, so that each of them is known for a duplicate.
 */
export async function loadProducerState(
  log: Log,
  snapshots: ProducerSnapshots,
  options: LoadProducersOptions,
): Promise<ProducerState> {
  const { aborted, abortedFrom = Number.POSITIVE_INFINITY } = options;
  const begin = log.segmentBaseOffsets()[0] ?? 0;
  const markers = new MarkerReader(log);
  const replay = async (state: ProducerState, from: number, end?: number) => {
    const faults = await forEachBatch(
      log,
      from,
      true,
      async (batch) => {
        if (batch.producerId < 0) return;
        const marker = isMarker(batch) ? await markers.read(batch.baseOffset) : undefined;
        const before = state.get(batch.producerId);
        state.replay(batch, marker?.coordinatorEpoch ?? -1);
        if (marker?.commit === false) {
          const transaction = abortedBy(batch.producerId, batch.baseOffset, before, state);
          if (transaction !== undefined) aborted?.add(transaction);
        }
      },
      end,
    );
    for (const fault of faults) snapshots.warnUnread(log.dir, fault);
  };
  // What came between an older one and the first segment is gone: its producers may have gone on since.
  let snapshot = await snapshots.newest(log.dir, begin, abortedFrom);
  if (snapshot === undefined && begin > 0) {
    // Who wrote last below the first segment, and nothing since, is only in one that is too new to tell of all markers.
    snapshot = await snapshots.newest(log.dir, begin);
    if (snapshot !== undefined) await replay(new ProducerState(), begin, snapshot.offset);
  }
  const entries = (snapshot?.entries ?? []).filter(
    (entry) => !isExpired(entry, options.now, options.expirationMs),
  );
  // Not from the log's start: DeleteRecords takes nothing from what producers are known to have sent.
  const from = snapshot?.offset ?? begin;
  const state = new ProducerState(await recallBatches(log, entries, from));
  await replay(state, from);
  return state;
}

/** The entries of a snapshot at `offset` with the batches before the one that it holds of each producer. */
async function recallBatches(
  log: Log,
  entries: readonly ProducerEntry[],
  offset: number,
): Promise<readonly ProducerEntry[]> {
  if (entries.every((entry) => entry.batches.length === 0)) return entries;
  let found: BatchInfo[] = [];
  for (let span = RECALLED_BATCHES; found.length < RECALLED_BATCHES; span *= 8) {
    const from = Math.max(offset - span, log.logStartOffset);
    found = [];
    await forEachBatch(log, from, false, (batch) => void found.push(batch), offset);
    if (from === log.logStartOffset) break;
  }
  const seen = new ProducerState();
  for (const batch of found) if (!isMarker(batch)) seen.replay(batch, -1);
  return entries.map((entry) => {
    const recalled = seen.get(entry.producerId);
    const last = entry.batches[0];
    const same =
      recalled?.epoch === entry.epoch &&
      recalled.batches[recalled.batches.length - 1]?.lastOffset === last?.lastOffset;
    return same ? { ...entry, batches: recalled.batches } : entry;
  });
}

/**
 * Batch headers from an offset to another one (default: the log's end), a segment at a time. A segment that does not check
 * out where nothing looks at it in a start, below the recovery point, is left out: its fault is among those returned.
 */
export async function forEachBatch(
  log: Log,
  from: number,
  producersOnly: boolean,
  fn: (batch: BatchInfo) => void | Promise<void>,
  end = log.writtenOffset,
): Promise<BroadsheetError[]> {
  const faults: BroadsheetError[] = [];
  const bases = log.segmentBaseOffsets();
  for (let i = 0; i < bases.length; i++) {
    const start = Math.max(from, bases[i]!);
    const upTo = Math.min(end, bases[i + 1] ?? end);
    if (start >= upTo) continue;
    let batches: BatchInfo[];
    try {
      batches = await log.scanBatches(start, upTo, producersOnly);
    } catch (error) {
      if ((error as BroadsheetError).code !== 'CORRUPT') throw error;
      faults.push(error as BroadsheetError);
      continue;
    }
    for (const batch of batches) await fn(batch);
  }
  return faults;
}

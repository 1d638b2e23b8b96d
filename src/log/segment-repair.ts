/**
 * Takes damaged batches out of a closed segment's file: their bytes go to a `.quarantine` file, and an empty batch stands for the
 * offsets that they had, as compaction leaves them, so that everything behind keeps its offsets and readers go on over the gap.
 */
import { readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import {
  BASE_OFFSET_AT,
  BATCH_HEADER_BYTES,
  BATCH_LENGTH_AT,
  LAST_OFFSET_DELTA_AT,
  LEADER_EPOCH_AT,
  LOG_OVERHEAD_BYTES,
  MAGIC_AT,
} from '../protocol/records/batch.ts';
import { RecordBatch } from '../protocol/records/reader.ts';
import { writeBatch } from '../protocol/records/writer.ts';
import { copyPath, renamePath, syncFolder, withFile } from './js-file.ts';
import { freeQuarantineName } from './js-quarantine.ts';
import type { Files } from './log.ts';
import { segmentBases, segmentFileName } from './segment-names.ts';

export interface SegmentRepair {
  /** Bytes that went to quarantine. */
  readonly bytes: number;
  /** Offsets whose records are gone. */
  readonly offsets: number;
  /** Batches that were whole but for their own offset, which was written again. */
  readonly moved: number;
}

interface Damage {
  readonly position: number;
  readonly end: number;
  /** Of the batch before it; -1 if there is none. */
  readonly leaderEpoch: number;
  readonly firstOffset: number;
  /** What follows, or the log's end, as far as that is known. */
  readonly nextOffset: number;
}

const MAX_INT32 = 2 ** 31 - 1;

/** A batch whose own offset was altered. */
interface Misplaced {
  readonly position: number;
  readonly baseOffset: number;
}

/** The batch at a position, if it is whole but for its offset, which no checksum covers. */
function frameAt(bytes: Buffer, position: number): RecordBatch | undefined {
  if (position + BATCH_HEADER_BYTES > bytes.length || bytes[position + MAGIC_AT] !== 2) return undefined;
  const size = bytes.readInt32BE(position + BATCH_LENGTH_AT) + LOG_OVERHEAD_BYTES;
  if (size < BATCH_HEADER_BYTES || position + size > bytes.length) return undefined;
  const batch = new RecordBatch(bytes.subarray(position, position + size), 0);
  return batch.checksOut() ? batch : undefined;
}

/** The batch at a position, if it is whole and its records may follow those below `from`, and lie below `upTo`. */
function batchAt(bytes: Buffer, position: number, from: number, upTo: number): RecordBatch | undefined {
  if (position + BATCH_HEADER_BYTES > bytes.length) return undefined;
  const offset = bytes.readBigInt64BE(position + BASE_OFFSET_AT);
  const last = offset + BigInt(bytes.readInt32BE(position + LAST_OFFSET_DELTA_AT));
  if (offset < BigInt(from) || last < offset || last >= BigInt(Math.min(upTo, Number.MAX_SAFE_INTEGER)))
    return undefined;
  return frameAt(bytes, position);
}

/** No checksum covers a batch's own offset: one that leaps over offsets which come behind it was altered, and one behind a gap that
 * lies across a known border of batches. */
function isMisplaced(
  batch: RecordBatch,
  bytes: Buffer,
  at: number,
  { from, upTo, border }: { readonly from: number; readonly upTo: number; readonly border: number },
): boolean {
  if (batch.baseOffset === from) return false;
  if (from < border && batch.lastOffset >= border) return true;
  const next = batchAt(bytes, at + batch.sizeInBytes, from, upTo);
  return next !== undefined && next.baseOffset <= batch.lastOffset;
}

/** The batch at a position, if it is whole and takes just the offsets between those before it and those behind: then they are its. */
function misplacedAt(
  bytes: Buffer,
  position: number,
  { from, upTo, border }: { readonly from: number; readonly upTo: number; readonly border: number },
): RecordBatch | undefined {
  const batch = frameAt(bytes, position);
  if (batch === undefined) return undefined;
  const behind = position + batch.sizeInBytes;
  const next = behind < bytes.length ? batchAt(bytes, behind, from, upTo)?.baseOffset : border;
  const deltas = bytes.readInt32BE(position + LAST_OFFSET_DELTA_AT);
  return deltas >= 0 && next === from + deltas + 1 ? batch : undefined;
}

function findDamage(
  bytes: Buffer,
  baseOffset: number,
  nextBase: number,
  { endOffset = 0, refused }: RepairOptions,
): { readonly damages: Damage[]; readonly misplaced: Misplaced[] } {
  const found: Damage[] = [];
  const misplaced: Misplaced[] = [];
  // Indexes have 31 bits for an offset of their segment.
  const upTo = Math.min(nextBase, baseOffset + MAX_INT32 + 1);
  let offset = baseOffset;
  let leaderEpoch = -1;
  let bad: number | undefined;
  for (let at = 0; at < bytes.length; ) {
    const batch = batchAt(bytes, at, offset, upTo);
    const bounds = { from: offset, upTo, border: endOffset };
    if (
      batch === undefined ||
      refused?.has(batch.baseOffset) === true ||
      isMisplaced(batch, bytes, at, bounds)
    ) {
      const border = Number.isFinite(nextBase) ? nextBase : endOffset;
      const whole = bad === undefined ? misplacedAt(bytes, at, { ...bounds, border }) : undefined;
      if (whole === undefined || refused?.has(whole.baseOffset) === true) {
        bad ??= at;
        at++;
        continue;
      }
      misplaced.push({ position: at, baseOffset: offset });
      offset += bytes.readInt32BE(at + LAST_OFFSET_DELTA_AT) + 1;
      leaderEpoch = whole.leaderEpoch;
      at += whole.sizeInBytes;
      continue;
    }
    if (bad !== undefined)
      found.push({
        position: bad,
        end: at,
        leaderEpoch: leaderEpoch < 0 ? batch.leaderEpoch : leaderEpoch,
        firstOffset: offset,
        nextOffset: batch.baseOffset,
      });
    bad = undefined;
    offset = batch.lastOffset + 1;
    leaderEpoch = batch.leaderEpoch;
    at += batch.sizeInBytes;
  }
  // What is missing at the end has no bytes.
  if (bad === undefined && offset < endOffset && endOffset < nextBase) bad = bytes.length;
  if (bad !== undefined) {
    const nextOffset = nextBase === Number.POSITIVE_INFINITY ? Math.max(offset, endOffset) : nextBase;
    found.push({ position: bad, end: bytes.length, leaderEpoch, firstOffset: offset, nextOffset });
  }
  return { damages: found, misplaced };
}

async function basesIn(files: Files, folder: string): Promise<number[]> {
  return segmentBases((await files.list(folder)).map(({ name }) => name));
}

/** Has a log whose first segments are missing begin where it did: whoever is to read on from there would be sent elsewhere, perhaps
 * to the end. Undefined where nothing is missing, or where more is than a segment can stand for. Rejects as repairEnd does. */
export async function repairStart(
  files: Files,
  folder: string,
  startOffset: number,
): Promise<SegmentRepair | undefined> {
  const [first = startOffset] = await basesIn(files, folder);
  const offsets = await refill(files, folder, startOffset, first);
  return offsets === 0 ? undefined : { bytes: 0, offsets, moved: 0 };
}

/** Writes a segment of offsets without a record, in place of one that is missing. Gives how many, 0 if there are none or too many for
 * a segment. */
export async function refill(
  files: Files,
  folder: string,
  firstOffset: number,
  nextOffset: number,
): Promise<number> {
  const offsets = nextOffset - firstOffset;
  if (!(offsets > 0 && offsets <= MAX_INT32)) return 0;
  const path = join(folder, segmentFileName(firstOffset, '.log'));
  await files.writeAtomic(path, emptyBatch(firstOffset, nextOffset, 0));
  return offsets;
}

/** Repairs the segment in which a log does not reach `endOffset`, though it is known to. Undefined if no damage is found. Rejects with
 * IO, NO_SPACE ... */
export async function repairEnd(
  files: Files,
  folder: string,
  endOffset: number,
): Promise<SegmentRepair | undefined> {
  const bases = await basesIn(files, folder);
  const last = bases.findLastIndex((base) => base < endOffset);
  if (last < 0) return undefined;
  return repairSegment(files, folder, bases[last]!, bases[last + 1] ?? Number.POSITIVE_INFINITY, {
    endOffset,
  });
}

/** What stands for the records of the offsets from one up to another: batches of a leader epoch. */
export type Fill = (firstOffset: number, nextOffset: number, leaderEpoch: number) => Uint8Array;

/** A batch without records from one offset up to another one. */
function emptyBatch(firstOffset: number, nextOffset: number, leaderEpoch: number): Uint8Array {
  return writeBatch(
    {
      baseOffset: firstOffset,
      leaderEpoch: Math.max(leaderEpoch, 0),
      attributes: 0,
      lastOffsetDelta: nextOffset - firstOffset - 1,
      baseTimestamp: -1,
      maxTimestamp: -1,
      producerId: -1,
      producerEpoch: -1,
      baseSequence: -1,
    },
    [],
  );
}

export interface RepairOptions {
  /** How far the last segment goes at least: one batch ended there and the next began. What had the offsets below was
   * acknowledged, nothing else may get them. Default: 0, it is not known. */
  readonly endOffset?: number;
  /** Base offsets of batches that check out and have to go all the same. */
  readonly refused?: ReadonlySet<number>;
  /** Default: a batch without records. */
  readonly fill?: Fill;
}

/**
 * Repairs the segment that begins at `baseOffset`; `nextBase` is where the next one begins, Infinity for the last. Undefined if
 * every batch checks out. Its indexes are removed, for the next start to make again. The whole file is in memory meanwhile. A kill
 * leaves the file as it was, or repaired. Rejects with IO, NO_SPACE ...
 */
export async function repairSegment(
  files: Files,
  folder: string,
  baseOffset: number,
  nextBase: number,
  options: RepairOptions = {},
): Promise<SegmentRepair | undefined> {
  const { fill = emptyBatch } = options;
  const name = segmentFileName(baseOffset, '.log');
  const bytes = await readFile(join(folder, name));
  const { damages, misplaced } = findDamage(bytes, baseOffset, nextBase, options);
  if (damages.length === 0 && misplaced.length === 0) return undefined;
  for (const each of misplaced)
    bytes.writeBigInt64BE(BigInt(each.baseOffset), each.position + BASE_OFFSET_AT);
  const parts: Uint8Array[] = [];
  let from = 0;
  let lostBytes = 0;
  let lostOffsets = 0;
  for (const { position, end, leaderEpoch, firstOffset, nextOffset } of damages) {
    if (end > position) {
      const kept = await freeQuarantineName(folder, name, position);
      await files.writeAtomic(join(folder, kept), bytes.subarray(position, end));
    }
    parts.push(bytes.subarray(from, position));
    const span = nextOffset - firstOffset;
    if (span > 0 && span <= MAX_INT32) parts.push(fill(firstOffset, firstOffset + span, leaderEpoch));
    from = end;
    lostBytes += end - position;
    lostOffsets += span;
  }
  parts.push(bytes.subarray(from));
  for (const suffix of ['.index', '.timeindex'])
    await files.remove(join(folder, segmentFileName(baseOffset, suffix)));
  await files.writeAtomic(join(folder, name), Buffer.concat(parts));
  return { bytes: lostBytes, offsets: lostOffsets, moved: misplaced.length };
}

/** Writes the leader epochs of batches at positions of a segment again, in a copy that takes its place: a backup may share the file.
 * Nothing of it is in memory. Rejects with IO, NO_SPACE ... */
export async function rewriteEpochs(
  files: Files,
  path: string,
  epochs: ReadonlyMap<number, number>,
): Promise<void> {
  const temporary = `${path}.tmp`;
  // What a kill left would be taken for another's.
  await files.remove(temporary);
  try {
    await copyPath(path, temporary);
    await withFile(temporary, 'read-write', async (file) => {
      for (const [position, epoch] of epochs) {
        const bytes = Buffer.alloc(4);
        bytes.writeInt32BE(epoch);
        file.writeNow([bytes], position + LEADER_EPOCH_AT);
      }
      await file.fdatasync();
    });
    await renamePath(temporary, path);
  } catch (error) {
    await files.remove(temporary).catch(() => {});
    throw error;
  }
  await syncFolder(dirname(path));
}

/** The entries of a segment's index files, as they lie on disk (docs/DISK_FORMAT.md). Zeros behind them, of a file that was
 * preallocated and not cut, are no entries. */
import { type AbortedTxn, readAbortedTxn } from '../protocol/generated/files.ts';
import { Reader } from '../protocol/reader.ts';
import { readInt64 } from '../protocol/records/int64.ts';
import { BroadsheetError } from '../runtime/errors.ts';

export interface OffsetIndexEntry {
  readonly offset: number;
  /** Of a batch in the segment. */
  readonly position: number;
}

export interface TimeIndexEntry {
  /** ms since the epoch. */
  readonly timestamp: number;
  readonly offset: number;
}

const OFFSET_ENTRY_BYTES = 8;
const TIME_ENTRY_BYTES = 12;
const ABORTED_BYTES = 34;
const ABORTED_VERSION = 0;

/** Throws CORRUPT for a length that is no number of entries. */
export function parseOffsetIndex(bytes: Uint8Array, baseOffset: number): OffsetIndexEntry[] {
  const view = entries(bytes, OFFSET_ENTRY_BYTES);
  const found: OffsetIndexEntry[] = [];
  for (let at = 0; at < view.byteLength; at += OFFSET_ENTRY_BYTES) {
    found.push({ offset: baseOffset + view.getInt32(at), position: view.getInt32(at + 4) });
  }
  return found;
}

/** Throws CORRUPT for a length that is no number of entries. */
export function parseTimeIndex(bytes: Uint8Array, baseOffset: number): TimeIndexEntry[] {
  const view = entries(bytes, TIME_ENTRY_BYTES);
  const found: TimeIndexEntry[] = [];
  for (let at = 0; at < view.byteLength; at += TIME_ENTRY_BYTES) {
    found.push({ timestamp: readInt64(view, at), offset: baseOffset + view.getInt32(at + 8) });
  }
  return found;
}

/** What the entries for offsets below `endOffset` take of an index that is written to, bytes. */
export function indexBytesBelow(
  bytes: Uint8Array,
  suffix: string,
  baseOffset: number,
  endOffset: number,
): number {
  const [entryBytes, offsetAt] = suffix === '.index' ? [OFFSET_ENTRY_BYTES, 0] : [TIME_ENTRY_BYTES, 8];
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  let [low, high] = [0, Math.floor(bytes.length / entryBytes)];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (baseOffset + view.getInt32(middle * entryBytes + offsetAt) < endOffset) low = middle + 1;
    else high = middle;
  }
  return low * entryBytes;
}

/** Aborted transactions. Throws CORRUPT for a length that is no number of entries, MALFORMED. */
export function parseTransactionIndex(bytes: Uint8Array): AbortedTxn[] {
  if (bytes.length % ABORTED_BYTES !== 0) throw partial(bytes.length, ABORTED_BYTES);
  const found: AbortedTxn[] = [];
  const reader = new Reader(bytes);
  while (reader.remaining > 0) {
    const version = reader.int16();
    if (version !== ABORTED_VERSION) throw new BroadsheetError('CORRUPT', `unknown version ${version}`);
    found.push(readAbortedTxn(reader, version));
  }
  return found;
}

/** Without the zeros behind the last entry; one entry may be all zeros, if it is the first. */
function entries(bytes: Uint8Array, entryBytes: number): DataView {
  if (bytes.length % entryBytes !== 0) throw partial(bytes.length, entryBytes);
  let end = bytes.length;
  while (end > 0 && bytes[end - 1] === 0) end--;
  const count = Math.ceil(end / entryBytes);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  return new DataView(view.buffer, view.byteOffset, count * entryBytes);
}

function partial(length: number, entryBytes: number): BroadsheetError {
  return new BroadsheetError('CORRUPT', `${length} bytes are no number of entries of ${entryBytes}`);
}

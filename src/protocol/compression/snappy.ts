/**
 * Snappy as Kafka's clients write it: the framing of xerial's SnappyOutputStream (16-byte header, then int32 length and a
 * raw snappy block, repeated), or one raw block without framing, which some clients send.
 */
import { createRequire } from 'node:module';
import type { BroadsheetError } from '../../runtime/errors.ts';
import { broken, concat, type Inflated, NOTHING, tooLarge } from './inflated.ts';

const CODEC = 'snappy';
/** The buffer with which Kafka reads a snappy stream. */
const READER_BYTES = 2 * 1024;
const HEADER = Buffer.from('82534e41505059000000000100000001', 'hex');
/** What tells a framed stream from a raw block; the two versions behind it are not looked at, as in Kafka. */
const MAGIC_BYTES = 8;
const BLOCK_BYTES = 32 * 1024;
const MAX_CHUNK_BYTES = 512 * 1024 * 1024;
/** A copy element of 3 bytes yields at most 64: no block expands further. */
const MAX_EXPANSION = 22;
const MAX_PREAMBLE_BYTES = 5;

type Snappy = Pick<typeof import('snappy'), 'compressSync' | 'uncompressSync'>;
let loaded: Snappy | undefined;
function library(): Snappy {
  loaded ??= createRequire(import.meta.url)('snappy') as Snappy;
  return loaded;
}

export function compressSnappy(bytes: Uint8Array): Uint8Array {
  const pieces: Uint8Array[] = [HEADER];
  for (let at = 0; at < bytes.length; at += BLOCK_BYTES) {
    const block = library().compressSync(bytes.subarray(at, at + BLOCK_BYTES), { copyOutputData: true });
    const length = Buffer.allocUnsafe(4);
    length.writeInt32BE(block.length);
    pieces.push(length, block);
  }
  return Buffer.concat(pieces);
}

export function inflateSnappy(input: Uint8Array, limit: number): Inflated {
  if (input.length === 0) return { bytes: NOTHING, fault: broken(CODEC, 'it is empty') };
  const framed = input.length >= HEADER.length && HEADER.compare(input, 0, MAGIC_BYTES, 0, MAGIC_BYTES) === 0;
  if (!framed) {
    const block = inflateBlock(input, 0, input.length, limit, limit);
    return typeof block === 'string'
      ? { bytes: NOTHING, fault: broken(CODEC, block) }
      : { bytes: block, fault: undefined };
  }
  const view = new DataView(input.buffer, input.byteOffset, input.length);
  const chunks: Uint8Array[] = [];
  let produced = 0;
  let at = HEADER.length;
  // Fewer than four bytes at the end are left alone, as Kafka's reader does.
  while (input.length - at >= 4) {
    if (
      input.length - at >= HEADER.length &&
      HEADER.compare(input, at, at + MAGIC_BYTES, 0, MAGIC_BYTES) === 0
    ) {
      at += HEADER.length; // streams one after the other
      continue;
    }
    const length = view.getInt32(at);
    at += 4;
    if (length < 0 || length > MAX_CHUNK_BYTES || length > input.length - at) {
      const what = `a chunk of ${length} bytes with ${input.length - at} left`;
      return seenBefore(chunks, broken(CODEC, what));
    }
    const block = inflateBlock(input, at, at + length, limit - produced, limit);
    if (typeof block === 'string') return seenBefore(chunks, broken(CODEC, block));
    chunks.push(block);
    produced += block.length;
    at += length;
  }
  return { bytes: chunks.length === 0 ? NOTHING : concat(chunks), fault: undefined };
}

/** What Kafka's reader has seen of `chunks` when the next one fails: it fills its buffer before it looks at it, so a
 * buffer begun is lost. */
function seenBefore(chunks: readonly Uint8Array[], fault: BroadsheetError): Inflated {
  const bytes = concat([...chunks, NOTHING]);
  return { bytes: bytes.subarray(0, bytes.length - (bytes.length % READER_BYTES)), fault };
}

/** One raw block, or what is wrong with it. Its claim is believed only as far as its own length makes it possible. */
function inflateBlock(
  input: Uint8Array,
  start: number,
  end: number,
  room: number,
  limit: number,
): Uint8Array | string {
  let claimed = 0;
  let shift = 0;
  for (let at = start; ; at++, shift += 7) {
    if (at >= end || at - start >= MAX_PREAMBLE_BYTES) return 'its length does not parse';
    const byte = input[at]!;
    claimed += (byte & 0x7f) * 2 ** shift;
    if (byte < 0x80) break;
  }
  if (claimed > (end - start) * MAX_EXPANSION) return `${claimed} bytes claimed by a block of ${end - start}`;
  if (claimed > room) throw tooLarge(CODEC, limit);
  try {
    return library().uncompressSync(input.subarray(start, end), { copyOutputData: true }) as Buffer;
  } catch (error) {
    return (error as Error).message;
  }
}

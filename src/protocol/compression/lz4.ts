/**
 * LZ4 frames (github.com/lz4/lz4, doc/lz4_Frame_format.md) as Kafka reads them: one frame, independent blocks, header
 * checksum required, block checksums checked where present; what follows the end mark is ignored. The frame is walked
 * here, so that output is bounded block by block; the blocks are the library's.
 */
import { createRequire } from 'node:module';
import { xxhash32 } from '../xxhash32.ts';
import { broken, concat, type Inflated, NOTHING, tooLarge } from './inflated.ts';

const CODEC = 'lz4';
const MAGIC = 0x184d2204;
/** Magic and descriptor without content size and dictionary id, then the header checksum. */
const SHORT_HEADER_BYTES = 7;
const FLAG_VERSION = 0xc0;
const VERSION_1 = 0x40;
const FLAG_INDEPENDENT = 0x20;
const FLAG_BLOCK_CHECKSUM = 0x10;
const FLAG_CONTENT_SIZE = 0x08;
const FLAG_RESERVED = 0x02;
const FLAG_DICTIONARY = 0x01;
const BLOCK_SIZE_RESERVED = 0x8f;
const UNCOMPRESSED = 0x80000000;
/** An LZ4 byte yields at most 255. */
const MAX_EXPANSION = 255;

type Lz4 = Pick<typeof import('lz4-napi'), 'compressFrameSync' | 'uncompressSync'>;
let loaded: Lz4 | undefined;
function library(): Lz4 {
  loaded ??= createRequire(import.meta.url)('lz4-napi') as Lz4;
  return loaded;
}

export function compressLz4(bytes: Uint8Array): Uint8Array {
  return library().compressFrameSync(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length));
}

interface FrameHeader {
  readonly bodyStart: number;
  readonly blockBytes: number;
  readonly blockChecksums: boolean;
}

/** Clients of magic 0 computed the header checksum wrongly: for their messages it is ignored. */
export function inflateLz4(input: Uint8Array, limit: number, ignoreHeaderChecksum = false): Inflated {
  const header = readHeader(input, ignoreHeaderChecksum);
  if (typeof header === 'string') return { bytes: NOTHING, fault: broken(CODEC, header) };
  const view = new DataView(input.buffer, input.byteOffset, input.length);
  const blocks: Uint8Array[] = [];
  let produced = 0;
  let at = header.bodyStart;
  const checksumBytes = header.blockChecksums ? 4 : 0;
  const failed = (what: string): Inflated => ({
    bytes: concat([...blocks, NOTHING]),
    fault: broken(CODEC, what),
  });
  for (;;) {
    if (input.length - at < 4) return failed('it ends early');
    const word = view.getUint32(at, true);
    at += 4;
    const plain = word >= UNCOMPRESSED;
    const length = plain ? word - UNCOMPRESSED : word;
    if (length === 0) break;
    if (length > header.blockBytes) return failed(`a block of ${length} bytes, ${header.blockBytes} allowed`);
    if (length + checksumBytes > input.length - at) return failed('it ends early');
    const end = at + length;
    if (header.blockChecksums && view.getUint32(end, true) !== xxhash32(input, at, end)) {
      return failed('the checksum of a block is wrong');
    }
    const block = plain ? input.subarray(at, end) : inflateBlock(input, at, end, header.blockBytes);
    if (typeof block === 'string') return failed(block);
    blocks.push(block);
    produced += block.length;
    if (produced > limit) throw tooLarge(CODEC, limit);
    at = end + checksumBytes;
  }
  return { bytes: blocks.length === 0 ? NOTHING : concat(blocks), fault: undefined };
}

function readHeader(input: Uint8Array, ignoreHeaderChecksum: boolean): FrameHeader | string {
  if (input.length < SHORT_HEADER_BYTES) return 'it ends early';
  const view = new DataView(input.buffer, input.byteOffset, input.length);
  if (view.getUint32(0, true) !== MAGIC) return 'no lz4 frame';
  const flags = input[4]!;
  if ((flags & FLAG_VERSION) !== VERSION_1) return `frame version ${flags >>> 6}`;
  if ((flags & FLAG_INDEPENDENT) === 0) return 'its blocks are linked, which no Kafka client reads';
  if ((flags & (FLAG_RESERVED | FLAG_DICTIONARY)) !== 0) return 'a reserved flag or a dictionary';
  const sizeCode = (input[5]! >>> 4) & 7;
  if ((input[5]! & BLOCK_SIZE_RESERVED) !== 0 || sizeCode < 4) return `block size byte ${input[5]}`;
  const checksumAt = (flags & FLAG_CONTENT_SIZE) === 0 ? 6 : 14;
  if (input.length <= checksumAt) return 'it ends early';
  const checksum = (xxhash32(input, 4, checksumAt) >>> 8) & 0xff;
  if (!ignoreHeaderChecksum && checksum !== input[checksumAt]) return 'the checksum of its header is wrong';
  return {
    bodyStart: checksumAt + 1,
    blockBytes: 1 << (2 * sizeCode + 8),
    blockChecksums: (flags & FLAG_BLOCK_CHECKSUM) !== 0,
  };
}

/** One compressed block, or what is wrong with it. The library takes the room for it from a length in front. */
function inflateBlock(
  input: Uint8Array,
  start: number,
  end: number,
  blockBytes: number,
): Uint8Array | string {
  const sized = Buffer.allocUnsafe(4 + end - start);
  sized.writeUInt32LE(Math.min(blockBytes, (end - start) * MAX_EXPANSION), 0);
  sized.set(input.subarray(start, end), 4);
  try {
    return library().uncompressSync(sized);
  } catch (error) {
    return (error as Error).message;
  }
}

/**
 * Zstandard (RFC 8878): node:zlib where the running Node has it (22.15 and later), else the reference implementation as
 * WebAssembly. Frames are walked here first: blocks bound what can come out, so that no claim is believed.
 */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import zlib from 'node:zlib';
import { BroadsheetError } from '../../runtime/errors.ts';
import { broken, concat, type Inflated, NOTHING, tooLarge } from './inflated.ts';

const CODEC = 'zstd';
const DEFAULT_LEVEL = 3;
const MAGIC = 0xfd2fb528;
const SKIPPABLE_MAGIC = 0x184d2a50;
const BLOCK_BYTES = 128 * 1024;
/** The largest window that a decoder takes without being told to (ZSTD_WINDOWLOG_LIMIT_DEFAULT). */
const MAX_WINDOW_BYTES = 2 ** 27;
const BLOCK_RUN = 1;
const BLOCK_COMPRESSED = 2;
const BLOCK_RESERVED = 3;
/** The descriptor byte of a window of MAX_WINDOW_BYTES. */
const PLAIN_WINDOW = (27 - 10) << 3;
const SHORT = 'it ends early';
const FIRST_ROOM_BYTES = 256 * 1024;
const LIKELY_EXPANSION = 16;

interface Frame {
  readonly start: number;
  readonly end: number;
  /** More cannot come out; exact where the frame states its content size. */
  readonly bound: number;
}

/** What both implementations offer. */
interface Engine {
  compress(bytes: Uint8Array, level: number): Uint8Array;
  /** One frame; 'full' if it does not fit room. Throws an Error that tells what is wrong with it. */
  inflate(frame: Uint8Array, room: number): Uint8Array | 'full';
}

let loaded: Engine | undefined;
function engine(): Engine {
  loaded ??= builtIn() ?? wasm();
  return loaded;
}

export function compressZstd(bytes: Uint8Array, level: number | undefined): Uint8Array {
  return engine().compress(bytes, level ?? DEFAULT_LEVEL);
}

export function inflateZstd(input: Uint8Array, limit: number): Inflated {
  const done: Uint8Array[] = [];
  let produced = 0;
  let at = 0;
  while (at < input.length) {
    const frame = readFrame(input, at);
    if (typeof frame === 'string') {
      done.push(wholeBlocks(input, at, limit - produced));
      return { bytes: concat([...done, NOTHING]), fault: broken(CODEC, frame) };
    }
    at = frame.end;
    if (frame.bound === 0) continue;
    let bytes: Uint8Array;
    try {
      bytes = inflateFrame(input.subarray(frame.start, frame.end), frame.bound, limit - produced, limit);
    } catch (error) {
      if (error instanceof BroadsheetError) throw error;
      return { bytes: concat([...done, NOTHING]), fault: broken(CODEC, (error as Error).message, error) };
    }
    done.push(bytes);
    produced += bytes.length;
  }
  return { bytes: done.length === 0 ? NOTHING : concat(done), fault: undefined };
}

function inflateFrame(frame: Uint8Array, bound: number, room: number, limit: number): Uint8Array {
  const most = Math.min(bound, room);
  let size = Math.min(most, Math.max(FIRST_ROOM_BYTES, frame.length * LIKELY_EXPANSION));
  for (;;) {
    const bytes = size === 0 ? 'full' : engine().inflate(frame, size);
    if (bytes !== 'full') return bytes;
    if (size >= room) throw tooLarge(CODEC, limit);
    if (size >= most) throw new Error('more comes out than its blocks can hold');
    size = Math.min(most, size * 4);
  }
}

/** What the whole blocks of a frame that ends early hold, as far as `room` reaches: a stream gives them before it meets
 * the end. */
function wholeBlocks(input: Uint8Array, at: number, room: number): Uint8Array {
  const header = readHeader(input, at);
  if (typeof header === 'string') return NOTHING;
  const { end, last, bound } = walkBlocks(input, header);
  if (last < 0) return NOTHING;
  // The same blocks in a frame of the plainest header, which claims nothing.
  const plain = Buffer.from([0, 0, 0, 0, 0, PLAIN_WINDOW]);
  plain.writeUInt32LE(MAGIC);
  const frame = Buffer.concat([plain, input.subarray(header.end, end)]);
  frame[plain.length + last - header.end]! |= 1;
  try {
    return inflateFrame(frame, bound, room, room);
  } catch {
    return NOTHING;
  }
}

/** The extent of the frame at `at`, or what is wrong with it. */
function readFrame(input: Uint8Array, at: number): Frame | string {
  if (input.length - at < 4) return SHORT;
  const view = new DataView(input.buffer, input.byteOffset, input.length);
  if ((view.getUint32(at, true) & 0xfffffff0) >>> 0 === SKIPPABLE_MAGIC) {
    if (input.length - at < 8) return SHORT;
    const size = view.getUint32(at + 4, true);
    if (size > input.length - at - 8) return SHORT;
    return { start: at, end: at + 8 + size, bound: 0 };
  }
  const header = readHeader(input, at);
  if (typeof header === 'string') return header;
  const { end: blocksEnd, bound, fault } = walkBlocks(input, header);
  if (fault !== undefined) return fault;
  const end = blocksEnd + (header.checksum ? 4 : 0);
  if (end > input.length) return SHORT;
  if (header.contentSize > bound) return `${header.contentSize} bytes claimed, ${bound} possible`;
  return { start: at, end, bound: header.contentSize < 0 ? bound : header.contentSize };
}

interface FrameHeader {
  readonly end: number;
  /** -1 if it is not stated. */
  readonly contentSize: number;
  readonly windowBytes: number;
  readonly checksum: boolean;
}

function readHeader(input: Uint8Array, at: number): FrameHeader | string {
  const view = new DataView(input.buffer, input.byteOffset, input.length);
  if (input.length - at < 5) return SHORT;
  if (view.getUint32(at, true) !== MAGIC) return 'no zstd frame';
  let position = at + 5;
  const descriptor = input[at + 4]!;
  const singleSegment = (descriptor & 0x20) !== 0;
  const contentSizeBytes = [singleSegment ? 1 : 0, 2, 4, 8][descriptor >>> 6]!;
  if ((descriptor & 0x08) !== 0) return 'a reserved bit of its header is set';
  const dictionaryBytes = [0, 1, 2, 4][descriptor & 3]!;
  const end = position + (singleSegment ? 0 : 1) + dictionaryBytes + contentSizeBytes;
  if (end > input.length) return SHORT;
  let windowBytes = MAX_WINDOW_BYTES;
  if (!singleSegment) {
    const base = 2 ** (10 + (input[position]! >>> 3));
    windowBytes = base + (base / 8) * (input[position]! & 7);
    if (windowBytes > MAX_WINDOW_BYTES) return `a window of ${windowBytes} bytes`;
    position++;
  }
  if (input.subarray(position, position + dictionaryBytes).some((byte) => byte !== 0))
    return 'it needs a dictionary';
  position += dictionaryBytes;
  let contentSize = -1;
  if (contentSizeBytes === 1) contentSize = input[position]!;
  else if (contentSizeBytes === 2) contentSize = view.getUint16(position, true) + 256;
  else if (contentSizeBytes === 4) contentSize = view.getUint32(position, true);
  else if (contentSizeBytes === 8) contentSize = Number(view.getBigUint64(position, true));
  return { end, contentSize, windowBytes, checksum: (descriptor & 0x04) !== 0 };
}

interface Blocks {
  /** After the last whole block. */
  readonly end: number;
  /** Where the last whole block begins, -1 if there is none. */
  readonly last: number;
  /** More cannot come out of the whole ones. */
  readonly bound: number;
  /** Why there is no last block that says so. */
  readonly fault: string | undefined;
}

function walkBlocks(input: Uint8Array, header: FrameHeader): Blocks {
  let [at, last, bound] = [header.end, -1, 0];
  for (;;) {
    if (input.length - at < 3) return { end: at, last, bound, fault: SHORT };
    const block = input[at]! | (input[at + 1]! << 8) | (input[at + 2]! << 16);
    const type = (block >>> 1) & 3;
    const size = block >>> 3;
    if (type === BLOCK_RESERVED) return { end: at, last, bound, fault: 'a block of a reserved type' };
    if (size > BLOCK_BYTES) return { end: at, last, bound, fault: `a block of ${size} bytes` };
    const stored = type === BLOCK_RUN ? 1 : size;
    if (stored > input.length - at - 3) return { end: at, last, bound, fault: SHORT };
    last = at;
    at += 3 + stored;
    bound += type === BLOCK_COMPRESSED ? Math.min(BLOCK_BYTES, header.windowBytes) : size;
    if ((block & 1) === 1) return { end: at, last, bound, fault: undefined };
  }
}

/** node:zlib's own, which the type declarations of Node 20 do not know. */
function builtIn(): Engine | undefined {
  interface WithZstd {
    zstdCompressSync?(bytes: Uint8Array, options: object): Buffer;
    zstdDecompressSync?(bytes: Uint8Array, options: object): Buffer;
    constants: { ZSTD_c_compressionLevel?: number };
  }
  const { zstdCompressSync, zstdDecompressSync, constants } = zlib as unknown as WithZstd;
  if (zstdCompressSync === undefined || zstdDecompressSync === undefined) return undefined;
  return {
    compress: (bytes, level) =>
      zstdCompressSync(bytes, { params: { [constants.ZSTD_c_compressionLevel ?? 100]: level } }),
    inflate(frame, room) {
      try {
        return zstdDecompressSync(frame, { maxOutputLength: room });
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE') return 'full';
        throw error;
      }
    },
  };
}

/** Node's global, which no declaration in use here knows. */
declare const WebAssembly: {
  Module: new (code: Uint8Array) => object;
  Instance: new (module: object, imports: object) => object;
};

/** The module inside @bokuweb/zstd-wasm. The package's own entry loads it asynchronously and sizes its output by what
 * the frame claims; neither will do, so its module is instantiated here. */
interface ZstdModule {
  instantiateWasm: (imports: object, receive: (instance: object) => unknown) => unknown;
  init(wasm: Uint8Array): unknown;
  HEAPU8: Uint8Array;
  _malloc(bytes: number): number;
  _free(pointer: number): void;
  _ZSTD_isError(result: number): number;
  _ZSTD_compressBound(bytes: number): number;
  _ZSTD_compress(to: number, room: number, from: number, bytes: number, level: number): number;
  _ZSTD_decompress(to: number, room: number, from: number, bytes: number): number;
}

/** ZSTD_error_dstSize_tooSmall, negated as the functions return it. */
const NO_ROOM = -70;

function wasm(): Engine {
  const require = createRequire(import.meta.url);
  const folder = path.dirname(require.resolve('@bokuweb/zstd-wasm'));
  const { Module: module } = require(path.join(folder, 'zstd.js')) as { Module: ZstdModule };
  const code = new WebAssembly.Module(readFileSync(path.join(folder, 'zstd.wasm')));
  module.instantiateWasm = (imports, receive) => receive(new WebAssembly.Instance(code, imports));
  module.init(Buffer.alloc(0));

  const allocate = (bytes: number): number => {
    const pointer = module._malloc(Math.max(1, bytes));
    if (pointer === 0) throw new BroadsheetError('LIMIT', `no memory for ${bytes} bytes of ${CODEC}`);
    return pointer;
  };
  /** Runs work over a copy of the input and room bytes of output. */
  const run = (
    input: Uint8Array,
    room: number,
    work: (to: number, from: number) => number,
  ): Uint8Array | number => {
    const from = allocate(input.length);
    let to = 0;
    try {
      to = allocate(room);
      module.HEAPU8.set(input, from);
      const result = work(to, from);
      if (module._ZSTD_isError(result) !== 0) return result;
      return Buffer.from(module.HEAPU8.subarray(to, to + result));
    } finally {
      module._free(from);
      if (to !== 0) module._free(to);
    }
  };
  return {
    compress(bytes, level) {
      const room = module._ZSTD_compressBound(bytes.length);
      const result = run(bytes, room, (to, from) =>
        module._ZSTD_compress(to, room, from, bytes.length, level),
      );
      if (typeof result === 'number') throw new BroadsheetError('LIMIT', `${CODEC} error ${-result}`);
      return result;
    },
    inflate(frame, room) {
      const result = run(frame, room, (to, from) => module._ZSTD_decompress(to, room, from, frame.length));
      if (typeof result !== 'number') return result;
      if (result === NO_ROOM) return 'full';
      throw new Error(`${CODEC} error ${-result}`);
    },
  };
}

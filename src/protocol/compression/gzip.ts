/** gzip (RFC 1952) through node:zlib. */
import zlib from 'node:zlib';
import { crc32 } from '../crc32.ts';
import { broken, concat, type Inflated, NOTHING, tooLarge } from './inflated.ts';

const CODEC = 'gzip';
const CHUNK_BYTES = 64 * 1024;
const HEADER_BYTES = 10;
const TRAILER_BYTES = 8;
const FLAG_HEADER_CRC = 2;
const FLAG_EXTRA = 4;
const FLAG_NAME = 8;
const FLAG_COMMENT = 16;

export function compressGzip(bytes: Uint8Array, level: number | undefined): Uint8Array {
  return zlib.gzipSync(bytes, level === undefined ? {} : { level });
}

export function inflateGzip(input: Uint8Array, limit: number): Inflated {
  try {
    const bytes = zlib.gunzipSync(input, { chunkSize: CHUNK_BYTES, maxOutputLength: Math.max(1, limit) });
    if (bytes.length > limit) throw tooLarge(CODEC, limit);
    return { bytes, fault: undefined };
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE') throw tooLarge(CODEC, limit);
    if (!(error as NodeJS.ErrnoException).code?.startsWith('Z_')) throw error;
    return salvage(input, limit, (error as Error).message);
  }
}

/** Member by member, to tell junk after the stream, which Kafka takes, from a broken stream, and to get at what came
 * before the break. */
function salvage(input: Uint8Array, limit: number, reason: string): Inflated {
  const members: Uint8Array[] = [];
  let produced = 0;
  let at = 0;
  for (;;) {
    const body = memberBody(input, at);
    if (body === undefined) {
      if (members.length > 0) return { bytes: concat(members), fault: undefined };
      return { bytes: NOTHING, fault: broken(CODEC, reason) };
    }
    let bytes: Buffer;
    let consumed: number;
    try {
      const result = zlib.inflateRawSync(input.subarray(body), {
        chunkSize: CHUNK_BYTES,
        finishFlush: zlib.constants.Z_SYNC_FLUSH,
        maxOutputLength: Math.max(1, limit - produced),
        info: true,
      }) as unknown as { buffer: Buffer; engine: { bytesWritten: number } };
      bytes = result.buffer;
      consumed = result.engine.bytesWritten;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE') throw tooLarge(CODEC, limit);
      // The chunk in which zlib fails is lost, as it is to Kafka's reader.
      return { bytes: concat([...members, NOTHING]), fault: broken(CODEC, (error as Error).message, error) };
    }
    members.push(bytes);
    produced += bytes.length;
    if (produced > limit) throw tooLarge(CODEC, limit);
    const trailer = body + consumed;
    const left = input.length - trailer;
    if (left < TRAILER_BYTES) return { bytes: concat(members), fault: broken(CODEC, 'it ends early') };
    const view = new DataView(input.buffer, input.byteOffset + trailer, TRAILER_BYTES);
    if (view.getUint32(0, true) !== crc32(bytes) || view.getUint32(4, true) !== bytes.length >>> 0) {
      return { bytes: concat(members), fault: broken(CODEC, 'its checksum or length is wrong') };
    }
    at = trailer + TRAILER_BYTES;
  }
}

/** Where the deflate stream of the member at `at` begins, or undefined if there is none. */
function memberBody(input: Uint8Array, at: number): number | undefined {
  if (
    input.length - at < HEADER_BYTES ||
    input[at] !== 0x1f ||
    input[at + 1] !== 0x8b ||
    input[at + 2] !== 8
  ) {
    return undefined;
  }
  const flags = input[at + 3]!;
  let body = at + HEADER_BYTES;
  if (flags & FLAG_EXTRA) {
    if (input.length - body < 2) return undefined;
    body += 2 + (input[body]! | (input[body + 1]! << 8));
  }
  for (const flag of [FLAG_NAME, FLAG_COMMENT]) {
    if ((flags & flag) === 0) continue;
    const end = input.indexOf(0, body);
    if (end < 0) return undefined;
    body = end + 1;
  }
  if (flags & FLAG_HEADER_CRC) body += 2;
  return body <= input.length ? body : undefined;
}

/**
 * The codecs of record batches. Each library is loaded when a batch of its codec first comes. Output is bounded: nothing
 * is allocated on the word of the payload alone.
 */
import { BroadsheetError } from '../runtime/errors.ts';
import { compressGzip, inflateGzip } from './compression/gzip.ts';
import type { Inflated } from './compression/inflated.ts';
import { compressLz4, inflateLz4 } from './compression/lz4.ts';
import { compressSnappy, inflateSnappy } from './compression/snappy.ts';
import { compressZstd, inflateZstd } from './compression/zstd.ts';

export type CompressionName = 'none' | 'gzip' | 'snappy' | 'lz4' | 'zstd';

/** Names by codec id: bits 0-2 of a batch's attributes. 5 to 7 are not assigned. */
export const COMPRESSIONS: readonly CompressionName[] = ['none', 'gzip', 'snappy', 'lz4', 'zstd'];

/** Most that one batch may decompress to, bytes, where the caller does not say. */
export const DEFAULT_INFLATED_BYTES = 100 * 1024 * 1024;

/** The codec's name. Throws BATCH_INVALID for an id that no codec has. */
export function compressionName(id: number): CompressionName {
  const name = COMPRESSIONS[id];
  if (name === undefined) throw new BroadsheetError('BATCH_INVALID', `unknown compression codec ${id}`);
  return name;
}

export function compressionId(name: CompressionName): number {
  return COMPRESSIONS.indexOf(name);
}

/** Compresses as Kafka's clients frame it. `level` counts for gzip and zstd; by default the codec's own. */
export function compress(name: CompressionName, bytes: Uint8Array, level?: number): Uint8Array {
  switch (name) {
    case 'none':
      return bytes;
    case 'gzip':
      return compressGzip(bytes, level);
    case 'snappy':
      return compressSnappy(bytes);
    case 'lz4':
      return compressLz4(bytes);
    case 'zstd':
      return compressZstd(bytes, level);
  }
}

/** Decompresses as far as the payload goes: what came out, and the fault that ended it, if any. Throws BATCH_TOO_LARGE
 * past `limit` bytes of output. `magic` is that of the batch around it. */
export function inflate(
  name: CompressionName,
  bytes: Uint8Array,
  limit = DEFAULT_INFLATED_BYTES,
  magic = 2,
): Inflated {
  switch (name) {
    case 'none':
      return { bytes, fault: undefined };
    case 'gzip':
      return inflateGzip(bytes, limit);
    case 'snappy':
      return inflateSnappy(bytes, limit);
    case 'lz4':
      return inflateLz4(bytes, limit, magic === 0);
    case 'zstd':
      return inflateZstd(bytes, limit);
  }
}

/** Decompresses all. Throws BATCH_CORRUPT if the payload is broken, BATCH_TOO_LARGE past `limit` bytes of output. */
export function decompress(
  name: CompressionName,
  bytes: Uint8Array,
  limit = DEFAULT_INFLATED_BYTES,
): Uint8Array {
  const { bytes: output, fault } = inflate(name, bytes, limit);
  if (fault !== undefined) throw fault;
  return output;
}

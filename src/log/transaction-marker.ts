/** End-transaction markers as they lie in a log: control batches of one record. */
import type { Log } from './log.ts';

/** Bytes read at a time to look at markers: a marker's batch has 78. */
const CHUNK_BYTES = 64 * 1024;
const BATCH_OVERHEAD = 12;

export interface MarkerFacts {
  readonly commit: boolean;
  readonly coordinatorEpoch: number;
}

/** What a marker's batch says; undefined if it holds no such record. The record: length, attributes, timestamp delta,
 * offset delta, key (int16 version, int16 type 0 or 1), value (int16 version, int32 epoch); lengths and deltas are varints. */
export function parseMarker(batch: Uint8Array): MarkerFacts | undefined {
  const view = new DataView(batch.buffer, batch.byteOffset, batch.length);
  let at = 61;
  const varint = (): number => {
    let raw = 0n;
    for (let shift = 0n; shift < 70n && at < batch.length; shift += 7n) {
      const byte = batch[at++]!;
      raw |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return Number((raw >> 1n) ^ -(raw & 1n));
    }
    return Number.NaN;
  };
  varint();
  at++;
  varint();
  varint();
  const keyLength = varint();
  if (!(keyLength >= 4) || at + 4 > batch.length) return undefined;
  const type = view.getInt16(at + 2);
  at += keyLength;
  const valueLength = varint();
  if ((type !== 0 && type !== 1) || !(valueLength >= 6) || at + 6 > batch.length) return undefined;
  return { commit: type === 1, coordinatorEpoch: view.getInt32(at + 2) };
}

/** Reads markers by ascending offset; those that lie close together share a read. */
export class MarkerReader {
  readonly #log: Log;
  #chunk: Uint8Array = new Uint8Array(0);
  #at = 0;

  constructor(log: Log) {
    this.#log = log;
  }

  /** What the marker at an offset says. Rejects with CORRUPT, IO ... */
  async read(offset: number): Promise<MarkerFacts | undefined> {
    let batch = this.#find(offset);
    if (batch === undefined) {
      this.#chunk = await this.#log.readBatches(offset, CHUNK_BYTES, this.#log.writtenOffset);
      this.#at = 0;
      batch = this.#find(offset);
    }
    return batch === undefined ? undefined : parseMarker(batch);
  }

  #find(offset: number): Uint8Array | undefined {
    const chunk = this.#chunk;
    const view = new DataView(chunk.buffer, chunk.byteOffset, chunk.length);
    for (let at = this.#at; at + BATCH_OVERHEAD <= chunk.length; ) {
      const end = at + BATCH_OVERHEAD + Math.max(0, view.getInt32(at + 8));
      if (end > chunk.length) return undefined;
      const baseOffset = Number(view.getBigInt64(at));
      if (baseOffset > offset) return undefined;
      if (baseOffset === offset) {
        this.#at = end;
        return chunk.subarray(at, end);
      }
      at = end;
    }
    return undefined;
  }
}

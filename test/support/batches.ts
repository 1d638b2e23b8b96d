/** Record batches for tests that look at headers only: no records inside, no checksum. */

export interface RawBatchFields {
  readonly recordCount?: number;
  readonly maxTimestamp?: number;
  readonly producerId?: number;
  readonly producerEpoch?: number;
  readonly baseSequence?: number;
  readonly attributes?: number;
  /** Bytes after the 61 of the header. */
  readonly payload?: Uint8Array;
}

export function rawBatch(fields: RawBatchFields): Uint8Array {
  const payload = fields.payload ?? new Uint8Array(0);
  const count = fields.recordCount ?? 1;
  const bytes = new Uint8Array(61 + payload.length);
  const view = new DataView(bytes.buffer);
  view.setInt32(8, bytes.length - 12);
  view.setInt32(12, -1);
  view.setInt8(16, 2);
  view.setInt16(21, fields.attributes ?? 0);
  view.setInt32(23, count - 1);
  view.setBigInt64(27, BigInt(fields.maxTimestamp ?? 0));
  view.setBigInt64(35, BigInt(fields.maxTimestamp ?? 0));
  view.setBigInt64(43, BigInt(fields.producerId ?? -1));
  view.setInt16(51, fields.producerEpoch ?? -1);
  view.setInt32(53, fields.baseSequence ?? -1);
  view.setInt32(57, count);
  bytes.set(payload, 61);
  return bytes;
}

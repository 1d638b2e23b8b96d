/** The digest of a partition: SHA-256 over its data records in offset order, so that two brokers' contents compare. */
import { createHash } from 'node:crypto';
import { type Client, EARLIEST } from '../../src/client/client.ts';
import type { RecordView } from '../../src/protocol/records/batch.ts';

export interface PartitionDigest {
  readonly count: number;
  /** Of data records; -1 if there is none. */
  readonly firstOffset: number;
  readonly lastOffset: number;
  readonly sha256: string;
}

/** Per record, big-endian: int64 offset, int64 timestamp as a consumer sees it, key, value, int32 header count, each
 * header's key and value; key, value, header key and value as int32 length, -1 for null, and the bytes. */
export class Digester {
  readonly #hash = createHash('sha256');
  #count = 0;
  #firstOffset = -1;
  #lastOffset = -1;

  add(record: RecordView): void {
    const fixed = Buffer.alloc(16);
    fixed.writeBigInt64BE(BigInt(record.offset), 0);
    fixed.writeBigInt64BE(BigInt(record.timestamp), 8);
    this.#hash.update(fixed);
    this.#sized(record.key);
    this.#sized(record.value);
    this.#int32(record.headers.length);
    for (const { key, value } of record.headers) {
      this.#sized(Buffer.from(key));
      this.#sized(value);
    }
    if (this.#count === 0) this.#firstOffset = record.offset;
    this.#lastOffset = record.offset;
    this.#count++;
  }

  result(): PartitionDigest {
    return {
      count: this.#count,
      firstOffset: this.#firstOffset,
      lastOffset: this.#lastOffset,
      sha256: this.#hash.copy().digest('hex'),
    };
  }

  #sized(bytes: Uint8Array | null): void {
    this.#int32(bytes === null ? -1 : bytes.length);
    if (bytes !== null) this.#hash.update(bytes);
  }

  #int32(value: number): void {
    const bytes = Buffer.alloc(4);
    bytes.writeInt32BE(value);
    this.#hash.update(bytes);
  }
}

/** Of what a consumer reads from the log start offset to the end, or with committedOnly to the last stable offset. */
export async function digestPartition(
  client: Client,
  topic: string,
  partition: number,
  committedOnly = false,
): Promise<PartitionDigest> {
  const digester = new Digester();
  const { offset } = await client.listOffset(topic, partition, EARLIEST);
  for await (const record of client.records(topic, partition, offset, { committedOnly }))
    digester.add(record);
  return digester.result();
}

/**
 * What must be true of a partition's records, whatever happened to the broker: an acknowledged batch lies where the
 * answer said, offsets are dense, every record is one that was sent, in its stream's order, whole batches only, and a
 * stream with a producer id has no gap and no repetition.
 */
import type { RecordView } from '../../src/protocol/records/batch.ts';
import { senderOf } from './content.ts';

export interface SentBatch {
  readonly stream: string;
  readonly sequence: number;
  readonly count: number;
}

interface Stream {
  readonly idempotent: boolean;
  /** The next sequence number that may come up in the log. */
  next: number;
}

export class PartitionModel {
  /** Acknowledged and not yet verified, by base offset. */
  readonly #acked = new Map<number, SentBatch>();
  /** Sent and not answered, by stream and sequence. */
  readonly #unknown = new Map<string, SentBatch>();
  /** Found in the log before they were acknowledged: their offsets, by stream and sequence. */
  readonly #found = new Map<string, number>();
  readonly #streams = new Map<string, Stream>();
  /** All below has been verified. */
  verified = 0;
  /** One past the last acknowledged offset. */
  ackedEnd = 0;

  addStream(stream: string, idempotent: boolean): void {
    this.#streams.set(stream, { idempotent, next: 0 });
  }

  sent(batch: SentBatch): void {
    this.#unknown.set(`${batch.stream}#${batch.sequence}`, batch);
  }

  /** Returns what is wrong with the answer, if anything. */
  acknowledged(batch: SentBatch, baseOffset: number): string | undefined {
    const name = `${batch.stream}#${batch.sequence}`;
    this.#unknown.delete(name);
    this.ackedEnd = Math.max(this.ackedEnd, baseOffset + batch.count);
    const found = this.#found.get(name);
    if (found !== undefined) {
      this.#found.delete(name);
      return found === baseOffset
        ? undefined
        : `${name} is at ${found} and was acknowledged at ${baseOffset}`;
    }
    if (baseOffset < this.verified)
      return `${name} was acknowledged at ${baseOffset}, where something else is`;
    const other = this.#acked.get(baseOffset);
    if (other !== undefined && (other.stream !== batch.stream || other.sequence !== batch.sequence)) {
      return `two batches were told offset ${baseOffset}`;
    }
    this.#acked.set(baseOffset, batch);
    return undefined;
  }

  /** Of streams that never retry: what verify() did not find will not come any more. */
  forgetUnknown(): void {
    for (const [name, batch] of this.#unknown) {
      if (!this.#streams.get(batch.stream)!.idempotent) this.#unknown.delete(name);
    }
  }

  /** Looks at all records from `verified` to the end of the log. Returns what is wrong. */
  verify(records: readonly RecordView[], endOffset: number): string[] {
    const faults: string[] = [];
    if (endOffset < this.ackedEnd) faults.push(`ends at ${endOffset}, acknowledged up to ${this.ackedEnd}`);
    let offset = this.verified;
    for (let i = 0; i < records.length && faults.length < 10; ) {
      const first = records[i]!;
      if (first.offset !== offset) {
        faults.push(`offset ${first.offset} where ${offset} was due`);
        break;
      }
      const sender = senderOf(first);
      if (sender === undefined) {
        faults.push(`the record at ${offset} is not as it was sent`);
        break;
      }
      const batch = this.#expected(offset, sender, faults);
      if (batch === undefined) break;
      for (let k = 0; k < batch.count; k++, i++, offset++) {
        const record = records[i];
        const from = record === undefined ? undefined : senderOf(record);
        if (
          record?.offset !== offset ||
          from?.stream !== batch.stream ||
          from.sequence !== batch.sequence + k
        ) {
          faults.push(`offset ${offset}: ${batch.stream}#${batch.sequence + k} was due`);
          return faults;
        }
      }
    }
    if (offset !== endOffset) faults.push(`records end at ${offset}, the log at ${endOffset}`);
    for (const [at, batch] of this.#acked) {
      faults.push(`${batch.stream}#${batch.sequence} was acknowledged at ${at} and is not there`);
    }
    this.verified = endOffset;
    return faults;
  }

  #expected(
    offset: number,
    sender: { stream: string; sequence: number },
    faults: string[],
  ): SentBatch | undefined {
    const name = `${sender.stream}#${sender.sequence}`;
    const stream = this.#streams.get(sender.stream);
    const batch = this.#acked.get(offset) ?? this.#unknown.get(name);
    if (stream === undefined || batch === undefined) {
      faults.push(`offset ${offset}: ${name} was not sent here, or is here twice`);
      return undefined;
    }
    if (batch.stream !== sender.stream || batch.sequence !== sender.sequence) {
      faults.push(`offset ${offset}: ${name} where ${batch.stream}#${batch.sequence} was acknowledged`);
      return undefined;
    }
    if (stream.idempotent ? batch.sequence !== stream.next : batch.sequence < stream.next) {
      faults.push(`offset ${offset}: ${name} where #${stream.next} was due`);
      return undefined;
    }
    stream.next = batch.sequence + batch.count;
    this.#acked.delete(offset);
    // The producer will ask about it; should it land a second time, the stream's order tells.
    if (this.#unknown.delete(name) && stream.idempotent) this.#found.set(name, offset);
    return batch;
  }
}

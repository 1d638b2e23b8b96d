/**
 * What a consumer group writes, and the answers that wait for it. The group's state changes in the call that appends the
 * records; nobody is told of it before they are written. Records that could not be written go out again with the next
 * ones: until then those who ask get the error.
 */
import type { JournalRecord } from '../metadata/journal.ts';
import { KafkaError } from '../protocol/errors.ts';

type Append = (records: readonly JournalRecord[], done: (errorCode: number) => void) => void;

interface Batch {
  readonly records: readonly JournalRecord[];
  /** Failures before it was appended. */
  readonly failures: number;
  readonly waiting: ((errorCode: number) => void)[];
}

function nameOf({ key }: JournalRecord): string {
  return Buffer.from(key!.buffer, key!.byteOffset, key!.byteLength).toString('latin1');
}

export class ConsumerJournal {
  readonly #append: Append;
  #records: JournalRecord[] = [];
  readonly #inFlight: Batch[] = [];
  /** By key: the newest of each that failed. */
  readonly #unwritten = new Map<string, JournalRecord>();
  #failures = 0;
  #closed = false;

  constructor(append: Append) {
    this.#append = append;
  }

  add(record: JournalRecord): void {
    this.#records.push(record);
  }

  /** Appends what was added; `answered` hears an error code when all that was ever added is written, or not. */
  flush(answered?: (errorCode: number) => void): void {
    const records = [...this.#unwritten.values(), ...this.#records];
    this.#records = [];
    if (records.length === 0) {
      if (answered === undefined) return;
      const last = this.#inFlight.at(-1);
      if (last === undefined) answered(KafkaError.NONE);
      else last.waiting.push(answered);
      return;
    }
    const waiting = answered === undefined ? [] : [answered];
    const batch: Batch = { records, failures: this.#failures, waiting };
    this.#unwritten.clear();
    this.#inFlight.push(batch);
    this.#append(records, (errorCode) => this.#done(batch, errorCode));
  }

  #done(batch: Batch, errorCode: number): void {
    if (this.#closed) return;
    this.#inFlight.shift();
    let code = errorCode;
    if (errorCode === KafkaError.NONE) {
      if (this.#unwritten.size > 0)
        for (const record of batch.records) this.#unwritten.delete(nameOf(record));
      // Something before it is missing.
      if (batch.failures !== this.#failures) code = KafkaError.NOT_COORDINATOR;
    } else {
      this.#failures++;
      for (const record of batch.records) this.#unwritten.set(nameOf(record), record);
    }
    for (const answered of batch.waiting) answered(code);
  }

  /** Whoever waits is sent to look for the coordinator anew. */
  close(): void {
    this.#closed = true;
    for (const { waiting } of this.#inFlight.splice(0)) {
      for (const answered of waiting) answered(KafkaError.NOT_COORDINATOR);
    }
  }
}

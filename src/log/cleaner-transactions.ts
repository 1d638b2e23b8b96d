/** Which batches of transactions a cleaning may drop: data of aborted ones at once, markers once nothing of their transaction
 * is left (KIP-98, KIP-534), by Kafka's rules. Is told of the batches in the order of the log. */
import type { BatchHeader } from '../protocol/records/batch.ts';
import { ControlType } from '../protocol/records/control.ts';
import type { AbortedTransaction } from './txn-index.ts';

export class CleanedTransactions {
  /** By first offset; those from #next on have not begun. */
  readonly #aborted: readonly AbortedTransaction[];
  #next = 0;
  /** Producer id to whether data of the transaction was met. */
  readonly #ongoingAborted = new Map<number, boolean>();
  readonly #ongoingCommitted = new Set<number>();

  constructor(aborted: readonly AbortedTransaction[]) {
    this.#aborted = aborted.toSorted((a, b) => a.firstOffset - b.firstOffset);
  }

  #begin(offset: number): void {
    for (; this.#next < this.#aborted.length; this.#next++) {
      const { firstOffset, producerId } = this.#aborted[this.#next]!;
      if (firstOffset > offset) return;
      if (!this.#ongoingAborted.has(producerId)) this.#ongoingAborted.set(producerId, false);
    }
  }

  /** Whether nothing of the transaction that a control batch ends was met. `type` is that of its record. */
  endsEmpty(batch: BatchHeader, type: number): boolean {
    this.#begin(batch.lastOffset);
    const { producerId } = batch;
    if (type === ControlType.ABORT) {
      const met = this.#ongoingAborted.get(producerId) === true;
      this.#ongoingAborted.delete(producerId);
      return !met;
    }
    if (type === ControlType.COMMIT) return !this.#ongoingCommitted.delete(producerId);
    return false;
  }

  /** Whether a data batch is of an aborted transaction. */
  isAborted(batch: BatchHeader): boolean {
    this.#begin(batch.lastOffset);
    if (!batch.isTransactional) return false;
    const { producerId } = batch;
    if (this.#ongoingAborted.has(producerId)) {
      this.#ongoingAborted.set(producerId, true);
      return true;
    }
    this.#ongoingCommitted.add(producerId);
    return false;
  }
}

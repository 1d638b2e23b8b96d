/** Writes the producer snapshots of closed segments, each once the log is written past its offset, and removes old ones. */
import type { Files } from './log.ts';
import type { Partition } from './partition.ts';
import type { ProducerSnapshots } from './producer-snapshot.ts';

interface WaitingSnapshot {
  readonly partition: Partition;
  readonly offset: number;
  readonly bytes: Uint8Array;
}

const NONE: readonly Promise<void>[] = [];

export class SnapshotWriter {
  readonly #files: Files;
  readonly #snapshotsOf: (partition: Partition) => ProducerSnapshots | undefined;
  #waiting: WaitingSnapshot[] = [];

  /** `snapshotsOf` gives undefined for a partition that is not served any more. */
  constructor(files: Files, snapshotsOf: (partition: Partition) => ProducerSnapshots | undefined) {
    this.#files = files;
    this.#snapshotsOf = snapshotsOf;
  }

  /** Keeps the state of the producers below `offset`, where a segment that is still only staged begins. */
  add(partition: Partition, offset: number, bytes: Uint8Array): void {
    if (this.#snapshotsOf(partition) !== undefined) this.#waiting.push({ partition, offset, bytes });
  }

  /** Forgets what waits for a partition whose staged batches could not be written. */
  drop(partition: Partition): void {
    if (this.#waiting.length > 0)
      this.#waiting = this.#waiting.filter((snapshot) => snapshot.partition !== partition);
  }

  /** Begins to write what the partition's log has passed; one promise for each snapshot, most often none. */
  writePassed(partition: Partition): readonly Promise<void>[] {
    if (this.#waiting.length === 0) return NONE;
    const begun: Promise<void>[] = [];
    this.#waiting = this.#waiting.filter((snapshot) => {
      if (snapshot.partition !== partition || partition.log.writtenOffset <= snapshot.offset) return true;
      begun.push(this.write(partition, snapshot.offset, snapshot.bytes));
      return false;
    });
    return begun;
  }

  /** Writes a snapshot and removes those that nobody needs any more. */
  async write(partition: Partition, offset: number, bytes: Uint8Array): Promise<void> {
    const snapshots = this.#snapshotsOf(partition);
    if (snapshots === undefined) return;
    const { log } = partition;
    try {
      // A snapshot says that nothing below it has to be scanned for aborted transactions.
      if (!partition.deleted) await partition.aborted.save(this.#files, log);
      if (!partition.deleted) await snapshots.write(log.dir, offset, bytes);
      await this.removeOld(partition);
    } catch (error) {
      // A folder that was renamed meanwhile has no use for it.
      if (!partition.deleted) throw error;
    }
  }

  /** Removes the snapshots below the first segment. */
  async removeOld(partition: Partition): Promise<void> {
    const { log } = partition;
    const [first = 0] = log.segmentBaseOffsets();
    await this.#snapshotsOf(partition)?.removeBelow(log.dir, first);
  }
}

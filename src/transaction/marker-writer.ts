/** Writes the markers of one ended transaction to all its partitions, again and again where a write fails. */
import type { TransactionMarker } from '../log/producer-state.ts';
import { errorName, KafkaError } from '../protocol/errors.ts';
import type { Logger } from '../runtime/logging.ts';
import type { MarkerTarget } from './transaction-coordinator.ts';
import type { TransactionPartitions } from './transaction-state.ts';

type Place = readonly [topic: string, index: number];

/** Refusals after which there is nothing left to write: the partition is gone, or has this marker, or a newer one. */
const SETTLED: ReadonlySet<number> = new Set([
  KafkaError.NONE,
  KafkaError.UNKNOWN_TOPIC_OR_PARTITION,
  KafkaError.INVALID_PRODUCER_EPOCH,
  KafkaError.TRANSACTION_COORDINATOR_FENCED,
]);

export class MarkerWriter {
  readonly #target: MarkerTarget;
  readonly #after: (ms: number, fn: () => void) => void;
  readonly #retryMs: number;
  readonly #logger: Logger;

  constructor(
    target: MarkerTarget,
    after: (ms: number, fn: () => void) => void,
    retryMs: number,
    logger: Logger,
  ) {
    this.#target = target;
    this.#after = after;
    this.#retryMs = retryMs;
    this.#logger = logger;
  }

  /** `completed` is called once when every partition has its marker, `delayed` each time that some have to be tried again. */
  write(
    marker: TransactionMarker,
    partitions: TransactionPartitions,
    completed: () => void,
    delayed: () => void,
  ): void {
    const places: Place[] = [];
    for (const [topic, indexes] of partitions) for (const index of indexes) places.push([topic, index]);
    this.#try(marker, places, completed, delayed, true);
  }

  #try(
    marker: TransactionMarker,
    places: readonly Place[],
    completed: () => void,
    delayed: () => void,
    isFirst: boolean,
  ): void {
    if (places.length === 0) {
      completed();
      return;
    }
    const failed: Place[] = [];
    let left = places.length;
    for (const place of places) {
      const [topic, index] = place;
      this.#target.writeMarker(topic, index, marker, (code) => {
        if (!SETTLED.has(code)) {
          failed.push(place);
          // One line, however long a partition cannot be written.
          if (isFirst)
            this.#logger.warn(
              { topic, partition: index, producerId: marker.producerId, error: errorName(code) },
              'the end of a transaction could not be written, and is tried again until it is',
            );
        }
        if (--left > 0) return;
        if (failed.length === 0) {
          completed();
          return;
        }
        delayed();
        this.#after(this.#retryMs, () => this.#try(marker, failed, completed, delayed, false));
      });
    }
  }
}

/** One fetch from its first reading to its answer: what is cold is warmed, what is too little waits. Most are answered by the
 * first reading, and what only the others need is made when they do. */
import type { Partition } from '../log/partition.ts';
import type { Clock } from '../runtime/clock.ts';
import { BroadsheetError } from '../runtime/errors.ts';
import type { DelayedFetch, DelayedFetches, WakeReason, Watched } from './delayed-fetch.ts';
import {
  type ColdRange,
  type CopiedRecords,
  type FetchLimits,
  type FetchResult,
  type FetchTarget,
  type Reading,
  readTargets,
} from './fetch-read.ts';
import type { Request } from './request.ts';

/** How often what is cold is warmed in place before it is copied instead: pages may be lost again in between. */
const WARMINGS = 3;

export interface FetchOptions extends FetchLimits {
  /** Records to wait for, bytes. */
  readonly minBytes: number;
  readonly maxWaitMs: number;
}

/** What a fetch is about. */
export interface FetchScope<Target extends FetchTarget> {
  /** Nothing at all: it has nothing to wait for. */
  readonly empty: boolean;
  /** What is to be read now, in order. */
  targets(): readonly Target[];
  /** Whom to watch, since what was read of the targets is too little. */
  watched(targets: readonly Target[], results: readonly FetchResult[]): Iterable<Watched>;
}

/** The scope of a fetch that names all that it is about. */
export function scopeOf(targets: readonly FetchTarget[]): FetchScope<FetchTarget> {
  return {
    empty: targets.length === 0,
    targets: () => targets,
    watched: () => {
      const partitions = new Set<Partition>();
      for (const { partition } of targets) if (partition !== undefined) partitions.add(partition);
      return partitions;
    },
  };
}

export class PendingFetch<Target extends FetchTarget = FetchTarget> {
  readonly #request: Request;
  readonly #scope: FetchScope<Target>;
  readonly #options: FetchOptions;
  readonly #fetches: DelayedFetches;
  readonly #clock: Clock;
  /** Of the wait for data, once it is known that there is one. */
  #deadline: number | undefined;
  readonly #answer: (targets: readonly Target[], reading: Reading) => void;
  #copied: Map<FetchTarget, CopiedRecords | BroadsheetError> | undefined;
  #delayed: DelayedFetch | undefined;
  /** No more waiting for data: answer with what there is. */
  #final = false;
  #warmings = 0;

  /** `answer` is called once, with ranges that are valid during the call. */
  constructor(
    request: Request,
    scope: FetchScope<Target>,
    options: FetchOptions,
    fetches: DelayedFetches,
    clock: Clock,
    answer: (targets: readonly Target[], reading: Reading) => void,
  ) {
    this.#request = request;
    this.#scope = scope;
    this.#options = options;
    this.#fetches = fetches;
    this.#clock = clock;
    this.#answer = answer;
  }

  start(): void {
    this.#attempt();
  }

  #fail(error: unknown): void {
    this.#request.connection.fail(this.#request, error);
  }

  /** The first reading was not all. Gives the ms that are left to wait for data. */
  #rest(): number {
    if (this.#deadline === undefined) {
      this.#deadline = this.#clock.monotonic() + this.#options.maxWaitMs;
      this.#request.abandon = () => this.#delayed?.cancel();
      this.#request.hurry = () => {
        this.#final = true;
        this.#delayed?.wake('hurried');
      };
      return this.#options.maxWaitMs;
    }
    return this.#deadline - this.#clock.monotonic();
  }

  #attempt(): void {
    if (!this.#request.open) return;
    const { minBytes, maxWaitMs } = this.#options;
    const targets = this.#scope.targets();
    const reading = readTargets(targets, this.#options, this.#copied);
    if (reading.cold.length > 0) {
      this.#rest();
      this.#warm(reading)
        .then(() => this.#attempt())
        .catch((error: unknown) => this.#fail(error));
      return;
    }
    const enough = reading.bytes >= minBytes || reading.urgent || this.#scope.empty;
    const left = this.#final || enough || maxWaitMs <= 0 ? 0 : this.#rest();
    if (left <= 0) {
      this.#answer(targets, reading);
      return;
    }
    const watched = this.#scope.watched(targets, reading.results);
    this.#delayed = this.#fetches.watch(watched, minBytes - reading.bytes, left, (reason) =>
      this.#woken(reason),
    );
  }

  #woken(reason: WakeReason): void {
    this.#delayed = undefined;
    this.#copied = undefined;
    if (reason !== 'data') this.#final = true;
    try {
      this.#attempt();
    } catch (error) {
      this.#fail(error);
    }
  }

  async #warm(reading: Reading): Promise<void> {
    this.#warmings++;
    await Promise.all(reading.cold.map((range) => this.#bring(range)));
  }

  /** Into the page cache; what can't be kept or read there is copied up to the fault, so that the partition has something to
   * say: records, or why there are none. */
  async #bring({ target, partition, offset, maxBytes, upTo }: ColdRange): Promise<void> {
    try {
      if (this.#warmings <= WARMINGS && (await this.#warmed(partition, offset, maxBytes))) return;
      const bytes = await partition.log.readBatches(offset, maxBytes, upTo);
      this.#keep(target, { bytes, upTo });
    } catch (error) {
      if (!(error instanceof BroadsheetError)) throw error;
      this.#keep(target, error);
    }
  }

  #keep(target: FetchTarget, brought: CopiedRecords | BroadsheetError): void {
    this.#copied ??= new Map();
    this.#copied.set(target, brought);
  }

  async #warmed(partition: Partition, offset: number, maxBytes: number): Promise<boolean> {
    try {
      await partition.log.warm(offset, maxBytes);
      return true;
    } catch (error) {
      if (error instanceof BroadsheetError) return false;
      throw error;
    }
  }
}

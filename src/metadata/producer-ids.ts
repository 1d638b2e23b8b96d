/** Hands out producer ids from durable blocks. */
import type { BroadsheetError } from '../runtime/errors.ts';

export interface ProducerIdBlock {
  readonly firstProducerId: number;
  readonly count: number;
}

/** One block is asked for at a time; the next one early, so that a steady stream of producers never waits. */
export class ProducerIdAllocator {
  readonly #allocate: () => Promise<ProducerIdBlock>;
  #next = 0;
  #end = 0;
  #following: ProducerIdBlock | undefined;
  #asking: Promise<void> | undefined;

  /** `allocate` resolves once the block's record is durable. */
  constructor(allocate: () => Promise<ProducerIdBlock>) {
    this.#allocate = allocate;
  }

  /** An id that nobody had before. Rejects with the allocation's error. */
  async next(): Promise<number> {
    while (!this.#advance()) await this.#ask();
    const id = this.#next++;
    // A block asked for in advance may fail: whoever needs it asks again and gets the error.
    if (this.#next >= this.#end - PREFETCH_AT && this.#following === undefined) this.#ask().catch(ignore);
    return id;
  }

  #advance(): boolean {
    if (this.#next < this.#end) return true;
    if (this.#following === undefined) return false;
    this.#next = this.#following.firstProducerId;
    this.#end = this.#next + this.#following.count;
    this.#following = undefined;
    return true;
  }

  #ask(): Promise<void> {
    this.#asking ??= this.#allocate()
      .then((block) => {
        this.#following = block;
      })
      .finally(() => {
        this.#asking = undefined;
      });
    return this.#asking;
  }
}

/** Ids left in a block when the next one is asked for. */
const PREFETCH_AT = 100;

function ignore(_: BroadsheetError): void {}

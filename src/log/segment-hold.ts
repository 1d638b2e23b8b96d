/**
 * Keeps the files of all segments where they are while a backup takes them: what takes files away waits until the last
 * backup has let go. Appends and rolls go on.
 */
export class SegmentHold {
  #holders = 0;
  readonly #changes = new Set<Promise<unknown>>();
  #released: (() => void)[] = [];

  /** Runs what renames or removes files of segments: at once, or when nothing holds them any more. */
  async change<T>(work: () => Promise<T>): Promise<T> {
    while (this.#holders > 0) await new Promise<void>((resolve) => this.#released.push(resolve));
    const running = work();
    this.#changes.add(running);
    try {
      return await running;
    } finally {
      this.#changes.delete(running);
    }
  }

  /** Resolves when no change is under way; none begins until the function that is given is called. */
  async hold(): Promise<() => void> {
    this.#holders++;
    await Promise.allSettled(this.#changes);
    let held = true;
    return () => {
      if (held && --this.#holders === 0) for (const go of this.#released.splice(0)) go();
      held = false;
    };
  }
}

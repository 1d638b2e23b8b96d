/** Calls on the same path run in the order in which they were made; others side by side. A folder and what lies in it are
 * different paths: await the one before the other. */
export class PathOrder {
  /** The last call on each path that has one in flight. */
  readonly #last = new Map<string, Promise<unknown>>();

  run<T>(paths: readonly string[], work: () => Promise<T>): Promise<T> {
    const before = paths.map((path) => this.#last.get(path)).filter((promise) => promise !== undefined);
    const mine = before.length === 0 ? work() : Promise.allSettled(before).then(work);
    for (const path of paths) this.#last.set(path, mine);
    const forget = () => {
      for (const path of paths) if (this.#last.get(path) === mine) this.#last.delete(path);
    };
    mine.then(forget, forget);
    return mine;
  }
}

/** Makes the names of new folders durable: many are made at a time, and one sync of the folder that holds them does for all. */
export interface FolderCalls {
  sync(folder: string): Promise<void>;
  removeTree(folder: string): Promise<void>;
}

export class FolderNames {
  readonly #calls: FolderCalls;
  /** By the folder that holds them: the sync that runs, and the one that those wait for who came after it began. */
  readonly #running = new Map<string, Promise<void>>();
  readonly #next = new Map<string, Promise<void>>();

  constructor(calls: FolderCalls) {
    this.#calls = calls;
  }

  /** Resolves when the name of a folder that was just made is durable. Rejects with IO; the folder is removed then. */
  async sync(folder: string): Promise<void> {
    try {
      await this.#shared(parentOf(folder));
    } catch (error) {
      await this.#calls.removeTree(folder).catch(() => {});
      throw error;
    }
  }

  /** A sync of the folder that begins after the call. */
  #shared(folder: string): Promise<void> {
    const waiting = this.#next.get(folder);
    if (waiting !== undefined) return waiting;
    const running = this.#running.get(folder);
    if (running === undefined) return this.#begin(folder);
    const begin = () => {
      this.#next.delete(folder);
      return this.#begin(folder);
    };
    const next = running.then(begin, begin);
    this.#next.set(folder, next);
    return next;
  }

  #begin(folder: string): Promise<void> {
    const sync = this.#calls.sync(folder);
    this.#running.set(folder, sync);
    const ended = () => {
      if (this.#running.get(folder) === sync) this.#running.delete(folder);
    };
    sync.then(ended, ended);
    return sync;
  }
}

/** The folder that holds a path; "." for a bare name. */
export function parentOf(path: string): string {
  let end = path.length;
  while (end > 1 && isSeparator(path, end - 1)) end--;
  let slash = end - 1;
  while (slash >= 0 && !isSeparator(path, slash)) slash--;
  if (slash < 0) return '.';
  return slash === 0 ? '/' : path.slice(0, slash);
}

function isSeparator(path: string, at: number): boolean {
  return path[at] === '/' || (process.platform === 'win32' && path[at] === '\\');
}

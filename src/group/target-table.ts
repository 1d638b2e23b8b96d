/** What each member of a group is to have, for which epoch, and since when; changes are written as they are made. Decides nothing. */

export interface TargetEpoch {
  readonly epoch: number;
  /** When the target was computed, ms since the epoch. */
  readonly timestamp: number;
}

export type TargetChange<T> =
  | { readonly type: 'target'; readonly memberId: string; readonly value: T | null }
  | { readonly type: 'targetEpoch'; readonly value: TargetEpoch | null };

const NEVER: TargetEpoch = { epoch: 0, timestamp: 0 };

export class TargetTable<T> {
  readonly #nothing: T;
  readonly #same: (a: T, b: T) => boolean;
  readonly #write: (change: TargetChange<T>) => void;
  readonly #byMember = new Map<string, T>();
  #reached: TargetEpoch = NEVER;

  /** `nothing`: what a member has that no target names. */
  constructor(nothing: T, same: (a: T, b: T) => boolean, write: (change: TargetChange<T>) => void) {
    this.#nothing = nothing;
    this.#same = same;
    this.#write = write;
  }

  get epoch(): number {
    return this.#reached.epoch;
  }

  get timestamp(): number {
    return this.#reached.timestamp;
  }

  get(memberId: string): T {
    return this.#byMember.get(memberId) ?? this.#nothing;
  }

  /** Whether targets may not be computed yet, so many ms after the last. A clock that was set back holds nothing up. */
  isTooSoon(now: number, intervalMs: number): boolean {
    const sinceMs = now - this.#reached.timestamp;
    return intervalMs > 0 && sinceMs >= 0 && sinceMs < intervalMs;
  }

  /** Takes what a record says, and writes none. */
  replay(change: TargetChange<T>): void {
    if (change.type === 'targetEpoch') this.#reached = change.value ?? NEVER;
    else if (change.value === null) this.#byMember.delete(change.memberId);
    else this.#byMember.set(change.memberId, change.value);
  }

  set(memberId: string, value: T): void {
    this.#byMember.set(memberId, value);
    this.#write({ type: 'target', memberId, value });
  }

  setEpoch(reached: TargetEpoch): void {
    this.#reached = reached;
    this.#write({ type: 'targetEpoch', value: reached });
  }

  /** Takes what an assignor has found for these members. */
  assign(memberIds: Iterable<string>, assigned: ReadonlyMap<string, T>): void {
    for (const memberId of memberIds) {
      const target = assigned.get(memberId) ?? this.#nothing;
      const before = this.#byMember.get(memberId);
      if (before === undefined || !this.#same(before, target)) this.set(memberId, target);
    }
  }
}

/** Member ids that were given out and have not joined yet (KIP-394). */
import type { Clock } from '../runtime/clock.ts';
import { SessionTimer } from './classic-member.ts';

/** Past it the oldest is forgotten, so that clients that never come back take no memory. */
const MAX_PENDING_MEMBERS = 5_000;

export class PendingMembers {
  readonly #timers = new Map<string, SessionTimer>();

  get size(): number {
    return this.#timers.size;
  }

  has(memberId: string): boolean {
    return this.#timers.has(memberId);
  }

  /** Waits for it as long as its session may last, ms; then `onExpired`. */
  add(memberId: string, sessionTimeoutMs: number, clock: Clock, onExpired: () => void): void {
    const oldest = this.#timers.keys().next().value;
    if (oldest !== undefined && this.#timers.size >= MAX_PENDING_MEMBERS) this.delete(oldest);
    const timer = new SessionTimer(clock, () => {
      this.#timers.delete(memberId);
      onExpired();
    });
    this.#timers.set(memberId, timer);
    timer.touch(sessionTimeoutMs);
  }

  delete(memberId: string): boolean {
    this.#timers.get(memberId)?.cancel();
    return this.#timers.delete(memberId);
  }

  clear(): void {
    for (const timer of this.#timers.values()) timer.cancel();
    this.#timers.clear();
  }
}

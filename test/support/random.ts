/** Seeded random numbers (mulberry32), so that a failing run can be run again. */
export class Random {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  /** 0 <= n < below. */
  int(below: number): number {
    return Math.floor(this.unit() * below);
  }

  /** 0 <= x < 1. */
  unit(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let t = this.#state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  }

  pick<T>(from: readonly T[]): T {
    return from[this.int(from.length)]!;
  }
}

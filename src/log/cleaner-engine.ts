/**
 * What a cleaning asks of bytes, the hot part of it. Each log engine has its own; both leave the same bytes, in the map too. Records
 * lie unpacked in [start, end) of bytes; `baseOffset` is of their batch. Functions throw CORRUPT where they don't hold `count`
 * records.
 */

import type { OffsetMap } from './cleaner-map.ts';
import type { LogEngine } from './log.ts';

/** What stays of a batch. The object is used again by the next call: read it at once. */
export interface Sifted {
  /** Records. */
  kept: number;
  /** Copied to `into`; 0 when all stay. */
  bytes: number;
  /** Whether a record without a value stays. */
  hasTombstones: boolean;
  /** The largest timestamp delta of those that stay. */
  latestDelta: number;
}

export interface CleanerEngine {
  crc32c(bytes: Uint8Array, start: number, end: number): number;
  /** Notes the offset of each key from offset `from` on; offsets of a key ascend. False when the map had no room for all. */
  learn(
    map: OffsetMap,
    bytes: Uint8Array,
    start: number,
    end: number,
    count: number,
    baseOffset: number,
    from: number,
  ): boolean;
  /**
   * Copies the records that stay to `into` at `at`, where there is room for all of them, unless all stay. Up to offset `upTo`, those
   * go that have no key, or of whose key the map has a later offset, and with `dropsTombstones` those without a value.
   */
  sift(
    map: OffsetMap,
    bytes: Uint8Array,
    start: number,
    end: number,
    count: number,
    baseOffset: number,
    upTo: number,
    dropsTombstones: boolean,
    into: Uint8Array,
    at: number,
  ): Sifted;
}

export async function loadCleanerEngine(name: LogEngine['name']): Promise<CleanerEngine> {
  if (name === 'js') return (await import('./js-cleaner.ts')).jsCleaner;
  return (await import('./native-cleaner.ts')).nativeCleaner;
}

/** The cleaner's work on bytes by the addon: one call for all records of a batch. */
import { addon, check } from '../native.ts';
import type { CleanerEngine, Sifted } from './cleaner-engine.ts';

const sifted: Sifted = { kept: 0, bytes: 0, hasTombstones: false, latestDelta: 0 };

export const nativeCleaner: CleanerEngine = {
  crc32c: (bytes, start, end) => check(addon().crc32c(bytes, start, end)),

  learn(map, bytes, start, end, count, baseOffset, from): boolean {
    const native = addon();
    const { memory, secret, room } = map;
    map.size += check(native.learnKeys(memory, secret, room, bytes, start, end, count, baseOffset, from));
    return native.results[native.slots.walked] === 1;
  },

  sift(map, bytes, start, end, count, baseOffset, upTo, dropsTombstones, into, at): Sifted {
    const native = addon();
    const { memory, secret } = map;
    const { results, slots } = native;
    sifted.kept = check(
      native.siftRecords(
        memory,
        secret,
        bytes,
        start,
        end,
        count,
        baseOffset,
        upTo,
        dropsTombstones,
        into,
        at,
      ),
    );
    sifted.bytes = results[slots.length]!;
    sifted.hasTombstones = results[slots.tombstones] === 1;
    sifted.latestDelta = results[slots.recordsMaxTimestamp]!;
    return sifted;
  },
};

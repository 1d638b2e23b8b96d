/** What a power cut may do to bytes that were never synced: the end of a log is cut off, torn, or zeros. */
import { closeSync, fstatSync, ftruncateSync, openSync, readdirSync, readSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import type { Random } from '../support/random.ts';

const OVERHEAD = 12;

export function lastSegment(folder: string): { path: string; base: number } | undefined {
  const name = readdirSync(folder)
    .filter((each) => /^\d{20}\.log$/.test(each))
    .sort()
    .at(-1);
  return name === undefined ? undefined : { path: join(folder, name), base: Number(name.slice(0, 20)) };
}

/** Where in the segment the batches below `offset` end, and where the file does. Batches are whole up to there. */
function positions(fd: number, offset: number): { from: number; size: number } {
  const { size } = fstatSync(fd);
  const header = Buffer.alloc(27);
  let at = 0;
  while (at + header.length <= size) {
    readSync(fd, header, 0, header.length, at);
    const last = Number(header.readBigInt64BE(0)) + header.readInt32BE(23);
    if (last >= offset) break;
    at += OVERHEAD + header.readInt32BE(8);
  }
  return { from: Math.min(at, size), size };
}

/** Damages what lies at and past `offset` in the partition's last segment. Returns what it did. */
export function tear(folder: string, offset: number, random: Random): string | undefined {
  const segment = lastSegment(folder);
  if (segment === undefined || segment.base > offset) return undefined;
  const fd = openSync(segment.path, 'r+');
  try {
    const { from, size } = positions(fd, offset);
    const at = from + random.int(size - from + 1);
    switch (random.int(4)) {
      case 0:
        ftruncateSync(fd, at);
        return `cut to ${at} of ${size}`;
      case 1: {
        writeSync(fd, Buffer.alloc(size - at), 0, size - at, at);
        return `zeros from ${at} to ${size}`;
      }
      case 2: {
        const noise = Buffer.from(Array.from({ length: 1 + random.int(300) }, () => random.int(256)));
        writeSync(fd, noise, 0, noise.length, at);
        return `${noise.length} bytes of noise at ${at} of ${size}`;
      }
      default:
        ftruncateSync(fd, size + 1 + random.int(8192));
        return `zeros behind ${size}`;
    }
  } finally {
    closeSync(fd);
  }
}

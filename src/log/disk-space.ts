import { statfs } from 'node:fs';
import { BroadsheetError } from '../runtime/errors.ts';

/** Of the file system that holds a path, bytes: its size, and what a user may still write. Rejects with IO. */
export function diskSpace(path: string): Promise<{ totalBytes: number; usableBytes: number }> {
  // Every start comes by here: node:fs/promises takes 6 ms to load.
  return new Promise((resolve, reject) => {
    statfs(path, (error, stats) => {
      if (error !== null) reject(new BroadsheetError('IO', error.message, 0, { cause: error }));
      else resolve({ totalBytes: stats.bsize * stats.blocks, usableBytes: stats.bsize * stats.bavail });
    });
  });
}

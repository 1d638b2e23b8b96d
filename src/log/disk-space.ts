import { promises as fs } from 'node:fs';
import { BroadsheetError } from '../runtime/errors.ts';

/** Of the file system that holds a path, bytes: its size, and what a user may still write. Throws IO. */
export async function diskSpace(path: string): Promise<{ totalBytes: number; usableBytes: number }> {
  try {
    const { bsize, blocks, bavail } = await fs.statfs(path);
    return { totalBytes: bsize * blocks, usableBytes: bsize * bavail };
  } catch (error) {
    throw new BroadsheetError('IO', (error as Error).message, 0, { cause: error });
  }
}

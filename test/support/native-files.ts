/** Segment files for tests of the native transport: entries of the addon's table, made without a log. */
import { spawnSync } from 'node:child_process';
import { addon } from '../../src/native.ts';

interface Testing {
  openFile(path: string, mode: 'read' | 'read-write' | 'create'): number;
  closeFile(file: number): boolean;
}

const testing = () => (addon() as unknown as { testing: Testing }).testing;

/** The handle that a FileRange names. */
export function openSegment(path: string): number {
  const handle = testing().openFile(path, 'read');
  if (handle < 0) throw new Error(`cannot open ${path}`);
  return handle;
}

export function closeSegment(handle: number): void {
  testing().closeFile(handle);
}

/** Writes the file's pages back and drops them from the page cache. */
export function chill(path: string): void {
  for (const args of [
    [`of=${path}`, 'conv=notrunc,fdatasync', 'count=0'],
    [`if=${path}`, 'iflag=nocache', 'count=0'],
  ]) {
    const { status, stderr } = spawnSync('dd', args, { encoding: 'utf8' });
    if (status !== 0) throw new Error(stderr);
  }
}

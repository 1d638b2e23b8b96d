import fs from 'node:fs';
import { gunzipSync } from 'node:zlib';

/** The lines of a JSON lines file, plain or gzip. */
export function readLines(path: string): string[] {
  const bytes = fs.readFileSync(path);
  const text = (bytes[0] === 0x1f && bytes[1] === 0x8b ? gunzipSync(bytes) : bytes).toString('utf8');
  return text.split('\n').filter((line) => line.trim() !== '');
}

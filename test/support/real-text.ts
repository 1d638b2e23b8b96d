/** A real text, made from the text files of this machine: sources, documentation, licences, data. */
import { once } from 'node:events';
import { createWriteStream, type Dirent } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { finished } from 'node:stream/promises';
import { type Measured, Meter } from './command.ts';

const ROOTS = [
  '/usr/share',
  '/usr/include',
  '/usr/lib/python3',
  join(dirname(process.execPath), '..', 'lib'),
  join(dirname(process.execPath), '..', 'include'),
  join(import.meta.dirname, '..', '..'),
];
/** A larger file is read as a whole all the same; what is larger than this is rather data than text. */
const LARGEST_FILE = 32 * 1024 * 1024;
/** Below max.message.bytes, with room for what a batch adds, bytes. */
const LONGEST_LINE = 900_000;
const NEWLINE = 10;

async function* textFiles(folder: string): AsyncGenerator<string> {
  let entries: Dirent[];
  try {
    entries = await readdir(folder, { withFileTypes: true });
  } catch {
    return;
  }
  entries.sort((a, b) => (a.name < b.name ? -1 : 1));
  for (const entry of entries) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) yield* textFiles(path);
    else if (entry.isFile()) yield path;
  }
}

/** The lines of a text file as they are, but for empty ones and those too long for a record; none of a file with NULs. */
function usableLines(bytes: Buffer): Buffer {
  if (bytes.includes(0)) return Buffer.alloc(0);
  const kept: Buffer[] = [];
  for (let start = 0; start < bytes.length; ) {
    const newline = bytes.indexOf(NEWLINE, start);
    const end = newline < 0 ? bytes.length : newline;
    if (end > start && end - start <= LONGEST_LINE) {
      kept.push(
        newline < 0
          ? Buffer.concat([bytes.subarray(start), Buffer.of(NEWLINE)])
          : bytes.subarray(start, end + 1),
      );
    }
    start = end + 1;
  }
  return Buffer.concat(kept);
}

/**
 * Writes at least `bytes` of it to a file. kcat sends no record for an empty line, so those are left out; when the
 * machine's files are used up, it begins with them again.
 */
export async function writeRealText(path: string, bytes: number): Promise<Measured> {
  const out = createWriteStream(path);
  const meter = new Meter();
  for (let written = 0; written < bytes; ) {
    const before = written;
    for (const root of ROOTS) {
      for await (const file of textFiles(root)) {
        if (written >= bytes) break;
        const content = await readFile(file).catch(() => Buffer.alloc(0));
        if (content.length > LARGEST_FILE) continue;
        const lines = usableLines(content);
        meter.add(lines);
        written += lines.length;
        if (lines.length > 0 && !out.write(lines)) await once(out, 'drain');
      }
    }
    if (written === before) throw new Error(`no text in ${ROOTS.join(', ')}`);
  }
  out.end();
  await finished(out);
  return meter.result();
}

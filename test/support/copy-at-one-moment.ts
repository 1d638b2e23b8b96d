/** What a kill leaves of a data directory, while the process goes on. */
import { cpSync, readdirSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';

/** Copies a directory as it was at one moment, though threads may be at work in it; without locks and what a start removes. */
export function copyAtOneMoment(from: string, to: string): void {
  for (;;) {
    const before = listing(from);
    const filter = (path: string) => !/\.(lock|deleted|tmp)$/.test(path);
    try {
      cpSync(from, to, { recursive: true, filter });
    } catch (error) {
      // Renamed or removed meanwhile.
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    }
    if (listing(from) === before) return;
    rmSync(to, { recursive: true, force: true });
  }
}

function listing(dir: string): string {
  const paths = readdirSync(dir, { recursive: true, encoding: 'utf8' }).sort();
  const lines = paths.map((path) => {
    const facts = statSync(join(dir, path), { throwIfNoEntry: false });
    return `${path} ${facts?.ino} ${facts?.size} ${facts?.mtimeMs}`;
  });
  return lines.join('\n');
}

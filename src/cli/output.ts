/** What commands print: tables for people, JSON for machines, progress while work goes on. */
import { exitWith } from './failure.ts';

let readerGone = false;
let onReaderGone = (): void => process.exit(0);
const waiting = new Set<() => void>();

/** Ends the command quietly when whoever reads its output has had enough (`| head`). */
export function endWithReader(): void {
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') exitWith(error);
    readerGone = true;
    for (const resolve of waiting) resolve();
    onReaderGone();
  });
}

/** Whether whoever read the output has gone: nothing that is printed from then on was shown. */
export function isReaderGone(): boolean {
  return readerGone;
}

/** For a command that has more to do then than to end. */
export function whenReaderGone(action: () => void): void {
  onReaderGone = action;
}

/** Resolves when there is room for more. */
export function print(text: string | Uint8Array): Promise<void> {
  return new Promise((resolve) => {
    if (readerGone || process.stdout.write(text)) {
      resolve();
      return;
    }
    const done = () => {
      process.stdout.removeListener('drain', done);
      waiting.delete(done);
      resolve();
    };
    waiting.add(done);
    process.stdout.once('drain', done);
  });
}

/** One JSON document, on a line. */
export function printJson(value: unknown): Promise<void> {
  return print(`${JSON.stringify(value)}\n`);
}

/** A remark beside the output, on stderr. */
export function note(text: string): void {
  process.stderr.write(`${text}\n`);
}

export type Cell = string | number | null | undefined;

/** Lines under a heading; columns of numbers are flush right. Nothing reads as `-`. */
export function table(heading: readonly string[], rows: readonly (readonly Cell[])[]): string {
  const texts = rows.map((row) =>
    row.map((cell) => (cell === null || cell === undefined ? '-' : String(cell))),
  );
  const widths = heading.map((title, column) =>
    Math.max(title.length, ...texts.map((row) => row[column]!.length)),
  );
  const right = heading.map(
    (_, column) => rows.every((row) => typeof row[column] !== 'string') && rows.length > 0,
  );
  const line = (cells: readonly string[]) =>
    cells
      .map((cell, column) => (right[column] ? cell.padStart(widths[column]!) : cell.padEnd(widths[column]!)))
      .join('  ')
      .trimEnd();
  return `${[line(heading), ...texts.map(line)].join('\n')}\n`;
}

/** `1 record`, `2 records`. */
export function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`;
}

/** `12.3 MiB`. */
export function bytesText(bytes: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let value = bytes;
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit++;
  }
  return `${unit === 0 ? value : value.toFixed(1)} ${units[unit]}`;
}

const TERMINAL_MS = 200;
const FILE_MS = 10_000;

/** How far long work has come, on stderr: a line that is written over on a terminal, a line now and then elsewhere.
 * Nothing is shown of work that ends within a second. */
export class Progress {
  readonly #describe: () => string;
  readonly #stream: NodeJS.WriteStream;
  readonly #interval: number;
  readonly #now: () => number;
  #next: number;
  #shown = 0;

  constructor(
    describe: () => string,
    stream: NodeJS.WriteStream = process.stderr,
    now: () => number = () => performance.now(),
  ) {
    this.#describe = describe;
    this.#stream = stream;
    this.#now = now;
    this.#interval = stream.isTTY ? TERMINAL_MS : FILE_MS;
    this.#next = now() + (stream.isTTY ? 1_000 : FILE_MS);
  }

  /** To be called often. */
  tick(): void {
    const now = this.#now();
    if (now < this.#next) return;
    this.#next = now + this.#interval;
    const text = this.#describe();
    this.#stream.write(this.#stream.isTTY ? `\r${text.padEnd(this.#shown)}` : `${text}\n`);
    this.#shown = text.length;
  }

  /** Takes the line off the terminal. */
  clear(): void {
    if (this.#stream.isTTY && this.#shown > 0) this.#stream.write(`\r${' '.repeat(this.#shown)}\r`);
    this.#shown = 0;
  }
}

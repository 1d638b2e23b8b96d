/**
 * Logging: pino's shape and lines, so that a host can hand in its own logger. The broker's own does not need pino, whose loading
 * took a start 12 to 16 ms of processor time.
 */
import { writeSync } from 'node:fs';

export interface Logger {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
  child(fields: object): Logger;
}

export type LogLevel = 'debug' | 'info' | 'warn' | 'error' | 'silent';

const RANKS: Readonly<Record<LogLevel, number>> = { debug: 20, info: 30, warn: 40, error: 50, silent: 100 };
const STDERR = 2;
/** How often a line is tried while a pipe that does not block is full, a millisecond apart. */
const FULL_PIPE_TRIES = 1000;

/** One JSON object a line on stderr; stdout is for what a command was asked for. */
export function createLogger(level: LogLevel): Logger {
  return new LineLogger(level, {}, writeToStderr);
}

/** Each line is an object of `level` (pino's numbers), `time` (ISO 8601), the fields, and `msg`. */
export class LineLogger implements Logger {
  /** Can be set at any time; children made before keep theirs. */
  level: LogLevel;
  readonly #bindings: object;
  readonly #write: (line: string) => void;

  constructor(level: LogLevel, bindings: object, write: (line: string) => void) {
    this.level = level;
    this.#bindings = bindings;
    this.#write = write;
  }

  debug(fields: object, message: string): void {
    this.#log('debug', fields, message);
  }
  info(fields: object, message: string): void {
    this.#log('info', fields, message);
  }
  warn(fields: object, message: string): void {
    this.#log('warn', fields, message);
  }
  error(fields: object, message: string): void {
    this.#log('error', fields, message);
  }
  child(fields: object): Logger {
    return new LineLogger(this.level, { ...this.#bindings, ...fields }, this.#write);
  }

  #log(level: LogLevel, fields: object, msg: string): void {
    if (RANKS[level] < RANKS[this.level]) return;
    const line = { level: RANKS[level], time: new Date().toISOString(), ...this.#bindings, ...fields, msg };
    this.#write(`${JSON.stringify(line, plain)}\n`);
  }
}

/** What JSON has no word for. */
function plain(_: string, value: unknown): unknown {
  if (typeof value === 'bigint') return String(value);
  if (value instanceof Error) return value.stack ?? String(value);
  return value;
}

/** A line that stderr does not take (its reader is gone, its disk full) is lost: the broker goes on. */
function writeToStderr(line: string): void {
  let rest: Uint8Array = Buffer.from(line);
  for (let tries = 0; rest.length > 0 && tries < FULL_PIPE_TRIES; ) {
    try {
      rest = rest.subarray(writeSync(STDERR, rest));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') return;
      tries++;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1);
    }
  }
}

export const silentLogger: Logger = {
  debug() {},
  info() {},
  warn() {},
  error() {},
  child: () => silentLogger,
};

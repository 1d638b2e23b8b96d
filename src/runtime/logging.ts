/** Logging: pino's shape, so that a host can hand in its own logger. */
import { createRequire } from 'node:module';
import type * as Pino from 'pino';

export interface Logger {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
  child(fields: object): Logger;
}

/** Least first. */
const LEVELS = ['debug', 'info', 'warn', 'error', 'silent'] as const;
export type LogLevel = (typeof LEVELS)[number];

function makePino(level: LogLevel): Pino.Logger {
  const { pino } = createRequire(import.meta.url)('pino') as typeof Pino;
  return pino(
    { level, base: null, timestamp: pino.stdTimeFunctions.isoTime },
    pino.destination({ dest: 2, sync: true }),
  );
}

/** A pino that is made for the first line that it writes: loading the library is a tenth of a start, and a quiet start writes
 * nothing. */
class LatePino implements Logger {
  /** As pino's own; may be changed. */
  level: LogLevel;
  readonly #make: (level: LogLevel) => Pino.Logger;
  #made: Pino.Logger | undefined;

  constructor(level: LogLevel, make: (level: LogLevel) => Pino.Logger) {
    this.level = level;
    this.#make = make;
  }

  debug(fields: object, message: string): void {
    this.#write('debug', fields, message);
  }
  info(fields: object, message: string): void {
    this.#write('info', fields, message);
  }
  warn(fields: object, message: string): void {
    this.#write('warn', fields, message);
  }
  error(fields: object, message: string): void {
    this.#write('error', fields, message);
  }

  child(fields: object): Logger {
    return new LatePino(this.level, (level) => this.#pino().child(fields, { level }));
  }

  #pino(): Pino.Logger {
    this.#made ??= this.#make(this.level);
    return this.#made;
  }

  #write(level: 'debug' | 'info' | 'warn' | 'error', fields: object, message: string): void {
    if (LEVELS.indexOf(level) < LEVELS.indexOf(this.level)) return;
    const pino = this.#pino();
    pino.level = this.level;
    pino[level](fields, message);
  }
}

/** One JSON object a line on stderr; stdout is for what a command was asked for. */
export function createLogger(level: LogLevel): Logger {
  return new LatePino(level, makePino);
}

export const silentLogger: Logger = {
  debug() {},
  info() {},
  warn() {},
  error() {},
  child: () => silentLogger,
};

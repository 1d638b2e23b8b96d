/**
 * The broker's loggers under Kafka's names, each with a level of its own that can change while the broker runs. Levels are not
 * kept over a restart, as in Kafka.
 */
import type { Logger } from '../runtime/logging.ts';

/** Kafka's levels, least first; FATAL lets nothing through, since nothing is logged above ERROR. */
export const LOG_LEVELS = ['TRACE', 'DEBUG', 'INFO', 'WARN', 'ERROR', 'FATAL'] as const;
export type KafkaLogLevel = (typeof LOG_LEVELS)[number];

export const ROOT_LOGGER = 'root';

/** The parts of the broker that log, under the name of what does the same in Kafka. */
export const LOGGER_NAMES = {
  broker: 'kafka.server.BrokerServer',
  requests: 'kafka.server.KafkaApis',
  network: 'kafka.network.SocketServer',
  logs: 'org.apache.kafka.storage.internals.log.LogManager',
  groups: 'org.apache.kafka.coordinator.group.GroupCoordinatorService',
  transactions: 'kafka.coordinator.transaction.TransactionCoordinator',
  controller: 'org.apache.kafka.controller.QuorumController',
} as const;

const METHOD_LEVELS = { debug: 1, info: 2, warn: 3, error: 4 } as const;
const PINO_LEVELS = ['debug', 'debug', 'info', 'warn', 'error', 'silent'] as const;

/** pino's logger has a level that can be read and set; others may not. */
interface Leveled {
  level: string;
}

function leveled(logger: Logger): (Logger & Leveled) | undefined {
  return typeof (logger as Partial<Leveled>).level === 'string' ? (logger as Logger & Leveled) : undefined;
}

class NamedLogger implements Logger {
  readonly #base: Logger;
  readonly #rank: () => number;

  constructor(base: Logger, rank: () => number) {
    this.#base = base;
    this.#rank = rank;
  }

  debug(fields: object, message: string): void {
    if (this.#rank() <= METHOD_LEVELS.debug) this.#base.debug(fields, message);
  }
  info(fields: object, message: string): void {
    if (this.#rank() <= METHOD_LEVELS.info) this.#base.info(fields, message);
  }
  warn(fields: object, message: string): void {
    if (this.#rank() <= METHOD_LEVELS.warn) this.#base.warn(fields, message);
  }
  error(fields: object, message: string): void {
    if (this.#rank() <= METHOD_LEVELS.error) this.#base.error(fields, message);
  }
  child(fields: object): Logger {
    return new NamedLogger(this.#base.child(fields), this.#rank);
  }
}

export class Loggers {
  /** A child, so that the level of the host's own logger stays as it is. */
  readonly #base: Logger;
  #root: number;
  /** Of loggers that do not follow the root. */
  readonly #own = new Map<string, number>();

  constructor(logger: Logger) {
    this.#base = logger.child({});
    const level = leveled(this.#base)?.level ?? 'debug';
    const rank = PINO_LEVELS.lastIndexOf(level as (typeof PINO_LEVELS)[number]);
    this.#root = level === 'trace' ? 0 : rank < 0 ? LOG_LEVELS.indexOf('INFO') : rank;
  }

  /** The logger of one part. */
  get(part: keyof typeof LOGGER_NAMES): Logger {
    const name = LOGGER_NAMES[part];
    return new NamedLogger(this.#base, () => this.#own.get(name) ?? this.#root);
  }

  has(name: string): boolean {
    return name === ROOT_LOGGER || (Object.values(LOGGER_NAMES) as string[]).includes(name);
  }

  /** The level in force of every logger, by name. */
  levels(): Map<string, KafkaLogLevel> {
    const names = [ROOT_LOGGER, ...Object.values(LOGGER_NAMES)].sort();
    return new Map(names.map((name) => [name, LOG_LEVELS[this.#own.get(name) ?? this.#root]!]));
  }

  /** Sets the level of a logger that exists; undefined: it follows the root again. */
  setLevel(name: string, level: KafkaLogLevel | undefined): void {
    if (level === undefined) this.#own.delete(name);
    else if (name === ROOT_LOGGER) this.#root = LOG_LEVELS.indexOf(level);
    else this.#own.set(name, LOG_LEVELS.indexOf(level));
    const base = leveled(this.#base);
    if (base !== undefined) base.level = PINO_LEVELS[Math.min(this.#root, ...this.#own.values())]!;
  }
}

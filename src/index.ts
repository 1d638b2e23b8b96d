/** The embedding API: a broker inside a Node process. */
import { resolve } from 'node:path';
import { BrokerInstance } from './broker/broker.ts';
import type { EngineName, EngineWish } from './broker/engine-names.ts';
import { openEngines } from './broker/engines.ts';
import { addressAndPort } from './broker/listeners.ts';
import { BrokerConfig } from './config/broker-config.ts';
import type { Compaction } from './log/compaction.ts';
import type { CopyReport } from './log/copy-report.ts';
import { systemClock } from './runtime/clock.ts';
import { keepCompiledCode } from './runtime/compiled-code.ts';
import { BroadsheetError } from './runtime/errors.ts';
import { type Logger, silentLogger } from './runtime/logging.ts';

export { BroadsheetError, type ErrorCode } from './runtime/errors.ts';
export { createLogger, type Logger, type LogLevel } from './runtime/logging.ts';

/** When a broker has served for so long, ms, what it compiled is kept for the next start; or when it stops before that. */
const KEEP_CODE_AFTER_MS = 10_000;

export interface CreateBrokerOptions {
  /** Directory of the data; made if it is missing. Default: log.dirs of `config`, else ./data. */
  readonly dataDir?: string;
  /** For tests: the data lies in a new temporary directory that close() removes, in memory where /dev/shm has a gibibyte free.
   * Instead of log.dirs; not together with dataDir. Default: false. */
  readonly memory?: boolean;
  /** Port of the one listener; 0 takes a free one. Default: listeners of `config`, else 9092. */
  readonly port?: number;
  /** Address that the one listener binds. Default: every address. */
  readonly host?: string;
  /** What keeps the logs: the addon, or JavaScript. auto, the default, is native where the addon loads. */
  readonly engine?: EngineWish;
  /** What serves the sockets; auto, the default, is as the engine. Not native over js. */
  readonly transport?: EngineWish;
  /** Kafka's broker configuration, by Kafka's keys. */
  readonly config?: Readonly<Record<string, string>>;
  /** pino or anything of its shape. Default: none. */
  readonly logger?: Logger;
}

export type { Compaction, CopyReport };

export interface Broker {
  /** `host:port` of every listener as reached from this machine, separated by commas. */
  readonly bootstrapServers: string;
  /** Absolute path. */
  readonly dataDir: string;
  readonly listeners: readonly { readonly name: string; readonly host: string; readonly port: number }[];
  /** What runs. */
  readonly engine: EngineName;
  readonly transport: EngineName;
  /**
   * Compacts what the partitions of these topics hold now (default: of all topics whose cleanup.policy has compact), their open
   * segments too, however little of it is dirty; min.compaction.lag.ms does not count. Tombstones stay for
   * delete.retention.ms, and nothing at or past an open transaction is touched. The broker serves on meanwhile.
   *
   * Rejects with INVALID_ARGUMENT (no such topic, or it is not compacted), NO_SPACE, CORRUPT, IO, CLOSED.
   */
  compact(topics?: readonly string[]): Promise<Compaction[]>;
  /**
   * Makes a backup of the whole directory in `target`, which must not exist or be empty, while the broker serves on: all
   * partitions, groups, transactions and metadata as of one moment after the call, as a kill at that moment would have left
   * them. Segments that are closed are hard links where `target` is on the same file system, else copies. Durable when it
   * resolves; when it rejects, what was made is removed. Segments that retention or compaction let go of are deleted after it.
   * Opened by a broker like any directory, `meta.properties` comes last: one that was cut short is refused.
   *
   * Rejects with INVALID_ARGUMENT (not empty, or inside the directory), NO_SPACE, IO, CLOSED (the broker stopped), or the
   * signal's reason.
   */
  backup(target: string, options?: { readonly signal?: AbortSignal }): Promise<CopyReport>;
  /** Stops cleanly and leaves no handle, descriptor or thread behind. Idempotent. */
  close(): Promise<void>;
}

function configOf(options: CreateBrokerOptions): BrokerConfig {
  const texts = new Map(Object.entries(options.config ?? {}));
  const { port, host, engine, transport, memory, dataDir } = options;
  if (memory === true && !texts.has('log.disk.reserve.bytes')) texts.set('log.disk.reserve.bytes', '0');
  if (memory === true && dataDir !== undefined)
    throw new BroadsheetError('INVALID_CONFIG', 'a broker in memory has no dataDir');
  if (engine !== undefined) texts.set('engine', engine);
  if (transport !== undefined) texts.set('transport', transport);
  if (port === undefined && host === undefined) return new BrokerConfig(texts);
  if (port !== undefined && !(Number.isInteger(port) && port >= 0 && port <= 65535)) {
    throw new BroadsheetError('INVALID_CONFIG', `port ${port} is no number from 0 to 65535`);
  }
  const [first, ...others] = new BrokerConfig(texts).listeners;
  if (others.length > 0) {
    throw new BroadsheetError(
      'INVALID_CONFIG',
      'port and host are for a single listener, and listeners names several',
    );
  }
  const { name, host: oldHost, port: oldPort } = first ?? { name: 'PLAINTEXT', host: '', port: 9092 };
  texts.set('listeners', `${name}://${addressAndPort(host ?? oldHost, port ?? oldPort)}`);
  return new BrokerConfig(texts);
}

/**
 * Starts a broker and resolves once it accepts connections. Any number of them run in one process, each with a directory
 * of its own. Rejects with a BroadsheetError: LOCKED (another broker has the directory; the text names its pid),
 * ADDRESS_IN_USE, INVALID_CONFIG, CORRUPT, IO, ADDON_UNAVAILABLE.
 */
export async function createBroker(options: CreateBrokerOptions = {}): Promise<Broker> {
  const log = options.logger ?? silentLogger;
  const config = configOf(options);
  for (const warning of config.warnings) log.warn({}, warning);
  const { engine, transport } = await openEngines(config, log);
  // Loaded when it is needed: with node:fs/promises it takes longer than many a start.
  const temporary =
    options.memory === true
      ? await (await import('./runtime/temporary-directory.ts')).temporaryDirectory()
      : undefined;
  // Not by way of log.dirs, which is a list: a path may hold a comma.
  const dataDir = temporary?.path ?? resolve(options.dataDir ?? config.dataDir);
  const instance = await BrokerInstance.start({
    dataDir,
    config,
    engine,
    transport,
    clock: systemClock,
    log,
    control: true,
    startsAgain: temporary === undefined,
  }).catch(async (error: unknown) => {
    await temporary?.remove();
    throw error;
  });
  const keeping = setTimeout(keepCompiledCode, KEEP_CODE_AFTER_MS).unref();
  const close = async () => {
    clearTimeout(keeping);
    try {
      await instance.close();
      await keepCompiledCode();
    } finally {
      await temporary?.remove();
    }
  };
  return {
    bootstrapServers: instance.endpoints.map(({ host, port }) => addressAndPort(host, port)).join(','),
    dataDir: instance.dataDir,
    listeners: instance.endpoints,
    engine: engine.name,
    transport: transport.name,
    compact: (topics) => instance.compact(topics),
    backup: (target, given) => instance.backup(resolve(target), given?.signal),
    close,
  };
}

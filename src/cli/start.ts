/** `broadsheet start`: a broker in the foreground. */
import { readFileSync } from 'node:fs';
import { setFlagsFromString } from 'node:v8';
import { type Command, InvalidArgumentError, Option } from 'commander';
import { parseProperties } from '../config/properties.ts';
import { type Broker, createBroker } from '../index.ts';
import { BroadsheetError } from '../runtime/errors.ts';
import { createLogger, type LogLevel } from '../runtime/logging.ts';
import { keyValue } from './arguments.ts';
import { exitWith } from './failure.ts';

const ENGINES = ['auto', 'native', 'js'];
const LOG_LEVELS = ['debug', 'info', 'warn', 'error', 'silent'];

function port(text: string): number {
  const value = Number(text);
  if (!/^\d+$/.test(text) || value > 65535)
    throw new InvalidArgumentError('a port is a number from 0 to 65535.');
  return value;
}

function logLevel(text: string): LogLevel {
  if (!LOG_LEVELS.includes(text)) throw new InvalidArgumentError(`one of ${LOG_LEVELS.join(', ')}.`);
  return text as LogLevel;
}

interface StartOptions {
  data?: string;
  memory?: boolean;
  port?: number;
  host?: string;
  engine?: 'auto' | 'native' | 'js';
  transport?: 'auto' | 'native' | 'js';
  config?: string;
  set?: Map<string, string>;
  logLevel: LogLevel;
}

/** The values of a properties file that --config named. */
export function readConfig(path: string): Map<string, string> {
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    const reason = code === 'ENOENT' ? 'there is no such file' : message;
    throw new BroadsheetError(
      'INVALID_ARGUMENT',
      `--config ${path}: ${reason}; name a server.properties, or set single values with --set key=value`,
    );
  }
  return parseProperties(text);
}

function describe(broker: Broker): string {
  const server = broker.bootstrapServers.split(',')[0]!;
  const flag = server.endsWith(':9092') ? '' : ` -b ${server}`;
  return [
    `broadsheet listens on ${broker.bootstrapServers} and keeps its data in ${broker.dataDir}`,
    'Try, in another terminal:',
    `  echo hello | npx broadsheet produce greetings${flag}`,
    `  npx broadsheet consume greetings${flag}`,
    'Stop it with Ctrl-C.',
    '',
  ].join('\n');
}

const ADVICE: Readonly<Record<string, string>> = {
  LOCKED: 'a broker or a `broadsheet check` uses that directory; stop it, or choose another with --data',
  ADDRESS_IN_USE: 'stop it, or choose another port with --port (0 takes a free one)',
};

function explained(error: unknown): unknown {
  const advice = error instanceof BroadsheetError ? ADVICE[error.code] : undefined;
  if (!(error instanceof BroadsheetError) || advice === undefined) return error;
  return new BroadsheetError(error.code, `${error.message}: ${advice}`);
}

/** With 1,000 partitions one takes half of that. */
const LONG_START_MS = 1000;

/**
 * Runs `work` with V8 set for a start, and gives V8 its defaults back:
 * - The young generation stays as small as it begins. What a start makes lives on, so V8 would let it grow to its most, 16 MB that
 *   it keeps while idle; collecting a small one more often costs no more.
 * - On Node 20 (V8 11) nothing is optimized: with many partitions its compiler took more processor time than what it made then
 *   saved, and memory that stayed. Newer ones compile later, and save more than they take. So does a start that goes on: one that
 *   has much to compute (checksums of the JS engine after a kill, a topic of many commits) takes many times as long otherwise.
 */
async function withStartFlags<T>(work: () => Promise<T>): Promise<T> {
  const isOldV8 = Number.parseInt(process.versions.v8, 10) < 12;
  setFlagsFromString('--semi-space-growth-factor=1');
  if (isOldV8) setFlagsFromString('--no-opt');
  const optimize = () => {
    if (isOldV8) setFlagsFromString('--opt');
  };
  const longStart = setTimeout(optimize, LONG_START_MS);
  try {
    return await work();
  } finally {
    clearTimeout(longStart);
    setFlagsFromString('--semi-space-growth-factor=2');
    optimize();
  }
}

async function start(options: StartOptions): Promise<void> {
  const config = new Map([
    ...(options.config === undefined ? [] : readConfig(options.config)),
    ...(options.set ?? []),
  ]);
  const logger = createLogger(options.logLevel);
  const broker = await withStartFlags(() =>
    createBroker({
      dataDir: options.data,
      memory: options.memory,
      port: options.port,
      host: options.host,
      engine: options.engine,
      transport: options.transport,
      config: Object.fromEntries(config),
      logger,
    }),
  ).catch((error: unknown) => {
    throw explained(error);
  });
  process.stdout.write(describe(broker));
  let stopping = false;
  const stop = (signal: NodeJS.Signals) => {
    // A second signal means that whoever sent it does not want to wait for the clean stop.
    if (stopping) process.exit(1);
    stopping = true;
    logger.info({ signal }, 'stopping');
    broker.close().then(() => process.exit(0), exitWith);
  };
  process.on('SIGTERM', stop);
  process.on('SIGINT', stop);
}

export function define(command: Command): void {
  command
    .option('--data <dir>', 'directory for the data (default: log.dirs of the config, else ./data)')
    .option('--memory', 'for tests: keep the data in a temporary directory, and remove it at the end')
    .option(
      '--port <n>',
      'port to listen on (default: listeners of the config, else 9092; 0 takes a free one)',
      port,
    )
    .option('--host <host>', 'address to listen on (default: all)')
    .option('--config <file>', 'a server.properties file')
    .option('--set <key=value>', 'one configuration value, wins over the file; may be repeated', keyValue)
    .addOption(
      new Option(
        '--engine <name>',
        'what keeps the logs (default: engine of the config, else native where it loads)',
      ).choices(ENGINES),
    )
    .addOption(
      new Option('--transport <name>', 'what serves the sockets (default: as the engine)').choices(ENGINES),
    )
    .option('--log-level <level>', `one of ${LOG_LEVELS.join(', ')}`, logLevel, 'info')
    .action(start);
}

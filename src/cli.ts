#!/usr/bin/env node
/** The command line: `broadsheet start`. */
import { readFileSync } from 'node:fs';
import { Command, InvalidArgumentError } from 'commander';
import { parseProperties } from './config/properties.ts';
import { type Broker, createBroker } from './index.ts';
import { BroadsheetError } from './runtime/errors.ts';
import { createLogger, type LogLevel } from './runtime/logging.ts';

const LOG_LEVELS = ['debug', 'info', 'warn', 'error', 'silent'];

function port(text: string): number {
  const value = Number(text);
  if (!/^\d+$/.test(text) || value > 65535)
    throw new InvalidArgumentError('a port is a number from 0 to 65535.');
  return value;
}

function setting(text: string, all: Map<string, string> = new Map()): Map<string, string> {
  const at = text.indexOf('=');
  if (at <= 0) throw new InvalidArgumentError('write key=value.');
  return all.set(text.slice(0, at).trim(), text.slice(at + 1));
}

function logLevel(text: string): LogLevel {
  if (!LOG_LEVELS.includes(text)) throw new InvalidArgumentError(`one of ${LOG_LEVELS.join(', ')}.`);
  return text as LogLevel;
}

interface StartOptions {
  data?: string;
  port?: number;
  host?: string;
  config?: string;
  set?: Map<string, string>;
  logLevel: LogLevel;
}

function readConfig(path: string): Map<string, string> {
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    throw new BroadsheetError('INVALID_CONFIG', `--config: ${(error as Error).message}`);
  }
  return parseProperties(text);
}

function describe(broker: Broker): string {
  const server = broker.bootstrapServers.split(',')[0]!;
  return [
    `broadsheet listens on ${broker.bootstrapServers} and keeps its data in ${broker.dataDir}`,
    'Try, in another terminal:',
    `  echo hello | kcat -b ${server} -t greetings -P`,
    `  kcat -b ${server} -t greetings -C -e`,
    'Stop it with Ctrl-C.',
    '',
  ].join('\n');
}

async function start(options: StartOptions): Promise<void> {
  const config = new Map([
    ...(options.config === undefined ? [] : readConfig(options.config)),
    ...(options.set ?? []),
  ]);
  const logger = createLogger(options.logLevel);
  const broker = await createBroker({
    dataDir: options.data,
    port: options.port,
    host: options.host,
    config: Object.fromEntries(config),
    logger,
  });
  process.stdout.write(describe(broker));
  let stopping = false;
  const stop = (signal: NodeJS.Signals) => {
    // A second signal means that whoever sent it does not want to wait for the clean stop.
    if (stopping) process.exit(1);
    stopping = true;
    logger.info({ signal }, 'stopping');
    broker.close().then(() => process.exit(0), fail);
  };
  process.on('SIGTERM', stop);
  process.on('SIGINT', stop);
}

/** One clear line for what a user can mend, a stack for what only we can. */
function fail(error: unknown): never {
  const text = error instanceof BroadsheetError ? error.message : ((error as Error).stack ?? String(error));
  process.stderr.write(`broadsheet: ${text}\n`);
  process.exit(1);
}

const { version } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')) as {
  version: string;
};
const program = new Command('broadsheet').description('A Kafka broker you npm install').version(version);
program
  .command('start')
  .description('start a broker in the foreground')
  .option('--data <dir>', 'directory for the data (default: log.dirs of the config, else ./data)')
  .option(
    '--port <n>',
    'port to listen on (default: listeners of the config, else 9092; 0 takes a free one)',
    port,
  )
  .option('--host <host>', 'address to listen on (default: all)')
  .option('--config <file>', 'a server.properties file')
  .option('--set <key=value>', 'one configuration value, wins over the file; may be repeated', setting)
  .option('--log-level <level>', `one of ${LOG_LEVELS.join(', ')}`, logLevel, 'info')
  .action((options: StartOptions) => start(options).catch(fail));
program.parseAsync().catch(fail);

/** `broadsheet compact`: compacts topics in a data directory that no broker uses. */
import { access } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import type { Command } from 'commander';
import { createBroker } from '../index.ts';
import { BroadsheetError } from '../runtime/errors.ts';
import { createLogger } from '../runtime/logging.ts';
import { keyValue } from './arguments.ts';
import { bytesText, endWithReader, print, printJson, table } from './output.ts';
import { readConfig } from './start.ts';

interface CompactOptions {
  readonly config?: string;
  readonly set?: Map<string, string>;
  readonly json?: boolean;
}

async function compact(given: string, topics: readonly string[], options: CompactOptions): Promise<void> {
  endWithReader();
  const dataDir = resolve(given);
  await access(join(dataDir, 'meta.properties')).catch(() => {
    throw new BroadsheetError('NOT_FOUND', `${dataDir} is no data directory`);
  });
  const config = new Map([
    ...(options.config === undefined ? [] : readConfig(options.config)),
    ...(options.set ?? []),
  ]);
  const broker = await createBroker({
    ...{ dataDir, host: '127.0.0.1', port: 0, config: Object.fromEntries(config) },
    logger: createLogger('warn'),
  }).catch((error: unknown) => {
    if (!(error instanceof BroadsheetError) || error.code !== 'LOCKED') throw error;
    throw new BroadsheetError('LOCKED', `${error.message}: stop that broker first`);
  });
  try {
    const done = await broker.compact(topics.length > 0 ? topics : undefined);
    if (options.json) return await printJson(done);
    // Partitions that hold nothing say nothing.
    const rows = done
      .filter(({ bytesBefore }) => bytesBefore > 0)
      .map(({ topic, partition, bytesBefore, bytesAfter }) => [
        `${topic}:${partition}`,
        bytesText(bytesBefore),
        bytesText(bytesAfter),
      ]);
    await print(rows.length === 0 ? 'nothing to compact\n' : table(['partition', 'before', 'after'], rows));
  } finally {
    await broker.close();
  }
}

export function define(command: Command): void {
  command
    .argument('<dir>', 'the data directory')
    .argument('[topics...]', 'topics to compact (default: all whose cleanup.policy has compact)')
    .option('--config <file>', 'a server.properties file')
    .option('--set <key=value>', 'one configuration value, wins over the file; may be repeated', keyValue)
    .option('--json', 'print JSON')
    .action(compact);
}

/** The command line: `broadsheet <command>`. Each family of commands is a file of cli/, loaded when it is named. */
import { readFileSync } from 'node:fs';
import { Command } from 'commander';
import { exitWith } from './cli/failure.ts';
import { keepCompiledCode } from './runtime/compiled-code.ts';

interface Family {
  readonly description: string;
  readonly load: () => Promise<{ define(command: Command): void }>;
}

const FAMILIES: Readonly<Record<string, Family>> = {
  start: { description: 'start a broker in the foreground', load: () => import('./cli/start.ts') },
  topic: {
    description: 'list, describe, create, alter and delete topics',
    load: () => import('./cli/topic.ts'),
  },
  group: {
    description: 'list and describe groups, reset their offsets',
    load: () => import('./cli/group.ts'),
  },
  config: {
    description: 'describe, set and delete configs of topics, brokers, groups and clients',
    load: () => import('./cli/config.ts'),
  },
  produce: { description: 'send records from standard input', load: () => import('./cli/produce.ts') },
  consume: { description: 'print records', load: () => import('./cli/consume.ts') },
  dump: {
    description: 'show what is in a segment, index, snapshot or checkpoint',
    load: () => import('./cli/dump.ts'),
  },
  compact: {
    description: 'compact topics in a directory that no broker uses',
    load: () => import('./cli/compact.ts'),
  },
  backup: {
    description: 'copy a directory, whether a broker uses it or not',
    load: () => import('./cli/backup.ts'),
  },
  restore: { description: 'make a directory from a backup', load: () => import('./cli/restore.ts') },
  check: {
    description: 'look for damage in a directory that no broker uses',
    load: () => import('./cli/check.ts'),
  },
};

const { version } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')) as {
  version: string;
};
async function run(): Promise<void> {
  const program = new Command('broadsheet')
    .description('A Kafka broker you npm install, and a command line for any Kafka')
    .version(version)
    .showHelpAfterError('(--help shows what there is)')
    .exitOverride()
    .configureHelp({ showGlobalOptions: false });
  for (const [name, { description, load }] of Object.entries(FAMILIES)) {
    const command = program.command(name).description(description);
    // Before anything is parsed: `help topic` and a mistyped option need its options too.
    if (process.argv.includes(name, 2)) (await load()).define(command);
  }
  await program.parseAsync();
  // A broker says itself when it has run for long enough.
  if (process.argv[2] !== 'start') await keepCompiledCode();
}

run().catch(exitWith);

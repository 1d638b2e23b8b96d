/** The benchmarks' command line: which suites there are, at which scale they run, where results go. */
import { writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { idleConnections } from './budgets/connections.ts';
import { slowDisks } from './budgets/disk.ts';
import { garbage } from './budgets/garbage.ts';
import { brokers, kafkas } from './end-to-end/broker.ts';
import { durability } from './end-to-end/durability.ts';
import { fetches } from './end-to-end/fetch.ts';
import { sessions, sessionsOfKafka } from './end-to-end/sessions.ts';
import { idleConsumers } from './groups/idle.ts';
import { groupLoads } from './groups/load.ts';
import { groupRestarts } from './groups/rolling.ts';
import { cleanings } from './log/cleaner.ts';
import { appends } from './micro/append.ts';
import { parts } from './micro/parts.ts';
import { requests } from './micro/requests.ts';
import { recoveries } from './start/recovery.ts';
import { starts } from './start/start.ts';
import { type Comparison, line, type Scale } from './support.ts';
import { transactionOverhead } from './transactions/overhead.ts';

interface Suite {
  readonly about: string;
  readonly run: (scale: Scale) => Promise<Comparison[]>;
  /** Runs only when it is named: needs more than Node and a compiler. */
  readonly extra?: boolean;
}

const SUITES: Readonly<Record<string, Suite>> = {
  append: { about: "the native log's append against a bare loop of pwritev(2)", run: appends },
  parts: {
    about: 'checksums, inspection, index, frames, codecs: the native engine against the JS one',
    run: parts,
  },
  requests: { about: 'small requests: the native transport against net.Socket', run: requests },
  fetch: { about: 'ranges of a file: the native transport against a bare loop of sendfile(2)', run: fetches },
  broker: { about: 'Produce and Fetch: a whole broker against a bare server', run: brokers },
  kafka: {
    about: 'the same against Apache Kafka (BROADSHEET_KAFKA: a command that starts one); only when named',
    run: kafkas,
    extra: true,
  },
  durability: {
    about:
      'what each durability mode costs a produce, beside Apache Kafka if BROADSHEET_KAFKA is set; when named',
    run: durability,
    extra: true,
  },
  connections: {
    about: 'memory of 50 idle connections per member, by transport, beside Apache Kafka; only when named',
    run: idleConnections,
    extra: true,
  },
  garbage: {
    about: 'what requests leave to the collector of garbage, and its pauses, by engine; only when named',
    run: garbage,
    extra: true,
  },
  disk: {
    about:
      'how late the event loop is with a cold page cache and a throttled disk, by engine; only when named',
    run: slowDisks,
    extra: true,
  },
  groups: {
    about:
      'a rolling restart of all members of a group, in both protocols, beside Apache Kafka; only when named',
    run: groupRestarts,
    extra: true,
  },
  idle: {
    about:
      'consumers that wait for records, what they cost and how soon they have one, beside Apache Kafka; when named',
    run: idleConsumers,
    extra: true,
  },
  load: {
    about: 'a start with very many groups that have committed offsets, beside Apache Kafka; only when named',
    run: groupLoads,
    extra: true,
  },
  start: {
    about: 'from nothing to serving, beside a bare node and Apache Kafka; only when named; needs dist/',
    run: starts,
    extra: true,
  },
  recovery: {
    about:
      'a start after SIGKILL with 26 MiB in each partition, beside Apache Kafka; only when named; needs dist/',
    run: recoveries,
    extra: true,
  },
  cleaner: {
    about: 'compaction of a filled topic, beside Apache Kafka on a copy; only when named; needs dist/',
    run: cleanings,
    extra: true,
  },
  transactions: {
    about: 'idempotent and transactional over plain produce, beside Apache Kafka; only when named',
    run: transactionOverhead,
    extra: true,
  },
  sessions: { about: 'polls of 1,000 partitions: in a fetch session against without one', run: sessions },
  'sessions-kafka': {
    about: 'the same polls against those of Apache Kafka; only when named',
    run: sessionsOfKafka,
    extra: true,
  },
};

const MEBIBYTE = 1 << 20;
const FULL = { rounds: 7, seconds: 1, mebibytes: 64, members: 200 };
const SMALL = { rounds: 1, seconds: 0.1, mebibytes: 16, members: 10 };

export const USAGE = [
  'usage: npm run bench -- [SUITE...] [--small] [--rounds N] [--seconds S] [--mebibytes M] [--members N]',
  '       [--out FILE]',
  '',
  'Each suite compares with something that is run beside it, in rounds that take turns. Prints a line per result:',
  'median [min .. max] of ours / theirs, and last all results as one line of JSON.',
  '',
  ...Object.entries(SUITES).map(([name, { about }]) => `  ${name.padEnd(14)}${about}`),
  `  --small       all at a small scale, within a minute`,
  `  --rounds N    rounds of each comparison (${FULL.rounds})`,
  `  --seconds S   how long one measurement of requests takes (${FULL.seconds})`,
  `  --mebibytes M how much one measurement of bytes moves, a multiple of 8 (${FULL.mebibytes})`,
  `  --members N   of a group, with 5 partitions each; 5 idle consumers and 500 groups for each (${FULL.members})`,
  '  --out FILE    writes the results there too, as JSON',
].join('\n');

interface Plan {
  readonly suites: readonly string[];
  readonly scale: Scale;
  readonly out: string | undefined;
}

function number(
  text: string | undefined,
  otherwise: number,
  name: string,
  valid: (n: number) => boolean,
): number {
  const value = text === undefined ? otherwise : Number(text);
  if (!valid(value)) throw new RangeError(`--${name} ${text}`);
  return value;
}

/** Throws for what makes no sense. */
function plan(args: readonly string[]): Plan {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: {
      small: { type: 'boolean', default: false },
      rounds: { type: 'string' },
      seconds: { type: 'string' },
      mebibytes: { type: 'string' },
      members: { type: 'string' },
      out: { type: 'string' },
    },
  });
  const unknown = positionals.filter((name) => !Object.hasOwn(SUITES, name));
  if (unknown.length > 0) throw new RangeError(`no suite ${unknown.join(', ')}`);
  const scale = values.small ? SMALL : FULL;
  const whole = (n: number) => Number.isInteger(n) && n >= 1;
  return {
    suites: positionals.length > 0 ? positionals : Object.keys(SUITES).filter((name) => !SUITES[name]!.extra),
    scale: {
      rounds: number(values.rounds, scale.rounds, 'rounds', whole),
      seconds: number(values.seconds, scale.seconds, 'seconds', (n) => n > 0 && n <= 600),
      bytes:
        number(values.mebibytes, scale.mebibytes, 'mebibytes', (n) => whole(n) && n % 8 === 0) * MEBIBYTE,
      members: number(values.members, scale.members, 'members', whole),
    },
    out: values.out,
  };
}

/** Runs what the arguments ask for; gives the exit code. */
export async function bench(args: readonly string[], print: (text: string) => void): Promise<number> {
  let what: Plan;
  try {
    what = plan(args);
  } catch (error) {
    print(`bench: ${(error as Error).message}\n\n${USAGE}`);
    return 2;
  }
  const results: (Comparison & { suite: string })[] = [];
  for (const suite of what.suites) {
    for (const result of await SUITES[suite]!.run(what.scale)) {
      print(line(result));
      results.push({ suite, ...result });
    }
  }
  const json = JSON.stringify(results);
  if (what.out !== undefined) writeFileSync(what.out, `${json}\n`);
  print(json);
  return 0;
}

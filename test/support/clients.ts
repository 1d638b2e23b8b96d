/** The clients that the interop suite runs: each is a driver under test/interop/clients, with its own manifest and
 * lockfile, installed from its language's registry into .cache/clients by `npm run clients`. */
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { scaled } from './scale.ts';

const SOURCES = fileURLToPath(new URL('../interop/clients', import.meta.url));
/** Where clients are installed; one that is here with the right stamp is not installed again. */
export const CACHE =
  process.env.BROADSHEET_CLIENTS ?? fileURLToPath(new URL('../../.cache/clients', import.meta.url));

export interface Step {
  readonly command: string;
  readonly args: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** Folder inside the client's own. */
  readonly cwd?: string;
}

export interface ClientKind {
  readonly name: string;
  /** Files that the driver shares with others of its language, copied beside it. */
  readonly shared: readonly string[];
  /** Run in its folder, one after the other, to install packages and build the driver. */
  readonly install: readonly Step[];
  /** Compiles librdkafka, for minutes: only run at full size, since confluent-kafka's binary is the same library. */
  readonly compiles?: boolean;
  /** The driver's command, run in its folder; the broker's address comes after it. */
  readonly run: readonly string[];
}

const NODE_SHARED = ['line-protocol.js'];
const GO_SHARED = ['line_protocol.go'];
const JAVA_SHARED = ['Driver.java'];
const PYTHON_SHARED = ['line_protocol.py'];
const npm: Step = { command: 'npm', args: ['ci', '--ignore-scripts', '--no-audit', '--no-fund'] };
const PIP = 'venv/bin/pip';
const python: readonly Step[] = [
  { command: 'python3', args: ['-m', 'venv', 'venv'] },
  { command: PIP, args: ['install', '--quiet', '--no-deps', '-r', 'requirements.txt'] },
];
const go: readonly Step[] = [
  { command: 'go', args: ['build', '-mod=readonly', '-buildvcs=false', '-o', 'driver', '.'] },
];
const java = (main: string): readonly Step[] => [
  { command: 'mvn', args: ['-q', '-B', 'dependency:copy-dependencies', '-DoutputDirectory=lib'] },
  { command: 'javac', args: ['-cp', 'lib/*', '-d', 'classes', `${main}.java`] },
];
const runJava = (main: string) => [
  'java',
  '-Xmx256m',
  '-XX:+UseSerialGC',
  '-XX:TieredStopAtLevel=1',
  '-cp',
  'classes:lib/*',
  main,
];
const runPython = ['venv/bin/python', 'driver.py'];

const ALL: readonly ClientKind[] = [
  { name: 'kafkajs', shared: NODE_SHARED, install: [npm], run: [process.execPath, 'driver.js'] },
  {
    name: 'kafka-javascript',
    shared: NODE_SHARED,
    install: [
      npm,
      {
        // Its own install script looks for a binary at a place that is no package registry, and fetches OpenSSL and curl
        // from others to build one. Linked dynamically, the same build takes the system's.
        command: 'npm',
        args: ['exec', '--no', '--', 'node-pre-gyp', 'install', '--build-from-source'],
        cwd: 'node_modules/@confluentinc/kafka-javascript',
        env: { CKJS_LINKING: 'dynamic', npm_config_nodedir: join(process.execPath, '../..') },
      },
    ],
    compiles: true,
    run: [process.execPath, 'driver.js'],
  },
  {
    name: 'platformatic',
    shared: NODE_SHARED,
    install: [npm],
    // It needs a newer Node than we do; this one is a package.
    run: [`node_modules/node-linux-${process.arch}/bin/node`, 'driver.js'],
  },
  { name: 'confluent-kafka', shared: PYTHON_SHARED, install: python, run: runPython },
  { name: 'aiokafka', shared: PYTHON_SHARED, install: python, run: runPython },
  { name: 'franz-go', shared: GO_SHARED, install: go, run: ['./driver'] },
  { name: 'sarama', shared: GO_SHARED, install: go, run: ['./driver'] },
  { name: 'kafka-clients-4.4', shared: JAVA_SHARED, install: java('Driver'), run: runJava('Driver') },
  { name: 'kafka-clients-2.8', shared: JAVA_SHARED, install: java('Driver'), run: runJava('Driver') },
  {
    name: 'rdkafka',
    shared: [],
    install: [{ command: 'cargo', args: ['build', '--release', '--locked', '--quiet'] }],
    compiles: true,
    run: ['target/release/driver'],
  },
];

/** An application of Kafka Streams: no driver of the line protocol. Its own test installs it. */
export const STREAMS_APP: ClientKind = {
  name: 'kafka-streams-4.4',
  shared: [],
  install: java('WordCount'),
  run: runJava('WordCount'),
};

/** What runs at the size that was asked for. */
export const CLIENTS = scaled(
  ALL.filter(({ compiles }) => compiles !== true),
  ALL,
);

export interface SourceFile {
  readonly from: string;
  /** Relative to the client's folder in the cache. */
  readonly to: string;
}

/** Everything of a client that is in this repository. */
export function sourcesOf(client: ClientKind): SourceFile[] {
  const dir = join(SOURCES, client.name);
  const own = readdirSync(dir, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .map((from) => ({ from, to: from.slice(dir.length + 1) }));
  const shared = client.shared.map((name) => ({ from: join(SOURCES, name), to: name }));
  return [...own, ...shared].sort((a, b) => (a.to < b.to ? -1 : 1));
}

/** Changes with whatever makes another installation necessary. */
export function stampOf(client: ClientKind): string {
  const hash = createHash('sha256');
  hash.update(JSON.stringify([client.install, process.version, process.arch]));
  for (const { from, to } of sourcesOf(client))
    hash.update(`${to}\0`).update(readFileSync(from)).update('\0');
  return hash.digest('hex');
}

export const dirOf = (client: ClientKind) => join(CACHE, client.name);
export const stampFileOf = (client: ClientKind) => join(dirOf(client), '.installed');

export function isInstalled(client: ClientKind): boolean {
  const file = stampFileOf(client);
  return existsSync(file) && readFileSync(file, 'utf8') === stampOf(client);
}

/** Apache Kafka's own command line tools, run against this broker and against Apache Kafka, and what they print compared. */
import { type ChildProcess, spawn } from 'node:child_process';
import { createInterface, type Interface } from 'node:readline';
import { setTimeout } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { Client } from '../../src/client/client.ts';
import { BrokerProcess } from './broker-process.ts';
import { KAFKA, KafkaPeer } from './kafka-peer.ts';

const SERVER = fileURLToPath(new URL('./ToolServer.java', import.meta.url));
/** Compiles and runs a source file, as `java FILE` does. */
export const SOURCE_LAUNCHER = 'com.sun.tools.javac.launcher.Main';

/** Tools by the name of their script, without `kafka-`. */
const CLASSES = {
  'broker-api-versions': 'BrokerApiVersionsCommand',
  'client-metrics': 'ClientMetricsCommand',
  cluster: 'ClusterTool',
  configs: 'ConfigCommand',
  'consumer-groups': 'consumer.group.ConsumerGroupCommand',
  'delete-records': 'DeleteRecordsCommand',
  features: 'FeatureCommand',
  'get-offsets': 'GetOffsetShell',
  groups: 'GroupsCommand',
  'leader-election': 'LeaderElectionCommand',
  'log-dirs': 'LogDirsCommand',
  'metadata-quorum': 'MetadataQuorumCommand',
  'reassign-partitions': 'reassign.ReassignPartitionsCommand',
  'streams-groups': 'streams.StreamsGroupCommand',
  topics: 'TopicCommand',
  transactions: 'TransactionsCommand',
} as const;

export type ToolName = keyof typeof CLASSES;

export interface ToolResult {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** One JVM that runs tools, one at a time. */
export class KafkaTools {
  readonly #child: ChildProcess;
  readonly #lines: Interface;
  readonly #waiting: { resolve(result: ToolResult): void; reject(error: Error): void }[] = [];
  #log = '';

  constructor() {
    this.#child = spawn(KAFKA, ['tool', SOURCE_LAUNCHER, SERVER], { stdio: ['pipe', 'pipe', 'pipe'] });
    this.#lines = createInterface({ input: this.#child.stdout! });
    this.#lines.on('line', (line) => {
      const [code, stdout, stderr] = line.split(' ');
      this.#waiting.shift()?.resolve({ code: Number(code), stdout: decode(stdout), stderr: decode(stderr) });
    });
    this.#child.stderr!.on('data', (chunk: Buffer) => {
      this.#log = (this.#log + chunk.toString()).slice(-10_000);
    });
    this.#child.on('close', (code) => {
      const error = new Error(`the JVM of the tools ended with ${code}:\n${this.#log}`);
      for (const waiting of this.#waiting.splice(0)) waiting.reject(error);
    });
  }

  run(tool: ToolName, ...args: readonly string[]): Promise<ToolResult> {
    const words = [`org.apache.kafka.tools.${CLASSES[tool]}`, ...args];
    return new Promise((resolve, reject) => {
      this.#waiting.push({ resolve, reject });
      this.#child.stdin!.write(`${words.map((word) => Buffer.from(word).toString('base64')).join(' ')}\n`);
    });
  }

  close(): void {
    this.#child.stdin!.end();
  }
}

function decode(base64: string | undefined): string {
  return base64 === undefined || base64 === '-' ? '' : Buffer.from(base64, 'base64').toString();
}

/** One of the two brokers, as a tool is told of it. */
export interface ToolPeer {
  readonly name: 'kafka' | 'broadsheet';
  /** host:port */
  readonly address: string;
  /** The log directory. */
  readonly dataDir: string;
}

/** What is known to differ: Kafka's text with `kafka` replaced by `ours` is compared. */
export interface Difference {
  /** Why, as docs/DIFFERENCES.md has it. */
  readonly reason: string;
  /** Must match, or the difference is no more. */
  readonly kafka: RegExp;
  readonly ours: string;
}

export interface CompareOptions {
  /** The order of lines means nothing. */
  readonly sorted?: boolean;
  readonly except?: readonly Difference[];
  /** Takes out what may differ in this output, besides what normalised() does. */
  readonly normalise?: (text: string, peer: ToolPeer) => string;
}

/** The same for both, or what each is told, where that names what only one has. */
export type ToolArguments = readonly string[] | ((peer: ToolPeer) => readonly string[]);

export interface Compared {
  /** What both printed. */
  readonly kafka: string;
  readonly ours: string;
}

/** Removes what two brokers may differ in: ids, addresses, folders, times, and the words of errors, which are our own. The
 * kind of an error stays. */
export function normalised(text: string, peer: ToolPeer): string {
  const [host, port] = peer.address.split(':') as [string, string];
  return text
    .replaceAll(peer.dataDir, '<log-dir>')
    .replaceAll(peer.address, '<address>')
    .replaceAll(new RegExp(`\\b${host.replaceAll('.', '\\.')}(\\s+|\\W)${port}\\b`, 'g'), '<host>$1<port>')
    .replaceAll(/\b(TopicId: |Topic ID: |ClusterId: +|Cluster ID: )[A-Za-z0-9_-]{22}/g, '$1<id>')
    .replaceAll(/\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\]/g, '<time>')
    .replaceAll(/^\s+at .*\n/gm, '')
    .replaceAll(/^\s*\.\.\. \d+ more\n/gm, '')
    .replaceAll(/\b((?:[a-z]+\.)+[A-Z]\w*(?:Exception|Error)): .*$/gm, '$1: <text>')
    .replaceAll(/^(Error while executing \w+ command ?:?) .*$/gm, '$1 <text>')
    .trimEnd();
}

export interface ToolPeersOptions {
  /** An empty folder. */
  readonly dir: string;
  readonly kafkaPort: number;
  /** Of both, besides what the peer's command sets. */
  readonly config?: Readonly<Record<string, string>>;
}

/** Both brokers, and the tools. */
export class ToolPeers {
  readonly kafka: ToolPeer;
  readonly ours: ToolPeer;
  readonly tools = new KafkaTools();
  readonly #kafka: KafkaPeer;
  readonly #broker: BrokerProcess;

  static async start({ dir, kafkaPort, config = {} }: ToolPeersOptions): Promise<ToolPeers> {
    const kafka = new KafkaPeer(`${dir}/kafka`, kafkaPort);
    const settings = Object.entries(config).map(([key, value]) => `${key}=${value}`);
    const [broker] = await Promise.all([
      BrokerProcess.start(`${dir}/broadsheet`, { config }),
      kafka.start(...settings),
    ]);
    return new ToolPeers(dir, kafka, broker);
  }

  private constructor(dir: string, kafka: KafkaPeer, broker: BrokerProcess) {
    this.#kafka = kafka;
    this.#broker = broker;
    this.kafka = { name: 'kafka', address: kafka.address, dataDir: kafka.dataDir };
    this.ours = { name: 'broadsheet', address: broker.address, dataDir: `${dir}/broadsheet` };
  }

  /** Runs a tool against one of them. */
  run(peer: ToolPeer, tool: ToolName, args: ToolArguments): Promise<ToolResult> {
    const own = [...(typeof args === 'function' ? args(peer) : args)];
    // Of kafka-cluster the address is an option of the command behind it.
    const command = tool === 'cluster' ? own.splice(0, 1) : [];
    return this.tools.run(tool, ...command, '--bootstrap-server', peer.address, ...own);
  }

  /** Waits until Apache Kafka serves partitions that it has just made: it answers before it does. */
  async untilServed(topic: string, partitions: number): Promise<void> {
    const all = Array.from({ length: partitions }, (_, index) => [topic, index] as const);
    await this.#kafka.untilLeading(all);
  }

  /** Waits until Apache Kafka has forgotten a topic: it answers before it has. */
  async untilGone(topic: string): Promise<void> {
    const client = await Client.connect(this.kafka.address);
    while ((await client.metadata([topic])).topics[0]?.errorCode === 0) await setTimeout(50);
    await client.close();
  }

  /** Runs a tool against both: Kafka first. The texts hold the exit code, stdout and stderr; equal texts mean that the
   * tool says the same. */
  async compare(tool: ToolName, args: ToolArguments, options: CompareOptions = {}): Promise<Compared> {
    const texts: string[] = [];
    for (const peer of [this.kafka, this.ours]) {
      const result = await this.run(peer, tool, args);
      texts.push(asText(result, peer, options));
    }
    let [kafka, ours] = texts as [string, string];
    for (const { reason, kafka: pattern, ours: replacement } of options.except ?? []) {
      const adapted = kafka.replace(pattern, replacement);
      if (adapted === kafka && !pattern.test(kafka)) {
        throw new Error(`Kafka no longer differs (${reason}): ${pattern} is not in\n${kafka}`);
      }
      kafka = adapted;
    }
    return options.sorted === true ? { kafka: sortLines(kafka), ours: sortLines(ours) } : { kafka, ours };
  }

  async close(): Promise<void> {
    this.tools.close();
    await this.#broker.kill();
    await this.#kafka.dispose();
  }
}

function asText({ code, stdout, stderr }: ToolResult, peer: ToolPeer, options: CompareOptions): string {
  const parts = [`exit ${code}`, stdout.trimEnd()];
  if (stderr.trim() !== '') parts.push('stderr:', stderr);
  const text = normalised(parts.join('\n'), peer);
  return options.normalise?.(text, peer) ?? text;
}

function sortLines(text: string): string {
  return text.split('\n').sort().join('\n');
}
